"""Tables from files and random numbers: what becomes of each type, and a message for everything that can be wrong."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import penstock as ps
from penstock.dsl.core.load import from_text
from penstock.host.sources import SourceError, Table, open_table
from penstock.models import inputs
from penstock.models.heap.checksum import checksum
from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.writer import write_heap
from testbench.pruned_pages import write_pruned

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "data"


def types(table: Table) -> dict[str, str]:
    return {c.name: c.type for c in table.schema.columns}


# -- what comes in ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows", "length"),
    [
        ("cancer", 569, 30),
        ("cancer_svm", 569, 30),
        ("cancer_columns", 569, None),
        ("diabetes", 442, 10),
        ("iris", 150, 4),
        ("ratings", 452, None),
    ],
)
def test_bundled_tables(name: str, rows: int, length: int | None) -> None:
    table = open_table(f"heap:{EXAMPLES / name}.heap,{EXAMPLES / name}.json")
    assert table.name == name and table.rows == rows and table.pages.shape[1] == 8192
    assert all(len(values) == rows for values in table.columns().values())
    if length:
        assert next(c for c in table.schema.columns if c.is_array).length == length


def test_bundled_cancer_is_scikit_learns() -> None:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    raw = open_table(
        f"heap:{EXAMPLES}/cancer_columns.heap,{EXAMPLES}/cancer_columns.json"
    ).columns()
    assert np.array_equal(
        np.stack([raw[n.replace(" ", "_")] for n in data.feature_names], axis=1), data.data
    )
    scaled = open_table(f"heap:{EXAMPLES}/cancer.heap,{EXAMPLES}/cancer.json").columns()
    assert np.array_equal(scaled["y"], data.target) and np.array_equal(raw["y"], data.target)
    assert np.array_equal(
        scaled["x"],
        ((data.data - data.data.mean(axis=0)) / data.data.std(axis=0)).astype(np.float32),
    )


def test_heap_file_of_several_segments_and_open_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema("t", (Column("id", "int4"), Column("x", "float8[]")))
    pages = write_heap(schema, {"id": np.arange(500), "x": np.ones((500, 7))})
    monkeypatch.setattr("penstock.host.sources.files._SEGMENT", 2 * 8192)
    for part in range(0, len(pages), 2):
        pages[part : part + 2].tofile(tmp_path / (f"t,1.heap.{part // 2}" if part else "t,1.heap"))
    schema.save(tmp_path / "t.json")
    table = open_table(f"heap:{tmp_path}/t,1.heap,{tmp_path}/t.json")
    assert np.array_equal(table.pages, pages) and table.schema.column("x").length == 7


def test_csv(tmp_path: Path) -> None:
    file = tmp_path / "flats.csv"
    file.write_text(
        "area, price ,big,floor,note,id,gap\n"
        "50.5,1e3,true,3,ok,5000000000,\n60,2e3,false,-1,,7,4\nnan,3,true,0,x,8,\n"
    )
    table = open_table(str(file))
    assert types(table) == {
        "area": "float8",
        "price": "float8",
        "big": "bool",
        "floor": "int4",
        "note": "text",
        "id": "int8",
        "gap": "int4",
    }
    assert table.name == "flats" and table.rows == 3
    got = table.columns()
    assert got["price"].tolist() == [1000, 2000, 3] and got["floor"].tolist() == [3, -1, 0]
    assert got["big"].tolist() == [True, False, True]
    assert (
        got["note"] == ["ok", None, "x"]
        and got["gap"].tolist() == [None, 4, None]
        and np.isnan(got["area"][2])
    )
    assert [c.not_null for c in table.schema.columns] == [
        True,
        True,
        True,
        True,
        False,
        True,
        False,
    ]


def test_csv_with_a_bad_cell(tmp_path: Path) -> None:
    """As text the column would be no feature any more, and nobody would know."""
    file = tmp_path / "t.csv"
    file.write_text("a,b\n1,2\n4,oops\n7,8\n")
    with pytest.raises(
        SourceError, match=r"column 'b' of .* has numbers in 2 rows, but 'oops' in line 3"
    ) as caught:
        open_table(str(file))
    assert caught.value.code == "E704"
    file.write_text("a,b\n1,x1\n4,2\n7,y3\n")
    assert types(open_table(str(file)))["b"] == "text"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("\ufeffa,y\n1,2\n", {"a": [1], "y": [2]}),
        ("\ufeff1,2\n3,4\n", {"c1": [1, 3], "c2": [2, 4]}),
        ("\n\na,y\n1,2\n", {"a": [1], "y": [2]}),
        ("\n1,2\n", {"c1": [1], "c2": [2]}),
        ('"a\nb",y\n1,2\n', {"a\nb": [1], "y": [2]}),
        ('t,y\n"a\nb",2\nc,4\n', {"t": ["a\nb", "c"], "y": [2, 4]}),
        ('t,y\n5" pipe,2\n', {"t": ['5" pipe'], "y": [2]}),
    ],
)
def test_csv_as_spreadsheets_write_it(
    tmp_path: Path, text: str, columns: dict[str, list[Any]]
) -> None:
    """Byte order marks, empty lines before the names, line ends in names and cells."""
    file = tmp_path / "t.csv"
    file.write_text(text, encoding="utf-8")
    found = {name: list(values) for name, values in open_table(str(file)).columns().items()}
    assert found == columns


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,t\n1,"x\n2,3\n3,4\n', ": a quotation mark in line 2 or behind it has no end"),
        (b"a,\xe4\n1,2\n", " is not text in UTF-8"),
        (b"a;b;y\n1;2;3\n", " has one column, 'a;b;y'"),
        (b"a\tb\n1\t2\n", " has one column, 'a\\tb'"),
    ],
)
def test_csv_that_is_read_wrong(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        open_table(str(file))
    assert caught.value.message == f"{file}{message}" and caught.value.hint


@pytest.mark.parametrize("cell", ["9007199254740993", "9223372036854775809", "1" * 5000])
def test_csv_with_whole_numbers_beyond_int8(tmp_path: Path, cell: str) -> None:
    """They are kept as float8 where that holds each; no digit is lost silently."""
    file = tmp_path / "t.csv"
    file.write_text(f"a\n{2**63}\n-2\n")
    assert open_table(str(file)).columns()["a"].tolist() == [2.0**63, -2]
    file.write_text(f"b,a\n1,{2**63}\n1,{cell}\n")
    with pytest.raises(SourceError, match=f"column 'a' of {file} has {cell[:40]} in line 3"):
        open_table(str(file))
    file.write_text(f"a\n{2**63}\n{cell}\n0.5\n")  # a column of float8
    assert open_table(str(file)).columns()["a"].tolist() == [2.0**63, float(cell), 0.5]


def test_csv_without_names(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("1,2.5\n3,4.5\n")
    got = open_table(str(file)).columns()
    assert got["c1"].tolist() == [1, 3] and got["c2"].tolist() == [2.5, 4.5]


def test_npz(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    arrays: dict[str, Any] = {
        "f8": rng.normal(size=9),
        "f4": rng.normal(size=9).astype("f4"),
        "f2": rng.normal(size=9).astype("f2"),
        "u1": np.arange(9, dtype="u1"),
        "i2": np.arange(9, dtype="i2"),
        "u2": np.arange(9, dtype="u2") + 60000,
        "y": np.arange(9),
        "flag": np.arange(9) > 4,
        "x4": rng.normal(size=(9, 5)).astype("f4"),
        "x8": rng.normal(size=(9, 2)),
        "whole": np.full((9, 2), 1 << 24),
        "large": np.full((9, 2), 1 << 25),
        "matrix": rng.normal(size=(9, 2, 3)).astype("f4"),
        "big": np.arange(9, dtype=">f8"),
        "name": np.array(list("abcdefghi")),
    }
    np.savez(tmp_path / "t.npz", **arrays)
    table = open_table(str(tmp_path / "t.npz"))
    assert list(types(table).values()) == [
        "float8",
        "float4",
        "float4",
        "int2",
        "int2",
        "int4",
        "int8",
        "bool",
        "float4[]",
        "float8[]",
        "float4[]",
        "float8[]",
        "float4[]",
        "float8",
        "text",
    ]
    got = table.columns()
    for name, values in arrays.items():
        assert np.array_equal(got[name], values.reshape(9, -1) if values.ndim > 1 else values)
    assert table.schema.column("matrix").length == 6


def test_a_matrix_a_row(tmp_path: Path) -> None:
    """Three dimensions of an archive feed a matrix input, and a vector of as many elements."""
    x = np.arange(24.0).reshape(4, 2, 3)
    np.savez(tmp_path / "t.npz", x=x)
    for shape in ("2, 3", "6"):
        text = f"kernel k(x: input[{shape}], w: model[{shape}])\n  w <- w + merge(x)\n"
        made = ps.compile(from_text(text), "small", str(tmp_path / "t.npz"), epochs=1)
        found = made.run(str(tmp_path / "t.npz")).result["w"]
        assert np.array_equal(found, x.sum(axis=0).reshape(found.shape))


def test_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a": pa.array([1, None, 3], pa.int16()),
            "b": pa.array([0.5, 1.5, None], pa.float32()),
            "s": pa.array(["x", None, "z"]),
            "d": pa.array(["u", "v", "u"]).dictionary_encode(),
            "x": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32())),
            "z": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float64(), 2)),
            "flag": pa.array([True, None, False]),
            "day": pa.array([1, 2, 3], pa.date32()),
            "none": pa.nulls(3),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    opened = open_table(str(tmp_path / "t.parquet"))
    assert types(opened) == {
        "a": "int2",
        "b": "float4",
        "s": "text",
        "d": "text",
        "x": "float4[]",
        "z": "float8[]",
        "flag": "bool",
        "none": "float8",
    }
    got = opened.columns()
    assert (
        got["a"].tolist() == [1, None, 3]
        and got["flag"].tolist() == [True, None, False]
        and got["d"] == ["u", "v", "u"]
    )
    assert got["x"].tolist() == got["z"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert opened.provenance is not None
    assert opened.provenance.left_out == (("day", "date32[day]"),)
    assert got["none"].tolist() == [None] * 3


def test_rows_that_need_larger_pages() -> None:
    for width, size in ((2000, 8192), (4000, 16384), (8000, 32768)):
        table = Table.from_columns({"x": np.ones((3, width), np.float32), "y": np.ones(3)})
        assert table.schema.page_size == size and table.columns()["x"].shape == (3, width)
    assert Table.from_columns({"x": np.ones((3, 2))}, page_size=32768).schema.page_size == 32768


def test_digest_covers_schema_and_pages() -> None:
    make: Callable[[str, float], str] = lambda name, value: (
        Table.from_columns({name: np.full(5, value)}).digest
    )
    assert make("a", 1.0) == make("a", 1.0)
    assert len({make("a", 1.0), make("b", 1.0), make("a", 2.0)}) == 3


SHAPES = Schema(
    "random",
    (
        Column("x", "float4[]", length=12),
        Column("k", "int4"),
        Column("b", "bool"),
        Column("y", "float4"),
    ),
)


def test_random() -> None:
    table = open_table("random:rows=500,seed=3", SHAPES)
    again = open_table("random:rows=500,seed=3", SHAPES)
    assert table.digest == again.digest != open_table("random:rows=500,seed=4", SHAPES).digest
    got = table.columns()
    assert set(np.unique(got["y"])) == {0, 1} and 0.3 < got["y"].mean() < 0.7
    assert set(np.unique(open_table("random:rows=500,task=signed", SHAPES).columns()["y"])) == {
        -1,
        1,
    }
    got = open_table("random:rows=500,regression", SHAPES).columns()
    features = np.column_stack([got["x"], got["k"], got["b"]])
    _, residue, _, _ = np.linalg.lstsq(features, got["y"], rcond=None)
    assert residue[0] / 500 < 0.011 < 0.2 < got["y"].var()  # noise of 0.1 on a linear model
    wide = Table.random(Schema("t", (Column("x", "float4[]", length=5000), Column("y", "int4"))), 4)
    assert wide.schema.page_size == 32768 and wide.rows == 4


# -- what can be wrong -----------------------------------------------------------------------------------------------------


def fails(src: str, message: str, hint: str | None = None) -> None:
    with pytest.raises(SourceError) as caught:
        open_table(src)
    assert caught.value.message == message
    assert caught.value.hint
    if hint is not None:
        assert caught.value.hint == hint


def test_unknown_sources(tmp_path: Path) -> None:
    known = (
        "known are: heap:FILE,SCHEMA.json · postgresql://…?table=NAME · FILE.csv · FILE.npz · FILE.parquet · "
        "FILE.arrow · FILE.feather · random:rows=1000,seed=1"
    )
    fails("table.xlsx", "unknown data source 'table.xlsx'", known)
    fails("", "unknown data source ''", known)
    fails("missing.csv", "no such file: missing.csv")
    fails(f"{tmp_path}/missing.npz", f"no such file: {tmp_path}/missing.npz")
    (tmp_path / "folder.csv").mkdir()
    fails(f"{tmp_path}/folder.csv", f"{tmp_path}/folder.csv is not a file")
    (tmp_path / "empty.parquet").touch()
    fails(f"{tmp_path}/empty.parquet", f"{tmp_path}/empty.parquet is empty")


def test_wrong_heap_files(tmp_path: Path) -> None:
    file, description = tmp_path / "t.heap", tmp_path / "t.json"
    src = f"heap:{file},{description}"
    schema = {"columns": [{"name": "a", "type": "int4"}]}
    description.write_text(json.dumps(schema))
    fails("heap:t.heap", "heap:t.heap does not name two files", "the form is heap:FILE,SCHEMA.json")
    fails(src, f"no such file: {file}")
    file.write_bytes(b"")
    fails(src, f"{file} is empty")
    file.write_bytes(bytes(8193))
    fails(
        src,
        f"{file} has 8193 bytes, which is not a whole number of pages of 8192 bytes",
        f"is page_size in {description} the server's block_size, and the file complete?",
    )
    write_heap(Schema("t", (Column("a", "int4"),), 16384), {"a": np.arange(5000)}).tofile(file)
    fails(
        src,
        f"the pages of {file} have 16384 bytes each, but {description} says 8192",
        f'write "page_size": 16384 in {description}',
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{",
            " is not a table schema: line 1, column 2: no JSON: Expecting property name enclosed in double quotes",
        ),
        ("[]", ": not a table schema: a list instead of an object"),
        ("{}", ": not a table schema: no key 'columns'"),
        ('{"columns": []}', ": a table schema without columns"),
        (
            '{"columns": [{"name": "a", "type": "nonsense"}]}',
            ": column 'a' has the type 'nonsense'",
        ),
        ("null", ": not a table schema: null instead of an object"),
        ("7", ": not a table schema: 7 instead of an object"),
        ('{"columns": 5}', ": columns is 5 instead of a list"),
        ('{"columns": "abc"}', ": columns is a text instead of a list"),
        ('{"columns": [null]}', ": one of the columns is null instead of an object"),
        ('{"columns": ["x"]}', ": one of the columns is a text instead of an object"),
        ('{"columns": [{"type": "int4"}]}', ": column 1 has no name"),
        ('{"columns": [{"name": "a", "typ": "int4"}]}', ": a column has no key 'typ'"),
        ('{"columns": [{"name": "a", "type": []}]}', ": column 'a' has the type []"),
        (
            '{"columns": [{"name": "a", "type": "int4"}], "page_size": "big"}',
            ": page_size must be a power of two from 1024 to 32768, not 'big'",
        ),
        (
            '{"columns": [{"name": "a", "type": "int4"}, {"name": "a", "type": "int2"}]}',
            ": two columns are called 'a'",
        ),
        ('{"columns": [{"name": 5, "type": "int4"}]}', ": a column's name must be text, not 5"),
        (
            '{"columns": [{"name": "a", "type": "int4", "not_null": 1}]}',
            ": not_null of column 'a' must be true or false",
        ),
        (
            '{"columns": [{"name": "a", "type": "float4[]", "length": 0}]}',
            ": length of column 'a' must be a whole number from 1, and only arrays have one",
        ),
        (
            '{"columns": [{"name": "a", "type": "int4", "missing": "x"}]}',
            ": missing of column 'a' is no value of the type int4: 'x'",
        ),
        (
            '{"columns": [{"name": "a", "type": "int4"}], "page_size": 8000}',
            ": page_size must be a power of two from 1024 to 32768, not 8000",
        ),
    ],
)
def test_wrong_schemas(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.heap").write_bytes(bytes(8192))
    (tmp_path / "t.json").write_text(text)
    fails(f"heap:{tmp_path}/t.heap,{tmp_path}/t.json", f"{tmp_path}/t.json{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "{path}: Expected 2 columns, got 1: 3"),
        ("a,a\n1,2\n", "{path} has two columns called 'a'"),
        ("a,\n1,2\n", "{path} has a column without a name"),
        ("a,b\n", "{path} has no rows"),
        (
            ",".join(f"c{i}" for i in range(1601)) + "\n" + ",".join("1" * 1601) + "\n",
            "t has 1601 columns; a table takes at most 1600",
        ),
        (",".join(f"c{i}" for i in range(1500)) + "\n" + ",".join(["1.5"] * 1500) + "\n", None),
    ],
)
def test_wrong_csv(tmp_path: Path, text: str, message: str | None) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    if message is None:
        assert open_table(str(file)).schema.page_size == 16384
    else:
        fails(str(file), message.replace("{path}", str(file)))


def test_wrong_npz(tmp_path: Path) -> None:
    file = tmp_path / "t.npz"

    def save(**arrays: Any) -> str:
        np.savez(file, **arrays)
        return str(file)

    fails(
        save(a=np.ones(3), b=np.ones(4)),
        "the columns of t have different lengths: a has 3, b has 4",
    )
    fails(
        save(a=np.float64(3)),
        "'a' of t is a single value, not a column",
        "every array needs one entry for each row",
    )
    fails(save(a=np.ones(0)), "t has no rows")
    fails(save(a=np.ones((3, 0))), "array column 'a' has no elements")
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**70},)}}"
    with zipfile.ZipFile(file, "w") as archive:  # a header that no array has
        archive.writestr("a.npy", b"\x93NUMPY\x01\0\x76\0" + f"{head:117}\n".encode() + bytes(8))
    wrong = f"its bytes are not those of the shape ({2**70},) of float64"
    fails(str(file), f"{file} is not a NumPy archive of plain arrays: {wrong}")
    fails(
        save(a=np.ones(3) * 1j),
        "column 'a' has the type complex128, which no column can hold",
        "convert it to float64",
    )
    fails(
        save(a=np.array([1 << 63], "u8")),
        "column 'a' has values of 2**63 and more, which no integer type holds",
        "convert it to float64; an index takes numbers below 2**63",
    )
    fails(
        save(a=np.array([[1 << 60]])),
        "array column 'a' has integers beyond 2**53, which no float array holds",
        "scale the column",
    )
    fails(
        save(a=np.ones((2, 9000))),
        "t: a row of 72048 bytes does not fit a page of 32768: the most is 32736",
        "use float32 in place of float64, or fewer columns",
    )
    fails(save(), "t has no columns")
    fails(
        save(a=np.array([[1], None], object)),
        f"{file} is not a NumPy archive of plain arrays: arrays of Python objects are not read: make them float64 or text",
    )
    file.write_bytes(b"PK\3\4 no archive")
    fails(str(file), f"{file} is not a NumPy archive of plain arrays: File is not a zip file")
    with file.open("wb") as stream:
        np.save(stream, np.ones(3))
    fails(
        str(file),
        f"{file} is not a NumPy archive of plain arrays: File is not a zip file",
        "write it with numpy.savez(file, name=array, …)",
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0], [1.0, 2.0]], "the arrays in column 'x' of {path} have from 1 to 2 elements"),
        ([[1.0], None], "array column 'x' of {path} has rows without an array"),
        ([[1.0], [None]], "array column 'x' of {path} has missing elements"),
        ([["a"], ["b"]], "array column 'x' of {path} has elements of the type string"),
        (
            [{"k": 1}, {"k": 2}],
            "{path} has no column that can be stored: 'x' has the type struct<k: int64>",
        ),
        ([], "{path} has no rows"),
    ],
)
def test_wrong_parquet(tmp_path: Path, values: list[Any], message: str) -> None:
    file = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"x": pa.array(values)}), file)
    fails(str(file), message.replace("{path}", str(file)))


def test_not_parquet(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    file.write_bytes(b"PAR1 or not")
    with pytest.raises(SourceError, match=r"t.parquet is not a Parquet file that can be read: "):
        open_table(str(file))


@pytest.mark.parametrize(
    ("src", "message"),
    [
        ("random:rows=0", "random: rows must be at least 1 and seed at least 0"),
        ("random:rows=many", "random: rows must be a whole number, not 'many'"),
        ("random:depth=3", "random: does not know 'depth'"),
        ("random:task=magic", "random: does not know the task 'magic'"),
        ("random:rows=3", "a random table needs a kernel that says which columns to make"),
    ],
)
def test_wrong_random(src: str, message: str) -> None:
    fails(src, message)


def test_random_without_length() -> None:
    with pytest.raises(SourceError, match="column 'x' of a random table has no length"):
        open_table("random:rows=3", Schema("t", (Column("x", "float4[]"),)))


def test_undecided_rows_are_named() -> None:
    schema = Schema("t", (Column("a", "int4"),))
    table = Table(schema, write_pruned(schema, {"a": [1, 2]}, visibility=["frozen", "deleting"]))
    with pytest.raises(
        SourceError,
        match="cannot read the rows of table: block 0, line pointer 2: the page does not decide",
    ):
        table.columns()


def test_checksums_of_heap_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each flipped bit of a page with a checksum is found, in whichever file of the relation; 0 means none."""
    schema = Schema("t", (Column("x", "float8"),))
    pages = write_heap(schema, {"x": np.arange(2000.0)})
    (tmp_path / "t.json").write_text(json.dumps(schema.to_json()))
    relation, names = tmp_path / "t", tmp_path / "t.json"
    read = lambda more="": open_table(f"heap:{relation},{names}{more}").rows
    relation.write_bytes(pages.tobytes())
    assert read() == 2000  # without checksums
    pages.view("<u2")[:, 4] = checksum(pages)
    relation.write_bytes(pages.tobytes())
    assert read() == 2000
    draw = np.random.default_rng(3)
    for page, bit in zip(
        draw.integers(0, len(pages), 20), draw.integers(0, 8192 * 8, 20), strict=True
    ):
        damaged = pages.copy()
        damaged[page, bit // 8] ^= 1 << bit % 8
        relation.write_bytes(damaged.tobytes())
        with pytest.raises(SourceError) as refused:
            read()
        assert refused.value.code == "E708"
        assert refused.value.message == (
            f"{relation}: the checksum of page {page} (block {page}) is wrong: the page was damaged"
        )
        assert "?data_checksums=off" in refused.value.hint
    assert read("?data_checksums=off")
    fails(
        f"heap:{relation},{names}?data_checksums=no",
        f"heap:{relation},{names} has no data_checksums=no",
    )
    # the second file of a relation, by itself and behind the first
    monkeypatch.setattr("penstock.host.sources.files._SEGMENT", 4 * 8192)
    relation.write_bytes(pages[:4].tobytes())
    (tmp_path / "t.1").write_bytes(pages[4:].tobytes())
    assert read() == 2000
    relation = tmp_path / "t.1"
    assert 0 < read() < 2000
    damaged = pages[4:].copy()
    damaged[0, 5000] ^= 1
    relation.write_bytes(damaged.tobytes())
    with pytest.raises(SourceError, match=r"t\.1: the checksum of page 0 \(block 4\) is wrong"):
        read()


def test_checksums_of_parquet_pages(tmp_path: Path) -> None:
    """A page with a CRC that is not that of its bytes is refused, not read as other values."""
    file = tmp_path / "t.parquet"
    table = pa.table({"x": np.random.default_rng(1).normal(size=1000), "y": ["a", "b"] * 500})
    parquet.write_table(table, file, write_page_checksum=True, compression="none")
    assert open_table(str(file)).rows == 1000
    good = file.read_bytes()
    at = good.index(np.asarray(table["x"][7].as_py()).tobytes())
    file.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
    with pytest.raises(SourceError, match="CRC checksum verification failed") as refused:
        open_table(str(file))
    assert refused.value.code == "E703"


def test_tables_that_are_too_large_to_read(tmp_path: Path) -> None:
    """What a file says of its size is held against its own before there is memory for it."""
    many = [{"name": f"c{n}", "type": "int4"} for n in range(100_000)]
    (tmp_path / "t.json").write_text(json.dumps({"columns": many}))
    (tmp_path / "t.heap").write_bytes(bytes(8192))
    message = f"{tmp_path}/t.json: 100,000 columns: a table has at most 1,600"
    fails(
        f"heap:{tmp_path}/t.heap,{tmp_path}/t.json", message, "put features into one array column"
    )
    rows = 1 << 27
    table = pa.table({"x": pa.nulls(rows, pa.null()).cast(pa.int8())})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(SourceError, match="unpack to 4,294,967,296: more than 100 times as many"):
        open_table(str(tmp_path / "t.parquet"))


def test_an_archive_that_unpacks_to_far_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says it holds decides, before anything is unpacked."""
    monkeypatch.setattr(inputs, "_UNPACKED", 1 << 20)
    bomb, large, random = (tmp_path / f"{name}.npz" for name in ("bomb", "large", "random"))
    np.savez_compressed(bomb, x=np.zeros(1 << 18))
    np.savez(large, x=np.zeros(1 << 18))
    np.savez_compressed(random, x=np.random.default_rng(1).random(1 << 18))
    assert open_table(str(large)).rows == open_table(str(random)).rows == 1 << 18
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    with pytest.raises(SourceError) as caught:
        open_table(str(bomb))
    size = bomb.stat().st_size
    assert caught.value.message == (
        f"{bomb} has {size:,} bytes, which unpack to {(1 << 21) + 128:,}: more than 100 times as many"
    )


def test_arrow_types_that_pyarrow_has_no_arrays_of(tmp_path: Path) -> None:
    """Intervals of months, for one: a file of timestamps in which the type's number, 10, is that of intervals, 11."""
    file = tmp_path / "a.arrow"
    moments = pa.array(range(200), pa.timestamp("s"))
    feather.write_feather(pa.table({"a": moments}), file, "uncompressed")
    data, refused = file.read_bytes(), ""
    for place in (k for k, byte in enumerate(data) if byte == 10):
        file.write_bytes(data[:place] + b"\x0b" + data[place + 1 :])
        with pytest.raises(SourceError) as caught:  # no such column is stored unless it is named
            open_table(str(file))
        refused += str(caught.value)
    assert "PyArrow has no arrays of month_interval" in refused
