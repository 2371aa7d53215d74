"""A built design: the functions of its shared library, as the harness has them."""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...models.shell import RegisterMap
from .toolchain import BuildError, PortSpec, build_library, design_ports

#: g++'s levels: the first compiles quickest, the last ones run quickest
LEVELS = ("-O0", "-O1", "-O2", "-O3")
#: cycles that a library of -O0 has run before one of -O1 is compiled (svm on `small`, of so many lines
#: of Verilog: about 4 s longer to compile, 6 µs less a cycle); a longer design's cycles take longer
_BRIEF, _LINES = 400_000, 12_000

#: a burst as the harness records it
RECORD = np.dtype(
    [("cycle", "<u8"), ("address", "<u8"), ("digest", "<u8"), ("write", "<u4"), ("beats", "<u4")]
)


class RawNote(ctypes.Structure):
    _fields_ = [
        ("port", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("cycle", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
    ]


_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64
_INT, _PTR = ctypes.c_int, ctypes.c_void_p
_API = {
    "open": (_PTR, [_U64]),
    "close": (None, [_PTR]),
    "reset": (None, [_PTR]),
    "map": (None, [_PTR, _U64, _PTR, _U64, _INT, _U32]),
    "unmap": (None, [_PTR, _U64, _U32]),
    "timing": (None, [_PTR, _U32, _U64, _U64, _U32, _U32, _U64]),
    "fail": (None, [_PTR, _U32, _INT, _U64]),
    "write_register": (_INT, [_PTR, _U64, _U32]),
    "read_register": (_INT, [_PTR, _U64, ctypes.POINTER(_U32)]),
    "run": (_U64, [_PTR, _U64]),
    "irq": (_INT, [_PTR]),
    "cycle": (_U64, [_PTR]),
    "written": (_U64, [_PTR]),
    "statistics": (None, [_PTR, _U32, ctypes.POINTER(_U64)]),
    "dram": (None, [_PTR, _U32, _PTR]),
    "begin": (None, [_PTR]),
    "clear_statistics": (None, [_PTR]),
    "notes": (_U32, [_PTR, ctypes.POINTER(RawNote), _U32]),
    "bare_loop": (None, [_PTR, _U64]),
    "trace": (_INT, [_PTR, ctypes.c_char_p, _U64, _U64]),
    "record": (None, [_PTR, _U32, _INT]),
    "records": (_U64, [_PTR, _U32, _PTR, _U64]),
    "feed": (None, [_PTR, ctypes.POINTER(_U64), _U32, _PTR]),
    "arrivals": (_U64, [_PTR, ctypes.POINTER(_U64), _U64]),
    "change": (None, [_PTR, _U32, _U64, _U64, ctypes.c_char_p, _U64]),
}


@dataclass(frozen=True)
class Library:
    """A built design. Any number of sessions may run on it."""

    path: Path
    ports: tuple[PortSpec, ...]
    register_map: RegisterMap
    trace: str = ""  #: format of waves that it can write, if any

    def load(self) -> ctypes.CDLL:
        """The shared library, its functions typed."""
        library = ctypes.CDLL(str(self.path))
        for name, (result, arguments) in _API.items():
            function = getattr(library, f"penstock_{name}")
            function.restype, function.argtypes = result, arguments
        if self.register_map.vault:  # others' libraries have no such function
            library.penstock_vault.restype = None
            library.penstock_vault.argtypes = [_PTR, ctypes.POINTER(_U32)]
        return library


def level(cycles: int | None = None, lines: int = _LINES) -> str:
    """Return g++'s level for a library of so many lines that is to run so many cycles, `$PENSTOCK_OPTIMISE` where that is set.

    Raises BuildError where it is none.
    """
    chosen = os.environ.get("PENSTOCK_OPTIMISE")
    if not chosen:
        return "-O1" if cycles is None or cycles * lines > _BRIEF * _LINES else "-O0"
    if chosen not in LEVELS:
        raise BuildError(f"PENSTOCK_OPTIMISE is {chosen!r}, not one of {', '.join(LEVELS)}")
    return chosen


def build(
    design: Any,
    *,
    ports: Sequence[PortSpec] | None = None,
    register_map: RegisterMap | None = None,
    trace: str = "",
    random: bool = False,
    optimise: str | None = None,
) -> Library:
    """Compile a design for simulation.

    * `design`: a `hdl.shell.Shell`, or the Verilog of one (top module `penstock`) together with `ports` and
      `register_map`.
    * `trace`: make it able to write waves: "fst" or "vcd" (`wave_format`).
    * `random`: see `build_library`.
    * `optimise`: g++'s level, one of `LEVELS`; None: that of `level`.

    Raises BuildError when a tool is missing or fails.
    """
    if isinstance(design, str):
        if ports is None or register_map is None:
            raise TypeError("Verilog text needs its ports and its register map")
        source = design
    else:
        from ...hdl.shell.verilog import to_verilog

        source, ports, register_map = to_verilog(design), design_ports(design), design.register_map
    return Library(
        build_library(
            source,
            ports,
            trace=trace,
            random=random,
            optimise=optimise or level(),
            vault=register_map.vault,
        ),
        tuple(ports),
        register_map,
        trace,
    )
