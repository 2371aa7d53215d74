"""Tables of rows, with a store and without, against NumPy's `at` and exact numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.models.numerics.formats import Format, float32, parse_format
from penstock.models.rows.golden import CHANGES, Changes, Table
from testbench.row_store import WAYS, StoreConfig, StoredTable

FORMATS = (float32, parse_format("fixed:8,8"), parse_format("bfloat16"), parse_format("fixed:4,4"))
_AT = {"add": np.add, "subtract": np.subtract, "max": np.maximum, "min": np.minimum}


def drawn_table(rng: np.random.Generator, fmt: Format) -> np.ndarray:
    rows, columns = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    return fmt.encode(rng.normal(size=(rows, columns)) * 3)


def drawn_changes(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> list[Changes]:
    """Changes of a batch: duplicates in it and in its bags, places that are left out."""
    tuples, found = int(rng.integers(1, 7)), []
    for _ in range(rng.integers(1, 4)):
        places = int(rng.integers(1, 5))
        rows = rng.integers(0, max(1, shape[0] // 2) + 1, (tuples, places)) % shape[0]
        rows[rng.random(rows.shape) < 0.2] = -1
        codes = fmt.encode(rng.normal(size=(tuples, places, shape[1])) * 3)
        found.append(Changes(str(rng.choice(list(CHANGES))), rows, codes))
    return found


def numpys(table: np.ndarray, changes: list[Changes], fmt: Format) -> np.ndarray:
    """The same in float32 with NumPy's `at`, which takes the changes of one tuple and line at a time."""
    values = fmt.decode(table).astype(np.float32)
    for t in range(len(changes[0].rows)):
        for part in changes:
            rows = part.rows[t]
            new = fmt.decode(part.codes[t]).astype(np.float32)[rows >= 0]
            if part.kind == "set":
                values[rows[rows >= 0]] = new
            else:
                _AT[part.kind].at(values, rows[rows >= 0], new)
    return values


def test_float32_is_numpys() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        start = drawn_table(rng, float32)
        changes, table = drawn_changes(rng, float32, start.shape), Table(start, float32)
        table.change(changes)
        assert np.array_equal(
            float32.decode(table.codes).astype(np.float32), numpys(start, changes, float32)
        ), seed


def test_every_add_saturates_by_itself() -> None:
    fmt = parse_format("fixed:4,4")  # -8 to 7.9375
    table = Table(fmt.encode(np.array([[7.0], [0.0]])), fmt)
    codes = fmt.encode(np.array([[[5.0], [-4.0]], [[5.0], [1.0]]]))
    table.change([Changes("add", np.array([[0, 0], [0, 1]]), codes)])
    assert fmt.decode(table.codes).ravel().tolist() == [7.9375, 1.0]
    assert table.left_range == 2


def drawn_store(rng: np.random.Generator, rows: int) -> StoreConfig:
    sets = int(rng.choice([0, 1, 2, 4, 8]))
    banks = int(rng.choice([b for b in (1, 2, 4, 8) if b <= max(1, sets)]))
    pinned = tuple(int(r) for r in rng.permutation(rows)[: rng.integers(0, 12)])
    return StoreConfig(WAYS * sets, banks, pinned * bool(sets))


def run(seed: int, kind: Any = StoredTable) -> tuple[Table, Table]:
    """Batches on a table without a store and on one with; what both read is compared."""
    rng = np.random.default_rng(seed)
    fmt = FORMATS[seed % len(FORMATS)]
    start = drawn_table(rng, fmt)
    plain = Table(start, fmt)
    stored = kind(start, fmt, drawn_store(rng, len(start)))
    for _ in range(rng.integers(1, 12)):
        rows = rng.integers(-1, len(start), (3, 2))
        assert np.array_equal(plain.read(rows), stored.read(rows)), seed
        changes = drawn_changes(rng, fmt, start.shape)
        for table in (plain, stored):
            table.change(changes)
    stored.flush()
    assert np.array_equal(plain.codes, stored.codes), seed
    assert plain.left_range == stored.left_range
    return plain, stored


def test_no_store_changes_a_result() -> None:
    for seed in range(120):
        run(seed)


@pytest.mark.long
def test_no_store_changes_a_result_many() -> None:
    for seed in range(1000, 11_000):
        run(seed)


class Forgets(StoredTable):
    """A defect: a row that gives way is not written back."""

    def _row(self, row: int, change: bool) -> Any:
        before = self.codes.copy()
        found = super()._row(row, change)
        self.codes[:] = before
        return found


class Stale(StoredTable):
    """A defect: a row is read before its change has arrived."""

    def read(self, rows: np.ndarray) -> Any:
        waiting, self.held = self.held, getattr(self, "before", self.held)
        found = super().read(rows)
        self.held = waiting
        return found

    def change(self, changes: list[Changes]) -> None:
        self.before = self.held.copy()
        super().change(changes)


@pytest.mark.parametrize("kind", [Forgets, Stale])
def test_defects_are_caught(kind: Any) -> None:
    caught = 0
    for seed in range(60):
        try:
            run(seed, kind)
        except AssertionError:
            caught += 1
    assert caught > 10


def test_counts_of_rows_that_move() -> None:
    fmt = FORMATS[1]
    stored = StoredTable(np.zeros((4, 1), np.int64), fmt, StoreConfig(0))
    stored.read(np.array([0, 0, -1]))
    stored.change([Changes("add", np.array([[1]]), np.ones((1, 1, 1), np.int64))])
    counts = stored.policy.counts
    assert (counts.lookups, counts.hits, counts.fetched, counts.written) == (3, 0, 3, 1)
    held = StoredTable(np.zeros((4, 1), np.int64), fmt, StoreConfig(8, pinned=(2,)))
    held.read(np.array([0, 0, 2]))
    held.change([Changes("add", np.array([[1]]), np.ones((1, 1, 1), np.int64))])
    held.flush()
    counts = held.policy.counts
    assert (counts.lookups, counts.hits, counts.fetched, counts.written) == (4, 2, 3, 1)


@pytest.mark.parametrize("row", [4, -2])
def test_rows_that_there_are_not(row: int) -> None:
    for table in (
        Table(np.zeros((4, 1)), float32),
        StoredTable(np.zeros((4, 1)), float32, StoreConfig(8)),
    ):
        with pytest.raises(IndexError, match=f"rows 0 to 3, not {row}"):
            table.read(np.array([0, row]))
        with pytest.raises(IndexError, match=f"rows 0 to 3, not {row}"):
            table.change([Changes("add", np.array([[row]]), np.zeros((1, 1, 1), np.int64))])
