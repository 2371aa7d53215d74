"""The golden Strider against SQL's answers, an independent reader, and its own promises on corrupt pages."""

import json
from pathlib import Path

import numpy as np
import pytest

from penstock.models.heap.schema import TYPES, Column, Schema
from penstock.models.heap.writer import write_heap
from penstock.models.numerics.convert import from_pg
from penstock.models.numerics.formats import parse_format
from penstock.models.numerics.policy import InputPolicy
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.golden import walk_page
from penstock.models.strider.judge import RowCounts
from penstock.models.strider.layout import Source, TupleLayout, place
from penstock.models.strider.machine import StriderMachine
from penstock.models.strider.program import generate, port_config
from penstock.models.strider.table import walk_table
from testbench.strider_cases import corrupt, random_case

DATA = Path(__file__).parents[1] / "heap" / "data"
FLOAT = parse_format("float32")


def whole_table(schema, lanes=4, on_null="error", leave=()):
    """A layout that uses every numeric column that is not in `leave`; each column is a field of its own."""
    wanted = {
        c.name: i for i, c in enumerate(schema.columns) if c.is_numeric and c.name not in leave
    }
    shapes = {name: (1, schema.columns[i].length or 1) for name, i in wanted.items()}
    beats, fields = place(shapes, lanes)
    sources = tuple(Source(wanted[f.name], 0, f.cols, f.position) for f in fields)
    layout = TupleLayout(lanes, beats, fields, sources, on_null)
    return WalkConfig(schema, layout, FLOAT, policy=InputPolicy("saturate", "pass"))


def codes_of(walk, values):
    """What the Strider must deliver for rows of these values by column name."""
    rows = len(next(iter(values.values())))
    out = np.zeros((rows, walk.positions), np.int64)
    for f in walk.layout.fields:
        column = walk.schema.column(f.name)
        element = TYPES[column.type].element or column.type
        raw = (
            np.ascontiguousarray(values[f.name])
            .view(f"<u{TYPES[element].length}")
            .reshape(rows, f.cols)
        )
        out[:, f.position : f.position + f.cols] = from_pg(element, raw, FLOAT)
    return out


@pytest.mark.parametrize("path", sorted(DATA.glob("*.npz")), ids=lambda p: p.stem)
@pytest.mark.parametrize("on_null", ["error", "skip"])
def test_server_pages(path, on_null):
    """Pages of a real server give SQL's answer, or the error they must."""
    archive = np.load(path)
    schema = Schema.from_json(json.loads(str(archive["schema"])))
    expect = str(archive["expect"])
    pages = archive["pages"]
    names = {key.removeprefix("value_") for key in archive.files if key.startswith("value_")}
    leave = {c.name for c in schema.columns if c.name not in names} if expect == "rows" else set()
    walk = whole_table(schema, on_null=on_null, leave=leave)
    codes, counts, _, error = walk_table(pages, walk)
    if expect != "rows":
        assert error is not None and error.code.name == expect
        return
    null = np.any([archive[f"null_{f.name}"] for f in walk.layout.fields], axis=0)
    if on_null == "error" and null.any():
        assert error is not None and error.code.name == "TUPLE_NULL"
        row = int(np.argmax(null))
        first = next(
            c.name for c in schema.columns if c.name in names and archive[f"null_{c.name}"][row]
        )
        assert error.column == first
        assert np.array_equal(
            codes, codes_of(walk, {n: archive[f"value_{n}"] for n in names})[:row]
        )
        return
    assert error is None
    assert counts.sum() == len(codes)
    assert np.array_equal(codes, codes_of(walk, {n: archive[f"value_{n}"] for n in names})[~null])


def drawn_table(rng, rows):
    """Columns of every kind with values, NULLs and defaults of added ones, all of them exact in float32; and how
    many attributes each row was written with."""
    columns, values, nulls = [], {}, {}
    for k in range(int(rng.integers(2, 9))):
        kind = str(
            rng.choice(
                ["bool", "int2", "int4", "int8", "float4", "float8", "float4[]", "float8[]", "text"]
            )
        )
        length = int(rng.integers(1, 7)) if kind.endswith("[]") else None
        high, size = 2 if kind == "bool" else 1000, (rows, length) if length else rows
        numbers = rng.integers(0, high, size) / (4 if kind.startswith("float") else 1)
        values[f"c{k}"] = ["x" * n for n in rng.integers(0, 9, rows)] if kind == "text" else numbers
        nulls[f"c{k}"] = rng.random(rows) < (0.1 if rng.random() < 0.3 else 0)
        default = None
        if kind != "text" and rng.random() < 0.7:
            default = (rng.integers(0, high, length) / 1).tolist()
        columns.append(Column(f"c{k}", kind, length=length, missing=default))
    natts = rng.integers(1 if rng.random() < 0.8 else len(columns), len(columns) + 1, rows)
    return Schema("t", tuple(columns), 1024), values, nulls, natts


def drawn_layout(rng, schema, lanes, on_null):
    """Parts of columns, here and there; an element may go to two places."""
    sources, at = [], 0
    for index, column in enumerate(schema.columns):
        for _ in range(int(rng.integers(0, 3)) if column.is_numeric else 0):
            first = int(rng.integers(0, column.length or 1))
            count = int(rng.integers(1, (column.length or 1) - first + 1))
            at += int(rng.integers(0, 3))
            sources.append(Source(index, first, count, at))
            at += count
    if rng.random() < 0.5:
        rng.shuffle(sources)
    return TupleLayout(lanes, max(1, -(-at // lanes)), (), tuple(sources), on_null)


@pytest.mark.parametrize("seed", range(60))
def test_values_as_they_were_written(seed):
    """For golden and for the machine that runs the program: columns that came later give their defaults to rows from before, element by element."""
    rng, rows = np.random.default_rng(seed), 24
    schema, values, nulls, natts = drawn_table(rng, rows)
    layout = drawn_layout(rng, schema, int(rng.choice([1, 3, 4, 8])), "skip")
    expected = []
    for row in range(rows):
        line, complete = np.zeros(layout.lanes * layout.beats), True
        for source in layout.sources:
            column = schema.columns[source.column]
            stored = source.column < natts[row]
            value = values[column.name][row] if stored else column.missing
            if value is None or (stored and nulls[column.name][row]):
                complete = False
            else:
                part = np.atleast_1d(value)[source.first :][: source.count]
                line[source.position : source.position + source.count] = part
        if complete:
            expected.append(line.astype(np.float32).view(np.uint32))
    pages = write_heap(schema, values, nulls=nulls, natts=natts.tolist())
    walk = WalkConfig(schema, layout, FLOAT)
    codes, _, counts, error = walk_table(pages, walk)
    assert error is None and counts.skipped == rows - len(expected)
    assert np.array_equal(codes, np.array(expected).reshape(codes.shape))
    machine = StriderMachine(port_config(walk, int(rng.choice([4, 8, 16, 32]))), generate(walk))
    walked = [line for page in pages for line in machine.walk(page).tuples]
    assert np.array_equal(walked, np.array(expected).reshape(len(expected), -1))


@pytest.mark.parametrize("seed", range(40))
def test_table_is_pages_one_by_one(seed):
    rng = np.random.default_rng(seed)
    case = random_case(seed, lanes=5, format=FLOAT, page_size=2048, clean=0.6)
    for pages in (case.pages, corrupt(case.pages, rng, 4)):
        tuples, skipped, counts, error = [], RowCounts(), [], None
        for k, page in enumerate(pages):
            found, left, error = walk_page(page, case.walk, 7 + 3 * k)
            tuples += found
            skipped.add(left)
            counts.append(len(found))
            if error is not None:
                break
        codes, table_counts, table_skipped, table_error = walk_table(pages, case.walk, 7, 3)
        assert np.array_equal(codes, np.array(tuples).reshape(-1, case.walk.positions))
        assert (table_skipped, table_error) == (skipped, error)
        assert table_counts.tolist() == counts + [0] * (len(pages) - len(counts))


def corruptions(count, seed):
    rng = np.random.default_rng(seed)
    cases = [
        random_case(seed * 1000 + k, lanes=4, format=FLOAT, rows=6, clean=0.8) for k in range(40)
    ]
    for n in range(count):
        case = cases[n % len(cases)]
        yield case.walk, corrupt(case.pages[-1:], rng, 8)[0]


def check_corruptions(count, seed):
    kinds = set()
    for walk, page in corruptions(count, seed):
        _, _, error = walk_page(page, walk, 3)
        kinds.add(error.code.name if error else "")
        assert error is None or error.block == 3
    return kinds


def test_random_corruption():
    assert len(check_corruptions(2000, 1)) >= 9


@pytest.mark.long
def test_random_corruption_long():
    assert len(check_corruptions(100_000, 2)) >= 11


@pytest.mark.parametrize(
    "change, message",
    [
        ({"visibility": "none"}, "visibility must be 'hints' or 'all', not 'none'"),
        (
            {"layout": TupleLayout(4, 1, (), (), "maybe")},
            "on_null must be 'error' or 'skip', not 'maybe'",
        ),
        (
            {"layout": TupleLayout(4, 1, (), (Source(3, 0, 1, 0),))},
            "column 's' holds no numbers that a kernel can use",
        ),
        (
            {"layout": TupleLayout(4, 1, (), (Source(2, 1, 3, 0),))},
            "column 'x' has 3 elements; elements 1 to 3 were asked for",
        ),
        (
            {"layout": TupleLayout(4, 1, (), (Source(2, 0, 3, 2),))},
            "flat positions 2 to 4 are taken or outside the tuple's 4",
        ),
    ],
)
def test_bad_walks(change, message):
    schema = Schema.from_json(
        {
            "columns": [
                {"name": "id", "type": "int4"},
                {"name": "y", "type": "float4"},
                {"name": "x", "type": "float4[]", "length": 3},
                {"name": "s", "type": "text"},
            ]
        }
    )
    arguments = {"schema": schema, "layout": TupleLayout(4, 1, (), ()), "format": FLOAT} | change
    with pytest.raises(ValueError) as caught:
        WalkConfig(**arguments)
    assert str(caught.value) == message
