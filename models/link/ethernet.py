"""A device's station on Ethernet, golden: frames in, answers and datagrams out (`hdl.link.station.Ethernet` equals it).

Sources: IEEE 802.3 (frames), RFC 826 (ARP), 791 (IPv4), 792 (ICMP), 768 (UDP), 1071 (checksums).

A frame counts that is sound (64 to 1,518 bytes with a right FCS, no error of the PHY) and comes from one station to this one; only an ARP request may be
for all. Of these are taken:

* ARP requests for the station's address (Ethernet, IPv4), which are answered;
* IPv4 without options and whole, for that address, its header's checksum right, its length no more than the frame's: ICMP echo requests with a right
  checksum, which are answered, and UDP to the station's port whose checksum is right or 0, not empty, which is handed on with its sender.

Everything else is dropped without a trace. What is sent has checksums, and identification 0 that must not be taken apart (RFC 6864).
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

#: bytes of a frame's check sequence, of the gap between two, of the shortest and the longest frame with the sequence
FCS, GAP = 4, 12
SHORTEST, LONGEST_FRAME = 64, 1518
#: bytes before a frame: seven of the first, then the second
PREAMBLE, START = 0x55, 0xD5
#: bytes of a station's buffer of frames, in words of four; each frame begins in the midst of one, so that what UDP carries begins with one
FRAMES, SHIFT = 4096, 2
#: of them, those that stay free: what is full is known a few cycles late
SLACK = 8
#: of devices
PORT = 5004
#: bytes that say whom a datagram comes from or goes to: `Peer`, in network order
PEER = 12

_ARP, _IPV4 = b"\x08\x06", b"\x08\x00"
_ICMP, _UDP = 1, 17
#: bytes before what UDP carries
_HEAD = 42


class Kind(Enum):
    """What is for a station."""

    ARP, ECHO, UDP = range(3)


class Peer(NamedTuple):
    """Another station: its MAC, its IPv4 address, its port."""

    mac: bytes
    ip: bytes
    port: int

    def encode(self) -> bytes:
        return self.mac + self.ip + self.port.to_bytes(2, "big")


class Given(NamedTuple):
    """A datagram that is handed on."""

    peer: Peer
    data: bytes


def checksum(data: bytes) -> int:
    """Return the Internet checksum of bytes, in which it counts as 0 (RFC 1071)."""
    padded = data + bytes(len(data) % 2)
    total = sum(int.from_bytes(padded[k : k + 2], "big") for k in range(0, len(padded), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _fcs(frame: bytes) -> bytes:
    return zlib.crc32(frame).to_bytes(FCS, "little")


def sound(frame: bytes) -> bool:
    """Return whether a frame has its right FCS and a length that there is."""
    return SHORTEST <= len(frame) <= LONGEST_FRAME and _fcs(frame[:-FCS]) == frame[-FCS:]


def on_wire(frame: bytes) -> bytes:
    """Return what goes on the wire for a frame: preamble, padding and FCS with it."""
    body = frame.ljust(SHORTEST - FCS, b"\0")
    return bytes([PREAMBLE] * 7 + [START]) + body + _fcs(body)


def _pseudo(source: bytes, sink: bytes, segment: bytes) -> bytes:
    """Return what the checksum of UDP is of."""
    return source + sink + bytes([0, _UDP]) + len(segment).to_bytes(2, "big") + segment


@dataclass(frozen=True)
class Station:
    """A device's addresses: six bytes, four bytes, a port."""

    mac: bytes
    ip: bytes
    port: int

    def header(self, frame: bytes) -> Kind | None:
        """Return what a sound frame without its FCS is, as far as its headers tell; None: nothing for this station."""
        sink, source = frame[:6], frame[6:12]
        kind, body = frame[12:14], frame[14:]
        if source[0] & 1 or (sink != self.mac and (kind != _ARP or sink != b"\xff" * 6)):
            return None
        if kind == _ARP:
            asks = body[:8] == bytes([0, 1, 8, 0, 6, 4, 0, 1]) and body[24:28] == self.ip
            return Kind.ARP if asks and not body[8] & 1 else None
        length, apart = int.from_bytes(body[2:4], "big"), body[6] & 0x3F or body[7]
        if kind != _IPV4 or body[0] != 0x45 or apart or length < _HEAD - 14:
            return None
        if body[16:20] != self.ip or checksum(body[:20]):
            return None
        if body[9] == _ICMP and body[20:22] == b"\x08\0":
            return Kind.ECHO
        ends = (self.port.to_bytes(2, "big"), (length - 20).to_bytes(2, "big"))
        right = body[9] == _UDP and (body[22:24], body[24:26]) == ends and length != _HEAD - 14
        return Kind.UDP if right else None

    def receive(self, frame: bytes) -> bytes | Given | None:
        """Take a sound frame without its FCS; return the frame that answers it, or the datagram in it."""
        kind, body = self.header(frame), frame[14:]
        if kind is None:
            return None
        if kind is Kind.ARP:
            answer = bytes([0, 1, 8, 0, 6, 4, 0, 2]) + self.mac + self.ip + body[8:18]
            return body[8:14] + self.mac + _ARP + answer
        length = int.from_bytes(body[2:4], "big")
        peer, segment = Peer(frame[6:12], body[12:16], 0), body[20:length]
        if length > len(body):
            return None
        if kind is Kind.ECHO:
            return None if checksum(segment) else self._echo(peer, segment[4:])
        if segment[6:8] != bytes(2) and checksum(_pseudo(peer.ip, self.ip, segment)):
            return None
        return Given(peer._replace(port=int.from_bytes(segment[:2], "big")), segment[8:])

    def _echo(self, peer: Peer, rest: bytes) -> bytes:
        check = checksum(bytes(4) + rest)
        return self._packet(peer, _ICMP, bytes(2) + check.to_bytes(2, "big") + rest)

    def _packet(self, peer: Peer, protocol: int, segment: bytes) -> bytes:
        """Return the frame of an IPv4 packet."""
        size = (20 + len(segment)).to_bytes(2, "big")
        head = bytearray([0x45, 0, *size, 0, 0, 0x40, 0, 64, protocol, 0, 0, *self.ip, *peer.ip])
        head[10:12] = checksum(bytes(head)).to_bytes(2, "big")
        return peer.mac + self.mac + _IPV4 + bytes(head) + segment

    def datagram(self, outgoing: Given) -> bytes:
        """Return the frame of a datagram to its peer."""
        peer, data = outgoing
        head = b"".join(n.to_bytes(2, "big") for n in (self.port, peer.port, 8 + len(data)))
        check = checksum(_pseudo(self.ip, peer.ip, head + bytes(2) + data)) or 0xFFFF
        return self._packet(peer, _UDP, head + check.to_bytes(2, "big") + data)


def addressed(design: int, ip: bytes) -> Station:
    """Return a design's station at an address: its MAC is local, and another one for another address."""
    digest = hashlib.sha256(design.to_bytes(4, "big") + ip).digest()
    return Station(b"\x02" + digest[:5], ip, PORT)


class Burst(NamedTuple):
    """Bytes that a PHY gives one after the other: from a cycle on; `errors`: places at which it reports one."""

    start: int
    data: bytes
    errors: tuple[int, ...] = ()


class Taken(NamedTuple):
    """A sound frame, without FCS, and the cycle of its last byte on the wire."""

    end: int
    frame: bytes


def taken(bursts: Iterable[Burst]) -> Iterator[Taken]:
    """Yield the sound frames of bursts, which are apart by a cycle or more; the first byte behind a gap of one cycle is not seen."""
    before = None
    for start, data, errors in bursts:
        missed = int(before is not None and start - before == 2)
        before = start + len(data) - 1
        at = missed
        while at < len(data) and data[at] == PREAMBLE:
            at += 1
        if at < len(data) and data[at] == START and not any(k > at for k in errors):
            if sound(frame := data[at + 1 :]):
                yield Taken(before, frame[:-FCS])
