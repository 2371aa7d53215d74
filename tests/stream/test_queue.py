"""hdl/stream/queue.py: what no Queue can be. What they do is proven (tests/proofs/parts/stream.py)."""

from __future__ import annotations

import pytest

from penstock.hdl.stream import Queue


def test_depth():
    with pytest.raises(ValueError, match=r"^depth must be an integer of at least 1, not 0$"):
        Queue(8, 0)
