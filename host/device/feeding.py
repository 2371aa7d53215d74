"""Pages into the rings of a device, during a run: over any transport, for any engine that reads pages (`models.ring`)."""

from __future__ import annotations

from ...sim.machine import Feed
from .device import Device

__all__ = ["Feeder"]

_MODULUS = 1 << 32


class Feeder:
    """Fills a port's ring: pages go into slots that are free, then the register says that they are there.

    Who calls `push` again and again feeds the ring until the run is over. Nothing is written into a slot before the engine has
    counted its page as read; half of the ring at most is written at once, so that the engine has the other half.
    """

    def __init__(self, device: Device, feed: Feed) -> None:
        self.device, self.feed = device, feed
        self.sent = self.done = 0  # pages, over all epochs

    def push(self) -> int:
        """Write pages whose slots are free, as far as they lie behind each other; return how many."""
        device, feed, slots = self.device, self.feed, self.feed.line.slots
        count = device.read_register(f"count_{feed.ring.done}")
        self.done += (count - self.done) % _MODULUS
        page, slot = self.sent % len(feed.pages), self.sent % slots
        free = min(feed.line.total, self.done + slots) - self.sent
        few = min(free, -(-slots // 2), len(feed.pages) - page, slots - slot)
        if few:
            at = feed.at + slot * feed.pages.shape[1]
            device.write(at, feed.pages[page : page + few])
            self.sent += few
            device.write_register(feed.ring.ready, self.sent % _MODULUS)
        return few
