"""The chip of testbench/sdram.py checks its own rules.

Its controller is proven (tests/proofs/parts/sdram.py), and a device runs on it (tests/boards/test_sdram.py).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.models.memory.sdram import CHIP, Command, SdramError
from testbench.sdram import Sdram


def chip_after_setup() -> Sdram:
    chip = Sdram(replace(CHIP, power_up=0.0), 100_000_000)
    chip.edge(Command.PRECHARGE, 0, 1 << 10, 0, None)
    idle(chip, chip.rules.rp - 1)
    for _ in range(8):
        chip.edge(Command.REFRESH, 0, 0, 0, None)
        idle(chip, chip.rules.rfc - 1)
    chip.edge(Command.MODE, 0, 3 << 4, 0, None)
    idle(chip, 1)
    return chip


def idle(chip: Sdram, count: int) -> None:
    for _ in range(count):
        chip.edge(Command.NOP, 0, 0, 0, None)


A, R, W, P, F = Command.ACTIVATE, Command.READ, Command.WRITE, Command.PRECHARGE, Command.REFRESH


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([(A, 0), (R, 0)], "tRCD"),
        ([(A, 2), (P, 0)], "tRAS"),
        ([(A, 3), (W, 0), (P, 0)], "tWR"),
        ([(A, 5), (P, 0), (A, 3)], "tRP|tRC"),
        ([(A, 9), (P, 0), (A, 0)], "tRP"),
        ([(R, 0)], "closed bank"),
        ([(A, 3), (A, 0)], "open bank"),
        ([(A, 9), (F, 0)], "open bank"),
        ([(F, 2), (A, 0)], "before the command before it is over"),
        ([(Command.NOP, 900)], "no refresh"),
        ([(A, 3), (R, 2), (W, 0)], "both ends drive"),
    ],
)
def test_the_chip_notices(steps: list[tuple[Command, int]], message: str) -> None:
    """Each rule broken once: the command, and the idle cycles after it."""
    chip = chip_after_setup()
    with pytest.raises(SdramError, match=message):
        for command, pause in steps:
            chip.edge(command, 0, 0, 0, 0 if command is W else None)
            idle(chip, pause)


def test_set_up_is_checked() -> None:
    chip = Sdram(CHIP, 100_000_000)
    with pytest.raises(SdramError, match="power-up"):
        chip.edge(Command.PRECHARGE, 0, 1 << 10, 0, None)
    chip = Sdram(replace(CHIP, power_up=0.0), 100_000_000)
    with pytest.raises(SdramError, match="before the chip is set up"):
        chip.edge(A, 0, 0, 0, None)
    with pytest.raises(ValueError, match="at most 133 MHz"):
        CHIP.cycles(200_000_000)
