"""Recurrences of any kind on every kind of device: RTL beside golden and model, golden beside float64, for random shapes and memories.

A build of a device serves all recurrences whose states take as many rows.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from penstock.runs.outcome import differences
from testbench.recurrences import beyond, drawn

MEMORIES = ("latency=20,bytes=8", "hbm2", "ddr4-2400", "sdr-166")
ROWS = 4


def matrix(seed: int, **options: Any) -> None:
    """Run eight kernels whose state takes ROWS rows of each bank on the RTL, each with another memory."""
    fixed = {"format": "mx8", "rounding": "stochastic", "unit": "pimba", "schedule": "together"}
    if options.get("format") == "float16":
        options["rounding"] = "nearest"
    random, found = Random(seed), 0
    while found < 8:
        made = drawn(random, **fixed | options)
        design = made.compiled()
        if design.device.rows != ROWS:
            continue
        given = {
            "memory": MEMORIES[found % len(MEMORIES)],
            "tokens": made.tokens,
            "first": 0,
            "on_overflow": "saturate",
        }
        found += 1
        golden, model, rtl = (
            design.run(made.arrays, backend=b, **given) for b in ("golden", "model", "rtl")
        )
        assert beyond(made, design, golden) in ([], ["saturated"], ["unbounded"]), made
        assert differences(golden, rtl) == [], made
        assert model.cycles == rtl.cycles, made
        for counter, of in (("stalled", model), ("saturated", golden)):
            assert of.counters[counter] == rtl.counters[counter], made


def test_all_recurrences_on_one_device():
    matrix(1, banks=2, rounding="nearest")


@pytest.mark.long
def test_all_recurrences_in_float16():
    matrix(2, banks=2, format="float16")


@pytest.mark.long
@pytest.mark.parametrize("format", ["mx8", "float16"])
@pytest.mark.parametrize("unit", ["per-bank", "time-multiplexed", "hbm-pim"])
def test_updates_on_other_designs(unit, format):
    matrix(3, banks=2, unit=unit, format=format)


@pytest.mark.long
@pytest.mark.parametrize("format", ["mx8", "float16"])
@pytest.mark.parametrize(("schedule", "banks"), [("halves", 4), ("quarters", 8)])
def test_all_recurrences_staggered(schedule, banks, format):
    matrix(4, schedule=schedule, banks=banks, format=format, rounding="nearest")
