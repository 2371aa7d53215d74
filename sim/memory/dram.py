"""The DRAM of `models.memory.dram`, quickly: the same cycles from C++ (`dram.hpp`), which g++ compiles once."""

import ctypes
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...models.memory import Memory
from ...models.memory.dram.memory import Dram
from ...models.memory.dram.timing import Timing
from ..native.toolchain import BuildError, build_plain
from .parameters import parameters

_HERE = Path(__file__).parent
#: commands that a controller issues, in the order of `dram::Command`
_COMMANDS = ("ACT", "PRE", "PREA", "RD", "WR", "REFab")
_I64, _U64 = ctypes.c_int64, ctypes.c_uint64
_U32, _PTR = ctypes.c_uint32, ctypes.c_void_p


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build_plain("dram", _HERE / "dram.cpp", _HERE / "dram.hpp")))
    for name, result, arguments in (
        ("open", _PTR, [_PTR]),
        ("close", None, [_PTR]),
        ("read", None, [_PTR, _I64, _U64, _U32, _U32, _PTR]),
        ("write", _I64, [_PTR, _I64, _U64, _U32, _U32]),
        ("commands", None, [_PTR, _PTR]),
        ("serve", _U64, [_PTR, _U64, _PTR, _PTR, _PTR, _PTR]),
    ):
        function = getattr(library, f"penstock_dram_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class FastChannel:
    """A `models.memory.dram.memory.Channel` that C++ carries out. Raises BuildError where there is no g++."""

    def __init__(self, memory: Dram) -> None:
        self._api = _library()
        held = parameters(memory)
        self._handle = self._api.penstock_dram_open(held.ctypes.data)
        self._ready = np.zeros(256, dtype=np.int64)  # the most beats of a burst

    def read(self, ar: int, address: int, beats: int, bus_bytes: int) -> list[int]:
        ready = self._ready
        self._api.penstock_dram_read(self._handle, ar, address, beats, bus_bytes, ready.ctypes.data)
        return ready[:beats].tolist()

    def write(self, last: int, address: int, beats: int, bus_bytes: int) -> int:
        return int(self._api.penstock_dram_write(self._handle, last, address, beats, bus_bytes))

    def commands(self) -> dict[str, int]:
        count = np.zeros(len(_COMMANDS), dtype=np.uint64)
        self._api.penstock_dram_commands(self._handle, count.ctypes.data)
        return {name: int(n) for name, n in zip(_COMMANDS, count, strict=True) if n}

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._api.penstock_dram_close(self._handle)
            self._handle = None


def fast(memory: Memory) -> Memory:
    """Return memory with the same timing whose channels C++ carries out; of memory that is no DRAM, or without g++, `memory` itself."""
    if not isinstance(memory, Dram):
        return memory
    try:
        _library()
    except BuildError:  # without g++ the specification answers, slowly
        return memory
    return replace(memory, make=FastChannel)


def serve(
    timing: Timing,
    writes: NDArray[np.bool_],
    arrivals: NDArray[np.int64],
    bursts: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], int]:
    """Return the DRAM cycle of each request's column command, as `models.memory.dram.controller.Controller.serve` of a fresh controller, and how many
    refreshes went between them.

    Parameters, of requests in order, arrays of one length: `writes`: which of them write; `arrivals`: DRAM cycles of their arrival, never falling;
    `bursts`: numbers of their bursts. Raises BuildError where there is no g++.
    """
    requests = (
        np.ascontiguousarray(writes, dtype=np.uint8),
        np.ascontiguousarray(arrivals, dtype=np.int64),
        np.ascontiguousarray(bursts, dtype=np.uint64),
    )
    if not len(writes) == len(arrivals) == len(bursts):
        raise ValueError("writes, arrivals and bursts are of one length")
    cycles, device = np.zeros(len(writes), dtype=np.int64), parameters(Dram(timing))
    pointers = (array.ctypes.data for array in (*requests, cycles))
    refreshes = _library().penstock_dram_serve(device.ctypes.data, len(cycles), *pointers)
    return cycles, int(refreshes)
