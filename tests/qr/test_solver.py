# amaranth: UnusedElaboratable=no
"""hdl/qr/solver: weights bit for bit the golden's, cycles the schedule's, several jobs interleaved."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.hdl.qr.solver import Solver
from penstock.host.workloads.groups import keys, mean_offsets
from penstock.models.qr.arith import add, codes, from_integer
from penstock.models.qr.config import FitPlan
from penstock.models.qr.factor import eliminate, solve
from penstock.models.qr.golden import right_side
from penstock.models.qr.job import Job, Label, Window
from penstock.models.qr.normal_equations import sum_all_rows
from penstock.models.qr.solver import alone
from testbench.pysim import feed, simulate


def case(source, n, kind):
    """The rows that load a random group's sums, and the golden's mask and weights."""
    rows = keys(source, 40, n - 1, 200)
    if kind == "constant":
        rows[:, 0] = 7
    if kind in ("collinear", "near") and n > 3:
        rows[:, 2] = rows[:, 1]
    if kind == "near":  # a pivot below its own limit, and above other columns'
        rows[5, 2] ^= 1
    if kind == "tiny":  # sums of squares that are far apart: each pivot has its own limit
        rows[:, 1::2] = 0
        rows[3, 1::2] = range(1, 1 + len(rows[3, 1::2]))
        rows[9, 1], rows[:, 0::2] = 1, source.integers(0, 2, rows[:, 0::2].shape) * 255
    offsets = mean_offsets(rows)
    if kind == "empty":
        rows = rows[:0]
    exact = sum_all_rows(
        Job(
            0,
            Window(0, n - 1),
            offsets,
            rows,
            labels=np.sort(source.choice(400, len(rows), replace=False)),
        ),
        True,
    )
    c, middle = right_side(exact)
    d, u, keep = eliminate(exact.gram)
    weights = solve(d, u, keep, c)
    if keep[0]:
        weights[0] = add(weights[0], middle)
    gram = codes(from_integer(exact.gram))
    columns = [[int(gram[i, j]) for i in range(j + 1)] for j in range(n)]
    return (
        [*columns, codes(c).tolist()],
        int(codes(middle)),
        sum(1 << int(k) for k in np.flatnonzero(keep)),
        codes(weights).tolist(),
    )


def run(config, cases):
    n_max = config.n_max
    dut = Solver(config)
    items, found, accepted = [], [], []
    for job, (rows, middle, _, _) in enumerate(cases):
        n = len(rows) - 1
        for j, values in enumerate(rows):
            items.append(
                {
                    "columns": n,
                    "row": j,
                    "side": j == n,
                    "h": middle,
                    "job": job,
                    "values": values + [0] * (n_max - len(values)),
                }
            )

    async def watch(ctx):
        for cycle in range(6000):
            *_, valid, job, mask, weights = await ctx.tick().sample(
                dut.o_valid, dut.o.job, dut.o.mask, dut.o.weights
            )
            if valid:
                found.append((cycle, job, mask, [weights[k] for k in range(n_max)]))
            if len(found) == len(cases):
                return
        raise AssertionError("did not finish")

    simulate(dut, feed(dut.i, items, accepted), watch)
    return accepted[0], found


@pytest.mark.parametrize(("contexts", "jobs"), [(1, 5), (3, 10)])
def test_jobs(contexts, jobs):
    config = FitPlan(n_max=6, target=Label.SLOT, gram_lanes=21, lanes=6, contexts=contexts, jobs=16)
    source = np.random.default_rng(contexts)
    kinds = [
        "plain",
        "constant",
        "tiny",
        "near",
        "collinear",
        "empty",
        "tiny",
        "plain",
        "plain",
        "collinear",
    ]
    cases = [
        case(source, int(source.integers(2, 7)) if kind == "plain" else 6, kind)
        for kind in kinds[:jobs]
    ]
    first, found = run(config, cases)
    assert sorted(job for _, job, _, _ in found) == list(range(jobs))
    for _, job, mask, weights in found:
        _, _, keep, expected = cases[job]
        assert (
            mask == keep
            and weights[: len(expected)] == expected
            and not any(weights[len(expected) :])
        )
    assert found[-1][0] - first == alone(config, [len(rows) - 1 for rows, *_ in cases])


def test_too_few_lanes():
    with pytest.raises(ValueError, match="a row a cycle"):
        Solver(FitPlan(n_max=6, lanes=5))
