"""How tuples become groups, in cycles: the twin of `hdl.analytics.loader`, and what it asks of a memory port's Striders."""

from collections.abc import Sequence
from operator import le
from typing import Protocol

from ..timeline import Credits
from .config import AnalyticsPlan

#: pages that are foreseen at once, at most
_FAR = 16


class TupleSource(Protocol):
    """A memory port with its Striders, as `models.strider.cycles.PortModel`. What is written here is that of a source of which no more than
    `take` is known."""

    @property
    def page(self) -> int:
        """The page being delivered, counted over epochs."""
        return 0

    @property
    def alike(self) -> int:
        """Pages from this one to the epoch's end that cost the same."""
        return 0

    @property
    def shift_invariant(self) -> bool:
        """Whether what comes does not depend on when: only then is there a `leap`."""
        return True

    def ask_ahead(self, stop: int) -> None:
        """Ask for what is asked for ahead before cycle `stop`."""
        return None

    def take(self, ready: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], int, bool]:
        """Take so many groups at most, of so many tuples (fewer only at the epoch's end), each's first transfer from cycle `ready` on.

        Return the cycle of each one's last transfer, the last one's tuples, and whether its last transfer is the epoch's end.
        """
        raise NotImplementedError

    def foresee(self, size: int) -> tuple[list[int], list[int]]:
        """The first and last transfers of the next groups of so many tuples, for a consumer that is always ready, as far as they are at hand."""
        return [], []

    def skip(self, tuples: int) -> None:
        """Take so many tuples as they were foreseen."""
        return None

    def steady(self) -> int:
        """Cycles from page to page, if it is known that the next ones come alike while the consumer is always ready; else 0."""
        return 0

    def foresee_pages(self, pages: int) -> tuple[list[int], list[int]]:
        """As `foresee`, so many pages on, if the source is steady. The way there is a `leap`."""
        return [], []

    def state(self, base: int) -> tuple[int, ...]:
        """What the future depends on, times relative to `base`."""
        return ()

    def delay(self, cycles: int) -> None:
        """Go on as if everything so far had happened so much later."""
        return None

    def leap(self, pages: int, cycles: int) -> None:
        """Go on as if so many pages more had been delivered, everything so much later."""
        return None


class EmptySource(TupleSource):
    """A port without pages: nothing but end tokens."""

    def __init__(self, origin: int):
        self.origin = origin

    def take(self, ready: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], int, bool]:
        return [max(ready[0], self.origin)], 0, True


class Loader:
    """The twin of `hdl.analytics.loader.Loader`, some groups at a time; absolute cycles.

    It looks at least one group ahead: only that tells whether the epoch goes on.
    """

    def __init__(self, plan: AnalyticsPlan, source: TupleSource):
        self.source, self.threads = source, plan.threads_per_port
        self.batch = plan.merge_count // plan.ports
        self.even = (
            not self.batch % self.threads
        )  # whether all groups have as many tuples, but for an epoch's last
        self.position = 0  # else: place in the batch of the next group's first tuple
        self.seen: list[int] = []  # groups that wait: from which cycle each is seen
        self.counts: list[int] = []  # and its tuples
        self.firsts: list[int] = []  # first transfers of those foreseen
        self.ended: int | None = None  # cycle from which the epoch's end is seen
        self.slots = Credits(plan.striders.input_slots)

    def fill(self) -> int:
        """Take groups, as far as it is known when their slots are free, until two wait or the epoch has ended; return how many can be handed out."""
        seen = self.seen
        while len(seen) < 2 and self.ended is None:
            ready = [*self.slots][len(seen) :]
            sizes = [self.threads] * len(ready) if self.even else self._sizes(len(ready))
            cycles, last, over = self.source.take(ready, sizes)
            seen += [cycle + 1 for cycle in cycles]
            self.counts += sizes[: len(cycles)]
            self.counts[-1] = last
            if not self.even:
                self.position = (self.position + sum(sizes[: len(cycles)])) % self.batch
            if over:
                self.ended, self.position = seen[-1], 0
                if not last:
                    seen.pop()
                    self.counts.pop()
        return max(len(seen) - 1, 1)

    def _sizes(self, groups: int) -> list[int]:
        """The tuples of the next groups where a batch's last one is smaller."""
        sizes, position = [], self.position
        for _ in range(groups):
            sizes.append(min(self.threads, self.batch - position))
            position = (position + sizes[-1]) % self.batch
        return sizes

    def foresee(self) -> list[int]:
        """From which cycles on groups are seen: those that wait, and others if slots will be free in time for them."""
        if not self.even or self.ended is not None:
            return self.seen
        self.firsts, lasts = self.source.foresee(self.threads)
        return self.seen + [cycle + 1 for cycle in lasts]

    def foresee_pages(self) -> tuple[list[int], int]:
        """The same over several pages, and how many; none where it is not known that they come alike."""
        pages = min(self.source.alike - 2, _FAR)
        if self.threads > 1 or self.ended is not None or pages < 2 or not self.source.steady():
            return [], 0
        self.firsts, lasts = self.source.foresee_pages(pages)
        return self.seen + [cycle + 1 for cycle in lasts], pages

    def in_time(self, releases: Sequence[int]) -> bool:
        """Whether slots are free in time for the foreseen groups up to one behind those that give up theirs in these cycles."""
        waiting = len(self.seen)
        slots = [*self.slots, *releases][waiting : max(len(releases) + 1, waiting)]
        return all(map(le, slots, self.firsts))

    def skip(self, seen: Sequence[int], pages: int = 0) -> None:
        """Take foreseen groups, on this page or over so many, until so many wait."""
        groups = len(seen) - len(self.seen)
        if groups > 0:
            if pages:
                self.source.leap(pages, pages * self.source.steady())
            else:
                self.source.skip(groups * self.threads)
            self.seen += seen[-groups:]
            self.counts += [self.threads] * groups

    def hand(self, start: int, releases: Sequence[int]) -> bool:
        """Give waiting groups (if none is left: sit it out) to the engine, the last in cycle `start`; return whether the end is seen behind it."""
        del self.seen[: len(releases)], self.counts[: len(releases)]
        self.slots.extend(releases)
        return not self.seen and self.ended is not None and self.ended <= start

    def advance(self, cycle: int) -> None:
        """Go on to the next epoch in `cycle`."""
        self.ended = None
        self.slots.wait(cycle)

    def state(self, base: int) -> tuple[object, ...]:
        """What the rest of the epoch depends on, times relative to `base`; between epochs: what the others depend on."""
        times = tuple([t - base for t in (*self.seen, *self.slots)])
        if self.ended is not None:
            return (*self.counts, max(self.ended - base, 0), times)
        return (*self.counts, self.position, times, self.source.state(base))

    def delay(self, cycles: int) -> None:
        """Go on as if all had happened so much later."""
        self.seen = [t + cycles for t in self.seen]
        self.slots.delay(cycles)
