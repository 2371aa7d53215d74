"""Factors of 10,000 users and items in a board's SDRAM: the whole device trains as golden says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from testbench.sdram_board import Sparse, ratings

EXAMPLE = Path(__file__).parents[2] / "examples" / "lrmf.psk"


def test_the_judge_of_a_placed_board() -> None:
    """Rows that no rating touches stay off its wire, and the RTL behind it gives golden's bits for all others."""
    table, dims = ratings(600, 6), {"m": 600, "n": 600, "k": 2}
    place = {"P": "memory", "Q": "memory"}
    design = ps.compile(
        EXAMPLE, "ulx3s-85f-sdram", table, "fixed:8,8", dims=dims, epochs=2, place=place
    )
    golden = design.run(table)
    with design.compiled.device_in_simulation(1 << 20) as device:
        judged = Sparse(device, design.compiled.plan, [table["u"], table["i"]])
        run = design.run(table, backend="board", device=judged)
    assert judged.content and not run.errors
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name


@pytest.mark.long
def test_factors() -> None:
    """240 ratings, twice; rows and pages take the chip in turn."""
    table, count = ratings(10_000, 240), 240
    dims = {"m": 10_000, "n": 10_000, "k": 4}
    design = ps.compile(EXAMPLE, "ulx3s-85f-sdram", table, "fixed:8,16", dims=dims, epochs=2)
    golden, run = (design.run(table, backend=backend) for backend in ("golden", "board"))
    assert not run.errors and run.counters["tuples"] == 2 * count
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name
