"""Schedules as the device's programs: words of 64 bits, and the cycles that it takes over them.

A word is a command with the cycles since the one before; REG_WRITE, whose row is a mask of the banks of each group that take it, and
WRITE are followed by their 32 bytes. A port of 32 bytes has four commands in a word, and then
the data of each that has some. Those of TAKE, WEIGH and TOTAL go to the softmax unit or come from it. The device's time stands still
where a command is not there yet, or where results wait for memory,
so that what a schedule keeps apart stays apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory, Prefetcher, Writer
from ..shell import Counter, EngineRegister, Legal, RegisterMap, address
from .config import COLUMNS, PimConfig
from .device import REGISTERS, Step, registers_of
from .errors import PimError
from .operands import Put
from .rules import LIKE
from .schedule import Command, Schedule, schedule

#: results that are written at once, when all are there: memory may serve nothing else once it has their address
RESULTS_BURST = 8
#: results that the device holds: so many are read while as many are written
RESULTS_AHEAD = 2 * RESULTS_BURST
_COMMANDS = "END ROUND ACT4 REG_WRITE COMP PRECHARGES RESULT_READ WRITE READ REFab REFpb IDLE TAKE WEIGH TOTAL"
OPCODES = {name: code for code, name in enumerate(_COMMANDS.split())}
MODES = ("update", "score", "attend", "load", "store")
_LONGEST = (1 << 16) - 1


def register_map(config: PimConfig, design: int = 0) -> RegisterMap:
    bus, what = config.bus, "the first word of the program, aligned to the bus"
    to = "where results go, aligned to the bus"
    registers = [
        address("program", 40, what, bus, each=[("words", bus)]),
        EngineRegister("words", 24, "words of the program", legal=Legal(least=1)),
        address("results", 40, to, bus, each=[("result_words", bus)], apart=["program"]),
        EngineRegister("result_words", 24, "words of results", legal=Legal()),
    ]
    counters = [
        Counter("commands", "commands that were issued"),
        Counter("stalled", "cycles in which the device's time stood still", progress=False),
        Counter("saturated", "groups (numbers in float16) that did not fit", step_bits=10),
    ]
    return RegisterMap(registers, counters, design=design, errors=(PimError,))


@dataclass(frozen=True)
class Program:
    """A program."""

    schedule: Schedule
    words: NDArray[np.uint64]  #: words of 8 bytes
    waits: NDArray[np.int64]  #: cycles to wait, by command
    sizes: NDArray[np.int64]  #: words of the port, by command
    reads: NDArray[np.bool_]  #: it gives a result, by command
    #: by transfer of results: set, round of the set, number in the round
    order: list[tuple[int, int, int]]
    rounds: Mapping[str, int]  #: rounds of all sets, by mode

    @property
    def beats(self) -> int:
        """Words of the port."""
        return 8 * len(self.words) // self.schedule.config.bus

    @property
    def result_beats(self) -> int:
        """And of what is read."""
        return int(self.reads.sum()) * 32 // self.schedule.config.bus


class _Words:
    """The words of a program, with what each command waits, takes and gives."""

    def __init__(self, bus: int) -> None:
        self.bus = bus
        self.words: list[NDArray[np.uint64]] = []
        self._head = np.zeros(0, dtype=np.uint64)
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
        many = self.bus // 8
        if len(self.waits) % many == 0:
            self._head = np.zeros(many, dtype=np.uint64)  # END, where nothing follows
            self.words.append(self._head)
        self._head[len(self.waits) % many] = OPCODES[name] | (wait << 4) | fields
        if data is not None:
            self.words.append(np.ascontiguousarray(data).view("<u8"))
        self.waits.append(wait)
        self.sizes.append(1 if data is None else 1 + 32 // self.bus)
        self.reads.append(name in ("RESULT_READ", "READ", "TOTAL"))


def program(
    config: PimConfig, steps: Sequence[Sequence[Step]], *, settled: bool = False
) -> Program:
    """Return the program that plays the steps of each set; `settled`: it ends only when another one may begin."""
    plan = schedule(config, [[step.round for step in group] for group in steps])
    order: list[tuple[int, int, int]] = []
    text, before = _Words(config.bus), -1
    for c in plan.commands:
        fields = _Fields() if c.name[:3] == "REF" else _fields(config, c, steps[c.set][c.round])
        mask = (fields.groups or sum(1 << group for group in c.groups)) << 20
        text.put(c.name, c.cycle - before, mask | fields.fields, fields.data)
        before = c.cycle
        if fields.read is not None:
            order.append((c.set, c.round, fields.read))
    modes, t = [step.round.mode for group in steps for step in group], config.timing
    text.put("END", max(1, plan.length - before, t.tRTW, t.tWTR) if settled else 1, 0)
    return Program(
        plan,
        np.concatenate(text.words),
        np.array(text.waits, dtype=np.int64),
        np.array(text.sizes, dtype=np.int64),
        np.array(text.reads, dtype=np.bool_),
        order,
        {mode: modes.count(mode) for mode in dict.fromkeys(modes)},
    )


class _Fields(NamedTuple):
    """Of a command: its fields beside those that all have, the data behind it, the number in its round of what it reads to memory, and the mask of
    bank groups where they are not all that it waits for."""

    fields: int = 0
    data: NDArray[np.uint8] | None = None
    read: int | None = None
    groups: int = 0


def _fields(config: PimConfig, c: Command, step: Step) -> _Fields:
    base = (c.groups[0] - c.set * (config.groups // config.sets)) * config.banks  # in the set
    if c.name == "ROUND":
        return _Fields(MODES.index(step.round.mode) << 58)
    if c.name == "REG_WRITE":
        first = config.set_groups(c.set)[0]
        put = step.puts[c.index] if step.puts else _operand(config, step, base, c.index)
        return _Fields(
            put.banks << 28 | REGISTERS.index(put.register) << 52,
            put.data,
            None,
            put.groups << first,
        )
    if c.name in ("WRITE", "READ"):
        bank, column = divmod(c.index, COLUMNS)
        fields, place = bank << 44 | column << 52, base + bank
        if step.round.banks:
            place = step.round.banks.index(place)
        if c.name == "WRITE":
            return _Fields(fields, step.data[place, 0 if step.round.columns else column])
        return _Fields(fields, None, place * COLUMNS + column)
    if c.name == "RESULT_READ":
        fields, pair, half = _result(config, c.index)
        return _Fields(fields, None, pair * step.round.reads + half)
    return _softened(config, c, step, base) if c.name in LIKE else _Fields(c.row << 28)


def _operand(config: PimConfig, step: Step, base: int, index: int) -> Put:
    """Return a round's REG_WRITE to a bank of a group; the seeds of pairs come last."""
    names = registers_of(config, step.round)
    bank, number = divmod(index, len(names)) if names else (config.banks, 0)
    if bank < config.banks:
        return Put(
            1 << base // config.banks, 1 << bank, names[number], step.data[base + bank, number]
        )
    assert step.seeds is not None
    pair = index - config.banks * len(names)
    return Put(1 << base // config.banks, 1 << 2 * pair, "seed", step.seeds[base // 2 + pair])


def _result(config: PimConfig, index: int) -> tuple[int, int, int]:
    """Return fields, pair of the set and half of the result of a round's RESULT_READ."""
    half, pair = divmod(index, config.groups // config.sets * config.banks // 2)
    return 2 * (pair % (config.banks // 2)) << 44 | half << 52, pair, half


def _softened(config: PimConfig, c: Command, step: Step, base: int) -> _Fields:
    """The fields of a transfer to or from the softmax unit. Of TAKE: the place, whether it is one, whether a tile is whole with it, and its
    keys less 1."""
    taken, reads = step.taken, config.result_reads
    assert taken is not None
    if c.name == "TAKE":
        fields, pair, half = _result(config, c.index)
        if (place := taken.places[pair]) < 0:
            return _Fields(fields)
        fields |= (place * reads + half) << 28 | 1 << 53
        if c.index in step.round.ended:
            fields |= 1 << 54 | (taken.keys[step.round.ended.index(c.index)] - 1) << 55
        return _Fields(fields)
    if c.name == "WEIGH":
        bank, number = divmod(c.index, reads)
        word = taken.slots[(base + bank) // 2] * config.soft_words + bank % 2 * reads + number
        register = REGISTERS.index(registers_of(config, step.round)[number])
        return _Fields(word << 28 | bank << 44 | register << 52)
    word = taken.ended[c.index] * config.soft_words + 2 * reads
    return _Fields(word << 28, None, config.pairs * step.round.reads + c.index)


@dataclass(frozen=True)
class Cycles:
    """Cycles of a run, and those in which the device's time stood still."""

    total: int
    stalled: int


def _arrivals(program: Program, words: Prefetcher, issued: list[int]) -> Iterator[int]:
    """Yield when each command enters the queue with its data, of which those `issued` have left it."""
    bus, ahead = program.schedule.config.bus, program.schedule.config.ahead
    head, operands = 0, list[int]()
    for number, size in enumerate(program.sizes.tolist()):
        room = issued[number - ahead] + 1 if number >= ahead else 0
        if bus == 8:
            for _ in range(size - 1):
                words.take(0)
            yield words.take(room)
            continue
        if number % 4 == 0:  # its place is that of four that have left
            head = words.take(issued[number - ahead + 3] + 1 if number >= ahead else 0)
        if size == 1:
            yield head
            continue
        before = operands[-ahead] if len(operands) >= ahead else -1
        operands.append(number)
        yield words.take(issued[before] + 1 if before >= 0 else 0)


class _Results:
    """When results go to memory: in bursts of `RESULTS_BURST` or all that are left, each when the last one's words are there."""

    def __init__(self, writer: Writer, address: int, results: int, words: int) -> None:
        self._writer, self._words = writer, words
        self._address, self._left = address, results
        self._number = 0
        self._ends: list[int] = []  # when the last word of each result was transferred

    def room(self) -> int:
        """Return the first cycle in which one more result may be read."""
        return self._ends[self._number - RESULTS_AHEAD] + 1 if self._number >= RESULTS_AHEAD else 0

    def put(self, cycle: int) -> None:
        """Put the next result into the queue, from where it is offered from `cycle` on."""
        self._number += 1
        count = self._number - len(self._ends)
        if count < min(RESULTS_BURST, self._left):
            return
        beats = count * self._words
        transfers = self._writer.send(cycle, self._address, beats, lambda previous: previous + 1)[1]
        self._ends += transfers[self._words - 1 :: self._words]
        self._address += 32 * count
        self._left -= count

    def idle(self) -> int:
        """Return the first cycle in which all are written and answered."""
        return self._writer.idle() if self._number else 0


def cycles_of(program: Program, memories: Mapping[str, Memory], at: int, results: int) -> Cycles:
    """Return the cycles of a program at address `at` with results at `results`, exactly."""
    channel, bus = memories["m0"].channel(), program.schedule.config.bus
    issued: list[int] = []
    arrivals = _arrivals(program, Prefetcher(channel, bus, 0, at, program.beats), issued)
    written = _Results(Writer(channel, bus), results, int(program.reads.sum()), 32 // bus)
    latest = 0
    for arrival, wait, read in zip(
        arrivals, program.waits.tolist(), program.reads.tolist(), strict=True
    ):
        latest = max(latest, arrival) + wait
        if read:
            latest = max(latest, written.room())
            written.put(latest + 2)
        issued.append(latest)
    return Cycles(max(latest + 1, written.idle()), latest - int(program.waits.sum()))
