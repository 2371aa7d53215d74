"""Attention in one program: the rounds of two caches, in turn, and what the host makes of what it reads.

For each token and each tile of 64 keys come the two score rounds of all seats, and then, while the softmax unit is at that tile, the attend rounds
of the tile before. The host adds the sums of tiles under their powers of two, and divides by the sum of totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .config import COLUMNS, TILE
from .device import Step
from .layout import Layout
from .operands import Floats, Work
from .softmax import Taken, scales, summed, told

__all__ = ["Attention"]

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Attention:
    """`keys` and `values` lie one behind the other in the banks of one device, which has the softmax unit."""

    keys: Layout
    values: Layout

    @classmethod
    def of(cls, keys: Layout, values: Layout) -> Attention:
        """Return it with the values behind the keys."""
        return cls(keys, replace(values, base=keys.rows))

    def steps(self, queries: Work, keys: Floats, values: Floats) -> list[Step]:
        """Return all steps; `keys` and `values` as `Layout.rows_of` takes them."""
        steps = self.keys.loads(self.keys.rows_of(keys))
        steps += self.values.loads(self.values.rows_of(values))
        held = self.keys.held(queries, np.zeros(self.keys.items, dtype=np.bool_))
        number = 0
        due: list[Step] = []
        for token in range(self.keys.tokens):
            for tile in range(self.values.chunks):
                steps += self._scores(held, token, tile, number)
                number += 1
                steps += due
                due = self._attends(tile, number)
        return steps + due

    def _scores(self, held: dict[str, Bytes], token: int, tile: int, number: int) -> list[Step]:
        """The score rounds of a tile, which is the program's `number`th."""
        own, steps = self.keys, []
        config, every = own.config, slice(0, 2 * own.config.pairs)
        keys = min(TILE, own.columns - tile * TILE)
        last = -(-keys // COLUMNS) - 1
        for chunk, seat in np.ndindex(last + 1, own.seats):
            places, ended, at = [], [], []
            for pair in range(config.pairs):
                item, part = divmod(seat * config.pairs + pair, own.parts)
                slot = number % 2 * config.soft_items + item
                place = (slot * 2 + chunk) * config.soft_parts_wide + part
                places.append(place if item < own.items else -1)
                if item < own.items and chunk == last and part == own.parts - 1:
                    ended.append(slot)
                    at.append((own.reads - 1) * config.pairs + pair)
            where = tile * TILE // COLUMNS + chunk
            given = own.round_of(0, where, 1, own.row(seat, where))
            made = own.step_of(
                replace(given, soft=True, ended=tuple(at)), held, token, seat, where, every
            )
            steps.append(replace(made, taken=Taken(tuple(places), tuple(ended), keys)))
        return steps

    def _attends(self, tile: int, number: int) -> list[Step]:
        """The attend rounds of a tile when there were `number` of the program; totals are read with an item's first part."""
        own, steps = self.values, []
        config, none = own.config, np.zeros(0, dtype=np.uint8)
        for seat in range(own.seats):
            places, ended = [], []
            for pair in range(config.pairs):
                item, part = divmod(seat * config.pairs + pair, own.parts)
                slot = (number - 1) % 2 * config.soft_items + item
                places.append(slot if item < own.items else -1)
                if item < own.items and part == 0:
                    ended.append(slot)
            given = own.round_of(0, tile, 1, own.row(seat, tile))
            given = replace(given, soft=True, after=number * own.items, totals=len(ended))
            steps.append(Step(given, none, taken=Taken(tuple(places), tuple(ended))))
        return steps

    def results(
        self, order: Iterable[tuple[int, int, int]], steps: Sequence[Step], out: Bytes
    ) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Return the sums (tokens, items, dim of values), the totals that they are divided by (tokens, items), and how many scores lay
        beyond the range (tokens, items, tiles)."""
        own, sums = self.values, self.values.config.pairs * self.values.reads
        attends = [n for n, step in enumerate(steps) if step.round.mode == "attend"]
        turn = {n: at for at, n in enumerate(attends)}
        words = np.zeros((self.keys.tokens, own.items, own.chunks, 32), dtype=np.uint8)
        read, which = [], []
        for number, (of, step, index) in enumerate(order):
            rest, seat = divmod(turn[step], own.seats)
            token, tile = divmod(rest, own.chunks)
            if index < sums:
                read.append((of, token * own.rows + seat * own.chunks + tile, index))
                which.append(number)
            else:
                taken = steps[step].taken
                assert taken is not None
                words[token, taken.ended[index - sums] % own.config.soft_items, tile] = out[number]
        exponent, total, beyond = told(words)
        given = [[steps[n] for n in attends]]
        y, _ = own.results(read, given, out[which], scales(exponent))
        return y, summed(exponent, total), beyond
