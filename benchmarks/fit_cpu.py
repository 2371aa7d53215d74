"""A refit on this machine's CPU beside the engine: scipy's least squares, QR and qr_insert, exact Gram updates; and method against method."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

# one thread: groups are small; before NumPy loads its library
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from common import SEED, Options, Section, machine, main, markdown, random_table, repeated, versions

from penstock.api import Table, compile
from penstock.boards.catalogue import boards
from penstock.boards.clocks import REACH
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.dsl.qr.plan import Load, lower
from penstock.engines.qr.refit_c import FLAGS, GROUPS, REPEATS, Group, address, agree, keys_seconds
from penstock.models.memory import FixedLatency
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import Bound, bound, run
from penstock.models.qr.job import Method
from penstock.models.qr.resources import estimate
from penstock.models.qr.table_config import Segment
from penstock.models.qr.table_cycles import bound as fit_bound
from penstock.models.qr.table_cycles import run as fit_cycles
from penstock.models.strider.costs import analyse
from penstock.models.strider.rows import RowPages
from penstock.models.target import Target
from penstock.targets import target_named as target

SHAPES = ((500, 9), (5000, 33))
NEW = 50
#: the engine's algorithm in C
_CORE = "C: slots, moves, widened bounds"
_SAID = f"With {versions('scipy')}, one thread; C by {'gcc ' + ' '.join(FLAGS[2:4])}."
TARGETS = ("vu9p", "kcu105", "u55c", "ulx3s-85f-sdram")
#: boards whose device's block RAM is the engine's memory, at the clock that such an engine was placed with
BOARDS = ("ulx3s-85f", "ecp5-evn")


def ways(rows: int, columns: int) -> dict[str, Callable[[], Any]]:
    """Refits of a group of so many rows, `NEW` of them new, each as well as NumPy and SciPy do it (float64, inputs ready)."""
    from scipy.linalg import lstsq, qr, qr_insert, solve_triangular
    from scipy.linalg.lapack import dposv

    source = np.random.default_rng(SEED)
    keys = source.integers(48, 110, (rows + NEW, columns - 1))
    keys = keys[np.lexsort(keys.T[::-1])]
    a = np.ones((len(keys), columns))
    a[:, 1:] = keys - np.rint(keys.mean(axis=0))
    labels = np.arange(len(a), dtype=np.float64)
    new = np.sort(source.choice(len(a), NEW, replace=False))
    old = np.delete(a, new, axis=0)
    q, r = qr(old, mode="economic")
    gram, moments = old.T @ old, old.T @ (2 * np.delete(labels, new))
    fresh = np.ascontiguousarray(a[new])

    def errors(w: np.ndarray) -> tuple[float, float]:
        left = labels - a @ w
        return left.min(), left.max()

    def semi_normal(factor: np.ndarray) -> np.ndarray:
        c = labels @ a
        return np.asarray(
            solve_triangular(
                factor,
                solve_triangular(factor, c, trans="T", check_finite=False),
                check_finite=False,
            )
        )

    def inserted() -> Any:
        return qr_insert(q, r, fresh, len(old), which="row", check_finite=False)

    return {
        "lstsq of all rows": lambda: errors(
            lstsq(a, labels, check_finite=False, lapack_driver="gelsy")[0]
        ),
        "QR of all rows": lambda: errors(
            semi_normal(qr(a, mode="r", check_finite=False)[0][:columns])
        ),
        "qr_insert (Q and R)": lambda: errors(semi_normal(inserted()[1][:columns])),
        "QR of [R; new rows] (SIA)": lambda: errors(
            semi_normal(qr(np.vstack([r, fresh]), mode="r", check_finite=False)[0][:columns])
        ),
        "exact Gram, Cholesky": lambda: errors(dposv(gram + fresh.T @ fresh, labels @ a)[1]),
        "exact Gram, Cholesky; slots: no pass over rows": lambda: dposv(
            gram + fresh.T @ fresh, moments + fresh.T @ (2.0 * new)
        )[1],
    }


def planned(columns: int, part: Target, rows: int, method: str = "gram") -> FitPlan:
    text = f'fit f(key: key)\n  model <- least_squares(window(key, {columns - 1}), target=slot(key), method="{method}")\n'
    return lower(from_text(text).trace(), part, load=Load(rows, NEW))


#: an engine's place and MHz, cycles of a refit, and the bound
Engine = tuple[str, float, float, str]


def sustained(config: FitPlan, part: Target, rows: int, jobs: int) -> tuple[float, str]:
    """Cycles a refit when many follow one another, and their bound."""
    works = [Load(rows, NEW).work(config)] * jobs
    memory = FixedLatency(part.latency, config.bus_bytes if part.shared else part.bytes_per_cycle)
    least = bound(config, works, memory)
    return run(config, works, memory).total / jobs, f"{least.cycles // jobs:,} ({least.by})"


_HEADS = "rows × columns | refit | µs | ÷ best CPU | cycles | bound"


def _table(rows: Iterable[str]) -> str:
    return f"{markdown(_HEADS, rows)}\n\n{_SAID} {machine()}"


def _rows(label: str, times: dict[str, float], engines: Iterable[Engine]) -> Iterator[str]:
    """Yield ways of the CPU by their µs, and engines beside the best of them."""
    best = min(times.values())
    for name, micro in times.items():
        yield f"{label} | CPU: {name} | {micro:,.2f} | {micro / best:.2f} | | "
    for name, clock, cycles, least in engines:
        micro = cycles / clock
        yield f"{label} | engine on {name}, {clock:g} MHz | {micro:,.2f} | {micro / best:.2f} | {cycles:,.0f} | {least}"


def _engines(rows: int, columns: int, jobs: int) -> Iterator[Engine]:
    parts = [(f"`{name}`", target(name), target(name).clock_mhz) for name in TARGETS]
    for name in BOARDS:
        board = boards()[name]
        clock = REACH[board.family, board.pins.speed][3]
        parts.append((f"the board `{name}`, block RAM", board, clock))
    for name, part, clock in parts:
        try:
            config = planned(columns, part, rows)
        except KernelError:
            continue  # too small for it
        yield name, clock, *sustained(config, part, rows, jobs)


def cpu(options: Options) -> str:
    found: list[str] = []
    for rows, columns in SHAPES[:1] if options.quick else SHAPES:
        often = 3 if options.quick else 200 if columns < 20 else 60
        times = _micros(ways(rows, columns), often)
        moved, turns = {9: 38, 33: 10}[columns], 20 if options.quick else 2000
        times[_CORE] = keys_seconds(rows, columns, NEW, moved, turns) * 1e6
        engines = _engines(rows, columns, 16 if options.quick else 128)
        found += _rows(f"{rows:,} × {columns}", times, engines)
    return _table(found)


def _micros(ways: dict[str, Callable[[], Any]], often: int) -> dict[str, float]:
    return {name: min(repeated(action, often)) * 1e6 for name, action in ways.items()}


def methods(options: Options) -> str:
    found = []
    part = target("vu9p")
    for (rows, columns), method in product(SHAPES[:1] if options.quick else SHAPES, Method):
        fastest = planned(columns, part, rows, method.value)
        lanes = fastest.gram_lanes
        if method is Method.GRAM:
            lanes = min(lanes, 12 * (columns // 4))
        # the smallest engine beside the fastest one
        small = replace(fastest, gram_lanes=lanes, solvers=1, row_units=1)
        for name, config in (("fastest", fastest), ("one solver", small)):
            cycles, least = sustained(config, part, rows, 16 if options.quick else 64)
            need = estimate(config, part)
            found.append(
                f"{rows:,} × {columns} | {method.value} | {name} | {cycles:,.0f} | {least} | {need.dsp:,} | {need.lut:,} | "
                f"{cycles * need.dsp / 1000:,.0f}"
            )
    head = "rows × columns | method | engine | cycles a refit | bound | DSP | LUT | kilo DSP cycles a refit"
    return markdown(head, found)


def column_ways(rows: int, features: int) -> dict[str, Callable[[], Any]]:
    """Fits of the rows that are left when `NEW` came and as many went (float64, inputs ready)."""
    from scipy.linalg import lstsq
    from scipy.linalg.lapack import dposv

    source = np.random.default_rng(SEED)
    a = np.ones((rows + NEW, features + 1))
    a[:, 1:] = source.standard_normal((rows + NEW, features))
    y = a @ source.standard_normal(features + 1)
    come, gone, left = slice(rows, None), slice(0, NEW), slice(NEW, None)
    gram, moments = a[:rows].T @ a[:rows], y[:rows] @ a[:rows]

    def refit() -> Any:
        changed = gram + a[come].T @ a[come] - a[gone].T @ a[gone]
        return dposv(changed, moments + y[come] @ a[come] - y[gone] @ a[gone])[1]

    return {
        "lstsq of all rows": lambda: lstsq(
            a[left], y[left], check_finite=False, lapack_driver="gelsy"
        )[0],
        "Gram of all rows, Cholesky": lambda: dposv(a[left].T @ a[left], y[left] @ a[left])[1],
        "Gram update, Cholesky": refit,
    }


def table_seconds(rows: int, features: int, change: int, repeats: int = REPEATS) -> float:
    """Return the least seconds of a refit of a table when `change` rows come and as many go."""
    columns, source = features + 1, np.random.default_rng(1)
    values = source.standard_normal((rows + change, columns)).astype(np.float32)
    values[:, -1] = values[:, :-1] @ source.standard_normal(features)
    scale = 2.0 ** (16 - np.ceil(np.log2(np.abs(values).max() + 1)))
    units = np.rint(values.astype(np.float64) * scale)
    offsets, nothing = np.rint(units.mean(axis=0)), np.zeros((0, columns), dtype=np.float32)
    core = Group(columns, np.zeros(columns, dtype=np.int32))
    ends = (address(offsets), ctypes.c_double(scale))
    for at in range(0, rows, change):
        first = values[at : min(at + change, rows)]
        core.library.refit_table(
            address(core.bytes), address(first), len(first), address(nothing), 0, *ends
        )
    come = values[rows:]
    refit = (address(come), change, address(values), change, *ends)
    core.library.refit_table(address(core.bytes), *refit)
    a = units[change:] - offsets
    a, b = np.column_stack([np.ones(len(a)), a[:, :-1]]), a[:, -1]
    agree(a @ core.weights, a @ np.linalg.lstsq(a, b, rcond=None)[0])
    groups = core.many()
    return float(core.library.time_table(address(groups), GROUPS, *refit, repeats))


def column_refit(design: Any, table: Table, rows: int) -> tuple[int, Bound]:
    """Return the cycles of a refit with the table's last `NEW` rows that come and the first that go, and their bound."""
    engine = design.plan
    places, size = RowPages(analyse(engine.port, engine.walk, table.pages)), design.schema.page_size
    segments = []
    for first, last in ((rows, rows + NEW), (0, NEW)):
        page, skip, costs = places.span(first, last)
        segments.append((Segment(page * size, costs.pages, skip, last - first, page), costs))
    return fit_cycles(engine, segments, design.memory), fit_bound(
        engine, [segment for segment, _ in segments], design.memory
    )


def _column_engines(table: Table, rows: int) -> Iterator[Engine]:
    kernel = from_text("fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n")
    for name in ("vu9p", "u55c", "ulx3s-85f-sdram"):
        try:
            design = compile(kernel, name, table)
        except KernelError:
            continue  # too small for it
        cycles, least = column_refit(design, table, rows)
        yield f"`{name}`", design.target.clock_mhz, cycles, f"{least.cycles:,} ({least.by})"


def columns(options: Options) -> str:
    found: list[str] = []
    shapes = (1000, 10), (100_000, 10), (100_000, 30)
    for rows, features in shapes[: 1 if options.quick else None]:
        table = random_table(features, rows + NEW, "regression")
        times = _micros(column_ways(rows, features), 3 if options.quick else 100)
        turns = 20 if options.quick else 2000
        times["C: sums update, elimination"] = table_seconds(1000, features, NEW, turns) * 1e6
        found += _rows(f"{rows:,} × {features + 1}", times, _column_engines(table, rows))
    return _table(found)


SECTIONS = [
    Section("fit-cpu", True, cpu),
    Section("fit-methods", False, methods),
    Section("fit-columns", True, columns),
]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
