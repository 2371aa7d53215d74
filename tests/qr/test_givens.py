# amaranth: UnusedElaboratable=no
"""hdl/qr/givens: weights and new factors bit for bit the golden's, cycles the model's, several jobs interleaved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from penstock.hdl.qr.givens import Givens
from penstock.models.qr import factor
from penstock.models.qr.arith import add, codes, from_integer, mul
from penstock.models.qr.config import FitPlan
from penstock.models.qr.folding import Folding
from penstock.models.qr.job import Method
from penstock.models.qr.rotations import alone
from testbench.pysim import drain, feed, simulate
from testbench.streams import build_streams, run_streams

KINDS = ("plain", "constant", "collinear", "close", "equal", "empty", "few")


@dataclass(frozen=True)
class Case:
    """A job at the solver's ports, and what it gives."""

    work: Folding
    load: list[list[int]]
    rows: list[list[int]]
    side: list[tuple[int, int]]
    h: int
    weights: list[int]
    mask: int
    factor: list[int]


def matrix(source, n, count, kind):
    """The design matrix of random rows of bytes."""
    a = np.ones((count, n), dtype=np.int64)
    a[:, 1:] = (
        source.integers(-255, 256, (count, n - 1))
        if kind != "close"
        else source.integers(-2, 3, (count, n - 1))
    )
    if kind == "constant":
        a[:, 1 + source.integers(n - 1)] = source.integers(-1, 2)
    if kind in ("collinear", "close") and n > 3:
        a[:, 3] = a[:, 1] + a[:, 2] if source.random() < 0.5 else a[:, 2] - 1
        a = np.clip(a, -255, 255)
    if kind == "equal" and count:
        a[:] = a[0]
    return a


def case(source, n, kind, before=30, new=9):
    """A job: a factor of some rows before, or none, and new ones."""
    before, new = {"empty": (before, 0), "few": (0, max(1, n // 2)), "equal": (0, new)}.get(
        kind, (before, new)
    )
    a = matrix(source, n, before + new, kind)
    real = a.astype(np.float32)
    d, u = np.zeros(n, dtype=np.float32), np.zeros((n, n), dtype=np.float32)
    factor.fold(d, u, real[:before])
    load = (
        [[int(x) for x in codes(np.concatenate([d[k : k + 1], u[k, k + 1 :]]))] for k in range(n)]
        if before
        else []
    )
    met = factor.fold(d, u, real[before:])
    squares = (a * a).sum(axis=0)
    c, h = from_integer(source.integers(-(10**9), 10**9, n)), np.float32(source.integers(0, 10**6))
    solve_d, solve_u, keep, again = factor.full_rank(d, u, squares)
    weights = factor.solve(solve_d, solve_u, keep, c)
    if keep[0]:
        weights[0] = add(weights[0], h)
    limits = codes(mul(factor.TOLERANCE, from_integer(squares)))
    out = [int(x) for k in range(n) for x in codes(np.concatenate([d[k : k + 1], u[k, k + 1 :]]))]
    return Case(
        Folding(n, tuple(met), tuple(again), not before),
        load,
        [[int(x) & 511 for x in row[1:]] for row in a[before:]],
        list(zip(codes(c).tolist(), limits.tolist(), strict=True)),
        int(codes(h)),
        codes(weights).tolist(),
        sum(1 << int(k) for k in np.flatnonzero(keep)),
        out,
    )


def streams(config, cases):
    """What each stream carries: starts, factors' rows, new rows, right sides."""
    n = config.n_max
    starts = [
        {"columns": c.work.columns, "job": number, "fresh": c.work.fresh}
        for number, c in enumerate(cases)
    ]
    load = [row + [0] * (n - len(row)) for c in cases for row in c.load]
    rows = [
        item
        for c in cases
        for item in [
            *({"a": row + [0] * (n - 1 - len(row)), "end": 0} for row in c.rows),
            {"a": [0] * (n - 1), "end": 1},
        ]
    ]
    side = [
        {"value": value, "limit": limit, "h": c.h, "last": k == len(c.side) - 1}
        for c in cases
        for k, (value, limit) in enumerate(c.side)
    ]
    return starts, load, rows, side


def words(config, c):
    floats = config.bus_bytes // 4
    padded = c.factor + [0] * (-len(c.factor) % floats)
    return [
        sum(x << 32 * k for k, x in enumerate(padded[at : at + floats]))
        for at in range(0, len(padded), floats)
    ]


def run(config, cases, pace=1.0, limit=20_000):
    """The first start's cycle, the solutions, the factors."""
    dut = Givens(config)
    accepted, found, taken = [], [], []
    total = sum(len(words(config, c)) for c in cases)

    async def watch(ctx):
        for cycle in range(limit):
            *_, valid, o = await ctx.tick().sample(dut.o_valid, dut.o)
            if valid:
                found.append((cycle, o.job, o.mask, [o.weights[k] for k in range(config.n_max)]))
            if len(found) == len(cases):
                return
        raise AssertionError("did not finish")

    starts, load, rows, side = streams(config, cases)
    fed = ((dut.load, load), (dut.rows, rows), (dut.side, side))
    simulate(
        dut,
        feed(dut.start, starts, accepted),
        *(feed(stream, items, pace=pace, seed=k) for k, (stream, items) in enumerate(fed)),
        drain(dut.factor, total, taken, pace=pace, seed=9, limit=limit),
        watch,
    )
    return accepted[0], found, [(item.job, item.last, item.data) for _, item in taken]


def check(config, cases, found, factors):
    assert sorted(job for _, job, _, _ in found) == list(range(len(cases)))
    for _, job, mask, weights in found:
        expected = cases[job]
        assert mask == expected.mask and weights == expected.weights + [0] * (
            config.n_max - len(expected.weights)
        )
    at = 0
    while at < len(factors):
        job = factors[at][0]
        expected = words(config, cases[job])
        part = factors[at : at + len(expected)]
        assert [data for _, _, data in part] == expected
        assert [last for _, last, _ in part] == [0] * (len(part) - 1) + [1] and {
            number for number, _, _ in part
        } == {job}
        at += len(part)


def test_jobs():
    """In Amaranth's own simulator."""
    config = FitPlan(
        n_max=5, method=Method.GIVENS, vectors=2, lanes=2, contexts=2, bus_bytes=16, jobs=16
    )
    source = np.random.default_rng(5)
    cases = [case(source, 5, "few"), case(source, 3, "plain", 10, 3), case(source, 5, "empty")]
    first, found, factors = run(config, cases)
    check(config, cases, found, factors)
    assert found[-1][0] - first == alone(config, [c.work for c in cases])


def run_built(built, config, cases, pace=1.0, seed=1):
    """As `run`, under Verilator."""
    given = {
        name: [pattern(built.inputs[name], item) for item in items]
        for name, items in zip(
            ("start", "load", "rows", "side"), streams(config, cases), strict=True
        )
    }
    accepted, out = run_streams(
        built,
        given,
        {"o": len(cases), "factor": sum(len(words(config, c)) for c in cases)},
        pace=pace,
        seed=seed,
    )
    solutions = [built.outputs["o"].from_bits(item) for item in out["o"].items]
    found = [
        (cycle, o.job, o.mask, [o.weights[k] for k in range(config.n_max)])
        for cycle, o in zip(out["o"].cycles, solutions, strict=True)
    ]
    return (
        accepted["start"][0],
        found,
        [
            (f.job, f.last, f.data)
            for f in map(built.outputs["factor"].from_bits, out["factor"].items)
        ],
    )


def pattern(shape, item):
    return shape.const(item).as_bits()


def sweep(config, seeds, most=12):
    built = build_streams(lambda parts: Givens(config, parts))
    dropped = 0
    for seed in range(seeds):
        source = np.random.default_rng(seed)
        cases = [
            case(
                source,
                int(source.integers(2, config.n_max + 1)),
                KINDS[source.integers(len(KINDS))],
                int(source.integers(1, 60)),
                int(source.integers(0, 50)),
            )
            for _ in range(int(source.integers(1, most)))
        ]
        dropped += sum(k is not None for c in cases for k in c.work.again)
        pace = 0.3 if seed % 4 == 3 else 1.0
        first, found, factors = run_built(built, config, cases, pace, seed + 1)
        check(config, cases, found, factors)
        if pace == 1:
            assert found[-1][0] - first == alone(config, [c.work for c in cases])
    assert dropped


@pytest.mark.long  # tests/qr/test_engine.py has the solver in a whole engine on every run
@pytest.mark.parametrize(("n", "vectors", "lanes", "contexts", "bus"), [(8, 2, 3, 3, 16)])
def test_random(n, vectors, lanes, contexts, bus):
    """Random jobs, at full pace in the model's cycles, and with stalls everywhere."""
    sweep(
        FitPlan(
            n_max=n,
            method=Method.GIVENS,
            vectors=vectors,
            lanes=lanes,
            contexts=contexts,
            bus_bytes=bus,
            jobs=16,
        ),
        24,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "vectors", "lanes", "contexts", "bus"),
    [
        (5, 1, 1, 1, 8),
        (7, 3, 2, 2, 64),
        (64, 3, 8, 2, 64),
        (33, 4, 4, 5, 32),
        (9, 8, 1, 8, 64),
        (16, 1, 20, 4, 8),
    ],
)
def test_configurations(n, vectors, lanes, contexts, bus):
    sweep(
        FitPlan(
            n_max=n,
            method=Method.GIVENS,
            vectors=vectors,
            lanes=lanes,
            contexts=contexts,
            bus_bytes=bus,
            jobs=16,
        ),
        40,
    )


@pytest.mark.long
def test_dense_block():
    """The goals: a block of 64 × 32 folded in 2,400 cycles by 63 multipliers, busy at least 60 % of the time with 8 groups interleaved."""
    config = FitPlan(n_max=32, method=Method.GIVENS, vectors=2, lanes=10, contexts=8, jobs=32)
    built = build_streams(lambda parts: Givens(config, parts))
    source = np.random.default_rng(1)
    for before in (0, 64):
        cases = [case(source, 32, "plain", before, 64) for _ in range(8)]
        first, found, factors = run_built(built, config, cases)
        check(config, cases, found, factors)
        cycles = found[-1][0] - first
        assert cycles == alone(config, [c.work for c in cases])
        assert sum(c.work.multiplications for c in cases) / cycles / 63 >= 0.6
        alone_first, (last,), _ = run_built(built, config, cases[:1])
        assert last[0] - alone_first == alone(config, [cases[0].work])
    fresh = case(source, 32, "plain", 0, 64).work
    assert alone(config, [fresh], rotated=True) <= 2400
