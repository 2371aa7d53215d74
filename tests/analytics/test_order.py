"""The order in which an epoch learns from a table's rows, against one that was written down anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.load import from_text
from penstock.host.sources import Table
from penstock.models.heap.reader import read_heap
from testbench.kernels.drawn import PORTS
from testbench.kernels.meaning import Engine, batches

TEXT = "kernel f(x: input, w: model)\n  w <- w + merge(x{})"


def table_of(x: np.ndarray) -> Table:
    return Table.from_columns({"x": x, "pad": ["-" * 90] * len(x)}, "t", page_size=1024)


def pages(rows: int) -> np.ndarray:
    """The page of each row."""
    table = table_of(np.zeros(rows, np.float32))
    counts = [len(read_heap(table.schema, page[None])["x"]) for page in table.pages]
    return np.repeat(np.arange(len(counts)), counts)


def ordered(x: np.ndarray, ports: int, threads: int, batch: int, **options: Any) -> np.ndarray:
    table = table_of(x)
    kernel = from_text(TEXT.format(f", {batch}" if batch else ""))
    choices = Choices(1, threads, ports, **options)
    return ps.compile(kernel, PORTS, table, "float32", choices=choices).order(table)


@pytest.mark.parametrize(
    ("ports", "threads", "batch"), [(1, 1, 4), (1, 3, 7), (2, 2, 6), (4, 8, 8), (2, 4, 0)]
)
def test_order(ports: int, threads: int, batch: int) -> None:
    for rows in (1, 8, 61):
        found = ordered(np.ones(rows, np.float32), ports, threads, batch)
        places = pages(rows)
        of_port = [np.nonzero(places % ports == q)[0] for q in range(ports)]
        engine = Engine(1, threads, [[{}] * len(numbers) for numbers in of_port])
        expected = [
            of_port[place[0]][place[1]]
            for groups in batches(engine, batch)
            for group in groups
            for place in group
            if place is not None
        ]
        assert found.tolist() == expected
        assert sorted(found) == list(range(rows)) and (ports > 1 or expected == sorted(expected))


def test_rows_that_are_left_out() -> None:
    x = np.ones(40, np.float32)
    x[[3, 17, 39]] = np.nan
    found = ordered(x, 1, 2, 5, on_nan="skip")
    assert found.tolist() == [n for n in range(40) if n not in (3, 17, 39)]
    with pytest.raises(ps.Error, match="VALUE_NAN"):
        ordered(x, 1, 2, 5)
