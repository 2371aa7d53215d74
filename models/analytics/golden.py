"""The golden result of an analytics plan: what the engine computes, bit for bit, order of every sum included.

Tuples of a batch are computed side by side, for the model stands still meanwhile. Sums are balanced trees exactly as the hardware
builds them: over the lanes of a beat, over the beats of a row, over the threads of a group; groups are then accumulated in order.

The order of every sum:

1. Along a row: the lanes of each beat in a balanced tree of neighbours, missing lanes replaced by the identity (`+0`, `1`, `-inf`, `inf`). Then the
   beats of the row in a balanced tree over time, pairs in order of arrival, a missing partner replaced by the identity.
2. Over rows: a balanced tree over time, lane by lane.
3. A whole matrix of several rows: each row as in 1, then their results as one row. Rows by their numbers (`plan.by_rows`): one tree over the next power
   of two of all elements.
4. `norm`: every element times itself, the sum of these products, the root of the sum. Of a value with a single element it is `abs`.
5. `merge`: the threads of a group in a balanced tree (a thread without a tuple gives the identity), then groups in order into an accumulator that
   starts at the identity.

Products, `max` and `min` go the same ways. Where a format does not hold 1, the identity of products is the number nearest to it, and it counts as
often as it stands in.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..numerics.formats import Codes, Format
from ..rows.golden import NoRow
from ..strider.judge import RowCounts
from .batch import Batch
from .config import AnalyticsPlan, Buffer, Op, depth
from .row_values import UNITS, Changed, Made, asked, fitting, integer_runs, read
from .timing import REDUCE_FN
from .waves import together


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


class NoRowOf(NoRow):
    """The tuple of a port that asks for a row that there is not."""

    def __init__(self, missing: NoRow, source: np.ndarray) -> None:
        super().__init__(str(missing), missing.at)
        self.port, self.number = source[missing.at].tolist()


@dataclass
class TrainingResult:
    """What a training comes to."""

    models: dict[str, Codes]  #: codes (rows, cols) by name
    epochs: int = 0  #: epochs that were run
    batches: int = 0
    converged: bool = False  #: the convergence test ended them
    tuples: int = 0
    #: results of operations that left the format's range (`Format.left_range`): each element of
    #: each intermediate result, of each tuple or batch, is one
    left_range: int = 0
    #: of the first change of a row that left it: its tuple's port and number there, and which row
    beyond: tuple[tuple[int, int], str] | None = None
    #: what was left out and counted of an epoch's rows and their values
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
    width = plan.layout.beats * plan.lanes + sum(index.places for index in plan.rows.indices)
    for chosen in takers(plan, [len(of_port) for of_port in tuples]):
        data = np.array([tuples[q][n] for q, n, _, _ in chosen], dtype=np.int64).reshape(
            len(chosen), width
        )
        yield Batch(
            data,
            np.array([c[2] for c in chosen], dtype=np.int64),
            np.array([c[3] for c in chosen], dtype=np.int64),
            np.array([c[:2] for c in chosen], dtype=np.int64).reshape(-1, 2),
        )


class PlanMachine:
    """Evaluates a plan's operations. Group values are (tuples, rows, cols), all others (rows, cols). `tables`: what makes those
    of models whose rows are changed; `wide`: of which of the tuples that were taken an integer does not fit in 64 bits, None for none."""

    def __init__(
        self,
        plan: AnalyticsPlan,
        runs: Sequence[Codes],
        models: dict[int, Codes],
        tables: Mapping[str, Made] | None = None,
    ):
        self.plan, self.fmt = plan, plan.format
        self.left_range = 0
        self.wide: np.ndarray | None = None
        self.times = 1  # how often what is computed next is computed
        self.values: dict[int, Codes] = dict(models)
        for index, codes in zip(plan.roles.runs, runs, strict=True):
            buffer = plan.buffers[index]
            self.values[index] = np.asarray(codes, dtype=np.int64).reshape(buffer.rows, buffer.cols)
        self.changed = Changed(plan, models, tables or {})
        self.values.update(self.changed.values(self.changed.full_reads))

    def take(self, tuples: Codes) -> None:
        """Make tuples (n, positions) those that operations of groups read."""
        plan, self.wide = self.plan, None
        for number in plan.inputs():
            place = plan.layout.field(plan.buffers[number].name)
            rows = np.arange(place.rows)[:, None] * place.stride
            self.values[number] = tuples[:, place.position + rows + np.arange(place.cols)]
        at = plan.layout.beats * plan.lanes
        numbers = {b.name: n for n, b in enumerate(plan.buffers) if b.kind == "index"}
        for index in plan.rows.indices:
            if index.name in numbers:
                self.values[numbers[index.name]] = tuples[:, None, at : at + index.places]
            at += index.places

    def operand(self, op: Op, number: int) -> Codes:
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
        self.left_range += self.times * int(np.count_nonzero(left))
        return result

    def _first(self, op: Op, tuples: int) -> Codes:
        """Return what the operation gives before anything is reduced; it is computed for so many tuples."""
        operands = [self.operand(op, n) for n in range(len(op.operands))]
        alike = all(codes.ndim == 3 for codes in operands)  # no operand is a tuple's
        self.times = tuples if alike else 1
        if (unit := UNITS.get(op.fn)) is not None:
            return unit(self, op, operands)
        return self._apply(op.fn, *operands)

    def run(self, op: Op, tuples: int = 1) -> None:
        fmt, lanes = self.fmt, self.plan.lanes
        if op.fn == "rows":
            self.values[op.dest] = read(self, op)
            return
        if op.changes_rows:
            self.changed.add(self, op, tuples)
            return
        result = self._first(op, tuples)
        buffer = self.plan.buffers[op.dest]
        if op.reduce is not None:
            fn = REDUCE_FN[op.reduce]
            leaves = op.columns if op.lane_reduce else op.extents[2]
            result = np.broadcast_to(result, (*result.shape[:-1], leaves))
            if self.plan.by_rows:  # on all lanes alike: one tree over the next power of two
                full = 1 << depth(leaves)
                result = _pad(result, result.ndim - 1, full, identity(fn, fmt))
            elif op.lane_reduce:
                beats = op.extents[2]
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
        self.times = 1
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


def rows_asked(plan: AnalyticsPlan, tuples: Codes) -> list[tuple[Op, np.ndarray]]:
    """Return the rows that tuples name by integers alone; see `asked`."""
    return named(plan, tuples)[0]


def named(plan: AnalyticsPlan, tuples: Codes) -> tuple[list[tuple[Op, np.ndarray]], np.ndarray]:
    """Return `rows_asked`, and of which tuples an integer does not fit in 64 bits."""
    machine = PlanMachine(plan, integer_runs(plan), {})
    rows = list(asked(machine, tuples))
    wide = False if machine.wide is None else machine.wide
    return rows, np.broadcast_to(wide, len(tuples))


def train(
    plan: AnalyticsPlan,
    epochs_of_tuples: Sequence[Codes],
    models: dict[str, Codes],
    runs: Sequence[Codes],
    tables: Mapping[str, Made] | None = None,
) -> TrainingResult:
    """Train as the hardware does.

    Parameters: `epochs_of_tuples`: for each port its tuples of one epoch, (n, beats × lanes) codes in row order, behind them the places of
    indices; `models`: start values as codes by name, (rows, cols); `runs`: codes of the plan's metas and constants in `plan.roles.runs`
    order; `tables`: what makes those of models, by name. The same tuples come in every epoch.

    Raises NoRowOf for a row that a model does not have.
    """
    index = {plan.buffers[n].name: n for n in plan.roles.models}
    start = {
        index[name]: np.asarray(codes, np.int64).reshape(plan.buffers[index[name]].rows, -1)
        for name, codes in models.items()
    }
    machine = PlanMachine(plan, runs, start, tables)
    by_region: dict[str, list[Op]] = {
        region: [op for op in plan.ops if op.region == region]
        for region in ("group", "batch", "epoch")
    }
    result = TrainingResult({})
    stream = batches(plan, epochs_of_tuples)
    # a store sees the accesses of one batch after the other
    if plan.by_rows and not tables:
        stream = together(plan, stream, lambda tuples: rows_asked(plan, tuples))
    plan_batches = list(stream)
    for _ in range(plan.epochs):
        trained = False
        for batch in plan_batches:
            if len(batch.tuples) == 0:
                continue
            trained = True
            try:
                _update(machine, plan, by_region, batch)
            except NoRow as missing:
                raise NoRowOf(missing, batch.source) from None
            if result.beyond is None and (left := machine.changed.beyond):
                result.beyond = tuple(batch.source[left[0]].tolist()), left[1]
            result.batches += batch.count
            result.tuples += len(batch.tuples)
        result.epochs += 1
        if trained and plan.roles.until is not None:
            for op in by_region["epoch"]:
                machine.run(op)
            if _flag(machine, plan):
                result.converged = True
                break
    result.models = _models(machine, plan)
    result.left_range = machine.left_range + machine.changed.left_range
    return result


def _update(
    machine: PlanMachine, plan: AnalyticsPlan, by_region: dict[str, list[Op]], batch: Batch
) -> None:
    machine.take(batch.tuples)
    for op in by_region["group"]:
        if op.merge is not None:
            machine.merge(op, batch)
        else:
            machine.run(op, len(batch.tuples))
    fitting(machine)
    written: dict[int, Codes] = {}
    for op in by_region["batch"]:
        if (
            op.dest in plan.roles.models and not op.changes_rows
        ):  # new models take effect together, after the batch
            old = machine.values[op.dest]
            machine.run(op)
            written[op.dest], machine.values[op.dest] = machine.values[op.dest], old
        else:
            machine.run(op, len(batch.tuples) if op.changes_rows else 1)
    machine.values.update(written)
    machine.values.update(machine.changed.done())


def _models(machine: PlanMachine, plan: AnalyticsPlan) -> dict[str, Codes]:
    machine.values.update(machine.changed.values())
    return {plan.buffers[n].name: np.array(machine.values[n]) for n in plan.roles.models}


def _flag(machine: PlanMachine, plan: AnalyticsPlan) -> bool:
    assert plan.roles.until is not None
    return bool(machine.fmt.op("select", machine.values[plan.roles.until], 1, 0).ravel()[0])
