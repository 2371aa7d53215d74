"""When an `AccessPort` delivers: exact cycles, composed of what its parts do.

Cycle 0 is the one in which `start` reaches the page sequencer. All constants follow from the hardware:

* sequencer: the first command is offered in cycle 1, one a cycle while credits last, the page after a `free` in cycle t from t + 1 on
* reader: a command accepted in cycle c has its (first) AR in c + 1; `Reader` in `models.memory.bursts` has the rules
* Strider: a page whose last word comes in cycle t starts in t + 1, or in the cycle after the Strider's last page ended; from there on
  `machine.StriderMachine` counts. A loop start that leads to a tuple, the end of the page or an error waits until a slot is free.
* tuple buffer: what is issued in cycle t can be collected from t + 1 + `latency` + depth of the converters on; a slot collected in cycle t is free in t + 1
* collector: what it takes up in cycle u is offered in u + 1; it takes up the next beat in the cycle in which the last one is accepted. A
  page's end takes it one cycle, without anything to offer unless it is the epoch's last;
  so does a tuple that a NaN leaves out. An error is signalled in u + 1.
* page buffers: freed in cycle t, `free` in t + 1 at the earliest, in page order, one a cycle
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import le
from typing import NamedTuple

from ..memory.bursts import COMMANDS, burst_count
from ..memory.timing import Reads
from ..ring import Arrivals
from ..timeline import Credits, Resource
from .config import PortConfig
from .costs import END, ERROR, NULL, TUPLE, VOID, Costs, Events


class _Stood(NamedTuple):
    """Where a port stood at a page's first tuple: the page, how many after it are alike, the cycle, `PortModel.state`; `period`: cycles since the page
    before, if it stood alike, else 0."""

    page: int
    alike: int
    start: int
    state: tuple[int, ...]
    period: int


#: cycles from what an issue that completes a tuple says to the collector's taking it up, beside the depth of the converters
PIPE = 1


@dataclass(frozen=True)
class _Profile:
    """How a page is walked where nothing but its Strider holds it up, in cycles from its start on.

    starts: of each tuple, loop start, after a zero: starts[k] is that of tuple k - 1. takes: when the collector takes tuples up.
    """

    starts: list[int]
    takes: list[int]


def _profile(config: PortConfig, events: Events) -> _Profile | None:
    """The page's profile, None if its tuples come too close for it, or others are among them."""
    *tuples, end = events
    if end[0] != END or any(kind != TUPLE for kind, _, _ in tuples):
        return None
    starts = list(accumulate([wait for _, wait, _ in tuples], initial=0))
    takes = [
        start + issue + PIPE + config.latency + config.depth
        for start, (_, _, issue) in zip(starts[1:], tuples, strict=True)
    ]
    if any(b - a < config.beats for a, b in pairwise(takes)):
        return None
    if any(
        take + config.beats > start
        for take, start in zip(takes, starts[config.slots + 1 :], strict=False)
    ):
        return None
    return _Profile(starts, takes)


class Collector:
    """Striders, tuple buffers and collector of one port, given when pages have arrived.

    * `config`, `costs`: the port and its pages (at least one).
    * `arrival`: gives the cycle of the last word of the k-th page (counted over epochs); called in order,
      after the buffer of page k - credits was freed.
    """

    def __init__(self, config: PortConfig, costs: Costs, arrival: Callable[[int], int]) -> None:
        self.config, self.costs, self.arrival = config, costs, arrival
        self.pipe = PIPE + config.latency + config.depth
        self.free: list[int] = []  # pulses on `free`, by page
        self.page = 0  # page being collected, over epochs
        self._run = 0  # the run of equal pages that it is of
        self.alike = costs.runs[0][0]  # pages of it that are left, this one included
        self._events: Events = []
        self._at = 0
        self._go = 0  # first cycle in which the collector can take something up
        self._start = 0  # the collected page's last loop start
        # of each Strider: first cycle in which it can start a page; cycles in which its latest `slots` slots are free again
        self._idle = [0] * config.striders
        self._slots = [Credits(config.slots) for _ in range(config.striders)]
        self._strider = 0
        self._skipped = -1  # the latest page of which all but the first tuple was skipped
        self._profiles = [_profile(config, events) for _, events in costs.runs]

    def _open(self) -> None:
        """Begin with the next page."""
        self._strider = strider = self.page % self.config.striders
        self._events = self.costs.runs[self._run][1]
        self._at = 0
        self._start = max(self._idle[strider], self.arrival(self.page) + 1)

    def _close(self, cycle: int) -> bool:
        """The page ends in this cycle; return whether it was the epoch's last."""
        self.free.append(max(cycle + 1, self.free[-1] + 1 if self.free else 0))
        self._idle[self._strider] = cycle + 1
        self.page += 1
        self.alike -= 1
        if self.alike:
            return False
        runs = self.costs.runs
        self._run = (self._run + 1) % len(runs)
        self.alike = runs[self._run][0]
        return not self._run

    def take(self, ready: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], int, bool]:
        """Take groups of tuples until the first one that ends on another page than this one. Pages must be free of errors.

        `ready`: for each group at most that can be taken: the consumer takes its first tuple's first beat, or the epoch's end in its place,
        from this cycle on, everything after it when it comes. `sizes`: tuples of each of these groups; fewer only where the epoch ends.

        Returns the cycle of each group's last transfer; the last group's tuples; whether its last transfer is the epoch's end.
        """
        cycles: list[int] = []
        page, count, over = self.page, 0, False
        for earliest, size in zip(ready, sizes, strict=True):
            count, over = self._group(earliest, size)
            cycles.append(self._go)
            if over or self.page != page:
                break
        return cycles, count, over

    def _group(self, earliest: int, size: int) -> tuple[int, bool]:
        """Take so many tuples, the first transfer from cycle `earliest` on; return how many there are, and whether the epoch ends behind them.

        Tuples of two beats, each of which can be taken up two cycles behind its loop start, through two slots:

            cycle         0  1  2  3  4  5  6  7  8
            loop start    a  b  c  c  c                 c waits for the slot of a
            taken up            a     b     c           with the last beat before
            transfers              a  a  b  b  c  c
            slots         a  a  a  a  c  c  c  c
                             b  b  b  b  b
        """
        more, pipe, left = self.config.beats - 1, self.pipe, size
        while True:
            if self._at == len(self._events):
                self._open()
            slots, events, at = self._slots[self._strider], self._events, self._at
            start, go = self._start, self._go
            while True:
                kind, wait, issue = events[at]
                at += 1
                start += wait
                if slots[0] > start:
                    start = slots[0]
                if kind == NULL:
                    continue
                taken = start + issue + pipe
                if go > taken:
                    taken = go
                go = taken + 1
                if kind == TUPLE:
                    if go < earliest:
                        go = earliest
                    go += more
                    slots.give(go if more else taken + 1)
                    left -= 1
                    if not left:
                        break
                else:
                    slots.give(go)
                    if kind == END:
                        break
            self._at, self._start, self._go = at, start, go
            if kind == TUPLE:
                return size, False
            if self._close(start):
                self._go = max(go, earliest)
                return size - left, True

    def foresee(self, size: int) -> tuple[list[int], list[int]]:
        """The first and last transfers of the next groups of `size` tuples on this page, if the consumer is always ready.

        Only where the Strider sets the pace, so that a page's profile says it all; empty elsewhere. Nothing is taken: that is `skip`.
        """
        profile, at = self._profiles[self._run], self._at
        if profile is None or at + size >= len(self._events):
            return [], []
        base = self._start - profile.starts[at]
        slots = self._slots[self._strider]
        if self._go > base + profile.takes[at] or not all(
            map(le, slots, [base + start for start in profile.starts[at + 1 : at + 1 + len(slots)]])
        ):
            return [], []
        last = base + self.config.beats
        lasts = [take + last for take in profile.takes[at + size - 1 :: size]]
        return [
            take + base + 1 for take in profile.takes[at : at + size * len(lasts) : size]
        ], lasts

    def skip(self, tuples: int) -> None:
        """Take so many tuples as they were foreseen."""
        profile, at = self._profiles[self._run], self._at + tuples
        assert profile is not None
        base = self._start - profile.starts[self._at]
        taken = base + self.config.beats
        if self._at == 1 and at == len(self._events) - 1:
            self._skipped = self.page
        self._slots[self._strider].extend(
            [take + taken for take in profile.takes[max(self._at, at - self.config.slots) : at]]
        )
        self._at = at
        self._start = base + profile.starts[at]
        self._go = taken + profile.takes[at - 1]

    def pull(self, accept: Callable[[int], int]) -> tuple[int, str]:
        """Take the next tuple, epoch end or error with any consumer: `accept` gives the first cycle from its argument on in which `o.ready` is high.

        Returns the cycle of the first transfer (of an error: in which it is signalled), and "tuple", "end" or "error".
        """
        while True:
            if self._at == len(self._events):
                self._open()
            kind, wait, issue = self._events[self._at]
            slots = self._slots[self._strider]
            self._start = start = max(self._start + wait, slots.free)
            take = max(start + issue + self.pipe, self._go)
            if kind == ERROR:  # nothing follows
                return take + 1, "error"
            self._at += 1
            if kind == NULL:
                continue
            if kind == TUPLE:
                return self._transfer(take, accept, slots), "tuple"
            slots.give(take + 1)
            self._go = take + 1
            if kind == VOID:
                continue
            if self._close(start):
                self._go = accept(take + 1)
                return self._go, "end"

    def _transfer(self, take: int, accept: Callable[[int], int], slots: Credits) -> int:
        first = moved = accept(take + 1)
        for _ in range(self.config.beats - 1):
            take = moved
            moved = accept(moved + 1)
        slots.give(take + 1)
        self._go = moved
        return first


class _PageReads:
    """When a sequencer asks for pages, and a reader has their last words."""

    def __init__(
        self,
        config: PortConfig,
        memory: Reads,
        origin: int,
        pages: range,
        address: int,
        arrivals: Arrivals | None,
    ) -> None:
        self.config, self.memory, self.arrivals = config, memory, arrivals
        self.address = address
        self.first, self.pages = pages.start, len(pages)
        self.asked = 0  # pages so far
        self.commands = Resource(free=origin + 1)  # the sequencer, a command a cycle
        self.bursts = Resource(burst_count(0, config.words_per_page, config.bus_bytes))
        self.flight = Credits(COMMANDS)  # of commands in the reader

    @property
    def shift_invariant(self) -> bool:
        """Whether the memory is. Pages of a ring come when they come."""
        return self.arrivals is None and self.memory.shift_invariant

    def offered(self, page: int) -> int:
        """Return the first cycle that can offer the command for a page, as far as buffers do not hold it up."""
        if self.arrivals is None:
            return self.commands.free
        return max(self.commands.free, self.arrivals.ready(self.first + page) + 1)

    def ask(self, page: int, offered: int) -> int:
        """Give the command for page `page`, offered from this cycle on; return the cycle of the page's last word."""
        taken = self.bursts.take(max(offered, self.flight.free))
        self.commands.free = taken + 1
        slots = self.config.ring or self.pages
        address = self.address + (self.first + page) % slots * self.config.page_size
        end = self.memory.read(taken + 1, self.config.words_per_page, address)[1]
        if self.arrivals is not None:
            self.arrivals.done(self.first + page, end)
        self.flight.give(end + 1)
        self.asked = page + 1
        return end

    def times(self) -> list[int]:
        """Return all cycles that what comes depends on."""
        times = [self.commands.free, self.bursts.free, self.memory.idle_from]
        # else the page buffers always hold up the commands longer
        return times + [*self.flight] * (self.config.credits > COMMANDS)

    def delay(self, cycles: int) -> None:
        """Go on as if everything so far had happened `cycles` later."""
        self.commands.free += cycles
        self.bursts.free += cycles
        self.flight.delay(cycles)
        self.memory.delay(cycles)


class PortModel(Collector):
    """An access port with its sequencer and reader on one memory port, whose pages begin at multiples of their size.

    * `config`, `costs`: the port and its pages (at least one).
    * `memory`: the memory's read port. It serves nothing else from the start on.
    * `origin`: the cycle in which `start` reaches the sequencer.
    * `address`: of the first page.
    * `epochs`: how often the pages are asked for, where that is known: for `ask_ahead` alone.
    * `arrivals`: when the pages come, of a port with a ring.
    * `first`: pages of the ring's stream before these.
    """

    def __init__(
        self,
        config: PortConfig,
        costs: Costs,
        memory: Reads,
        origin: int = 0,
        *,
        address: int = 0,
        epochs: int = 0,
        arrivals: Arrivals | None = None,
        first: int = 0,
    ) -> None:
        if (arrivals is None) != (config.ring == 0):
            raise ValueError("a port with a ring has arrivals, one without has none")
        pages = range(first, first + costs.pages)
        self._reads = _PageReads(config, memory, origin, pages, address, arrivals)
        self._asks = costs.pages * epochs  # pages asked for in all
        self._stood = _Stood(-1, 0, 0, (), 0)  # of the latest page
        super().__init__(config, costs, self._fetch)

    def _fetch(self, page: int) -> int:
        """Ask for page `page`, all before it being freed; return the cycle of its last word."""
        offered = self._reads.offered(page)
        if page >= self.config.credits:
            offered = max(offered, self.free[-self.config.credits] + 1)
        return self._reads.ask(page, offered)

    def ask_ahead(self, stop: int) -> None:
        """Ask for what the sequencer asks for before `stop` is high, in cycle `stop`: pages that nobody takes any more."""
        while self._reads.asked < self._asks:
            page = self._reads.asked
            offered = self._reads.offered(page)
            if page >= self.config.credits:
                freed = page - self.config.credits - self.page  # -1: the latest one
                if freed >= 0:
                    return
                offered = max(offered, self.free[freed] + 1)
            if offered >= stop:
                return
            self._reads.ask(page, offered)

    @property
    def shift_invariant(self) -> bool:
        """Whether reads are, without which nothing comes alike."""
        return self._reads.shift_invariant

    # what a caller needs to leap over stretches that repeat themselves

    def steady(self) -> int:
        """How many cycles after the last page's first tuple this one's came, if all went so that the next ones come alike, for a consumer that is always ready.

        0: that is not known, or not now, with just one tuple of the page taken.
        """
        profile = self._profiles[self._run]
        if (
            not self.shift_invariant
            or self._at != 1
            or profile is None
            or self._go != self._start - profile.starts[1] + profile.takes[0] + self.config.beats
        ):
            return 0
        before = self._stood
        if before.page != self.page:
            state = self.state(self._start)
            same = (
                self._skipped == before.page == self.page - 1
                and before.alike == self.alike + 1
                and before.state == state
            )
            period = self._start - before.start if same else 0
            self._stood = _Stood(self.page, self.alike, self._start, state, period)
        return self._stood.period

    def foresee_pages(self, pages: int) -> tuple[list[int], list[int]]:
        """As `foresee`, of tuples up to the first one `pages` pages on; the port is steady. The way there is a `leap`."""
        profile = self._profiles[self._run]
        assert profile is not None
        base = self._start - profile.starts[1] + 1
        period = self._stood.period
        firsts = [*profile.takes[1:], profile.takes[0] + period]
        firsts = [
            take + late for late in range(base, base + pages * period, period) for take in firsts
        ]
        return firsts, [first + self.config.beats - 1 for first in firsts]

    def state(self, base: int) -> tuple[int, ...]:
        """Everything that the future depends on besides the pages themselves, times relative to cycle `base`.

        Two equal states lead to the same deliveries, as much later as their bases are apart, as long as the pages are alike.
        """
        times = [self._go, self._start, *self._reads.times()]
        times += [*self._idle, *self.free[-self.config.credits :]]
        for slots in self._slots:
            times += slots
        return (
            self._at,
            len(self._events),
            self._strider,
            self.page % self.config.striders,
            *[time - base for time in times],
        )

    def delay(self, cycles: int) -> None:
        """Go on as if everything so far had happened `cycles` later."""
        self._go, self._start = self._go + cycles, self._start + cycles
        self._idle = [t + cycles for t in self._idle]
        for slots in self._slots:
            slots.delay(cycles)
        self.free = [t + cycles for t in self.free[-self.config.credits :]]
        self._reads.delay(cycles)

    def leap(self, pages: int, cycles: int) -> None:
        """Go on as if `pages` more of the pages alike had been delivered (a multiple of the Striders), everything `cycles` later."""
        self.delay(cycles)
        self.page += pages
        self.alike -= pages
        stood = self._stood
        self._stood = stood._replace(
            page=stood.page + pages, alike=stood.alike - pages, start=stood.start + cycles
        )
        self._skipped += pages
