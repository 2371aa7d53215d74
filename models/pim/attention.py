"""Attention in one program: the rounds of two caches, in turn, and what the host makes of what it reads.

For each token and each tile of 64 keys come the two score rounds of all seats, and then, while the softmax unit is at that tile, the attend rounds
of the tile before. Of caches that grow, the token's key is written before its scores, its value behind the rounds of the token before. The host
adds the sums of tiles under their powers of two, and divides by the sum of totals.

A row of a cache is one column of a row of the banks: a transfer of 32 bytes a bank, for keys in both banks of a pair, for values in one. The
first column of a row of the banks comes with zeros in all others (of values, in both banks): what lies beyond the keys counts in what results
are coded beside, and must be nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .config import COLUMNS, TILE
from .device import Step
from .layout import Layout
from .operands import Floats, Work
from .rounds import Round
from .softmax import Taken, scales, summed, totals_of

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
#: the exponent of a tile that there is not
_NONE = -(1 << 40)
#: what lies in a pair of banks: the pair, item and part of it
_Part = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Attention:
    """Keys and values in the banks of one device, which has the softmax unit."""

    keys: Layout
    values: Layout
    held: Ints  #: keys that each token reads (tokens, items)

    @classmethod
    def of(cls, keys: Layout, values: Layout, held: Ints) -> Attention:
        """Return it with the values behind the keys."""
        return cls(keys, replace(values, base=keys.rows), held)

    def loads(self, keys: Floats, values: Floats) -> list[Step]:
        """Return the rounds that write caches, as `Layout.rows_of` takes them."""
        both = ((self.keys, keys), (self.values, values))
        return [step for layout, x in both for step in layout.loads(layout.rows_of(x))]

    def steps(self, queries: Work, rows: Sequence[Floats], every: int = 1) -> list[Step]:
        """Return all steps; `rows`: of caches that grow, the keys and values (tokens, items, …) of which one in `every` is written."""
        held = self.keys.held(queries, np.zeros(self.keys.items, dtype=np.bool_))
        steps: list[Step] = []
        due: list[Step] = []
        number = after = 0
        for token, tile in self._turns():
            begins = len(rows) > 0 and tile == token % every == 0
            if begins:
                steps += appended(self.keys, rows[0][token], self.held[token] - 1)
            steps += self._scores(held, token, tile, number)
            number, after = number + 1, after + int((self.held[token] > tile * TILE).sum())
            steps += due
            if begins:
                steps += appended(self.values, rows[1][token], self.held[token] - 1)
            due = self._attends(token, tile, number, after)
        return steps + due

    def _turns(self) -> Iterator[tuple[int, int]]:
        for token, held in enumerate(self.held):
            for tile in range(-(-int(held.max()) // TILE)):
                yield token, tile

    @cached_property
    def _seated(self) -> tuple[list[list[_Part]], list[list[_Part]]]:
        """What lies in each seat of keys, and of values: pair, item and part."""
        both: tuple[list[list[_Part]], list[list[_Part]]] = [], []
        for layout, seats in zip((self.keys, self.values), both, strict=True):
            seats += [[] for _ in range(layout.seats)]
            for n in np.argsort(layout.slots).tolist():
                seat, pair = divmod(int(layout.slots[n]), layout.config.pairs)
                seats[seat].append((pair, *divmod(n, layout.parts)))
        return both

    def _open(self, of: int, token: int, key: int) -> Iterator[tuple[int, list[_Part]]]:
        """The seats of keys (0) or values (1) where there are items that read a key, with those."""
        for seat, parts in enumerate(self._seated[of]):
            if matches := [one for one in parts if self.held[token, one[1]] > key]:
                yield seat, matches

    def _slot(self, number: int, item: int) -> int:
        return number % 2 * self.keys.config.soft_items + item

    def _scores(self, held: dict[str, Bytes], token: int, tile: int, number: int) -> list[Step]:
        """The score rounds of a tile, which is the program's `number`th."""
        layout, steps = self.keys, []
        config, every = layout.config, slice(0, 2 * layout.config.pairs)
        keys = np.clip(self.held[token] - tile * TILE, 0, TILE)
        last = -(-keys // COLUMNS) - 1
        for where in range(tile * 2, tile * 2 + int(last.max()) + 1):
            for seat, parts in self._open(0, token, where * COLUMNS):
                places, ended, chunk = [-1] * config.pairs, [], where % 2
                for pair, item, part in parts:
                    slot = self._slot(number, item)
                    places[pair] = (slot * 2 + chunk) * config.soft_parts_wide + part
                    if chunk == last[item] and part == layout.parts - 1:
                        at = (layout.reads - 1) * config.pairs + pair
                        ended.append((at, slot, int(keys[item])))
                round = layout.round_of(0, where, 1, layout.row(seat, where))
                round = replace(round, soft=True, ended=tuple(at for at, _, _ in ended))
                step = layout.step_of(round, held, token, seat, where, every)
                slots, counts = (tuple(one[n] for one in ended) for n in (1, 2))
                steps.append(replace(step, taken=Taken(tuple(places), slots, counts)))
        return steps

    def _attends(self, token: int, tile: int, number: int, after: int) -> list[Step]:
        """The attend rounds of a tile when there were `number` of the program, and `after` of all items; totals are read with an item's first
        part."""
        layout, steps, none = self.values, [], np.zeros(0, dtype=np.uint8)
        for seat, parts in self._open(1, token, tile * TILE):
            places, ended = [-1] * layout.config.pairs, []
            for pair, item, part in parts:
                places[pair] = self._slot(number - 1, item)
                ended += [places[pair]] * (part == 0)
            round = layout.round_of(0, tile, 1, layout.row(seat, tile))
            round = replace(round, soft=True, after=after, totals=len(ended))
            steps.append(Step(round, none, taken=Taken(tuple(places), tuple(ended))))
        return steps

    def results(
        self, order: Iterable[tuple[int, int, int]], steps: Sequence[Step], out: Bytes
    ) -> tuple[Floats, Floats, Ints]:
        """Return the sums (tokens, items, dim of values), the totals that they are divided by (tokens, items), and how many scores lay
        beyond the range (tokens, items, tiles)."""
        layout, tokens = self.values, len(self.held)
        pairs, sums = layout.config.pairs, layout.config.pairs * layout.reads
        attends = (n for n, step in enumerate(steps) if step.round.mode == "attend")
        opened = (
            (token, tile, seat)
            for token, tile in self._turns()
            for seat, _ in self._open(1, token, tile * TILE)
        )
        at = dict(zip(attends, opened, strict=True))
        words = np.zeros((tokens, layout.items, layout.chunks, 32), dtype=np.uint8)
        partial = np.zeros((tokens, layout.seats, layout.chunks, pairs, layout.reads, 32), np.uint8)
        for (_, step, index), data in zip(order, out, strict=True):
            token, tile, seat = at[step]
            if index < sums:
                pair, half = divmod(index, layout.reads)
                partial[token, seat, tile, pair, half] = data
            else:
                taken = steps[step].taken
                assert taken is not None
                words[token, taken.ended[index - sums] % layout.config.soft_items, tile] = data
        exponent, total, beyond = totals_of(words)
        has_keys = np.arange(layout.chunks) * TILE < self.held[..., None]
        exponent = np.where(has_keys, exponent, _NONE)
        y = layout.added(partial.reshape(-1, pairs, layout.reads, 32), scales(exponent))
        return y, summed(exponent, total), beyond


def appended(layout: Layout, rows: Floats, held: NDArray[np.int64]) -> list[Step]:
    """Return the rounds that write a row of each item (items, dim) behind the `held` (items) that its cache has."""
    attends = layout.mode == "attend"
    [data] = layout.sub_chunks(rows[None])
    full: dict[int, dict[int, Bytes]] = {}
    single: dict[int, dict[int, tuple[int, Bytes]]] = {}
    for n, slot in enumerate(layout.slots.tolist()):
        chunk, place = divmod(int(held[n // layout.parts]), layout.each)
        seat, pair = divmod(slot, layout.config.pairs)
        row, (half, column) = layout.row(seat, chunk), divmod(place, COLUMNS)
        for bank in (0, 1):
            holds = not attends or bank == half
            if place == 0:
                cells = np.zeros((COLUMNS, 32), dtype=np.uint8)
                cells[0] = data[n, bank] * holds
                full.setdefault(row, {})[2 * pair + bank] = cells
            elif holds:
                single.setdefault(row, {})[2 * pair + bank] = column, data[n, bank]
    steps = [_load(row, banks) for row, banks in full.items()]
    for row, pieces in single.items():
        columns = tuple(column for _, (column, _) in sorted(pieces.items()))
        steps.append(_load(row, {bank: x[None] for bank, (_, x) in pieces.items()}, columns))
    return steps


def _load(row: int, banks: Mapping[int, Bytes], columns: tuple[int, ...] = ()) -> Step:
    order = sorted(banks)
    round = Round("load", 0, row, 0, banks=tuple(order), columns=columns)
    return Step(round, np.stack([banks[bank] for bank in order]))
