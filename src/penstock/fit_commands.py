"""What the commands do with a fit kernel: check, compile, model, simulate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock.api as api
from penstock.assumed import paged
from penstock.boards.board import boards
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.qr.kernel import FitKernel
from penstock.failures import DISAGREE, hardware_failure
from penstock.fit_columns import COLUMNS_FILES, ColumnsDesign, check_method
from penstock.fit_report import columns_summary, fit_table, summary
from penstock.fit_rows import changes_of, given_keys, not_too_many_fits, random_of, refits_of
from penstock.fits import FIT_FILES, FitDesign
from penstock.host.device import Device, open_device
from penstock.host.sources import Table, are_stored
from penstock.host.workloads import Changes, Round, TooFew, TooMany
from penstock.models.memory import block_ram
from penstock.models.target import Target
from penstock.options import Conflict, Request, names
from penstock.outcome import differences
from penstock.progress import Steps
from penstock.tables import table_failure, table_for
from penstock.targets import target_named

if TYPE_CHECKING:
    from penstock.cli import State

__all__ = ["DEFAULT_TARGET", "check", "compile_for_board", "compile_kernel", "predict", "simulate"]

#: what is compiled for where nothing is said: a fit's engine is too large for the small part
DEFAULT_TARGET = "vu9p"
#: options of the commands that mean nothing to a fit kernel
_FOREIGN = {"dims": "--dim", "metas": "--set", "init": "--init", "epochs": "--epochs", "threads": "--threads", "lanes": "--lanes", "ports": "--ports",
            "walkers": "--walkers", "visibility": "--visibility"}


def check(state: State, kernel: FitKernel) -> None:
    """Find mistakes in a fit kernel and its options; print what it fits."""
    request = state.asked
    _allowed(request, kernel)
    if not kernel.of_kind("key"):
        if request.plans or request.data is not None or request.bindings:
            state.record.fits = _columns(request, kernel)[0]
        graph = state.record.fits.graph if state.record.fits is not None else kernel.trace(names(request.dims))
        check_method(graph)
        if not request.quiet:
            state.show(fit_table(graph))
            state.out.print(f"{request.kernel}: the fit kernel {kernel.name} is fine")
        return
    graph = kernel.trace()
    if request.plans:
        state.record.fits = compile_keys(request, kernel)
    given_keys(request, kernel)
    if not request.quiet:
        state.show(fit_table(graph))
        state.out.print(f"{request.kernel}: the fit kernel {kernel.name} is fine")


def compile_kernel(state: State, kernel: FitKernel, folder: Path) -> None:
    """Write a design."""
    from penstock.output import check_folder
    keys, steps = bool(kernel.of_kind("key")), _steps(state)
    files = FIT_FILES if keys else COLUMNS_FILES
    check_folder(folder, files)
    design: FitDesign | ColumnsDesign
    with steps.step("planning"):
        if keys:
            design = compile_keys(state.asked, kernel)
            given_keys(state.asked, kernel)
        else:
            _allowed(state.asked, kernel)
            design = _columns(state.asked, kernel)[0]
    state.record.fits = design
    with steps.step("Verilog"):
        design.verilog  # noqa: B018  made once, here
    design.save(folder)
    state.record.folder = str(folder)
    state.record.files = {name: (folder / name).stat().st_size for name in files}
    state.show(summary(state.record) if keys else columns_summary(state.record))


def compile_for_board(request: Request, kernel: FitKernel, part: Target) -> FitDesign | ColumnsDesign:
    """Return the design for a board's resources. Raises KernelError, SourceError, Conflict for what it does not take."""
    if request.memory is not None:
        raise Conflict("--memory is not for builds of fit kernels", "leave --memory out: the board has the memory that it has")
    _allowed(request, kernel)
    if not kernel.of_kind("key"):
        return _columns(request, kernel, part)[0]
    design = compile_keys(request, kernel, part)
    given_keys(request, kernel)
    return design


def predict(state: State, kernel: FitKernel, profile: bool = False) -> int:
    """Predict the cycles of refits. Returns the exit code."""
    request, outcome, steps = state.asked, state.record, _steps(state)
    _not_profiled(profile)
    if request.data is None and request.rows is None:
        raise error("E904", f"model needs {_needs(kernel)}, or the number of rows", Span.whole("penstock model"), hint="give --data SRC, or --rows N")
    _allowed(request, kernel)
    if not kernel.of_kind("key"):
        return _over_columns(state, kernel, "model")
    with steps.step("planning"):
        design = outcome.fits = compile_keys(request, kernel)
    refits = refits_of(state, kernel, design, steps)
    with steps.step(f"refits of {refits.rows:,} rows"):
        with _held_by_blocks(request):
            outcome.model = design.run(refits, "model")
    state.show(summary(outcome))
    return 0


@contextmanager
def _held_by_blocks(request: Request) -> Iterator[None]:
    """Say it as the user's error where groups have more rows than blocks hold."""
    try:
        yield
    except TooMany as problem:
        raise error("E701", str(problem), Span.whole(request.source or "--rows"), hint="more --groups, or target=slot(key), which has no blocks") from None


def simulate(state: State, kernel: FitKernel, backend: str, profile: bool, waves: str | None, device: str | None, family: str | None) -> int:
    """Run golden, model and hardware; compare them. Returns the exit code."""
    request, outcome, steps = state.asked, state.record, _steps(state)
    _not_profiled(profile)
    if request.data is None:
        raise error("E904", f"simulate needs {_needs(kernel)}", Span.whole("penstock simulate"), hint="give --data SRC, for example --data random:rows=8000")
    if waves is not None:
        raise Conflict("--waves is not for fit kernels", "leave --waves out")
    _allowed(request, kernel)
    if not kernel.of_kind("key"):
        return _over_columns(state, kernel, backend, family, device)
    with steps.step("planning"):
        design = outcome.fits = compile_keys(request, kernel, _part(request, backend))
    refits = refits_of(state, kernel, design, steps)
    if backend == "netlist":
        from penstock.netlists import family_of
        family_of(design.target, family)                # said before anything takes long
    with steps.step("golden run"):
        with _held_by_blocks(request):
            rounds = refits.play(design.config)
        outcome.golden = design.golden(rounds)
    if backend == "golden":
        state.show(summary(outcome))
        return 0
    if backend == "board":
        design = outcome.fits = replace(design, memory=block_ram(design.config.bus_bytes))       # what is on the chip, and the report names
    with steps.step("cycle model"):
        outcome.model = design.predict(rounds)
    if backend == "pysim":
        with steps.step("simulating (Amaranth)"):
            outcome.rtl = design.simulate(rounds, backend=backend)
    if backend in ("rtl", "netlist"):
        with steps.step("Verilog"):
            design.verilog  # noqa: B018  made once, here
        if backend == "netlist":
            with steps.step("synthesis (Yosys)"):
                design.netlist(family)
        with steps.step("building and simulating (Verilator, g++)"):
            options: dict[str, Any] = {} if backend == "rtl" else {"family": family}
            outcome.rtl = design.simulate(rounds, backend=backend, **options)
    if backend == "board":
        _on_board(state, design, rounds, device)
    state.show(summary(outcome))
    return _verdict(state)


def _on_board(state: State, design: FitDesign, rounds: Sequence[Round], url: str | None) -> None:
    """Refit on a device, in simulation or connected."""
    with _device(state, design, url, lambda: design.simulated_board(rounds)) as device, _steps(state).step("refits on the device"):
        state.record.rtl = design.simulate(rounds, backend="board", device=device)


def _part(request: Request, backend: str) -> Target | None:
    """Return the board's part less what link and memory take, as `penstock build` compiles for it, where the target is a board that runs."""
    board = boards().get(request.target or "") if backend == "board" else None
    return None if board is None else board.budget


def _device(state: State, design: FitDesign | ColumnsDesign, url: str | None, simulated: Callable[[], Device]) -> Device:
    """Return the device that is asked for, connected, or without one that is simulated."""
    if url is None:
        with _steps(state).step("building the device (Verilator, g++)"):
            return simulated()
    board = boards().get(design.part)
    return open_device(url, register_map=design.registers, baud=board.baud if board is not None else None)


def _verdict(state: State) -> int:
    outcome = state.record
    if outcome.rtl is None or outcome.golden is None:
        return 0
    if outcome.rtl.errors:
        return state.stop(hardware_failure(outcome.rtl.errors[0], "the workload"))
    wrong = differences(outcome.golden, outcome.rtl)
    if outcome.cycle_exact is False and outcome.model is not None:
        wrong.append(f"cycles: model {outcome.model.cycles:,}, RTL {outcome.rtl.cycles:,}")
    if not wrong:
        return 0
    outcome.errors += [{"code": "DISAGREE", "message": text, "address": ""} for text in wrong]
    state.say("error: backends disagree: " + "; ".join(wrong)
              + "\nhint: this is a defect in Penstock: please report it with the command, its input and `penstock --version`")
    return DISAGREE


# steps that commands share


def _steps(state: State) -> Steps:
    return Steps(state.err, state.asked.quiet, state.asked.verbose > 0)


def _needs(kernel: FitKernel) -> str:
    return "keys" if kernel.of_kind("key") else "a table"


def _allowed(request: Request, kernel: FitKernel) -> None:
    keys = bool(kernel.of_kind("key"))
    for name, option in _FOREIGN.items():
        if getattr(request, name) not in (None, ()) and (keys or name != "dims"):
            has = "a window, a target and a method" if keys else "columns, a label and a method"
            raise Conflict(f"{option} is not for fit kernels", f"leave {option} out: a fit has {has}, all in the kernel")
    if not keys and request.groups not in (None, 1):
        raise Conflict("--groups is for fits of keys", "leave --groups out: a table is one group of rows")
    if keys and request.format not in (None, "float32"):
        raise Conflict(f"--format {request.format} is not for fits of keys", "leave --format out: weights are float32")


def _not_profiled(profile: bool) -> None:
    if profile:
        raise Conflict("--profile is not for fit kernels", "leave --profile out: a fit is one step, and the row `bound` says what limits it")


def _columns(request: Request, kernel: FitKernel, part: Target | None = None) -> tuple[ColumnsDesign, Table | None]:
    """Return the design of a fit over columns, for a part in place of the target that is asked for, and the table of --data where it is not a random one."""
    opened = None
    if request.source is not None and random_of(request, kernel) is None:
        opened = api.open_table(request.source)
    target = part if part is not None else target_named(DEFAULT_TARGET if request.target is None else request.target)
    if opened is not None and not are_stored(str(request.source)):
        opened = opened.paged(paged(opened.schema, target).page_size)         # pages that suit the target
    table = request.source if opened is None else opened
    design: ColumnsDesign = api.compile(kernel, target, table, request.format, dims=names(request.dims), bindings=names(request.bindings),
                                        memory=request.memory)
    return design.leaving_out(request.on_null or "error"), opened


def _over_columns(state: State, kernel: FitKernel, backend: str, family: str | None = None, device: str | None = None) -> int:
    request, outcome, steps = state.asked, state.record, _steps(state)
    changes = changes_of(request, 1)
    not_too_many_fits(changes)
    with steps.step("planning"):
        design, table = _columns(request, kernel, _part(request, backend))
        if backend == "board":
            design = replace(design, memory=block_ram(design.engine.bus_bytes))      # what is on the chip, and the report names
    outcome.fits = design
    try:
        if request.rows is not None:
            assumed = api.assume(design.schema, request.rows)
            outcome.table, outcome.rows, outcome.assumed, outcome.pages = design.schema.table, request.rows, True, assumed.pages
            with steps.step(f"cycles of {request.rows:,} rows"):
                outcome.model = design.predict(assumed.costs(design.engine.port, design.engine.walk), changes=changes)
        else:
            if table is None:
                table = table_for(str(request.source), design.engine.walk, (design.label,))
            outcome.table, outcome.rows, outcome.pages = table.name, table.rows, len(table.pages)
            _run_columns(state, design, table, backend, changes, family, device)
    except TooFew as problem:
        raise error("E701", str(problem), Span.whole(str(request.source) if request.rows is None else "--rows"),
                    hint="more rows, or fewer --refits, --new or --gone") from None
    if outcome.golden is not None and outcome.golden.errors:
        assert table is not None
        return state.stop(table_failure(request.data, table, outcome.golden.errors[0]))
    state.show(columns_summary(outcome))
    return _verdict(state)


def _run_columns(state: State, design: ColumnsDesign, table: Table, backend: str, changes: Changes, family: str | None, url: str | None) -> None:
    """Run golden, model and hardware as far as `backend` asks for them."""
    outcome, steps = state.record, _steps(state)
    if backend == "netlist":
        from penstock.netlists import family_of
        family_of(design.target, family)                # said before anything takes long
    with steps.step("golden run"):
        outcome.golden = design.run(table, "golden", changes=changes)
    if backend == "golden" or outcome.golden.errors:
        return
    with steps.step("cycle model"):
        outcome.model = design.run(table, "model", changes=changes)
    if backend == "model":
        return
    if backend == "pysim":
        with steps.step("simulating (Amaranth)"):
            outcome.rtl = design.run(table, backend, changes=changes)
        return
    if backend == "board":
        with _device(state, design, url, lambda: design.simulated_board(table)) as device, steps.step("fits on the device"):
            outcome.rtl = design.run(table, backend, changes=changes, device=device)
        return
    with steps.step("Verilog"):
        design.verilog  # noqa: B018  made once, here
    options: dict[str, Any] = {}
    if backend == "netlist":
        options["family"] = family
        with steps.step("synthesis (Yosys)"):
            design.netlist(family)
    with steps.step("building and simulating (Verilator, g++)"):
        outcome.rtl = design.run(table, backend, changes=changes, **options)


def compile_keys(request: Request, kernel: FitKernel, part: Target | None = None) -> FitDesign:
    """Return the design of a fit over keys, for a part in place of the target that is asked for. Raises KernelError, Conflict for what it does not take."""
    _allowed(request, kernel)
    target = part if part is not None else DEFAULT_TARGET if request.target is None else request.target
    made: FitDesign = api.compile(kernel, target, memory=request.memory)
    return made
