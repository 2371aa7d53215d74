"""One run of a design, on any backend."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock import hooks
from penstock.engines.score import ScoreError, Scoring, no_score
from penstock.engines.workload import Bound, Given, Result, Workload
from penstock.errors import bad_value, no_option, not_one_of
from penstock.models.errors import HardwareError, RunError
from penstock.models.memory import Dram, Memory
from penstock.models.numerics.formats import Codes
from penstock.targets import timing_of

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.engines.design import Design
    from penstock.host.device.device import Device
    from penstock.scores.files import Scores
    from penstock.sim.machine import Machine, Progress


@dataclass(frozen=True, eq=False)
class Run(hooks.Shown):
    """What a run gave.

    `values`: what was computed, by name, as float64 arrays (None after an error, and for the model,
    which only counts cycles); `codes`: the same bit for bit; `cycles`: the hardware's or the
    model's; `commands`: of the DRAM, by name, as the model counts them; `errors`: what stopped the run; `facts`: what else golden and hardware must agree in;
    `design`, `workload`: what ran, for reports (None where a command knows it).
    """

    backend: str
    values: Mapping[str, np.ndarray] | None
    codes: Mapping[str, Codes] | None
    cycles: int | None
    counters: Mapping[str, int]
    errors: tuple[HardwareError, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    bound: Bound | None = None
    bound_machine: Bound | None = None
    seconds: float = 0.0
    bytes_read: int | None = None
    bytes_written: int | None = None
    commands: Mapping[str, int] = field(default_factory=dict)
    design: Design | None = field(default=None, repr=False, compare=False)
    workload: Workload | None = field(default=None, repr=False, compare=False)
    #: of a run that was saved
    saved: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether it came to its end; else `errors` has what stopped it."""
        return not self.errors

    @property
    def result(self) -> Mapping[str, np.ndarray] | None:
        """What was computed, by name, as float64 arrays; None for the model, which only counts
        cycles. Raises RunError for a run that was stopped."""
        if self.errors:
            raise RunError(self.errors[0])
        return self.values

    @property
    def epochs(self) -> int:
        """Passes over the data; 0 where the engine makes none."""
        return int(self.facts.get("epochs", 0))

    @property
    def converged(self) -> bool:
        """Whether a test of convergence ended the run."""
        return bool(self.facts.get("converged", False))

    @property
    def rows_used(self) -> int | None:
        """Rows of the table that each epoch learned from; None where the run ended with an error,
        or makes no epochs."""
        if not self.errors and "rows_used" in self.counters:
            return self.counters["rows_used"]
        tuples = self.counters.get("tuples")
        return None if self.errors or not self.epochs or tuples is None else tuples // self.epochs

    @property
    def rows_skipped(self) -> int | None:
        """Rows of the table that no epoch learned from: those that a policy such as `on_null` skips, and
        tuples of a relation file that are not visible. None where `rows_used` is."""
        used, rows = self.rows_used, getattr(self.workload, "rows", None)
        return None if used is None or rows is None else int(rows) - used

    @property
    def fit(self) -> SimpleNamespace | None:
        """What there is to say of a least-squares fit, as attributes: names, coef, std_err, t, p, error, r2, rss, rows, rows_skipped,
        condition, condition_scaled, rank, dropped, units, preconditioner. A fit for each group has `group_by` and `groups`, a list of such, each with its
        value as `group`. None for runs that fit nothing."""
        facts = self.details.get("fit")
        if facts is None:
            return None

        def real(value: Any) -> Any:
            if value is None:
                return np.nan
            if not isinstance(value, list) or not all(
                v is None or isinstance(v, float) for v in value
            ):
                return value
            return np.array([np.nan if v is None else v for v in value], np.float64)

        def namespace(fit: Mapping[str, Any]) -> SimpleNamespace:
            return SimpleNamespace(**{n: real(v) if v != [] else v for n, v in fit.items()})

        summary = namespace(facts)
        if "groups" in facts:
            summary.groups = [namespace(group) for group in facts["groups"]]
        return summary

    @cached_property
    def scoring(self) -> Scoring:
        """What scores rows with what was learned. Raises ScoreError (E631) where the kernel has no score, or the run no result."""
        if self.saved is not None:
            if self.saved["scoring"] is not None:
                return self.saved["scoring"]
            raise no_score(self.saved["kernel"], self.saved["unscored"].partition(": ")[2])
        name = "this kernel" if self.design is None else self.design.name
        if self.design is None or self.result is None:
            raise no_score(name, "this run has no result", "backend golden or rtl computes one")
        with self._used():
            return self.design.scoring(self.result, self.details)

    @property
    def _names(self) -> Mapping[str, Any]:
        if self.saved is not None:
            return self.saved["names"]
        names = None if self.workload is None else self.workload.names
        return names or ({} if self.design is None else self.design.names)

    def predict(self, source: Any, backend: str | None = None, **options: Any) -> Scores:
        """Return the scores of new rows: `ps.score` of the kernel, or what it compares with its label.

        Parameters: `source`: as `ps.compile` takes it, a file, a server's table, a frame, arrays, with the columns that the kernel's
        inputs learned from; no label is needed. `backend`: "host" (float64, by NumPy) or as `Design.run`: the scores are the hardware's then, in the
        format of the training, which is what kernels have unless given; fits have "host". `options`: `target`; `on_null` ("skip" unless
        given: such a row's score is NULL, or "error"), `on_nan`, `on_overflow`, `on_index`, `on_unseen`, the training's unless given; those of `Design.run`.

        Raises ScoreError (E631, E632), KernelError and SourceError for a kernel without a score, for rows without these columns, of
        other types, or none, and for values that the policies do not let pass.
        """
        with self._used():
            scores: Scores = hooks.predicted(self.scoring, source, backend, **options)
        return scores

    def _used(self) -> AbstractContextManager[None]:
        """Return what the score is used within: that of a folder may be anybody's."""
        from penstock.runs.saved import used

        if self.saved is not None:
            return used(f"{self.saved['kernel']!r:.60}")
        if self.design is None or self.design.saved is None:
            return nullcontext()
        return used(f"{self.design.name!r:.60}")

    def save(self, folder: str | Path) -> Path:
        """Write what was learned, and how it scores, into a folder, for `Run.load` and `penstock score`; return it.

        The folder appears whole or not at all; an earlier run in it is replaced. Raises OutputError; OptionError where the run has no result.
        """
        from penstock.output import write_folder
        from penstock.runs.saved import run_files

        if self.result is None:
            raise bad_value("save", "the cycle model has no result: save a run of another backend")
        scoring: Scoring | ScoreError
        try:
            scoring = self.scoring
        except ScoreError as problem:
            scoring = problem
        kernel, engine = "", ""
        if self.saved is not None:
            kernel, engine = self.saved["kernel"], self.saved["engine"]
        elif self.design is not None:
            kernel, engine = self.design.name, self.design.engine_name
        files = run_files(kernel, engine, self.result, self._names, self.facts, scoring)
        return write_folder(folder, files)

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Return the run that `save` wrote: its result, and what scores. Raises FolderError (E806)."""
        from penstock.runs.saved import read_run

        manifest, result, scoring = read_run(folder)
        saved = {**manifest, "scoring": scoring}
        return cls("saved", result, None, None, {}, facts=manifest["facts"], saved=saved)

    def to_sql(
        self, url: str, name: str, if_exists: str = "fail", *, view: str | None = None
    ) -> int:
        """Write the learned models into a table of a PostgreSQL server, in one transaction; return
        how many rows were written. See `penstock.host.sources.postgres.write_models`.

        Parameters: `view`: the name of a view to make of the table that `?table=` of the address names, with all its columns and the score, an
        expression in float8 that is NULL where a value that it uses is NULL.

        Raises SourceError; OptionError for an `if_exists` that there is not; ScoreError (E631, E633) where there is no such
        expression; RunError for a run that was stopped, OptionError for one of the model, which has no result.
        """
        from penstock.host.sources.postgres import IF_EXISTS, write_models

        if if_exists not in IF_EXISTS:
            raise not_one_of("if_exists", if_exists, IF_EXISTS)
        if (result := self.result) is None:
            raise bad_value(
                "to_sql", "the cycle model has no result: write that of another backend"
            )
        select = None
        if view is not None:
            from penstock.scores.sql import score_select

            scoring = self.scoring
            with self._used():
                score_select(scoring, name)  # what it refuses, before the server is asked
            select = lambda table: score_select(scoring, table)
        return write_models(
            url, name, result, if_exists, names=self._names, view=view, select=select
        )

    def __repr__(self) -> str:
        how = str(self.errors[0]) if self.errors else "done"
        if self.rows_skipped is not None:
            how += f", {self.rows_used:,} rows used, {self.rows_skipped:,} skipped"
        cycles = "" if self.cycles is None else f", {self.cycles:,} cycles"
        names = "" if self.values is None else f", result {', '.join(self.values)}"
        return f"<Run on {self.backend}: {how}{cycles}{names}>"


def _answered(backend: str, workload: Workload, answer: Result, **measured: Any) -> Run:
    """Return the run that gave an answer; `measured`: its fields of cycles, counters and time."""
    codes, errors = answer.codes, () if answer.error is None else (answer.error,)
    values = None if codes is None else workload.values(codes)
    details = {} if codes is None else workload.details(codes)
    return Run(
        backend, values, codes, errors=errors, facts=answer.facts, details=details, **measured
    )


def golden(workload: Workload) -> Run:
    begin = perf_counter()
    answer = workload.golden()
    seconds = perf_counter() - begin
    counters = answer.counters
    return _answered("golden", workload, answer, cycles=None, counters=counters, seconds=seconds)


def model(workload: Workload, memory: Memory) -> Run:
    """Return the cycles of a run by the cycle model."""
    begin = perf_counter()
    commands: Callable[[], dict[str, int]] = dict
    if isinstance(memory, Dram):
        from penstock.models.memory.dram.memory import counted
        from penstock.sim.memory.dram import fast

        memory, commands = counted(fast(memory))
    cycles = workload.model(memory)
    return Run(
        "model",
        None,
        None,
        cycles.total,
        cycles.counters,
        () if cycles.error is None else (cycles.error,),
        cycles.facts,
        bound=cycles.bound,
        bound_machine=cycles.bound_machine,
        seconds=perf_counter() - begin,
        bytes_read=cycles.bytes_read,
        bytes_written=cycles.bytes_written,
        commands=commands(),
    )


def hardware(
    backend: str,
    workload: Workload,
    machine: Machine,
    *,
    watchdog: int | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Return what the hardware of a machine made of a workload, and its cycles."""
    from penstock.sim.machine import Metered

    meter = Metered(
        machine,
        watchdog=workload.watchdog if watchdog is None else watchdog,
        limit=limit,
        progress=progress,
    )
    answer = workload.drive(meter)
    total = meter.total
    return _answered(
        backend,
        workload,
        answer,
        cycles=total.cycles,
        counters={**total.counters, **answer.counters},
        seconds=total.seconds,
        bytes_read=total.bytes_read or None,
        bytes_written=total.bytes_written or None,
    )


# machines


def _format(waves: str | None) -> str:
    """Return the format of a file of waves, "" without one. Raises OptionError."""
    from penstock.sim.native import wave_format

    try:
        return "" if waves is None else wave_format(waves)
    except ValueError as problem:
        raise bad_value("waves", str(problem)) from None


def _native(
    design: Design,
    needed: int,
    memory: Mapping[str, Memory],
    *,
    waves: str | None = None,
    stall_percent: int = 0,
    seed: int = 1,
    optimise: str | None = None,
    vault: Mapping[str, int] | None = None,
) -> Machine:
    from penstock.sim.native.machine import NativeMachine

    library = design.library(trace=_format(waves), optimise=optimise)
    return NativeMachine(
        library, memory, stall_percent=stall_percent, seed=seed, waves=waves, vault=vault
    )


def _netlist(
    design: Design,
    needed: int,
    memory: Mapping[str, Memory],
    *,
    family: str | None = None,
    waves: str | None = None,
    stall_percent: int = 0,
    seed: int = 1,
    vault: Mapping[str, int] | None = None,
) -> Machine:
    from penstock.sim.native.machine import NativeMachine

    library = design.netlist_library(family, trace=_format(waves))
    return NativeMachine(
        library, memory, stall_percent=stall_percent, seed=seed, waves=waves, vault=vault
    )


def _python(
    design: Design,
    needed: int,
    memory: Mapping[str, Memory],
    *,
    waves: str | None = None,
    vault: Mapping[str, int] | None = None,
) -> Machine:
    from penstock.hdl.modules import Submodules
    from penstock.sim.python import PythonMachine

    if _format(waves) not in ("", "vcd"):
        raise bad_value("waves", f"Amaranth's simulator writes waves as VCD, not into {waves}")
    engine = design.component(Submodules())
    return PythonMachine(engine, design.bus_ports, memory, waves=waves, vault=vault)


def _board(
    design: Design, needed: int, memory: Mapping[str, Memory], *, device: Device | None = None
) -> Machine:
    from penstock.host.device.machine import DeviceMachine

    if device is None:
        machine = DeviceMachine(design.device_in_simulation(needed), owned=True)
    else:
        alone = max(port.space for port in design.bus_ports)
        machine = DeviceMachine(design.runs_on(device), memory=design.target.memory, alone=alone)
    try:
        machine.reserve(0, needed)  # said before anything is loaded
    except BaseException:
        machine.close()
        raise
    return machine


#: by backend, what opens a machine: design, bytes of memory that its runs take, the ports' timings,
#: options
MACHINES: dict[str, Callable[..., Machine]] = {
    "rtl": _native,
    "netlist": _netlist,
    "pysim": _python,
    "board": _board,
}
#: suffixes of files of waves, by the backends that write them
WAVES = {"rtl": (".fst", ".vcd"), "netlist": (".fst", ".vcd"), "pysim": (".vcd",)}
BACKENDS = ("golden", "model", *MACHINES)
#: options of `run` that are not the machine's
METERED = ("watchdog", "limit", "progress")
#: options of machines
_OF_MACHINES = ("family", "device", "waves", "stall_percent", "seed", "optimise")
#: the greatest number that each of these may be, None for any
_WHOLE = {"seed": None, "limit": None, "stall_percent": 99, "watchdog": 2**32 - 1}


def _known(backend: str) -> str:
    """Return the backend. Raises OptionError for one that there is not."""
    if backend not in BACKENDS:
        raise not_one_of("backend", backend, BACKENDS)
    return backend


def check_options(backend: str, options: Iterable[str]) -> None:
    """Raise OptionError for an option of runs or machines that runs on a backend do not take."""
    foreign = next((name for name in options if not _takes(backend, name)), None)
    if foreign is not None:
        takers = ", ".join(other for other in MACHINES if _takes(other, foreign))
        ending = f": it is for {takers}" if takers else ""
        known = (name for name in (*METERED, *_OF_MACHINES) if _takes(backend, name))
        raise no_option(f"a run on {backend}", foreign, known, ending)


def carry_out(
    design: Design,
    workload: Workload,
    backend: str,
    memory: Memory | None = None,
    **options: Any,
) -> Run:
    """Return the run of a workload on one backend; `options`: of machine and run.

    Raises OptionError for an unknown backend, and for options that it does not take.
    """
    check_options(_known(backend), options)
    if backend == "golden":
        return golden(workload)
    if backend == "model":
        return model(workload, design.memory if memory is None else memory)
    metered = {name: options.pop(name) for name in METERED if name in options}
    needed, vault = workload.memory_bytes(), workload.vault
    with design.machine(backend, needed, memory, vault=vault, **options) as machine:
        return hardware(backend, workload, machine, **metered)


def _takes(backend: str, name: str) -> bool:
    """Return whether runs on a backend have this option of machines; golden and model, which have
    no hardware, pass over those of every run."""
    if name in METERED:
        return True
    if backend not in MACHINES:
        return name in ("stall_percent", "seed", "optimise")
    return name in _OF_MACHINES and name in signature(MACHINES[backend]).parameters


def parted(
    design: Design, backend: str, options: Mapping[str, Any], arguments: Collection[str], taker: str
) -> tuple[dict[str, Any], dict[str, Any], int | None]:
    """Return the options of runs and machines, those that are the `taker`'s `arguments`, and the seed of what the design draws. Raises OptionError."""
    of_machines = (*METERED, *_OF_MACHINES)
    machine = {name: value for name, value in options.items() if name in of_machines}
    for name, most in _WHOLE.items():
        number = machine.get(name) or 0
        if not isinstance(number, (int, np.integer)) or not 0 <= number <= (most or number):
            up = f" to {most:,}" if most else ""
            raise bad_value(name, f"it must be a whole number from 0{up}, not {number!r}")
    seed = machine.get("seed") if "seed" in design.arguments else None
    if seed is not None and not _takes(_known(backend), "seed"):
        del machine["seed"]
    check_options(_known(backend), machine)
    rest = {name: value for name, value in options.items() if name not in of_machines}
    if unknown := next((name for name in rest if name not in arguments), None):
        raise no_option(taker, unknown, {*of_machines, *arguments})
    return machine, rest and hooks.taken(design.engine_name, rest), seed


def run(
    design: Design,
    data: Any = None,
    backend: str = "golden",
    *,
    memory: Memory | str | None = None,
    **options: Any,
) -> Run:
    """Run a design on data, see `Design.run`."""
    _known(backend)
    wide = max((port.data_bytes for port in design.bus_ports), default=0)
    timing = None if memory is None else timing_of(memory, design.target, wide)
    taker = f"a run of {design.name}"
    machine, options, seed = parted(design, backend, options, design.arguments, taker)
    args = design.opened(Given(data, data, seed=seed, options=options))
    workload = design.workload(args) if backend == "golden" else design.held(args)
    if backend in ("golden", "model"):
        machine = {}
    done = carry_out(design, workload, backend, timing, **machine)
    return replace(done, design=design, workload=workload)
