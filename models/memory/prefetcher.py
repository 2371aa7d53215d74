"""When words of a region are there whose reader runs ahead of its consumer: the twin of `hdl.memory.prefetcher`."""

from .bursts import Reader
from .timing import Ports


class Prefetcher:
    """When a Prefetcher on a port of `memory` gives the words of one region, accepted in cycle `accepted`.

    A command of `BURST` words goes to a `Reader` as soon as the queue has room for them. Its words enter the queue in the
    cycle in which they come, and are offered from the cycle after.
    """

    #: words of the queue: what 16 columns of an iCE40's block RAM, the shallowest, hold
    DEPTH = 256
    #: words that are asked for at once: seven eighths of the queue may be on their way, a word a cycle over 224 cycles
    BURST = 32

    def __init__(
        self, memory: Ports, bus_bytes: int, accepted: int, address: int, beats: int
    ) -> None:
        self._reader, self._bus = Reader(memory, bus_bytes), bus_bytes
        self._address, self._beats = address, beats
        self._asked = self._taken = 0
        self._latest = accepted  # when the latest word left the queue

    def take(self, ready: int) -> int:
        """Take the next word with a consumer that is ready from cycle `ready` on; return the cycle of the transfer."""
        while self._asked < self._beats and self._asked + self.BURST <= self._taken + self.DEPTH:
            beats = min(self.BURST, self._beats - self._asked)
            at = self._address + self._bus * self._asked
            self._reader.command(self._latest + 1, at, beats)
            self._asked += beats
        self._taken += 1
        self._latest = max(self._reader.accept(0) + 1, ready, self._latest + 1)
        return self._latest
