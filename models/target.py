"""Targets: what a machine is. A board is a target that also says how it is built for (`Board`).

What each field of these records is, in which unit and within which limits, stands in target.toml: checks and `help` read it there.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from .errors import Error
from .fields import hints_of, misfit
from .link.kinds import KINDS
from .memory import ON_CHIP, Dram, FixedLatency, parse_memory
from .memory.sdram import CHIP, CHIPS, Chip

#: the source of a number that has none
ASSUMED = "assumed"
#: what a part has, by the names of `Capacity`
RESOURCES = ("lut", "ff", "dsp", "bram", "uram")
_TYPES = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}
#: by record and field
_FIELDS: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)


def _limit(value: Any, what: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Return what a field may hold, "" where the value is that. `others`: of the same record."""
    if "among" in what:
        return "" if value in what["among"] else f"one of {', '.join(filter(None, what['among']))}"
    if "like" in what:
        return "" if re.fullmatch(what["like"], value, re.ASCII) else what["may"]
    inside = value if isinstance(value, tuple) else (value,)
    numbers = [n for n in inside if misfit(n, float) is None]
    if isinstance(value, str) and not value.isprintable():
        return "a text that can be shown on a line"
    least, most = what.get("least", 0), what.get("most", 1 << 53)
    if isinstance(most, str):
        if not value <= others[most]:  # NaN too
            return f"at most the {others[most]} of `{most}`"
        most = others[most]
    if "above" in what:
        return "" if all(what["above"] < n <= most for n in numbers) else "a number above 0"
    powers = "powers" in what
    if all(least <= n <= most and not (powers and n.bit_count() != 1) for n in numbers):
        return ""
    kind = "a power of two" if powers else "a number"
    return f"{kind} from {least} to {'2^53' if most == 1 << 53 else most}"


class BadRecord(Error, ValueError):
    """A field of a target's record holds what it may not. The message names it."""

    code = "E621"
    hint = "docs/reference/targets.md lists the fields"


@dataclass(frozen=True, kw_only=True)
class _Record:
    """Plain data, checked. Raises BadRecord, which names the field and what it may be."""

    def __init_subclass__(cls) -> None:
        lines = [cls.__doc__ or "", ""]
        for name, what in cls._described().items():
            unit = f" ({what['unit']})" if "unit" in what else ""
            lines.append(f"    {name}{unit}: {what['is']}")
        cls.__doc__ = "\n".join(lines)

    @classmethod
    def _described(cls) -> dict[str, dict[str, Any]]:
        """Return what each field is, those of the records that this one extends first."""
        kinds = reversed(cls.__mro__)
        return {n: what for kind in kinds for n, what in _FIELDS.get(kind.__name__, {}).items()}

    def __post_init__(self) -> None:
        hints, described = hints_of(type(self)), self._described()
        values = {name: getattr(self, name) for name in hints}
        for name, hint in hints.items():
            if misfit(values[name], hint) is not None:
                self._refuse(name, _TYPES.get(hint) or str(getattr(hint, "__name__", hint)))
        for name, value in values.items():
            if may := _limit(value, described[name], values):
                self._refuse(name, may)
            if isinstance(value, int) and float in (hints[name], *get_args(hints[name])):
                object.__setattr__(self, name, float(value))  # one number has one digest

    def _refuse(self, name: str, may: str) -> None:
        raise BadRecord(f"`{name}` is {may}, not {getattr(self, name)!r:.99}")


@dataclass(frozen=True, kw_only=True)
class Capacity(_Record):
    """What a part has."""

    family: str
    lut: int
    ff: int
    dsp: int
    bram: int
    bram_bits: int
    multiplier: tuple[int, int]
    uram: int = 0


@dataclass(frozen=True, kw_only=True)
class Part(Capacity):
    """One device, whole."""

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
    """The clock that plans are made for."""

    mhz: float
    evidence: str = ASSUMED
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Storage(_Record):
    """The memory that holds pages and results, behind the engine's ports."""

    kind: str = ""
    bytes: int = 0
    timing: str = ""
    mhz: float | None = None
    chip: str = ""
    channels: int = 0
    source: str = ASSUMED

    @property
    def channel_bytes(self) -> int:
        """The bytes of a channel, a power of two; 0 where there are none."""
        each = self.bytes // self.channels if self.channels else 0
        return 1 << each.bit_length() - 1 if each else 0

    def begin(self, space: int) -> int:
        """Return where an address space begins: the host's, number 0, with the first byte, a port's own with one of the last channels, number 1 with the very
        last."""
        return self.bytes - space * self.channel_bytes if space else 0


@dataclass(frozen=True, kw_only=True)
class Link(_Record):
    """How a host talks to the device."""

    kind: str = ""
    baud: int = 0
    gbps: float | None = None
    latency_us: float | None = None
    source: str = ASSUMED

    def __post_init__(self) -> None:
        super().__post_init__()
        odd = ("gbps", "latency_us") if self.kind == "uart" else ("baud",)
        if wrong := next((name for name in odd if getattr(self, name)), None):
            raise BadRecord(f"`{wrong}` is of no link of the kind {self.kind!r}")
        if self.kind and self.kind not in KINDS and self.gbps is None:
            self._refuse("kind", f"one of {', '.join(KINDS)}, or another with its `gbps`")


@dataclass(frozen=True, kw_only=True)
class Power(_Record):
    """Watts of the whole device."""

    idle_w: float
    max_w: float
    source: str = ASSUMED


@dataclass(frozen=True, kw_only=True)
class Board(_Record):
    """What `penstock build` and `penstock program` need beside the rest of the target."""

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
    """One machine. Its capacities are what a plan may use: those of `part` less `reserve`."""

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
        part, held = self.part, self.memory.bytes
        if part is not None and self.memory.kind == "block RAM":
            if held > (most := part.bram * part.bram_bits // 8):
                what = f"at most the {most:,} bytes of block RAM that {part.name} has"
                raise BadRecord(f"`memory.bytes` is {what}, not {held:,}")
        if self.shared is not None and not self._can_be_built():
            what = "a UART with its `baud` or UDP with the board's `rgmii`, and block RAM, SPRAM or SDRAM with its `bytes`"
            raise BadRecord(f"`platform` is for a part with a `tool` of the open ones, {what}")
        timing = self._timing()
        rate = max(1, int(timing.peak)) if isinstance(timing, Dram) else timing.bytes_per_cycle
        rate = self.bytes_per_cycle or min(rate, self.bus_bytes)
        port = FixedLatency(self.latency or timing.latency, rate)  # which checks them
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
        timing = parse_memory(self.memory.timing or "latency=20", self.clock.mhz)
        if isinstance(timing, Dram) and self.memory.mhz:
            clock = Fraction(str(self.memory.mhz)) * 1_000_000
            return replace(timing, ratio=timing.ratio * timing.timing.clock_hz / clock)
        assert isinstance(timing, Dram | FixedLatency)
        return timing

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
        timing = self._timing()
        return str(timing) if isinstance(timing, Dram) else ""

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
