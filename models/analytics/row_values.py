"""Integers and rows of models in the golden result: what their operations do with the values of a `PlanMachine`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..numerics.convert import from_pg, unfit
from ..numerics.formats import Codes, Format
from ..numerics.policy import Unfit
from ..rows.golden import TOO_WIDE, Changes, NoRow, Table, taken
from ..rows.integers import ABSENT, ARITHMETIC, COMPARISONS, hashed, numbers, present, too_wide
from .config import AnalyticsPlan, Op

if TYPE_CHECKING:
    from .golden import PlanMachine

#: what an operation on integers gives: of a machine, the operation, its operands (…, i, c, j)
Unit = Callable[["PlanMachine", Op, Sequence[np.ndarray]], np.ndarray]
#: what makes a table of codes (rows, columns)
Made = Callable[[Codes, Format], Table]


def _with_constant(op: Op, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    side, constant = op.detail[1:3]
    values = list(operands)
    if side >= 0:
        values.insert(side, np.asarray(constant))
    return values


def _arithmetic(name: str) -> Unit:
    def result(machine: PlanMachine, op: Op, operands: Sequence[np.ndarray]) -> np.ndarray:
        arguments = _with_constant(op, operands)
        wide = too_wide(name, *arguments)
        if wide.any():
            of_tuples = np.asarray(wide.any(axis=(-3, -2, -1)))
            machine.wide = of_tuples if machine.wide is None else machine.wide | of_tuples
        return ARITHMETIC[name](*arguments)

    return result


def _comparison(name: str) -> Unit:
    def holds(machine: PlanMachine, op: Op, operands: Sequence[np.ndarray]) -> Codes:
        fmt = machine.fmt
        one, zero = np.int64(fmt.one), np.int64(fmt.zero)
        return np.where(COMPARISONS[name](*_with_constant(op, operands)), one, zero)

    return holds


def _number(machine: PlanMachine, op: Op, operands: Sequence[np.ndarray]) -> Codes:
    """Round integers to the format, once; those beyond its range are counted."""
    raw = np.ascontiguousarray(numbers(operands[0])).view(np.uint64)
    beyond = unfit("int8", raw, machine.fmt) == Unfit.OVERFLOW
    machine.left_range += machine.times * int(np.count_nonzero(beyond))
    return from_pg("int8", raw, machine.fmt)


def _integer(machine: PlanMachine, op: Op, operands: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(machine.fmt.decode(operands[0])).astype(np.int64)


#: by the name of an operation, those whose operands or results are integers
UNITS: dict[str, Unit] = {
    **{f"integer {s}": _arithmetic(s) for s in ARITHMETIC},
    **{f"integer {s}": _comparison(s) for s in COMPARISONS},
    "hash": lambda machine, op, operands: hashed(operands[0], *op.detail[:2]),
    "count": lambda machine, op, operands: present(operands[0])[..., None],
    "number": _number,
    "integer": _integer,
}


def integer_runs(plan: AnalyticsPlan) -> list[np.ndarray]:
    """Return what is fixed for a run, as far as integers are made of it, for a `PlanMachine` that is asked which rows tuples name."""
    numbers = plan.notes["run_values"]
    arrays = (np.asarray(numbers[plan.buffers[n].name], np.float64) for n in plan.roles.runs)
    return [values.astype(np.int64) for values in arrays]


def asked(machine: PlanMachine, tuples: Codes) -> Iterator[tuple[Op, np.ndarray]]:
    """Yield each operation that reads or changes rows which integers of the table alone name, with those of each tuple (tuples, places)."""
    plan = machine.plan
    machine.take(tuples)
    known = {n for n, b in enumerate(plan.buffers) if b.kind == "index"}
    known |= {n for n in plan.roles.runs if plan.buffers[n].integer}
    for op in plan.ops:
        places = [op.operands[1].buffer] if op.touches_rows else []
        if places and places[0] in known:
            rows = machine.values[places[0]]
            rows = rows.reshape(*rows.shape[:-2], rows.shape[-2] * rows.shape[-1])
            yield op, np.broadcast_to(rows, (len(tuples), rows.shape[-1]))
        elif op.fn in (*UNITS, "pass") and all(o.buffer in known for o in op.operands):
            machine.run(op, len(tuples))
            known.add(op.dest)


def fitting(machine: PlanMachine) -> None:
    """Raise NoRow where an integer of a tuple that the machine has computed does not fit in 64 bits."""
    if machine.wide is not None:
        raise NoRow(TOO_WIDE, int(machine.wide.argmax()))


def _asked(machine: PlanMachine, buffer: int, rows: int) -> np.ndarray:
    """Return integers as rows that are asked for (tuples, places): −1 for what is left out; 1 tuple for all of them. Raises NoRow."""
    fitting(machine)
    integers = machine.values[buffer]
    tuples = len(integers) if integers.ndim == 3 else 1
    asked = integers.reshape(tuples, integers.shape[-2] * integers.shape[-1])
    wrong = (asked != ABSENT) & ((asked < 0) | (asked >= rows))
    if wrong.any():
        at, place = np.argwhere(wrong)[0].tolist()
        raise NoRow.beyond(int(asked[at, place]), rows, at)
    return np.where(asked == ABSENT, -1, asked)


def read(machine: PlanMachine, op: Op) -> Codes:
    """Return the rows of the first operand that the second names. Raises NoRow."""
    table, index = (operand.buffer for operand in op.operands)
    asked = _asked(machine, index, op.detail[0])
    changed = machine.changed.tables.get(table)
    if changed is None:
        rows = taken(machine.values[table].reshape(op.detail[0], -1), asked)
    else:
        rows = changed.read(asked)
    buffer = machine.plan.buffers[op.dest]
    shape = (buffer.rows, buffer.cols)
    return rows.reshape(-1, *shape) if machine.values[index].ndim == 3 else rows.reshape(shape)


class Changed:
    """The models whose rows change, as tables, and the changes of the batch that is under way."""

    def __init__(
        self, plan: AnalyticsPlan, models: Mapping[int, Codes], factories: Mapping[str, Made]
    ) -> None:
        self.plan = plan
        self.tables: dict[int, Table] = {}
        self.waiting: dict[int, list[Changes]] = {}
        #: of the last batch's first change that left the format's range: its tuple in the batch, and which row
        self.beyond: tuple[int, str] | None = None
        changed = {op.dest: op.detail[0] for op in plan.ops if op.changes_rows}
        for number, rows in changed.items() if models else ():
            make = factories.get(plan.buffers[number].name, Table)
            self.tables[number] = make(models[number].reshape(rows, -1), plan.format)
        #: tables that something reads whole
        self.full_reads = {
            operand.buffer
            for op in plan.ops
            for operand in op.operands[op.touches_rows :]
            if operand.buffer in self.tables
        }

    @property
    def left_range(self) -> int:
        return sum(table.left_range for table in self.tables.values())

    def values(self, numbers: Iterable[int] | None = None) -> dict[int, Codes]:
        """Return tables as buffers hold them, all of them where none are named."""
        codes = {}
        for number in self.tables if numbers is None else numbers:
            table, buffer = self.tables[number], self.plan.buffers[number]
            table.flush()
            codes[number] = table.codes.reshape(buffer.rows, buffer.cols)
        return codes

    def add(self, machine: PlanMachine, op: Op, tuples: int) -> None:
        """Note a change for each of some tuples."""
        asked = _asked(machine, op.operands[1].buffer, op.detail[0])
        table = self.tables[op.dest]
        rows = np.broadcast_to(asked, (tuples, asked.shape[1]))
        shape = tuples, rows.shape[1], table.codes.shape[1]
        codes = machine.operand(op, 2)[..., 0]
        if shape[2] == 1:  # a number for each place
            codes = codes.reshape(*codes.shape[:-2], -1, 1)
        codes = np.broadcast_to(codes, shape)
        self.waiting.setdefault(op.dest, []).append(Changes(op.fn[3:], rows, codes))

    def done(self) -> dict[int, Codes]:
        """Do the changes of a batch; return those tables that are read whole. Raises NoRow."""
        beyond = []
        for number, changes in self.waiting.items():
            table = self.tables[number]
            if number in self.full_reads and self.plan.roles.until is not None:
                table.codes = table.codes.copy()  # the test of an epoch sees the batch's own
            table.change(changes)
            if table.beyond is not None:
                at, row, column = table.beyond
                what = f"row {row} of {self.plan.buffers[number].name}, column {column + 1}"
                beyond.append((at, what))
        self.waiting, self.beyond = {}, min(beyond, default=None)
        return self.values(self.full_reads)
