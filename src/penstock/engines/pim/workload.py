"""A run of a recurrence: tokens of all heads and requests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engines.base import Cycles, Given, Result, Workload
from penstock.errors import Conflict
from penstock.models.bound_terms import Machine, Terms
from penstock.models.errors import HardwareError, RunError
from penstock.models.memory import Memory
from penstock.models.numerics.floating import float32
from penstock.models.pim.device import Step
from penstock.models.pim.errors import PimError
from penstock.models.pim.layout import Layout
from penstock.models.pim.operands import Work
from penstock.models.pim.program import Program, cycles_of, program
from penstock.sim.machine import PAGE, Metered, round_up

from .accuracy import Beside, clipped
from .banks import carried_out
from .data import Inputs, bits_of, policy_of, seed_of, tokens_of
from .golden import golden_device, language_of
from .host import Batch, Course, batches, worked

if TYPE_CHECKING:
    from penstock.runs.failures import Failure


@dataclass(frozen=True)
class _Bound(Terms):
    """The bound of a run: iterations of the units, or words of program and results at the memory port."""

    iterations: int
    memory: int


class Played(NamedTuple):
    """A program of a run, with what it plays."""

    program: Program
    steps: list[list[Step]]
    works: list[Work]
    order: list[tuple[int, int]]


class Stepping(Workload):
    """A run on data: the tokens of a recurrence, or queries to a cache.

    The host computes operands, the device plays programs, and the host adds up what was read. Where operands need earlier results, the run is cut into
    batches, a program each.

    * `inputs`: the arrays; `name`: what reports call them; `assumed`: none were given.
    * `seed`: of the bits of stochastic rounding; `first`: the number of the first token, on which these depend too.
    * `saturates`: numbers beyond the format become the end of its range; else they are an error.
    """

    def __init__(
        self,
        design: Any,
        inputs: Inputs,
        name: str,
        assumed: bool,
        seed: int,
        saturates: bool,
        first: int = 0,
    ) -> None:
        self.design, self.inputs, self.tokens = design, inputs, inputs.tokens
        self.name, self.assumed, self.rows = name, assumed, inputs.tokens
        self.saturates, self.first = saturates, first
        self._golden = ""  # what computed golden results
        self.layout: Layout = design.layout(inputs.tokens, seed, first)

    @classmethod
    def of(cls, design: Any, args: Given) -> Stepping:
        """Return the run on what was given. Raises SourceError, Conflict, KernelError."""
        saturates = policy_of(args, design.device.format, design.on_overflow)
        for option, count in (("batch", design.batch), ("heads", design.heads)):
            if args.option(option) not in (None, count):
                hint = f"compile it with --{option} {args.option(option)}"
                raise Conflict(f"the design is made for --{option} {count}", hint)
        source, tokens = args.data, args.option("tokens")
        seed, bits = seed_of(source, args.seed), bits_of(source, args.seed)
        first = int(args.option("first", 0))
        of, group = (design.recurrent, design.batch, design.heads), design.group
        if source is None or isinstance(source, str):
            inputs = Inputs.random(*of, tokens_of(source, tokens, args.rows), seed, group)
            name = "random" if source is not None else "assumed"
            return cls(design, inputs, name, source is None, bits, saturates, first)
        inputs = Inputs.of(*of, source, tokens, group)
        if args.option("first") is None and design.device.stochastic:
            inputs.warn_of_first()
        return cls(design, inputs, args.place or "arrays", False, bits, saturates, first)

    @property
    def layouts(self) -> Sequence[Layout]:
        """Where what a program reads lies: the state, or of attention the keys and the values."""
        return (self.layout,)

    @cached_property
    def course(self) -> Course:
        """The host's side of the run, before any result."""
        return Course(self.inputs, self.design.device.format, self.saturates)

    def _fresh_course(self) -> Course:
        """Return the host's side for one more run; operands that need no results are shared with `course`."""
        return Course(self.inputs, self.design.device.format, self.saturates, like=self.course)

    @cached_property
    def _batches(self) -> list[Batch]:
        return list(batches(self.design.recurrent, self.tokens))

    @property
    def rates(self) -> int:
        """Registers of rates that a first chunk of an update writes."""
        return self.layout.rates_of(self.course.first_update(1))

    def _made(self, at: int, course: Course) -> Played:
        last = at == len(self._batches) - 1
        works, order = worked(self._batches[at], course.operands)
        fresh = [course.start is None] * self.design.batch
        stores = last and self.layout.mode == "update"
        start = course.start if at == 0 else None
        steps = self.layout.steps(works, order, fresh, start, stores)
        return Played(program(self.design.device, steps, settled=not last), steps, works, order)

    @cached_property
    def _first(self) -> Played:
        """The first batch, whose operands need no results."""
        return self._made(0, self.course)

    def _carried_out(self, play: Callable[[Played], NDArray[np.uint8]]) -> Result:
        """The result of playing one batch after another."""
        course, state, lost = self._fresh_course(), None, 0
        played: list[NDArray[np.uint8]] = []
        for at in range(len(self._batches)):
            batch = self._made(at, course) if at else self._first
            out = play(batch)
            played.append(out)
            y, state = self.layout.results(batch.program.order, batch.steps, out)
            y, outside = clipped(y)
            if outside.any() and not self.saturates:
                turn, item, column = (int(n) for n in np.argwhere(outside)[0])
                which, token = batch.order[turn]
                place = batch.works[which].first + token, item, column
                return Result(None, HardwareError(PimError.PIM_RANGE, *place))
            lost += int(outside.sum())
            course.took(batch.works, batch.order, float32.decode(float32.encode(y)))
        codes = {label: float32.encode(course.values[name]) for name, label in self._named.items()}
        if state is not None:
            codes[self.design.recurrent.state] = float32.encode(state)
        counters = {"saturated_sums": lost, "saturated_inputs": course.beyond}
        return self._result(codes, np.concatenate(played), counters)

    @staticmethod
    def _result(
        codes: Mapping[str, Any], out: NDArray[np.uint8], counters: Mapping[str, int]
    ) -> Result:
        """A result with the digest of what was read."""
        digest = hashlib.sha256(out.tobytes()).hexdigest()[:16]
        return Result(codes, None, {"results": digest}, counters)

    @cached_property
    def _golden_run(self) -> tuple[Result, list[Program], int]:
        device = golden_device(self.design.device)
        self._golden = language_of(device)
        programs = []

        def play(batch: Played) -> NDArray[np.uint8]:
            programs.append(batch.program)
            outs = [device.play_all(number, one_set) for number, one_set in enumerate(batch.steps)]
            taken = [outs[a][b][c] for a, b, c in batch.program.order]
            return np.array(taken, dtype=np.uint8).reshape(-1, 32)

        return self._carried_out(play), programs, device.saturated

    @property
    def _named(self) -> dict[str, str]:
        """What codes call the results: y and y.2, or y.1 where a state is y."""
        recurrent = self.design.recurrent
        first = ".1" if "y" in recurrent.states else ""
        return {name: "y" + (first if name == ".1" else name) for name in recurrent.results}

    def golden(self) -> Result:
        result, _, saturated = self._golden_run
        return replace(result, counters={"saturated": saturated, **result.counters})

    @property
    def programs(self) -> list[Program]:
        """The programs of a run. Where operands depend on results, only the golden run knows them."""
        return self._golden_run[1] if self.design.recurrent.depends else [self._first.program]

    @property
    def _results_at(self) -> int:
        """The address of the results: after the longest program, on a page."""
        return round_up(max(program.words.nbytes for program in self.programs))

    def model(self, memory: Memory) -> Cycles:
        programs, at = self.programs, self._results_at
        cycles = [cycles_of(program, {"m0": memory}, 0, at) for program in programs]
        compute = sum(
            c.count * program.schedule.interval
            for program in programs
            for c in program.schedule.commands
            if c.name == "COMP"
        )
        read, written = self.moved()
        bus = self.design.device.bus
        words = sum(memory.least(prog.beats, prog.result_beats, bus) for prog in programs)
        bound = _Bound(compute // self.design.device.sets, words)
        facts = {
            "dram_cycles": sum(program.schedule.length for program in programs),
            "rounds": sum(max(map(len, program.schedule.starts)) for program in programs),
        }
        counters = {
            "commands": sum(len(program.waits) for program in programs),
            "stalled": sum(run.stalled for run in cycles),
        }
        total, least = sum(run.total for run in cycles), self._machine_bound(memory)
        return Cycles(total, bound, counters, facts, read, written, bound_machine=least)

    def _machine_bound(self, memory: Memory) -> Machine:
        return self.layout.machine_bound(self.design.target, memory)

    def memory_bytes(self) -> int:
        most = max(int(program.reads.sum()) for program in self.programs)
        # a page even where nothing is read
        return self._results_at + round_up(32 * most + 1, PAGE)

    def moved(self) -> tuple[int, int]:
        programs = self.programs
        reads = sum(int(program.reads.sum()) for program in programs)
        return sum(program.words.nbytes for program in programs), 32 * reads

    def drive(self, machine: Metered) -> Result:
        at, size = self._results_at, self.memory_bytes()
        machine.reserve(at, size - at)
        if len(self._batches) > 1:
            machine.reserve(0, at)
        try:
            return self._carried_out(lambda batch: carried_out(machine, batch.program, at))
        except RunError as problem:
            return Result(None, problem.error)

    def _final_course(self, codes: Mapping[str, Any]) -> Course:
        """Return the host's side of the run once all its results are known."""
        course = self._fresh_course()
        course.complete({name: float32.decode(codes[label]) for name, label in self._named.items()})
        return course

    def details(self, codes: Mapping[str, Any]) -> Mapping[str, Any]:
        beside = Beside(self.layout, self._final_course(codes))
        report = {"float64": beside.to_json(), "collapsed": beside.collapsed()}
        return {**report, **self.language}

    @property
    def language(self) -> dict[str, str]:
        """What computed golden results, for details."""
        return {"golden": self._golden} if self._golden else {}

    def failure(self, error: HardwareError) -> Failure:
        from penstock.runs.failures import hardware_failure

        if error.code != PimError.PIM_RANGE:
            return super().failure(error)
        request, head = divmod(error.line, self.design.heads)
        where = f"token {error.block}, request {request}, head {head}"
        return hardware_failure(error, f"{self.name or 'the data'}, {where}")

    def values(self, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        design, course = self.design, self._final_course(codes)
        recurrent = design.recurrent
        value, lead = course.output(), (design.batch, design.heads)
        y = value.reshape(self.tokens, *lead, *value.shape[2:])
        arrays = {"y": y}
        if recurrent.state in codes:
            state = float32.decode(codes[recurrent.state])
            if recurrent.turned:
                state = state.swapaxes(1, 2)
            arrays[recurrent.state] = state.reshape(*lead, *state.shape[1:])
        for name, states in course.held.items():
            arrays[name] = states[-1].reshape(*lead, *states.shape[2:])
        return {**arrays, "y": y}  # also where a state is y
