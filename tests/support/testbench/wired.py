"""A device behind its PHY's bytes, in simulation, whose frames are made of datagrams by others; Scapy's."""

from __future__ import annotations

from penstock.sim.frames import Frames

from .frames import HOST, STATION

__all__ = ["Framed", "right", "scapy_datagram", "scapy_frame"]


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


def scapy_frame(datagram: bytes) -> bytes:
    """A datagram of the host to the station, as Scapy writes it."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.packet import Raw

    addresses = {"src": ".".join(map(str, HOST.ip)), "dst": ".".join(map(str, STATION.ip))}
    ether = Ether(src=HOST.mac.hex(":"), dst=STATION.mac.hex(":"))
    return bytes(ether / IP(**addresses) / UDP(sport=HOST.port, dport=STATION.port) / Raw(datagram))


def scapy_datagram(frame: bytes) -> bytes:
    """The datagram of the station to the host in a frame, as Scapy reads it; checksums are what Scapy makes them."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    found = Ether(frame)
    packet = found[IP]
    assert (found.dst, found.src) == (HOST.mac.hex(":"), STATION.mac.hex(":"))
    assert (packet.dst, packet[UDP].dport, packet[UDP].sport) == (
        "10.0.0.200",
        HOST.port,
        STATION.port,
    )
    right(frame)
    return bytes(packet[UDP].payload)


def right(frame: bytes) -> None:
    """Whether Scapy gives a frame's packet the same checksums and lengths."""
    from scapy.layers.inet import ICMP, IP, UDP
    from scapy.layers.l2 import Ether

    again = Ether(frame)[IP].copy()
    size = again.len
    for layer, names in ((IP, ("len", "chksum")), (UDP, ("len", "chksum")), (ICMP, ("chksum",))):
        for name in names if layer in again else ():
            delattr(again[layer], name)
    assert bytes(again)[:size] == frame[14 : 14 + size]
