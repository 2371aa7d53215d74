"""Projects for a vendor's tools: Verilog, pins, and a Tcl script that makes the IP and the bitstream. Nothing here is placed by Penstock.

The texts are templates in `projects`. Pins: Digilent's Arty A7 reference manual; AMD UG917 (KCU105); AMD UG1468 and DS978, and AMD's XDC file (Alveo U55C).
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..models.target import Target

FILES = ("penstock.v", "top.v", "board.xdc", "build.tcl")
_TEMPLATES = Path(__file__).with_name("projects")


def project(
    board: Target, hardware: Callable[[], tuple[Any, Any]], spaces: Sequence[int]
) -> dict[str, bytes]:
    """Return the files of the board's project. `hardware`: makes the engine, not elaborated yet, and the library of its modules; `spaces`: the address space
    of each of its memory ports.

    Raises LookupError for boards without one.
    """
    companions = texts(board, spaces)
    windows = [(board.memory.begin(s), board.memory.channel_bytes) if s else None for s in spaces]
    uart = board.link.kind == "uart"
    engine = _soc(board, *hardware()) if uart else _shell(*hardware(), windows)
    return {name: {"penstock.v": engine, **companions}[name].encode() for name in FILES}


def texts(board: Target, spaces: Sequence[int]) -> dict[str, str]:
    """Return the files beside the engine's Verilog; `spaces`: as of `project`. Raises LookupError for boards without one."""
    pins = _TEMPLATES / f"{board.name}.xdc"
    if not pins.is_file():
        raise LookupError(f"there is no project for {board.name}")
    kind = "serial" if board.link.kind == "uart" else "shell"
    clock = f"clk{board.pins.oscillator_mhz:g}"
    pair = f"{clock}_p" in pins.read_text()  # of pins, not a single one
    context = {"board": board, "kind": kind, "clock": clock, "pair": pair}
    context |= {"ports": len(spaces), **_banks(board, spaces)}
    files = {"top.v": f"{kind}.v", "board.xdc": pins.name, "build.tcl": "build.tcl"}
    return {name: _templates().get_template(file).render(context) for name, file in files.items()}


def _banks(board: Target, spaces: Sequence[int]) -> dict[str, Any]:
    """Return the memory's own port for each port of the engine, that of its channel where it has one, and the host's: the next one, or that of the last
    port without a channel of its own, which shares it."""
    channels, alone = board.memory.channels, spaces.count(0)
    free = count()
    banks = [channels - space if space else next(free) for space in spaces]
    full = 0 < channels == len(spaces)
    shared = max(k for k, space in enumerate(spaces) if not space) if full else -1
    return {"banks": banks, "host": banks[shared] if full else alone, "shared": shared}


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _soc(board: Target, engine: Any, library: Any) -> str:
    from ..hdl.shell.verilog import to_verilog
    from ..hdl.soc.soc import Soc

    soc = Soc(
        engine,
        engine.register_map,
        library=library,
        memory_bytes=board.memory.bytes,
        clock_hz=round(board.clock_mhz * 1e6),
        baud=board.link.baud,
    )
    return to_verilog(soc, library=library)


def _shell(engine: Any, library: Any, windows: Sequence[tuple[int, int] | None]) -> str:
    from ..hdl.shell.top import shelled

    return shelled(engine, library, windows)
