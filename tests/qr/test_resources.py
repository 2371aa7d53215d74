"""Estimates of fits over keys: what `penstock build` placed of a whole device is met, and what keeping blocks of rows takes."""

from __future__ import annotations

import pytest

from penstock.boards.catalogue import boards
from penstock.dsl.core.load import from_text
from penstock.dsl.qr.plan import lower
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Label, Sums
from penstock.models.qr.ranks import BLOCK_BITS
from penstock.models.qr.resources import estimate
from penstock.models.resources import Resources
from penstock.targets import target_named as target

SLOT9 = "fit slot9(key: key)\n  model <- least_squares(window(key, 8), target=slot(key))\n"
#: what nextpnr-ecp5 packed of it (docs/boards.md)
PACKED = Resources(59_348, 40_022, 128, 79)


def test_as_packed() -> None:
    part = boards()["ulx3s-85f"]
    plan = lower(from_text(SLOT9, "slot9.psk").trace(), part)
    found = estimate(plan, part)
    assert plan.n_max == 9 and found.dsp == PACKED.dsp
    assert abs(found.lut / PACKED.lut - 1) < 0.02 and abs(found.ff / PACKED.ff - 1) < 0.02
    assert PACKED.bram <= found.bram <= 1.15 * PACKED.bram


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
