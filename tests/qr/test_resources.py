"""Estimates of fits over keys: what `penstock build` placed of a whole device is met."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import penstock as ps
from penstock.boards.catalogue import boards
from penstock.dsl.core.load import from_text
from penstock.dsl.qr.plan import lower
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Label, Method
from penstock.models.qr.resources import estimate
from penstock.models.resources import Resources
from testbench.memories import memories_of

SLOT9 = "fit slot9(key: key)\n  model <- least_squares(window(key, 8), target=slot(key))\n"
#: what nextpnr-ecp5 packed of it (docs/howto/boards.md)
PACKED = Resources(59_348, 40_022, 128, 79)


def test_as_packed() -> None:
    part = boards()["ulx3s-85f"]
    plan = replace(
        lower(from_text(SLOT9, "slot9.psk").trace(), part), bus_bytes=16, gram_lanes=45, jobs=11
    )
    found = estimate(plan, part)
    assert plan.n_max == 9 and found.dsp == PACKED.dsp
    assert abs(found.lut / PACKED.lut - 1) < 0.02 and abs(found.ff / PACKED.ff - 1) < 0.02
    assert found.bram == PACKED.bram


_SLOTS = {"target": Label.SLOT}
_GIVENS = {"method": Method.GIVENS, "gram_lanes": 14}


@pytest.mark.parametrize(
    "options",
    [
        {**_SLOTS, "bus_bytes": 64, "gram_lanes": 12, "solvers": 2},
        {**_SLOTS, **_GIVENS, "n_max": 7, "jobs": 5},
        pytest.param({"row_units": 2}, marks=pytest.mark.long),
        pytest.param(_GIVENS, marks=pytest.mark.long),
    ],
)
def test_memories_of_the_hardware(options: Any) -> None:
    """All with clocked reads."""
    kernel = from_text(SLOT9, "slot9.psk")
    sizes = {"n_max": 5, "bus_bytes": 32, "jobs": 3, "contexts": 3, "gram_lanes": 28}
    design = replace(ps.compile(kernel, "vu9p").compiled, plan=FitPlan(**{**sizes, **options}))
    assert design.plan.built
    counted: Counter[Any] = Counter()
    for copies, memory in design.storages():
        counted[memory] += copies
    found = {memory: copies for memory, copies in memories_of(design).items() if memory.clocked}
    assert counted == found
