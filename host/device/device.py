"""A device that can be talked to: registers by name, memory, runs. The same for a board and for one in simulation."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from ...models.errors import ErrorCode, HardwareError, RunError
from ...models.link.frames import Space
from ...models.shell import IDENTITY, VERSION, Control, Interrupt, RegisterMap, Status
from ...sim.machine import Closing
from ...sim.native import MonitorState
from .errors import DeviceError, LinkError, NotOver, Unfit
from .transport import Connect, Pushing, Refused, Statistics, Transport

#: seconds between looks at a run: the first, and the longest
_FIRST_LOOK, _LOOK = 0.001, 0.05


@dataclass(frozen=True)
class Report:
    """How a run went."""

    status: Status
    error: HardwareError | None
    cycles: int  #: the hardware's own count
    counters: Mapping[str, int]  #: the hardware's own counts


class Device(Closing):
    """A connected device. `penstock.open` makes one.

    All calls return when they are done, and raise LinkError where the device cannot be reached: at the latest `timeout` seconds after it fell
    silent. Afterwards `reopen` connects again. Calls from several threads are done one after the other; `close` ends those under way with LinkError.
    A call that is interrupted (Ctrl-C) sends nothing more, and the device may be used on.

    Attributes:

    * `path`: where it is; what `connect` is called with.
    * `identity`: sizes and clock, as the device says.
    * `register_map`: of its design; the common block alone where no design is known.
    """

    def __init__(
        self,
        path: str,
        connect: Connect,
        *,
        register_map: RegisterMap | None = None,
        resources: ExitStack | None = None,
    ) -> None:
        self.path, self._connect = path, connect
        self.register_map = register_map or RegisterMap()
        self._known = register_map is not None
        self._resources = resources or ExitStack()
        self._gate = threading.Lock()  # between a connection that begins and the end
        self._closed = False
        self._transport: Transport | None = None
        try:
            self.reopen()
        except BaseException:
            self.close()
            raise

    # connection

    def reopen(self) -> None:
        """Connect again, after a failure or just so. Raises LinkError, and DeviceError where the device is another one than the design's."""
        self._hang_up()
        if self._closed:
            raise LinkError(f"{self.path} is closed")
        transport = self._connect(self.path)
        with self._gate:
            self._transport = transport
        try:
            if self._closed:
                raise LinkError(f"{self.path} is closed")
            self._meet()
        except DeviceError:
            self._hang_up()
            raise
        self.identity = transport.identity

    def _meet(self) -> None:
        """Look who answers."""
        shown = {name: self.read_register(name) for name in ("identity", "version", "design")}
        if shown["identity"] != IDENTITY or shown["version"] >> 16 != VERSION >> 16:
            raise DeviceError(
                f"{self.path}: there is a link, but no engine of a version this driver knows",
                "the board was built by another version of Penstock: build and program it again",
            )
        if self._known and shown["design"] != self.register_map.design:
            raise DeviceError(
                f"{self.path}: the device runs design {shown['design']:08x}, not {self.register_map.design:08x}"
            )
        self.design = shown["design"]

    def _hang_up(self) -> None:
        with self._gate:
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    @property
    def _line(self) -> Transport:
        transport = self._transport
        if transport is None:
            raise LinkError(f"{self.path} is {'closed' if self._closed else 'not open'}")
        return transport

    @property
    def statistics(self) -> Statistics:
        """What happened on the line since it was opened."""
        return self._line.statistics

    def close(self) -> None:
        """Disconnect for good; closing twice is fine."""
        with self._gate:
            first, self._closed = not self._closed, True
        if first:
            self._hang_up()
            self._resources.close()

    # memory and registers

    def read(self, address: int, length: int) -> bytes:
        """Read memory. Raises DeviceError outside of it."""
        address, length = index(address), index(length)
        self._inside(address, length)
        with self.asked(f"read of memory at {address:#x}"):
            return self._line.read(Space.MEMORY, address, length)

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Write memory. Raises DeviceError outside of it."""
        if isinstance(data, int):  # bytes(5) are five zeros
            raise TypeError(f"memory is written with bytes, not with the number {data}")
        address, content = (
            index(address),
            bytes(data)
            if not isinstance(data, np.ndarray)
            else np.ascontiguousarray(data).tobytes(),
        )
        self._inside(address, len(content))
        with self.asked(f"write to memory at {address:#x}"):
            self._line.write(Space.MEMORY, address, content)

    def _inside(self, address: int, length: int) -> None:
        if address < 0 or length < 0 or address + length > self.identity.memory_bytes:
            raise DeviceError(
                f"{length} bytes from {address:#x} on are not in the device's {self.identity.memory_bytes} bytes of memory"
            )

    def read_register(self, name: str) -> int:
        """Read a register by name, both halves of a 64-bit one."""
        register = self._register(name)
        with self.asked(f"read of register {name}"):
            data = self._line.read(Space.REGISTERS, register.offset, register.bits // 8)
        return int.from_bytes(data, "little")

    def write_register(self, name: str, value: int) -> None:
        """Write a register by name, both halves of a 64-bit one; done once, whatever happens on the line."""
        register, value = self._register(name), index(value)
        if not 0 <= value < 1 << register.bits:
            raise Unfit(f"register {name}: {value!r} does not fit in {register.bits} bits")
        with self.asked(f"write to register {name}"):
            data = value.to_bytes(register.bits // 8, "little")
            self._line.write(Space.REGISTERS, register.offset, data)

    def _register(self, name: str) -> Any:
        try:
            return self.register_map[name]
        except KeyError:
            raise DeviceError(f"the design has no register {name!r}") from None

    @property
    def pushing(self) -> Pushing | None:
        """The connection, where pages may be pushed over it."""
        return self._line if isinstance(self._line, Pushing) else None

    @contextmanager
    def asked(self, what: str) -> Iterator[None]:
        """Have the device's refusal of `what` raised as a DeviceError."""
        try:
            yield
        except Refused as problem:
            message = f"{self.path}: {what} was answered with {problem.answer.name}"
            raise DeviceError(message) from None

    # runs

    def start(self, registers: Mapping[str, int] | None = None, *, watchdog: int = 0) -> None:
        """Write registers and start a run. Raises Unfit (E835) where a register's value is not legal, and writes nothing then."""
        values = dict(registers or {})
        held = {
            r.name: self.read_register(r.name)
            for r in self.register_map.engine
            if r.name not in values
        }
        if fault := self.register_map.illegal(held | values):
            raise Unfit(f"register {fault.detail}", fault.hint, code=fault.code.page)
        for name, value in values.items():
            self.write_register(name, value)
        self.write_register("watchdog", watchdog)
        self.write_register("interrupt", Interrupt.ENABLE | Interrupt.PENDING)
        self.write_register("control", Control.START)

    def wait(
        self, limit: float | None = None, progress: Callable[[int], None] | None = None
    ) -> Report:
        """Wait for the end of a run, by looking at the pending interrupt now and then.

        Parameters: `limit`: seconds; `progress`: called at each look with the cycles so far.

        Raises NotOver, a TimeoutError, when the run is not over after `limit` seconds; it goes on, and `wait` may be called again.
        """
        begin, pause = time.monotonic(), _FIRST_LOOK
        while not self.read_register("interrupt") & Interrupt.PENDING:
            if limit is not None and time.monotonic() - begin > limit:
                raise NotOver(f"{self.path}: the run is not over after {limit:g} s")
            if progress is not None:
                progress(self.read_register("cycles"))
            time.sleep(pause)
            pause = min(2 * pause, _LOOK)
        self.write_register("interrupt", Interrupt.PENDING)
        return self.report()

    def run(
        self,
        registers: Mapping[str, int] | None = None,
        *,
        watchdog: int = 0,
        limit: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Report:
        """`start`, then `wait`."""
        self.start(registers, watchdog=watchdog)
        return self.wait(limit, progress)

    def stop(self) -> None:
        """Soft reset: bring the bus to rest and the engine to its reset state. Raises RunError where a memory port is dead."""
        self.write_register("control", Control.RESET)
        deadline = time.monotonic() + self._line.timeout
        while not (status := Status(self.read_register("status"))) & Status.IDLE:
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"{self.path}: the engine does not come to rest after a soft reset"
                )
        if status & Status.DEAD:
            raise RunError(HardwareError(ErrorCode.DEAD_PORT))

    def report(self) -> Report:
        """Return how the last run went, or stands."""
        status = Status(self.read_register("status"))
        error = None
        if status & Status.ERROR:
            names = ("code", "block", "line", "item")
            code, *places = [self.read_register(f"error_{name}") for name in names]
            try:
                error = self.register_map.failure(status, code, *places)
            except ValueError:
                raise DeviceError(
                    f"{self.path}: the engine stopped with an error that this driver does not know: {code}",
                    "the board was built by another version of Penstock: build and program it again",
                ) from None
        return Report(status, error, self.read_register("cycles"), self.counters())

    def counters(self) -> dict[str, int]:
        """The event counters of the last run."""
        return {c.name: self.read_register(f"count_{c.name}") for c in self.register_map.counters}

    def monitors(self) -> tuple[MonitorState, ...]:
        """The watched streams now, or at the end of the last run."""
        return MonitorState.all(self.register_map, self.read_register)
