"""Whole recurrences from their text: golden within the stated bound of what NumPy computes in float64 from that text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from penstock.host.sources.errors import SourceError
from testbench.recurrences import Written, beyond, drawn
from testbench.searched import searched

SHAPES = {"S": ("k", "v"), "d": ("k",), "q": ("k",), "e": ("v",), "w": ("v",), "a": (), "b": ()}
#: sizes, lines and reading of what failed once
KEPT = [
    # two products alike, and a third one that shares the vector that they were not joined by
    ((3, 2), "S <- S + outer(d, w) - 2 * outer(d, w) + outer(d, e)", "(S @ e)"),
    ((3, 2), "S <- S + outer(d, w) - 2 * outer(d, w) + outer(q, w)", "(q @ S)"),
    # one column, or row: a factor of a sum, then another product
    ((3, 1), "S <- (S + outer(q, w)) * e + outer(d, w)", "(S @ e)"),
    ((1, 3), "S <- (S + outer(q, w)) / d[:, None] + outer(d, e)", "(q @ S)"),
]


def held(made: Written, path: Path | None = None) -> str:
    """Hold a kernel, or the Python function where there is a path for it, to float64; return how it ended."""
    design = made.compiled(path)
    options = {"tokens": made.tokens, "first": 0, "on_overflow": "saturate"}
    try:
        run = design.run(made.arrays, backend="golden", **options)
    except SourceError as refusal:  # what the host makes of results is no number
        assert refusal.code == "E842" and len(design.recurrent.passes) > 1
        return "refused"
    wrong = beyond(made, design, run)
    assert wrong in ([], ["saturated"], ["unbounded"]), (made, wrong)
    passes = " of passes" * (len(design.recurrent.passes) > 1)
    return (*wrong, design.recurrent.mode + " turned" * design.recurrent.turned + passes)[0]


def held_all(examples: int, folder: Path) -> None:
    """Every fourth is a Python function."""
    ends: Counter[str] = Counter()

    def run(random: Random) -> None:
        python = folder / f"f{ends.total()}.py" if random.randrange(4) == 0 else None
        ends[held(drawn(random), python)] += 1

    searched(examples, run)
    print(ends)
    # few of them judge nothing; Hypothesis draws some that are much alike
    assert ends["saturated"] <= 0.04 * examples and ends["unbounded"] <= 4 + 0.01 * examples
    assert ends["refused"] <= 0.01 * examples
    kinds = {end.removesuffix(" of passes") for end in ends} - {"saturated", "unbounded", "refused"}
    assert len(kinds) == 4  # updates either way, scores, attention
    # how many depends on the modules that are loaded, whose constants Hypothesis draws
    assert sum(ends[end] for end in ends if end.endswith(" of passes")) >= 0.01 * examples


def test_kernels_are_as_float64_has_them(tmp_path):
    for (k, v), line, reading in KEPT:
        options = {"format": "float16", "heads": 1, "batch": 1}
        held(Written(SHAPES, {"k": k, "v": v}, (line,), reading, "{r}", options))
    held_all(100, tmp_path)


@pytest.mark.long
def test_many_kernels_are_as_float64_has_them(tmp_path):
    held_all(4000, tmp_path)
