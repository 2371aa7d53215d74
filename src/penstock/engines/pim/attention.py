"""A run of attention: the scores of a cache of keys, the softmax unit's specification, and the cache of values by its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.dsl.pim.attention import SCORES, WEIGHTS
from penstock.engines.base import Cycles, Result, Workload
from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.floating import float32
from penstock.models.pim.attended import attended
from penstock.models.pim.error import Exact, Number
from penstock.models.pim.errors import PimError
from penstock.models.pim.operands import Floats
from penstock.models.pim.program import Program
from penstock.models.pim.softmax import FRACTION, LIMIT, Tiles, fixed, tiles
from penstock.sim.machine import Metered

from .errors import Beside, Compared
from .workload import Stepping

if TYPE_CHECKING:
    from penstock.failures import Failure

__all__ = ["Attending"]


class Attending(Workload):
    """Queries of two caches: `scores` reads the keys, and a second run the values, by weights that the host makes as the unit does."""

    def __init__(self, whole: Stepping) -> None:
        self.design, self.inputs, self.tokens = whole.design, whole.inputs, whole.tokens
        self.name, self.assumed, self.rows = whole.name, whole.assumed, whole.rows
        self.saturates = whole.saturates
        self.scores = self._part(0, {})

    def _part(self, number: int, more: Mapping[str, Floats]) -> Stepping:
        inputs = self.inputs.part(number, more)
        design = replace(self.design, recurrent=inputs.recurrent)
        return Stepping(design, inputs, self.name, self.assumed, 1, self.saturates)

    def _weighed(self, scores: Result) -> tuple[Result, Stepping | None, Tiles | None]:
        """Return what the unit makes of scores: the error of a score beyond its range, or the run over the values with its tiles."""
        if scores.codes is None:
            return scores, None, None
        y = float32.decode(scores.codes["y" + SCORES])
        outside = np.abs(y) >= 2.0 ** (LIMIT - FRACTION)
        if outside.any() and not self.saturates:
            place = (int(n) for n in np.argwhere(outside)[0])
            return Result(None, HardwareError(PimError.PIM_RANGE, *place)), None, None
        made = tiles(self.design.device.format, fixed(y))
        weights = made.weights.reshape(*y.shape[:2], -1)[..., : y.shape[2]]
        lead = self.design.batch, self.design.heads
        run = self._part(1, {WEIGHTS: weights.reshape(len(y), *lead, -1)})
        run.scales = made.scales
        counters = {**scores.counters, "saturated_scores": int(outside.sum())}
        return replace(scores, counters=counters), run, made

    def _joined(self, play: Callable[[Stepping], Result]) -> Result:
        """The result of both runs."""
        scores, run, made = self._weighed(play(self.scores))
        if run is None or made is None:
            return scores
        found = play(run)
        if found.codes is None:
            return found
        y = float32.decode(found.codes["y"]) / made.sums[..., None]
        facts = {f"{name} of scores": value for name, value in scores.facts.items()}
        names = {*scores.counters, *found.counters}
        counters = {n: scores.counters.get(n, 0) + found.counters.get(n, 0) for n in names}
        return Result({"y": float32.encode(y)}, None, {**facts, **found.facts}, counters)

    @cached_property
    def _golden(self) -> tuple[Result, list[Stepping]]:
        runs: list[Stepping] = []

        def play(run: Stepping) -> Result:
            runs.append(run)
            return run.golden()

        return self._joined(play), runs

    @cached_property
    def parts(self) -> list[Stepping]:
        """Both runs, for cycles: they depend on no weight."""
        shape = (self.tokens, self.design.batch, self.design.heads, self.scores.layout.columns)
        return [self.scores, self._part(1, {WEIGHTS: np.zeros(shape)})]

    @property
    def programs(self) -> list[Program]:
        return [made for part in self.parts for made in part.programs]

    def golden(self) -> Result:
        return self._golden[0]

    def model(self, memory: Memory) -> Cycles:
        a, b = (part.model(memory) for part in self.parts)
        both = lambda name: {n: x + getattr(b, name)[n] for n, x in getattr(a, name).items()}
        sums = {
            name: add(getattr(a, name), getattr(b, name))
            for name in ("total", "bound", "bytes_read", "bytes_written", "bound_machine")
        }
        return Cycles(**sums, counters=both("counters"), facts=both("facts"))

    def memory_bytes(self) -> int:
        return max(part.memory_bytes() for part in self.parts)

    def moved(self) -> tuple[int, int]:
        read, written = zip(*(part.moved() for part in self.parts), strict=True)
        return sum(read), sum(written)

    def drive(self, machine: Metered) -> Result:
        machine.reserve(0, self.memory_bytes())  # for both, whichever is longer
        return self._joined(lambda run: run.drive(machine))

    def values(self, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return self.parts[1].values(codes)

    def details(self, codes: Mapping[str, Any]) -> Mapping[str, Any]:
        """How far the units' attention is from float64."""
        keys, run, made = Beside(self.scores.layout, self.scores.course), self.parts[1], Compared()
        of, lead = list(keys.items), self.design.heads
        [(y, error)] = keys.exactly[0].values()
        start = run.course.start
        assert start is not None
        values = Exact(self.design.device, "attend", start[of])
        exact = [attended(Number(*both), values) for both in zip(y, error, strict=True)]
        given = float32.decode(codes["y"])[:, of]
        place = lambda token, item, column: [token, *divmod(of[item], lead), column]
        made.add(
            given,
            np.array([one.value for one in exact]),
            np.array([one.error for one in exact]),
            place,
        )
        told = {"heads": len(of), "of": self.scores.layout.items, **made.to_json()}
        runs = self._golden[1] if "_golden" in vars(self) else []
        return {"float64": told, "collapsed": [], **(runs[0].language if runs else {})}

    def failure(self, error: HardwareError) -> Failure:
        return self.scores.failure(error)
