"""Which seats of the banks the requests of a session have, and rows that go in and out by banks.

A *seat group* is as many consecutive rows of all banks as the chunks of a head take; a *slot*, group · pairs + pair, is
one pair of banks in it. A request has a slot for each part of each of its heads.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .config import COLUMNS, PimConfig
from .device import Step
from .rounds import Round

#: how many times as many groups as needed a step may open before seats are moved
MOST = 1.25
Slots = NDArray[np.int64]


class Seats:
    """The slots of one layer: `groups` of `pairs` each. `slots`: those of each request, by its number, in the order of
    its parts."""

    def __init__(self, groups: int, pairs: int) -> None:
        self.pairs = pairs
        self.owner = np.full(groups * pairs, -1, dtype=np.int64)
        self.slots: dict[int, Slots] = {}

    def take(self, who: int, count: int) -> None:
        """Seat a request in as few groups as are free: in the fullest one that has room for the rest, or in the emptiest.

        Raises ValueError where fewer are free."""
        free = (self.owner < 0).reshape(-1, self.pairs)
        room = free.sum(axis=1)
        if room.sum() < count:
            raise ValueError(f"{count} slots are wanted, {room.sum()} are free")
        chosen: list[int] = []
        while len(chosen) < count:
            missing = count - len(chosen)
            fits = np.flatnonzero(room >= missing)
            group = int(fits[room[fits].argmin()]) if len(fits) else int(room.argmax())
            chosen += (group * self.pairs + np.flatnonzero(free[group])[:missing]).tolist()
            room[group] = 0
        self.slots[who] = np.array(sorted(chosen), dtype=np.int64)
        self.owner[self.slots[who]] = who

    def leave(self, who: int) -> None:
        """Free the slots of a request."""
        self.owner[self.slots.pop(who)] = -1

    def opened(self, who: Iterable[int]) -> list[int]:
        """Return the groups that a step of some requests opens."""
        return np.unique(np.concatenate([self.slots[n] for n in who]) // self.pairs).tolist()

    def moves(self, who: Sequence[int]) -> list[tuple[int, int]]:
        """Return which slots, of requests that take a step, are exchanged with which others before it: none where it opens at
        most `MOST` times as many groups as they need."""
        slots = np.concatenate([self.slots[n] for n in who])
        groups, counts = np.unique(slots // self.pairs, return_counts=True)
        least = -(-len(slots) // self.pairs)
        if len(groups) <= MOST * least:
            return []
        kept = groups[np.argsort(-counts, kind="stable")][:least]
        leaving = slots[~np.isin(slots // self.pairs, kept)]
        inside = (kept[:, None] * self.pairs + np.arange(self.pairs)).ravel()
        others = inside[~np.isin(self.owner[inside], list(who))]
        others = others[np.argsort(self.owner[others] >= 0, kind="stable")]  # free ones first
        return list(zip(leaving.tolist(), others[: len(leaving)].tolist(), strict=True))

    def exchange(self, moves: Iterable[tuple[int, int]]) -> None:
        other = {a: b for pair in moves for a, b in (pair, pair[::-1])}
        for who, slots in self.slots.items():
            self.slots[who] = np.array([other.get(n, n) for n in slots.tolist()], dtype=np.int64)
        self.owner[:] = -1
        for who, slots in self.slots.items():
            self.owner[slots] = who


def stacked(
    rows: int, pairs: int, layers: Sequence[tuple[int, int]]
) -> tuple[int, list[tuple[int, int]]]:
    """Return how many requests fit in so many rows of all banks; and for each layer its first row, and its groups.

    `layers`: of each, the slots of a request, and the rows of a group.
    """

    def groups(requests: int) -> list[int]:
        return [-(-requests * slots // pairs) for slots, _ in layers]

    def used(requests: int) -> int:
        return sum(n * chunks for n, (_, chunks) in zip(groups(requests), layers, strict=True))

    least, beyond = 0, rows * pairs + 1
    while beyond - least > 1:
        middle = (least + beyond) // 2
        least, beyond = (middle, beyond) if used(middle) <= rows else (least, middle)
    regions, row = [], 0
    for count, (_, chunks) in zip(groups(least), layers, strict=True):
        regions.append((row, count))
        row += count * chunks
    fit = min(n * pairs // slots for (_, n), (slots, _) in zip(regions, layers, strict=True))
    return fit, regions


Where = Mapping[tuple[int, int], Sequence[int]]


def transfer(
    config: PimConfig, places: Sequence[tuple[int, int]], data: NDArray[np.uint8] | None = None
) -> tuple[list[list[Step]], Where]:
    """Return the steps of each set that read (row, bank), or write `data` (places, 32, 32) there; and by set and round, which
    places it serves."""
    mode, each = "store" if data is None else "load", config.groups * config.banks // config.sets
    none = np.zeros(0, dtype=np.uint8)
    by_round: dict[tuple[int, int], list[int]] = {}
    for n in sorted(range(len(places)), key=lambda n: places[n]):
        row, bank = places[n]
        by_round.setdefault((bank // each, row), []).append(n)
    steps: list[list[Step]] = [[] for _ in range(config.sets)]
    where: dict[tuple[int, int], list[int]] = {}
    for (number, row), served in by_round.items():
        banks = tuple(places[n][1] - number * each for n in served)
        where[number, len(steps[number])] = served
        round = Round(mode, 0, row, 0, banks=banks)
        steps[number].append(Step(round, none if data is None else data[served]))
    return steps, where


def read(
    count: int, where: Where, order: Iterable[tuple[int, int, int]], out: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return what was read of `count` places, (places, 32, 32)."""
    cells = np.zeros((count, COLUMNS, 32), dtype=np.uint8)
    for data, (number, step, index) in zip(out, order, strict=True):
        place, column = divmod(index, COLUMNS)
        cells[where[number, step][place], column] = data
    return cells
