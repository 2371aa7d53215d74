"""Every recurrence on every kind of device: RTL beside golden and model, for random shapes and memories.

A build of a device serves all recurrences whose states take as many rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.load import load_kernel
from penstock.outcome import differences

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
UPDATES = ("retnet", "gla", "hgrn2", "mamba2")
CACHES = ("score", "attend")
MEMORIES = ("latency=20,bytes=8", "hbm2", "ddr4-2400", "sdr-166")
ROWS = 4


def shaped(rng: np.random.Generator, name: str, options: dict[str, Any]) -> Any:
    """Return a design of random shape whose state takes ROWS rows of each bank."""
    kernel = load_kernel(str(EXAMPLES / f"{name}.psk"))
    while True:
        sizes = {dim: int(rng.integers(1, 200)) for dim in kernel.dim_names}
        items = {"heads": int(rng.integers(1, 4)), "batch": int(rng.integers(1, 3))}
        design = ps.compile(kernel, dims=sizes, target="small", **items, **options)
        if design.device.rows == ROWS:
            return design


def matrix(seed: int, names: tuple[str, ...], **options: Any) -> None:
    """Run each recurrence on the RTL, each with another memory."""
    rng = np.random.default_rng(seed)
    for number, name in enumerate(names):
        design = shaped(rng, name, options)
        for turn in range(2):
            memory = MEMORIES[(2 * number + turn) % len(MEMORIES)]
            given = {"memory": memory, "tokens": int(rng.integers(1, 4)), "seed": turn + 1}
            golden, model, rtl = (
                design.run("random:", backend=b, **given) for b in ("golden", "model", "rtl")
            )
            where = (name, design.recurrent.sizes, memory)
            assert differences(golden, rtl) == [], where
            assert model.cycles == rtl.cycles, where
            assert model.counters["stalled"] == rtl.counters["stalled"], where
            assert golden.counters["saturated"] == rtl.counters["saturated"], where


def test_all_recurrences_on_one_device():
    matrix(1, UPDATES + CACHES, banks=2, rounding="nearest")


@pytest.mark.long
def test_all_recurrences_in_float16():
    matrix(2, UPDATES + CACHES, banks=2, format="float16")


@pytest.mark.long
@pytest.mark.parametrize("format", ["mx8", "float16"])
@pytest.mark.parametrize("unit", ["per-bank", "time-multiplexed", "hbm-pim"])
def test_updates_on_other_designs(unit, format):
    matrix(3, UPDATES, banks=2, unit=unit, format=format)


@pytest.mark.long
@pytest.mark.parametrize("format", ["mx8", "float16"])
@pytest.mark.parametrize(("schedule", "banks"), [("halves", 4), ("quarters", 8)])
def test_all_recurrences_staggered(schedule, banks, format):
    matrix(4, UPDATES + CACHES, schedule=schedule, banks=banks, format=format, rounding="nearest")
