"""What `penstock boards`, `penstock build` and `penstock program` do."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

import penstock.api as api
from penstock.boards.board import Board, boards, left_out
from penstock.boards.build import Build, Misdescribed, Slow, build, elaborate
from penstock.boards.clocks import chosen_clock
from penstock.boards.flow import FLOWS, NAME, Endless, Unfit
from penstock.boards.pll import Unreachable
from penstock.boards.tools import ToolError, ToolMissing
from penstock.boards.top import clock_setting
from penstock.commands import compiled
from penstock.dsl.diagnostics import KernelError, Span, error
from penstock.dsl.fit import FitKernel
from penstock.dsl.functions import closest
from penstock.dsl.graph import Graph
from penstock.dsl.kernel import Kernel
from penstock.dsl.load import load_kernel
from penstock.models.analytics.shell import count_bits
from penstock.models.link.timing import divisor
from penstock.models.target import Target
from penstock.options import Conflict, Request, names
from penstock.output import as_json, check_folder, write_folder
from penstock.progress import Steps

if TYPE_CHECKING:
    from penstock.cli import State
    from penstock.compiled import Compiled

__all__ = ["board_design", "board_named", "boards_json", "boards_table", "build_board", "program_board"]

#: minutes that synthesis and placement may take where nothing is said
LIMIT = 120
#: the largest dimension that the search for a size that fits tries
_LARGEST = 1 << 14


def board_named(name: str) -> Board:
    """Return a board. Raises KernelError (E821)."""
    known = boards()
    if name not in known:
        missing = "".join(f"; boards of the entry point {point} are left out: {why}" for point, why in left_out().items())
        raise error("E821", f"there is no board {name!r}", Span.whole("--board"),
                    hint=(closest(name.lower(), known) or "`penstock boards` lists them") + missing)
    return known[name]


def boards_json() -> list[dict[str, Any]]:
    """Return all boards as plain data."""
    return [{"name": b.name, "title": b.title, "device": b.device, "package": b.package, "speed": b.speed, "memory": asdict(b.memory), "link": b.link,
             "baud": b.baud if b.open else None, "clock_mhz": b.clock_mhz, "oscillator_mhz": b.oscillator_mhz, "open_tools": b.open,
             "resources": {k: getattr(b.part, k) for k in ("lut", "ff", "dsp", "bram")}, "status": b.status} for b in boards().values()]


def boards_table() -> Table:
    """Return all boards for a terminal; below them, what other packages offer and cannot be used."""
    unusable = "\n".join(f"left out: boards of the entry point {point}: {why}" for point, why in left_out().items())
    table = Table(box=box.ROUNDED, padding=(0, 1), caption=escape(unusable) or None, caption_justify="left")
    for title in ("board", "device", "memory", "link", "MHz", "status"):
        table.add_column(title, justify="right" if title == "MHz" else "left", no_wrap=title in ("board", "device"))
    for b in boards().values():
        size = b.memory.bytes
        amount = f"{size >> 30} GB" if size >= 1 << 30 else f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"
        table.add_row(b.name, b.device, f"{amount} {b.memory.kind}", b.link, f"{b.clock_mhz:g}", b.status)
    return table


# -- build -----------------------------------------------------------------------------------------------------------------


def build_board(state: State, board_name: str, folder: Path, seeds: int, clock: float | None, jobs: int | None,
                limit: float | None = None) -> None:
    """Make a bitstream of a kernel, with its report. `limit`: minutes after which synthesis and placement are ended. Raises KernelError."""
    board = board_named(board_name)
    request = state.asked
    if request.target is not None:
        raise Conflict("--target is not for build", "--board says what is built for: leave --target out")
    if not board.open:
        if clock is not None or seeds > 1:
            raise Conflict(f"--clock and --seeds are not for {board.name}, which is placed by its vendor's tools", "leave them out")
        from penstock.boards.vendor import FILES, project
        check_folder(folder, FILES)
        design = _planned(state, board)
        state.record.folder = str(folder)
        write_folder(folder, project(board, design.hardware, len(design.bus_ports)))
        state.out.print(f"{folder}: a project for the vendor's tools; nothing in it was placed here")
        return
    steps = Steps(state.err, request.quiet, request.verbose > 0)
    suffix = FLOWS[board.part.family].suffix
    check_folder(folder, (f"{NAME}.{suffix}", "netlist.v", "manifest.json", "boot.bin"))
    with steps.step("planning"):
        made_for = _planned(state, board)
    wanted = chosen_clock(board, made_for.format, made_for.resources_on(board.budget).lut) if clock is None else clock
    try:
        setting = clock_setting(board, wanted)
        real = setting.output_mhz if setting is not None else board.oscillator_mhz
        try:
            divisor(round(real * 1e6), board.baud)
        except ValueError as problem:
            raise Unreachable(str(problem)) from None
        with steps.step("the board's hardware"):
            sources = elaborate(made_for.hardware, board, setting=setting)
        with steps.log("synthesis, place and route") as said:
            from penstock.sim.native.toolchain import cache_folder
            made = build(sources, board, clock_mhz=real, seeds=range(1, seeds + 1), jobs=jobs or min(seeds, os.cpu_count() or 1), cache=cache_folder(),
                         limit=60 * (LIMIT if limit is None else limit), progress=said)
    except Unreachable as problem:
        raise error("E825", str(problem), Span.whole("--clock"), hint=f"{board.name} has a {board.oscillator_mhz:g} MHz oscillator, and its "
                    f"serial line needs about a whole multiple of {board.baud / 1e6:g} MHz") from None
    except Misdescribed as problem:
        raise error("E821", f"{board.name} is described wrongly: {problem}", Span.whole("--board"),
                    hint="the package that offers it names platform, clock and uart; docs/boards.md, Boards of your own") from None
    except ToolMissing as problem:
        raise error("E822", f"building for {board.name} needs the package {problem.package}", Span.whole("--board"),
                    hint="pip install 'penstock[boards]' installs the open tool chain") from None
    except Unfit as problem:
        raise error("E823", f"kernel {made_for.describe()['kernel']!r} does not fit on {board.name}: placed, it needs {problem}", Span.whole("--board"),
                    hint=_smaller_hint(request, board, made_for, problem)) from None
    except Slow as problem:
        raise error("E824", f"the design reaches {problem.fmax_mhz:.1f} MHz on {board.name}, not {problem.clock_mhz:g}", Span.whole("--clock"),
                    hint=f"--clock {int(problem.fmax_mhz)} asks for less, --seeds tries more placements; the path is {problem.path}; "
                    f"next step: {problem.advice}") from None
    except Endless as problem:
        raise error("E830", f"{problem.tool} did not come to an end within {limit or LIMIT} minutes; its last line: {problem.line}",
                    Span.whole("--limit"),
                    hint="--limit MINUTES gives more time; a smaller dimension, a narrower format or a larger board needs less") from None
    except ToolError as problem:
        raise error("E826", f"{problem.tool} failed: {problem.line}", Span.whole("--board"),
                    hint="this is a defect in Penstock or in the tool: please report it with the command and `penstock --version`") from None
    _publish(made_for, board, made, folder)
    state.record.folder, state.record.placed = str(folder), made.report()
    if not request.quiet:
        from penstock.report import show
        show(state.out, _summary(made_for, board, made, folder))


def _planned(state: State, board: Board) -> Compiled:
    """Return the design of the kernel for the board, and put it on record. Raises KernelError."""
    request, kernel = state.asked, load_kernel(state.asked.kernel)
    if isinstance(kernel, FitKernel):
        from penstock.fit_commands import compile_for_board
        fits = state.record.fits = compile_for_board(request, kernel, board.budget)
        return fits
    assert isinstance(kernel, Kernel)
    state.record.design = design = board_design(request, board, kernel)
    return design


def board_design(request: Request, board: Board, kernel: Kernel, table: api.Table | None = None) -> api.Design:
    """Compile for the board's own resources, less what link and memory take. `table`: of the request, where it is open already."""
    try:
        design = compiled(request, kernel, table, board.budget)
    except KernelError as problem:
        if problem.diagnostic.code != "E601":
            raise
        hint = f"{problem.diagnostic.hint}; {_largest_hint(request, board.budget)}"
        raise KernelError(replace(problem.diagnostic, hint=hint), problem.source) from None
    chosen = replace(design.plan, lean=board.lean, memory_bytes=board.memory.bytes if board.lean else 0)
    most = (1 << count_bits(chosen)) - 1
    if chosen.epochs > most:
        raise error("E441", f"epochs on {board.name} must be from 1 to {most}, not {chosen.epochs}", Span.whole("epochs"),
                    hint="the device has a counter of that size; train several times, from the models of the time before")
    return replace(design, plan=chosen)


def _smaller_hint(request: Request, board: Board, design: Compiled, problem: Unfit) -> str:
    """Say what of the kernel would fit, from the estimate and what placement found."""
    part = _as_found(board.budget, design, problem)
    if isinstance(design, api.Design):
        return _largest_hint(request, part, smaller=1)
    from penstock.fits import FitDesign
    if not isinstance(design, FitDesign):
        return "fewer columns take less; or choose a board with a larger device"
    from penstock.dsl.lower.qr import Load, longest_text
    return f"the longest window that fits is {longest_text(design.graph, part, Load())}; or choose a board with a larger device"


def _as_found(part: Target, design: Compiled, problem: Unfit) -> Target:
    """Return the part with as much less of what was short as the estimate was too low."""
    if not problem.field or not problem.used:
        return part
    expected = getattr(design.resources_on(part), problem.field)
    less: dict[str, Any] = {problem.field: min(int(problem.available * expected / problem.used), max(expected - 1, 0))}
    return replace(part, **less)


def _largest_hint(request: Request, part: Target, smaller: int = 0) -> str:
    """Say which size of the kernel's dimensions still fits, as the estimate has it: of one alone, or of all together; one that is at least so much
    smaller than what was asked for."""
    kernel = load_kernel(request.kernel)
    assert isinstance(kernel, Kernel)
    if not kernel.dim_names:
        return "the kernel's sizes are written in it: with a named dimension, the largest size that fits would stand here"
    dims = {name: size for name, size in names(request.dims).items() if isinstance(size, int)}
    asked = {name: dims.get(name, _LARGEST) for name in kernel.dim_names}
    for chosen in dict.fromkeys([*((name,) for name in asked), tuple(asked)]):
        low, high = 0, min(max(asked[name] for name in chosen) - smaller, _LARGEST)
        while low < high:
            middle = (low + high + 1) // 2
            sizes = {name: min(asked[name], middle) for name in chosen}
            if _plans(request, part, {**dict.fromkeys(kernel.dim_names, 1), **dims, **sizes}):
                low = middle
            else:
                high = middle - 1
        if low:
            return f"the largest {' and '.join(chosen)} that fit{'s is' if len(chosen) == 1 else ' are'} about {low}"
    return "no size of this kernel fits: a board with a larger device, or a narrower --format, would"


def _plans(request: Request, part: Target, dims: Mapping[str, int]) -> bool:
    try:
        kernel = load_kernel(request.kernel)
        assert isinstance(kernel, Kernel)
        api.compile(kernel, part, None, request.format, dims=dims, bindings=_fewer(kernel.trace(dims), names(request.bindings)))
        return True
    except (KernelError, api.SourceError):
        return False


def _fewer(graph: Graph, bindings: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the bindings with as many columns as the graph's inputs and outputs have elements, where each element has a column of its own."""
    counts = {v.name: math.prod(v.shape) for kind in ("input", "output") for v in graph.of_kind(kind)}
    return {name: tuple(columns) if len(columns) == 1 else tuple(columns)[:counts.get(name, len(columns))] for name, columns in bindings.items()}


def _publish(design: Compiled, board: Board, made: Build, folder: Path) -> None:
    said = {"estimate": {**asdict(design.resources_on(board.budget)), "source": "estimate"}, "build": made.report(),
            "board": {"name": board.name, "device": board.device, "clock_mhz": made.clock_mhz, "baud": board.baud, "memory": board.memory.kind,
                      "memory_bytes": board.memory.bytes}}
    write_folder(folder, {**made.files, **design.images(), "manifest.json": as_json(design.manifest() | said)})


def _summary(design: Compiled, board: Board, made: Build, folder: Path) -> Table:
    told = design.describe()
    table = Table(box=box.ROUNDED, padding=(0, 1), title=f"{told['kernel']} on {board.name}, {told['format']}", caption_justify="left")
    for title in ("", "LUT", "FF", "DSP", "BRAM", "MHz"):
        table.add_column(title, justify="right" if title else "left")
    rows = (("estimate", design.resources_on(board.budget), ""), ("of it the engine", design.resources_on(replace(board.budget, shared=None)), ""),
            ("placed", made.resources, f"{made.fmax_mhz:.1f}" if made.fmax_mhz else "?"), ("device", board.part, f"{made.clock_mhz:g} asked"))
    for title, r, mhz in rows:
        table.add_row(title, f"{r.lut:,}", f"{r.ff:,}", f"{r.dsp:,}", f"{r.bram:,}", mhz)
    lines = [f"plan: {_plan_text(design)}", f"seed {made.seed} of {len(made.runs)}; {made.seconds:.0f} s; critical path: {made.path or 'not known'}"]
    table.caption = "\n".join([*lines, *([f"next step for a faster clock: {made.advice}"] if made.advice else []), f"written: {folder}"])
    return table


def _plan_text(design: Compiled) -> str:
    if isinstance(design, api.Design):
        plan = design.plan
        return f"{plan.threads} × {plan.lanes} (threads × lanes), Striders: {plan.walkers}, pages of {plan.page_size} bytes"
    from penstock.fit_columns import ColumnsDesign
    from penstock.fit_report import engine_text, table_engine_text
    from penstock.fits import FitDesign
    if isinstance(design, ColumnsDesign):
        return table_engine_text(design.engine)
    assert isinstance(design, FitDesign)
    return engine_text(design.config)


# -- program ---------------------------------------------------------------------------------------------------------------


def program_board(state: State, board_name: str, folder: Path) -> None:
    """Load a bitstream with openFPGALoader. Raises KernelError."""
    board = board_named(board_name)
    if not board.open:
        raise error("E827", f"{board.name} is programmed with its vendor's tools", Span.whole("--board"), hint="its project folder has the Tcl for it")
    bitstream = folder / f"{NAME}.{FLOWS[board.part.family].suffix}"
    try:
        built = json.loads((folder / "manifest.json").read_text())["board"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        built = None
    if built != board.name or not bitstream.is_file():
        what = f"a bitstream for {built}, not one" if built and built != board.name else "no bitstream"
        raise error("E827", f"{folder} holds {what} for {board.name}", Span.whole("program"), hint=f"penstock build KERNEL --board {board.name} --out {folder}")
    loader = shutil.which("openFPGALoader")
    arguments = [*(["-b", board.loader] if board.loader else []), str(bitstream)]
    if loader is None:
        raise error("E828", "openFPGALoader is not installed", Span.whole("program"),
                    hint=f"install it (Debian and Ubuntu: apt install openfpgaloader), or type: openFPGALoader {' '.join(arguments)}")
    try:
        done = subprocess.run([loader, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except OSError as problem:
        raise error("E828", f"{loader} does not run: {problem.strerror}", Span.whole("program"), hint="install openFPGALoader again") from None
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        raise error("E828", f"openFPGALoader could not load it: {lines[-1] if lines else 'no output'}", Span.whole("program"),
                    hint="is the board connected and powered, and may this user open its USB device?")
    state.out.print(f"{bitstream} runs on {board.name}")
