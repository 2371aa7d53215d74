"""host/sources: tables that a program holds."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock as ps
from penstock.host.sources import SourceError, Table, are_stored, open_table

X = np.arange(12, dtype=np.float32).reshape(6, 2) / 8
Y = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
ARROW = pa.table({"a": X[:, 0], "b": pa.array([1, 2, 3, None, 5, 6]), "y": Y})


class Frame:
    """What frames of other packages offer."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return ARROW.__arrow_c_stream__(requested_schema)


def test_dict_of_arrays() -> None:
    table = open_table({"x": X, "y": Y})
    assert [(c.name, c.type, c.length) for c in table.schema.columns] == [
        ("x", "float4[]", 2),
        ("y", "float8", None),
    ]
    read = table.columns()
    assert (read["x"] == X).all() and (read["y"] == Y).all()
    assert open_table({"y": [1, 2, 3]}).rows == 3


@pytest.mark.parametrize(
    "data", [ARROW, ARROW.to_batches()[0], Frame()], ids=["table", "batch", "frame"]
)
def test_arrow(data: Any, tmp_path: Path) -> None:
    """What comes as an Arrow table is packed as a Parquet file of it is."""
    import pyarrow.parquet as parquet

    parquet.write_table(ARROW, tmp_path / "table.parquet")
    assert open_table(data).digest == open_table(str(tmp_path / "table.parquet")).digest
    assert open_table(data).rows == 6 and not are_stored(data)


def test_a_table_is_itself() -> None:
    table = Table.from_columns({"y": Y})
    assert open_table(table) is table and are_stored(table)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "a table is not made of an int"),
        ([1, 2], "a table is not made of a list"),
        (X, "a table is not made of a ndarray"),
        (SimpleNamespace(columns=["a"]), "a table is not made of a SimpleNamespace"),
        ({1: Y}, "the columns of a dict are named by texts"),
        ({}, "table has no columns"),
        ({"y": Y, "x": X[:3]}, "the columns of table have different lengths: y has 6, x has 3"),
        ({"y": 1.0}, "'y' of table is a single value, not a column"),
        (
            {"y": np.array([{}, []], object)},
            "column 'y' of table cannot be packed: cannot mix list and non-list, non-null values",
        ),
        (
            {"y": [2**70, None]},
            "column 'y' of table cannot be packed: Python int too large to convert to C long",
        ),
        ({"": Y}, "table has a column without a name"),
        (pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]), "table has two columns called 'a'"),
        (pd.Series([1.0], name="y"), "a table is not made of a Series"),
        (pl.Series("y", [1.0]), "a table is not made of a Series"),
        (pa.table([[1], [2]], names=["a", "a"]), "table has two columns called 'a'"),
    ],
)
def test_what_is_no_table(data: Any, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        open_table(data)
    assert caught.value.message == message and caught.value.hint


@pytest.mark.parametrize(
    "data",
    [{"x": X, "y": Y}, pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y})],
    ids=["dict", "arrow"],
)
@pytest.mark.parametrize("target", ["small", "hx8k-evn"])
def test_compiled_and_run(data: Any, target: str, tmp_path: Path) -> None:
    """A design of such a table is the one of the same table in a file, and gives the same."""
    (tmp_path / "k.psk").write_text(
        "kernel f(x: input[d], y: output, w: model[d])\n  w <- w + x * y\n  epochs 2\n"
    )
    if isinstance(data, dict):
        file = tmp_path / "table.npz"
        np.savez(file, **data)
    else:
        import pyarrow.parquet as parquet

        file = tmp_path / "table.parquet"
        parquet.write_table(data, file)
    options: dict[str, Any] = {"target": target, "format": "fixed:4,4"}
    design = ps.compile(tmp_path / "k.psk", table=data, **options)
    other = ps.compile(tmp_path / "k.psk", table=str(file), **options)
    assert design.digest == other.digest
    for backend in ("golden", "model"):
        assert (
            design.run(data, backend).result is None
            or (
                design.run(data, backend).result["w"] == other.run(str(file), backend).result["w"]
            ).all()
        )
        assert design.run(data, backend).cycles == other.run(str(file), backend).cycles
    with pytest.raises(SourceError, match=r"^a table is not made of a float$"):
        design.run(3.5)


def test_fits_over_columns(tmp_path: Path) -> None:
    (tmp_path / "k.psk").write_text(
        "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
    )
    design = ps.compile(tmp_path / "k.psk", table={"x": X, "y": Y})
    file = tmp_path / "table.npz"
    np.savez(file, x=X, y=Y)
    assert design.digest == ps.compile(tmp_path / "k.psk", table=str(file)).digest
    with pytest.raises(SourceError, match=r"^a table is not made of a float$"):
        ps.compile(tmp_path / "k.psk", table=3.5)


def test_empty_chunks() -> None:
    """A filtered dataset has chunks without rows; they change nothing."""
    none = pa.array([], pa.int64())
    chunks = pa.chunked_array([none, [1, 2], none, [None, 4], none])
    words = pa.chunked_array([pa.array([], pa.string()), ["b", "a"], ["b", None]])
    for data in (pa.table({"x": chunks, "s": words}), {"x": chunks, "s": words}):
        read = open_table(data, features=["s"]).columns()
        assert read["x"].tolist() == [1, 2, None, 4] and read["s"].tolist() == [1, 0, 1, None]


def ordered(*chunks: list[str]) -> pa.ChunkedArray:
    """Chunks of an ordered dictionary, each with a dictionary of its own and one row a category."""
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(
                pa.array(range(len(labels)), pa.int8()), labels, ordered=True
            )
            for labels in chunks
        ],
        kind,
    )


LO, LONG = ["lo", "hi"], ["lo", "mid", "hi"]


@pytest.mark.parametrize("chunks", [(LO, LONG), (LONG, LO), (["mid"], LONG, ["hi"])])
def test_an_order_in_several_chunks(chunks: tuple[list[str], ...]) -> None:
    """The categories of the first chunk came first once, and "the type's order" was theirs."""
    table = open_table(pa.table({"x": ordered(*chunks)}), features=["x"])
    assert table.schema.columns[0].labels == tuple(LONG)
    wanted = [LONG.index(label) for labels in chunks for label in labels]
    assert table.columns()["x"].tolist() == wanted
    assert table.provenance is not None and "in the type's order" in table.provenance.casts[0].how


def test_chunks_that_tell_no_order() -> None:
    for chunks in ((LO, ["hi", "lo"]), (["lo", "mid"], LO), (["hi", "lo"], LONG)):
        data = pa.table({"x": ordered(*chunks), "y": range(sum(map(len, chunks)))})
        with pytest.raises(SourceError, match="whose categories do not tell one order: ") as caught:
            open_table(data, features=["x"])
        assert caught.value.code == "E704"
        assert open_table(data).rows == data.num_rows  # the order is of no use there


FRAME = {
    "i": pd.array([1, None, 3], "Int64"),
    "s": pd.array([1, None, 3], "Int16"),
    "b": pd.array([True, None, False], "boolean"),
    "f": pd.array([1.5, None, 2.5], "Float64"),
    "n": np.array([1.5, np.nan, 2.5]),
    "t": pd.array(["a", None, "c"], "string"),
    "c": pd.Categorical(["lo", None, "hi"], ["lo", "mid", "hi"], ordered=True),
    "d": np.array(["2020-01-01", "NaT", "2021-01-01"], "M8[ns]"),
}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_dict_of_a_frames_columns(library: str) -> None:
    """They are packed as the frame is: with NULL, which their arrays cannot say."""
    frame: Any = pd.DataFrame(FRAME)
    features = ["c", "d"]
    if library == "polars":
        frame = pl.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))
    columns = {name: frame[name] for name in frame.columns}
    one, other = (open_table(data, features=features) for data in (columns, frame))
    assert one.digest == other.digest and one.provenance == other.provenance
    read = one.columns()
    assert [one.schema.columns[k].type for k in range(4)] == ["int8", "int2", "bool", "float8"]
    for name, wanted in (("i", [1, None, 3]), ("b", [True, None, False])):
        assert read[name].tolist() == wanted
    # of an ordered Categorical polars makes one without an order
    assert read["c"].tolist() == ([0, None, 2] if library == "pandas" else [1, None, 0])


def test_lists_with_none() -> None:
    cells: dict[str, list[Any]] = {
        "i": [1, None, 3],
        "f": [None, 0.5, 2],
        "b": [True, False, None],
        "t": ["a", None, "c"],
        "none": [None, None, None],
    }
    for data in (cells, {name: np.array(values, object) for name, values in cells.items()}):
        table = open_table(data)
        assert table.digest == open_table(pa.table(cells)).digest
        assert table.columns()["i"].tolist() == [1, None, 3]
        assert [c.type for c in table.schema.columns[:4]] == ["int8", "float8", "bool", "text"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pa.array([0, 1], pa.date64()),
            "column 'x' of table cannot be packed: Casting from date64[ms] to date32[day] would lose data: 1",
        ),
        (
            pa.array([9, 10], pa.duration("s")),
            "column 'x' of table has the type duration[s], which cannot become a number",
        ),
        (np.array([b"a", b"\xff"]), "column 'x' of table cannot be packed: it is no text in UTF-8"),
        ([[1, 2], [3]], "the arrays in column 'x' of table have from 1 to 2 elements"),
        ([[1, 2], None], "array column 'x' of table has rows without an array"),
        ([None, object()], "column 'x' of table cannot be packed: "),
    ],
    ids=["date64", "duration", "bytes", "ragged", "no array", "object"],
)
def test_columns_that_are_no_features(column: Any, message: str) -> None:
    """Numbers that would mean nothing are none: durations in the order of their texts, for one."""
    with pytest.raises(SourceError) as caught:
        open_table({"x": column, "y": [1, 2]}, features=["x"])
    assert caught.value.message.startswith(message) and caught.value.code == "E704"


@pytest.mark.parametrize("cells", [[[1, 2], [3]], [[1.5], None]])
def test_arrays_that_nobody_asks_for(cells: Any) -> None:
    """Arrays of several lengths are left out, and said to be where a kernel takes them."""
    for table in ({"x": cells, "y": [1, 2]}, pa.table({"x": pa.array(cells), "y": [1, 2]})):
        found = open_table(table)
        assert [c.name for c in found.schema.columns] == ["y"]
        assert found.provenance.left_out == (("x", "no arrays of one length that can be packed"),)
        why, hint = found.unusable("x") or ("", "")
        assert why == "has no arrays of one length that can be packed" and "each row" in hint


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(SourceError, match=r"^column 'x' holds bytes that are no text in UTF-8$"):
        open_table({"x": np.array([b"a", b"\xff"]), "y": [1, 2]})


def test_python_objects_are_packed_as_in_a_frame() -> None:
    """With None among them or without."""
    for cells in ([Decimal("1.5"), Decimal(2)], np.array([1.5, 2], object)):
        assert open_table({"x": cells}).columns()["x"].tolist() == [1.5, 2.0]
    days = {"x": [date(2000, 1, 2), date(2000, 1, 1)], "y": [1.0, 2.0]}
    assert list(open_table(days).columns()) == ["y"]
    assert open_table(days, features="x").columns()["x"].tolist() == [1, 0]


def test_periods_are_dates() -> None:
    """Though they are stored as numbers, they are features only where they are asked for."""
    table = open_table(pd.DataFrame({"x": pd.period_range("2020", "2021", freq="Y"), "y": 1.0}))
    assert list(table.columns()) == ["y"] and table.provenance is not None
    assert table.provenance.left_out == (("x", "period"),)


def test_periods_are_the_moments_at_which_they_begin(tmp_path: Path) -> None:
    """Of a file as well, which is read without pandas."""
    frame = pd.DataFrame({"x": pd.PeriodIndex(["2000-02", None], freq="M"), "y": 1.0})
    frame.to_parquet(tmp_path / "p.parquet")
    for source in (frame, str(tmp_path / "p.parquet")):
        table = open_table(source, features="x")
        assert table.columns()["x"].tolist() == [31 * 86400, None]
        assert table.provenance is not None
        cast = table.provenance.casts[0]
        assert (cast.column, cast.how) == ("x", "seconds since 2000-01-01 00:00:00")
        plain = open_table(source)
        assert list(plain.columns()) == ["y"] and plain.provenance is not None
        assert plain.provenance.left_out == (("x", "period"),)


def test_a_date_before_all_numbers() -> None:
    column = pa.array([0, -(2**31)], pa.int32()).cast(pa.date32())
    with pytest.raises(SourceError) as caught:
        open_table(pa.table({"x": column}), features=["x"])
    why = "dates before the year -5,877,611 are too long ago for int4"
    assert caught.value.message == f"column 'x' of table cannot be packed: {why}"
