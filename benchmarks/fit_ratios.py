"""All ratios of fits to a CPU in one table, both sides in one run: the engine's cycles at its target's clock beside one core in C."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

# one thread, before NumPy loads its library
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from common import SEED, Options, Section, machine, main, markdown, random_table, repeated
from qr_refit import BASE, NEW, SHAPES, SLOTS

from penstock.api import Table, compile
from penstock.dsl.core.load import from_text
from penstock.engines.base import Given
from penstock.engines.qr import refit_c
from penstock.engines.qr.refit_c import FLAGS, GROUPS, Group, address, agree, keys_seconds
from penstock.host.least_squares import Rows
from penstock.host.workloads.groups import Group as Keys
from penstock.host.workloads.groups import keys
from penstock.models.memory import FixedLatency
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import Work, run
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Fit
from penstock.models.qr.table_config import Segment
from penstock.models.qr.table_cycles import run as fit_cycles
from penstock.models.strider.costs import analyse
from penstock.models.strider.row_pages import RowPages
from penstock.scores.scoring import score_design
from penstock.sim.native.toolchain import build_text
from penstock.targets import target_named

PART = target_named("vu9p")
JOBS = (1, 8, 64)
LATENCIES = (40, 400)
#: rows of the fits over columns
ROWS, FEATURES = 10_000, 10
#: the least of so many runs counts
BEST_OF = 3


def _url(source: np.random.Generator, count: int, length: int) -> np.ndarray:
    """Words from a small vocabulary, as addresses have them."""
    words = [bytes(source.integers(97, 123, n).astype(np.uint8)) for n in source.integers(2, 7, 40)]
    odds = 1 / np.arange(1, 41)
    texts = [
        b"/".join(words[k] for k in source.choice(40, length, p=odds / odds.sum()))[:length]
        for _ in range(count)
    ]
    return np.frombuffer(b"".join(texts), np.uint8).reshape(count, length)


def _sequential(first: int, count: int, length: int) -> np.ndarray:
    texts = [f"{n:0{length}d}".encode() for n in range(first, first + count)]
    return np.frombuffer(b"".join(texts), np.uint8).reshape(count, length)


def _new(kind: str, source: np.random.Generator, group: Keys, trained: int) -> np.ndarray:
    length = group.rows.shape[1]
    if kind == "URL-like":
        return _url(source, NEW, length)
    if kind == "sequential":
        return _sequential(trained, NEW, length)
    found = keys(source, NEW, length, 62, 48)
    if kind == "hot prefix":
        found[:, : length // 2] = group.rows[len(group.rows) // 2, : length // 2]
    return found


KINDS = ("uniform", "URL-like", "hot prefix", "sequential")


@cache
def key_works(
    config: FitPlan, rows: int, columns: int, kind: str, refits: int
) -> tuple[Work, list[Work], int]:
    """Return the first training, refits with `NEW` new keys each, and how many rows a refit moves, an even number."""
    source, length = np.random.default_rng(SEED), columns - 1
    first = (
        _url(source, rows, length)
        if kind == "URL-like"
        else _sequential(0, rows, length)
        if kind == "sequential"
        else keys(source, rows, length, 62, 48)
    )
    group = Keys(config, first, density=0.5)
    job = group.full()
    fit = refit(job, config)
    assert isinstance(fit, Fit)
    group.take(fit)
    training, found = Work.of(job, fit, config), []
    width, trained = fit.err_max - fit.err_min, rows
    for _ in range(refits):
        new = _new(kind, source, group, trained)
        job = group.batch(new, np.zeros(0, dtype=np.int64), int(1.5 * width))
        fit = refit(job, config)
        assert isinstance(fit, Fit)
        group.take(fit)
        width, trained = (fit.err_max - fit.err_min if fit.rescanned else width), trained + NEW
        found.append(Work.of(job, fit, config))
    moved = sum(work.size.moved for work in found) // len(found)
    return training, found, moved + moved % 2


def engine_seconds(config: FitPlan, works: list[Work], jobs: int, latency: int) -> float:
    """Return the seconds of a job when so many groups' follow one another, and wait for the last."""
    total = sum(run(config, [work] * jobs, FixedLatency(latency, 64)).total for work in works)
    return total / len(works) / jobs / (PART.clock_mhz * 1e6)


@cache
def _built(columns: int) -> ctypes.CDLL:
    parts = [Path(refit_c.__file__).with_name("refit.c"), Path(__file__).with_suffix(".c")]
    text = f"#define COLUMNS {columns}\n" + "".join(part.read_text() for part in parts)
    loaded = ctypes.CDLL(str(build_text("fit_ratios", text, FLAGS)))
    for name in ("time_fit", "time_pass", "time_limbs", "time_rows", "time_dgelss"):
        getattr(loaded, name).restype = ctypes.c_double
    return loaded


def _least(action: Any) -> float:
    return min(float(action()) for _ in range(BEST_OF))


def refit_seconds(rows: int, columns: int, moved: int, turns: int) -> float:
    """Return the least seconds of one core for a refit in slots."""
    return _least(lambda: keys_seconds.__wrapped__(rows, columns, NEW, moved, turns))


def fit_seconds(rows: int, columns: int, fresh: int, turns: int) -> float:
    """Return the least seconds of one core for a fit of all rows (`fresh` = rows: a training; else a refit of ranks; 0: a pass alone)."""
    letters = keys(np.random.default_rng(SEED), rows, columns - 1, 62, 48)
    stored = np.zeros((rows, -(-(columns + 1) // 8) * 8), dtype=np.uint8)
    stored[:, 0], stored[:, 1:columns] = 1, letters
    labels, offsets = np.arange(rows, dtype=np.int32), np.zeros(columns, dtype=np.int32)
    offsets[1:] = np.rint(letters.mean(axis=0))
    library, core = _built(columns), Group(columns, offsets)

    def timed(count: int) -> float:
        ends = (rows, count, address(offsets), turns if count == fresh else 1)
        return float(library.time_fit(address(core.bytes), address(stored), address(labels), *ends))

    timed(rows)
    if not fresh:
        ends = (address(stored), address(labels), rows, turns)
        return _least(lambda: library.time_pass(address(core.bytes), *ends))
    a = stored[:, :columns].astype(float) - offsets
    agree(a @ core.weights, a @ np.linalg.lstsq(a, labels.astype(float), rcond=None)[0])
    return _least(lambda: timed(fresh))


def dgelss_seconds(rows: int, columns: int, turns: int) -> float:
    """Return the least seconds of LAPACK's dgelss, called from C by the pointer that SciPy has of it."""
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__["dgelss"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    place = ctypes.c_void_p(pointer(capsule, name(capsule)))
    source = np.random.default_rng(SEED)
    a = np.asfortranarray(source.integers(-31, 32, (rows, columns)).astype(float))
    b, spare = np.arange(rows, dtype=float), np.zeros(rows * (columns + 1))
    work = np.zeros(rows * 64 + 64 * columns * columns)
    flat = np.ascontiguousarray(a.T)
    ends = (rows, address(spare), address(work), len(work), turns)
    found = _least(lambda: _built(columns).time_dgelss(place, address(flat), address(b), *ends))
    best = np.linalg.lstsq(a, b, rcond=None)[0]
    agree(a @ spare[rows * columns :][:columns], a @ best)
    return found


def _row(what: str, case: str, core: float, engine: float) -> tuple[str, ...]:
    ratio = core / engine
    mark = f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}** loses"
    return what, case, f"{core * 1e6:,.2f}", f"{engine * 1e6:,.2f}", mark


def _each(
    what: str, case: str, core: float, config: FitPlan, works: list[Work]
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each number of jobs at once and each latency."""
    for jobs, latency in product(JOBS, LATENCIES):
        said = f"{case}{', ' * bool(case)}{jobs} at once, latency {latency}"
        yield _row(what, said, core, engine_seconds(config, works, jobs, latency))


def key_rows(options: Options) -> Iterator[tuple[str, ...]]:
    turns, count = (20, 2) if options.quick else (2000, 6)
    for rows, columns in SHAPES[:1] if options.quick else SHAPES:
        shape = f"{rows:,} × {columns}"
        for kind in KINDS:
            _, works, moved = key_works(SLOTS, rows, columns, kind, count)
            # a core has to go over all rows as often as the engine
            passes = sum(work.rescanned for work in works) / len(works)
            core = refit_seconds(rows, columns, min(moved, 400), turns)
            core += passes * fit_seconds(rows, columns, 0, turns // 20 + 1)
            yield from _each(f"refit in slots, {shape}", kind, core, SLOTS, works)
        core = fit_seconds(rows, columns, NEW, turns // 20 + 1)
        _, works, _ = key_works(BASE, rows, columns, "uniform", count)
        yield from _each(f"refit of ranks, {shape}", "uniform", core, BASE, works)
        core = fit_seconds(rows, columns, rows, turns // 20 + 1)
        training = [key_works(SLOTS, rows, columns, "uniform", count)[0]]
        svd = dgelss_seconds(rows, columns, turns // 100 + 1)
        yield from _each(f"training, {shape}", "", core, SLOTS, training)
        yield from _each(f"training, {shape}, the core by dgelss", "", svd, SLOTS, training)


def table_seconds(rows: int, features: int, change: int, repeats: int) -> float:
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


def column_refit(design: Any, table: Table, rows: int) -> int:
    """Return the cycles of a refit with the table's last `NEW` rows that come and the first that go."""
    engine = design.plan
    places, size = RowPages(analyse(engine.port, engine.walk, table.pages)), design.schema.page_size
    segments = []
    for first, last in ((rows, rows + NEW), (0, NEW)):
        page, skip, costs = places.span(first, last)
        segments.append((Segment(page * size, costs.pages, skip, last - first, page), costs))
    return fit_cycles(engine, segments, design.memory)


def column_rows(options: Options) -> Iterator[tuple[str, ...]]:
    rows = 1000 if options.quick else ROWS
    turns = 3 if options.quick else 50
    shape = f"{rows:,} × {FEATURES + 1}"
    kernel = from_text("fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n")
    table = random_table(FEATURES, rows + NEW, "regression")
    library, source = _built(FEATURES + 1), np.random.default_rng(SEED)
    for limbs in (1, 2):
        design = compile(kernel, PART, table, limbs=limbs)
        cycles = column_refit(design, table, rows)
        q = source.integers(-(1 << 17 * limbs - 1), 1 << 17 * limbs - 1, (rows, FEATURES + 1))
        sums = np.zeros(((FEATURES + 1) ** 2, 2), dtype=np.int64)
        core = _least(lambda q=q, s=sums: library.time_limbs(address(q), rows, address(s), turns))
        assert int(sums[0, 0]) & (1 << 63) - 1 == sum(int(v) ** 2 for v in q[:, 0]) & (1 << 63) - 1
        clock = design.target.clock_mhz * 1e6
        if limbs == 1:
            again = _least(lambda: table_seconds(1000, FEATURES, NEW, turns * 20))
            case = f"1 limb, {NEW} in and out"
            yield _row(f"refit of columns, {shape}", case, again, cycles / clock)
        given = Given(table, table, options={"refits": 0})
        whole = design.workload(given).model(design.memory).total
        assert whole is not None
        case = f"{limbs} limb{'s' * (limbs > 1)}, C in __int128"
        yield _row(f"training of columns, {shape}", case, core, whole / clock)
    x = source.standard_normal((rows, FEATURES + 1))
    w, gradient, scores = np.ones(FEATURES), np.zeros(FEATURES), np.zeros(rows)
    ends = (rows, address(w), address(gradient), address(scores), turns)
    core = _least(lambda: library.time_rows(address(x), *ends))
    columns = Rows(list(x.T))
    columns.step(np.zeros(FEATURES, np.longdouble))
    host = min(repeated(lambda: columns.step(np.zeros(FEATURES, np.longdouble)), BEST_OF))
    case = "our host's, no hardware; C in float64"
    yield _row(f"a pass of refinement, {shape}", case, core, host)
    ends = (rows, address(w), None, address(scores), turns)
    core = _least(lambda: library.time_rows(address(x), *ends))
    scoring = compile(kernel, PART, table).run(table, "golden").scoring
    design: Any = score_design(scoring, table, table, PART)
    total = design.workload(Given(table, table)).model(design.memory).total
    engine = total / (design.target.clock_mhz * 1e6)
    yield _row(f"scores, {shape}", "from pages; C from arrays in its cache", core, engine)


def ratios(options: Options) -> str:
    rows = [*key_rows(options), *column_rows(options)]
    lost = sum("loses" in row[-1] for row in rows)
    heads = "work | case | one core in C, µs | ours, µs | core ÷ ours"
    said = (
        f"{lost} of {len(rows)} rows lose. Ours: cycle model on `{PART.name}` at {PART.clock_mhz:g} MHz, the target's clock, "
        f"not a placed one. C by gcc {' '.join(FLAGS[2:4])}, best of three."
    )
    return f"{markdown(heads, rows)}\n\n{said} {machine()}"


SECTIONS = [Section("fit-ratios", True, ratios)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
