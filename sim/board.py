"""A whole device in simulation, from the pins of its serial port inwards: what the board would run, Verilated."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring

from ..hdl.memory import SdramController, SdramPins
from ..hdl.modules import ModuleLibrary
from ..hdl.shell.verilog import to_verilog
from ..hdl.soc.soc import Soc
from ..models.link.ethernet import Station
from ..models.link.timing import SIMULATED_DIVISOR
from ..models.memory.sdram import Chip, SdramError
from .machine import Closing
from .native.toolchain import BuildError, build_library
from .serial import SerialServer

#: of the simulated device: made-up, but for their ratio, `SIMULATED_DIVISOR`: so few cycles a bit that little time is spent on the wire
CLOCK_HZ = 12_000_000
BAUD = CLOCK_HZ // SIMULATED_DIVISOR

#: of memory of a simulated device
MOST_BYTES = 2 << 20

#: cycles that pass in one exchange
_PIECE = 2_000
#: cycles without a byte after which a device at rest is not clocked any more
_QUIET = 20_000


def verilog(soc: Any) -> str:
    """Return the Verilog of a device, top module `penstock`."""
    return to_verilog(soc, library=soc.library)


def generate(
    engine: Any,
    library: ModuleLibrary,
    *,
    memory_bytes: int,
    memory: str = "block RAM",
    clock_hz: int = CLOCK_HZ,
    baud: int | None = BAUD,
    station: Station | None = None,
    around: Callable[[Soc], Any] = lambda soc: soc,
) -> str:
    """Return the Verilog of an engine's device, with `memory_bytes` of memory of that kind (as of `Soc`) and the simulation's serial line; `baud` None:
    with datagrams (`Datagrams`) in place of it, on Ethernet where it is a station; `clock_hz`: what it says of its clock; `around`: makes the top of it.

    Raises BuildError for more memory than `MOST_BYTES`: generating it takes some 700 bytes of this machine's memory for each.
    """
    if memory_bytes > MOST_BYTES:
        raise BuildError(
            f"a device in simulation has at most {MOST_BYTES >> 20} MB of {memory}, not {-(-memory_bytes >> 20)} MB"
        )
    soc = Soc(
        engine,
        engine.register_map,
        library=library,
        memory_bytes=memory_bytes,
        clock_hz=clock_hz,
        baud=baud,
        station=station,
        memory=memory,
    )
    return verilog(around(soc))


class _WithSdram(wiring.Component):
    """A device with the board's controller of SDRAM, whose pins are `sd_…`."""

    def __init__(self, soc: Any, chip: Chip, clock_hz: int) -> None:
        self.soc = soc
        self.controller = SdramController(soc.port, clock_hz=clock_hz, chip=chip)
        self.members = SdramPins(chip).members
        pins = {f"sd_{name}": member for name, member in self.members.items()}
        super().__init__(
            {"rx": wiring.In(1, init=1), "tx": wiring.Out(1), "busy": wiring.Out(1), **pins}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.soc = soc = self.soc
        m.submodules.sdram = sdram = self.controller
        wiring.connect(m, soc.memory, sdram.bus)
        m.d.comb += [soc.rx.eq(self.rx), self.tx.eq(soc.tx), self.busy.eq(soc.busy)]
        for name, member in self.members.items():
            outer, inner = getattr(self, f"sd_{name}"), getattr(sdram.pins, name)
            m.d.comb += outer.eq(inner) if member.flow is wiring.Out else inner.eq(outer)
        return m


def generate_with_sdram(engine: Any, library: ModuleLibrary, *, chip: Chip, clock_hz: int) -> str:
    """Return the Verilog of an engine's device with its memory in a chip of SDRAM, at the board's clock."""
    soc = Soc(
        engine,
        engine.register_map,
        library=library,
        memory_bytes=chip.bytes,
        clock_hz=clock_hz,
        baud=clock_hz // SIMULATED_DIVISOR,
        memory="SDRAM",
    )
    return to_verilog(_WithSdram(soc, chip, clock_hz), library=library)


def build(source: str) -> Path:
    """Compile a device's Verilog; return the library's path. Raises BuildError when a tool is missing or fails."""
    return build_library(source, (), harness="serial.cpp")


_U32, _U64, _POINTER = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
#: a function's name, result and arguments, as `ctypes` has them
_Function = tuple[str, Any, Sequence[Any]]
#: those of all devices
_FUNCTIONS: tuple[_Function, ...] = (
    ("close", None, [_POINTER]),
    ("send", None, [_POINTER, ctypes.c_char_p, _U32]),
    ("cycle", _U64, [_POINTER]),
    ("busy", ctypes.c_int, [_POINTER]),
    ("waiting", _U32, [_POINTER]),
)


class _Clocked(Closing):
    """A device's library, and the device that is clocked in it. `functions`: what the library has beside those of all devices."""

    def __init__(self, library: Path, functions: Sequence[_Function], *switches: int) -> None:
        self._api = ctypes.CDLL(str(library))
        self._last = 0  # cycle of the latest byte or datagram
        for name, result, arguments in (*_FUNCTIONS, *functions):
            function = getattr(self._api, f"penstock_board_{name}")
            function.restype, function.argtypes = result, arguments
        self._handle = self._api.penstock_board_open(*switches)

    @property
    def cycle(self) -> int:
        """Cycles since the device was switched on."""
        return int(self._api.penstock_board_cycle(self._handle))

    @property
    def active(self) -> bool:
        """Whether something is under way."""
        return bool(
            self._api.penstock_board_busy(self._handle)
            or self._api.penstock_board_waiting(self._handle)
            or self.cycle - self._last < _QUIET
        )

    def close(self) -> None:
        """Switch it off; closing twice is fine."""
        if self._handle:
            self._api.penstock_board_close(self._handle)
            self._handle = None


class Board(_Clocked):
    """A simulated device on a serial line, an endpoint of `sim.serial`.

    It is clocked while it is busy, while bytes pass and for a little while after, so that a device at rest takes no time.

    Parameters: `sdram`: a chip on its pins, and the clock at which that has its rules; None without one. The chip's memory
    takes what was written. A rule that is broken is an SdramError.
    """

    def __init__(
        self,
        library: Path,
        divisor: int = SIMULATED_DIVISOR,
        *,
        sdram: tuple[Chip, int] | None = None,
    ) -> None:
        functions = (
            ("open", _POINTER, [_U32]),
            ("run", _U32, [_POINTER, _U64, _POINTER, _U32]),
            ("chip", None, [_POINTER, _POINTER]),
            ("broken", ctypes.c_char_p, [_POINTER]),
            ("held", _U64, [_POINTER]),
        )
        super().__init__(library, functions, divisor)
        if sdram is not None:
            chip, times = sdram[0], sdram[0].cycles(sdram[1])
            rules = [
                *(times.rcd, times.rp, times.ras, times.rc, times.rfc, times.wr, times.mrd),
                *(times.interval, times.power_up, times.latency),
                *(chip.column_bits, chip.bank_bits, chip.width),
            ]
            held = np.array(rules, dtype=np.int64)
            self._api.penstock_board_chip(self._handle, held.ctypes.data)
        self._room = ctypes.create_string_buffer(4096)

    @property
    def held(self) -> int:
        """Bytes of this machine's memory that the chip's content takes."""
        return int(self._api.penstock_board_held(self._handle))

    def exchange(self, data: bytes, cycles: int = _PIECE) -> bytes:
        """Give the device bytes, let so many cycles pass, and return what it has sent in them."""
        if data:
            self._api.penstock_board_send(self._handle, data, len(data))
            self._last = self.cycle
        count = self._api.penstock_board_run(self._handle, cycles, self._room, len(self._room))
        if count:
            self._last = self.cycle
        if broken := self._api.penstock_board_broken(self._handle):
            raise SdramError(broken.decode())
        return self._room.raw[:count]


class Datagrams(_Clocked):
    """A simulated device behind datagrams. Its clock runs while it is busy, and while a datagram is on its way."""

    def __init__(self, source: str) -> None:
        functions: tuple[_Function, ...] = (
            ("open", _POINTER, []),
            ("run", _U32, [_POINTER, _U64, _POINTER, _U32, _POINTER]),
            ("tick", None, [_POINTER]),
            ("ready", _U64, [_POINTER, _POINTER, _U64]),
        )
        super().__init__(build_library(source, (), harness="datagrams.cpp"), functions)
        self._room, self._count = ctypes.create_string_buffer(2048), _U32(0)

    def send(self, datagram: bytes) -> None:
        """Give the device a datagram."""
        self._api.penstock_board_send(self._handle, datagram, len(datagram))
        self._last = self.cycle

    def run(self, cycles: int | None = None) -> bytes:
        """Let so many cycles pass, or a little time; return the first datagram of the device that ends meanwhile, at once, or b""."""
        size = self._api.penstock_board_run(
            self._handle, cycles or _PIECE, self._room, len(self._room), ctypes.byref(self._count)
        )
        if size:
            self._last = self.cycle
        return self._room.raw[:size]

    def ready(self, count: int) -> list[int]:
        """Return in which cycles of the latest run the first pages were ready, `count` at most; [] where the design has no pins `start` and `ready`
        that tell."""
        room = (_U64 * count)()
        return list(room[: self._api.penstock_board_ready(self._handle, room, count)])

    def tick(self) -> None:
        """Tell the device that a second is over, and let a little time pass."""
        self._api.penstock_board_tick(self._handle)
        self.run()


@contextmanager
def serve(source: str, sdram: tuple[Chip, int] | None = None) -> Iterator[str]:
    """Run a device from its Verilog behind a pseudo-terminal; give the path of that. `sdram`: as of `Board`."""
    with Board(build(source), sdram=sdram) as board, SerialServer(board) as server:
        yield server.path
