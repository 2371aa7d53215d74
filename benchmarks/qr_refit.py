"""Refits of learned-index models: sustained refits, traffic against rows, folding a block, ways to bounds, method against method."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from common import Options, Section, main, markdown

from penstock.dsl.core.load import from_text
from penstock.dsl.qr.plan import Load, lower
from penstock.host.workloads.groups import Group, keys
from penstock.models.memory.timing import FixedLatency
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import Work, bound, run
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Fit, Label, Method
from penstock.models.qr.layout import Size
from penstock.models.qr.resources import estimate
from penstock.models.qr.solver import alone
from penstock.targets import target_named as target

SHAPES = ((500, 9), (5000, 33))
NEW = 50
MEMORY = FixedLatency(40, 64)
#: a pass over all rows when the window is this much wider than at the last one
WIDER = 1.5
#: a group in slots that has grown so much since it was trained is trained afresh, its array spread anew
GROWN = 1.4
BASE = FitPlan(
    n_max=33,
    method=Method.GRAM,
    gram_lanes=561,
    row_units=2,
    solvers=4,
    contexts=4,
    jobs=32,
)
SLOTS = replace(BASE, target=Label.SLOT)


def sequence(
    config: FitPlan,
    rows: int,
    columns: int,
    refits: int,
    gone: int = 0,
    wider: float = WIDER,
    seed: int = 1,
    grown: float | None = None,
) -> tuple[list[Work], list[float]]:
    """Refits of one group, `NEW` rows in and `gone` out each, after its first training; and how much wider each published window is than the true one.

    `grown`: a group that has grown by this factor since its last training is trained afresh before its next refit, as one more job.
    """
    source = np.random.default_rng(seed)
    length = columns - 1
    group = Group(config, keys(source, rows, length, 62, 48), density=0.5)
    first = refit(group.full(), config)
    assert isinstance(first, Fit)
    group.take(first)
    width, trained = first.err_max - first.err_min, rows
    works, ratios = [], []
    for _ in range(refits):
        if grown and len(group.rows) >= grown * trained:
            job = group.full()
            fit = refit(job, config)
            assert isinstance(fit, Fit)
            group.take(fit)
            width, trained = fit.err_max - fit.err_min, len(group.rows)
            works.append(Work.of(job, fit, config))
        doomed = np.sort(source.choice(len(group.rows), gone, replace=False))
        job = group.batch(keys(source, NEW, length, 62, 48), doomed, int(wider * width))
        fit = refit(job, config)
        assert isinstance(fit, Fit)
        group.take(fit)
        width = fit.err_max - fit.err_min if fit.rescanned else width
        errors = job.target_labels() - fit.predict(job.rows)
        ratios.append((fit.err_max - fit.err_min + 1) / (errors.max() - errors.min() + 1))
        works.append(Work.of(job, fit, config))
    return works, ratios


def sustained(
    config: FitPlan, works: list[Work], memory: FixedLatency, groups: int = 16
) -> tuple[float, str, float, float]:
    """Cycles a refit (trainings count as cycles, not as refits) when so many groups like this one refit in turn; the bound, words read and written
    a refit."""
    every = [work for work in works for _ in range(groups)]
    result, least = run(config, every, memory), bound(config, every, memory)
    count = sum(not work.size.full for work in every)
    said = f"{least.cycles // count:,} ({least.by})"
    return result.total / count, said, result.words_read / count, result.words_written / count


REFITS = "rows × columns | target | cycles a refit | bound | KiB read | passes | rows moved | window ÷ true | µs"


def refits(options: Options) -> str:
    rows = []
    part = target("vu9p")
    memory = FixedLatency(part.latency, part.bytes_per_cycle)
    steady = "slots; 50 rows out as well"
    growing = f"slots; trained afresh after each {GROWN - 1:.0%} of growth, which counts"
    for shape in SHAPES[:1] if options.quick else SHAPES:
        for name in ("ranks", "slots", steady, growing):
            config = BASE if name == "ranks" else SLOTS
            counts = {steady: (60, 20), growing: (20, 60)}.get(name, (4, 20))
            count = 4 if options.quick else counts[shape[0] != 500]
            gone, grown = NEW * (name == steady), GROWN if name == growing else None
            works, ratios = sequence(config, *shape, count, gone, grown=grown)
            cycles, least, read, _ = sustained(config, works, memory)
            passes = sum(work.rescanned for work in works)
            moves = sum(work.size.moved for work in works) / count
            us = cycles / part.clock_mhz
            rows.append(
                f"{shape[0]:,} × {shape[1]} | {name} | {cycles:,.0f} | {least} | {read * part.bus_bytes / 1024:.1f} | "
                f"{passes} of {count} | {moves:.0f} | {np.mean(ratios):.2f} | {us:.2f}"
            )
    table = markdown(REFITS, rows)
    found = estimate(SLOTS, part)
    said = ", ".join(
        f"{getattr(found, what):,} of {getattr(part, what):,} {what.upper()}"
        for what in ("dsp", "lut", "bram")
    )
    return f"{table}\n\nEstimated for slots: {said}."


def traffic(options: Options) -> str:
    """Bytes and cycles of a refit of 50 new rows against the group's rows: the first refit after a training, without a pass for bounds."""
    rows = []
    memory = FixedLatency(40, 64)
    for count in (500, 5000) if options.quick else (500, 5000, 15_000, 50_000, 500_000):
        works, _ = sequence(SLOTS, count, 33, 1, wider=1000)
        assert not works[0].rescanned
        cycles, _, read, written = sustained(SLOTS, works, memory, 64)
        rows.append(
            f"{count:,} | {read * 64 / 1024:.1f} | {written * 64 / 1024:.1f} | {works[0].size.moved} | {cycles:,.0f}"
        )
    return markdown("rows (33 columns) | KiB read | KiB written | rows moved | cycles", rows)


def folding(options: Options) -> str:
    """A dense 64 × 32 block on `givens`, 33 multipliers: the solver alone, from the start to the weights, and in the whole engine."""
    rows = []
    config = FitPlan(n_max=32, method=Method.GIVENS, gram_lanes=64, row_units=2)
    for name, size in (
        ("fresh factor", Size(32, 64, full=True)),
        ("64 new rows of 500", Size(32, 500, inserted=64)),
        ("32 new rows of 500, 32 gone", Size(32, 500, inserted=32, removed=32)),
    ):
        work = Work.plain(size, True)
        alone_, whole_ = alone(work), run(config, [work] * 8, MEMORY).total / 8
        busy = work.multiplications(config) / alone_ / config.n_max
        rows.append((name, f"{alone_:,}", f"{busy:.0%}", f"{whole_:,.0f}"))
    head = "64 × 32 | cycles of the solver | multipliers busy | a job of 8 in the engine"
    return markdown(head, rows)


def whole(options: Options) -> str:
    """A whole retrain of 500 keys, 50 new, 9 columns: everything by passes over all rows, and with slots and widened bounds."""
    rows = []
    by_method = {
        Method.GRAM: FitPlan(n_max=9, gram_lanes=45, row_units=8, contexts=8),
        Method.GIVENS: FitPlan(n_max=9, method=Method.GIVENS, row_units=8, gram_lanes=18),
    }
    every = Work.plain(Size(9, 500, inserted=NEW), True)
    moved = Work.plain(Size(9, 500, inserted=NEW, moved=NEW, span=1000), False)
    for method, passes in by_method.items():
        slots = replace(passes, target=Label.SLOT)
        for name, config, work in (("passes", passes, every), ("slots", slots, moved)):
            for jobs in (1, 64):
                works = [work] * jobs
                cycles, least = run(config, works, MEMORY).total, bound(config, works, MEMORY)
                rows.append(
                    f"{method.value} | {name} | {jobs} | {cycles:,} | {cycles / jobs:,.0f} | {least.cycles:,} ({least.by}) | "
                    f"{cycles / least.cycles:.2f}"
                )
    return markdown("method | c and bounds | jobs | cycles | a job | bound | ratio", rows)


def methods(options: Options) -> str:
    """Jobs of one kind, many after one another, by either method: the fastest engine, and the smallest of its lanes."""
    found = []
    part = target("vu9p")
    memory = FixedLatency(part.latency, part.bytes_per_cycle)
    for (rows, columns), method in product(SHAPES[:1] if options.quick else SHAPES, Method):
        text = f'fit f(key: key)\n  model <- least_squares(window(key, {columns - 1}), target=slot(key), method="{method.value}")\n'
        fastest = lower(from_text(text).trace(), part, load=Load(rows, NEW))
        lanes = fastest.gram_lanes
        if method is Method.GRAM:
            lanes = min(lanes, 12 * (columns // 4))
        small = replace(fastest, gram_lanes=lanes, solvers=1, row_units=1)
        for name, config in (("fastest", fastest), ("one solver", small)):
            work = Load(rows, NEW).work(config)
            cycles, least, _, _ = sustained(config, [work], memory, 16 if options.quick else 64)
            need = estimate(config, part)
            found.append(
                f"{rows:,} × {columns} | {method.value} | {name} | {cycles:,.0f} | {least} | {need.dsp:,} | {need.lut:,} | "
                f"{cycles * need.dsp / 1000:,.0f}"
            )
    head = "rows × columns | method | engine | cycles a refit | bound | DSP | LUT | kilo DSP cycles a refit"
    return markdown(head, found)


SECTIONS = [
    Section("qr-refits", False, refits),
    Section("qr-traffic", False, traffic),
    Section("qr-folding", False, folding),
    Section("qr-whole", False, whole),
    Section("fit-methods", False, methods),
]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
