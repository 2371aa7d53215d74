"""A run of attention: one program over the cache of keys and that of values, with the softmax unit between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.pim.attention import WEIGHTS
from penstock.engines.base import Result
from penstock.models.bound import Machine
from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.floating import float32
from penstock.models.pim.attended import attended
from penstock.models.pim.attention import Attention
from penstock.models.pim.device import Step
from penstock.models.pim.error import Exact, Number
from penstock.models.pim.errors import PimError
from penstock.models.pim.operands import Floats, Work
from penstock.models.pim.program import program
from penstock.models.pim.softmax import TILE

from .errors import Beside, Compared, clipped
from .workload import Played, Stepping

__all__ = ["Attending"]


class Attending(Stepping):
    """Queries of two caches, whose parts are `scores`, which reads the keys, and `read`, which reads the values by weights."""

    def __init__(self, *own: Any) -> None:
        super().__init__(*own)
        self.scores = self._part(0, {})
        shape = (self.tokens, self.design.batch, self.design.heads, self.scores.layout.columns)
        self.read = self._part(1, {WEIGHTS: np.zeros(shape)})
        self.attention = Attention.of(self.scores.layout, self.read.layout)

    def _part(self, number: int, more: Mapping[str, Floats]) -> Stepping:
        inputs = self.inputs.part(number, more)
        design = replace(self.design, recurrent=inputs.recurrent)
        return Stepping(design, inputs, self.name, self.assumed, 1, self.saturates)

    @property
    def parts(self) -> tuple[Stepping, Stepping]:
        return self.scores, self.read

    @cached_property
    def _first(self) -> Played:
        keys, values = (part.course.start for part in self.parts)
        assert keys is not None and values is not None
        work = Work(0, 0, self.scores.course.operands(0, 0, self.tokens))
        steps = [self.attention.steps(work, keys, values)]
        return Played(program(self.design.device, steps), steps, [work], [])

    @property
    def steps(self) -> list[Step]:
        return self._first.steps[0]

    def _carried_out(self, play: Callable[[Played], NDArray[np.uint8]]) -> Result:
        made = self._first
        out = play(made)
        y, totals, beyond = self.attention.results(made.program.order, self.steps, out)
        y, outside = clipped(y, float(float32.decode(float32.infinity - 1)))
        for wrong, each in ((beyond > 0, TILE), (outside, 1)):
            if wrong.any() and not self.saturates:
                token, item, column = (int(n) for n in np.argwhere(wrong)[0])
                error = HardwareError(PimError.PIM_RANGE, token, item, column * each)
                return Result(None, error)
        counters = {
            "saturated_scores": int(beyond.sum()),
            "saturated_sums": int(outside.sum()),
            "saturated_inputs": sum(part.course.beyond for part in self.parts),
        }
        return self._result({"y": float32.encode(y / totals[..., None])}, out, counters)

    def _machine_bound(self, memory: Memory) -> Machine:
        keys, values = (part._machine_bound(memory) for part in self.parts)
        return keys + values

    def values(self, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return self.read.values(codes)

    def details(self, codes: Mapping[str, Any]) -> Mapping[str, Any]:
        """How far the units' attention is from float64."""
        keys, made = Beside(self.scores.layout, self.scores.course), Compared()
        of, lead = list(keys.items), self.design.heads
        [(y, error)] = keys.exactly[0].values()
        start = self.read.course.start
        assert start is not None
        values, parts = Exact(self.design.device, "attend", start[of]), self.scores.layout.parts
        exact = [attended(Number(*both), values, parts) for both in zip(y, error, strict=True)]
        given = float32.decode(codes["y"])[:, of]
        place = lambda token, item, column: [token, *divmod(of[item], lead), column]
        made.add(
            given,
            np.array([one.value for one in exact]),
            np.array([one.error for one in exact]),
            place,
        )
        told = {"heads": len(of), "of": self.scores.layout.items, **made.to_json()}
        return {"float64": told, "collapsed": [], **self.language}
