"""The integers of a table's indices, beside the codes of its tuples; which tuples a policy leaves out, and the first that is an error.

Striders that read indices judge them with the values, in the order of delivery (`strider.judge`). Of other kernels, which have golden
results alone, the values of a tuple that is seen are judged first. Then each place of its indices, in order: a NULL, a category that
the design does not know, an integer that counts too far. Then integers that are made of these and do not fit in 64 bits, and each row that
integers alone name, in the order of the kernel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareError
from ..heap.reader import read_heap
from ..rows.errors import IndexCode
from ..rows.golden import TOO_WIDE
from ..rows.integers import ABSENT
from ..strider.errors import PageError
from ..strider.judge import RowCounts
from ..strider.table import walk_table
from .config import AnalyticsPlan, Index
from .golden import named

#: stands in a column of categories for one that the design does not know
UNSEEN = -1
_NULL = ABSENT + 1
#: stands for itself and for the two integers below it, which mean something else here: all are errors
_LEAST = ABSENT + 2


@dataclass
class Port:
    """What the pages of one memory port give: tuples (n, positions), places of indices behind them; of each tuple its block and line pointer;
    of each row that is seen block, line pointer and whether it is delivered."""

    tuples: NDArray[np.int64]
    where: NDArray[np.int64]
    seen: NDArray[np.int64]
    counts: RowCounts = field(default_factory=RowCounts)
    error: HardwareError | None = None


def walk_port(
    plan: AnalyticsPlan, pages: NDArray[np.uint8], first: int = 0, stride: int = 1
) -> Port:
    """Return what the pages give. Page k is block first + k × stride."""
    places = [np.zeros((0, 3), np.int64)]
    walked = walk_table(pages, plan.walk, first, stride, places)
    seen = np.concatenate(places)
    where = seen[seen[:, 2] != 0, :2]
    port = Port(walked.codes, where, seen, walked.total, walked.error)
    if plan.by_rows:
        if port.error is not None and plan.layout.integers:
            port.error = _told(plan, port, port.error, pages, first, stride)
        _Judge(plan, port, pages, first, stride).run()
    return port


def _told(
    plan: AnalyticsPlan,
    port: Port,
    error: HardwareError,
    pages: NDArray[np.uint8],
    first: int,
    stride: int,
) -> HardwareError:
    """Return the Striders' error, with column and value where it is about an index."""
    if error.code == PageError.VALUE_INDEX:
        return _told_index(plan, port, error, pages[: (error.block - first) // stride + 1])
    at = {integer.position for integer in plan.layout.integers}
    sources = tuple(s for s in plan.layout.sources if s.position not in at)
    bare = replace(plan, layout=replace(plan.layout, sources=sources, integers=()))
    cause = walk_port(bare, pages, first, stride).error
    if cause is None or (cause.code, cause.block, cause.line) != (
        error.code,
        error.block,
        error.line,
    ):
        return error
    return replace(error, column=cause.column, detail=cause.detail)


def _told_index(
    plan: AnalyticsPlan, port: Port, error: HardwareError, pages: NDArray[np.uint8]
) -> HardwareError:
    """Return the Striders' error of an index with its column and value, whatever else is wrong with its row. `pages`: up to its own."""
    place = plan.walk.value_at(error.item)
    assert place is not None
    column, block, line = plan.schema.columns[place[0]], port.seen[:, 0], port.seen[:, 1]
    before = (block < error.block) | ((block == error.block) & (line < error.line))
    try:
        values = padded(read_heap(plan.schema, pages)[column.name])
    except ValueError:  # rows behind it cannot be read
        return error
    value = int(values[before.sum(), place[1]])
    counts = next(i.counts for i in plan.layout.integers if i.position == error.item - 1)
    return replace(error, column=column.name, detail=_beyond(value, counts, column.labels))


def _beyond(value: int, counts: int, labels: Sequence[str] | None) -> str:
    """Say what an integer is that names no row."""
    of = f"the category {labels[value]!r} has the number {value}, which" if labels else value
    return f"{of}{' or less' * (value == _LEAST)} is not one of 0 to {counts - 1}"


class _Judge:
    """Adds the integers to a port's tuples, and leaves out what the policies leave out."""

    def __init__(
        self,
        plan: AnalyticsPlan,
        port: Port,
        pages: NDArray[np.uint8],
        first: int,
        stride: int,
    ) -> None:
        self.plan, self.port = plan, port
        if port.error is not None:  # rows behind it do not matter
            pages = pages[: (port.error.block - first) // stride + 1]
        self.pages = pages
        self.delivered = np.nonzero(port.seen[:, 2])[0]
        self.left = np.zeros(len(self.delivered), bool)
        self.last = np.zeros(
            len(self.delivered), bool
        )  # the model's last row stands for a category
        self.wrong = len(self.delivered)  # the first tuple that is an error

    def run(self) -> None:
        port = self.port
        integers = self._integers()
        if integers is None:
            return
        port.tuples = np.concatenate([port.tuples, integers], axis=1)
        self._rows()
        kept = ~self.left
        kept[self.wrong :] = False
        port.counts.unseen_last = int(self.last[kept].sum())
        port.counts.skipped += int(self.left[: self.wrong].sum())
        port.seen[self.delivered[~kept], 2] = 0
        port.tuples, port.where = port.tuples[kept], port.where[kept]

    def _integers(self) -> NDArray[np.int64] | None:
        """Return the integers of all tuples; None where the pages cannot be read, which is the walk's error already."""
        try:
            columns = read_heap(self.plan.schema, self.pages) if self.plan.rows.indices else {}
        except ValueError:
            if self.port.error is None:
                raise
            self.wrong = 0
            self.port.tuples, self.port.where = self.port.tuples[:0], self.port.where[:0]
            return None
        integers = [np.zeros((len(self.delivered), 0), np.int64)]
        at = self.plan.layout.beats * self.plan.lanes
        for index in self.plan.rows.indices:
            of_index: list[NDArray[np.int64]] = []
            for attribute, offset, counts in index.columns:
                column = self.plan.schema.columns[attribute]
                last = self.plan.rows.on_unseen == "last"
                values = self._places(columns[column.name], index, column.name)
                item = at + sum(part.shape[1] for part in of_index)
                values = self._judged(values, counts, column.name, item)
                unseen = column.labels is not None and values == UNSEEN
                values = np.where(values == ABSENT, ABSENT, values + offset)
                of_index.append(np.where(unseen, index.counts - 1, values) if last else values)
            short = index.places - sum(part.shape[1] for part in of_index)
            of_index.append(np.full((len(self.delivered), short), ABSENT))
            integers += of_index
            at += index.places
        return np.concatenate(integers, axis=1)

    def _places(self, values: Any, index: Index, name: str) -> NDArray[np.int64]:
        """Return a column's integers of the delivered tuples, no more than an index has places; longer arrays are errors."""
        integers = padded(values)[self.delivered]
        long = integers[:, index.places :] != ABSENT
        if long.any():
            text = lambda place: f"more than {index.places} elements"
            self._say(long, "error", PageError.ARRAY_SHAPE, name, -1, text)
        return integers[:, : index.places]

    def _judged(
        self, values: NDArray[np.int64], counts: int, name: str, item: int
    ) -> NDArray[np.int64]:
        """Look at the integers of one column (tuples, places)."""
        plan = self.plan
        categories = plan.schema.column(name).labels is not None
        null = values == _NULL
        unseen = (values == UNSEEN) if categories else np.zeros_like(null)
        beyond = ~null & ~unseen & (values != ABSENT) & ((values < 0) | (values >= counts))
        self._say(null, plan.layout.on_null, PageError.TUPLE_NULL, name, item, lambda v: "")
        if plan.rows.on_unseen == "last":
            self.last |= unseen.any(axis=1)
        else:
            self._say(unseen, plan.rows.on_unseen, IndexCode.VALUE_UNSEEN, name, item, lambda v: "")
        labels = plan.schema.column(name).labels

        text = lambda place: _beyond(int(values[place]), counts, labels)
        self._say(beyond, plan.rows.on_index, PageError.VALUE_INDEX, name, item, text)
        return values

    def _say(self, wrong: Any, policy: str, code: Any, name: str, item: int, text: Any) -> None:
        """Leave tuples out, or note the first as the error if it comes before what was found."""
        tuples = wrong.any(axis=1)
        if policy == "skip":
            more = int((tuples & ~self.left)[: self.wrong].sum())
            self.left |= tuples
            self.port.counts.index_rows += more * (code is PageError.VALUE_INDEX)
            self.port.counts.unseen_rows += more * (code is IndexCode.VALUE_UNSEEN)
            return
        numbers = np.nonzero(tuples & ~self.left)[0]
        if not len(numbers) or numbers[0] >= self.wrong:
            return
        self.wrong = int(numbers[0])
        block, line = self.port.where[self.wrong].tolist()
        place = int(wrong[self.wrong].argmax())
        told_of = text((self.wrong, place))
        self.port.error = HardwareError(
            code, block, line, item + place + 1, column=name, detail=told_of
        )

    def _rows(self) -> None:
        """Look at the rows that integers alone name."""
        plan = self.plan
        asked, wide = named(plan, self.port.tuples)
        code = PageError.VALUE_INDEX
        self._say(wide[:, None], plan.rows.on_index, code, "", -1, lambda place: TOO_WIDE)
        for op, rows in asked:
            name, most = plan.buffers[op.operands[0].buffer].name, op.detail[0]
            beyond = (rows != ABSENT) & ((rows < 0) | (rows >= most))
            text = lambda place: f"row {rows[place]} of {name}, which has 0 to {most - 1}"  # noqa: B023
            self._say(beyond, plan.rows.on_index, code, "", -1, text)


def padded(values: Any) -> NDArray[np.int64]:
    """Return a column's integers (rows, places), as `read_heap` gives it: `ABSENT` behind the end of an array, `ABSENT` + 1 for NULL."""
    if isinstance(values, list) and any(isinstance(v, bytes) for v in values):
        days = b"".join(v or bytes(4) for v in values)  # since 2000-01-01
        null = [v is None for v in values]
        return padded(np.ma.masked_array(np.frombuffer(days, "<i4"), null))
    if isinstance(values, list):
        longest = max((len(v) for v in values if v is not None), default=0)
        table = np.full((len(values), max(longest, 1)), ABSENT)
        for n, cells in enumerate(values):
            if cells is None:
                table[n, 0] = _NULL
            else:
                table[n, : len(cells)] = padded(cells)[:, 0] if len(cells) else ABSENT
        return table
    masked = np.ma.asarray(values)
    table = np.maximum(masked.filled(0).astype(np.int64), _LEAST)
    table[np.ma.getmaskarray(masked)] = _NULL
    return table.reshape(len(table), -1) if table.size else np.full((len(table), 1), ABSENT)
