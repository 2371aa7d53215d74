"""What carries out the rounds of a session: golden banks, with cycles or without, or a machine."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.models.errors import RunError
from penstock.models.memory import Memory
from penstock.models.pim.config import COLUMNS, PimConfig
from penstock.models.pim.device import Step
from penstock.models.pim.program import Program, cycles_of, program
from penstock.sim.machine import PAGE, Metered, round_up

from .golden import golden_device, language_of

Steps = Sequence[Sequence[Step]]
#: of each transfer of results: set, round of the set, number in the round
Order = list[tuple[int, int, int]]
Bytes = NDArray[np.uint8]
#: rounds of one program: longer ones gain nothing, and take longer to schedule
_MOST = 64


class Banks(Protocol):
    """The banks of a device, which keep what they hold. `cycles`: since they are there, None where nothing counts them;
    `computes`: what carries out their rounds, for reports."""

    computes: str

    @property
    def cycles(self) -> int | None: ...

    @property
    def counters(self) -> Mapping[str, int]: ...

    def play(self, steps: Steps) -> tuple[Order, Bytes]:
        """Play the steps of each set; return what is read, and in which order. Raises RunError where the hardware stops."""

    def close(self) -> None: ...


class Golden:
    """Golden results, round by round; nothing is scheduled."""

    cycles: int | None = None

    def __init__(self, config: PimConfig) -> None:
        self.device = golden_device(config)
        self.computes = f"golden in {language_of(self.device)}"

    @property
    def counters(self) -> Mapping[str, int]:
        return {"saturated": self.device.saturated}

    def play(self, steps: Steps) -> tuple[Order, Bytes]:
        order: Order = []
        outs: list[Bytes] = [np.zeros((0, 32), dtype=np.uint8)]
        for number, one_set in enumerate(steps):
            for at, out in enumerate(self.device.play_all(number, one_set)):
                order += [(number, at, index) for index in range(len(out))]
                outs.append(out)
        return order, np.concatenate(outs)

    def close(self) -> None:
        """Nothing is held."""


class Room:
    """Memory of a session: programs from address 0 on, results from `results_at`, `bytes` in all.

    It has room for a row of all banks that is loaded, for `rounds` that update, `_MOST` at most, and for `least` words and results; longer ones
    are several programs.
    """

    def __init__(self, config: PimConfig, rounds: int, least: tuple[int, int] = (0, 0)) -> None:
        self.config = config
        banks, count = config.groups * config.banks, min(rounds, _MOST)
        self._most = (
            max(5 * COLUMNS * banks, 5 * 6 * banks * count, least[0]) + 4 * banks * count + 1,
            max(COLUMNS * banks, config.pairs * 2 * count, least[1]),
        )
        self.results_at = round_up(config.bus * self._most[0])
        self.bytes = self.results_at + round_up(32 * self._most[1] + 1, PAGE)

    def _size(self, step: Step) -> tuple[int, int]:
        """Return how many words and results a step takes at most."""
        banks = self.config.groups * self.config.banks // self.config.sets
        round_, mode = step.round, step.round.mode
        moved = (1 if round_.columns else COLUMNS) * (len(round_.banks) or banks)
        if mode == "load":
            return 5 * moved + 4 * banks, 0
        if mode == "store":
            return moved + 4 * banks, moved
        seeds = 0 if step.seeds is None else len(step.seeds)
        reads = round_.reads * banks // 2 + round_.totals
        taken = round_.soft and mode == "score"
        weights = 2 * banks * (round_.soft and mode == "attend")
        return 5 * (
            step.data.size // 32 + seeds
        ) + weights + reads + 4 * banks, 0 if taken else reads

    def programs(self, steps: Steps) -> Iterator[tuple[int, Program]]:
        """Return programs that play the steps one after another, each with the number of its first round."""
        begin, sizes = 0, (1, 0)
        longest = max(map(len, steps), default=0)
        for at in range(longest):
            needs = [self._size(of[at]) for of in steps if at < len(of)]
            wanted = sizes[0] + sum(w for w, _ in needs), sizes[1] + sum(r for _, r in needs)
            if wanted[0] > self._most[0] or wanted[1] > self._most[1]:
                yield begin, self._program(steps, begin, at)
                begin, wanted = at, (1 + wanted[0] - sizes[0], wanted[1] - sizes[1])
            sizes = wanted
        if begin < longest:
            yield begin, self._program(steps, begin, longest)

    def _program(self, steps: Steps, begin: int, end: int) -> Program:
        return program(self.config, [one_set[begin:end] for one_set in steps], settled=True)


class Modelled(Golden):
    """Golden results, with the cycles of the hardware."""

    def __init__(self, room: Room, memory: Memory) -> None:
        super().__init__(room.config)
        self.room, self.memory = room, memory
        self.cycles = 0
        self._counters: Counter[str] = Counter(commands=0, stalled=0)

    @property
    def counters(self) -> Mapping[str, int]:
        return {**self._counters, **super().counters}

    def play(self, steps: Steps) -> tuple[Order, Bytes]:
        for _, prog in self.room.programs(steps):
            taken = cycles_of(prog, {"m0": self.memory}, 0, self.room.results_at)
            self.cycles = (self.cycles or 0) + taken.total
            self._counters.update(commands=len(prog.waits), stalled=taken.stalled)
        return super().play(steps)


def carried_out(machine: Metered, program: Program, at: int) -> Bytes:
    """Play a program from address 0 on; return what it reads to `at`, (transfers, 32). Raises RunError."""
    machine.write(0, program.words.view(np.uint8))
    registers = {"program": 0, "words": program.beats, "results": at}
    ended = machine.run({**registers, "result_words": program.result_beats})
    if ended.error is not None:
        raise RunError(ended.error)
    return np.array(machine.read(at, 32 * int(program.reads.sum())).reshape(-1, 32))


class Hardware:
    """The banks of a machine."""

    def __init__(self, room: Room, machine: Metered) -> None:
        self.room, self.machine, self.computes = room, machine, "hardware"
        machine.reserve(0, room.results_at)
        machine.reserve(room.results_at, room.bytes - room.results_at)

    @property
    def cycles(self) -> int | None:
        return self.machine.total.cycles

    @property
    def counters(self) -> Mapping[str, int]:
        none = dict.fromkeys(("commands", "stalled", "saturated"), 0)  # before the first program
        return {**none, **self.machine.total.counters}

    def play(self, steps: Steps) -> tuple[Order, Bytes]:
        order: Order = []
        outs: list[Bytes] = [np.zeros((0, 32), dtype=np.uint8)]
        for begin, prog in self.room.programs(steps):
            outs.append(carried_out(self.machine, prog, self.room.results_at))
            order += [(number, begin + at, index) for number, at, index in prog.order]
        return order, np.concatenate(outs)

    def close(self) -> None:
        self.machine.machine.close()
