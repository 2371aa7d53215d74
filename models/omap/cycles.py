"""Exact cycles of a run.

Nothing but arrivals, the pages that are opened, and the host's memory enters: neither keys nor
values, nor whether a key was there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..bound import Machine, Terms
from ..memory import Memory, Reader, Writer
from ..target import Target
from .back import BackSchedule
from .ciphers import Pace
from .config import BLOCK, KEY_BYTES, OmapConfig
from .front_schedule import LEAST, FrontSchedule
from .golden import Step
from .pairs import AHEAD
from .snapshot import PIECE, piece_bytes
from .storages import PENDING

__all__ = [
    "PARTS",
    "PENDING",
    "Bound",
    "PairTimes",
    "Public",
    "Schedule",
    "bound",
    "cleared",
    "dumped",
    "machine_bound",
    "opened",
    "public",
    "run",
    "sealed",
]

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


class PairTimes:
    """When `hdl.omap.pairs` has the pairs of operations: they are made ahead of their use."""

    def __init__(self, config: OmapConfig) -> None:
        self._block = 2 + 12 // config.rounds
        self._begin = [1] * config.generators
        self._taken: list[int] = []

    def ready(self, blocks: int) -> int:
        """Return the cycle from which on the next operation's pairs are there."""
        number, cores = len(self._taken), len(self._begin)
        pushed = self._begin[number % cores] + blocks * self._block - 1
        if number >= AHEAD * cores:
            pushed = max(pushed, self._taken[number - AHEAD * cores] + 1)
        self._begin[number % cores] = pushed + 1
        return pushed + 1

    def take(self, cycle: int) -> None:
        """Take them in this cycle."""
        self._taken.append(cycle)


def opened(
    start: int, words: Sequence[int], chunks: int, blocks: int, pace: Pace, ahead: int = 0
) -> tuple[int, int]:
    """Return when `hdl.omap.sealing.Opener` opens a text: the first cycle in which it opens a block
    and all but `ahead` blocks are opened, whose words are there; and that in which it compares the
    last tag.

    Parameters: `start`: when its core starts; `words`: for each block, tags included, the cycle
    from which on its bus word is there.
    """
    at = start
    position = 0
    known = -1
    for chunk in range(chunks):
        at += pace.first
        for left in reversed(range(blocks)):
            taken = max(at, words[position])
            near = left <= ahead and chunk == chunks - 1
            if near and known < 0 and words[position + left] <= taken:
                known = taken
            at = taken + pace.block
            position += 1
        at = max(at - pace.block + pace.tag, words[position])
        position += 1
        at += 1  # the next chunk's start
    return known, at - 1


def sealed(start: int, chunks: int, blocks: int, pace: Pace, there: int = 0) -> int:
    """Return the cycle in which `hdl.omap.sealing.Sealer` appends a text's last tag. `there`: the cycle
    from which on the first block can be read, the others one a cycle behind it."""
    each = pace.first + (blocks - 1) * pace.block + pace.tag
    return max(start, there - pace.first) + chunks * (each + 1) - 1


@dataclass
class Schedule:
    """When everything of a run happened. `total`: its cycles; by operation: `arrived`, `answered`
    (the response's last word leaves); `pages`: the cycle of each page's read command; `conflicts`:
    cycles in which a page waited for its last write; `parts`: of all operations' latencies, by
    `PARTS`."""

    total: int = 1
    arrived: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    conflicts: int = 0
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))

    @property
    def latency(self) -> float:
        """Mean cycles from an arrival to the response's last word."""
        waits = [b - a for a, b in zip(self.arrived, self.answered, strict=True)]
        return sum(waits) / len(waits) if waits else 0.0


class _Seal:
    """A sealer's times: a text begins when it is given, its predecessor is done, and the one before
    that has left."""

    def __init__(self, chunks: int, blocks: int, pace: Pace) -> None:
        self._shape = (chunks, blocks, pace)
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.left: list[int] = []

    @property
    def room(self) -> int:
        """The cycle from which on another text may be written to RAM."""
        return self.ends[-2] + 1 if len(self.ends) > 1 else 0

    def give(self, cycle: int, there: int = 0) -> int:
        """Return the cycle of the last tag. `there`: as of `sealed`."""
        start = cycle + 1
        if self.ends:
            start = max(start, self.ends[-1] + 1)
        if len(self.left) > 1:
            start = max(start, self.left[-2] + 1)
        self.starts.append(start)
        self.ends.append(sealed(start, *self._shape, there))
        return self.ends[-1]


class _Drain:
    """Whole texts that leave one after another; a text's command is given while it is sealed."""

    def __init__(self, memory: Memory, config: OmapConfig, beats: int) -> None:
        self._writer, self._beats = Writer(memory, config.host_bus_bytes), beats
        self._ended = -1

    def write(self, coming: int, whole: int, address: int) -> tuple[int, int]:
        """Return the cycle of the last word, and the first one in which its answer has been seen.
        `coming`, `whole`: the cycles from which on the text is known to come, and is there."""
        valid = max(coming, self._ended + 1)
        _, beats, idle = self._writer.write(valid, address, self._beats, lambda previous: whole)
        self._ended = beats[-1]
        return self._ended, idle


def cleared(config: OmapConfig, memory: Memory, hbm_at: int = 0) -> int:
    """Return the cycles that the first start takes for clearing HBM, whose ports have this timing,
    before the run. `hbm_at`: the register `hbm`."""
    idle = []
    for at, size in config.zeros:
        writer = Writer(memory, config.bus_bytes)
        idle.append(writer.write(1, hbm_at + at, size // config.bus_bytes, lambda previous: 0)[2])
    return max(idle) + 1


def dumped(
    config: OmapConfig, hbm: Memory, host: Memory, *, hbm_at: int = 0, image_at: int = 0
) -> int:
    """Return the cycles of a start that takes a snapshot, with ports of this timing. Addresses are
    the registers'."""
    lanes, stride = config.bus_bytes // BLOCK, piece_bytes(config)
    reader = Reader(hbm, config.bus_bytes)
    drain = _Drain(host, config, stride // config.host_bus_bytes)
    seal = _Seal(1, PIECE // BLOCK, config.sealing_pace)
    free, idle = 1, 0
    for piece in range(config.hbm_bytes // PIECE):
        beats = PIECE // config.bus_bytes
        put = reader.command(max(free, seal.room), hbm_at + piece * PIECE, beats)
        for _ in range(beats):
            put = reader.accept(max(reader.offer(), put + 1) + lanes - 1)
        free = put + 2
        end = seal.give(put + 1)
        last, idle = drain.write(seal.starts[-1] + 1, end + 1, image_at + piece * stride)
        seal.left.append(last)
    return idle


def run(
    config: OmapConfig,
    operations: Sequence[Public],
    memory: Memory,
    *,
    pages_at: int = 0,
    requests_at: int = 0,
    responses_at: int = 0,
    interval: int = 0,
    messages: Memory | None = None,
) -> Schedule:
    """Return the times of a run with the host's memory of this timing; `messages`: that of the memory
    in which requests and responses lie, if it is another one.

    HBM has no timing here: it only has to keep the configuration's deadline. Addresses and
    `interval` are the registers'.
    """
    front, back = FrontSchedule.of(config), BackSchedule.of(config)
    lanes, pace, window = config.host_bus_bytes // BLOCK, config.sealing_pace, config.window
    messages = memory if messages is None else messages
    requests = Reader(messages, config.host_bus_bytes, window)
    reads = Reader(memory, config.host_bus_bytes, config.pages_in_flight)
    page_drain = _Drain(memory, config, config.page_beats)
    answer_drain = _Drain(messages, config, config.message_beats)
    sealers = [_Seal(config.chunks, config.chunk_blocks, pace) for _ in range(config.sealers)]
    responders = [_Seal(1, config.message_blocks, pace) for _ in range(config.responders)]
    pairs = PairTimes(config)
    message_words = config.message_blocks + 1
    page_words = config.chunks * (config.chunk_blocks + 1)
    told = Schedule()
    begin = -front.interval
    request_ends = [-1] * config.request_openers  # of their tags
    fetch_free = merge_free = 0
    opener_ends = [-1] * config.openers
    retired: list[int] = []
    released: list[int] = []
    latest: dict[int, int] = defaultdict(int)  # when a page's last write has been answered
    command = joined = 0  # of the last page

    def text(reader: Reader, beats: int, words: int) -> list[int]:
        cycles = [reader.accept(0) + 1 for _ in range(beats)]
        return [cycles[k // lanes] for k in range(words)]

    for number, operation in enumerate(operations):
        arrival = number * interval + 1
        valid = arrival
        if number >= window:
            valid = max(valid, retired[number - window] + 1)
        at = requests_at + number * config.message_bytes
        asked = requests.command(valid, at, config.message_beats)
        words = text(requests, config.message_beats, message_words)
        words_there = words[-1]
        core = number % config.request_openers
        start = max(asked + 1, request_ends[core] + 1)
        plain, request_ends[core] = opened(start, words, 1, config.message_blocks, pace)

        begin = max(
            plain + 1,
            pairs.ready(operation.pair_blocks),
            begin + front.interval,
        )
        pairs.take(begin)
        front_free = begin + front.end + 1

        fetch = max(begin + front.placed + 4, fetch_free)
        fetch_free = fetch + back.fetch
        ready = max(fetch + back.due + 1, merge_free)
        given = []
        known = fetched = open_ = begin + front.ask
        for side, page in enumerate(operation.pages):
            # a lone page of the second bin is handed on a cycle later
            later = side or not operation.first_side
            head = max(begin + front.ask + (1 if later else 0), command + 1)
            told.conflicts += max(latest[page] - head, 0)
            index = len(told.pages)
            valid = max(head, latest[page])
            if index >= PENDING * window:
                valid = max(valid, released[index - PENDING * window])
            at = pages_at + page * config.page_bytes
            command = reads.command(valid, at, config.page_beats)
            words = text(reads, config.page_beats, page_words)
            opener = index % config.openers
            counted = begin + front.placed + (3 if later else 2)
            joined = max(joined, command, counted) + 1
            start = max(joined + 1, opener_ends[opener] + 1)
            shape = (config.chunks, config.chunk_blocks, pace, back.ahead)
            plain_page, opener_ends[opener] = opened(start, words, *shape)
            fetched = max(fetched, words[-1])
            open_ = max(open_, plain_page + 1)
            ready = max(ready, plain_page + 1, sealers[index % config.sealers].room)
            told.pages.append(command)
            given.append((index, page, bool(later)))
        responder = responders[number % config.responders]
        ready = max(ready, responder.room)
        merge_free = ready + back.merge
        done = ready + back.sealed
        retired.append(done)

        for index, page, later in given:
            sealer = sealers[index % config.sealers]
            end = sealer.give(done)
            at = pages_at + page * config.page_bytes
            coming = max(sealer.starts[-1] + 1, done + 1 + later)
            last, idle = page_drain.write(coming, end + 1, at)
            sealer.left.append(last)
            released.append(idle)
            latest[page] = idle
            told.total = max(told.total, idle)
        end = responder.give(ready, there=ready + back.sealed + 1)
        at = responses_at + number * config.message_bytes
        last, idle = answer_drain.write(responder.starts[-1] + 1, end + 1, at)
        responder.left.append(last)
        steps = (
            arrival,
            asked,
            words_there,
            plain + 1,
            begin,
            known,
            fetched,
            open_,
            ready,
            ready + back.answered,
            last,
        )
        for name, first, second in zip(PARTS, steps, steps[1:], strict=False):
            told.parts[name] += second - first
        told.arrived.append(arrival)
        told.answered.append(last)
        told.total = max(told.total, idle, done + back.stored + 1, front_free)
    return told


@dataclass(frozen=True)
class Bound(Terms):
    """The bound of a run."""

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
    """Return the bound of a run."""
    count, pages = len(operations), sum(len(operation.pages) for operation in operations)
    rate = memory.interval(config.host_bus_bytes)
    each = sealed(0, config.chunks, config.chunk_blocks, config.sealing_pace) + 1
    drawn = 2 + 12 // config.rounds  # cycles of a generator's block
    message = sealed(0, 1, config.message_blocks, config.sealing_pace) + 1
    return Bound(
        pages * config.page_beats * rate,
        max(count - 1, 0) * FrontSchedule.of(config).interval,
        count * BackSchedule.of(config).interval,
        count * message // config.request_openers,
        sum(operation.pair_blocks for operation in operations) * drawn // config.generators,
        pages * each // config.openers,
        pages * each // config.sealers,
        count * message // config.responders,
        max(count - 1, 0) * interval,
        count * config.message_beats,
    )


def machine_bound(
    part: Target, value_bytes: int, count: int, memory: Memory, interval: int = 0
) -> Machine:
    """Return what no map of such values on this part beats; `interval`: from one arrival to the next.

    recurrence: one operation after another in the front, as they arrive. link: keys and values of the requests over a port of the greatest width. What HBM and
    pages take follows from options, which is why it is no part of this.
    """
    words = count * (KEY_BYTES + value_bytes) // _WIDEST
    return Machine.of(part, memory, 0, (), max(count - 1, 0) * max(LEAST, interval), words)
