"""Tables that are only assumed: so many rows of a schema, all alike, without packing more than one page of each kind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.host.sources.errors import table_error
from penstock.models.heap.page import PAGE_HEADER, PAGE_HEADER_SIZE, PAGE_SIZES
from penstock.models.heap.reader import TEXTS
from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.values import DTYPES
from penstock.models.heap.writer import write_heap
from penstock.models.strider.config import PortConfig, WalkConfig
from penstock.models.strider.costs import Costs, analyse
from penstock.models.target import Target


@dataclass(frozen=True)
class Assumed:
    """`rows` rows in pages that are all full but for the last: `full` (one page's bytes) `count` times, then `last` if there is one."""

    rows: int
    full: np.ndarray
    count: int
    last: np.ndarray | None

    @property
    def pages(self) -> int:
        return self.count + (self.last is not None)

    def costs(self, port: PortConfig, walk: WalkConfig) -> Costs:
        """Return what walking these pages costs, exactly as for a table that holds them."""
        kinds = [self.full] if self.last is None else [self.full, self.last]
        analysis = analyse(port, walk, np.stack(kinds))
        full, *last = [events for count, events in analysis.runs for _ in range(count)]
        costs = Costs([(self.count, full)])
        for events in last:
            costs.add(1, events)
        return costs


def fitted(schema: Schema) -> Schema:
    """Return the schema with pages large enough for a row of it. Raises SourceError where no page is."""
    while True:
        try:
            write_heap(schema, _rows(schema, 1))
            return schema
        except ValueError as problem:
            if schema.page_size >= PAGE_SIZES[-1]:
                raise table_error(
                    f"a row of these columns fits no page: {problem}",
                    "a row lies in one page of at most 32 KB",
                ) from problem
            schema = replace(schema, page_size=2 * schema.page_size)


def paged(schema: Schema, part: Target) -> Schema:
    """Return the schema of a table that is packed here with pages as large as suits the part, or as its rows need."""
    # PostgreSQL's own size suits any schema as it is: one with long rows has larger pages already
    return (
        schema
        if part.page_size == Target.page_size
        else fitted(replace(schema, page_size=part.page_size))
    )


def assume(schema: Schema, rows: int) -> Assumed:
    """Return `rows` ≥ 1 rows of the schema (array columns with their lengths).

    Numbers are zero and texts short: cycles do not depend on values, but they do on the lengths of texts, which a real table may have longer.
    """
    size = schema.page_size
    tried = min(rows, 16)
    while True:
        pages = write_heap(schema, _rows(schema, tried))
        if len(pages) > 1 or tried == rows:
            break
        tried = min(rows, 4 * tried)
    if len(pages) == 1:
        return Assumed(rows, pages[0], 1, None)
    lower = int(np.ascontiguousarray(pages[0, :PAGE_HEADER_SIZE]).view(PAGE_HEADER)["pd_lower"][0])
    count, left = divmod(rows, (lower - PAGE_HEADER_SIZE) // 4)
    last = write_heap(schema, _rows(schema, left)).reshape(-1, size)[0] if left else None
    return Assumed(rows, pages[0], count, last)


def _rows(schema: Schema, rows: int) -> Mapping[str, Any]:
    def values(column: Column) -> Any:
        if column.type in TEXTS:
            return ["text"] * rows
        if column.is_array:
            if column.length is None:
                raise table_error(
                    f"the length of the array column {column.name!r} is not known",
                    'write it into the schema ("length")',
                )
            return np.zeros((rows, column.length))
        if column.type not in DTYPES:  # stepped over, as texts are
            return [bytes(column.storage.length) if column.storage.length > 0 else b"text"] * rows
        return np.zeros(rows, dtype=bool if column.type == "bool" else np.int64)

    return {c.name: values(c) for c in schema.columns if not c.dropped}
