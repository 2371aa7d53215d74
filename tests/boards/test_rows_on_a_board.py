"""Factors of 10,000 users and items in a board's SDRAM: the whole device trains as golden says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps

EXAMPLE = Path(__file__).parents[2] / "examples" / "lrmf.psk"


@pytest.mark.long
def test_factors() -> None:
    """240 ratings, twice; rows and pages take the chip in turn."""
    rng, count = np.random.default_rng(30), 240
    table = {name: (rng.zipf(1.3, count) % 10_000).astype(np.int32) for name in "ui"}
    table["r"] = rng.uniform(-1, 1, count).astype(np.float32)
    dims = {"m": 10_000, "n": 10_000, "k": 4}
    design = ps.compile(EXAMPLE, "ulx3s-85f-sdram", table, "fixed:8,16", dims=dims, epochs=2)
    golden, run = (design.run(table, backend=backend) for backend in ("golden", "board"))
    assert not run.errors and run.counters["tuples"] == 2 * count
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name
