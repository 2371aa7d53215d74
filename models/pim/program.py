"""Schedules as the device's programs: words of 64 bits, and the cycles that it takes over them.

A word is a command with the cycles since the one before; REG_WRITE and WRITE are followed by their 32
bytes. The device's time stands still where a command is not there yet, or where results wait for memory,
so that what a schedule keeps apart stays apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory, Reader, Writer
from ..shell import Counter, EngineRegister, RegisterMap
from .config import COLUMNS, PimConfig
from .device import REGISTERS, Step, registers_of
from .errors import PimError
from .schedule import Schedule, schedule

__all__ = [
    "BUS",
    "COMMANDS_AHEAD",
    "MODES",
    "OPCODES",
    "RESULTS_AHEAD",
    "Cycles",
    "Program",
    "cycles_of",
    "program",
    "register_map",
]

#: bytes of a word of the memory port
BUS = 8
#: commands with their data, and results, that the device holds
COMMANDS_AHEAD, RESULTS_AHEAD = 16, 8
_COMMANDS = "END ROUND ACT4 REG_WRITE COMP PRECHARGES RESULT_READ WRITE READ REFab REFpb IDLE"
OPCODES = {name: code for code, name in enumerate(_COMMANDS.split())}
MODES = ("update", "score", "attend", "load", "store")
_LONGEST = (1 << 16) - 1


def register_map(design: int) -> RegisterMap:
    """Return the registers of a device."""
    registers = [
        EngineRegister("program", 40, "the first word of the program, aligned to the bus"),
        EngineRegister("words", 24, "words of the program"),
        EngineRegister("results", 40, "where results go, aligned to the bus"),
        EngineRegister("result_words", 24, "words of results"),
    ]
    counters = [
        Counter("commands", "commands that were issued"),
        Counter("stalled", "cycles in which the device's time stood still", progress=False),
        Counter("saturated", "groups (numbers in float16) that did not fit", step_bits=10),
    ]
    return RegisterMap(registers, counters, design=design, errors=(PimError,))


@dataclass(frozen=True)
class Program:
    """A program: its words, and for each command the cycles to wait, its words, whether it gives a result.

    `order`: for each transfer of results (set, round of the set, number in the round).
    """

    schedule: Schedule
    words: NDArray[np.uint64]
    waits: NDArray[np.int64]
    sizes: NDArray[np.int64]
    reads: NDArray[np.bool_]
    order: list[tuple[int, int, int]]


class _Words:
    """The words of a program, with what each command waits, takes and gives."""

    def __init__(self) -> None:
        self.words: list[NDArray[np.uint64]] = []
        self.waits: list[int] = []
        self.sizes: list[int] = []
        self.reads: list[bool] = []

    def put(self, name: str, wait: int, fields: int, data: NDArray[np.uint8] | None = None) -> None:
        """Add a command `wait` cycles behind the last one, with the words of its data."""
        while wait > _LONGEST:
            self._put("IDLE", _LONGEST, 0)
            wait -= _LONGEST
        self._put(name, wait, fields, data)

    def _put(
        self, name: str, wait: int, fields: int, data: NDArray[np.uint8] | None = None
    ) -> None:
        self.words.append(np.array([OPCODES[name] | (wait << 4) | fields], dtype=np.uint64))
        if data is not None:
            self.words.append(np.ascontiguousarray(data).view("<u8"))
        self.waits.append(wait)
        self.sizes.append(1 if data is None else 5)
        self.reads.append(name in ("RESULT_READ", "READ"))


def program(
    config: PimConfig, steps: Sequence[Sequence[Step]], *, settled: bool = False
) -> Program:
    """Return the program that plays the steps of each set; `settled`: it ends only when another one may begin."""
    made = schedule(config, [[step.round for step in own] for own in steps])
    each = config.groups // config.sets
    order: list[tuple[int, int, int]] = []
    text, before = _Words(), -1
    put = text.put
    for c in made.commands:
        mask = sum(1 << group for group in c.groups) << 20
        wait, before = c.cycle - before, c.cycle
        if c.name == "REFab":
            put(c.name, wait, mask)
            continue
        group = c.groups[0]
        base = (group - c.set * each) * config.banks  # in the set
        if c.name == "REFpb":
            put(c.name, wait, mask)
            continue
        step = steps[c.set][c.round]
        if c.name == "ROUND":
            put(c.name, wait, mask | MODES.index(step.round.mode) << 58)
        elif c.name == "REG_WRITE":
            bank, name, operand = _operand(config, step, base, c.index)
            put(c.name, wait, mask | bank << 44 | REGISTERS.index(name) << 52, operand)
        elif c.name in ("WRITE", "READ"):
            bank, column = divmod(c.index, COLUMNS)
            fields, place = mask | bank << 44 | column << 52, base + bank
            if step.round.banks:
                place = step.round.banks.index(place)
            data = step.data[place, column] if c.name == "WRITE" else None
            put(c.name, wait, fields, data)
            if c.name == "READ":
                order.append((c.set, c.round, place * COLUMNS + column))
        elif c.name == "RESULT_READ":
            pair, half = _result(config, c.index, step.round.reads)
            local = pair % (config.banks // 2)
            put(c.name, wait, mask | (2 * local) << 44 | half << 52)
            order.append((c.set, c.round, pair * step.round.reads + half))
        else:
            put(c.name, wait, mask | c.row << 28)
    t = config.timing
    put("END", max(1, made.length - before, t.tRTW, t.tWTR) if settled else 1, 0)
    return Program(
        made,
        np.concatenate(text.words),
        np.array(text.waits, dtype=np.int64),
        np.array(text.sizes, dtype=np.int64),
        np.array(text.reads, dtype=np.bool_),
        order,
    )


def _operand(
    config: PimConfig, step: Step, base: int, index: int
) -> tuple[int, str, NDArray[np.uint8]]:
    """Return bank of the group, register and data of a round's REG_WRITE; the seeds of pairs come last."""
    names = registers_of(config, step.round)
    bank, number = divmod(index, len(names)) if names else (config.banks, 0)
    if bank < config.banks:
        return bank, names[number], step.data[base + bank, number]
    assert step.seeds is not None
    pair = index - config.banks * len(names)
    return 2 * pair, "seed", step.seeds[base // 2 + pair]


def _result(config: PimConfig, index: int, reads: int) -> tuple[int, int]:
    """Return pair of the set and half of the result of a round's RESULT_READ."""
    pairs = config.groups // config.sets * config.banks // 2
    return index % pairs, index // pairs


@dataclass(frozen=True)
class Cycles:
    """Cycles of a run, and those in which the device's time stood still."""

    total: int
    stalled: int


def cycles_of(program: Program, memories: Mapping[str, Memory], at: int, results: int) -> Cycles:
    """Return the cycles of a program at address `at` with results at `results`, exactly."""
    channel = memories["m0"].channel()
    reader = Reader(channel, BUS)
    reader.command(1, at, len(program.words))
    waits, sizes, reads = program.waits.tolist(), program.sizes.tolist(), program.reads.tolist()
    issued: list[int] = []
    transfers: list[int] = []  # of the last word of each result
    latest, started, number = 0, -1, 0
    results_issued: list[int] = []
    held = 0

    def issue() -> None:
        """Issue the next command."""
        nonlocal latest, started, number, held
        room = issued[number - COMMANDS_AHEAD] + 1 if number >= COMMANDS_AHEAD else 0
        for _ in range(sizes[number] - 1):
            reader.accept(0)
        ready = reader.accept(room) + 1
        begin = max(latest + 1, ready)
        if started < 0:
            started = begin
        latest = begin + waits[number] - 1
        if reads[number]:
            count = len(results_issued)
            if count >= RESULTS_AHEAD:
                latest = max(latest, transfers[count - RESULTS_AHEAD] + 1)
            results_issued.append(latest)
        issued.append(latest)
        number += 1

    beats = 0

    def source(previous: int) -> int:
        nonlocal beats
        which, word = divmod(beats, 4)
        if word == 0 and which:
            transfers.append(previous)
        while len(results_issued) <= which:
            issue()
        beats += 1
        return max(results_issued[which] + 2, previous + 1)

    idle = 0
    count = int(program.reads.sum())
    if count:
        writer = Writer(channel, BUS)
        idle = writer.write(1, results, 4 * count, source)[2]
    while number < len(waits):
        issue()
    total = max(latest + 1, idle)
    return Cycles(total, latest - int(program.waits.sum()))
