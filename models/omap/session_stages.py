"""The stages of sessions in time: frames that are read, opened and judged, and answers that are sealed and
written. As in `stages`, nothing that is secret enters, nor whether a frame is refused.
"""

from ..crypto.gcm import cycles, times
from ..memory import Memory, Reader
from ..timeline import Resource
from .boundary import Frames
from .config import BLOCK, OmapConfig
from .front_schedule import FrontSchedule
from .stages import Drain, SealingCore
from .vault import Derived, draw_cycles


def pace(frames: Frames) -> int:
    """Return the cycles from a message to the next one in a core that seals answers, the longer ones."""
    return cycles(0, frames.answer_bytes) + 1


def fetched(frames: Frames, memory: Memory, address: int) -> int:
    """Return the cycles that a run takes for fetching a frame that opens a session, before its first
    operation."""
    reader = Reader(memory, frames.bus_bytes)
    reader.command(1, address, frames.opening_beats)
    return max(reader.accept(0) for _ in range(frames.opening_beats)) + 1


def collected(frames: Frames, memory: Memory, address: int, cycle: int) -> int:
    """Return when a run ends that writes an answer to a handshake. `cycle`: in which all operations have
    ended, and the answer is ready."""
    drain = Drain(memory, frames.bus_bytes, frames.welcome_beats)
    return drain.write(cycle + 1, 0, address)[1]


def filed() -> int:
    """Return the cycles from a frame with a file's head, or from the end of a run's operations, until the
    file's key is there."""
    return 2 + draw_cycles(Derived.STATE)


def read_cycles(config: OmapConfig, buckets: int) -> int:
    """Return the cycles from the command until entries of buckets are there: a bucket comes in the time in
    which the front scans two."""
    return 1 + config.access.deadline + buckets * FrontSchedule.of(config).interval


def walked(config: OmapConfig, buckets: int, begins: bool) -> int:
    """Return the cycles that a run takes for entries before its first operation. `begins`: the walk does,
    and its file has no key yet."""
    return 3 + read_cycles(config, buckets) + (filed() if begins else 0)


class Requests:
    """Frames that are read one after another, opened by cores in turn, and judged in their order.
    `records`: they are a file's."""

    def __init__(
        self, config: OmapConfig, memory: Memory, address: int, records: bool = False
    ) -> None:
        frames = self._frames = Frames.of(config)
        self._address = address
        self._blocks = frames.answer_blocks if records else frames.request_blocks
        self._reader = Reader(memory, config.host_bus_bytes, config.window)
        self._openers = [Resource() for _ in range(config.cores.request_openers)]

    def open(self, number: int, valid: int, begun: int) -> tuple[int, int, int]:
        """Return when a request is asked for, there, and judged: it is offered in the next cycle.
        `begun`: when the request before it was taken by the front."""
        frames = self._frames
        asked = self._reader.command(valid, self._address + number * frames.size, frames.beats)
        words = [self._reader.accept(0) + 1 for _ in range(frames.beats)]
        arrivals = [words[k * BLOCK // frames.bus_bytes] for k in range(2 + self._blocks)]
        opener = self._openers[number % len(self._openers)]
        # a key is looked up behind the first word
        _, tag = times(opener.take(arrivals[0] + 1), arrivals[1:-1])
        end = max(tag, arrivals[-1])
        opener.free = end + 1
        return asked, arrivals[-1], max(end, begun) + 2


class Answers:
    """Answers, or records of a log, that are sealed by cores in turn, and leave one after another."""

    def __init__(self, config: OmapConfig, memory: Memory, address: int) -> None:
        self._frames, self._address = Frames.of(config), address
        self._drain = Drain(memory, config.host_bus_bytes, self._frames.beats)
        self._cores = [SealingCore() for _ in range(config.cores.responders)]

    def room(self, number: int) -> int:
        """The cycle from which on this answer may be written to its core."""
        return self._cores[number % len(self._cores)].room

    def give(self, number: int, ready: int, first: int) -> tuple[int, int]:
        """Return the cycles of the last word, and of its answer. `ready`: the cycle in which its place is taken; `first`: from which on its first block
        can be read, the others one a cycle behind it."""
        core = self._cores[number % len(self._cores)]
        start = core.begin(ready + 2)
        _, end = times(start, [first + k for k in range(self._frames.answer_blocks)])
        core.end(end)
        at = self._address + number * self._frames.size
        last, idle = self._drain.write(start + 1, end + 1, at)
        core.leave(last)
        return last, idle
