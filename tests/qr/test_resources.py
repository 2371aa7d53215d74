"""Estimates of fits over keys: what `penstock build` placed of a whole device is met, and what keeping blocks of rows takes."""

from __future__ import annotations

from penstock.boards.board import boards
from penstock.dsl.core.load import from_text
from penstock.dsl.qr.plan import lower
from penstock.models.qr.resources import estimate
from penstock.models.resources import Resources

SLOT9 = "fit slot9(key: key)\n  model <- least_squares(window(key, 8), target=slot(key))\n"
#: what nextpnr-ecp5 packed of it (docs/boards.md)
PACKED = Resources(59_348, 40_022, 128, 79)


def test_as_packed() -> None:
    part = boards()["ulx3s-85f"].budget
    plan = lower(from_text(SLOT9, "slot9.psk").trace(), part)
    found = estimate(plan, part)
    assert plan.n_max == 9 and found.dsp == PACKED.dsp
    assert abs(found.lut / PACKED.lut - 1) < 0.02 and abs(found.ff / PACKED.ff - 1) < 0.02
    assert PACKED.bram <= found.bram <= 1.15 * PACKED.bram
