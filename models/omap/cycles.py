"""Exact cycles of a run.

Nothing but arrivals, the pages that are opened, and the host's memory enters: neither keys nor
values, nor whether a key was there.

Five stages work on different requests: requests, the front (position map, loads, frames), openers, the back (merging) and sealers.

* **The front** takes every step of a request at a fixed distance from its beginning. What HBM may not show yet is kept on the chip, so that no
  request waits because two have a key, bucket or bin in common.
* **Tags** delay only what can be seen: they are compared before any response or page that depends on them is sealed whole. The address of a write,
  which is public, may have left; none of its data have.
* **The back** merges both pages side by side. An operation writes when its own frames are there, so a frame is always read before it is written.

A page is not read before its last write is answered: which pages are opened is public. There are six memory ports: pages in the host's memory,
requests and answers in the card's, and four for HBM.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..bound_terms import Machine, Terms
from ..crypto.gcm import cycles
from ..memory import Memory, Writer
from ..memory.dealt import Deal, DealtPorts
from ..target import Target
from ..timeline import Credits, Resource
from .back import BackSchedule
from .boundary import Frames
from .config import OmapConfig
from .front_schedule import LEAST, FrontSchedule
from .golden import Step
from .session_stages import Answers, Requests, pace
from .stages import Pages, PairTimes, sealed

#: what an operation's latency is made of, in this order
PARTS = (
    "wait for the window",
    "request fetched",
    "request opened",
    "wait for the front",
    "position map",
    "pages fetched",
    "pages opened",
    "wait for records, frames and the back",
    "merged and answered",
    "response sealed and written",
)


#: bytes of the widest port
_WIDEST = 128


@dataclass(frozen=True, slots=True)
class Public:
    """What an operation shows: the pages that it opens. `pair_blocks`: how many blocks its pairs
    took of the generator, which is independent of everything else."""

    pages: tuple[int, ...]
    first_side: bool
    pair_blocks: int


def public(steps: Iterable[Step]) -> list[Public]:
    """Return what operations show."""
    return [
        Public(tuple(o.page for o in step.opened), step.first_host, step.pair_blocks)
        for step in steps
    ]


@dataclass
class Schedule:
    """When everything of a run happened."""

    total: int = 1  #: its cycles
    arrived: list[int] = field(default_factory=list)  #: by operation
    #: by operation: the response's last word leaves
    answered: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)  #: the cycle of each page's read command
    conflicts: int = 0  #: cycles in which a page waited for its last write
    #: of all operations' latencies, by `PARTS`
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))

    @property
    def latency(self) -> float:
        """Mean cycles from an arrival to the response's last word."""
        waits = [b - a for a, b in zip(self.arrived, self.answered, strict=True)]
        return sum(waits) / len(waits) if waits else 0.0


def cleared(config: OmapConfig, memory: Memory) -> int:
    """Return the cycles that the first start takes for clearing HBM, whose channels have this timing,
    before the run."""
    idle = []
    for at, size in config.zeros:
        writer = Writer(DealtPorts(memory, Deal(config.access.dealt)), config.bus_bytes)
        idle.append(writer.write(1, at, size // config.bus_bytes, lambda previous: 0)[2])
    return max(idle) + 1


@dataclass(frozen=True)
class _Places:
    pages: int
    requests: int
    responses: int
    log: int
    snapshot: int


@dataclass(frozen=True)
class _Writes:
    """Memories of records, None where none are written."""

    log: Memory | None
    snapshot: Memory | None


class _Run:
    """All stages of a run; `operation` carries one through them."""

    def __init__(
        self,
        config: OmapConfig,
        memory: Memory,
        messages: Memory,
        places: _Places,
        writes: _Writes,
        records: bool,
    ) -> None:
        front, back = FrontSchedule.of(config), BackSchedule.of(config)
        self._schedules = front, back
        self._window, self._pairs = Credits(config.window), PairTimes(config)
        self._front = Resource(front.interval)
        self._fetch, self._merge = Resource(back.fetch), Resource(back.apart)
        self._requests = Requests(config, messages, places.requests, records)
        self._pages = Pages(config, memory, places.pages)
        self._answers = Answers(config, messages, places.responses)
        files = ((writes.log, places.log), (writes.snapshot, places.snapshot))
        self._logs = [Answers(config, memory, at) for memory, at in files if memory is not None]
        self.schedule = Schedule(pages=self._pages.commands)

    def operation(self, number: int, operation: Public, arrival: int, step: bool = False) -> None:
        """Carry an operation that comes in this cycle through all stages. `step`: it is one of a walk, which
        has neither a request nor an answer."""
        front, back = self._schedules
        window = max(arrival, self._window.free)
        asked, complete, plain = window, window, window - 1
        if not step:
            before = self._front.free - front.interval  # when the one before it began
            asked, complete, plain = self._requests.open(number, window, before)
        begin = self._front.take(max(plain + 1, self._pairs.ready(operation.pair_blocks)))
        self._pairs.take(begin)

        fetch = self._fetch.take(begin + front.placed + 4)
        fetched, opened, room = self._open(operation, begin)
        texts = self._logs if step else [self._answers, *self._logs]
        room = max(room, *(each.room(number) for each in texts), 0)
        merge = self._merge.take(max(fetch + back.due + 1, room))
        done = merge + back.sealed
        self._window.give(done + 1)

        stored = self._pages.store(done)
        merged = last = merge + back.answered
        idle = 0
        if not step:
            last, idle = self._answers.give(number, merge, done + 1)
        for log in self._logs:  # its blocks come a cycle later
            idle = max(idle, log.give(number, merge, done + 2)[1])
        latency = (arrival, asked, complete, plain + 1, begin, begin + front.ask)
        self._note((*latency, fetched, opened, merge, merged, last))
        end = (stored, idle, done + back.stored + 1, begin + front.end + 1)
        self.schedule.total = max(self.schedule.total, *end)

    def _open(self, operation: Public, begin: int) -> tuple[int, int, int]:
        """Return when the pages of an operation that begins in this cycle are there, open, and may be merged."""
        front, _ = self._schedules
        asked, counted = begin + front.ask, begin + front.placed + 2
        fetched, opened, may = asked, asked, 0
        for side, page in enumerate(operation.pages):
            later = bool(side or not operation.first_side)
            full, plain, room = self._pages.open(page, asked, counted, later)
            # its last word may have nothing but its tag
            fetched, opened = max(fetched, min(full, plain)), max(opened, plain)
            may = max(may, room)
        self.schedule.conflicts = self._pages.conflicts
        return fetched, opened, may

    def _note(self, steps: Sequence[int]) -> None:
        """Note an operation's latency: its arrival, and when each of `PARTS` ended."""
        for name, first, second in zip(PARTS, steps, steps[1:], strict=False):
            self.schedule.parts[name] += second - first
        self.schedule.arrived.append(steps[0])
        self.schedule.answered.append(steps[-1])


def run(
    config: OmapConfig,
    operations: Sequence[Public],
    memory: Memory,
    *,
    pages_at: int = 0,
    requests_at: int = 0,
    responses_at: int = 0,
    log_at: int = 0,
    snapshot_at: int = 0,
    interval: int = 0,
    messages: Memory | None = None,
    log: Memory | None = None,
    snapshot: Memory | None = None,
    records: bool = False,
    walk: int = 0,
) -> Schedule:
    """Return the times of a run with the host's memory of this timing; `messages`: that of the memory
    in which frames of requests and answers lie, if it is another one; `log`: that in which records of a
    log do, without one there is none; `snapshot`: the same of a snapshot's. `records`: the operations are
    those of a file of state. `walk`: so many at the end are a snapshot's steps.

    HBM has no timing here: it only has to keep the configuration's deadline. Addresses and
    `interval` are the registers'.
    """
    places = _Places(pages_at, requests_at, responses_at, log_at, snapshot_at)
    writes = _Writes(log, snapshot)
    stages = _Run(config, memory, memory if messages is None else messages, places, writes, records)
    steps = len(operations) - walk
    for number, operation in enumerate(operations):
        step = number >= steps
        stages.operation(number, operation, 1 if step else number * interval + 1, step)
    return stages.schedule


@dataclass(frozen=True)
class Bound(Terms):
    link: int
    front: int
    back: int
    requests: int
    pairs: int
    opening: int
    sealing: int
    responding: int
    arrivals: int
    messages: int


def bound(
    config: OmapConfig, operations: Sequence[Public], memory: Memory, interval: int = 0
) -> Bound:
    count, pages = len(operations), sum(len(operation.pages) for operation in operations)
    rate = memory.interval(config.host_bus_bytes)
    each = sealed(0, config.chunks, config.chunk_blocks, config.sealing_pace) + 1
    frames = Frames.of(config)
    asked, answer_pace = cycles(0, frames.request_bytes) + 1, pace(frames)
    return Bound(
        pages * config.page_beats * rate,
        max(count - 1, 0) * FrontSchedule.of(config).interval,
        count * BackSchedule.of(config).interval,
        count * asked // config.cores.request_openers,
        sum(operation.pair_blocks for operation in operations)
        * config.draw_cycles
        // config.cores.generators,
        pages * each // config.cores.openers,
        pages * each // config.cores.sealers,
        count * answer_pace // config.cores.responders,
        max(count - 1, 0) * interval,
        count * frames.beats,
    )


def machine_bound(
    part: Target, item_bytes: int, count: int, memory: Memory, interval: int = 0
) -> Machine:
    """Return what no map of such items on this part beats; `item_bytes`: of a key and its value; `interval`: from one arrival to the next.

    recurrence: one operation after another in the front, as they arrive. link: keys and values of the requests over a port of the greatest width. What HBM and
    pages take follows from options, which is why it is no part of this.
    """
    words = count * item_bytes // _WIDEST
    return Machine.of(part, memory, 0, (), max(count - 1, 0) * max(LEAST, interval), words)
