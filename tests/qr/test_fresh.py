"""Fresh configurations, drawn by seed: RTL = golden = model, bits and cycles, of keys, rotations, columns and scores, under HBM2, DDR4 and memory of a
fixed latency."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from penstock.dsl.core.scores import linear
from penstock.engines.score import Scoring
from penstock.host.sources import open_table
from penstock.models.memory import FixedLatency, Memory, parse_memory
from penstock.models.qr import columns as c
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Label, Method
from penstock.models.qr.table_cycles import run
from penstock.scores.scoring import score_design, score_table
from penstock.targets import target_named
from testbench.qr import SIMULATED, build, fit_pages, pack_answer
from testbench.qr_runs import compare, random_run

from .test_table_engine import Table, spans

Source = np.random.Generator


def drams() -> list[Memory]:
    """Both at 150 MHz, and one whose clock has an odd ratio."""
    return [parse_memory(text, 150.0) for text in ("hbm2", "ddr4-2400", "hbm2,ratio=3/7")]


def fixed(source: Source, most: int = 64) -> Memory:
    return FixedLatency(int(source.integers(1, 90)), int(source.choice([2, 8, most])))


def drawn_keys(source: Source, method: Method) -> FitPlan:
    """Return a plan that there is hardware for."""
    givens = method is Method.GIVENS
    n = int(source.integers(4, 8 if givens else 9))
    return FitPlan(
        n_max=n,
        bus_bytes=int(source.choice([8, 16, 32])),
        method=method,
        target=list(Label)[source.integers(2)],
        gram_lanes=2 * n if givens else int(source.integers(1, n * (n + 1) // 2 + 1)),
        row_units=int(source.choice([1, 2, 4])),
        solvers=1 if givens else int(source.integers(1, 4)),
        contexts=1 if givens else int(source.integers(1, 4)),
        jobs=int(source.integers(1, 9)),
    )


def keys(source: Source, method: Method = Method.GRAM) -> None:
    """Slots and ranks, with jobs that change groups, and jobs that are wrong."""
    plan = drawn_keys(source, method)
    while not plan.built:
        plan = drawn_keys(source, method)
    library = build(plan)
    for memory in (fixed(source), *drams()):
        for damage in (False, True):
            jobs = random_run(plan, source, int(source.integers(1, 9)))
            seed = int(source.integers(1000))
            found = compare(plan, library, jobs, memory, seed=seed, damage=damage)
            assert found.bit_exact and found.cycles == found.simulated.cycles, (plan, memory)


def givens(source: Source) -> None:
    keys(source, Method.GIVENS)


def columns(source: Source) -> None:
    """Of one to three limbs, with rows that come and go."""
    features, most = int(source.choice([1, 2, 3, 5])), int(source.integers(1, 4))
    null, far = str(source.choice(["error", "skip"])), float(source.choice([0, 1e9]))
    table = Table(int(source.integers(1 << 20)), features, most, 160, on_null=null, far=far)
    lanes = int(source.integers(1, c.Columns(table.limbs, 1).products + 1))
    shape = int(source.choice([8, 16, 32])), int(source.integers(1, 3)), 2
    plan = table.engine(lanes, *shape, int(source.integers(2, 12)))
    library, (before_at, after_at) = build(plan), SIMULATED.answers
    for memory in (fixed(source), *drams()):
        for _ in range(2):
            held = int(source.integers(len(table.rows)))
            (come, go), given = spans(source, plan, table)
            before = c.add_rows(table.empty(), table.rows[: max(held, go[1] - go[0])])
            after = c.add_rows(before, table.rows[slice(*come)])
            after = c.remove_rows(after, table.rows[slice(*go)])
            segments = [segment for segment, _ in given]
            found = fit_pages(
                plan, library, table.pages, before, segments, memory=memory, limit=1_000_000
            )
            assert found.error is None and found.answer is not None
            assert (found.answer == pack_answer(after, c.solve(after), plan)).all(), (plan, memory)
            cycles = run(plan, given, memory, totals=before_at, answer=after_at)
            assert found.cycles == cycles, (plan, memory)


def scores(source: Source) -> None:
    """Of fits, in float32. The cycles of scores have a model where memory has a fixed latency (E634)."""
    features, rows = int(source.integers(1, 7)), int(source.integers(1, 300))
    kinds = source.choice(["f4", "f8", "i2", "i4"], features)
    numbers = 8 * source.standard_normal((rows, features))
    data = {f"x{k}": np.rint(numbers[:, k]).astype(kind) for k, kind in enumerate(kinds)}
    if source.random() < 0.5:
        data["x0"] = np.ma.masked_array(data["x0"], source.random(rows) < 0.1)
    weights, part = source.standard_normal(features), target_named("small")
    kernel, schema = linear("line", weights, float(source.normal())), open_table(data).schema
    used, policy = {"x": tuple(data)}, {"on_null": "skip"}
    scoring = Scoring(kernel, used, schema, "float32", part, policy)
    table = score_table(scoring, data)
    shape = {"lanes": int(source.integers(1, features + 1)), "threads": int(source.integers(1, 5))}
    design = score_design(scoring, table, table, **shape)
    for memory in (fixed(source, 4), fixed(source, 4), *drams()):
        golden, found = (design.run(table, name, memory=memory) for name in ("golden", "rtl"))
        assert golden.errors == found.errors == () and golden.codes is not None
        assert np.array_equal(golden.codes["prediction"], found.codes["prediction"]), (
            shape,
            memory,
        )
        assert golden.facts == found.facts
        if isinstance(memory, FixedLatency):
            assert design.run(table, "model", memory=memory).cycles == found.cycles, (shape, memory)


KINDS: tuple[Callable[[Source], None], ...] = (keys, columns, givens, scores)
QUICK = (0, 13)  # keys; columns, rows of which go
SEEDS = [s if s in QUICK else pytest.param(s, marks=pytest.mark.long) for s in range(60)]


@pytest.mark.parametrize("seed", SEEDS)
def test_fresh_configurations(seed: int) -> None:
    KINDS[seed % 4](np.random.default_rng([28, seed]))
