"""What the commands do, with their command line read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import penstock.api as api
from penstock.assumed import paged
from penstock.design import simulated_memory
from penstock.dsl.diagnostics import Diagnostic, Span, error, render
from penstock.dsl.fit import FitKernel
from penstock.dsl.kernel import AnyKernel, Kernel
from penstock.dsl.load import load_kernel
from penstock.dsl.overrides import with_overrides
from penstock.failures import DISAGREE
from penstock.host.sources import RandomOptions, are_stored
from penstock.models.analytics.shell import register_map
from penstock.models.target import TARGETS, Target
from penstock.options import Conflict, Request, names
from penstock.outcome import differences
from penstock.progress import Steps
from penstock.report import binding_table, profile_table, summary
from penstock.tables import table_failure

if TYPE_CHECKING:
    from penstock.cli import State

__all__ = ["check_kernel", "compile_kernel", "compiled", "predict", "simulate"]

FILES = ("penstock.v", "boot.bin", "strider.asm", "manifest.json")


def check_kernel(state: State) -> None:
    """Find mistakes in a kernel and its options; print its variables."""
    request, steps = state.asked, _steps(state)
    loaded = load_kernel(request.kernel)
    if isinstance(loaded, FitKernel):
        fit_commands().check(state, loaded)
        return
    assert isinstance(loaded, Kernel)
    kernel = loaded
    warnings: list[Diagnostic] = []
    if request.plans:
        table = _table(request, kernel, steps)
        state.record.design = compiled(request, kernel, table)
        warnings = kernel.warnings
    if request.data is None and any(name not in dict(request.dims) for name in kernel.dim_names):
        kernel.check(names(request.dims))           # sizes may stay unknown
        graph, schema, binding = None, None, None
    else:
        graph, schema, binding = api.front(kernel, _table(request, kernel, steps) or request.source, names(request.dims), names(request.bindings))
        graph = with_overrides(graph, names(request.metas), names(request.init), request.epochs)
        if request.data is None:
            schema = binding = None
    kernel.warnings = warnings or kernel.warnings       # the plan's are the same and more
    _warnings(state, kernel)
    if not request.quiet:
        if graph is not None:
            state.show(binding_table(graph, schema, binding))
        state.out.print(f"{request.kernel}: the kernel {kernel.name} is fine")


def compile_kernel(state: State, folder: Path) -> None:
    """Write a design."""
    from penstock.output import check_folder
    request, steps = state.asked, _steps(state)
    loaded = load_kernel(request.kernel)
    if isinstance(loaded, FitKernel):
        fit_commands().compile_kernel(state, loaded, folder)
        return
    check_folder(folder, FILES)
    kernel, table = _begin(state, steps, loaded)
    with steps.step("planning"):
        design = state.record.design = compiled(request, kernel, table)
    _warnings(state, kernel)
    with steps.step("Verilog"):
        design.verilog  # noqa: B018  made once, here
    design.save(folder)
    state.record.folder = str(folder)
    state.record.files = {name: (folder / name).stat().st_size for name in FILES}
    state.show(summary(state.record))


def predict(state: State, profile: bool) -> int:
    """Predict cycles. Returns the exit code."""
    request, outcome, steps = state.asked, state.record, _steps(state)
    loaded = load_kernel(request.kernel)
    if isinstance(loaded, FitKernel):
        return fit_commands().predict(state, loaded, profile)
    _of_tables(request)
    if request.data is None and request.rows is None:
        raise error("E904", "model needs a table, or the number of its rows", Span.whole("penstock model"), hint="give --data SRC, or --rows N")
    kernel, table = _begin(state, steps, loaded)
    with steps.step("planning"):
        design = outcome.design = compiled(request, kernel, table)
    _warnings(state, kernel)
    if request.rows is not None:
        assumed = api.assume(design.plan.schema, request.rows)
        outcome.table, outcome.rows, outcome.pages, outcome.assumed = design.plan.schema.table, request.rows, assumed.pages, True
        with steps.step(f"cycles of {request.rows:,} rows"):
            outcome.model = design.predict(assumed)
    else:
        opened = _opened(state, design, table)
        with steps.step(f"cycles of {opened.rows:,} rows"):
            outcome.model = design.run(opened, "model")
        if outcome.model.errors:
            return state.stop(table_failure(request.data, opened, outcome.model.errors[0]))
    state.show(summary(outcome))
    if profile:
        state.show(profile_table(outcome, kernel.source or "", state.out.width))
    return 0


def simulate(state: State, profile: bool, waves: str | None, backend: str = "rtl", device: str | None = None,
             family: str | None = None) -> int:
    """Run golden, model and hardware (the engine's Verilog, its netlist, or the whole device of a board); compare them. Returns the exit code."""
    request, outcome, steps = state.asked, state.record, _steps(state)
    loaded = load_kernel(request.kernel)
    if family is not None and backend != "netlist":
        raise Conflict("--family is for --backend netlist", "add --backend netlist, or leave --family out")
    if device is not None and backend != "board":
        raise Conflict("--device is for --backend board", "add --backend board, or leave --device out")
    if isinstance(loaded, FitKernel):
        return fit_commands().simulate(state, loaded, backend, profile, waves, device, family)
    _of_tables(request)
    if backend in ("golden", "model", "pysim"):
        raise Conflict(f"--backend {backend} is for fit kernels", "penstock model predicts cycles without a simulation")
    if request.data is None:
        raise error("E904", "simulate needs a table", Span.whole("penstock simulate"), hint="give --data SRC, for example --data random:rows=1000")
    if waves is not None and backend == "board":
        raise Conflict("--waves is for the engine alone", "leave --waves or --backend board out")
    if waves is not None:
        from penstock.output import check_file
        check_file(waves)
        if Path(waves).suffix.lower() not in (".fst", ".vcd"):
            raise Conflict(f"--waves {waves}: waves are written as FST or as VCD, and the file's suffix says which", f"write --waves {Path(waves).stem}.fst")
    kernel, table = _begin(state, steps, loaded)
    with steps.step("planning"):
        design = outcome.design = _for_board(request, kernel, table) if backend == "board" else compiled(request, kernel, table)
    if backend == "netlist":
        from penstock.netlists import family_of
        family_of(design.target, family)                # said before anything takes long
    _warnings(state, kernel)
    opened = _opened(state, design, table)
    with steps.step("golden run"):
        outcome.golden = design.run(opened, "golden")
    if backend == "board":
        return _on_board(state, kernel, opened, profile, device)
    if not outcome.golden.errors:
        with steps.step("cycle model"):
            outcome.model = design.predict(opened, epochs=outcome.golden.epochs)
    with steps.step("Verilog"):
        design.verilog  # noqa: B018  made once, here
    if backend == "netlist":
        with steps.step("synthesis (Yosys)"):
            design.netlist(family)
    with steps.step("building the simulation (Verilator, g++)"):
        trace = "" if waves is None else Path(waves).suffix.lower().removeprefix(".")
        if backend == "rtl":
            design.library(trace=trace)
        else:
            design.netlist_library(family, trace=trace)
    with steps.step("simulating", outcome.model.cycles if outcome.model is not None else None) as advance:
        options: dict[str, Any] = {} if backend == "rtl" else {"family": family}
        outcome.rtl = design.run(opened, backend, progress=advance, waves=waves, watchdog=_patience(design), **options)
    return _verdict(state, kernel, opened, profile)


def _on_board(state: State, kernel: Kernel, opened: api.Table, profile: bool, url: str | None) -> int:
    """Train on a device, in simulation or connected; compare it with golden, and its cycles with the model where its memory has one."""
    from penstock.boards.board import boards
    from penstock.host.device import open_device
    from penstock.models.memory import ON_CHIP
    outcome, steps = state.record, _steps(state)
    design = outcome.design
    assert design is not None and outcome.golden is not None
    board = boards().get(design.plan.target)
    kind = simulated_memory(design.plan)[0] if url is None else board.memory.kind if board is not None else ""
    if design.plan.ports == 1 and not outcome.golden.errors and kind in ON_CHIP:
        outcome.design = replace(design, memory=ON_CHIP[kind](design.plan.bus_bytes))    # what the report names
        with steps.step("cycle model"):
            outcome.model = outcome.design.predict(opened, epochs=outcome.golden.epochs)
    if url is None:
        with steps.step("building the device (Verilator, g++)"):
            device = design.simulated_board(opened)
    else:
        device = open_device(url, register_map=register_map(design.plan, design.identity), baud=board.baud if board is not None else None)
    with device, steps.step("training on the device", outcome.model.cycles if outcome.model is not None else None) as advance:
        outcome.rtl = design.run(opened, "board", device=device, progress=advance, watchdog=_patience(design))
    return _verdict(state, kernel, opened, profile)


def _for_board(request: Request, kernel: Kernel, table: api.Table | None) -> api.Design:
    """Compile for a device: where the target is a board, what `penstock build` makes for it."""
    from penstock.boards.board import boards
    board = boards().get(request.target or "")
    if board is None:
        return compiled(request, kernel, table)
    from penstock.building import board_design
    return board_design(request, board, kernel, table)


def _verdict(state: State, kernel: Kernel, opened: api.Table, profile: bool) -> int:
    outcome, request = state.record, state.asked
    state.show(summary(outcome))
    if profile and outcome.model is not None:
        state.show(profile_table(outcome, kernel.source or "", state.out.width))
    assert outcome.golden is not None and outcome.rtl is not None
    stopped = outcome.rtl.errors or outcome.golden.errors
    wrong = differences(outcome.golden, outcome.rtl)
    if outcome.cycle_exact is False and outcome.model is not None:
        wrong.append(f"cycles: model {outcome.model.cycles:,}, RTL {outcome.rtl.cycles:,}")
    if stopped:
        code = state.stop(table_failure(request.data, opened, stopped[0]))
        if not wrong:
            return code
    if wrong:
        outcome.errors += [{"code": "DISAGREE", "message": text, "address": ""} for text in wrong]
        state.say("error: backends disagree: " + "; ".join(wrong)
                  + "\nhint: this is a defect in Penstock: please report it with the command, its input and `penstock --version`")
        return DISAGREE
    return 0


# steps that commands share


def _steps(state: State) -> Steps:
    return Steps(state.err, state.asked.quiet, state.asked.verbose > 0)


def fit_commands() -> ModuleType:
    """Return what the commands do with fit kernels, which not every run needs."""
    from penstock import fit_commands
    return fit_commands


def _of_tables(request: Request) -> None:
    """Raise Conflict for options that only refits have."""
    for name in ("groups", "refits", "new", "gone"):
        if getattr(request, name) is not None:
            raise Conflict(f"--{name} is for fit kernels", f"leave --{name} out: this kernel learns from a table, row by row")


def _begin(state: State, steps: Steps, loaded: AnyKernel) -> tuple[Kernel, api.Table | None]:
    assert isinstance(loaded, Kernel)
    with steps.step("reading the table"):
        return loaded, _table(state.asked, loaded, steps)


def _table(request: Request, kernel: Kernel, steps: Steps) -> api.Table | None:
    """Open the data source; None without one, and for random numbers, which need the kernel's sizes first."""
    source = request.source
    if source is None:
        return None
    if source.startswith("random:"):
        RandomOptions.parse(source.removeprefix("random:"))     # what is wrong with it is said before anything is asked of the kernel
        return None
    return api.open_table(source)


def compiled(request: Request, kernel: Kernel, table: api.Table | None, target: str | Target | None = None) -> api.Design:
    """Compile as the command line says. `table`: of its source, where it is open; one that is packed here gets pages that suit the target.

    `target`: in place of the command line's.
    """
    target = target if target is not None else "small" if request.target is None else request.target
    choices = api.Choices(lanes=request.lanes, threads=request.threads, ports=request.ports, walkers=request.walkers,
                          on_null=request.on_null or "error", visibility=request.visibility or "hints")
    part = target if isinstance(target, Target) else TARGETS.get(target)
    shape = request.source if table is None else table if part is None or are_stored(request.source or "") else paged(table.schema, part)
    return api.compile(kernel, target, shape, request.format, dims=names(request.dims), bindings=names(request.bindings), metas=names(request.metas),
                       init=names(request.init), epochs=request.epochs, memory=request.memory, choices=choices)


def _opened(state: State, design: api.Design, table: api.Table | None) -> api.Table:
    """Return the table; a random one is made now."""
    request, outcome = state.asked, state.record
    assert request.source is not None
    if table is None:
        table = api.open_table(request.source, design.plan.schema, design.labels)
    elif not are_stored(request.source):
        table = table.paged(design.plan.schema.page_size)       # those that suit the target
    outcome.table, outcome.rows, outcome.pages = table.name, table.rows, len(table.pages)
    return table


def _warnings(state: State, kernel: Kernel) -> None:
    if not state.asked.quiet:
        for warning in dict.fromkeys(kernel.warnings):
            state.say(render(warning, kernel.source))


def _patience(design: api.Design) -> int:
    """Return after how many cycles without progress the hardware has hung: many times what anything may take."""
    schedule, memory = design.plan.schedule, design.memory
    words = design.plan.page_size * (memory.interval(design.plan.bus_bytes) + 8)
    return max(1_000_000, 16 * (memory.latency + words + schedule.batch + schedule.interval + schedule.settle + schedule.decide))
