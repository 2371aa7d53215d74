"""Pages into the rings of a device, during a run: over any transport, for any engine that reads pages (`models.ring`)."""

from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np

from ...models.link.envelope import follows
from ...models.link.pushes import PIECE
from ...sim.machine import Feed
from .device import Device
from .transport import Piece, Pushing, Refused

_MODULUS = 1 << 32


class _Filled:
    """A port's ring. `sent`: pages that the device has, or that are on their way; `done`: pages that were read; both over all epochs."""

    def __init__(self, device: Device, feed: Feed) -> None:
        self.device, self.feed = device, feed
        self.sent = self.done = 0

    @property
    def free(self) -> int:
        """Pages that may come: there are such, and slots for them."""
        return min(self.feed.line.total, self.done + self.feed.line.slots) - self.sent

    @property
    def full(self) -> bool:
        return self.sent == self.feed.line.total

    def see(self, count: int) -> None:
        """The counter of pages that were read shows `count`, or did a while ago."""
        self.done += max(follows(count, self.done), 0)

    def look(self) -> None:
        self.see(self.device.read_register(f"count_{self.feed.ring.done}"))

    def write(self) -> int:
        """Write pages whose slots are free, as far as they lie behind each other, then the register that says so; return how many.

        Half of the ring at most is written at once, so that the engine has the other half.
        """
        self.look()
        device, feed, slots = self.device, self.feed, self.feed.line.slots
        page, slot = self.sent % len(feed.pages), self.sent % slots
        few = min(self.free, -(-slots // 2), len(feed.pages) - page, slots - slot)
        if few:
            at = feed.at + slot * feed.pages.shape[1]
            device.write(at, feed.pages[page : page + few])
            self.sent += few
            device.write_register(feed.ring.ready, self.sent % _MODULUS)
        return few


def fill(device: Device, feeds: Sequence[Feed], ends: float) -> Iterator[int]:
    """Fill the rings of a run until no page is left: yield how many were sent, whenever it is time to look whether the run is over.

    Nothing goes into a slot before the engine has counted its page as read. Where the device takes pages by itself, they are pushed; else they are
    written, and a register says that they are there. `ends`: when (`perf_counter`) to stop.
    """
    rings = [_Filled(device, feed) for feed in feeds]
    line = device.pushing
    try:
        for feed in feeds:
            if line is not None:
                line.begin(feed.ring.port, feed.at, feed.line.slots, feed.pages.shape[1])
    except Refused:
        line = None
    while not all(ring.full for ring in rings):
        before = sum(ring.sent for ring in rings)
        if line is None:
            yield sum(ring.write() for ring in rings)
            continue
        for ring in rings:
            ring.look()
        with device.asked("a push of pages"):
            line.push(_pieces(rings, line, ends))
        yield sum(ring.sent for ring in rings) - before


def _pieces(rings: Sequence[_Filled], line: Pushing, ends: float) -> Iterator[Piece | None]:
    """Yield pieces, a page of each port in turn, and None while there is no room for their pages."""
    flat = [np.ascontiguousarray(ring.feed.pages).data.cast("B") for ring in rings]
    while perf_counter() < ends and not all(ring.full for ring in rings):
        if not any(ring.free for ring in rings):
            yield None
        for ring, content in zip(rings, flat, strict=True):
            if ring.free:
                size = ring.feed.pages.shape[1]
                ring.sent += 1
                for at in range((ring.sent - 1) * size, ring.sent * size, PIECE):
                    place = at % len(content)
                    yield ring.feed.ring.port, at, content[place : place + PIECE]
            ring.see(line.pages(ring.feed.ring.port))
