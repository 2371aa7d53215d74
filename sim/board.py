"""A whole device in simulation, from the pins of its serial port inwards: what the board would run, Verilated."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..hdl.modules import ModuleLibrary
from ..hdl.shell.verilog import to_verilog
from ..hdl.soc.soc import Soc
from ..models.link.timing import SIMULATED_DIVISOR
from .native.toolchain import BuildError, build_library
from .serial import SerialServer

__all__ = ["BAUD", "CLOCK_HZ", "MOST_BYTES", "Board", "build", "generate", "serve", "verilog"]

#: of the simulated device: made-up, but for their ratio, `SIMULATED_DIVISOR`: so few cycles a bit that little time is spent on the wire
CLOCK_HZ = 12_000_000
BAUD = CLOCK_HZ // SIMULATED_DIVISOR

#: of memory of a simulated device
MOST_BYTES = 2 << 20

#: cycles that pass in one exchange
_PIECE = 2_000
#: cycles without a byte after which a device at rest is not clocked any more
_QUIET = 20_000


def verilog(soc: Soc) -> str:
    """Return the Verilog of a device, top module `penstock`."""
    return to_verilog(soc, library=soc.library)


def generate(
    engine: Any, library: ModuleLibrary, *, memory_bytes: int, memory: str = "block RAM"
) -> str:
    """Return the Verilog of an engine's device, with `memory_bytes` of memory of that kind (as of `Soc`) and the simulation's serial line.

    Raises BuildError for more memory than `MOST_BYTES`: generating it takes some 700 bytes of this machine's memory for each.
    """
    if memory_bytes > MOST_BYTES:
        raise BuildError(
            f"a device in simulation has at most {MOST_BYTES >> 20} MB of {memory}, not {-(-memory_bytes >> 20)} MB"
        )
    return verilog(
        Soc(
            engine,
            engine.register_map,
            library=library,
            memory_bytes=memory_bytes,
            clock_hz=CLOCK_HZ,
            baud=BAUD,
            memory=memory,
        )
    )


def build(source: str) -> Path:
    """Compile a device's Verilog; return the library's path. Raises BuildError when a tool is missing or fails."""
    return build_library(source, (), harness="serial.cpp")


class Board:
    """A simulated device on a serial line, an endpoint of `sim.serial`.

    It is clocked while it is busy, while bytes pass and for a little while after, so that a device at rest takes no time.
    """

    def __init__(self, library: Path, divisor: int = SIMULATED_DIVISOR) -> None:
        self._api = ctypes.CDLL(str(library))
        u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
        for name, result, arguments in (
            ("open", pointer, [u32]),
            ("close", None, [pointer]),
            ("send", None, [pointer, ctypes.c_char_p, u32]),
            ("run", u32, [pointer, u64, pointer, u32]),
            ("cycle", u64, [pointer]),
            ("busy", ctypes.c_int, [pointer]),
            ("waiting", u32, [pointer]),
        ):
            function = getattr(self._api, f"penstock_board_{name}")
            function.restype, function.argtypes = result, arguments
        self._handle = self._api.penstock_board_open(divisor)
        self._room = ctypes.create_string_buffer(4096)
        self._last = 0  # cycle of the latest byte

    @property
    def cycle(self) -> int:
        """Cycles since the device was switched on."""
        return int(self._api.penstock_board_cycle(self._handle))

    @property
    def active(self) -> bool:
        return bool(
            self._api.penstock_board_busy(self._handle)
            or self._api.penstock_board_waiting(self._handle)
            or self.cycle - self._last < _QUIET
        )

    def exchange(self, data: bytes) -> bytes:
        if data:
            self._api.penstock_board_send(self._handle, data, len(data))
            self._last = self.cycle
        count = self._api.penstock_board_run(self._handle, _PIECE, self._room, len(self._room))
        if count:
            self._last = self.cycle
        return self._room.raw[:count]

    def close(self) -> None:
        """Switch it off; closing twice is fine."""
        if self._handle:
            self._api.penstock_board_close(self._handle)
            self._handle = None

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def serve(source: str) -> Iterator[str]:
    """Run a device from its Verilog behind a pseudo-terminal; give the path of that."""
    with Board(build(source)) as board, SerialServer(board) as server:
        yield server.path
