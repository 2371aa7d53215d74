"""A plan on a board: the SoC elaborated for it, built with several seeds, kept by digest."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from inspect import getsource
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..models.link.ethernet import Station
from ..models.memory.blockram import SPRAM_WORDS
from ..models.resources import Resources
from ..models.target import Target
from ..sim.native.store import alone, publish, text_of
from ..sim.staging import staging
from . import flow as steps
from .board import make_platform
from .flow import FLOWS, NAME, Endless, Sources, Unfit, place, synthesise
from .pll import Setting
from .tools import Overdue, tool_versions

if TYPE_CHECKING:
    from ..hdl.modules import ModuleLibrary


class Misdescribed(Exception):
    """A board's description names a platform, a clock or pins that there are not."""


class Slow(Exception):
    """No seed met a clock, the design's (`of_design`) or its link's: `clock_mhz` was asked for, `fmax_mhz` is the best, on `path`, `advice` shortens it."""

    def __init__(
        self, clock_mhz: float, fmax_mhz: float, path: str, advice: str, of_design: bool = True
    ) -> None:
        super().__init__(f"{fmax_mhz:.1f} MHz of {clock_mhz:g} MHz")
        self.clock_mhz, self.fmax_mhz = clock_mhz, fmax_mhz
        self.path, self.advice, self.of_design = path, advice, of_design


@dataclass(frozen=True)
class Build:
    """A bitstream and what is known of it."""

    board: str
    clock_mhz: float
    fmax_mhz: float | None
    path: str
    advice: str
    seed: int
    resources: Resources
    runs: tuple[tuple[int, float | None, float], ...]  #: seed, Fmax and seconds of every seed tried
    seconds: float
    cells: dict[str, int]  #: cells of the netlist, by type
    versions: dict[str, str]
    digest: str
    files: dict[str, bytes]  #: the bitstream, and the netlist as Verilog

    def report(self) -> dict[str, Any]:
        """Return what the build's JSON says; the same for the same inputs (no times)."""
        return {
            "board": self.board,
            "clock_mhz": self.clock_mhz,
            "fmax_mhz": self.fmax_mhz,
            "critical_path": self.path,
            "next_step": self.advice,
            "seed": self.seed,
            "resources": {
                **asdict(self.resources),
                "fmax_mhz": self.fmax_mhz,
                "source": "placed",
                "seed": self.seed,
            },
            "seeds": [{"seed": seed, "fmax_mhz": fmax} for seed, fmax, _ in self.runs],
            "cells": self.cells,
            "tools": self.versions,
            "digest": self.digest,
            "sha256": {
                name: hashlib.sha256(data).hexdigest() for name, data in sorted(self.files.items())
            },
        }


def elaborate(
    engine: Callable[[], tuple[Any, ModuleLibrary]],
    board: Target,
    *,
    setting: Setting | None,
    station: Station | None = None,
) -> Sources:
    """Return the RTLIL of an engine's SoC on the board, and the constraints; no path of the machine is in them.

    `engine`: makes the engine, and the library of its modules; `station`: its addresses, where the board's link is UDP.

    Raises tools.ToolMissing; Misdescribed where the board's own description is at fault; flow.Unfit where its memory has too few words of the engine's port.
    """
    from amaranth.build import ResourceError

    from ..hdl.soc.soc import Soc
    from .top import BoardTop

    try:  # before any hardware is made in vain
        platform = make_platform(board)
        platform.lookup(board.pins.clock)
        if board.link.kind == "udp":
            platform.lookup(board.pins.rgmii, 0)
        elif board.pins.uart_pins is None:
            platform.lookup(board.pins.uart, 0)
    except (ImportError, AttributeError, TypeError, ValueError, ResourceError) as problem:
        raise Misdescribed(f"platform {board.pins.platform}: {problem}") from problem
    made_engine, library = engine()
    clock_mhz = setting.output_mhz if setting is not None else board.pins.oscillator_mhz
    soc = Soc(
        made_engine,
        made_engine.register_map,
        library=library,
        memory_bytes=board.memory.bytes,
        clock_hz=round(clock_mhz * 1e6),
        baud=board.link.baud if station is None else None,
        station=station,
        memory=board.memory.kind,
    )
    word, has = soc.port.data_bytes, board.memory.bytes
    if board.memory.kind == "SPRAM" and (needs := SPRAM_WORDS * word) > has:
        raise Unfit(f"bytes of SPRAM for words of {word} bytes", needs, has)
    plan = platform.prepare(BoardTop(board, soc, setting), NAME, emit_src=False)
    suffix = FLOWS[board.family].constraints
    text = {
        name: data.decode() if isinstance(data, bytes) else data
        for name, data in plan.files.items()
    }
    constraints = "\n".join(
        line
        for line in text[f"{NAME}.{suffix}"].splitlines()
        if "utomatically generated" not in line
    )
    return Sources("\n".join([*library.synthesis_texts, text[f"{NAME}.il"]]), constraints + "\n")


def _digest(
    sources: Sources,
    board: Target,
    clock_mhz: float,
    seeds: Sequence[int],
    versions: Mapping[str, str],
) -> str:
    """Return the digest of all that a build is made of: the steps' own text has the options of every tool."""
    text = [
        sources.rtlil,
        sources.constraints,
        board.name,
        board.device.tool,
        board.pins.package,
        board.pins.speed,
        clock_mhz,
        list(seeds),
        dict(versions),
        getsource(steps),
    ]
    return hashlib.sha256(json.dumps(text).encode()).hexdigest()


def build(
    sources: Sources,
    board: Target,
    *,
    clock_mhz: float,
    seeds: Sequence[int] = (1,),
    jobs: int = 1,
    cache: Path | None = None,
    limit: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Build:
    """Make a bitstream; the best of the seeds is taken (the highest Fmax; among equal ones the first).

    Parameters: `jobs`: placements at a time; `cache`: folder that keeps finished builds by the digest of their inputs; where another process
    builds the same, its build is waited for; `limit`: seconds after which the tools are ended; `progress`: gets the placers' lines.

    Raises tools.ToolMissing, tools.ToolError, flow.Unfit, flow.Endless; Slow where no seed meets `clock_mhz`.
    """
    begin = perf_counter()
    versions = tool_versions(FLOWS[board.family].tools)
    digest = _digest(sources, board, clock_mhz, seeds, versions)
    left = lambda: None if limit is None else limit - (perf_counter() - begin)
    tries = _Tries(clock_mhz, seeds, jobs, limit, left, progress)
    make = lambda: _build(sources, board, tries, versions, digest)
    if cache is None:
        return make()
    kept = cache / f"board-{digest[:32]}"
    if (copy := _kept(kept)) is not None:
        return copy
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    with alone(kept, limit):
        design = _kept(kept)  # another process may have made it meanwhile
        if design is None:
            design = make()
            _keep(kept, design)
    return design


class _Tries(NamedTuple):
    """Placements of a build, as `build` has them; `left`: what is left of the limit."""

    clock_mhz: float
    seeds: Sequence[int]
    jobs: int
    limit: float | None
    left: Callable[[], float | None]
    progress: Callable[[str], None] | None


def _build(
    sources: Sources, board: Target, tries: _Tries, versions: dict[str, str], digest: str
) -> Build:
    clock_mhz, seeds, jobs = tries[:3]
    limit, left, progress = tries[3:]
    begin, flow = perf_counter(), FLOWS[board.family]
    with staging() as folder:
        try:
            cells = synthesise(board, sources, folder, left())
        except Overdue as problem:
            raise Endless(problem.tool, (limit or 0.0) / 60, problem.line) from None
        placed = place(board, folder, cells, clock_mhz, seeds, jobs, progress, left())
        best = max(placed, key=lambda p: (p.timing.share, -p.seed))
        fmax, path, advice = best.timing.fmax_mhz, best.timing.path, best.timing.advice
        if fmax is not None and fmax < (asked := best.timing.asked_mhz or clock_mhz):
            raise Slow(asked, fmax, path, advice, abs(asked / clock_mhz - 1) < 0.01)
        files = {
            f"{NAME}.{flow.suffix}": best.bitstream,
            "netlist.v": _plain((folder / "netlist.v").read_bytes()),
        }
    return Build(
        board.name,
        clock_mhz,
        fmax,
        path,
        advice,
        best.seed,
        best.resources,
        tuple((p.seed, p.timing.fmax_mhz, p.seconds) for p in placed),
        perf_counter() - begin,
        cells,
        versions,
        digest,
        files,
    )


def _plain(netlist: bytes) -> bytes:
    """Leave out the comment that names the tool's build."""
    return (
        b"\n".join(line for line in netlist.splitlines() if not line.startswith(b"/* Generated by"))
        + b"\n"
    )


def _kept(file: Path) -> Build | None:
    try:
        data = json.loads(text_of(file) or "")
        files = {name: b64decode(text) for name, text in data["files"].items()}
        runs = tuple(tuple(run) for run in data["runs"])
        fields = {"resources": Resources(**data["resources"]), "runs": runs, "files": files}
        return Build(**{**data, **fields})
    except (ValueError, KeyError, TypeError):
        return None


def _keep(file: Path, design: Build) -> None:
    """Put a finished build into the cache; one that cannot be written is no failure."""
    files = {name: b64encode(content).decode() for name, content in design.files.items()}
    with suppress(OSError):
        publish(json.dumps({**asdict(design), "files": files}).encode(), file)
