# amaranth: UnusedElaboratable=no
"""hdl/qr/givens: weights and new factors bit for bit the golden's, cycles the model's, several jobs interleaved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from amaranth.sim import Simulator

from penstock.hdl.qr.givens import Givens
from penstock.models.qr import factor
from penstock.models.qr.arith import add, codes, from_integer, mul
from penstock.models.qr.config import Config
from penstock.models.qr.job import Method
from penstock.models.qr.rotations import Folding, alone
from penstock.sim.pysim import drain, feed

KINDS = ("plain", "constant", "collinear", "equal", "empty", "few")


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
    a[:, 1:] = source.integers(-255, 256, (count, n - 1)) if kind != "close" else source.integers(-2, 3, (count, n - 1))
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
    before, new = {"empty": (before, 0), "few": (0, max(1, n // 2)), "equal": (0, new)}.get(kind, (before, new))
    a = matrix(source, n, before + new, kind)
    real = a.astype(np.float32)
    d, u = np.zeros(n, dtype=np.float32), np.zeros((n, n), dtype=np.float32)
    factor.fold(d, u, real[:before])
    load = [[int(x) for x in codes(np.concatenate([d[k:k + 1], u[k, k + 1:]]))] for k in range(n)] if before else []
    met = factor.fold(d, u, real[before:])
    squares = (a * a).sum(axis=0)
    c, h = from_integer(source.integers(-10**9, 10**9, n)), np.float32(source.integers(0, 10**6))
    solve_d, solve_u, keep, again = factor.full_rank(d, u, squares)
    weights = factor.solve(solve_d, solve_u, keep, c)
    if keep[0]:
        weights[0] = add(weights[0], h)
    limits = codes(mul(factor.TOLERANCE, from_integer(squares)))
    out = [int(x) for k in range(n) for x in codes(np.concatenate([d[k:k + 1], u[k, k + 1:]]))]
    return Case(Folding(n, tuple(met), tuple(again), not before), load, [[int(x) & 511 for x in row[1:]] for row in a[before:]],
                list(zip(codes(c).tolist(), limits.tolist(), strict=True)), int(codes(h)), codes(weights).tolist(),
                sum(1 << int(k) for k in np.flatnonzero(keep)), out)


def streams(config, cases):
    """What each stream carries: starts, factors' rows, new rows, right sides."""
    n = config.n_max
    starts = [{"columns": c.work.columns, "job": number, "fresh": c.work.fresh} for number, c in enumerate(cases)]
    load = [row + [0] * (n - len(row)) for c in cases for row in c.load]
    rows = [item for c in cases for item in [*({"a": row + [0] * (n - 1 - len(row)), "end": 0} for row in c.rows), {"a": [0] * (n - 1), "end": 1}]]
    side = [{"value": value, "limit": limit, "h": c.h, "last": k == len(c.side) - 1} for c in cases for k, (value, limit) in enumerate(c.side)]
    return starts, load, rows, side


def words(config, c):
    floats = config.bus_bytes // 4
    padded = c.factor + [0] * (-len(c.factor) % floats)
    return [sum(x << 32 * k for k, x in enumerate(padded[at:at + floats])) for at in range(0, len(padded), floats)]


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
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    starts, load, rows, side = streams(config, cases)
    simulator.add_testbench(feed(dut.start, starts, accepted))
    for seed, (stream, items) in enumerate(((dut.load, load), (dut.rows, rows), (dut.side, side))):
        simulator.add_testbench(feed(stream, items, pace=pace, seed=seed))
    simulator.add_testbench(drain(dut.factor, total, taken, pace=pace, seed=9, limit=limit))
    simulator.add_testbench(watch)
    simulator.run()
    return accepted[0], found, [(item.job, item.last, item.data) for _, item in taken]


def check(config, cases, found, factors):
    assert sorted(job for _, job, _, _ in found) == list(range(len(cases)))
    for _, job, mask, weights in found:
        expected = cases[job]
        assert mask == expected.mask and weights == expected.weights + [0] * (config.n_max - len(expected.weights))
    at = 0
    while at < len(factors):
        job = factors[at][0]
        expected = words(config, cases[job])
        part = factors[at:at + len(expected)]
        assert [data for _, _, data in part] == expected
        assert [last for _, last, _ in part] == [0] * (len(part) - 1) + [1] and {number for number, _, _ in part} == {job}
        at += len(part)


@pytest.mark.parametrize(("n", "vectors", "lanes", "contexts", "bus"), [(6, 2, 2, 2, 64), (5, 1, 1, 1, 8), (7, 3, 2, 3, 16)])
def test_jobs(n, vectors, lanes, contexts, bus):
    config = Config(n_max=n, method=Method.GIVENS, vectors=vectors, lanes=lanes, contexts=contexts, bus_bytes=bus, jobs=16)
    source = np.random.default_rng(n)
    kinds = ["plain", *KINDS, "plain", "close"]
    cases = [case(source, int(source.integers(2, n + 1)) if k % 3 == 2 else n, kind) for k, kind in enumerate(kinds)]
    first, found, factors = run(config, cases)
    check(config, cases, found, factors)
    assert found[-1][0] - first == alone(config, [c.work for c in cases])


def test_backpressure():
    config = Config(n_max=6, method=Method.GIVENS, vectors=2, lanes=2, contexts=2, bus_bytes=16, jobs=16)
    source = np.random.default_rng(1)
    cases = [case(source, 6, kind) for kind in KINDS]
    _, found, factors = run(config, cases, pace=0.3)
    check(config, cases, found, factors)
