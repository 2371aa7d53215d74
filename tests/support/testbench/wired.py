"""A device behind its PHY's bytes, in simulation, whose frames are made of datagrams by others."""

from __future__ import annotations

from penstock.sim.frames import Frames

__all__ = ["Framed"]


class Framed(Frames):
    """`wrap` makes a frame of a datagram, and `unwrap` gives the datagram in one, both without FCS; b"": there is none."""

    def __init__(self, source: str, wrap, unwrap) -> None:
        super().__init__(source)
        self.wrap, self.unwrap = wrap, unwrap

    def send(self, datagram: bytes) -> None:
        super().send(self.wrap(datagram))

    def run(self, cycles: int | None = None) -> bytes:
        frame = super().run(cycles)
        return self.unwrap(frame) if frame else b""
