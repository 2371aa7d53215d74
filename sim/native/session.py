"""Running a built design: memory, registers, runs, statistics."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from ...models.errors import ErrorCode, HardwareError, RunError
from ...models.memory import FixedLatency, Memory
from ...models.memory.dram.memory import Dram
from ...models.shell import IDENTITY, PATIENCE, Control, Interrupt, Status
from ..machine import Closing, Feed, Transfer
from ..memory.modes import NO_MODES, Mode
from ..memory.parameters import parameters
from .library import RECORD, Library, RawNote
from .results import (
    MonitorState,
    Note,
    PortStatistics,
    ProtocolError,
    RegisterError,
    RunReport,
    Violation,
)

_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64


class Session(Closing):
    """One simulated board: the design under its clock, with memory behind its ports.

    * `library`: from `build`.
    * `memory`: timing of all ports.
    * `seed`: of random initial values, for a library built with `random`.
    * `vault`: the vault's values, by name, of a design that has some.
    """

    def __init__(
        self,
        library: Library,
        memory: Memory | None = None,
        *,
        seed: int = 0,
        vault: Mapping[str, int] | None = None,
    ) -> None:
        words = library.register_map.vault_words(vault or {})
        self.library = library
        self.register_map = library.register_map
        self._api = library.load()
        self._handle = self._api.penstock_open(seed)
        if words:
            self._api.penstock_vault(self._handle, (_U32 * len(words))(*words))
        self._windows: dict[tuple[int, int], np.ndarray] = {}
        self._fed: list[np.ndarray] = []
        self.set_memory(memory or FixedLatency())

    def close(self) -> None:
        """End the session; closing twice is fine."""
        if self._handle:
            self._api.penstock_trace(self._handle, None, 0, 0)
            self._api.penstock_close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    # memory

    def set_memory(
        self,
        memory: Memory | Mapping[str, Memory],
        *,
        stall_percent: int = 0,
        modes: Mode | None = None,
        seed: int = 1,
    ) -> None:
        """Set the timing of all ports from the next cycle on, or of ports by name ("m0", "m1", …).

        `stall_percent` > 0 holds back every handshake at random, by `seed`, and `modes` say what
        else memory does (drawn by `seed` with stalls, none without): no model covers that; it is for
        bit-exactness alone.
        """
        if modes is None:
            modes = Mode.drawn(seed) if stall_percent else NO_MODES
        for k, port in enumerate(self.library.ports):
            timing = memory.get(f"m{k}") if isinstance(memory, Mapping) else memory
            if timing is None:
                continue
            latency, interval = timing.latency, timing.interval(port.data_bytes)
            self._api.penstock_timing(
                self._handle, k, latency, interval, stall_percent, modes.value, seed * 64 + k
            )
            if isinstance(timing, Dram):
                self._api.penstock_dram(self._handle, k, parameters(timing).ctypes.data)

    def map(self, base: int, array: np.ndarray, *, writable: bool = True, space: int = 0) -> None:
        """Let the ports of a space see the bytes of a contiguous array from address `base` on,
        without a copy: writes go into the array.

        Raises ValueError on an array that is not contiguous or an overlap with another window.
        """
        if not array.flags.c_contiguous or (writable and not array.flags.writeable):
            raise ValueError(
                "a memory window must be a C-contiguous array, "
                "writable unless mapped with writable=False"
            )
        if base % 4096:
            raise ValueError(f"a memory window must begin at a multiple of 4096, not {base:#x}")
        for (other, its_space), held in self._windows.items():
            if space == its_space and base < other + held.nbytes and other < base + array.nbytes:
                raise ValueError(f"the window at {base:#x} overlaps the one at {other:#x}")
        self._windows[base, space] = array
        self._api.penstock_map(self._handle, base, array.ctypes.data, array.nbytes, writable, space)

    def change(self, cycle: int, address: int, data: bytes, space: int = 0) -> None:
        """Change bytes of mapped memory when the cycle `cycle` of the session begins."""
        self._api.penstock_change(self._handle, space, cycle, address, data, len(data))

    def feed(self, feed: Feed) -> None:
        """Bring pages into a ring during the next run."""
        line, pages = feed.line, feed.pages
        bytes_ = pages.shape[1]
        place = [feed.at, bytes_, line.slots, len(pages), line.total]
        place += [line.interval, line.way, line.phase, line.turn, line.begins]
        numbers = (_U64 * len(place))(*place)
        register = self.register_map[feed.ring.ready].offset
        self._fed.append(pages)
        self._api.penstock_feed(self._handle, numbers, register, pages.ctypes.data)

    def arrivals(self, count: int) -> list[int]:
        """Return in which cycles of the run `pages_ready` of the first feed was raised, at most `count` of them."""
        room = (_U64 * count)()
        return list(room[: self._api.penstock_arrivals(self._handle, room, count)])

    def record(self, port: int, on: bool = True) -> None:
        """Begin to record a port's bursts, or end it; what was recorded is forgotten."""
        self._api.penstock_record(self._handle, port, on)

    def records(self, port: int) -> list[Transfer]:
        """Return a port's bursts since `record`, in the order of their addresses."""
        count = self._api.penstock_records(self._handle, port, None, 0)
        room = np.zeros(count, dtype=RECORD)
        self._api.penstock_records(self._handle, port, room.ctypes.data, count)
        return [
            Transfer(cycle, "write" if write else "read", address, beats, digest)
            for cycle, address, digest, write, beats in room.tolist()
        ]

    # registers

    def write(self, name: str, value: int) -> None:
        """Write a register by name, both halves of a 64-bit one.

        Raises RegisterError on an error response.
        """
        register = self.register_map[name]
        if not 0 <= value < 1 << register.bits:
            raise ValueError(f"register {name}: {value!r} does not fit in {register.bits} bits")
        for half in range(register.bits // 32):
            self.write_word(register.offset + 4 * half, value >> 32 * half & 0xFFFFFFFF)

    def read(self, name: str) -> int:
        """Read a register by name, both halves of a 64-bit one."""
        register = self.register_map[name]
        return sum(
            self.read_word(register.offset + 4 * half) << 32 * half
            for half in range(register.bits // 32)
        )

    def write_word(self, address: int, value: int) -> None:
        """Write one 32-bit word of the register map."""
        self._answer(
            self._api.penstock_write_register(self._handle, address, value), "write to", address
        )

    def read_word(self, address: int) -> int:
        """Read one 32-bit word of the register map."""
        value = _U32()
        self._answer(
            self._api.penstock_read_register(self._handle, address, ctypes.byref(value)),
            "read of",
            address,
        )
        return value.value

    def _answer(self, response: int, what: str, address: int) -> None:
        if response:
            reason = {-1: "no answer", 2: "SLVERR", 3: "DECERR"}.get(response, str(response))
            raise RegisterError(f"{what} register {address:#x}: {reason}")

    # runs

    def run(
        self,
        registers: Mapping[str, int] | None = None,
        *,
        limit: int = 1_000_000_000,
        watchdog: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> RunReport:
        """Write the given registers, start, and run until the end or `limit` cycles.

        `progress` is called several times a second with the cycles simulated so far.

        Raises ProtocolError when the design broke a rule of the bus.
        """
        for name, value in (registers or {}).items():
            self.write(name, value)
        self.write("watchdog", watchdog)
        self.start()
        return self.resume(limit, progress)

    def start(self, changes: Sequence[tuple[int, int, bytes, int]] = ()) -> None:
        """Enable the interrupt and start a run; `resume` carries it on. Cycle 0 of the run is
        `written`. `changes`: cycle of the run, address, bytes and space of what changes in memory.
        """
        if self.read("identity") != IDENTITY or self.read("design") != self.register_map.design:
            raise RegisterError(
                "the design behind the registers is not the one of this register map"
            )
        self.write("interrupt", Interrupt.ENABLE | Interrupt.PENDING)
        for cycle, address, data, space in changes:
            # an address is taken in the first cycle of a write, its data in the second
            self.change(self.cycle + 1 + cycle, address, data, space)
        self._api.penstock_begin(self._handle)
        self.write("control", Control.START)

    def resume(self, limit: int, progress: Callable[[int], None] | None = None) -> RunReport:
        """Run until the end or for another `limit` cycles, and report."""
        simulated, piece, finished = 0, 1 << 14, False
        # in pieces, so that an interrupt from the keyboard is seen
        while simulated < limit and not finished:
            begin = perf_counter()
            simulated += self._api.penstock_run(self._handle, min(piece, limit - simulated))
            broken = [note for note in self.notes() if note.kind > Violation.OUTSIDE_WRITE]
            if broken:
                raise ProtocolError("; ".join(map(str, broken)))
            finished = bool(self._api.penstock_irq(self._handle))
            if perf_counter() - begin < 0.1:
                piece *= 2
            if progress is not None:
                progress(simulated)
        report = self._report(finished, simulated)
        if finished:
            self.write("interrupt", Interrupt.PENDING)
        return report

    def stop(self) -> None:
        """Soft reset: bring the bus to rest and the engine to its reset state. Raises RunError where a memory port is dead."""
        self.write("control", Control.RESET)
        for look in range(2000):
            status = Status(self.read("status"))
            if status & Status.DEAD:
                raise RunError(HardwareError(ErrorCode.DEAD_PORT))
            if status & Status.IDLE:
                return
            self.step(100 if look < 1000 else PATIENCE // 100)
        raise RegisterError("the shell does not come to rest after a soft reset")

    def step(self, cycles: int) -> None:
        """Run `cycles` cycles, or fewer if the interrupt is raised."""
        self._api.penstock_run(self._handle, cycles)

    def reset(self) -> None:
        """Hard reset of design and ports; memory keeps its content."""
        self._api.penstock_reset(self._handle)

    def bare_loop(self, cycles: int) -> float:
        """Clock the model `cycles` times with nothing attached; return the seconds: the denominator of the harness's overhead."""
        start = perf_counter()
        self._api.penstock_bare_loop(self._handle, cycles)
        return perf_counter() - start

    def _report(self, finished: bool, simulated: int) -> RunReport:
        status = Status(self.read("status"))
        error = None
        if status & Status.ERROR:
            places = [self.read(f"error_{name}") for name in ("code", "block", "line", "item")]
            error = self.register_map.failure(status, *places)
        counters = {c.name: self.read(f"count_{c.name}") for c in self.register_map.counters}
        return RunReport(
            finished, status, error, self.read("cycles"), simulated, counters, self.monitors()
        )

    def monitors(self) -> tuple[MonitorState, ...]:
        """The watched streams now, or at the end of the last run."""
        return MonitorState.all(self.register_map, self.read)

    # what was seen

    @property
    def cycle(self) -> int:
        """Clock cycles since the session's start."""
        return int(self._api.penstock_cycle(self._handle))

    @property
    def written(self) -> int:
        """The cycle in which the latest register was written."""
        return int(self._api.penstock_written(self._handle))

    def statistics(self) -> tuple[PortStatistics, ...]:
        """Traffic of every port."""
        values = (_U64 * 7)()
        result = []
        for k in range(len(self.library.ports)):
            self._api.penstock_statistics(self._handle, k, values)
            result.append(PortStatistics(*values))
        return tuple(result)

    def clear_statistics(self) -> None:
        """Begin all statistics anew and forget the notes."""
        self._api.penstock_clear_statistics(self._handle)

    def notes(self) -> list[Note]:
        """Out-of-window accesses and violations, the first 64 since `clear_statistics`."""
        room = (RawNote * 64)()
        count = self._api.penstock_notes(self._handle, room, 64)
        return [Note(n.port, Violation(n.kind), n.cycle, n.address) for n in room[:count]]

    def trace(self, path: str | Path, *, first: int = 0, cycles: int = 1 << 62) -> None:
        """Write the waves of cycles `first` to `first + cycles` of the session to a file, closed with the session.

        Raises ValueError unless the library was built with `trace`.
        """
        if not self.library.trace:
            raise ValueError("the library was built without `trace`")
        if self._api.penstock_trace(self._handle, str(path).encode(), first, first + cycles):
            raise OSError(f"cannot write waves to {path}")
