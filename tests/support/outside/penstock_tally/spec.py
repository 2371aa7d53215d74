"""What the engine does: its registers, its error, its traffic and its cycles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.models.errors import HardwareCode
from penstock.models.memory import FixedLatency, Memory, Reader, Writer, split
from penstock.models.shell import Counter, EngineRegister, Legal, RegisterMap, address

__all__ = ["BUS", "Spec", "TallyError", "Told", "register_map"]

#: bytes of a bus word
BUS = 8
_MASK = (1 << 64) - 1


class TallyError(HardwareCode):
    """What stops a run."""

    TALLY_FORBIDDEN = 200, "a word is the forbidden one", "leave all-ones words out", "E703"


def register_map(design: int) -> RegisterMap:
    """Return the registers: where words are and where their sum goes."""
    registers = [
        address("source", 40, "the first word, aligned to the bus", BUS, each=[("words", BUS)]),
        address("target", 40, "where the sum goes, aligned to the bus", BUS, BUS),
        EngineRegister("words", 24, "how many words", legal=Legal(least=1)),
    ]
    counters = [Counter("summed", "words that were summed")]
    return RegisterMap(registers, counters, design=design, errors=(TallyError,))


@dataclass(frozen=True)
class Told:
    """What a run gives: the sum (None after the forbidden word, with its number), the cycles, and
    the bursts of the port that writes: (cycle, address, beats, digest)."""

    total: int | None
    forbidden: int
    cycles: int
    writes: list[tuple[int, int, int, int]]


def _digest(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & _MASK
    return value


@dataclass(frozen=True)
class Spec:
    """The engine: `gain` is built in; its two ports have memories of different timing."""

    gain: int

    @staticmethod
    def memories(memory: Memory) -> dict[str, Memory]:
        """Return the timings where `memory` is that of the port that reads: a fixed latency is twice
        as long at the other one, a DRAM is the same."""
        if not isinstance(memory, FixedLatency):
            return {"m0": memory, "m1": memory}
        slow = FixedLatency(2 * memory.latency, memory.bytes_per_cycle)
        return {"m0": memory, "m1": slow}

    def run(
        self,
        words: NDArray[np.uint64],
        source: int,
        target: int,
        memory: Memory,
        fault: tuple[int, int, int] | None = None,
    ) -> Told:
        """Return what a run gives. `fault`: in this cycle, the word of this number becomes this."""
        ports = self.memories(memory)
        reader, writer = Reader(ports["m0"], BUS), Writer(ports["m1"], BUS)
        reader.command(1, source, len(words))
        total, cycle = 0, 0
        for number, word in enumerate(words.tolist()):
            cycle = reader.accept(0)
            if fault is not None and fault[1] == number and cycle >= fault[0]:
                word = fault[2]
            if word == _MASK:
                return Told(None, number, cycle + 1, [])
            total = (total + self.gain * word) & _MASK
        end = writer.write(1, target, 1, lambda previous: cycle + 1)[2]
        [(address, beats)] = split(target, 1, BUS)
        digest = _digest(total.to_bytes(8, "little"))
        return Told(total, 0, end, [(2, address, beats, digest)])
