"""hdl/qr/engine in its shell, in Verilator: results, memos and the rest of memory bit for bit, and cycles one for one, whatever the jobs and the memory are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from penstock.hdl.modules import ModuleLibrary
from penstock.hdl.qr.engine import FitEngine
from penstock.host.workloads.groups import Group, keys
from penstock.models.errors import ErrorCode, HardwareError
from penstock.models.memory import FixedLatency
from penstock.models.qr.cycles import Work, run
from penstock.models.qr.golden import refit
from penstock.models.qr.image import place_jobs
from penstock.models.qr.job import Fit, Label, Method
from penstock.models.qr.layout import Size, change_words, row_stride, words
from penstock.models.qr.shell import FitError
from penstock.sim.native import Session
from testbench.faults import fail_read, fail_write
from testbench.qr import build, simulate
from testbench.qr_cases import slot_plan
from testbench.qr_runs import compare, random_run

CONFIG = slot_plan(n_max=6, gram_lanes=12, bus_bytes=32, row_units=2, solvers=2, contexts=2, jobs=5)
GIVENS = replace(CONFIG, n_max=16, method=Method.GIVENS, gram_lanes=32, solvers=1, contexts=1)
RANKS = {"target": Label.RANK}
MEMORIES = [
    FixedLatency(20, 32),
    FixedLatency(1, 64),
    FixedLatency(57, 8),
    FixedLatency(8, 2),
    FixedLatency(200, 16),
]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(CONFIG, id="gram"),
        pytest.param(replace(GIVENS, n_max=6, bus_bytes=64, **RANKS), id="givens"),
        pytest.param(GIVENS, id="givens-16", marks=pytest.mark.long),
    ],
)
def engine(request):
    """A configuration and its compiled hardware."""
    return request.param, build(request.param)


def sweep(config, library, seeds, rows=60, count=12):
    """Random runs; returns how often each kind of result came."""
    seen: dict[str, int] = {}
    for seed in seeds:
        source = np.random.default_rng([config.n_max, config.bus_bytes, seed])
        jobs = random_run(config, source, int(source.integers(1, count)), rows)
        memory = (
            MEMORIES[seed % len(MEMORIES)]
            if seed % 2
            else FixedLatency(int(source.integers(1, 80)), int(source.choice([2, 8, 32, 64, 128])))
        )
        found = compare(config, library, jobs, memory, seed=seed, damage=seed % 3 == 0)
        assert found.bit_exact and found.cycles in (None, found.simulated.cycles), seed
        assert found.simulated.counters["jobs_failed"] == sum(
            isinstance(result, HardwareError) for result in found.expected
        )
        assert found.simulated.counters["jobs_ended"] == len(jobs)
        for result in found.expected:
            name = (
                result.code.name
                if isinstance(result, HardwareError)
                else "rescanned"
                if result.rescanned
                else "widened"
            )
            seen[name] = seen.get(name, 0) + 1
    return seen


def test_random_runs(engine):
    config, library = engine
    seen = sweep(config, library, range(24))
    assert (
        min(
            seen[name]
            for name in (
                "rescanned",
                # ranks take passes over all rows, and have no order of slots
                *(["widened", "QR_ORDER"] if config.target is Label.SLOT else []),
                "QR_MEMO",
                "QR_WINDOW",
                "QR_COLUMNS",
                *(["QR_DOWNDATE"] if config.method is Method.GIVENS else []),
            )
        )
        >= 3
    )


@pytest.mark.long  # the engine above with rotations has ranks as well
@pytest.mark.parametrize("base", [CONFIG, GIVENS], ids=["gram", "givens"])
def test_ranks_by_passes(base):
    config = replace(base, n_max=6, bus_bytes=16, **RANKS)
    seen = sweep(config, build(config), range(12))
    assert seen["rescanned"] >= 20


def test_stalls_change_no_result(engine):
    config, library = engine
    for seed in range(6):
        source = np.random.default_rng([9, seed])
        jobs, stalls = random_run(config, source, 6), (20, 50, 80)[seed % 3]
        found = compare(
            config,
            library,
            jobs,
            MEMORIES[seed % 3],
            stall_percent=stalls,
            seed=seed,
            damage=seed % 2 == 0,
        )
        assert found.bit_exact, seed


def test_larger_groups(engine):
    config, library = engine
    source = np.random.default_rng(3)
    found = compare(config, library, random_run(config, source, 4, 1500), FixedLatency(30, 32))
    assert found.bit_exact and found.simulated.cycles == found.cycles


def test_traffic_grows_with_the_changes_alone():
    """Bytes on the bus of a refit in slots, its list of changes aside: the same for any group."""
    library, source = build(CONFIG), np.random.default_rng(8)
    seen = set()
    for number, rows in enumerate((100, 1000, 20_000)):
        group = Group(CONFIG, keys(source, rows, 5), number, density=0.5)
        fit = refit(group.full(), CONFIG)
        assert isinstance(fit, Fit)
        group.take(fit)
        job = group.batch(
            keys(source, 10, 5), np.sort(source.choice(rows, 5, replace=False)), 1 << 20
        )
        found = compare(CONFIG, library, [job], FixedLatency(20, 32))
        work = Work.of(job, found.expected[0], CONFIG)
        assert found.bit_exact and found.simulated.cycles == found.cycles and not work.rescanned
        seen.add(
            (
                found.simulated.bytes_read - CONFIG.bus_bytes * change_words(work.size, CONFIG),
                found.simulated.bytes_written,
            )
        )
    assert len(seen) == 1


def test_many_jobs_a_start(engine):
    config, library = engine
    jobs = random_run(config, np.random.default_rng(6), 10, rows=8) * 26
    found = compare(config, library, jobs, FixedLatency(30, 32))
    assert (
        found.bit_exact
        and found.simulated.cycles == found.cycles
        and found.simulated.counters["jobs_ended"] == 260
    )


@pytest.mark.parametrize("memory", [FixedLatency(10, 32), FixedLatency(1, 64)], ids=str)
def test_stopped_halfway(engine, memory):
    """After a soft reset in any cycle of a run the engine is as new: nothing that was in a pipeline comes out of it."""
    config, library = engine
    image = place_jobs(random_run(config, np.random.default_rng(7), 4, rows=30), config)
    cycles, ends = set(), set()
    with Session(library, memory) as session:
        memory = image.memory.copy()
        session.map(image.base, memory)
        for stop in (0, 100, *range(300, 500, 5), 800):
            memory[:] = image.memory
            if stop:
                session.write("ring", image.base)
                session.write("jobs", 4)
                session.start()
                session.step(stop)
                session.stop()
            memory[:] = image.memory
            report = session.run({"ring": image.base, "jobs": 4}, limit=100_000)
            cycles.add(report.cycles)
            ends.add(memory.tobytes())
            assert report.error is None
    assert len(cycles) == len(ends) == 1


def test_a_row_without_its_bit(engine):
    """A full job with fewer bits than rows is in error; the jobs around it are not."""
    config, library = engine
    source = np.random.default_rng(12)
    jobs = [Group(config, keys(source, 40, 5), number).full() for number in range(5)]
    image, expected, works = place_jobs(jobs, config), [], []
    for number, job in enumerate(jobs):
        result = refit(job, config)
        if number % 2:
            size = Size.of(job)
            behind = words(size.places * row_stride(5), config.bus_bytes) * config.bus_bytes
            image.memory[image.places[number].rows - image.base + behind] ^= 1
            result = HardwareError(FitError.QR_DESCRIPTOR, number)
            seen = replace(
                job, rows=job.rows[1:], labels=None if job.labels is None else job.labels[1:]
            )
            live = np.isin(np.arange(size.places), seen.target_labels() + (job.labels is None))
            works.append(
                replace(
                    Work.of(seen, result, config), size=replace(size, span=size.places), live=live
                )
            )
        else:
            works.append(Work.of(job, result, config))
        expected.append(result)
    cycles = run(config, works, MEMORIES[0], image.places, image.base).total
    ended = simulate(config, library, jobs, placed=image, memory=MEMORIES[0])
    assert ended.cycles == cycles
    assert [ended.results[k] for k in (1, 3)] == [expected[k] for k in (1, 3)]
    for k in (0, 2, 4):
        assert (ended.results[k].weights == expected[k].weights).all()


def test_no_jobs_and_errors_of_the_bus(engine):
    config, library = engine
    source = np.random.default_rng(5)
    assert simulate(config, library, []).cycles == 1
    jobs = [Group(config, keys(source, 30, 5), number).full() for number in range(3)]
    image = place_jobs(jobs, config)
    with Session(library, FixedLatency(10, 32)) as session:
        memory = image.memory.copy()
        session.map(image.base, memory)
        for fail, code in (
            (partial(fail_read, session), ErrorCode.BUS_READ),
            (partial(fail_write, session), ErrorCode.BUS_WRITE),
        ):
            fail(0, 2)
            report = session.run({"ring": image.base, "jobs": 3}, limit=100_000)
            assert report.error is not None and report.error.code is code
        report = session.run(
            {"ring": image.base, "jobs": 3}, limit=100_000
        )  # and it goes on as if nothing had been
        assert report.error is None and report.counters["jobs_ended"] == 3


def test_what_there_is_no_hardware_for():
    with pytest.raises(ValueError, match="hardware"):
        FitEngine(replace(CONFIG, gram_lanes=13), ModuleLibrary())


#: of a configuration, in the order of the table below
SHAPE = "n_max bus_bytes gram_lanes row_units solvers contexts jobs".split()


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ((4, 8, 10, 1, 1, 1, 1), {}),
        ((9, 64, 45, 8, 3, 4, 16), {**RANKS}),
        ((5, 16, 6, 2, 1, 2, 4), {**RANKS}),
        ((12, 64, 24, 4, 1, 1, 8), {**RANKS, "method": Method.GIVENS}),
        ((24, 32, 300, 4, 2, 2, 8), {**RANKS}),
        ((4, 16, 12, 1, 1, 1, 4), {**RANKS, "method": Method.GIVENS}),
        ((5, 8, 12, 1, 1, 1, 4), {"method": Method.GIVENS}),
        ((9, 64, 18, 8, 1, 1, 16), {**RANKS, "method": Method.GIVENS}),
        ((16, 16, 40, 1, 1, 1, 1), {**RANKS, "method": Method.GIVENS}),
        ((33, 64, 66, 2, 1, 1, 8), {"method": Method.GIVENS}),
        ((64, 64, 128, 1, 1, 1, 4), {"method": Method.GIVENS}),
        ((17, 16, 51, 1, 2, 3, 7), {}),
        ((33, 64, 561, 2, 2, 4, 16), {}),
        ((64, 128, 200, 2, 1, 2, 4), {}),
    ],
)
def test_configurations(shape, more):
    config = replace(CONFIG, **dict(zip(SHAPE, shape, strict=True)), **more)
    library = build(config)
    sweep(config, library, range(150))
    sweep(config, library, range(200, 206), rows=10_000, count=4)
