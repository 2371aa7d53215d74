"""How fast the ways are that a table takes to the engine: links and disks, and the texts of `--link` and `--disk`.

`uart`: ten bits a byte, frames of `models.link.frames` (docs/reference/link.md). `udp`: 1,024 bytes in 1,114 on the line: 24 of the
transport, 28 of IP and UDP, 38 of Ethernet with its preamble and gap; a device's own end may take less (`Link.into`). `xdma`: 12 GB/s,
and 1.26 µs a page, which is what BOLT's artifact was measured at (an Alveo U55C at PCIe 3 x16).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from .envelope import LONGEST, beginning, piece_cycles, push_cycles, write_cycles
from .frames import MAXIMUM, Request, Response, Space
from .timing import BYTE_BITS

#: bytes around a datagram on the line: of IP and UDP; preamble, header, FCS and gap
_AROUND = 28 + 38
#: registers that `host.device` writes and reads about a run, each after the answer to the one before: addresses and sizes, start, end, cycles, counters
_REGISTERS = 20


@dataclass(frozen=True)
class Link:
    """A way for bytes."""

    kind: str
    rate: Fraction  #: bytes a second on the line
    latency: Fraction = Fraction(0)  #: seconds until the first byte of a burst
    payload: int = 1  #: of `frame` bytes on the line, those that are the user's
    frame: int = 1
    source: str = ""  #: where the figures come from
    registers: Fraction = Fraction(0)  #: seconds of those that begin and end a run
    #: seconds in which nothing of a page is on the line, of each half of a ring that is filled
    turns: Fraction = Fraction(0)
    #: bytes a second that the device's end takes, None where it is as fast as the line
    takes: Fraction | None = None

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.latency < 0 or not 0 < self.payload <= self.frame:
            raise ValueError(
                f"a link has a rate above 0, no latency below 0, and frames that hold their payload, "
                f"not {self.rate} B/s, {self.latency} s, {self.payload} of {self.frame}"
            )

    @property
    def bytes_per_s(self) -> Fraction:
        """The user's bytes a second in a long burst."""
        line = self.rate * self.payload / self.frame
        return line if self.takes is None else min(line, self.takes)

    def into(self, clock_hz: Fraction | int, bus_bytes: int) -> Link:
        """Return the link to a device with this clock and bus: of `udp`, its own end does one request after
        the other, at most as `write_cycles` says."""
        if self.kind != "udp":
            return self
        return replace(self, takes=clock_hz * Fraction(LONGEST, write_cycles(LONGEST, bus_bytes)))

    def pushing(self, page: int, clock_hz: Fraction | int, bus_bytes: int, slots: int) -> Link:
        """Return the link by which pages of `page` bytes come into a ring of so many slots during a run (`models.ring`).

        Over a UART the host fills half of the ring, then waits until the last frame is in memory and answered (`turns`).
        """
        if self.kind == "uart":
            half = -(-slots // 2) * page
            waits = self.turns + Fraction(piece_cycles(MAXIMUM, bus_bytes)) / clock_hz
            return replace(self, takes=half / (half / self.bytes_per_s + waits))
        if self.kind != "udp":
            return self
        return replace(self, takes=clock_hz * page / push_cycles(page, bus_bytes))

    def begins(self, clock_hz: Fraction | int, ports: int) -> Fraction:
        """Return the cycles of a run before a device begins to put the first page into a ring.

        Over a UART the answer to the start takes the place of the last answer, which no page waits for.
        """
        if self.kind != "udp":
            return Fraction(0)
        datagrams, cycles = beginning(ports)
        line = Fraction(sum(datagrams) + len(datagrams) * _AROUND) / self.rate
        return (line + len(datagrams) * self.latency) * clock_hz + cycles

    def seconds(self, count: Fraction | int, bursts: int = 1) -> Fraction:
        """Return how long so many of the user's bytes take, in so many bursts."""
        return count / self.bytes_per_s + bursts * self.latency


def wire_bytes(data: bytes) -> int:
    """Return the bytes on a UART that a write of these to memory takes: exactly, stuffing included."""
    starts = range(0, len(data), MAXIMUM)
    return sum(
        len(Request(0, Space.MEMORY, at, data=data[at : at + MAXIMUM]).encode()) for at in starts
    )


def _uart(baud: Fraction = Fraction(1_000_000)) -> Link:
    # of bytes at random two in 256 are stuffed; `wire_bytes` has what given ones take
    bare, rate = wire_bytes(bytes(MAXIMUM)) - 2, baud / BYTE_BITS
    written, read = Request(0, Space.REGISTERS, 0, data=bytes(4)), Request(0, Space.REGISTERS, 0, 8)
    done = len(Response(0, written.kind, b"", 0).encode())
    each = len(written.encode()) + done
    looked = len(read.encode()) + len(Response(0, read.kind, bytes(8), 0).encode())
    frame = bare * 129 + 2 * 128
    # the answer to the last frame, the register that says what is there, a look at the counter
    counts = {"registers": _REGISTERS * each / rate, "turns": (done + each + looked) / rate}
    return Link("uart", rate, Fraction(0), MAXIMUM * 128, frame, "frames", **counts)


def _udp(gbps: Fraction = Fraction(1), latency: Fraction = Fraction(0)) -> Link:
    return Link("udp", gbps * 10**9 / 8, latency, 1024, 1024 + 24 + _AROUND, "frames")


def _xdma(gbps: Fraction = Fraction(96), latency: Fraction = Fraction("1.26e-6")) -> Link:
    return Link("xdma", gbps * 10**9 / 8, latency, source="BOLT's artifact")


def stated(gbps: Fraction, latency: Fraction = Fraction(0)) -> Link:
    """Return a link of which no more is known than its rate and its latency."""
    return Link("stated", gbps * 10**9 / 8, latency, source="given")


#: what makes a link of a kind, by the kind's name
KINDS: dict[str, Callable[..., Link]] = {"uart": _uart, "udp": _udp, "xdma": _xdma}
_KEYS = {"uart": ("baud",), "udp": ("gbps", "latency"), "xdma": ("gbps", "latency")}
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "µs": 10**6, "ns": 10**9}
_NUMBER = r"(\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,2})?)"


def parse_link(text: str) -> Link:
    """Read `--link` or `--disk`: a kind with its options, as in `uart,baud=115200` and
    `xdma,latency=2us`, or `gbps=8,latency=10us` (gigabits a second).

    Raises ValueError with a message and, behind a semicolon, a hint.
    """
    name, _, rest = (piece.strip() for piece in text.partition(","))
    if "=" in name:
        name, rest = "", text
    elif name not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError(f"there is no link {name!r}; known are {known}, and gbps=8,latency=10us")
    keys = _KEYS.get(name, ("gbps", "latency"))
    example = ",".join(filter(None, [name, "baud=1000000" if name == "uart" else "gbps=8"]))
    values: dict[str, Fraction] = {}
    for part in rest.split(",") if rest else ():
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or key not in keys:
            raise ValueError(
                f"cannot read {part.strip()!r} in {text!r}; it takes {' and '.join(keys)}, as in {example}"
            )
        if key in values:
            raise ValueError(f"{key!r} is given twice in {text!r}; leave one out")
        values[key] = _value(key, value, example)
    if not name and "gbps" not in values:
        raise ValueError(f"a link needs a rate, which {text!r} does not say; as in {example}")
    return KINDS[name](**values) if name else stated(**values)


def _value(key: str, value: str, example: str) -> Fraction:
    if key == "latency":
        match = re.fullmatch(_NUMBER + r"\s*(s|ms|us|µs|ns)", value, re.ASCII | re.IGNORECASE)
        if match is None:
            raise ValueError(
                f"latency must be a time, not {value!r}; as in latency=10us (s, ms, us, ns)"
            )
        return Fraction(match[1]) / _UNITS[match[2].lower()]
    match = re.fullmatch(_NUMBER, value, re.ASCII)
    if match is None or not Fraction(match[1]):
        raise ValueError(f"{key} must be a number above 0, not {value!r}; as in {example}")
    return Fraction(match[1])
