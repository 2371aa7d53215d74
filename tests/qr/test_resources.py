"""Estimates of fits over keys: what `penstock build` placed of a whole device is met, and what keeping blocks of rows takes."""

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
from penstock.models.qr.job import Bounds, Label, Method, Sums
from penstock.models.qr.ranks import BLOCK_BITS
from penstock.models.qr.resources import estimate
from penstock.models.resources import Resources
from penstock.targets import target_named as target
from testbench.memories import memories_of

SLOT9 = "fit slot9(key: key)\n  model <- least_squares(window(key, 8), target=slot(key))\n"
#: what nextpnr-ecp5 packed of it (docs/boards.md)
PACKED = Resources(59_348, 40_022, 128, 79)


def test_as_packed() -> None:
    part = boards()["ulx3s-85f"]
    plan = lower(from_text(SLOT9, "slot9.psk").trace(), part)
    found = estimate(plan, part)
    assert plan.n_max == 9 and found.dsp == PACKED.dsp
    assert abs(found.lut / PACKED.lut - 1) < 0.02 and abs(found.ff / PACKED.ff - 1) < 0.02
    assert found.bram == PACKED.bram


_SLOTS = {"target": Label.SLOT, "bounds": Bounds.WIDENED, "sums": Sums.INCREMENTAL}
_BLOCKS = {**_SLOTS, "target": Label.RANK, "blocks": 16}
_GIVENS = {"method": Method.GIVENS, "gram_lanes": 1, "lanes": 2}


@pytest.mark.parametrize(
    "options",
    [
        {**_BLOCKS, "bus_bytes": 64},
        {**_BLOCKS, **_GIVENS, "n_max": 7, "jobs": 5, "lanes": 4},
        pytest.param({**_SLOTS, "gram_lanes": 12, "solvers": 2}, marks=pytest.mark.long),
        pytest.param({"row_units": 2}, marks=pytest.mark.long),
        pytest.param({**_GIVENS, "vectors": 2}, marks=pytest.mark.long),
    ],
)
def test_memories_of_the_hardware(options: Any) -> None:
    """All with clocked reads."""
    kernel = from_text(SLOT9, "slot9.psk")
    sizes = {"n_max": 5, "bus_bytes": 32, "jobs": 3, "contexts": 3, "gram_lanes": 28, "lanes": 7}
    design = replace(ps.compile(kernel, "vu9p"), plan=FitPlan(**{**sizes, **options}))
    assert design.plan.built
    counted: Counter[Any] = Counter()
    for copies, memory in design.storages():
        counted[memory] += copies
    found = {memory: copies for memory, copies in memories_of(design).items() if memory.clocked}
    assert counted == found


@pytest.mark.parametrize("columns", [6, 17])
def test_blocks_are_kept_in_look_up_tables(columns: int) -> None:
    """What records change lies in two banks of a number a column for each block, with two readers. A
    look-up table of an UltraScale+ holds 64 bits for one reader (UG574); besides there is a flag in
    each bank, and what sets and reads it."""
    part, found = target("vu9p"), []
    for blocks in (128, 256):
        plan = FitPlan(
            n_max=columns,
            target=Label.RANK,
            sums=Sums.INCREMENTAL,
            blocks=blocks,
            gram_lanes=columns * (columns + 1) // 2,
            bus_bytes=32,
            lanes=columns,
            jobs=4,
        )
        found.append(estimate(plan, part))
    bits = 2 * 128 * BLOCK_BITS * columns
    assert found[1].lut - found[0].lut == 2 * bits // 64 + 4 * 128
    assert found[1].ff > found[0].ff + 2 * 128 and found[0].dsp == found[1].dsp
