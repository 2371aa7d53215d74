"""The golden result of an analytics plan: what the engine computes, bit for bit, order of every sum included.

Tuples of a batch are computed side by side, for the model stands still meanwhile. Sums are balanced trees exactly as the hardware
builds them: over the lanes of a beat, over the beats of a row, over the threads of a group; groups are then accumulated in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..numerics.formats import Codes, Format
from ..strider.judge import RowCounts
from .config import AnalyticsPlan, Buffer, Op
from .timing import REDUCE_FN

__all__ = ["Batch", "Machine", "TrainingResult", "batches", "identity", "takers", "train"]


def identity(fn: str, fmt: Format) -> int:
    """Return the code that leaves the other operand of `fn` as it is (for "add" +0: it turns −0 into +0, in hardware as well)."""
    value = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}[fn]
    return int(fmt.encode(np.float64(value)))


#: applies an operation by name to codes
Apply = Callable[..., Codes]


def _tree(values: Codes, axis: int, fn: str, fmt: Format, apply: Apply) -> Codes:
    """Combine along `axis` as a balanced tree of neighbours; missing partners are identities."""
    values = np.moveaxis(values, axis, 0)
    neutral = identity(fn, fmt)
    while values.shape[0] > 1:
        if values.shape[0] % 2:
            values = np.concatenate(
                [values, np.full((1, *values.shape[1:]), neutral, dtype=np.int64)]
            )
        values = apply(fn, values[0::2], values[1::2])
    return values[0]


def _pad(values: Codes, axis: int, size: int, neutral: int) -> Codes:
    short = size - values.shape[axis]
    if short == 0:
        return values
    shape = list(values.shape)
    shape[axis] = short
    return np.concatenate([values, np.full(shape, neutral, dtype=np.int64)], axis=axis)


@dataclass(frozen=True)
class Batch:
    """The tuples of one batch: `tuples` (n, positions) codes in row order of the groups, `group` and `thread` their places. A
    batch may be empty (an epoch without tuples, or one whose last batch was full)."""

    tuples: Codes
    group: np.ndarray
    thread: np.ndarray


@dataclass
class TrainingResult:
    """Models by name as codes (rows, cols), epochs that were run, whether the convergence test ended them.

    `left_range`: how many results of operations left the format's range (`Format.left_range`), each element of each intermediate result
    of each tuple or batch being one; `inputs`: what was left out and counted of an epoch's rows and their values.
    """

    models: dict[str, Codes]
    epochs: int = 0
    batches: int = 0
    converged: bool = False
    tuples: int = 0
    left_range: int = 0
    inputs: RowCounts = field(default_factory=RowCounts)


def takers(plan: AnalyticsPlan, counts: Sequence[int]) -> Iterator[list[tuple[int, int, int, int]]]:
    """Yield for each batch of one epoch the port, the number there, the group and the thread of each of its tuples, of which each port
    has so many.

    Group position j belongs to thread j, thread j to port j // threads_per_port; a port that has no tuple left leaves its positions
    empty. A batch has `merge_count` positions; 0 positions stand for the whole epoch. The last batch yielded ends the epoch.
    """
    per_port, threads = plan.threads_per_port, plan.threads
    cursor = [0] * plan.ports
    limit = plan.merge_count or None
    while True:
        chosen: list[tuple[int, int, int, int]] = []
        taken, group = 0, 0
        while (limit is None or taken < limit) and any(
            cursor[q] < counts[q] for q in range(plan.ports)
        ):
            width = threads if limit is None else min(threads, limit - taken)
            for thread in range(width):
                port = thread // per_port
                if cursor[port] < counts[port]:
                    chosen.append((port, cursor[port], group, thread))
                    cursor[port] += 1
            taken += width
            group += 1
        yield chosen
        if all(cursor[q] >= counts[q] for q in range(plan.ports)):
            return


def batches(plan: AnalyticsPlan, tuples: Sequence[Codes]) -> Iterator[Batch]:
    """Form the batches of one epoch from each port's tuples (n_q, positions) in row order; see `takers`."""
    width = plan.layout.beats * plan.lanes
    for chosen in takers(plan, [len(of_port) for of_port in tuples]):
        data = np.array([tuples[q][n] for q, n, _, _ in chosen], dtype=np.int64).reshape(
            len(chosen), width
        )
        yield Batch(
            data,
            np.array([c[2] for c in chosen], dtype=np.int64),
            np.array([c[3] for c in chosen], dtype=np.int64),
        )


class Machine:
    """Evaluates a plan's operations. Group values are (tuples, rows, cols), all others (rows, cols)."""

    def __init__(self, plan: AnalyticsPlan, runs: Sequence[Codes], models: dict[int, Codes]):
        self.plan, self.fmt = plan, plan.format
        self.left_range = 0
        self._times = 1  # how often what is computed next is computed
        self.values: dict[int, Codes] = dict(models)
        for index, codes in zip(plan.runs, runs, strict=True):
            buffer = plan.buffers[index]
            self.values[index] = np.asarray(codes, dtype=np.int64).reshape(buffer.rows, buffer.cols)

    def _operand(self, op: Op, number: int) -> Codes:
        """Return the operand with axes (…, i, c, j) ready to broadcast; c and j count columns, not beats."""
        operand = op.operands[number]
        value = self.values[operand.buffer]
        axes = {"": None, "i": -3, "c": -2, "j": -1}
        rows, cols = axes[operand.row], axes[operand.col]
        lead = value.shape[:-2]
        extent = [1, 1, 1]
        if rows is None:
            value = value[..., :1, :]
        if cols is None and operand.element:
            value = value[..., :, :1]
        shape = value.shape[-2:]
        if rows is not None:
            extent[rows] = shape[0]
        if cols is not None:
            extent[cols] = shape[1]
        if rows is not None and cols is not None and rows > cols:
            value = np.swapaxes(value, -1, -2)
        return value.reshape(*lead, *extent)

    def _apply(self, fn: str, *codes: Codes) -> Codes:
        """Apply an operation, and count where it leaves the range."""
        result = self.fmt.op(fn, *codes)
        left = self.fmt.left_range(fn, result, *codes)
        self.left_range += self._times * int(np.count_nonzero(left))
        return result

    def _first(self, op: Op, tuples: int) -> Codes:
        """Return what the operation gives before anything is reduced; it is computed for so many tuples."""
        operands = [self._operand(op, n) for n in range(len(op.operands))]
        alike = all(codes.ndim == 3 for codes in operands)  # no operand is a tuple's
        self._times = tuples if alike else 1
        return self._apply(op.fn, *operands)

    def run(self, op: Op, tuples: int = 1) -> None:
        fmt, lanes = self.fmt, self.plan.lanes
        result = self._first(op, tuples)
        buffer = self.plan.buffers[op.dest]
        if op.reduce is not None:
            fn = REDUCE_FN[op.reduce]
            if not op.lane_reduce:
                result = np.broadcast_to(result, (*result.shape[:-1], op.extents[2]))
            else:
                beats = op.extents[2]
                result = np.broadcast_to(result, (*result.shape[:-1], op.columns))
                result = _pad(result, result.ndim - 1, beats * lanes, identity(fn, fmt))
                result = result.reshape(*result.shape[:-1], beats, lanes)
                result = _tree(result, result.ndim - 1, fn, fmt, self._apply)
            result = _tree(result, result.ndim - 1, fn, fmt, self._apply)[..., None]
        result = result[..., 0]
        if op.lane_reduce:
            result = np.swapaxes(
                result, -1, -2
            )  # one result a row i becomes a vector along the lanes
        lead = result.shape[:-2]
        self.values[op.dest] = np.broadcast_to(result, (*lead, buffer.rows, buffer.cols))

    def merge(self, op: Op, batch: Batch) -> None:
        """Compute the operation for every tuple, then add up threads and groups into the accumulator."""
        plan, fmt = self.plan, self.fmt
        assert op.merge is not None
        fn = REDUCE_FN[op.merge]
        result = self._first(op, len(batch.tuples))[..., 0]
        self._times = 1
        buffer: Buffer = plan.buffers[op.dest]
        groups = int(batch.group.max()) + 1
        neutral = identity(fn, fmt)
        grid = np.full((groups, plan.threads, buffer.rows, buffer.cols), neutral, dtype=np.int64)
        grid[batch.group, batch.thread] = result
        partial = _tree(grid, 1, fn, fmt, self._apply)
        total = np.full((buffer.rows, buffer.cols), neutral, dtype=np.int64)
        for group in range(groups):
            total = self._apply(fn, total, partial[group])
        self.values[op.dest] = total


def train(
    plan: AnalyticsPlan,
    epochs_of_tuples: Sequence[Codes],
    models: dict[str, Codes],
    runs: Sequence[Codes],
) -> TrainingResult:
    """Train as the hardware does.

    Parameters: `epochs_of_tuples`: for each port its tuples of one epoch, (n, beats × lanes) codes in row order; `models`: start values as
    codes by name, (rows, cols); `runs`: codes of the plan's metas and constants in `plan.runs` order. The same tuples come in every epoch.
    """
    index = {plan.buffers[n].name: n for n in plan.models}
    machine = Machine(
        plan,
        runs,
        {
            index[name]: np.asarray(codes, dtype=np.int64).reshape(
                plan.buffers[index[name]].rows, -1
            )
            for name, codes in models.items()
        },
    )
    inputs = [(n, plan.layout.field(plan.buffers[n].name)) for n in plan.inputs()]
    by_region: dict[str, list[Op]] = {
        region: [op for op in plan.ops if op.region == region]
        for region in ("group", "batch", "epoch")
    }
    result = TrainingResult({})
    plan_batches = list(batches(plan, epochs_of_tuples))
    for _ in range(plan.epochs):
        trained = False
        for batch in plan_batches:
            if len(batch.tuples) == 0:
                continue
            trained = True
            for buffer, place in inputs:
                where = (
                    place.position
                    + np.arange(place.rows)[:, None] * place.stride
                    + np.arange(place.cols)
                )
                machine.values[buffer] = batch.tuples[:, where]
            _update(machine, plan, by_region, batch)
            result.batches += 1
            result.tuples += len(batch.tuples)
        result.epochs += 1
        if trained and plan.until is not None:
            for op in by_region["epoch"]:
                machine.run(op)
            if _flag(machine, plan):
                result.converged = True
                break
    result.models = _models(machine, plan)
    result.left_range = machine.left_range
    return result


def _update(
    machine: Machine, plan: AnalyticsPlan, by_region: dict[str, list[Op]], batch: Batch
) -> None:
    for op in by_region["group"]:
        if op.merge is not None:
            machine.merge(op, batch)
        else:
            machine.run(op, len(batch.tuples))
    written: dict[int, Codes] = {}
    for op in by_region["batch"]:
        if op.dest in plan.models:  # new models take effect together, after the batch
            old = machine.values[op.dest]
            machine.run(op)
            written[op.dest], machine.values[op.dest] = machine.values[op.dest], old
        else:
            machine.run(op)
    machine.values.update(written)


def _models(machine: Machine, plan: AnalyticsPlan) -> dict[str, Codes]:
    return {plan.buffers[n].name: np.array(machine.values[n]) for n in plan.models}


def _flag(machine: Machine, plan: AnalyticsPlan) -> bool:
    assert plan.until is not None
    return bool(machine.fmt.op("select", machine.values[plan.until], 1, 0).ravel()[0])
