"""Trainings that leave alone what has stopped changing: `--freeze EPS,EPOCHS`.

After every EPOCHS epochs a row is *frozen* that the indices of the table name and none of whose numbers is EPS or more from what it was that many
epochs before. A tuple all of whose changed rows are frozen is left out of all epochs that follow, as if its row of the table had been deleted: batches close
up. Tuples that stay change frozen rows as well. Where no tuple is left, the run is over. This is what Slipstream does with inputs that access only stale
rows; its own rule of what is stale is another one.

So a run is several, one behind the other, each from the models of the one before: every backend, also a board, carries it out, and cycles are those
of all of them. Between two, the host marks line pointers as dead in the pages, which Striders step over.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from numbers import Real

import numpy as np

from penstock.data.tables import RowError
from penstock.engines.base import Cycles, Result, Workload
from penstock.errors import bad_value
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.analytics.golden import rows_asked
from penstock.models.analytics.indices import walk_port
from penstock.models.errors import HardwareError
from penstock.models.heap.page import LP_DEAD, LP_SIZE, PAGE_HEADER_SIZE
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Codes
from penstock.runs.failures import Failure
from penstock.sim.machine import Metered

#: models as float64, by name
Values = Mapping[str, np.ndarray]


class Frozen(Workload):
    """A training that leaves tuples out all of whose changed rows moved less than EPS in EPOCHS epochs: trainings of so many epochs, one after the other,
    each on the tuples that are left.

    * `full`: the training of `plan` with all tuples, on heap `pages` (pages, page_size), from models `start`.
    * `part`: returns the training of so many epochs from such a start on such pages.
    * `freeze`: EPS and EPOCHS.

    Raises OptionError (E609) for values that these cannot have, and for kernels that change more than rows which indices of the table name.
    """

    def __init__(
        self,
        full: Workload,
        plan: AnalyticsPlan,
        start: Values,
        pages: np.ndarray,
        part: Callable[[int, Values, np.ndarray], Workload],
        freeze: object,
    ) -> None:
        self.full, self.plan, self.part = full, plan, part
        self.start, self.heap = start, pages
        self.name, self.rows = full.name, full.rows
        self.pages, self.watchdog = full.pages, full.watchdog
        self.streamed, self.value_bytes = full.streamed, full.value_bytes
        self.eps, self.window = _checked(freeze)
        learned = (
            op.dest for op in plan.ops if not op.changes_rows and op.dest in plan.roles.models
        )
        if (model := next(learned, None)) is not None:
            name = plan.buffers[model].name
            what = f"a tuple is left out for its rows, and {name} is no model of rows"
            raise bad_value("freeze", what)
        if len(self._changes) < sum(op.changes_rows for op in plan.ops):
            what = "which rows change must follow from the table's indices alone"
            raise bad_value("freeze", what)

    @cached_property
    def _changes(self) -> list[tuple[str, np.ndarray]]:
        """For each change of rows, its model, and the rows that it changes for each tuple (tuples, places)."""
        lookups = rows_asked(self.plan, walk_port(self.plan, self.heap).tuples)
        return [(self.plan.buffers[op.dest].name, rows) for op, rows in lookups if op.changes_rows]

    def _parts(self, trained: Callable[[Workload], Result]) -> Iterator[tuple[Workload, Result]]:
        """Yield the trainings one after the other, with what `trained` makes of each."""
        start, pages, left = self.start, self.heap, self.plan.epochs
        stays = np.ones(len(self._changes[0][1]), bool)
        where = walk_port(self.plan, pages).where
        while True:
            epochs = min(self.window, left)
            part = self.part(epochs, start, pages)
            result = trained(part)
            yield part, result
            left -= epochs
            if result.codes is None or result.facts["converged"] or not left:
                return
            values = self.full.values(result.codes)
            still = {n: self._still(v, start[n]) for n, v in values.items()}
            out = stays & np.all([_all(still[name], rows) for name, rows in self._changes], axis=0)
            stays &= ~out
            if not stays.any():
                return
            pages, start = _without(pages, where[out]), values

    def _still(self, now: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return which rows of a model are frozen."""
        moved = np.abs(now - before) < self.eps
        return np.asarray(moved.reshape(len(moved), -1).all(axis=1))

    @staticmethod
    def _joined(results: list[Result]) -> Result:
        """Return the last result with the epochs and counts of all; what is wrong with rows of the table counts once."""
        counters = dict(results[0].counters)
        for name in counters.keys() & {"tuples", "batches", "epochs", "left_range"}:
            counters[name] = sum(result.counters.get(name, 0) for result in results)
        last, epochs = results[-1], sum(r.facts.get("epochs", 0) for r in results)
        return replace(last, facts={**last.facts, "epochs": epochs}, counters=counters)

    @cached_property
    def _golden(self) -> list[tuple[Workload, Result]]:
        return list(self._parts(lambda part: part.golden()))

    def golden(self) -> Result:
        return self._joined([result for _, result in self._golden])

    def model(self, memory: Memory) -> Cycles:
        total: Cycles | None = None
        for training, _ in self._golden:
            part = training.model(memory)
            if part.total is None:
                return part
            total = part if total is None else _sum(total, part)
        assert total is not None
        return total

    def drive(self, machine: Metered) -> Result:
        return self._joined([result for _, result in self._parts(lambda part: part.drive(machine))])

    # as of the full training

    def memory_bytes(self) -> int:
        return self.full.memory_bytes()

    def moved(self) -> tuple[int, int]:
        return self.full.moved()

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        return self.full.values(codes)

    def unreadable(self) -> HardwareError | None:
        return self.full.unreadable()

    def row_error(self, error: HardwareError) -> RowError | None:
        return self.full.row_error(error)

    def failure(self, error: HardwareError) -> Failure:
        return self.full.failure(error)


def _checked(freeze: object) -> tuple[float, int]:
    """Return EPS and EPOCHS. Raises OptionError."""
    pair = freeze if isinstance(freeze, tuple | list) and len(freeze) == 2 else (0, 0)
    if all(isinstance(value, Real) for value in pair):
        eps, epochs = map(float, pair)
        if 0 < eps < np.inf and epochs >= 1 and epochs == epochs // 1:
            return eps, int(epochs)
    raise bad_value("freeze", f"it is a number above 0 and a whole number from 1, not {freeze!r}")


def _all(still: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return which tuples have frozen rows alone; places that are left out count for none."""
    return np.asarray((still[np.maximum(rows, 0)] | (rows < 0)).all(axis=1))


def _without(pages: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Return pages in which the tuples at these blocks and line pointers are deleted."""
    words = np.ascontiguousarray(pages).copy().view("<u4")
    at = (PAGE_HEADER_SIZE + LP_SIZE * (where[:, 1] - 1)) // 4
    words[where[:, 0], at] |= LP_DEAD << 15
    return words.view(np.uint8)


def _sum(one: Cycles, other: Cycles) -> Cycles:
    """Return two runs' cycles as one's."""
    assert one.total is not None and other.total is not None
    counters = Counter(one.counters)
    counters.update(other.counters)
    bounds = one.bound + other.bound  # type: ignore[operator]
    machine = one.bound_machine and other.bound_machine and one.bound_machine + other.bound_machine  # type: ignore[operator]
    facts = {**other.facts, "epochs": one.facts["epochs"] + other.facts["epochs"]}
    return replace(
        other,
        total=one.total + other.total,
        bound=bounds,
        bound_machine=machine,
        counters=dict(counters),
        facts=facts,
    )
