"""The cycle model: figures that the engine is built for, and sanity of the schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.host.workloads.groups import Group, keys
from penstock.models.memory.timing import FixedLatency
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import Work, bound, run
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Fit, Label, Method
from penstock.models.qr.layout import Size
from penstock.models.qr.programs import tasks
from penstock.models.qr.resources import estimate
from penstock.models.qr.solver import alone
from penstock.targets import target_named as target
from testbench.qr_cases import slot_plan

MEMORY = FixedLatency(40, 64)
REFIT = slot_plan(
    n_max=33,
    method=Method.GRAM,
    gram_lanes=561,
    row_units=2,
    solvers=4,
    contexts=4,
    jobs=32,
)


@pytest.mark.parametrize("columns", [32, 33])
def test_fold_of_a_dense_block(columns):
    """On 33 multipliers, from the start to the weights; a published one takes 17,800 cycles on about 63."""
    assert alone(Work.plain(Size(columns, 64, full=True), True)) <= 12_000


@pytest.mark.parametrize(
    ("size", "most"),
    [
        (Size(33, 5000, inserted=50, moved=50, span=10_000), 390),
        (Size(9, 500, inserted=50, moved=50, span=1000), 150),
    ],
)
def test_sustained_refits(size, most):
    work = Work.plain(size, False)
    result = run(REFIT, [work] * 64, MEMORY)
    assert result.total / 64 <= most
    larger = Work.plain(replace(size, rows=100 * size.rows, span=100 * size.span), False)
    assert larger.read(REFIT) == work.read(REFIT)
    assert estimate(REFIT, target("vu9p")).dsp <= target("vu9p").dsp / 4


@pytest.mark.parametrize(
    "config",
    [
        FitPlan(n_max=9, gram_lanes=45, row_units=8, contexts=8),
        slot_plan(n_max=9, gram_lanes=45, contexts=8),
    ],
)
def test_whole_retrain_near_its_bound(config):
    slots = config.target is Label.SLOT
    works = [
        Work.plain(
            Size(9, 500, inserted=50, moved=50, span=1000) if slots else Size(9, 500, inserted=50),
            not slots,
        )
    ] * 64
    assert run(config, works, MEMORY).total <= 1.25 * bound(config, works, MEMORY).cycles


def test_never_below_the_bound():
    source = np.random.default_rng(2)
    for _ in range(40):
        method = list(Method)[source.integers(2)]
        several = int(source.integers(1, 4))
        config = FitPlan(
            n_max=16,
            method=method,
            target=list(Label)[source.integers(2)],
            gram_lanes=136 if method is Method.GIVENS else int(source.choice([12, 24, 60, 120])),
            row_units=int(source.choice([1, 2, 4])),
            solvers=several if method is Method.GRAM else 1,
            contexts=int(source.integers(1, 5)),
            jobs=int(source.integers(1, 9)),
            bus_bytes=int(source.choice([16, 64])),
        )
        memory = FixedLatency(int(source.integers(1, 60)), int(source.choice([2, 8, 64])))
        works = []
        for _ in range(6):
            columns, rows, inserted = (
                int(source.integers(low, high)) for low, high in ((2, 17), (1, 200), (0, 20))
            )
            full = bool(source.random() < 0.2)
            size = Size(
                columns,
                rows,
                inserted=inserted,
                full=full,
                span=2 * rows if config.incremental else 0,
            )
            works.append(
                Work.plain(size, full or bool(source.random() < 0.5) or not config.incremental)
            )
        result, least = run(config, works, memory), bound(config, works, memory)
        assert result.total >= least.cycles
        assert result.words_read == sum(sum(work.read(config)) for work in works)
        # the accumulator takes a cycle for a job's end
        assert result.sums_busy == sum(work.sums_cycles(config) for work in works) + len(works)
        assert all(result.done)


def test_work_of_random_jobs():
    """Sequences of real jobs go through the cycle model, dropped columns included."""
    source = np.random.default_rng(3)
    for method in Method:
        config = slot_plan(n_max=8, method=method, gram_lanes=36)
        rows = keys(source, 80, 5, 20)
        rows[:, 2] = rows[:, 1]
        group = Group(config, rows)
        works = []
        job = group.full()
        for _ in range(5):
            fit = refit(job, config)
            assert isinstance(fit, Fit)
            works.append(Work.of(job, fit, config))
            group.take(fit)
            job = group.batch(keys(source, 4, 5, 20), np.zeros(0, dtype=np.int64))
        assert (
            not works[0].keep[3]
            and run(config, works, MEMORY).total >= bound(config, works, MEMORY).cycles
        )


def test_schedules_do_all_the_work():
    n = 9
    givens = FitPlan(n_max=n, method=Method.GIVENS)
    five = Work.plain(Size(n, 100, inserted=3, removed=2), True)
    assert five.multiplications(givens) == 5 * (3 * n * (n - 1) // 2 + 3 * n) + n * (n - 1) + n + 1
    # a task for each row loaded, each column scaled, each row behind it, each step back
    assert len(tasks(n)) == n + 1 + n + n * (n + 1) // 2 + n
    assert all(at < number for number, task in enumerate(tasks(n)) for at, _ in task.after)


def test_configurations_that_cannot_be():
    for bad in (
        {"n_max": 3},
        {"jobs": 0},
        {"method": Method.GIVENS, "solvers": 2},
    ):
        with pytest.raises(ValueError):
            FitPlan(**bad)
    assert FitPlan.from_json(REFIT.to_json()) == REFIT
    with pytest.raises(TypeError, match="blocks"):
        FitPlan.from_json({**REFIT.to_json(), "blocks": 4, "vectors": 1})
    with pytest.raises(ValueError, match="no hardware"):
        run(slot_plan(n_max=33, gram_lanes=5), [], MEMORY)
