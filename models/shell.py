"""The shell's register map: the common block that every engine has, then the engine's own counters and registers.

All registers are 32 bits wide at 4-byte offsets; a 64-bit value takes two, the low half first, aligned to 8. The map is data:
`hdl.shell` makes hardware of it, drivers and the harness read it from the manifest (`to_json`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntFlag
from typing import Any

from .errors import ErrorCode, ErrorEntry, HardwareCode, HardwareError, NamedCode

IDENTITY = 0x504E5354  #: "PNST": what `identity` reads
TOP = "penstock"  #: the module around every engine
#: Cycles without a transfer after which a port that is brought to rest is dead, where the watchdog is off: more than the longest latency of a model
#: (`models.memory.FixedLatency`), and at 250 MHz 4 ms, a thousand times what DDR4 is silent for of its own accord (JESD79-4: tRFC, tZQoper).
PATIENCE = 1 << 20
VERSION = 0x0001_0001  #: of the common block: major in the high half, minor in the low


class Control(IntFlag):
    """Bits of `control`; they read as 0."""

    START = 1  #: begin a run; ignored while busy
    RESET = 2  #: stop: let the bus come to rest, reset the engine, clear done and error


class Status(IntFlag):
    """Bits of `status`. Exactly one of IDLE and BUSY is set; DONE and ERROR stay until the next start or reset, DEAD until the hard reset."""

    IDLE = 1
    BUSY = 2
    DONE = 4
    ERROR = 8
    DEAD = 16  #: a memory port did not come to rest: every start ends with DEAD_PORT


class Interrupt(IntFlag):
    """Bits of `interrupt`. `irq` is high while both are set."""

    ENABLE = 1  #: read and write
    PENDING = 2  #: set at the end of a run; writing 1 clears it


@dataclass(frozen=True)
class Register:
    """One value in the map."""

    name: str
    offset: int  #: in bytes
    bits: int  #: 32 or 64
    access: str  #: "ro", "rw" or "w1" (acts on ones written)
    doc: str


@dataclass(frozen=True)
class Legal:
    """The values of a register with which a run may start: the multiples of `multiple` from `least` to `most`.

    Bytes from an address on end before the last byte that the width can name.
    """

    least: int = 0
    most: int | None = None  #: None for what the width holds
    multiple: int = 1
    size: int = 0  #: bytes that lie from an address on
    each: tuple[tuple[str, int], ...] = ()  #: bytes more by register, for each one that it counts
    apart: tuple[str, ...] = ()  #: registers of addresses whose bytes may not be among them


@dataclass(frozen=True)
class EngineRegister:
    """A value that the host sets before a start and the engine reads."""

    name: str
    bits: int = 32  #: 1 to 64
    doc: str = ""
    reset: int = 0  #: its value until it is written
    live: bool = False  #: the host may set it in a run, too
    legal: Legal | None = None  #: values with which a run may start; None for any of the width

    @property
    def rule(self) -> Legal:
        """The rule for its values."""
        return self.legal or Legal()

    @property
    def most(self) -> int:
        """The greatest value with which a run may start."""
        rule = self.rule
        most = (1 << self.bits) - 1 - rule.size
        most = most if rule.most is None else min(most, rule.most)
        return most - most % rule.multiple

    @property
    def range(self) -> str:
        """Its legal values in words."""
        rule = self.rule
        multiple = f"multiples of {rule.multiple} to {self.most:#x}"
        text = multiple if rule.multiple > 1 else f"{rule.least} to {self.most}"
        pieces = [f"{size} bytes for each of {name}" for name, size in rule.each]
        if pieces:
            pieces = [f"{rule.size} bytes", *pieces] if rule.size else pieces
            text += f", with {' and '.join(pieces)} below {1 << self.bits:#x}"
        return text + (f", apart from {', '.join(rule.apart)}" if rule.apart else "")

    def to_json(self) -> dict[str, Any]:
        kept = {k: v for k, v in asdict(self).items() if k != "legal" and (k != "live" or v)}
        rule = {k: v for k, v in asdict(self.rule).items() if v or k == "least"}
        return {**kept, **rule, "most": self.most}


def address(
    name: str,
    bits: int,
    what: str,
    unit: int,
    size: int = 0,
    each: Iterable[tuple[str, int]] = (),
    apart: Iterable[str] = (),
) -> EngineRegister:
    """Return the register of an address, a multiple of `unit` bytes, and of the bytes that lie there (`Legal`)."""
    legal = Legal(multiple=unit, size=size, each=tuple(each), apart=tuple(apart))
    return EngineRegister(name, bits, what, legal=legal)


@dataclass(frozen=True)
class Counter:
    """An event counter: it grows by the engine's signal in each busy cycle, modulo 2**`bits`, from 0 at a start."""

    name: str
    doc: str = ""
    step_bits: int = 1  #: width of the signal
    progress: bool = True  #: events show the watchdog that the run goes on; waiting cycles do not
    bits: int = 48


@dataclass(frozen=True)
class Monitor:
    """A stream inside the engine that the watchdog report looks at, with `level_bits` of a queue's level (0: none)."""

    name: str
    level_bits: int = 0


@dataclass(frozen=True)
class VaultValue:
    """A value that the engine has from the vault, which the host's bus does not reach: fuses, a noise
    source, or in simulation the process that runs the device. `bits`: 32 or more, whole words of 32."""

    name: str
    bits: int
    doc: str = ""


#: The common block, at the same place in every engine.
CONTROL: tuple[Register, ...] = (
    Register("identity", 0x00, 32, "ro", "0x504E5354, 'PNST'"),
    Register("version", 0x04, 32, "ro", "of this block: major << 16 | minor"),
    Register(
        "design", 0x08, 32, "ro", "the first 32 bits of the design's digest, as in the manifest"
    ),
    Register("control", 0x0C, 32, "w1", "bit 0 start, bit 1 soft reset"),
    Register("status", 0x10, 32, "ro", "bit 0 idle, 1 busy, 2 done, 3 error, 4 dead"),
    Register("interrupt", 0x14, 32, "rw", "bit 0 enable, bit 1 pending (write 1 to clear)"),
    Register("error_code", 0x18, 32, "ro", "models.errors.ErrorCode of the run that failed"),
    Register("error_block", 0x1C, 32, "ro", "the page's index in the run"),
    Register("error_line", 0x20, 32, "ro", "the 1-based line pointer, 0 for none"),
    Register(
        "watchdog",
        0x24,
        32,
        "rw",
        "busy cycles without transfer or progress after which a run ends with WATCHDOG; 0: never",
    ),
    Register(
        "cycles",
        0x28,
        64,
        "ro",
        "cycles from the one after the start until and including that of done",
    ),
    Register(
        "error_item",
        0x30,
        32,
        "ro",
        "which value of the line, counted from 1, or of REGISTER the register's offset; 0 for none",
    ),
)

#: where counters begin
COUNTERS_BASE = 0x40


@dataclass(frozen=True)
class RegisterMap:
    engine: tuple[EngineRegister, ...] = ()  #: the engine's registers, in order
    counters: tuple[Counter, ...] = ()  #: its event counters, in order
    #: streams whose state is readable, one 32-bit word each: bit 0 valid, bit 1 ready, bits 16 up
    #: the level
    monitors: tuple[Monitor, ...] = ()
    design: int = 0  #: 32 bits that identify the design
    cycle_bits: int = 64  #: bits in which `cycles` is counted, 1 to 64; the others read as 0
    #: enumerations of the engine's own error codes; those of `ErrorCode` every engine has
    errors: tuple[ErrorEntry, ...] = ()
    #: what the engine has of the vault: no registers, but pins of the top
    vault: tuple[VaultValue, ...] = ()
    registers: tuple[Register, ...] = field(init=False)

    def __init__(
        self,
        engine: Iterable[EngineRegister] = (),
        counters: Iterable[Counter] = (),
        monitors: Iterable[Monitor] = (),
        design: int = 0,
        *,
        cycle_bits: int = 64,
        errors: Iterable[type[HardwareCode] | ErrorEntry] = (),
        vault: Iterable[VaultValue] = (),
    ) -> None:
        set_ = object.__setattr__
        set_(self, "engine", tuple(engine))
        set_(self, "counters", tuple(counters))
        set_(self, "monitors", tuple(monitors))
        set_(self, "design", design)
        set_(self, "cycle_bits", cycle_bits)
        set_(self, "errors", self._entries(errors))
        set_(self, "vault", tuple(vault))
        set_(self, "registers", self._place())

    def _place(self) -> tuple[Register, ...]:
        if not 0 <= self.design < 1 << 32:
            raise ValueError(f"design must be 32 bits, not {self.design:#x}")
        if not 1 <= self.cycle_bits <= 64:
            raise ValueError(f"cycle_bits must be 1 to 64, not {self.cycle_bits!r}")
        for value in self.vault:
            if value.bits < 32 or value.bits % 32:
                raise ValueError(
                    f"vault {value.name!r}: bits must be whole words of 32, not {value.bits!r}"
                )
        registers = list(CONTROL)
        offset = COUNTERS_BASE
        for counter in self.counters:
            if not 1 <= counter.step_bits <= 32:
                raise ValueError(
                    f"counter {counter.name!r}: step_bits must be 1 to 32, not {counter.step_bits!r}"
                )
            registers.append(Register(f"count_{counter.name}", offset, 64, "ro", counter.doc))
            offset += 8
        for item in self.engine:
            if not 1 <= item.bits <= 64:
                raise ValueError(f"register {item.name!r}: bits must be 1 to 64, not {item.bits!r}")
            if not 0 <= item.reset < 1 << item.bits:
                raise ValueError(
                    f"register {item.name!r}: reset {item.reset!r} does not fit in {item.bits} bits"
                )
            if item.rule.multiple & item.rule.multiple - 1:
                raise ValueError(f"register {item.name!r}: multiple must be a power of two")
            if not 0 <= item.rule.least <= item.most:
                raise ValueError(f"register {item.name!r}: no value of {item.bits} bits is legal")
            others = {*item.rule.apart, *dict(item.rule.each)}
            if missing := sorted(others - {other.name for other in self.engine}):
                raise ValueError(f"register {item.name!r}: there is no register {missing[0]!r}")
            size = 8 if item.bits > 32 else 4
            offset += -offset % size
            registers.append(Register(item.name, offset, size * 8, "rw", item.doc))
            offset += size
        for monitor in self.monitors:
            if not 0 <= monitor.level_bits <= 16:
                raise ValueError(
                    f"monitor {monitor.name!r}: level_bits must be 0 to 16, not {monitor.level_bits!r}"
                )
            registers.append(
                Register(
                    f"monitor_{monitor.name}", offset, 32, "ro", "bit 0 valid, 1 ready, 16 up level"
                )
            )
            offset += 4
        names = [r.name for r in registers]
        for name in names:
            if not name.isidentifier():
                raise ValueError(f"register name {name!r} is not an identifier")
            if names.count(name) > 1:
                raise ValueError(f"register name {name!r} is used twice")
        return tuple(registers)

    @property
    def address_width(self) -> int:
        """Bits of a byte address in the map; at least 12, a page of its own."""
        last = self.registers[-1]
        return max(12, (last.offset + last.bits // 8 - 1).bit_length())

    def __getitem__(self, name: str) -> Register:
        for register in self.registers:
            if register.name == name:
                return register
        raise KeyError(name)

    @staticmethod
    def _entries(errors: Iterable[type[HardwareCode] | ErrorEntry]) -> tuple[ErrorEntry, ...]:
        entries: list[ErrorEntry] = []
        for codes in errors:
            entries += [codes] if isinstance(codes, ErrorEntry) else map(ErrorEntry.of, codes)
        numbers = [entry.code for entry in entries] + [int(code) for code in ErrorCode]
        for entry in entries:
            if not 0 < entry.code < 256:
                raise ValueError(f"error code {entry.name} must be 1 to 255, not {entry.code}")
            if numbers.count(entry.code) > 1:
                raise ValueError(f"error code {entry.code} is used twice")
        return tuple(entries)

    def vault_words(self, values: Mapping[str, int]) -> list[int]:
        """Return the vault's values as words of 32 bits, in their order, the lowest word first. Raises
        ValueError where they are not those that the engine has."""
        names = {value.name for value in self.vault}
        if different := sorted(names ^ values.keys()):
            raise ValueError(f"the values of the vault are not {', '.join(different)}")
        words: list[int] = []
        for value in self.vault:
            number = values[value.name]
            if not 0 <= number < 1 << value.bits:
                raise ValueError(f"the vault's {value.name} has {value.bits} bits")
            words += [number >> at & 0xFFFFFFFF for at in range(0, value.bits, 32)]
        return words

    def error(self, code: int) -> NamedCode:
        """Return the error that the register `error_code` stands for. Raises ValueError for a code
        that the engine does not have."""
        for entry in self.errors:
            if entry.code == code:
                return entry
        return ErrorCode(code)

    def failure(self, status: int, code: int, *place: int) -> HardwareError:
        """Return how a run failed, as its registers say. Raises ValueError as `error` does."""
        error, dead = self.error(code), ErrorCode.DEAD_PORT
        if status & Status.DEAD and error != dead:
            return HardwareError(error, *place, detail=dead.meaning, advice=dead.hint)
        return (
            self._refused(place[2]) if code == ErrorCode.REGISTER else HardwareError(error, *place)
        )

    def _refused(self, offset: int, values: Mapping[str, int] | None = None) -> HardwareError:
        """Return the error of a start whose register at an offset is not legal; `values`: of all, where they are known."""
        detail = ""
        for register in self.engine:
            if self[register.name].offset == offset:
                value = "" if values is None else f" is {values[register.name]:#x}, and"
                detail = f"{register.name}{value} may be {register.range}"
        return HardwareError(ErrorCode.REGISTER, item=offset, detail=detail)

    def illegal(self, values: Mapping[str, int]) -> HardwareError | None:
        """Return the error with which a start ends whose registers have these values, others their reset: the first register whose
        value is not legal."""
        held = {r.name: values.get(r.name, r.reset) for r in self.engine}
        begins = {r.name: held[r.name] & (1 << r.bits) - 1 for r in self.engine}
        ends = {
            r.name: begins[r.name] + r.rule.size + sum(n * begins[of] for of, n in r.rule.each)
            for r in self.engine
        }
        for register in self.engine:
            name, rule, value = register.name, register.rule, held[register.name]
            if (
                not rule.least <= value <= register.most
                or value % rule.multiple
                or ends[name] >> register.bits
                or any(begins[n] < ends[name] and begins[name] < ends[n] for n in rule.apart)
            ):
                return self._refused(self[name].offset, held)
        return None

    def to_json(self) -> dict[str, Any]:
        """The map as plain data, for the manifest."""
        vault = {"vault": [asdict(v) for v in self.vault]} if self.vault else {}
        return vault | {
            "design": self.design,
            "cycle_bits": self.cycle_bits,
            "engine": [e.to_json() for e in self.engine],
            "counters": [asdict(c) for c in self.counters],
            "monitors": [asdict(m) for m in self.monitors],
            "registers": [asdict(r) for r in self.registers],
            "errors": [entry.to_json() for entry in self.errors],
        }
