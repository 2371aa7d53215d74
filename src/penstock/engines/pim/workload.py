"""A run of a recurrence: tokens of all heads and requests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.engines.base import Cycles, Given, Result, Workload
from penstock.errors import Conflict
from penstock.models.bound import Terms
from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.floating import float32
from penstock.models.pim.errors import PimError
from penstock.models.pim.layout import Layout, Operands
from penstock.models.pim.program import BUS, cycles_of
from penstock.sim.machine import PAGE, Metered, round_up

from .data import Inputs, bits_of, policy_of, seed_of, tokens_of
from .errors import Beside, clipped
from .golden import golden_device, language_of

if TYPE_CHECKING:
    from penstock.failures import Failure

    from .design import PimDesign

__all__ = ["Stepping"]


@dataclass(frozen=True)
class _Bound(Terms):
    """The bound of a run: iterations of the units, or words of program and results at the memory port."""

    iterations: int
    memory: int


class Stepping(Workload):
    """Tokens of a recurrence, or queries of a cache."""

    results_with_model = False

    def __init__(
        self,
        design: PimDesign,
        inputs: Inputs,
        name: str,
        assumed: bool,
        seed: int,
        saturates: bool,
        first: int = 0,
    ) -> None:
        self.design, self.inputs, self.tokens = design, inputs, inputs.tokens
        self.name, self.assumed, self.rows = name, assumed, inputs.tokens
        self.saturates = saturates
        self._golden = ""  # what computed golden results
        self.layout: Layout = design.layout(inputs.tokens, seed, first)

    @classmethod
    def of(cls, design: PimDesign, given: Given) -> Stepping:
        """Return the run on what was given. Raises SourceError, Conflict, KernelError."""
        saturates = policy_of(given, design.device.format, design.on_overflow)
        for option, own in (("batch", design.batch), ("heads", design.heads)):
            if given.option(option) not in (None, own):
                raise Conflict(
                    f"the design is made for --{option} {own}",
                    f"compile it with --{option} {given.option(option)}",
                )
        source, tokens = given.data, given.option("tokens")
        seed, bits = seed_of(source, given.seed), bits_of(source, given.seed)
        first = int(given.option("first", 0))
        of = (design.recurrent, design.batch, design.heads)
        if source is None or isinstance(source, str):
            inputs = Inputs.random(*of, tokens_of(source, tokens, given.rows), seed)
            name = "random" if source is not None else "assumed"
            return cls(design, inputs, name, source is None, bits, saturates, first)
        inputs = Inputs.of(*of, source, tokens)
        if given.option("first") is None and design.device.stochastic:
            inputs.warn_of_first()
        return cls(design, inputs, given.place or "arrays", False, bits, saturates, first)

    @cached_property
    def _operands(self) -> tuple[Operands, int]:
        return self.inputs.operands(self.design.device.format, self.saturates)

    @cached_property
    def _run(self) -> tuple[Any, Any]:
        return self.layout.program(self._operands[0])

    @property
    def rates(self) -> int:
        """Registers of rates that a first chunk writes."""
        return self.layout.rates_of(self._operands[0])

    # -- the run

    def _codes(self, out: NDArray[np.uint8]) -> Result:
        made, steps = self._run
        y, state = self.layout.results(made.order, steps, out)
        y, outside = clipped(y, float(float32.decode(float32.infinity - 1)))
        if outside.any() and not self.saturates:
            token, item, column = (int(n) for n in np.argwhere(outside)[0])
            return Result(None, HardwareError(PimError.PIM_RANGE, token, item, column))
        codes = {"y": float32.encode(y)}
        if state is not None:
            codes[self.design.recurrent.state] = float32.encode(state)
        facts = {"results": hashlib.sha256(out.tobytes()).hexdigest()[:16]}
        return Result(codes, None, facts, {"saturated_sums": int(outside.sum()), **self._clipped})

    def golden(self) -> Result:
        made, steps = self._run
        device = golden_device(self.design.device)
        self._golden = language_of(device)
        out, saturated = self.layout.play(made, steps, device)
        result = self._codes(out)
        return replace(result, counters={"saturated": saturated, **result.counters})

    @property
    def _clipped(self) -> dict[str, int]:
        """What the host counts before a run."""
        return {"saturated_inputs": self._operands[1]}

    @property
    def _results_at(self) -> int:
        return round_up(self._run[0].words.nbytes)

    def model(self, memory: Memory) -> Cycles:
        made, _ = self._run
        cycles = cycles_of(made, {"m0": memory}, 0, self._results_at)
        compute = sum(
            c.count * made.schedule.interval for c in made.schedule.commands if c.name == "COMP"
        )
        count = int(made.reads.sum())
        words = memory.least(len(made.words), 4 * count, BUS)
        bound = _Bound(compute // self.design.device.sets, words)
        starts = made.schedule.starts
        facts = {"dram_cycles": made.schedule.length, "rounds": max(map(len, starts))}
        counters = {"commands": len(made.waits), "stalled": cycles.stalled}
        read, written = made.words.nbytes, 32 * count
        least = self.layout.machine_bound(self.design.target, memory)
        return Cycles(cycles.total, bound, counters, facts, read, written, bound_machine=least)

    def memory_bytes(self) -> int:
        made, _ = self._run
        return self._results_at + round_up(32 * int(made.reads.sum()) + 1, PAGE)

    def moved(self) -> tuple[int, int]:
        made = self._run[0]
        return made.words.nbytes, 32 * int(made.reads.sum())

    def drive(self, machine: Metered) -> Result:
        made, _ = self._run
        count = int(made.reads.sum())
        machine.write(0, made.words.view(np.uint8))
        machine.reserve(self._results_at, round_up(32 * count + 1, PAGE))
        ended = machine.run(
            {
                "program": 0,
                "words": len(made.words),
                "results": self._results_at,
                "result_words": 4 * count,
            }
        )
        if ended.error is not None:
            return Result(None, ended.error)
        out = machine.read(self._results_at, 32 * count).reshape(-1, 32)
        return self._codes(np.array(out))

    def details(self, codes: Mapping[str, Any]) -> Mapping[str, Any]:
        y = float32.decode(codes["y"])
        beside = Beside(self.layout, self._operands[0], y.reshape(*y.shape[:2], -1))
        told = {"float64": beside.to_json(), "collapsed": beside.collapsed()}
        return {**told, "golden": self._golden} if self._golden else told

    def failure(self, error: HardwareError) -> Failure:
        from penstock.failures import hardware_failure

        if error.code != PimError.PIM_RANGE:
            return super().failure(error)
        request, head = divmod(error.line, self.design.heads)
        where = f"token {error.block}, request {request}, head {head}"
        return hardware_failure(error, f"{self.name or 'the data'}, {where}")

    def values(self, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        recurrent, design = self.design.recurrent, self.design
        y = float32.decode(codes["y"])
        leaves = {**self.inputs.leaves, "": y.reshape(-1, y.shape[-1])}
        value = recurrent.host(leaves, recurrent.output)
        shape = (self.tokens, design.batch, design.heads)
        found = {"y": value.reshape(*shape, *value.shape[1:])}
        if recurrent.state in codes:
            state = float32.decode(codes[recurrent.state])
            if recurrent.turned:
                state = state.swapaxes(1, 2)
            found[recurrent.state] = state.reshape(design.batch, design.heads, *state.shape[1:])
        return found
