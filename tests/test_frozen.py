"""Designs and their runs stay what they are: `tests/frozen.json` has digests, which `tests/frozen.py` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbench.frozen import SUBJECTS, digests

FROZEN = json.loads(Path(__file__).with_name("frozen.json").read_text(encoding="utf-8"))
#: one of each engine and kind; the others are compared with --long
FEW = ("linear.py", "closed_form.py", "mamba2.py", "rank_model.py:slots", "kernel with rows 1")


def test_all_are_frozen() -> None:
    assert [*FROZEN] == [*SUBJECTS]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FEW else pytest.mark.long) for name in SUBJECTS],
)
def test_frozen(name: str, tmp_path: Path) -> None:
    assert digests(SUBJECTS[name](), tmp_path) == FROZEN[name]
