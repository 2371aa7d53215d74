"""What a run in the native harness gave: its report, its ports' traffic, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ...models.errors import Error, HardwareError
from ...models.shell import RegisterMap, Status


class Violation(IntEnum):
    """What the harness notes about a design's memory traffic. The first two are answered with SLVERR; all others are design errors."""

    OUTSIDE_READ = 0  #: a read burst that is not inside one mapped window
    OUTSIDE_WRITE = 1  #: the same of a write burst, or a window that is read-only
    NOT_INCR = 2
    NOT_FULL_WORD = 3  #: AxSIZE is not the bus's width
    UNALIGNED = 4
    CROSSES_4K = 5
    WLAST_WRONG = 6
    UNSTABLE = 7  #: an address that was offered was withdrawn or changed before it was taken
    W_WAITS_FOR_AWREADY = (
        8  #: a burst's words do not come before its address is taken (AXI4, A3.3.1)
    )


@dataclass(frozen=True)
class Note:
    """One remark of the harness. `cycle` counts from the session's start."""

    port: int
    kind: Violation
    cycle: int
    address: int

    def __str__(self) -> str:
        return (
            f"m{self.port}_axi: {self.kind.name} at address {self.address:#x} in cycle {self.cycle}"
        )


class ProtocolError(Error):
    """The design broke a rule of the bus: an internal error."""


class RegisterError(Error):
    """A register access was answered with an error, or not at all."""


@dataclass(frozen=True)
class PortStatistics:
    """Traffic of one port since the last `clear_statistics`. `read_blocked`: cycles in which a beat was offered and not taken."""

    bytes_read: int
    bytes_written: int
    read_bursts: int
    write_bursts: int
    max_reads_open: int
    max_writes_open: int
    read_blocked: int


@dataclass(frozen=True)
class MonitorState:
    """One watched stream when the report was made."""

    name: str
    valid: bool
    ready: bool
    level: int | None

    @classmethod
    def all(cls, register_map: RegisterMap, read: Callable[[str], int]) -> tuple[MonitorState, ...]:
        """Return the watched streams of an engine; `read`: of a register by its name."""
        words = [(monitor, read(f"monitor_{monitor.name}")) for monitor in register_map.monitors]
        return tuple(
            cls(m.name, bool(word & 1), bool(word & 2), word >> 16 if m.level_bits else None)
            for m, word in words
        )

    def __str__(self) -> str:
        level = "" if self.level is None else f", level {self.level}"
        state = {
            (True, True): "moves",
            (True, False): "is blocked: its consumer is not ready",
            (False, True): "is starved: its producer offers nothing",
            (False, False): "is at rest",
        }[self.valid, self.ready]
        return f"{self.name} {state}{level}"


@dataclass(frozen=True)
class RunReport:
    """How a run went."""

    #: False when the limit came first: then `status`, `counters` and `monitors` say where it stood
    finished: bool
    status: Status
    error: HardwareError | None
    cycles: int  #: the hardware's own count
    simulated: int  #: clock cycles that the simulation ran for it
    counters: Mapping[str, int]
    monitors: tuple[MonitorState, ...]

    def __str__(self) -> str:
        if self.finished:
            head = (
                f"failed after {self.cycles} cycles: {self.error}"
                if self.error
                else f"done in {self.cycles} cycles"
            )
        else:
            head = f"not finished after {self.simulated} cycles ({self.status!r})"
        lines = [
            head,
            *(f"  {name}: {value}" for name, value in self.counters.items()),
            *(f"  {monitor}" for monitor in self.monitors),
        ]
        return "\n".join(lines)
