"""hdl/qr/solver: what it cannot be. Its weights and its cycles are judged in tests/qr/test_engine.py."""

from __future__ import annotations

import pytest

from penstock.hdl.qr.solver import Solver
from penstock.models.qr.config import FitPlan


def test_too_few_lanes():
    with pytest.raises(ValueError, match="a row a cycle"):
        Solver(FitPlan(n_max=6, lanes=5))
