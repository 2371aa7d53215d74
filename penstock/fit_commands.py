"""What the commands do with a fit kernel: check, compile, model, simulate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock.api as api
from penstock.boards.board import boards
from penstock.dsl.diagnostics import KernelError, Span, error
from penstock.dsl.fit import FitKernel
from penstock.dsl.functions import closest
from penstock.failures import DISAGREE, hardware_failure
from penstock.fit_columns import COLUMNS_FILES, ColumnsDesign
from penstock.fit_columns import summary as columns_summary
from penstock.fit_report import fit_table, summary
from penstock.fits import FIT_FILES, FitDesign
from penstock.host.device import open_device
from penstock.host.sources import RandomOptions, Table
from penstock.host.workloads import Changes, Refits, Round, TooFew, TooMany
from penstock.models.memory import block_ram
from penstock.models.qr.job import Bounds, Sums
from penstock.models.qr.shell import register_map
from penstock.models.target import Target
from penstock.options import Conflict, Request, names
from penstock.outcome import differences
from penstock.progress import Steps

if TYPE_CHECKING:
    from penstock.cli import State

__all__ = ["DEFAULT_TARGET", "check", "compile_for_board", "compile_kernel", "predict", "simulate"]

#: what is compiled for where nothing is said: a fit's engine is too large for the small part
DEFAULT_TARGET = "vu9p"
#: most rows, and most fits, that are played through: the models go through all of them
MOST_ROWS, MOST_FITS = 1 << 22, 1 << 16
#: most keys that come to a group, or leave it, before one refit: each one looks for its place among all of the group's
MOST_CHANGES = 4096
_FEWER = "fewer will do: with target=slot(key) a refit's cycles do not grow with the rows"
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
        if not request.quiet:
            state.show(fit_table(graph))
            state.out.print(f"{request.kernel}: the fit kernel {kernel.name} is fine")
        return
    graph = kernel.trace()
    if request.plans:
        state.record.fits = compile_keys(request, kernel)
    _given(request, kernel)
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
            _given(state.asked, kernel)
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


def compile_for_board(request: Request, kernel: FitKernel, part: Target) -> FitDesign:
    """Return the design for a board's resources. Raises as `compile_keys`."""
    if request.memory is not None:
        raise Conflict("--memory is not for builds of fit kernels", "leave --memory out: the board has the memory that it has")
    design = compile_keys(request, kernel, part)
    _given(request, kernel)
    return design


def predict(state: State, kernel: FitKernel, profile: bool = False) -> int:
    """Predict the cycles of refits. Returns the exit code."""
    request, outcome, steps = state.asked, state.record, _steps(state)
    _not_profiled(profile)
    if request.data is None and request.rows is None:
        raise error("E904", "model needs keys, or the number of rows", Span.whole("penstock model"), hint="give --data SRC, or --rows N")
    _allowed(request, kernel)
    if not kernel.of_kind("key"):
        return _over_columns(state, kernel, "model")
    with steps.step("planning"):
        design = outcome.fits = compile_keys(request, kernel)
    refits = _refits(state, kernel, design, steps)
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
        raise error("E904", "simulate needs keys", Span.whole("penstock simulate"), hint="give --data SRC, for example --data random:rows=8000")
    if waves is not None:
        raise Conflict("--waves is not for fit kernels", "leave --waves out")
    _allowed(request, kernel)
    if not kernel.of_kind("key"):
        return _over_columns(state, kernel, backend, family)
    with steps.step("planning"):
        board = boards().get(request.target or "") if backend == "board" else None
        design = outcome.fits = compile_keys(request, kernel, None if board is None else board.budget)       # what `penstock build` makes
    refits = _refits(state, kernel, design, steps)
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
    steps = _steps(state)
    if url is None:
        with steps.step("building the device (Verilator, g++)"):
            device = design.simulated_board(rounds)
    else:
        board = boards().get(design.part)
        device = open_device(url, register_map=register_map(design.identity), baud=board.baud if board is not None else None)
    with device, steps.step("refits on the device"):
        state.record.rtl = design.simulate(rounds, backend="board", device=device)


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


def _allowed(request: Request, kernel: FitKernel) -> None:
    keys = bool(kernel.of_kind("key"))
    for name, option in _FOREIGN.items():
        if getattr(request, name) not in (None, ()) and (keys or name != "dims"):
            raise Conflict(f"{option} is not for fit kernels", f"leave {option} out: a fit has a window, a target and a method, all in the kernel")
    if not keys and request.groups not in (None, 1):
        raise Conflict("--groups is for fits of keys", "leave --groups out: a table is one group of rows")
    if keys and request.format not in (None, "float32"):
        raise Conflict(f"--format {request.format} is not for fits of keys", "leave --format out: weights are float32")


def _not_profiled(profile: bool) -> None:
    if profile:
        raise Conflict("--profile is not for fit kernels", "leave --profile out: a fit is one step, and the row `bound` says what limits it")


def _changes(request: Request, groups: int | None = None) -> Changes:
    given = Changes() if groups is None else Changes(groups)
    return Changes(*(getattr(given, name) if getattr(request, name) is None else getattr(request, name) for name in ("groups", "refits", "new", "gone")))


def _columns(request: Request, kernel: FitKernel) -> tuple[ColumnsDesign, Table | None]:
    """Return the design of a fit over columns, and the table of --data where it is not a random one."""
    opened = None
    if request.source is not None and _random(request, kernel) is None:
        opened = api.open_table(request.source)
    target = DEFAULT_TARGET if request.target is None else request.target
    design: ColumnsDesign = api.compile(kernel, target, opened, request.format, dims=names(request.dims), bindings=names(request.bindings),
                                        memory=request.memory)
    return design.leaving_out(request.on_null or "error"), opened


def _over_columns(state: State, kernel: FitKernel, backend: str, family: str | None = None) -> int:
    request, outcome, steps = state.asked, state.record, _steps(state)
    if backend in ("pysim", "board"):
        raise kernel.error("E606", f"there is no backend {backend} for a fit over columns yet", kernel.name_span,
                           hint="--backend rtl simulates its hardware, --backend netlist what synthesis makes of it")
    changes = _changes(request, 1)
    _not_too_many_fits(changes)
    with steps.step("planning"):
        design, table = _columns(request, kernel)
    outcome.fits = design
    try:
        if request.rows is not None:
            assumed = api.assume(design.schema, request.rows)
            outcome.table, outcome.rows, outcome.assumed, outcome.pages = design.schema.table, request.rows, True, assumed.pages
            with steps.step(f"cycles of {request.rows:,} rows"):
                outcome.model = design.predict(assumed.costs(design.engine.port, design.engine.walk), changes=changes)
        else:
            if table is None:
                table = api.open_table(str(request.source), design.schema, (design.label,))
            outcome.table, outcome.rows, outcome.pages = table.name, table.rows, len(table.pages)
            _run_columns(state, design, table, backend, changes, family)
    except TooFew as problem:
        raise error("E701", str(problem), Span.whole(str(request.source) if request.rows is None else "--rows"),
                    hint="more rows, or fewer --refits, --new or --gone") from None
    if outcome.golden is not None and outcome.golden.errors:
        return state.stop(hardware_failure(outcome.golden.errors[0], "the table"))
    state.show(columns_summary(outcome))
    return _verdict(state)


def _run_columns(state: State, design: ColumnsDesign, table: Table, backend: str, changes: Changes, family: str | None) -> None:
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
    if not kernel.of_kind("key"):
        raise kernel.error("E606", "a fit over columns is not built for boards yet", kernel.name_span,
                           hint="penstock compile writes its Verilog, penstock simulate runs it")
    target = part if part is not None else DEFAULT_TARGET if request.target is None else request.target
    made: FitDesign = api.compile(kernel, target, memory=request.memory)
    return made


def _refits(state: State, kernel: FitKernel, design: FitDesign, steps: Steps) -> Refits:
    """Return the refits that the options ask for."""
    request, outcome = state.asked, state.record
    changes, random, source = _changes(request), _random(request, kernel), request.source
    with steps.step("keys"):
        given = _given(request, kernel)
        try:
            if given is None:
                options = random or RandomOptions()
                options = replace(options, rows=request.rows or options.rows, seed=options.seed if random or request.seed is None else request.seed)
                _not_too_many(options.rows, changes, design, source or "--rows")
                refits = design.refits(options.rows, changes=changes, seed=options.seed)
                outcome.table = "random keys"
            else:
                outcome.table, keys = given
                later = changes.groups * changes.refits * changes.new
                _not_too_many(max(len(keys) - later, 0), changes, design, str(source))
                refits = design.refits(keys=keys, changes=changes, seed=1 if request.seed is None else request.seed)
        except TooFew as problem:
            raise error("E701", str(problem), Span.whole(source or "--rows"), hint="more rows, or fewer --groups, --refits, --new or --gone") from None
    outcome.rows, outcome.assumed = refits.rows, source is None
    return refits


def _random(request: Request, kernel: FitKernel) -> RandomOptions | None:
    """Return what stands behind `random:`, None for other sources. Raises SourceError, KernelError (E701)."""
    if request.source is None or not request.source.startswith("random:"):
        return None
    options = RandomOptions.parse(request.source.removeprefix("random:"))
    if options.rows > MOST_ROWS:
        hint = _FEWER if kernel.of_kind("key") else "penstock model --rows N needs no table at all"
        raise _too_many(f"{options.rows:,} rows", MOST_ROWS, request.source, hint)
    return options


def _too_many(what: str, most: int, where: str, hint: str) -> KernelError:
    return error("E701", f"{what} are too many to be played through: the most is {most:,}", Span.whole(where), hint=hint)


def _not_too_many_fits(changes: Changes) -> None:
    fits = changes.groups * (1 + changes.refits)
    if fits > MOST_FITS:
        raise _too_many(f"{fits:,} fits", MOST_FITS, "--refits", "fewer will do: fewer --groups, or fewer --refits of each")


def _not_too_many(rows: int, changes: Changes, design: FitDesign, where: str) -> None:
    """Raise KernelError (E701) where what is asked for would take hours."""
    if rows > MOST_ROWS:
        raise _too_many(f"{rows:,} rows", MOST_ROWS, where, _FEWER)
    _not_too_many_fits(changes)
    for name in ("new", "gone"):
        if getattr(changes, name) > MOST_CHANGES:
            raise _too_many(f"{getattr(changes, name):,} keys at once", MOST_CHANGES, f"--{name}", "fewer will do: a group has some 1,000 keys")
    scans = design.config.sums is Sums.SCAN or design.config.bounds is Bounds.RESCAN
    read = rows * (1 + changes.refits * scans) + changes.groups * changes.refits * (changes.new + changes.gone)
    if read > MOST_ROWS:
        raise _too_many(f"{read:,} rows in all fits", MOST_ROWS, "--refits",
                        "fewer will do: fewer --rows, --groups or --refits, or fewer --new or --gone of each")


def _given(request: Request, kernel: FitKernel) -> tuple[str, list[bytes]] | None:
    """Return the name of the table of --data and its keys, None where they are to be random. Raises KernelError, SourceError, Conflict for options that
    say nothing of either."""
    [key] = kernel.of_kind("key")
    if request.source is not None and _random(request, kernel) is None:
        if request.rows is not None:
            raise Conflict(f"--rows {request.rows} and --data {request.data} both say which keys there are",
                           "leave one of them out: with --rows alone keys are random ones")
        table = api.open_table(request.source)
        return table.name, _keys(request, kernel, table)
    if other := next((name for name in names(request.bindings) if name != key.name), None):
        raise kernel.error("E619", f"the kernel {kernel.name} has no key {other}", key.span, hint=f"write --bind {key.name}=COLUMN, beside --data SRC")
    if request.bindings:
        raise Conflict("--bind names a column, but there is no table" if request.source is None else "--bind names a column, but random keys have none",
                       "give --data SRC with a table, or leave --bind out")
    return None


def _keys(request: Request, kernel: FitKernel, table: api.Table) -> list[bytes]:
    """Return the texts of the key's column, in the order of rows. Raises KernelError (E619)."""
    [key] = kernel.of_kind("key")
    bound = names(request.bindings)
    texts = [column.name for column in table.schema.columns if column.type == "text" and not column.dropped]
    listing = f"its columns of text are {', '.join(texts)}" if texts else "it has no column of text"

    def wrong(message: str, hint: str) -> KernelError:
        return kernel.error("E619", message, key.span, hint=hint)
    if other := next((name for name in bound if name != key.name), None):
        raise wrong(f"the kernel {kernel.name} has no key {other}", f"write --bind {key.name}=COLUMN; {listing}")
    chosen: Sequence[str] = bound.get(key.name, ())
    if not chosen:
        chosen = [key.name] if key.name in texts else texts
    if len(chosen) != 1:
        raise wrong(f"the key {key.name} takes one column, not {len(chosen)}", f"name it with --bind {key.name}=COLUMN; {listing}" if texts else listing)
    if chosen[0] not in texts:
        have = [column.name for column in table.schema.columns if not column.dropped]
        what = "is not of text" if chosen[0] in have else f"is not in the table {table.name}"
        raise wrong(f"the column {chosen[0]} {what}", closest(chosen[0], texts) or listing)
    values = [None if value is None else str(value) for value in table.columns()[chosen[0]]]
    empty = next((number for number, value in enumerate(values, 1) if value is None), None)
    if empty is not None and request.on_null != "skip":
        raise wrong(f"the column {chosen[0]} is NULL in row {empty:,}", "--on-null skip leaves such rows out")
    return [value.encode() for value in values if value is not None]
