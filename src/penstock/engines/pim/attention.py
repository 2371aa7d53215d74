"""Attention: a run is one program over the cache of keys and that of values, with the softmax unit between them; a session steps caches that grow, a
program for each token of some requests, with float64 beside them."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.pim.attention import WEIGHTS
from penstock.dsl.pim.recurrent import Recurrent
from penstock.engines.base import Result
from penstock.host.sources.errors import SourceError
from penstock.models.bound_terms import Machine
from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.floating import float32
from penstock.models.pim.attended import Caches
from penstock.models.pim.attention import Attention
from penstock.models.pim.config import TILE, PimConfig
from penstock.models.pim.device import Step
from penstock.models.pim.errors import PimError
from penstock.models.pim.layout import Layout
from penstock.models.pim.operands import Floats, Operands, Work
from penstock.models.pim.program import program

from .accuracy import Beside, Compared, clipped
from .banks import Order
from .data import Inputs
from .host import Course
from .workload import Played, Stepping

Play = Callable[[Sequence[Sequence[Step]]], tuple[Order, NDArray[np.uint8]]]


class Attending(Stepping):
    """Queries of two caches. Of heads that share a cache, each is a turn: a token is as many of them.

    Raises SourceError (E460) where caches that grow have no room for all tokens, or where it is not known how many rows they hold.
    """

    def __init__(self, design: Any, inputs: Inputs, *rest: Any) -> None:
        super().__init__(design, inputs, *rest)
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
        caches = [n for n in recurrent.states if n in inputs.arrays]
        if not self.grows:
            return
        if (self.first > 0) != (len(caches) > 0) or len(caches) == 1:
            held = f"{' and '.join(caches) or 'no cache'} given, and first={self.first}"
            raise SourceError(
                f"a run goes on with both caches and the number of rows that they hold: here is {held}",
                f"give {' and '.join(recurrent.states)} with first=N (--first N), or none of them",
                code="E460",
            )
        check_room(recurrent, self.first, inputs.tokens)

    @cached_property
    def _caches(self) -> list[Floats]:
        """Keys and values (items, dim, keys) before the first token: zeros behind the rows that are held."""
        caches = []
        for part, side in zip(self.layouts, (self.brought.keys, self.brought.values), strict=True):
            cache = np.zeros((part.items, part.head, part.columns))
            if side.start is not None:
                last = self.first if self.grows else part.columns
                cache[..., :last] = side.start[..., :last]
            caches.append(cache)
        return caches

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
        batch = self._first
        out = play(batch)
        y, totals, beyond = self.attention.results(batch.program.order, self.steps, out)
        y, outside = clipped(y)
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
        keys, values = (layout.machine_bound(self.design.target, memory) for layout in self.layouts)
        return keys + values

    def values(self, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        self.brought.took(0, float32.decode(codes["y"]))
        y = self.brought.output()
        return {"y": y.reshape(self.tokens, self.design.batch, self.design.heads, *y.shape[2:])}

    def details(self, codes: Mapping[str, Any]) -> Mapping[str, Any]:
        """How far the units' attention is from float64."""
        self.brought.took(0, float32.decode(codes["y"]))
        of, comparison = list(Beside(self.layouts[0], self.brought.keys).items), Compared()
        exact = Remembered(self.attention.keys, self.attention.values, of)
        exact.start(self.first if self.grows else self.layouts[0].columns, self._caches)
        place = lambda turn, item, column: [*self.brought.place(turn, of[item]), column]
        comparison.add(*exact.step(self.brought, 0, self.tokens), place)
        report = {"heads": len(of), "of": self.layouts[0].items, **comparison.to_json()}
        return {"float64": report, "collapsed": [], **self.language}


def check_room(recurrent: Recurrent, held: int, more: int) -> None:
    """Raise SourceError (E460) where caches have no room for tokens behind those that they hold."""
    room, dim = recurrent.sizes[0], dict(recurrent.dims)[recurrent.state][0]
    assert room is not None
    if held + more > room:
        what = f"the caches {' and '.join(recurrent.states)} are full: they have room for {room:,} rows, hold {held:,}, and {more:,} come"
        hint = f"compile for more (--dim {dim}={held + more}), or take fewer tokens"
        raise SourceError(what, hint, code="E460")


class Brought:
    """What a request brings to a layer of attention: operands of keys and of values, whose heads take turns, and then its results. Has the
    members of `Course` that a session asks for."""

    lost = None

    def __init__(self, inputs: Inputs, format: str, saturates: bool) -> None:
        self.inputs, turned = inputs, inputs.in_turns()
        room = inputs.recurrent.sizes[0]
        assert room is not None
        weights = np.zeros((turned.tokens, turned.batch, turned.heads, room))
        self.keys, self.values = (
            Course(turned.part(n, more), format, saturates)
            for n, more in ((0, {}), (1, {WEIGHTS: weights}))
        )
        self.beyond = self.keys.beyond + self.values.beyond
        self.held: Mapping[str, Floats] = {}

    @property
    def turns(self) -> int:
        """Of a token."""
        return self.inputs.group

    def operands(self, begin: int, end: int) -> tuple[Floats, *tuple[Floats, ...]]:
        """Return queries and, of caches that grow, keys and values (turns, heads of caches, …) of some turns."""
        first, second = (course.operands(0, begin, end) for course in (self.keys, self.values))
        assert first.q is not None
        return first.q, *(operands.k for operands in (first, second) if operands.k is not None)

    def place(self, turn: int, item: int) -> tuple[int, int, int]:
        """Return token, request and head."""
        return self.keys.inputs.place(turn, item)

    def took(self, begin: int, y: Floats) -> None:
        """Take results of turns from `begin` on."""
        self.values.values[".1"][begin : begin + len(y)] = y

    def output(self) -> Floats:
        """Return the outputs (tokens, heads, …)."""
        return self.inputs.in_heads(self.values.output())

    def first_update(self, tokens: int) -> Operands:
        """Return operands without rates: none collapse."""
        return Operands()


class Remembered:
    """The caches of some heads of a request in float64: keys and values (heads, dim, keys), of which `held` are there."""

    def __init__(self, keys: Layout, values: Layout, heads: Sequence[int]) -> None:
        self.config, self.parts, self.heads = keys.config, keys.parts, list(heads)
        self.caches = [np.zeros((len(heads), one.head, one.columns)) for one in (keys, values)]
        self.held = 0

    def start(self, held: int, caches: Sequence[Floats]) -> None:
        """Take caches of all heads as a snapshot has them."""
        self.held = held
        for cache, snapshot in zip(self.caches, caches, strict=True):
            cache[..., :held] = snapshot[self.heads, :, :held]

    def step(self, brought: Brought, begin: int, end: int) -> tuple[Floats, Floats, Floats]:
        """Take tokens; return results of the device, of float64, and the bound (turns, heads, dim of values)."""
        span = slice(begin * brought.turns, end * brought.turns)
        q, *rows = brought.operands(span.start, span.stop)
        first = self.held
        if rows:
            self.held += end - begin
        for cache, row in zip(self.caches, rows, strict=len(rows) > 0):
            cache[..., first : self.held] = np.moveaxis(row[:: brought.turns, self.heads], 0, 2)
        exact = Caches(self.config, self.parts, *self.caches)
        reads = [first + n // brought.turns + 1 if rows else first for n in range(len(q))]
        turns = [exact.read(x[self.heads], held) for x, held in zip(q, reads, strict=True)]
        value, error = (np.array([getattr(x, name) for x in turns]) for name in ("value", "error"))
        return brought.values.values[".1"][span, self.heads], value, error


def decoded(
    layouts: tuple[Layout, Layout],
    many: Sequence[Brought],
    held: Sequence[int],
    token: int,
    play: Play,
) -> tuple[int, int, NDArray[np.bool_]]:
    """Play a token of some requests, whose caches hold so many rows before it. Return how many scores lay beyond the range, how many sums left
    float32, and which requests have such ones."""
    turns, few = many[0].turns, layouts[0].heads
    operands = [brought.operands(token * turns, (token + 1) * turns) for brought in many]
    q, *rows = (np.concatenate(arrays, axis=1) for arrays in zip(*operands, strict=True))
    reads = np.broadcast_to(np.repeat(held, few) + 1, (turns, few * len(many)))
    attention = Attention(*layouts, reads)
    steps = attention.steps(Work(0, 0, Operands(q=q)), rows, turns)
    order, out = play([steps])
    y, totals, beyond = attention.results(order, steps, out)
    y, outside = clipped(y)
    y = float32.decode(float32.encode(y / totals[..., None]))
    for brought, part in zip(many, np.split(y, len(many), axis=1), strict=True):
        brought.took(token * turns, part)
    wrong = np.asarray(outside.any(axis=(0, 2)) | (beyond > 0).any(axis=(0, 2)))
    return (
        int(beyond.sum()),
        int(outside.sum()),
        np.asarray(wrong.reshape(len(many), few).any(axis=1)),
    )


def program_size(
    config: PimConfig, turns: int, keys: int, groups: tuple[int, int]
) -> tuple[int, int]:
    """Return the words and results that a token takes at most, in so many groups of seats of each cache."""
    banks, tiles = config.groups * config.banks, -(-keys // TILE)
    rounds = turns * tiles * (2 * 10 * groups[0] + 8 * groups[1])
    return (rounds + (180 + 4 * config.pairs) * sum(groups)) * banks, turns * tiles * groups[
        1
    ] * banks
