"""When the blocks of `hdl.qr` take and give: their control, cycle by cycle, without their data.

Each block is asked what it offers and takes in a cycle (functions of its state alone), then told what was transferred (`step`), which gives its state of the
next cycle. What a pipeline does later has an absolute cycle, of which the run is told (`wake`), so that cycles in which nothing moves can be passed over.
"""

from collections import deque
from collections.abc import Callable, Iterator

from ..timeline import Channel
from .config import FitPlan
from .job import Method
from .layout import ENTRY_BYTES, entry_counts
from .schedule import CONVERT, DIV, FLOOR

#: an item that is no record but the end of the job's; a record is whether AᵀA takes it
END = -1
Wake = Callable[[int], None]


class Gearbox:
    """`hdl.qr.gearbox`: chunks from words. `offers`: the next chunk, or the run's end, is there."""

    def __init__(self, word: int, largest: int) -> None:
        self.word, self.most = word, 2 * largest
        self.active = False
        self.level = self.size = self.grow = 0
        self.left = self.wanted = 0

    def begin(self, size: int, grow: int, count: int, units: int) -> None:
        self.active, self.size = True, size
        self.grow, self.left = grow, count
        self.wanted = units

    @property
    def ready(self) -> bool:
        return self.active and self.wanted > 0 and self.level < self.most

    @property
    def offers(self) -> bool:
        return self.active and (self.left == 0 or self.level >= self.size)

    def step(self, put: bool, taken: bool) -> None:
        if taken:
            if not self.left:
                self.active, self.level = False, 0
                return
            self.level -= self.size
            self.left -= 1
            self.size += self.grow
        if put:
            self.level += self.word
            self.wanted -= self.word


class Records:
    """`hdl.qr.records`."""

    def __init__(self, config: FitPlan) -> None:
        self.cutter = Gearbox(config.bus_bytes // 4, 2 + -(-(config.n_max - 1) // 4))
        self.out = Channel[int]()
        self.kinds: list[int] = []

    def begin(self, length: int, inserted: int, removed: int, moved: int) -> None:
        self.kinds = [END, *[0] * moved, *[1] * (removed + inserted)]  # popped from the end
        size, count = 2 + -(-length // 4), len(self.kinds) - 1
        self.cutter.begin(size, 0, count, size * count)

    def step(self, put: bool, taken: bool) -> bool:
        """Return whether anything has moved."""
        offers, ready = self.cutter.offers, self.out.ready
        self.out.step(self.kinds[-1] if offers else None, taken)
        moves = offers and ready
        if moves:
            self.kinds.pop()
        self.cutter.step(put, moves)
        return put or taken or moves


class Rows:
    """`hdl.qr.group_rows`: `units` places a cycle. Items: how many places."""

    def __init__(self, config: FitPlan, units: int) -> None:
        self.bus, self.units = config.bus_bytes, units
        self.offers = self.go = False
        self.left = self.word_left = self.bits_left = 0
        self.each = self.holds = 0
        self.out = Channel[int]()

    @property
    def active(self) -> bool:
        return self.left > 0

    def begin(self, stride: int, places: int) -> None:
        self.left, self.holds = places, self.bus // stride
        self.each = min(self.units, self.holds)

    def look(self) -> tuple[bool, bool]:
        """Return whether words of bits, and of rows, are taken in this cycle."""
        if not self.left:
            self.offers = self.go = False
            return False, False
        self.offers = self.word_left > 0 and self.bits_left > 0
        self.go = self.offers and self.out.ready
        goes = self.each if self.go else 0
        more = self.left > goes
        return more and self.bits_left <= goes, more and self.word_left <= goes

    def step(self, bits: bool, put: bool, taken: bool) -> bool:
        count = min(self.left, self.each)
        self.out.step(count if self.offers else None, taken)
        if self.go:
            self.left -= count
            self.word_left = max(self.word_left - self.each, 0) * self.active
            self.bits_left = max(self.bits_left - self.each, 0) * self.active
        if put:
            self.word_left = self.holds
        if bits:
            self.bits_left = 8 * self.bus
        return bits or put or taken or self.go


class FullScan:
    """`hdl.qr.group_rows`: items as those of `Records`."""

    def __init__(self, config: FitPlan) -> None:
        self.rows = Rows(config, 1)
        self.active = self.ends = False
        self.left = 0
        self.live: Iterator[int] = iter(())
        self.next = 0

    @property
    def ready(self) -> bool:
        return not self.active and not self.rows.active

    def begin(self, stride: int, live: Iterator[int], places: int) -> None:
        self.active, self.ends = True, not places
        self.left, self.live = places, live
        if places:
            self.rows.begin(stride, places)
            self.next = next(live)

    @property
    def item(self) -> int | None:
        return END if self.ends else None if self.rows.out.item is None else self.next

    def step(self, bits: bool, put: bool, taken: bool) -> bool:
        moved = self.rows.step(bits, put, taken and not self.ends)
        if taken and self.ends:
            self.ends = self.active = False
        elif taken:
            self.left -= 1
            self.ends = not self.left
            self.next = next(self.live, 0)
        return moved or taken


class NormalEquationAccumulator:
    """`hdl.qr.normal_equations`; `full`: how many of both banks hold a job's sums."""

    def __init__(self, config: FitPlan, wake: Wake) -> None:
        counts = entry_counts(config)
        lanes = min(config.gram_lanes, counts[-1])
        self.slots_of = [max(-(-count // lanes), 1) for count in counts]
        self.wake, self.slots = wake, 1
        self.slot = self.full = 0
        self.settles: int | None = None

    def look(self, now: int) -> None:
        if self.settles == now:
            self.full, self.settles = self.full + 1, None

    @property
    def open(self) -> bool:
        return self.full < 2 and self.settles is None

    def takes(self, item: int) -> bool:
        return self.open and (item <= 0 or self.slot == self.slots - 1)

    def step(self, now: int, item: int | None, freed: bool) -> None:
        if item is not None and self.open:
            self.slot = 0 if self.takes(item) else self.slot + 1
            if item == END:
                self.settles = now + 3
                self.wake(now + 3)
        self.full -= freed


class Merge:
    """`hdl.qr.normal_equations`. Words: 0 of c, 1 of AᵀA, 2 the last."""

    def __init__(self, scans: bool) -> None:
        self.scans, self.fresh = scans, False
        self.left: deque[int] = deque()
        self.first: int | None = None
        self.out: int | None = None

    def begin(self, of_c: int, of_gram: int, fresh: bool) -> None:
        self.fresh, self.left = fresh, deque([0] * of_c + [1] * (of_gram - 1) + [2])

    @property
    def anew(self) -> bool:
        """Whether the next word is not from the memo."""
        return self.fresh or (self.scans and not self.left[0])

    def ready(self, taken: bool) -> bool:
        return bool(self.left) and not self.anew and (self.out is None or taken)

    def step(self, put: bool, taken: bool) -> bool:
        """`taken`: the next stage would take a word that is offered."""
        if self.out is not None and not taken:
            return False
        moved = self.out is not None or self.first is not None
        self.out, self.first = self.first, None
        if self.left and (put or self.anew):
            self.first = self.left.popleft()
            return True
        return moved


class Loader:
    """`hdl.qr.loader`."""

    def __init__(self, config: FitPlan, wake: Wake) -> None:
        self.rows, self.wake = Gearbox(config.bus_bytes // ENTRY_BYTES, config.n_max), wake
        self.givens, self.columns = config.method is Method.GIVENS, 0
        self.converted: deque[int] = deque()  # when words on their way are in the queue
        self.known: int | None = None
        self.side: int | None = None  # when the right side is there; known with the last word

    def begin(self, columns: int) -> None:
        self.columns, self.known, self.side = columns, None, None
        if self.givens:
            self.rows.begin(2, 0, columns, 2 * columns)
        else:
            self.rows.begin(1, 1, columns, columns * (columns + 1) // 2)

    @property
    def ready(self) -> bool:
        return self.rows.active and self.side is None and len(self.converted) != 2 * CONVERT

    def offers(self, now: int) -> bool:
        return self.rows.offers and (
            self.rows.left > 0 or (self.side is not None and self.side <= now)
        )

    def step(self, now: int, word: int | None, taken: bool) -> bool:
        """A word comes, a row is taken."""
        arrives = self.rows.ready and bool(self.converted) and self.converted[0] <= now
        if arrives:
            self.converted.popleft()
        self.rows.step(arrives, taken)
        if word:
            self.converted.append(now + CONVERT + 1)
            self.wake(now + CONVERT + 1)
            if self.known is None:
                self.known = now + 2 + CONVERT + DIV + FLOOR
            if word == 2:
                self.side = max(now + 1, self.known) + self.columns + 3 + CONVERT
                self.wake(self.side)
        return arrives or taken or word is not None
