"""A run of attention: one program over the cache of keys and that of values, with the softmax unit between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.pim.attention import WEIGHTS
from penstock.dsl.pim.recurrent import Recurrent
from penstock.engines.base import Result
from penstock.host.sources.errors import SourceError
from penstock.models.bound import Machine
from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.floating import float32
from penstock.models.pim.attended import Caches
from penstock.models.pim.attention import Attention
from penstock.models.pim.device import Step
from penstock.models.pim.errors import PimError
from penstock.models.pim.operands import Floats, Work
from penstock.models.pim.program import program
from penstock.models.pim.softmax import TILE

from .errors import Beside, Compared, clipped
from .workload import Played, Stepping

__all__ = ["Attending", "check_room"]


class Attending(Stepping):
    """Queries of two caches, whose parts are `scores`, which reads the keys, and `read`, which reads the values by weights. Of heads that share a
    cache, each is a turn: a token is as many of them.

    Raises SourceError (E460) where caches that grow have no room for all tokens, or where it is not known how many rows they hold.
    """

    def __init__(self, design: Any, inputs: Any, *own: Any) -> None:
        super().__init__(design, inputs, *own)
        self.first = int(own[4]) if len(own) > 4 else 0
        self.grows = inputs.recurrent.grows
        self._check_room()
        self.scores = self._part(0, {})
        lead = (self.tokens * inputs.group, design.batch, design.heads // inputs.group)
        self.read = self._part(1, {WEIGHTS: np.zeros((*lead, self.scores.layout.columns))})
        both = self.scores.layout, self.read.layout
        self.attention = Attention.of(*both, self._held(lead[0], both[0].items))

    def _check_room(self) -> None:
        recurrent, inputs = self.inputs.recurrent, self.inputs
        given = [n for n in recurrent.states if n in inputs.arrays]
        if not self.grows:
            return
        if (self.first > 0) != (len(given) > 0) or len(given) == 1:
            held = f"{' and '.join(given) or 'no cache'} given, and first={self.first}"
            raise SourceError(
                f"a run goes on with both caches and the number of rows that they hold: here is {held}",
                f"give {' and '.join(recurrent.states)} with first=N (--first N), or none of them",
                code="E460",
            )
        check_room(recurrent, self.first, inputs.tokens)

    def _held(self, turns: int, items: int) -> NDArray[np.int64]:
        """How many keys each turn reads."""
        last = np.full(turns, self.scores.layout.columns)
        if self.grows:
            last = self.first + 1 + np.arange(turns) // self.inputs.group
        return np.repeat(last[:, None], items, axis=1)

    def _part(self, number: int, more: Mapping[str, Floats]) -> Stepping:
        inputs = self.inputs.in_turns().part(number, more)
        own = {"recurrent": inputs.recurrent, "heads": inputs.heads, "group": 1}
        design = replace(self.design, **own)
        return Stepping(design, inputs, self.name, self.assumed, 1, self.saturates)

    @property
    def parts(self) -> tuple[Stepping, Stepping]:
        return self.scores, self.read

    @cached_property
    def _caches(self) -> tuple[Floats, Floats]:
        """Keys and values (items, dim, keys) before the first token: zeros behind the rows that are held."""
        found = []
        for part in self.parts:
            own, start = part.layout, part.course.start
            cache = np.zeros((own.items, own.head, own.columns))
            if start is not None:
                last = self.first if self.grows else own.columns
                cache[..., :last] = start[..., :last]
            found.append(cache)
        return found[0], found[1]

    @cached_property
    def _rows(self) -> tuple[Floats, Floats] | None:
        """The keys and values that turns append."""
        if not self.grows:
            return None
        keys, values = (part.course.operands(0, 0, part.tokens).k for part in self.parts)
        assert keys is not None and values is not None
        return keys, values

    @cached_property
    def _first(self) -> Played:
        given = self.scores.course.operands(0, 0, self.scores.tokens)
        work = Work(0, 0, given._replace(k=None))
        steps = self.attention.loads(*self._caches) if self.first or not self.grows else []
        steps += self.attention.steps(work, self._rows, self.inputs.group)
        return Played(program(self.design.device, [steps]), [steps], [work], [])

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
                turn, item, column = (int(n) for n in np.argwhere(wrong)[0])
                token, request, head = self.read.inputs.place(turn, item)
                place = token, request * self.design.heads + head, column * each
                return Result(None, HardwareError(PimError.PIM_RANGE, *place))
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
        y = self.inputs.in_heads(self.read._told(codes).output())
        return {"y": y.reshape(self.tokens, self.design.batch, self.design.heads, *y.shape[2:])}

    def details(self, codes: Mapping[str, Any]) -> Mapping[str, Any]:
        """How far the units' attention is from float64."""
        of, made = list(Beside(self.scores.layout, self.scores.course).items), Compared()
        q = self.scores.course.operands(0, 0, self.scores.tokens).q
        assert q is not None
        caches = [cache[of] for cache in self._caches]
        for cache, rows in zip(caches, self._rows or (), strict=self.grows):
            own = rows[:: self.inputs.group, of]
            cache[..., self.first : self.first + len(own)] = np.moveaxis(own, 0, 2)
        exact = Caches(self.design.device, self.scores.layout.parts, *caches)
        read = [exact.read(q[n, of], int(held[0])) for n, held in enumerate(self.attention.held)]
        place = lambda turn, item, column: [*self.read.inputs.place(turn, of[item]), column]
        value, bound = (
            np.array([getattr(one, name) for one in read]) for name in ("value", "error")
        )
        made.add(float32.decode(codes["y"])[:, of], value, bound, place)
        told = {"heads": len(of), "of": self.scores.layout.items, **made.to_json()}
        return {"float64": told, "collapsed": [], **self.language}


def check_room(recurrent: Recurrent, held: int, more: int) -> None:
    """Raise SourceError (E460) where caches have no room for tokens behind those that they hold."""
    room, dim = recurrent.sizes[0], dict(recurrent.dims)[recurrent.state][0]
    assert room is not None
    if held + more > room:
        raise SourceError(
            f"the caches {' and '.join(recurrent.states)} are full: they have room for {room:,} rows, hold {held:,}, and {more:,} come",
            f"compile for more (--dim {dim}={held + more}), or take fewer tokens",
            code="E460",
        )
