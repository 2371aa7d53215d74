"""Points of a sweep: plain data, and the row that each gives, the same in any process."""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.designs.cache import digest_of
from penstock.dsl.core.builder import GraphBuilder
from penstock.dsl.core.kernel import AnyKernel
from penstock.engines.base import Design, Given, Workload
from penstock.engines.discovery import engine_named
from penstock.host.sources import Table
from penstock.models.inputs import MEMORY, Input, InputError
from penstock.models.target import RESOURCES, Target
from penstock.passes.compiling import compiled
from penstock.runs.accounts import Moved, account, machine_of
from penstock.runs.failures import USER, failure

if TYPE_CHECKING:
    from penstock.runs.run import Run

FITS = "fits"
#: what a row says of a point that fits, beside what was asked for: what `figures` returns
FIGURES: dict[str, type] = {
    "plan": str,
    "clock_mhz": float,
    "clock_evidence": str,
    "cycles": int,
    "drawn": str,
    "bound": int,
    "bound_by": str,
    "bound_machine": int,
    "engine_seconds": float,
    "seconds": float,
    "joules": float,
    "kg_co2": float,
    "cost": float,
    **dict.fromkeys(RESOURCES, int),
    **{f"{name}_share": float for name in RESOURCES},
}


def figures(
    design: Design, workload: Workload, run: Run, link: str | None = None
) -> dict[str, Any]:
    """Return what a row says of a point that fits: plain data by the names of `FIGURES`; `link`: in place of the target's."""
    part, need, bound = design.target, design.resources, run.bound
    machine_bound, cycles = run.bound_machine, run.cycles
    paid = None
    if cycles is not None:
        moved = Moved(*workload.moved())
        paid = account(cycles, machine_of(part, need, link), moved, design.memory, run.commands)
    total = None if paid is None else float(paid.seconds.total)
    row = {
        "plan": json.dumps(plain(design.config())),
        "clock_mhz": part.clock_mhz,
        "clock_evidence": part.clock.evidence,
        "cycles": cycles,
        "drawn": workload.drawn or None,
        "bound": None if bound is None else bound.cycles,
        "bound_by": None if bound is None else bound.by,
        "bound_machine": None if machine_bound is None else machine_bound.cycles,
        "engine_seconds": None if paid is None else float(paid.seconds.engine),
        "seconds": total,
        "joules": None if paid is None else paid.energy.joules,
        "kg_co2": None if paid is None or paid.carbon is None else paid.carbon.kg,
        "cost": _cost(part.price, total),
    }
    for name, share in need.shares(part).items():
        row |= {name: getattr(need, name), f"{name}_share": share if getattr(part, name) else None}
    return row


def _cost(price: str, seconds: float | None) -> float | None:
    """Return what a run costs, in the currency of a price by the hour; None where there is none."""
    return None if not price or seconds is None else float(price.split()[0]) * seconds / 3600


@dataclass(frozen=True)
class Point:
    """One design with one run. `key`: a digest of all that decides its row; `format`: its name;
    `options`: the engine's own, swept or not."""

    key: str
    target: Target
    format: str | None
    memory: Any
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """What all points of a sweep share. `args`: with its data at hand."""

    kernel: AnyKernel
    engine: str
    args: Given

    def at(self, point: Point) -> Given:
        settings = {"format": point.format, "memory": point.memory, "options": point.options}
        return replace(self.args, **settings)

    def design(self, point: Point, args: Given) -> Design:
        """Return the point's design. Raises KernelError, SourceError."""
        kernel = copy.copy(self.kernel)  # compiling leaves warnings on a kernel
        return compiled(engine_named(self.engine), kernel, point.target, args, search=False)

    def row(self, point: Point) -> dict[str, Any]:
        """Return what becomes of a point: `status`, and its figures where it fits. Never raises."""
        from penstock.runs.run import model

        args = self.at(point)
        try:
            design = self.design(point, args)
            workload = design.held(args)
            run = model(workload, design.memory)
            if run.errors:
                return {"status": f"refused: {run.errors[0]}"}
            row = {"status": FITS, "format": design.format_name}
            return row | figures(design, workload, run, args.link)
        except Exception as problem:
            report = failure(problem)
            code, message = report.errors[0]["code"], " ".join(report.errors[0]["message"].split())
            if report.exit_code == USER and not isinstance(problem, (OSError, MemoryError)):
                return {"status": f"refused: {code} {message}"}
            return {"status": f"failed: {message}"}

    def digest(self) -> str:
        """Return a digest of the kernel's graph, the data and all code that decides rows.

        Raises KernelError where the kernel and its data do not go together.
        """
        kernel, args = copy.copy(self.kernel), self.args
        dims, table = args.option("dims", {}), args.data
        if hasattr(table, "schema"):
            dims = engine_named(self.engine).sizes(kernel, args)
        if hasattr(kernel, "trace"):
            graph = kernel.trace(dims)
        elif hasattr(kernel, "body"):
            builder = GraphBuilder(kernel.dialect, kernel.parameters, dims, kernel.source)
            graph = kernel.body(builder), builder.nodes
        else:
            graph = None
        which = table.digest if isinstance(table, Table) else [table, args.source]
        data = plain([which, args.rows, args.seed, args.link], True)
        return digest([plain(kernel), plain(graph), data, code_of(*self.modules)])

    @property
    def modules(self) -> tuple[str, ...]:
        """Where the code of engine and dialect stands."""
        return type(engine_named(self.engine)).__module__, type(self.kernel).__module__


def digest(value: Any) -> str:
    """Return the digest of plain data."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


_FILE = Input("a file", "", most=MEMORY)
#: fields that say where something stands, or what a graph says anyway
_PLACES = {"source", "file", "span", "name_span", "warnings", "function", "statements"}


def plain(value: Any, files: bool = False) -> Any:
    """Return a value as JSON has it, the same for equal values in any process: arrays by their
    digest, and no places. `files`: texts may name files, whose content counts."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and files:
        try:
            return [value, hashlib.sha256(_FILE.data(value)).hexdigest()]
        except InputError:  # no file
            return value
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        return [str(data.dtype), list(data.shape), hashlib.sha256(data.data).hexdigest()]
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        items = {f.name: getattr(value, f.name) for f in fields(value) if f.name not in _PLACES}
        return [type(value).__name__, plain(items, files)]
    if isinstance(value, Mapping):
        return {str(name): plain(value[name], files) for name in sorted(value, key=str)}
    if isinstance(value, (list, tuple, range)):
        return [plain(each, files) for each in value]
    import cloudpickle

    return hashlib.sha256(cloudpickle.dumps(value)).hexdigest()


@cache
def code_of(*modules: str) -> str:
    """Return a digest of all code that decides rows: Penstock's, and that of the packages, or
    single files, that these modules belong to."""
    rooms = [
        f"penstock{room}" for room in ("", ".boards", ".dsl", ".hdl", ".host", ".models", ".sim")
    ]
    others = {name.partition(".")[0] for name in modules} - {"penstock", "__main__"}
    files = {name: Path(importlib.import_module(name).__file__ or "") for name in (*rooms, *others)}
    packages = sorted((n, f.parent) for n, f in files.items() if f.name == "__init__.py")
    single = sorted(f.read_text() for f in files.values() if f.name != "__init__.py")
    python = ".".join(platform.python_version_tuple()[:2])
    return digest_of(packages, [python, np.__version__, *single])
