"""The page writer: rows come back as they went in, whatever state the pages are in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.models.heap import page as p
from penstock.models.heap.checksum import checksum
from penstock.models.heap.packing import _scatter
from penstock.models.heap.reader import read_heap
from penstock.models.heap.schema import NUMERIC, Column, Schema
from penstock.models.heap.values import DTYPES, Raw, array_body, varlena
from penstock.models.heap.writer import write_heap
from testbench.pruned_pages import random_slots, write_pruned


def _values(column: Column, rows: int, rng: np.random.Generator, length: int) -> Any:
    if column.type == "text":
        return ["é" * int(n) for n in rng.integers(0, 90, rows)]
    if column.storage.length > 0 and column.type not in DTYPES:
        return [rng.bytes(column.storage.length) for _ in range(rows)]
    dtype = DTYPES[column.storage.element or column.type]
    shape = (rows, length) if column.is_array else (rows,)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, dict[str, Any], np.random.Generator]:
    kinds = draw(
        st.lists(
            st.sampled_from([*sorted(NUMERIC), "text", "uuid", "macaddr", "who:fixed(3,8)"]),
            min_size=1,
            max_size=9,
        )
    )
    dropped = draw(st.sets(st.integers(0, 8), max_size=2)) if len(kinds) > 2 else set()
    columns = tuple(Column(f"c{i}", kind, dropped=i in dropped) for i, kind in enumerate(kinds))
    schema = Schema("t", columns, draw(st.sampled_from([4096, 8192, 32768])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, length = draw(st.integers(1, 60)), draw(st.integers(0, 30))
    return schema, {c.name: _values(c, rows, rng, length) for c in columns if not c.dropped}, rng


def _same(got: Any, given: Any, null: np.ndarray) -> None:
    assert len(got) == len(given)
    if isinstance(got, list):
        for value, expected, missing in zip(got, given, null, strict=True):
            assert value is None if missing else np.array_equal(value, expected)
        return
    kept = ~null
    assert np.array_equal(np.ma.getmaskarray(got).reshape(len(null), -1).any(axis=1), null)
    assert np.array_equal(np.ma.getdata(got)[kept], np.asarray(given)[kept])


@given(tables(), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.3]), st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_round_trip(table: Any, short: bool, strewn: bool, missing: float, shuffled: bool) -> None:
    schema, columns, rng = table
    rows = len(next(iter(columns.values()), []))
    nulls = {name: rng.random(rows) < missing for name in columns} if missing else None
    how: dict[str, Any] = {}
    if strewn:
        how["slots"] = random_slots(rows, 3)
    if shuffled:
        how["shuffle"] = 9
    write = write_pruned if how else write_heap
    pages = write(schema, columns, nulls=nulls, short=short, **how)
    got = read_heap(schema, pages)
    assert list(got) == list(columns)
    for name, values in columns.items():
        _same(got[name], values, nulls[name] if nulls else np.zeros(rows, bool))


@given(tables(), st.booleans(), st.booleans(), st.sampled_from([0, 0.3, 1]))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_rows_at_once_are_rows_one_by_one(
    table: Any, short: bool, cut: bool, missing: float
) -> None:
    schema, columns, rng = table
    rows = len(next(iter(columns.values())))
    nulls = {name: rng.random(rows) < missing for name in columns}
    natts = rng.integers(1, len(schema.columns) + 1, rows).tolist() if cut else None
    how: dict[str, Any] = {"short": short, "natts": natts, "nulls": nulls}
    assert np.array_equal(write_heap(schema, columns, **how), write_pruned(schema, columns, **how))


def test_blocks_whose_number_takes_more_than_16_bits() -> None:
    schema = Schema("t", (Column("x", "float4[]"),), 1024)
    pages = write_heap(schema, {"x": np.zeros((65538, 200), np.float32)})
    one = write_pruned(schema, {"x": np.zeros((1, 200), np.float32)}, first_block=65537)
    assert len(pages) == 65538 and np.array_equal(pages[-1:], one)


SCHEMA = Schema(
    "t", (Column("id", "int4"), Column("y", "float8"), Column("x", "float4[]", length=3))
)
COLUMNS = {"id": np.arange(300), "y": np.arange(300) / 7, "x": np.arange(900).reshape(300, 3)}


def test_each_state_is_judged_by_the_page() -> None:
    states = ["frozen", "committed", "newer", "locked", "shared", "aborted", "deleted", "updated"]
    chosen = [states[i % len(states)] for i in range(300)]
    got = read_heap(SCHEMA, write_pruned(SCHEMA, COLUMNS, visibility=chosen))
    gone = {"aborted", "deleted", "updated"}
    assert got["id"].tolist() == [i for i, state in enumerate(chosen) if state not in gone]
    for state in ("unhinted", "deleting", "multi", "moved"):
        with pytest.raises(ValueError, match=r"block 0, line pointer 1: the page does not decide"):
            read_heap(SCHEMA, write_pruned(SCHEMA, COLUMNS, visibility=state))
        pages = write_pruned(SCHEMA, COLUMNS, visibility=state, all_visible=True)
        assert len(read_heap(SCHEMA, pages)["id"]) == 300


def test_missing_attributes_take_the_default() -> None:
    schema = Schema(
        "t",
        (
            Column("a", "int2"),
            Column("b", "float4", missing=2.5),
            Column("c", "int8"),
            Column("x", "float4[]", missing=[1, 2]),
        ),
    )
    columns = {"a": [1, 2, 3, 4], "b": [9, 9, 9, 9], "c": [7, 7, 7, 7], "x": [[5, 6]] * 4}
    got = read_heap(schema, write_heap(schema, columns, natts=[1, 2, 3, 4]))
    assert got["b"].tolist() == [2.5, 9, 9, 9]
    assert got["c"].tolist() == [None, None, 7, 7]
    assert got["x"].tolist() == [[1, 2], [1, 2], [1, 2], [5, 6]]


@pytest.mark.parametrize("size", p.PAGE_SIZES)
def test_a_row_may_fill_a_page(size: int) -> None:
    schema = Schema("t", (Column("x", "float4[]"),), size)
    most = (p.max_tuple_size(size) - 24 - 24) // 4
    pages = write_heap(schema, {"x": np.ones((2, most))})
    assert pages.shape == (2, size) and read_heap(schema, pages)["x"].shape == (2, most)
    assert p.max_line_pointers(size) == (size - 24) // 28
    message = f"a row of {24 + 24 + 4 * most + 4} bytes does not fit a page of {size}: the most is {size - 32}"
    with pytest.raises(ValueError, match=message):
        write_heap(schema, {"x": np.ones((2, most + 1))})
    with pytest.raises(ValueError, match="does not fit a page"):
        write_heap(schema, {"x": [np.ones(most + 1), None]})


def test_raw_values() -> None:
    schema = Schema("t", (Column("b", "bool"), Column("x", "float4[]"), Column("i", "int4")))
    external = Raw(bytes([1, 18]) + bytes(range(16)))
    matrix = varlena(array_body([[1, 2], [3, 4]], "float4"), short=False)
    holed = varlena(array_body([1, None, 3], "float4"), short=False)
    pages = write_heap(schema, {"b": [True] * 3, "x": [external, matrix, holed], "i": [1, 2, 3]})
    lengths = [int(word) >> 17 for word in pages[0, 24:36].view("<u4")]
    assert lengths == [24 + 20 + 4, 24 + 4 + 32 + 16 + 4, 24 + 4 + 32 + 8 + 4]
    masks = [
        int(pages[0, (int(word) & 0x7FFF) + 20 :][:2].view("<u2")[0])
        for word in pages[0, 24:36].view("<u4")
    ]
    assert [mask & p.HEAP_HASEXTERNAL for mask in masks] == [p.HEAP_HASEXTERNAL, 0, 0]
    one = write_pruned(
        schema, {"b": [True], "x": [external], "i": [1]}, slots=["row", "dead", "dead"]
    )
    with pytest.raises(ValueError, match="out of line"):
        read_heap(schema, one)


ARRAYS: list[list[Any]] = [
    [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    [[[1, None], [3, 4]], [[None, 6], [7, 8]]],
    [[1, None, 3]],
    [[None] * 9, [1, 2, 3, 4, 5, 6, 7, 8, None]],
    [[1], [[1, 2]], [None], None, [], [[[[1, 2]], [[None, 4]]]]],
]


@pytest.mark.parametrize("kind", ["float4", "float8"])
@pytest.mark.parametrize("rows", ARRAYS)
def test_arrays_of_any_shape_are_read(rows: list[Any], kind: str) -> None:
    """No kernel can use them, but they may stand in a table."""
    schema = Schema("t", (Column("b", "bool"), Column("x", f"{kind}[]"), Column("i", "int4")))
    values = [None if v is None else varlena(array_body(v, kind), short=False) for v in rows]
    count = range(len(rows))
    read = read_heap(schema, write_heap(schema, {"b": [True] * len(rows), "x": values, "i": count}))
    assert read["i"].tolist() == list(count)
    assert [None if v is None else v.tolist() for v in read["x"]] == rows
    assert isinstance(read["x"], np.ndarray) == (len({np.shape(v) for v in rows}) == 1)


def test_arrays_that_are_none() -> None:
    schema = Schema("t", (Column("x", "float4[]"),))
    for sizes in ([-1], [1 << 30] * 6, [1] * 7):
        header = np.array([len(sizes), 0, 700, *sizes, *[1] * len(sizes)], "<i4").tobytes()
        pages = write_heap(schema, {"x": [varlena(header + bytes(8), short=False)]})
        with pytest.raises(ValueError, match="column 'x' holds an array of "):
            read_heap(schema, pages)


def test_new_pages_have_no_checksum() -> None:
    assert np.array_equal(checksum(np.zeros((2, 8192), np.uint8)), [0, 0])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"id": [1], "z": [1]}, {}, "the schema has no column 'z'"),
        ({"id": [1], "y": [1, 2]}, {}, "columns of different lengths: id has 1, y has 2"),
        (
            {"id": [1 << 31]},
            {},
            "column 'id' is int4; its values reach from 2147483648 to 2147483648",
        ),
        ({"id": [0.5]}, {}, "column 'id' is int4; its values are not whole numbers"),
        ({"id": ["a"]}, {}, "column 'id' is int4; its values are not numbers"),
        ({"id": [[1, 2]]}, {}, "column 'id' is int4; its values are arrays"),
        ({"x": np.ones((2, 2, 2))}, {}, "column 'x' is float4[]; its values have 2 dimensions"),
        ({"id": [1]}, {"natts": [1, 2]}, "natts must have one entry for each of the 1 rows"),
        (
            {"id": [1]},
            {"nulls": {"id": [True, False]}},
            "nulls of column 'id': (2,) entries for 1 rows",
        ),
    ],
)
def test_errors(columns: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        write_heap(SCHEMA, columns, **options)
    assert str(caught.value) == message


def test_no_rows() -> None:
    assert write_heap(SCHEMA, {"id": [], "y": [], "x": []}).shape == (0, 8192)
    assert read_heap(SCHEMA, np.zeros((2, 8192), np.uint8))["id"].shape == (
        0,
    )  # new pages hold none


@pytest.mark.parametrize("kind", ["text", "float8[]"])
@pytest.mark.parametrize(
    "stored",
    [
        Raw(b"\x05\x8a"),
        Raw(bytes([1, 18]) + bytes(16)),
        Raw((30 << 2 | 2).to_bytes(4, "little") + bytes(26)),
    ],
)
def test_a_dropped_column_holds_anything(kind: str, stored: Raw) -> None:
    """Its type only says how it is stored: what it was, its bytes do not tell."""
    schema = Schema("t", (Column("gone", kind, dropped=True), Column("b", "bool")))
    assert read_heap(schema, write_heap(schema, {"gone": [stored, None], "b": [True, False]}))[
        "b"
    ].tolist() == [True, False]


@pytest.mark.parametrize("at", [(4, 12, 20), (3, 12, 21)])
def test_values_lie_where_they_belong(at: tuple[int, ...]) -> None:
    flat, values = np.zeros(32, np.uint8), np.arange(1, 13, dtype=np.uint8).reshape(3, 4)
    _scatter(flat, np.array(at), values)
    assert [flat[k : k + 4].tolist() for k in at] == values.tolist()
    assert flat.sum() == values.sum()
