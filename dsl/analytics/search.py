"""Part of the scheduler: a search for start cycles of one program's operations that keep a distance from batch to batch.

Plans are searched for in `plan`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from .distances import Distances
from .reservations import Placement

#: places that are tried in an order of the operations, for each of them, and such orders
_PLACES, _ORDERS = 4, 8


def search(empty: Placement, distances: Distances, batch: int) -> Placement | None:
    """Return all operations placed so that a batch follows the other after `batch` cycles, None where no such placement was found.

    Operations are placed one after the other: in the order of `empty`, by the latest and the earliest start, and by what lies between. The
    operation that most often found no place in an order comes first in the next order, behind what it needs.
    """
    windows = distances.windows(batch)
    if windows is None or _overfull(empty, windows):
        return None
    attempt = _Search(empty, distances, windows, batch)
    worst: dict[tuple[int, ...], int] = {}  # of orders that failed, what found no place most often
    for low, high in ((0, 0), (0, 1), (1, 0), (-1, 1)):
        order = tuple(sorted(empty.uses, key=lambda n: low * windows[n][0] + high * windows[n][1]))
        for _ in range(_ORDERS):
            if order not in worst:
                attempt.fails.clear()
                if attempt.run(order):
                    return empty
                for n in list(empty.starts):
                    empty.remove(n)
                worst[order] = attempt.fails.most_common(1)[0][0]
            first = distances.needs(worst[order])
            again = tuple(
                [n for n in empty.uses if n in first] + [n for n in order if n not in first]
            )
            if again == order:
                break
            order = again
    return None


def _overfull(empty: Placement, windows: Mapping[int, tuple[int, int]]) -> bool:
    """Say whether operations whose windows lie between two cycles need more of a class's units than there are."""
    users: dict[
        tuple, list[tuple[int, int, int]]
    ] = {}  # of each class: first and last cycle, beats
    for n, uses in empty.uses.items():
        low, high = windows[n]
        for key, late, beats in uses:
            users.setdefault(key, []).append((low + late, high + late + beats, beats))
    for key, those in users.items():
        for begin in {first for first, _, _ in those}:
            beats, later = 0, [(last, beats) for first, last, beats in those if first >= begin]
            for last, more in sorted(later):
                beats += more
                if beats > len(empty.tables[key]) * (last - begin):
                    return True
    return False


class _Search:
    """Conflict-directed backjumping: where an operation finds no place, the last one of those that it meets is moved on."""

    def __init__(
        self,
        placement: Placement,
        distances: Distances,
        windows: Mapping[int, tuple[int, int]],
        batch: int,
    ) -> None:
        self.placement, self.windows, self.batch = placement, windows, batch
        self.behind = {n: [(d.first, d.least(batch)) for d in distances.behind[n]] for n in windows}
        self.ahead = {n: [(d.later, d.least(batch)) for d in distances.ahead[n]] for n in windows}
        users: dict[tuple, set[int]] = {}
        for n, uses in placement.uses.items():
            for key, _, _ in uses:
                users.setdefault(key, set()).add(n)
        #: whom each meets, on a unit or by a distance
        self.meets = {
            n: set().union(
                *(users[key] for key, _, _ in placement.uses[n]),
                (m for m, _ in (*self.behind[n], *self.ahead[n])),
            )
            - {n}
            for n in windows
        }
        self.fails: Counter[int] = Counter()

    def run(self, order: Sequence[int]) -> bool:
        starts, rank = self.placement.starts, {n: k for k, n in enumerate(order)}
        begin = {n: low for n, (low, _) in self.windows.items()}
        blame: dict[int, set[int]] = {n: set() for n in order}
        left, at = _PLACES * (len(order) + 8), 0
        while at < len(order) and left:
            n, left = order[at], left - 1
            low, high, nearest = begin[n], self.windows[n][1], -1
            for m, step in self.behind[n]:
                if m in starts and starts[m] + step > low:
                    low = starts[m] + step
            for m, step in self.ahead[n]:
                if m in starts and starts[m] - step < high:
                    high, nearest = starts[m] - step, m
            begin[n] = self._next(n, low, high)
            if n in starts:
                at += 1
                continue
            self.fails[n] += 1
            met = (blame[n] | self.meets[n]) & starts.keys()
            if not met:
                return False
            last = max(met, key=rank.__getitem__)
            begin[last] = max(begin[last], starts[last] + low - high if last == nearest else 0)
            blame[last] |= met - {last}
            for m in order[rank[last] + 1 : at + 1]:
                begin[m], blame[m] = self.windows[m][0], set()
            for m in order[rank[last] : at]:
                self.placement.remove(m)
            at = rank[last]
        return at == len(order)

    def _next(self, number: int, low: int, high: int) -> int:
        """Place an operation from `low` to `high`, if there is a place; return where to go on from, when it shall move."""
        while low <= high and self.placement.put(number, low):
            start, over = self.placement.starts[number], self.placement.span(number) - self.batch
            if start <= high and over <= 0:
                return start + 1
            self.placement.remove(number)
            low = start + max(1, over)
        return low
