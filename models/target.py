"""Targets: what a machine is. A board is a target that also says how it is built for (`Board`).

Block RAM is counted in blocks of 18 Kb on Lattice ECP5 (sysMEM EBR) and of 36 Kb on AMD parts, UltraRAM in blocks of 4,096 × 72 bits.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .link.kinds import KINDS
from .memory import ON_CHIP, Dram, FixedLatency, parse_memory
from .memory.sdram import CHIP, CHIPS, Chip

__all__ = [
    "ASSUMED",
    "PRICE",
    "RESOURCES",
    "Board",
    "Capacity",
    "Clock",
    "Link",
    "Part",
    "Power",
    "Reserve",
    "Storage",
    "Target",
]

#: the source of a number that has none
ASSUMED = "assumed"
#: what a part has, by the names of `Capacity`
RESOURCES = ("lut", "ff", "dsp", "bram", "uram")
#: what these fields may say
_CHOICES = {
    "family": ("ecp5", "ice40", "gowin", "nexus", "amd"),
    "evidence": ("placed", "vendor", ASSUMED),
    "chip": ("", *CHIPS),
}
#: what `Target.price` looks like: a number, and the currency by the hour
PRICE = r"(\d{1,15}(?:\.\d{1,15})?) [A-Z]{3}/h"
#: fields that are not 0
_POSITIVE = (
    "bram_bits",
    "bus_bytes",
    "die_mm2",
    "mhz",
    "node_nm",
    "oscillator_mhz",
    "page_size",
    "ports",
    "slr",
)
_MOST = 1 << 53
_TYPES = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}

_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def _is(value: Any, hint: Any) -> bool:
    """Return whether a value is of a field's type. A whole number is a number, and True is none."""
    inner = get_args(hint)
    if get_origin(hint) is UnionType:
        return any(_is(value, one) for one in inner)
    if get_origin(hint) is tuple:
        if not isinstance(value, tuple):
            return False
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        return len(value) == len(each) and all(map(_is, value, each))
    return isinstance(value, int | float if hint is float else hint) and (
        hint is bool or not isinstance(value, bool)
    )


@dataclass(frozen=True, kw_only=True)
class _Record:
    """Plain data, checked. Raises ValueError, which names the field and what it may be."""

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            value, least = getattr(self, name), 1 if name in _POSITIVE else 0
            numbers = value if isinstance(value, tuple) else (value,)
            if not _is(value, hint):
                what = _TYPES.get(hint) or getattr(hint, "__name__", str(hint))
            elif name in _CHOICES and value not in _CHOICES[name]:
                what = f"one of {', '.join(_CHOICES[name])}"
            elif not all(least <= n <= _MOST for n in numbers if isinstance(n, int | float)):
                what = f"a number from {least} to 2^53"
            else:
                continue
            raise ValueError(f"`{name}` is {what}, not {value!r:.99}")


@dataclass(frozen=True, kw_only=True)
class Capacity(_Record):
    """What a part has. `family`: whose synthesis rules hold ("ecp5", "ice40", "gowin", "nexus", or "amd").

    `multiplier` is the DSP block's multiplier (bits × bits); `bram_bits` one block RAM's size; `uram`: blocks of UltraRAM.
    """

    family: str
    lut: int
    ff: int
    dsp: int
    bram: int
    bram_bits: int
    multiplier: tuple[int, int]
    uram: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.multiplier) < 2:
            raise ValueError(f"`multiplier` is two widths from 2 bits on, not {self.multiplier}")


@dataclass(frozen=True, kw_only=True)
class Part(Capacity):
    """One device, whole. `tool`: what its placer takes for it; `slr`: dies beside each other; `node_nm`, `die_mm2`: where published."""

    name: str = ""
    tool: str = ""
    slr: int = 1
    node_nm: float | None = None
    die_mm2: float | None = None
    source: str = ASSUMED


@dataclass(frozen=True, kw_only=True)
class Reserve(_Record):
    """What of the part is for something else than Penstock: a vendor's shell."""

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram: int = 0
    uram: int = 0
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Clock(_Record):
    """The clock that plans are made for. `evidence`: "placed", "vendor" or "assumed"."""

    mhz: float
    evidence: str = ASSUMED
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Storage(_Record):
    """The memory that holds pages and results, behind the engine's ports. `kind`: "block RAM", "SPRAM", "SDRAM", "DDR4" or "HBM2".

    `bytes`: 0 where that is not known; `timing`: of a port, as `--memory` takes it ("" for memory of the part itself, which has that of its
    hardware); `mhz`: the DRAM's clock, where it is not that of `timing`'s name; `chip`: of SDRAM, "" for the ULX3S's.
    """

    kind: str = ""
    bytes: int = 0
    timing: str = ""
    mhz: float | None = None
    chip: str = ""
    source: str = ASSUMED


@dataclass(frozen=True, kw_only=True)
class Link(_Record):
    """How a host talks to the device. `kind`: a transport ("uart", "udp", "xdma"), or any other name with its `gbps`, "" for none; `baud` of a
    UART; `gbps` and `latency_us` of the others: where they are not the transport's own."""

    kind: str = ""
    baud: int = 0
    gbps: float | None = None
    latency_us: float | None = None
    source: str = ASSUMED

    def __post_init__(self) -> None:
        super().__post_init__()
        odd = ("gbps", "latency_us") if self.kind == "uart" else ("baud",)
        if wrong := next((name for name in odd if getattr(self, name)), None):
            raise ValueError(f"`{wrong}` is of no link of the kind {self.kind!r}")
        if self.gbps == 0:
            raise ValueError("`gbps` is a number above 0, not 0")
        if self.kind and self.kind not in KINDS and self.gbps is None:
            known = ", ".join(KINDS)
            raise ValueError(
                f"`kind` is one of {known}, or another with its `gbps`, not {self.kind!r:.99}"
            )


@dataclass(frozen=True, kw_only=True)
class Power(_Record):
    """Watts of the whole device: idle, and at most."""

    idle_w: float
    max_w: float
    source: str = ASSUMED

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.idle_w > self.max_w:
            raise ValueError(f"`idle_w` is at most the {self.max_w} of `max_w`, not {self.idle_w}")


@dataclass(frozen=True, kw_only=True)
class Board(_Record):
    """What `penstock build` and `penstock program` need beside the rest of the target.

    `package`, `speed`: the part's package and grade as its placer calls them; `oscillator_mhz`: the clock that the board supplies; `platform`:
    "module:Class" of an Amaranth platform, None where there is only a vendor's project; `clock`, `uart`: names of the platform's resources;
    `uart_pins`: (rx, tx) where it has no UART of its own, header pins that a serial adapter is put on; `rgmii`: the platform's name of a gigabit
    PHY's pins, "" without one; `rgmii_delay_ps`: by which what that gives is late against its clock on the device's side; `loader`: what openFPGALoader calls
    the board; `options`: of the platform, by name; `status`: what has been shown, see `docs/howto/boards.md`.
    """

    package: str
    oscillator_mhz: float
    speed: str = ""
    platform: str | None = None
    clock: str = ""
    uart: str = "uart"
    uart_pins: tuple[str, str] | None = None
    rgmii: str = ""
    rgmii_delay_ps: int = 0
    loader: str = ""
    options: tuple[tuple[str, str], ...] = ()
    status: str = "not placed yet"


@dataclass(frozen=True, kw_only=True)
class Target(Capacity):
    """One machine. Its capacities are what a plan may use: those of `part` less `reserve`.

    `ports`: AXI memory ports, each `bus_bytes` wide; `bytes_per_cycle` and `latency` (cycles) are the default timing of a port: where they are 0,
    that of `memory`. `lean`: plans get what is for small parts, see `models.analytics.config.AnalyticsPlan`. `page_size`: bytes of the pages
    that suit it, where Penstock packs them itself. `price`: such as "1.65 USD/h", "" where it is not known.
    """

    name: str
    clock: Clock
    title: str = ""
    part: Part | None = None
    reserve: Reserve = Reserve()
    ports: int = 1
    bus_bytes: int = 8
    bytes_per_cycle: int = 0
    latency: int = 0
    memory: Storage = Storage()
    link: Link = Link()
    power: Power | None = None
    price: str = ""
    lean: bool = False
    page_size: int = 8192
    board: Board | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,63}", self.name, re.ASCII):
            raise ValueError(f"`name` is letters, digits and -_.+, at most 64, not {self.name!r}")
        for name, least, most in (("bus_bytes", 4, 64), ("page_size", 1024, 32768)):
            value = getattr(self, name)
            if value.bit_count() != 1 or not least <= value <= most:
                raise ValueError(f"`{name}` is a power of two from {least} to {most}, not {value}")
        for name, most in (("ports", 64), ("bytes_per_cycle", self.bus_bytes)):
            if (value := getattr(self, name)) > most:
                raise ValueError(f"`{name}` is at most {most}, not {value}")
        if self.price and not re.fullmatch(PRICE, self.price, re.ASCII):
            raise ValueError(f'`price` is a text such as "1.65 USD/h", not {self.price!r:.99}')
        part, held = self.part, self.memory.bytes
        if part is not None and self.memory.kind == "block RAM":
            if held > (most := part.bram * part.bram_bits // 8):
                what = f"at most the {most:,} bytes of block RAM that {part.name} has"
                raise ValueError(f"`memory.bytes` is {what}, not {held:,}")
        if self.shared is not None and not self._can_be_built():
            what = "a UART with its `baud` or UDP with the board's `rgmii`, and block RAM, SPRAM or SDRAM with its `bytes`"
            raise ValueError(f"`platform` is for a part with a `tool` of the open ones, {what}")
        found = self._timing()
        rate = max(1, int(found.peak)) if isinstance(found, Dram) else found.bytes_per_cycle
        rate = self.bytes_per_cycle or min(rate, self.bus_bytes)
        port = FixedLatency(self.latency or found.latency, rate)  # which checks them
        object.__setattr__(self, "latency", port.latency)
        object.__setattr__(self, "bytes_per_cycle", port.bytes_per_cycle)

    def _can_be_built(self) -> bool:
        memory = self.memory.bytes and self.memory.kind in (*ON_CHIP, "SDRAM")
        link = self.link.kind == "uart" and self.link.baud
        udp = self.link.kind == "udp" and self.pins.rgmii
        tool = self.part is not None and self.part.tool and self.family != "amd"
        return bool(memory and (link or udp) and tool)

    def _timing(self) -> Dram | FixedLatency:
        """Return the timing of the memory. Raises ValueError for a text that is none."""
        if self.memory.kind in ON_CHIP and not self.memory.timing:
            return ON_CHIP[self.memory.kind](self.bus_bytes)
        found = parse_memory(self.memory.timing or "latency=20", self.clock.mhz)
        if isinstance(found, Dram) and self.memory.mhz:
            clock = Fraction(str(self.memory.mhz)) * 1_000_000
            return replace(found, ratio=found.ratio * found.timing.clock_hz / clock)
        assert isinstance(found, Dram | FixedLatency)
        return found

    @property
    def sdram(self) -> Chip:
        """The chip of a memory that is SDRAM."""
        return CHIPS.get(self.memory.chip, CHIP)

    @property
    def clock_mhz(self) -> float:
        return self.clock.mhz

    @property
    def timing(self) -> str:
        """The default memory timing as the option `--memory` takes it."""
        return f"latency={self.latency},bytes={self.bytes_per_cycle}"

    @property
    def dram(self) -> str:
        """What is behind each port as `--memory` takes it, with the ratio of the port's clock to the DRAM's; "" where it is no DRAM that is known."""
        found = self._timing()
        return str(found) if isinstance(found, Dram) else ""

    @property
    def bandwidth(self) -> float:
        """Bytes a second over all ports."""
        return self.ports * self.bytes_per_cycle * self.clock.mhz * 1e6

    @property
    def shared(self) -> int | None:
        """Bytes of block RAM that hold pages on the part itself, beside the engine and the host's link (0: link and memory control, but memory
        elsewhere); None: the part has the engine alone."""
        if self.board is None or self.board.platform is None:
            return None
        return self.memory.bytes if self.memory.kind == "block RAM" else 0

    @property
    def lends(self) -> bool:
        """Whether engines may have more memory ports than `ports`: on a board that Penstock builds they share memory off the chip in turn."""
        return self.shared is not None and self.memory.kind not in ON_CHIP

    @property
    def device(self) -> Part:
        """The whole part. Raises LookupError where the target names none."""
        if self.part is None:
            raise LookupError(f"{self.name} names no part")
        return self.part

    @property
    def pins(self) -> Board:
        """The board. Raises LookupError where the target has none."""
        if self.board is None:
            raise LookupError(f"{self.name} has no board")
        return self.board

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """A digest of the whole record."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()
