"""The stages of an operation in time: texts that are read, opened, sealed and written, page by page.

As in `cycles`, nothing but arrivals, the pages that are opened, and the host's memory enters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..crypto.ascon import Pace
from ..memory import Memory, Reader, Writer
from .back import BackSchedule
from .config import BLOCK, OmapConfig
from .pairs import AHEAD
from .storages import PENDING


class PairTimes:
    """When `hdl.omap.pairs` has the pairs of operations: they are made ahead of their use."""

    def __init__(self, config: OmapConfig) -> None:
        self._block = 2 + 12 // config.cores.rounds
        self._begin = [1] * config.cores.generators
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


def sealed(start: int, chunks: int, blocks: int, pace: Pace) -> int:
    """Return the cycle in which `hdl.omap.sealing.Sealer` appends a text's last tag."""
    each = pace.first + (blocks - 1) * pace.block + pace.tag
    return start + chunks * (each + 1) - 1


class Seal:
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

    def give(self, cycle: int) -> int:
        """Return the cycle of the last tag."""
        start = cycle + 1
        if self.ends:
            start = max(start, self.ends[-1] + 1)
        if len(self.left) > 1:
            start = max(start, self.left[-2] + 1)
        self.starts.append(start)
        self.ends.append(sealed(start, *self._shape))
        return self.ends[-1]


class Drain:
    """Whole texts that leave one after another; a text's command is given while it is sealed."""

    def __init__(self, memory: Memory, bus_bytes: int, beats: int) -> None:
        self._writer, self._beats = Writer(memory, bus_bytes), beats
        self._ended = -1

    def write(self, coming: int, complete: int, address: int) -> tuple[int, int]:
        """Return the cycle of the last word, and the first one in which its answer has been seen.
        `coming`, `complete`: the cycles from which on the text is known to come, and is there."""
        valid = max(coming, self._ended + 1)
        _, beats, idle = self._writer.write(valid, address, self._beats, lambda previous: complete)
        self._ended = beats[-1]
        return self._ended, idle


def _text(reader: Reader, config: OmapConfig, beats: int, words: int) -> list[int]:
    """Return the cycle from which on each word of a text is there."""
    lanes = config.host_bus_bytes // BLOCK
    cycles = [reader.accept(0) + 1 for _ in range(beats)]
    return [cycles[k // lanes] for k in range(words)]


class Pages:
    """Pages that are read, opened, and written back sealed. `commands`: the cycle of each one's read
    command; `conflicts`: cycles in which one waited for its last write."""

    def __init__(self, config: OmapConfig, memory: Memory, address: int) -> None:
        self._config, self._address = config, address
        self.commands: list[int] = []
        self.conflicts = 0
        self._reads = Reader(memory, config.host_bus_bytes, config.pages_in_flight)
        self._drain = Drain(memory, config.host_bus_bytes, config.page_beats)
        self._shape = (config.chunks, config.chunk_blocks, config.sealing_pace)
        self._ahead = BackSchedule.of(config).ahead
        self._cores = [Seal(*self._shape) for _ in range(config.cores.sealers)]
        self._ends = [-1] * config.cores.openers
        self._released: list[int] = []
        self._latest: dict[int, int] = defaultdict(int)  # a page's last write has been answered
        self._command = self._joined = 0  # of the last page
        self._given: list[tuple[int, int, bool]] = []

    def open(self, page: int, asked: int, counted: int, later: bool) -> tuple[int, int, int]:
        """Return when a page is there, open, and may be merged.

        Parameters: `asked`, `counted`: the cycles of its command and of its number by the front;
        `later`: it is handed on a cycle later, as second pages and lone ones of the second bin are.
        """
        config, index = self._config, len(self.commands)
        head = max(asked + later, self._command + 1)
        self.conflicts += max(self._latest[page] - head, 0)
        valid = max(head, self._latest[page])
        if index >= PENDING * config.window:
            valid = max(valid, self._released[index - PENDING * config.window])
        at = self._address + page * config.page_bytes
        self._command = self._reads.command(valid, at, config.page_beats)
        page_words = config.chunks * (config.chunk_blocks + 1)
        words = _text(self._reads, config, config.page_beats, page_words)
        opener = index % config.cores.openers
        self._joined = max(self._joined, self._command, counted + later) + 1
        start = max(self._joined + 1, self._ends[opener] + 1)
        plain, self._ends[opener] = opened(start, words, *self._shape, self._ahead)
        self.commands.append(self._command)
        self._given.append((index, page, later))
        return words[-1], plain + 1, max(plain + 1, self._cores[index % config.cores.sealers].room)

    def store(self, done: int) -> int:
        """Write the pages of an operation, sealed from this cycle on; return the last answer's cycle."""
        idle = 0
        for index, page, later in self._given:
            core = self._cores[index % self._config.cores.sealers]
            end = core.give(done)
            at = self._address + page * self._config.page_bytes
            coming = max(core.starts[-1] + 1, done + 1 + later)
            last, answered = self._drain.write(coming, end + 1, at)
            core.left.append(last)
            self._released.append(answered)
            self._latest[page] = answered
            idle = max(idle, answered)
        self._given.clear()
        return idle
