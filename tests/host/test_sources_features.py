"""host/sources: columns that become numbers, by whatever way a table comes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import pytest

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.host.sources import SourceError, Table, open_table
from penstock.models.heap.schema import Schema

SHOPS = ["b", "a", None, "c", "a", "b"]
DAYS = [dt.date(2000, 1, 1) + dt.timedelta(days=n) for n in (0, -1, 9000, 3, 4, 5)]
MOMENTS = [dt.datetime(2000, 1, 2, 0, 0, n) for n in range(6)]
Y = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
KINDS = ["mild", "hot", "mild", "cold", "hot", "cold"]


def _frame() -> Any:
    return pd.DataFrame(
        {
            "shop": SHOPS,
            "kind": pd.Categorical(KINDS, ["cold", "mild", "hot", "never"], ordered=True),
            "day": DAYS,
            "at": MOMENTS,
            "y": Y,
        }
    )


def _polars(folder: Path) -> Any:
    polars = pytest.importorskip("polars")
    kinds = polars.Enum(["cold", "mild", "hot", "never"])
    return polars.DataFrame(
        {
            "shop": SHOPS,
            "kind": polars.Series(KINDS, dtype=kinds),
            "day": DAYS,
            "at": MOMENTS,
            "y": Y,
        }
    )


def _arrow() -> Any:
    return pa.Table.from_pandas(_frame(), preserve_index=False)


def _file(name: str, write: Callable[[Any, Path], Any]) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        write(_arrow(), folder / name)
        return str(folder / name)

    return make


def _stream(table: Any, path: Path) -> None:
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def _dataset(folder: Path) -> Any:
    parquet.write_table(_arrow(), folder / "d.parquet")
    return dataset.dataset(folder / "d.parquet")


def _glob(folder: Path) -> Any:
    table = _arrow()
    parquet.write_table(table.slice(0, 2), folder / "part-1.parquet")
    parquet.write_table(table.slice(2), folder / "part-2.parquet")
    return str(folder / "part-*.parquet")


def _csv(folder: Path) -> Any:
    _frame().to_csv(folder / "t.csv", index=False)
    return str(folder / "t.csv")


WAYS: dict[str, Callable[[Path], Any]] = {
    "frame": lambda folder: _frame(),
    "polars": _polars,
    "dict": lambda folder: {name: _frame()[name] for name in _frame()},
    "arrow": lambda folder: _arrow(),
    "batches": lambda folder: pa.RecordBatchReader.from_batches(
        _arrow().schema, _arrow().to_batches(max_chunksize=4)
    ),
    "dataset": _dataset,
    "parquet": _file("t.parquet", parquet.write_table),
    "glob": _glob,
    "feather": _file("t.feather", feather.write_feather),
    "stream": _file("t.arrow", _stream),
    "csv": _csv,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way(way: str, tmp_path: Path) -> None:
    table = open_table(WAYS[way](tmp_path), features=["shop", "day", "at"], one_hot=["kind"])
    read = table.columns()
    assert read["shop"].tolist() == [1, 0, None, 2, 0, 1]
    assert read["day"].tolist() == [(day - dt.date(2000, 1, 1)).days for day in DAYS]
    assert read["at"].tolist() == [86400.0 + n for n in range(6)]
    assert read["y"].tolist() == Y.tolist()
    labels = ["cold", "mild", "hot", "never"]
    if way == "csv":  # a file of texts knows no order of its own
        labels = ["cold", "hot", "mild"]
    assert read["kind"].tolist() == [[float(kind == label) for label in labels] for kind in KINDS]
    assert table.schema.column("kind").labels == tuple(labels)
    assert table.schema.column("shop").labels == ("a", "b", "c")
    assert table.provenance is not None
    assert {c.column: c.categories for c in table.provenance.casts} == {
        "shop": ("a", "b", "c"),
        "kind": tuple(labels),
        "day": (),
        "at": (),
    }


@pytest.mark.parametrize("way", ["parquet", "csv", "glob"])
def test_the_source_names_features(way: str, tmp_path: Path) -> None:
    source = WAYS[way](tmp_path)
    named = open_table(f"{source}?features=shop,day&onehot=kind")
    assert named.digest == open_table(source, features=["shop", "day"], one_hot=["kind"]).digest


def test_unasked_columns_are_named(tmp_path: Path) -> None:
    table = open_table(_frame())
    assert table.provenance is not None
    assert table.provenance.left_out == (("day", "date32[day]"), ("at", "timestamp[us]")) or (
        table.provenance.left_out == (("day", "date32[day]"), ("at", "timestamp[ns]"))
    )
    assert [c.type for c in table.schema.columns] == ["text", "text", "float8"]


def test_record_arrays() -> None:
    records = np.zeros(4, [("x", "f4", (3,)), ("y", "f8"), ("shop", "U4")])
    records["x"] = np.arange(12).reshape(4, 3)
    records["shop"] = ["b", "a", "b", "b"]
    table = open_table(records, features=["shop"])
    assert [(c.name, c.type, c.length) for c in table.schema.columns] == [
        ("x", "float4[]", 3),
        ("y", "float8", None),
        ("shop", "int4", None),
    ]
    assert table.columns()["shop"].tolist() == [1, 0, 1, 1]


def test_one_hot_with_null(tmp_path: Path) -> None:
    table = open_table(_frame(), one_hot=["shop"])
    got = table.columns()["shop"]
    assert [None if row is None else list(row) for row in got] == [
        None if shop is None else [float(shop == label) for label in "abc"] for shop in SHOPS
    ]


def test_decimals_to_the_nearest() -> None:
    numbers = ["0.1", "12345678901234567890.123456789", "-2.50", "1E-9"]
    values = [Decimal(number) for number in numbers]
    table = open_table(pa.table({"n": pa.array([*values, None], pa.decimal256(60, 12))}))
    assert table.columns()["n"].tolist() == [float(v) for v in values] + [None]


def test_moments_to_the_nanosecond() -> None:
    stamps = np.array(["2024-02-29T12:00:00.000000001", "1900-01-01", "NaT"], "M8[ns]")
    table = open_table({"t": stamps}, features=["t"])
    whole = (dt.datetime(2024, 2, 29, 12) - dt.datetime(2000, 1, 1)).total_seconds()
    first, second, third = table.columns()["t"].tolist()
    assert first == whole + 1e-9 and third is None
    assert second == (dt.datetime(1900, 1, 1) - dt.datetime(2000, 1, 1)).total_seconds()
    times = pa.array([dt.time(0, 0, 1, 500000), None])
    assert open_table({"t": times}, features=["t"]).columns()["t"].tolist() == [1.5, None]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (_frame(), {"features": ["shoe"]}, "table has no column 'shoe'"),
        (
            {"t": [str(n) for n in range(5000)], "y": np.zeros(5000)},
            {"features": ["t"]},
            "column 't' has 5,000 different values; 4,096 categories are the most",
        ),
        (pa.table({"s": [{"a": 1}]}), {}, "table has no column that can be stored: 's' has"),
        (
            pa.table({"s": [{"a": 1}]}),
            {"features": ["s"]},
            "column 's' of table has the type struct",
        ),
    ],
    ids=["unknown", "too many", "struct", "struct asked for"],
)
def test_mistakes(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError) as problem:
        open_table(data, **options)
    assert problem.value.message.startswith(message)


def test_files_of_different_columns(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1, 2]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"a": [1.5, 2]}), tmp_path / "2.parquet")
    with pytest.raises(SourceError, match=r"2\.parquet has other columns than .*1\.parquet: "):
        open_table(str(tmp_path / "*.parquet"))
    with pytest.raises(SourceError, match=r"^no file matches .*none-\*\.parquet$"):
        open_table(str(tmp_path / "none-*.parquet"))


# designs keep what their numbers stand for

KERNEL = """kernel k(x: input[d], y: output, w: model[d])
  w <- w - 0.125 * merge((sum(w * x) - y) * x, 4)
"""


def _kernel(folder: Path) -> str:
    (folder / "k.psk").write_text(KERNEL)
    return str(folder / "k.psk")


def test_a_design_keeps_its_categories(tmp_path: Path) -> None:
    first = open_table({"shop": ["b", "a", "c", "a"], "y": Y[:4]}, features=["shop"])
    design = ps.compile(_kernel(tmp_path), "small", table=first, dims={"d": 1})
    design.save(tmp_path / "design")
    loaded = ps.load(tmp_path / "design")
    assert loaded.plan.schema.column("shop").labels == ("a", "b", "c")
    # the same rows without one of the categories: a numbering of their own would make b 0
    second = {"shop": ["b", "c", "c", "b"], "y": Y[:4]}
    told = open_table({"shop": [1, 2, 2, 1], "y": Y[:4]}).columns()["shop"]
    direct = loaded.run(second)
    assert direct.rows_used == 4 and direct.rows_skipped == 0
    numbers = open_table(second, loaded.plan.schema).columns()["shop"]
    assert numbers.tolist() == told.tolist() == [1, 2, 2, 1]
    with pytest.raises(SourceError) as problem:
        loaded.run({"shop": ["b", "d"], "y": Y[:2]})
    assert problem.value.code == "E706"
    assert problem.value.message == (
        "column 'shop' has the category 'd', which the design does not know"
    )
    with pytest.raises(SourceError, match="categories of its column 'shop' have other numbers"):
        loaded.run(open_table(second, features=["shop"]))


def test_labels_are_no_hardware(tmp_path: Path) -> None:
    designs = [
        ps.compile(
            _kernel(tmp_path),
            "small",
            table=open_table({"shop": shops, "y": Y[:2]}, features=["shop"]),
        )
        for shops in (["a", "b"], ["c", "d"])
    ]
    assert designs[0].digest == designs[1].digest
    assert designs[0] != designs[1]


def test_labels_in_json() -> None:
    table = open_table({"shop": ["a", "b"], "y": Y[:2]}, features=["shop"])
    assert Schema.from_json(table.schema.to_json()) == table.schema
    wrong = table.schema.to_json()
    wrong["columns"][0]["labels"] = [1, 2]
    with pytest.raises(ValueError, match="labels of column 'shop' must be texts"):
        Schema.from_json(wrong)


# what is said of columns that a kernel cannot take


def test_a_column_that_was_left_out(tmp_path: Path) -> None:
    with pytest.raises(KernelError) as problem:
        ps.compile(_kernel(tmp_path), "small", table=_frame(), bind={"x": ["day"]})
    text = str(problem.value)
    assert "error[E613]: x cannot take the column day: it has the type date32[day], which" in text
    assert "where the source names it: ?features=day" in text


def test_arrays_of_different_lengths(tmp_path: Path) -> None:
    from penstock.models.heap.schema import Column
    from penstock.models.heap.writer import write_heap

    schema = Schema("t", (Column("x", "float4[]"), Column("y", "float4")))
    arrays = [np.ones(n, np.float32) for n in (2, 3, 3, 5)]
    pages = write_heap(schema, {"x": arrays, "y": np.zeros(4, np.float32)})
    with pytest.raises(KernelError) as problem:
        ps.compile(_kernel(tmp_path), "small", table=Table(schema, pages))
    text = str(problem.value)
    assert "error[E613]: x cannot take the column x: it has arrays of 2 to 5 elements" in text
    assert "--dim" not in text


def test_rows_used_and_skipped(tmp_path: Path) -> None:
    from penstock.dsl.analytics.plan import Choices

    x = np.ma.masked_array(np.arange(20.0), np.arange(20) % 5 == 0)
    data = {"x": x, "y": np.arange(20.0)}
    (tmp_path / "k.psk").write_text(
        "kernel k(x: input, y: output, w: model)\n"
        "  w <- w - 0.001 * merge((w * x - y) * x, 4)\n  epochs 3\n"
    )
    design = ps.compile(tmp_path / "k.psk", "small", table=data, choices=Choices(on_null="skip"))
    run = design.run(data)
    assert (run.rows_used, run.rows_skipped) == (16, 4)
    assert "16 rows used, 4 skipped" in repr(run)
