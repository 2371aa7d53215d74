"""The least distance from batch to batch of a lowered program on given units, by integer programming: the judge of static schedules.

The program is PHAZE's (ICML 2024), with start times and orders of operations that meet on a unit, but modulo the interval for what is done for every
group: there t_j - t_i + I k is from p_i to I - p_j for a whole k. It knows times of reading and writing from `models.analytics.timing` alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from penstock.dsl.analytics.lower import Program
from penstock.models.analytics.config import FETCH, Op, Schedule, Unit
from penstock.models.analytics.timing import read_times, write_times
from penstock.models.numerics.formats import Format
from penstock.models.numerics.latency import latency

__all__ = ["least_batch"]


@dataclass
class _Ilp:
    """Rows `low ≤ Σ coefficient × variable ≤ high`; variable 0 is what is made least."""

    whole: list[int] = field(default_factory=lambda: [0])
    highs: list[float] = field(default_factory=lambda: [np.inf])
    lows: list[float] = field(default_factory=lambda: [0.0])
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def variable(self, low: float, high: float, whole: bool) -> int:
        self.whole.append(int(whole))
        self.lows.append(low)
        self.highs.append(high)
        return len(self.whole) - 1

    def row(self, terms: Sequence[tuple[float, int]], low: float, high: float = np.inf) -> None:
        sums: Counter[int] = Counter()
        for factor, name in terms:
            sums[name] += factor
        self.rows.append((dict(sums), low, high))

    def least(self, nodes: int) -> float | None:
        """Return the optimum, or what it is at least; None where so many nodes do not tell."""
        entries = [
            (r, name, f) for r, (terms, _, _) in enumerate(self.rows) for name, f in terms.items()
        ]
        r, c, f = zip(*entries, strict=True)
        matrix = csr_array((f, (r, c)), shape=(len(self.rows), len(self.whole)))
        limits = LinearConstraint(
            matrix, [low for _, low, _ in self.rows], [high for *_, high in self.rows]
        )
        found = milp(
            np.eye(1, len(self.whole))[0],
            integrality=self.whole,
            bounds=Bounds(self.lows, self.highs),
            constraints=limits,
            options={"node_limit": nodes, "mip_rel_gap": 0},
        )
        assert found.status not in (2, 3), found.message  # infeasible or unbounded
        return found.fun if found.status == 0 else found.mip_dual_bound


def least_batch(
    program: Program,
    fmt: Format,
    threads: int,
    units: Sequence[Unit],
    schedule: Schedule,
    nodes: int = 4000,
) -> int | None:
    """Return the least `Schedule.batch` with as many units of each kind and the same interval, or what it is at least."""
    ops, interval, ilp = program.ops, schedule.interval, _Ilp()
    placed = [n for n, op in enumerate(ops) if op.region != "epoch"]
    # there is a schedule with this distance, and everything starts within it, or, of a group, within two of it
    horizon = 2 * schedule.batch
    start = {n: ilp.variable(0, horizon, False) for n in placed}
    writes = {n: write_times(ops[n], program.buffers, fmt, program.lanes, threads) for n in placed}
    reads = {
        (n, k): read_times(ops[n], operand, program.buffers, program.lanes)
        for n in placed
        for k, operand in enumerate(ops[n].operands)
    }
    models = {ops[n].dest: n for n in placed if ops[n].dest in program.models}
    writer = {ops[n].dest: n for n in placed if ops[n].dest not in program.models}
    ilp.row([(1, 0)], interval)
    for (n, k), (first, last) in reads.items():
        op, used = ops[n], last >= 0
        buffer = op.operands[k].buffer
        kind = program.buffers[buffer].kind
        if kind == "input":
            ilp.row([(2, 0), (-1, start[n])], int(last.max()) + 1)
        if buffer in models:
            w = models[buffer]
            ilp.row(
                [(1, 0), (1, start[n]), (-1, start[w])], int((writes[w][1] + 1 - first)[used].max())
            )
            if n != w:
                ilp.row([(1, start[w]), (-1, start[n])], int((last - writes[w][0])[used].max()))
        if buffer in writer:
            source = writer[buffer]
            ilp.row(
                [(1, start[n]), (-1, start[source])],
                int((writes[source][1] + 1 - first)[used].max()),
            )
            if op.region == "batch":
                step = int((last + 1 - writes[source][0])[used].max())
                ilp.row([(1, 0), (1, start[source]), (-1, start[n])], step)
    _place(ilp, program, fmt, units, start, interval, horizon)
    least = ilp.least(nodes)
    return None if least is None else int(np.ceil(least - 1e-6))


def _uses(
    program: Program, fmt: Format, numbers: Sequence[int]
) -> dict[tuple, list[tuple[int, int, int]]]:
    """Return by class of units who uses them: operation, cycles behind its start, beats."""
    found: dict[tuple, list[tuple[int, int, int]]] = {}
    for n in numbers:
        op = program.ops[n]
        wide = _width(program, op) > 1
        region = "group" if op.region == "group" else "once"
        found.setdefault((op.fn, wide, op.home, region), []).append((n, 0, op.beats))
        if op.merge is not None:
            late = FETCH + latency(op.fn, fmt)
            found.setdefault((f"merge-{op.merge}", wide, "core", "group"), []).append(
                (n, late, op.beats)
            )
    return found


def _width(program: Program, op: Op) -> int:
    if op.lane_reduce:
        return program.lanes
    return min(program.buffers[op.dest].cols, program.lanes) if op.vector else 1


def _place(
    ilp: _Ilp,
    program: Program,
    fmt: Format,
    units: Sequence[Unit],
    start: dict[int, int],
    interval: int,
    horizon: int,
) -> None:
    """Keep uses of a unit apart; what lasts from its first use to its last one is part of a batch."""
    have = Counter((u.fn, u.lanes > 1, u.home, u.region) for u in units)
    for key, uses in _uses(program, fmt, list(start)).items():
        count = have[key]
        for n, _, beats in uses:
            ilp.row([(2 if key[3] == "group" else 1, 0), (-1, start[n])], 1)
            ilp.row([(1, 0)], beats)  # what is done once a batch is done before the next one
        if count >= len(uses):
            continue
        on = {}
        if count > 1:
            for u, (n, _, _) in enumerate(uses):
                on[n] = [ilp.variable(0, 1 if k <= u else 0, True) for k in range(count)]
                ilp.row([(1, y) for y in on[n]], 1, 1)
        for (i, a, p), (j, b, q) in combinations(uses, 2):
            apart = [(1, start[j]), (-1, start[i])]
            if key[3] == "once":
                order = ilp.variable(0, 1, True)
                ilp.row([*apart, (horizon, order)], p)
                ilp.row([*apart, (horizon, order)], -np.inf, horizon - q)
                ilp.row([(1, 0), (-1, start[j]), (1, start[i])], q)
                ilp.row([(1, 0), (-1, start[i]), (1, start[j])], p)
                continue
            turn = ilp.variable(-horizon, horizon, True)
            terms = [*apart, (interval, turn)]
            for k in range(count):
                # where both are on one unit; else the rows say nothing
                free = [] if count == 1 else [(-interval, on[i][k]), (-interval, on[j][k])]
                spare = 0 if count == 1 else 2 * interval
                ilp.row([*terms, *free], p + a - b - spare)
                ilp.row(
                    [*terms, *[(-f, v) for f, v in free]], -np.inf, interval - q + a - b + spare
                )
            if count == 1:
                ilp.row([(1, 0), (-1, start[j]), (1, start[i])], q + b - a)
                ilp.row([(1, 0), (-1, start[i]), (1, start[j])], p + a - b)
