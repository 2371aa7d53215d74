"""What a session does with caches that grow: tokens of some requests, each a program, and float64 beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.pim.attention import WEIGHTS
from penstock.models.numerics.floating import float32
from penstock.models.pim.attended import Caches
from penstock.models.pim.attention import Attention
from penstock.models.pim.config import TILE, PimConfig
from penstock.models.pim.device import Step
from penstock.models.pim.layout import Layout
from penstock.models.pim.operands import Floats, Operands, Work

from .banks import Order
from .data import Inputs
from .errors import clipped
from .host import Course

__all__ = ["Brought", "Remembered", "decoded", "program_size"]

Play = Callable[[Sequence[Sequence[Step]]], tuple[Order, NDArray[np.uint8]]]


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
        first, second = (own.operands(0, begin, end) for own in (self.keys, self.values))
        assert first.q is not None
        return first.q, *(own.k for own in (first, second) if own.k is not None)

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
        for own, given in zip(self.caches, caches, strict=True):
            own[..., :held] = given[self.heads, :, :held]

    def step(self, brought: Brought, begin: int, end: int) -> tuple[Floats, Floats, Floats]:
        """Take tokens; return results of the device, of float64, and the bound (turns, heads, dim of values)."""
        own = slice(begin * brought.turns, end * brought.turns)
        q, *rows = brought.operands(own.start, own.stop)
        first = self.held
        if rows:
            self.held += end - begin
        for cache, row in zip(self.caches, rows, strict=len(rows) > 0):
            cache[..., first : self.held] = np.moveaxis(row[:: brought.turns, self.heads], 0, 2)
        exact = Caches(self.config, self.parts, *self.caches)
        reads = [first + n // brought.turns + 1 if rows else first for n in range(len(q))]
        found = [exact.read(x[self.heads], held) for x, held in zip(q, reads, strict=True)]
        value, error = (np.array([getattr(x, name) for x in found]) for name in ("value", "error"))
        return brought.values.values[".1"][own, self.heads], value, error


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
    given = [own.operands(token * turns, (token + 1) * turns) for own in many]
    q, *rows = (np.concatenate(own, axis=1) for own in zip(*given, strict=True))
    reads = np.broadcast_to(np.repeat(held, few) + 1, (turns, few * len(many)))
    attention = Attention(*layouts, reads)
    steps = attention.steps(Work(0, 0, Operands(q=q)), rows, turns)
    order, out = play([steps])
    y, totals, beyond = attention.results(order, steps, out)
    y, outside = clipped(y, float(float32.decode(float32.infinity - 1)))
    y = float32.decode(float32.encode(y / totals[..., None]))
    for own, part in zip(many, np.split(y, len(many), axis=1), strict=True):
        own.took(token * turns, part)
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
