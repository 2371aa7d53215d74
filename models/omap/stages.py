"""The stages of an operation in time: texts that are read, opened, sealed and written, page by page.

As in `cycles`, nothing but arrivals, the pages that are opened, and the host's memory enters.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle

from ..crypto.ascon import Pace
from ..memory import Memory, Reader, Writer
from ..timeline import Credits, Resource
from .back import BackSchedule
from .config import BLOCK, OmapConfig
from .pairs import AHEAD
from .storages import PENDING


class PairTimes:
    """When `hdl.omap.pairs` has the pairs of operations: they are made ahead of their use."""

    def __init__(self, config: OmapConfig) -> None:
        self._block = config.draw_cycles
        self._cores = cycle([Resource(free=1) for _ in range(config.cores.generators)])
        self._room = Credits(AHEAD * config.cores.generators)

    def ready(self, blocks: int) -> int:
        """Return the cycle from which on the next operation's pairs are there."""
        core = next(self._cores)
        core.free = max(core.free + blocks * self._block, self._room.free + 1)
        return core.free

    def take(self, cycle: int) -> None:
        """Take them in this cycle."""
        self._room.give(cycle + 1)


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


class SealingCore:
    """A core that seals: a text begins when it is given, its predecessor is done, and the one before that has left."""

    def __init__(self) -> None:
        self._core, self._left = Resource(), Credits(2)
        self._written = Credits(2)  # texts in RAM that are not sealed

    @property
    def room(self) -> int:
        """The cycle from which on another text may be written to RAM."""
        return self._written.free

    def begin(self, cycle: int) -> int:
        """Return when a text begins that is given in the cycle before this one."""
        return max(cycle, self._core.free, self._left.free)

    def end(self, tag: int) -> None:
        """Its tag is there in this cycle."""
        self._core.free = tag + 1
        self._written.give(tag + 1)

    def leave(self, last: int) -> None:
        """Its last word leaves in this cycle."""
        self._left.give(last + 1)


class Drain:
    """Whole texts that leave one after another; a text's command is given while it is sealed."""

    def __init__(self, memory: Memory, bus_bytes: int, beats: int) -> None:
        self._writer, self._beats = Writer(memory, bus_bytes), beats
        self._port = Resource()

    def write(self, coming: int, complete: int, address: int) -> tuple[int, int]:
        """Return the cycle of the last word, and the first one in which its answer has been seen.
        `coming`, `complete`: the cycles from which on the text is known to come, and is there."""
        valid = self._port.take(coming)
        _, beats, idle = self._writer.write(valid, address, self._beats, lambda previous: complete)
        self._port.free = beats[-1] + 1
        return beats[-1], idle


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
        self._cores = [SealingCore() for _ in range(config.cores.sealers)]
        self._openers = [Resource() for _ in range(config.cores.openers)]
        self._room = Credits(PENDING * config.window)
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
        valid = max(head, self._latest[page], self._room[len(self._given)])
        at = self._address + page * config.page_bytes
        self._command = self._reads.command(valid, at, config.page_beats)
        page_words = config.chunks * (config.chunk_blocks + 1)
        words = _text(self._reads, config, config.page_beats, page_words)
        opener = self._openers[index % config.cores.openers]
        self._joined = max(self._joined, self._command, counted + later) + 1
        plain, tag = opened(opener.take(self._joined + 1), words, *self._shape, self._ahead)
        opener.free = tag + 1
        self.commands.append(self._command)
        self._given.append((index, page, later))
        return words[-1], plain + 1, max(plain + 1, self._cores[index % config.cores.sealers].room)

    def store(self, done: int) -> int:
        """Write the pages of an operation, sealed from this cycle on; return the last answer's cycle."""
        idle = 0
        for index, page, later in self._given:
            core = self._cores[index % self._config.cores.sealers]
            start = core.begin(done + 1)
            end = sealed(start, *self._shape)
            core.end(end)
            at = self._address + page * self._config.page_bytes
            coming = max(start + 1, done + 1 + later)
            last, answered = self._drain.write(coming, end + 1, at)
            core.leave(last)
            self._room.give(answered)
            self._latest[page] = answered
            idle = max(idle, answered)
        self._given.clear()
        return idle
