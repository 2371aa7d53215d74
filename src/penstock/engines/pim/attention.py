"""A run of attention: one program over the cache of keys and that of values, with the softmax unit between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.pim.recurrent import Recurrent
from penstock.engines.base import Result
from penstock.host.sources.errors import SourceError
from penstock.models.bound import Machine
from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.floating import float32
from penstock.models.pim.attention import Attention
from penstock.models.pim.device import Step
from penstock.models.pim.errors import PimError
from penstock.models.pim.layout import Layout
from penstock.models.pim.operands import Floats, Operands, Work
from penstock.models.pim.program import program
from penstock.models.pim.softmax import TILE

from .data import Inputs
from .decoding import Brought, Remembered
from .errors import Beside, Compared, clipped
from .workload import Played, Stepping

__all__ = ["Attending", "check_room"]


class Attending(Stepping):
    """Queries of two caches. Of heads that share a cache, each is a turn: a token is as many of them.

    Raises SourceError (E460) where caches that grow have no room for all tokens, or where it is not known how many rows they hold.
    """

    def __init__(self, design: Any, inputs: Inputs, *own: Any) -> None:
        super().__init__(design, inputs, *own)
        self.first = int(own[4]) if len(own) > 4 else 0
        self.grows = inputs.recurrent.grows
        self._check_room()
        self.brought = Brought(inputs, design.device.format, self.saturates)
        few, turns = design.heads // inputs.group, self.tokens * inputs.group
        keys, values = (
            Layout(design.device, *part.form, design.batch * few, turns, heads=few)
            for part in inputs.recurrent.parts
        )
        last = np.full(turns, keys.columns)
        if self.grows:
            last = self.first + 1 + np.arange(turns) // inputs.group
        held = np.repeat(last[:, None], keys.items, axis=1)
        self.attention = Attention.of(keys, values, held)

    @property
    def layouts(self) -> Sequence[Layout]:
        return self.attention.keys, self.attention.values

    @property
    def rates(self) -> int:
        return 1

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

    @cached_property
    def _caches(self) -> list[Floats]:
        """Keys and values (items, dim, keys) before the first token: zeros behind the rows that are held."""
        found = []
        for own, course in zip(self.layouts, (self.brought.keys, self.brought.values), strict=True):
            cache = np.zeros((own.items, own.head, own.columns))
            if course.start is not None:
                last = self.first if self.grows else own.columns
                cache[..., :last] = course.start[..., :last]
            found.append(cache)
        return found

    @cached_property
    def _first(self) -> Played:
        q, *rows = self.brought.operands(0, len(self.attention.held))
        work = Work(0, 0, Operands(q=q))
        steps = self.attention.loads(*self._caches) if self.first or not self.grows else []
        steps += self.attention.steps(work, rows, self.inputs.group)
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
                token, request, head = self.brought.place(turn, item)
                place = token, request * self.design.heads + head, column * each
                return Result(None, HardwareError(PimError.PIM_RANGE, *place))
        counters = {
            "saturated_scores": int(beyond.sum()),
            "saturated_sums": int(outside.sum()),
            "saturated_inputs": self.brought.beyond,
        }
        return self._result({"y": float32.encode(y / totals[..., None])}, out, counters)

    def _machine_bound(self, memory: Memory) -> Machine:
        keys, values = (own.machine_bound(self.design.target, memory) for own in self.layouts)
        return keys + values

    def values(self, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        self.brought.took(0, float32.decode(codes["y"]))
        y = self.brought.output()
        return {"y": y.reshape(self.tokens, self.design.batch, self.design.heads, *y.shape[2:])}

    def details(self, codes: Mapping[str, Any]) -> Mapping[str, Any]:
        """How far the units' attention is from float64."""
        self.brought.took(0, float32.decode(codes["y"]))
        of, made = list(Beside(self.layouts[0], self.brought.keys).items), Compared()
        exact = Remembered(self.attention.keys, self.attention.values, of)
        exact.start(self.first if self.grows else self.layouts[0].columns, self._caches)
        place = lambda turn, item, column: [*self.brought.place(turn, of[item]), column]
        made.add(*exact.step(self.brought, 0, self.tokens), place)
        told = {"heads": len(of), "of": self.layouts[0].items, **made.to_json()}
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
