"""A device's banks and units, round by round: the golden model.

A round opens a row in each bank of a set. Each *pair* of banks, upper and bottom, belongs together: in
updates and scores both hold slices of dim_head of the same columns, and their outputs are added; in attend
they hold different tokens of the same slice of dim_head.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.lfsr import Lfsr
from .config import COLUMNS, PimConfig
from .operands import Put
from .rounds import Round
from .softmax import Softmax, Taken
from .unit import Float16Unit, MxUnit

Bytes = NDArray[np.uint8]
#: registers of a unit for one bank, and the seed of a pair's random bits. The rates of lanes from 16 on are c1; what is
#: written to c0 goes to both
REGISTERS = ("c0", "k", "q", "v0", "v1", "seed", "c1")


def registers_of(config: PimConfig, round: Round) -> tuple[str, ...]:
    """Return which registers a round writes in each bank, in order."""
    wide = config.format == "float16"
    v = ("v0", "v1") if wide else ("v0",)
    if round.mode == "update":
        return (*("c0", "c1")[: round.rates], "k", "q", *v) if round.first else v
    return {"score": ("q",), "attend": v}.get(round.mode, ())


@dataclass(frozen=True)
class Step:
    """A round with its data."""

    round: Round
    #: operands (banks of the set, registers, 32); for a load (its banks, 32, 32) or (its banks, 1,
    #: 32)
    data: Bytes
    #: (pairs of banks, 32), of which each unit has a half: two words each (`models.numerics.lfsr`)
    seeds: Bytes | None = None
    #: what the softmax unit has to do with it, which gives the operands of an attend then
    taken: Taken | None = None
    puts: tuple[Put, ...] = ()  #: how operands are sent that several banks share


class Device:
    """The state of all banks and registers, and of the units' random bits."""

    def __init__(self, config: PimConfig) -> None:
        self.config = config
        self.unit: Any = MxUnit() if config.format == "mx8" else Float16Unit()
        self.count = config.groups * config.banks
        self.banks = np.zeros((self.count, config.rows, COLUMNS, 32), dtype=np.uint8)
        self.registers = {name: np.zeros((self.count, 32), dtype=np.uint8) for name in REGISTERS}
        self._streams: dict[int, Lfsr] = {}
        self.saturated = 0
        self._softmax = Softmax(config) if config.soft_items else None

    def set_banks(self, number: int) -> NDArray[np.int64]:
        each = self.count // self.config.sets
        return np.arange(number * each, (number + 1) * each)

    def play_all(self, number: int, steps: Sequence[Step]) -> list[Bytes]:
        """Run rounds of a set one after another; return what is read from each: (transfers, 32)."""
        outs: list[Bytes] = []
        for soft, group in groupby(steps, lambda step: step.taken is not None):
            run = list(group)
            outs += [self._softened(number, s) for s in run] if soft else self._rounds(number, run)
        return outs

    def play(self, number: int, step: Step) -> Bytes:
        """Run a round of a set; return what is read from it: (transfers, 32)."""
        return self.play_all(number, [step])[0]

    def _softened(self, number: int, step: Step) -> Bytes:
        """Run a round whose scores go to the softmax unit, or whose weights come from it."""
        unit, taken = self._softmax, step.taken
        assert unit is not None and taken is not None
        if step.round.mode == "attend":
            [out] = self._rounds(number, [replace(step, data=unit.weights(taken))])
            return np.concatenate([out, unit.totals(taken)])
        [out] = self._rounds(number, [step])
        unit.took(out.reshape(len(taken.places), -1), taken)
        return out[:0]

    def _rounds(self, number: int, steps: Sequence[Step]) -> list[Bytes]:
        return [self._round(number, step) for step in steps]

    def _round(self, number: int, step: Step) -> Bytes:
        banks, round = self.set_banks(number), step.round
        moved = banks[list(round.banks)] if round.banks else banks
        if round.mode == "load":
            where = (round.columns,) if round.columns else ()
            self.banks[moved, round.row, *where] = step.data[:, 0] if where else step.data
            return np.zeros((0, 32), dtype=np.uint8)
        if round.mode == "store":
            return self.banks[moved, round.row].reshape(-1, 32)
        if round.mode == "score":  # ROUND sets what makes an update that changes nothing
            for name in ("c0", "c1", "k", "v0", "v1"):
                self.registers[name][banks] = 0
        for index, name in enumerate(registers_of(self.config, round)):
            self.registers[name][banks] = step.data[:, index]
            if name == "c0":
                self.registers["c1"][banks] = step.data[:, index]
        if step.seeds is not None:
            units = 2 // self.config.design.banks
            words = np.ascontiguousarray(step.seeds[:, : 16 * units]).view("<u8")
            self._streams[number] = Lfsr(words.reshape(-1, 2))
        return self._compute(number, banks, round)

    def _v(self, banks: NDArray[np.int64]) -> Bytes:
        both = [self.registers[name][banks] for name in ("v0", "v1")]
        return both[0] if self.config.format == "mx8" else np.concatenate(both, axis=-1)

    def _rates(self, banks: NDArray[np.int64]) -> NDArray[np.uint16]:
        both = np.concatenate([self.registers[name][banks] for name in ("c0", "c1")], axis=-1)
        return both.view("<u2")[:, : self.config.lanes]

    def _compute(self, number: int, banks: NDArray[np.int64], round: Round) -> Bytes:
        unit, columns = self.unit, np.arange(COLUMNS)
        state = self.banks[banks, round.row]  # (banks, columns, 32)
        v = np.repeat(self._v(banks)[:, None], COLUMNS, axis=1)
        element = unit.element(v, np.broadcast_to(columns, v.shape[:2]))
        if round.mode == "attend":
            # upper and bottom alternate, column by column
            half = len(banks) // 2
            turn = lambda a: a.reshape(half, 2, COLUMNS, *a.shape[2:]).swapaxes(1, 2)
            both = turn(state).reshape(half, 2 * COLUMNS, 32)
            scores = turn(v).reshape(half, 2 * COLUMNS, -1)
            which = np.broadcast_to(np.repeat(columns, 2), scores.shape[:2])
            out, lost = unit.attend(both, unit.element(scores, which))
            self.saturated += int(lost.sum())
            return out.reshape(-1, 32)
        k, q = (self.registers[name][banks][:, None] for name in "kq")
        new = state
        if round.mode == "update":
            random = self._random(number, len(banks)) if self.config.stochastic else None
            new, lost = unit.update(state, self._rates(banks)[:, None], k, element, random)
            self.banks[banks, round.row] = new
            self.saturated += int(lost.sum())
        sums = unit.output(new, q)
        pair = type(sums)(sums.value[::2], sums.exponent[::2]).joined(
            type(sums)(sums.value[1::2], sums.exponent[1::2])
        )
        out, lost = unit.results(pair)
        if not round.reads:
            return np.zeros((0, 32), dtype=np.uint8)
        self.saturated += int(lost.sum())
        return out.reshape(-1, 32)

    def _random(self, number: int, banks: int) -> Bytes:
        """Return bytes (banks, columns, 32) in the order in which each unit of a set takes them."""
        served = self.config.design.banks
        drawn = self._streams[number].bytes(served * COLUMNS * 32)
        drawn = drawn.reshape(-1, COLUMNS, served, 32).swapaxes(1, 2)
        return drawn.reshape(banks, COLUMNS, 32)
