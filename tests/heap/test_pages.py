"""The reader against pages of a real server, with SQL's answer beside them (tests/heap/data, made by make_pages.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from penstock.models.heap import page as layout
from penstock.models.heap.checksum import checksum
from penstock.models.heap.page import LP_DEAD, LP_REDIRECT, LP_UNUSED, split_line_pointer
from penstock.models.heap.reader import read_heap
from penstock.models.heap.schema import Schema
from penstock.models.strider.table import _visible

DATA = Path(__file__).parent / "data"
CASES = sorted(path.stem for path in DATA.glob("*.npz"))


def load(name: str) -> tuple[Schema, np.ndarray, dict[str, np.ndarray]]:
    with np.load(DATA / f"{name}.npz") as archive:
        entries = dict(archive)
    return Schema.from_json(json.loads(str(entries.pop("schema")))), entries.pop("pages"), entries


@pytest.mark.parametrize("name", CASES)
def test_rows(name: str) -> None:
    schema, pages, answer = load(name)
    # a plain reader takes more than the hardware does
    if name in ("lower_bound", "ragged", "matrix", "null_element"):
        assert len(read_heap(schema, pages)["x"]) == len(answer["value_id"])
        return
    if answer["expect"] != "rows":
        with pytest.raises(ValueError, match=r"does not decide|compressed|out of line|dimension"):
            read_heap(schema, pages)
        return
    columns = read_heap(schema, pages)
    assert {f"value_{key}" for key in columns} == {
        key for key in answer if key.startswith("value_")
    }
    for key, values in columns.items():
        null, expected = answer[f"null_{key}"], answer[f"value_{key}"]
        if isinstance(values, list):
            assert [v is None for v in values] == null.tolist()
            assert all(
                np.array_equal(v, e) for v, e in zip(values, expected, strict=True) if v is not None
            )
        else:
            assert np.array_equal(
                np.ma.getmaskarray(values).reshape(len(null), -1).any(axis=1), null
            )
            got = np.ma.getdata(values)
            assert got.dtype == expected.dtype and np.array_equal(got[~null], expected[~null])


def test_line_pointers_of_all_kinds_occur() -> None:
    seen = set()
    for name in CASES:
        _, pages, _ = load(name)
        for page in pages:
            lower = int(page[12:14].view("<u2")[0])
            seen |= {split_line_pointer(int(word))[1] for word in page[24:lower].view("<u4")}
    assert seen >= {LP_UNUSED, LP_REDIRECT, LP_DEAD}


def test_checksum_depends_on_block_and_every_byte() -> None:
    _, pages, _ = load("plain")
    sums = checksum(pages, 7)
    assert np.array_equal(checksum(pages[2:], 9), sums[2:])
    assert not np.array_equal(checksum(pages, 8), sums)
    touched = pages.copy()
    touched[:, 8:10] ^= 0xFF  # pd_checksum itself does not count
    assert np.array_equal(checksum(touched, 7), sums)
    rng = np.random.default_rng(5)
    for at in [*range(8), *range(10, 14), *rng.integers(24, 8192, 40)]:
        touched = pages.copy()
        touched[:, at] ^= np.uint8(1 << rng.integers(8))
        assert np.all(checksum(touched, 7) != sums)


@pytest.mark.parametrize("name", ["plain", "short_arrays", "nulls", "pruned", "added"])
def test_corrupt_pages_give_rows_or_a_message(name: str) -> None:
    schema, pages, _ = load(name)
    rng = np.random.default_rng(11)
    for _ in range(300):
        touched = pages.copy()
        block = rng.integers(len(pages))
        # headers, line pointers and the last rows: where a wrong byte does most
        at = rng.integers(0, 64) if rng.random() < 0.5 else rng.integers(7900, 8192)
        touched[block, at] = rng.integers(256)
        try:
            columns = read_heap(schema, touched)
        except ValueError as error:
            assert str(error).startswith("block ") or "utf-8" in str(error)
        else:
            assert len({len(values) for values in columns.values()}) == 1


@pytest.mark.parametrize(
    ("xmax", "read"),
    [
        (layout.HEAP_XMAX_COMMITTED, False),
        (
            layout.HEAP_XMAX_COMMITTED | layout.HEAP_XMAX_EXCL_LOCK,
            True,
        ),  # as servers before 9.3 lock
        (layout.HEAP_XMAX_COMMITTED | layout.HEAP_XMAX_LOCK_ONLY, True),
        (layout.HEAP_XMAX_INVALID, True),
    ],
)
def test_rows_that_were_locked_or_deleted(xmax: int, read: bool) -> None:
    schema, pages, _ = next(case for case in map(load, CASES) if case[2]["expect"] == "rows")
    pages = pages.copy()
    for block in pages:
        block[10] &= ~np.uint8(layout.PD_ALL_VISIBLE)
        lower = int.from_bytes(block[12:14].tobytes(), "little")
        for word in block[layout.PAGE_HEADER_SIZE : lower].view("<u4"):
            offset, flags, _ = split_line_pointer(int(word))
            if flags == layout.LP_NORMAL:
                mask = block[offset + 20 : offset + 22].view("<u2")
                mask[0] = mask[0] & 0x000F | layout.HEAP_XMIN_COMMITTED | xmax
    columns = read_heap(schema, pages)
    assert (len(next(iter(columns.values()))) > 0) == read


def test_hints_of_one_tuple_and_of_many() -> None:
    masks = np.arange(1 << 16)
    assert _visible(masks).tolist() == [layout.visible_by_hints(int(m)) is True for m in masks]
