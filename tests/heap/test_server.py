"""Our pages beside those of a real server, byte for byte, and our reader beside its SQL."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from penstock.host.sources import open_table
from penstock.models.heap.checksum import checksum
from penstock.models.heap.page import PAGE_HEADER, split_line_pointer
from penstock.models.heap.reader import read_heap
from penstock.models.heap.schema import NUMERIC, TYPES, Column, Schema
from penstock.models.heap.values import DTYPES
from penstock.models.heap.writer import write_heap
from testbench.pruned_pages import write_pruned

_spec = importlib.util.spec_from_file_location(
    "make_pages", Path(__file__).parent / "make_pages.py"
)
assert _spec and _spec.loader
make_pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_pages)


def _random_columns(
    schema: Schema, rows: int, rng: np.random.Generator, missing: float
) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for column in (c for c in schema.columns if not c.dropped):
        dtype = DTYPES.get(column.storage.element or column.type)
        values: list[Any]
        if dtype is None:
            values = ["é" * int(n) for n in rng.integers(0, 80, rows)]
        elif column.is_array:
            values = rng.standard_normal((rows, column.length or 0)).astype(dtype).tolist()
        elif dtype.kind == "f":
            values = rng.standard_normal(rows).astype(dtype).tolist()
        elif dtype.kind == "b":
            values = rng.integers(0, 2, rows).astype(bool).tolist()
        else:
            info = np.iinfo(dtype)
            values = rng.integers(info.min, info.max, rows, dtype, endpoint=True).tolist()
        if not column.not_null:
            values = [None if rng.random() < missing else value for value in values]
        columns[column.name] = values
    return columns


def _load(
    connection: psycopg.Connection,
    schema: Schema,
    columns: dict[str, list[Any]],
    plain: set[str],
    fillfactor: int,
) -> None:
    """Load the columns in the transaction that creates the table, so that rows go to pages in order; then freeze."""
    name = sql.Identifier(schema.table)
    with connection.transaction():
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
        parts = [
            sql.SQL("{} {} {}").format(
                sql.Identifier(c.name), sql.SQL(c.type), sql.SQL("NOT NULL" if c.not_null else "")
            )
            for c in schema.columns
        ]
        create = sql.SQL("CREATE TABLE {} ({}) WITH (fillfactor = {})")
        connection.execute(create.format(name, sql.SQL(", ").join(parts), fillfactor))
        for column in schema.columns:
            if column.name in plain:
                connection.execute(
                    sql.SQL("ALTER TABLE {} ALTER {} SET STORAGE PLAIN").format(
                        name, sql.Identifier(column.name)
                    )
                )
            if column.dropped:
                connection.execute(
                    sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(
                        name, sql.Identifier(column.name)
                    )
                )
        with (
            connection.cursor() as cursor,
            cursor.copy(
                sql.SQL("COPY {} ({}) FROM STDIN").format(
                    name, sql.SQL(", ").join(map(sql.Identifier, columns))
                )
            ) as copy,
        ):
            for row in zip(*columns.values(), strict=True):
                copy.write_row(row)
    connection.execute(sql.SQL("VACUUM (FREEZE) {}").format(name))


def _masked(pages: np.ndarray) -> np.ndarray:
    """Blank what differs by nature: LSN and checksum; xmin, xmax and cid of every tuple."""
    pages = pages.copy()
    pages[:, :10] = 0
    for page in pages:
        for word in page[24 : int(page[12:14].view("<u2")[0])].view("<u4"):
            offset, _, _ = split_line_pointer(int(word))
            page[offset : offset + 12] = 0
    return pages


@pytest.mark.parametrize("seed", range(24))
def test_bulk_load_equals_the_server(postgres: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = (
        ["int4", "float4", "float4[]"]
        if seed == 0
        else [str(k) for k in rng.choice(sorted(NUMERIC | {"text"}), rng.integers(1, 12))]
    )
    columns = tuple(
        Column(
            f"c{i}",
            kind,
            not_null=bool(rng.random() < 0.3),
            length=int(rng.integers(1, 40)) if "[" in kind else None,
            dropped=len(kinds) > 2 and i > 0 and bool(rng.random() < 0.15),
        )
        for i, kind in enumerate(kinds)
    )
    schema = Schema(f"bulk_{seed}", columns)
    values = _random_columns(schema, 700, rng, missing=[0.0, 0.2, 0.9][seed % 3])
    plain = {c.name for c in columns if c.is_array and not c.dropped and rng.random() < 0.5}
    fillfactor = 70 if seed % 5 == 4 else 100
    with psycopg.connect(postgres, autocommit=True) as connection:
        _load(connection, schema, values, plain, fillfactor)
        table = open_table(f"{postgres}&table=bulk_{seed}")
        short = {c.name for c in columns if c.is_array and c.name not in plain}
        ours = write_pruned(schema, values, short=short, fillfactor=fillfactor)
        if fillfactor == 100:
            assert np.array_equal(ours, write_heap(schema, values, short=short))
        assert np.array_equal(_masked(ours), _masked(table.pages))
        # and back: what we read is what SQL says
        answer = make_pages.answer(connection, schema, schema.table)
    got = table.columns()
    for name in values:
        null = answer[f"null_{name}"]
        if isinstance(got[name], list):
            assert [v is None for v in got[name]] == null.tolist()
            assert all(
                n or np.array_equal(g, v)
                for g, v, n in zip(got[name], answer[f"value_{name}"], null, strict=True)
            )
        else:
            assert np.array_equal(
                np.ma.getmaskarray(got[name]).reshape(len(null), -1).any(axis=1), null
            )
            assert np.array_equal(np.ma.getdata(got[name])[~null], answer[f"value_{name}"][~null])
    scalars = [
        [c for c in s.columns if not c.dropped and not c.is_array] for s in (schema, table.schema)
    ]
    assert scalars[0] == scalars[1]
    for column in (c for c in columns if c.is_array and not c.dropped):
        assert table.schema.column(column.name).length in (column.length, None)


@pytest.mark.parametrize("case", make_pages.CASES, ids=lambda case: case.__name__)
def test_stored_pages_are_what_the_server_still_writes(postgres: str, case: Any) -> None:
    """The archives under tests/heap/data are not stale: this server gives the same line pointers, flags and data."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        fresh = make_pages.make(postgres, connection, case)
    with np.load(make_pages.DATA / f"{case.__name__}.npz") as archive:
        stored = dict(archive)
    assert fresh.keys() == stored.keys()
    for key in stored:
        if key.startswith(("value_", "null_")):
            assert np.array_equal(fresh[key], stored[key]), key
    assert json.loads(fresh["schema"]) == json.loads(str(stored["schema"]))
    if stored["expect"] == "rows":
        schema = Schema.from_json(json.loads(fresh["schema"]))
        first = next(c.name for c in schema.columns if c.type == "int4")
        assert np.array_equal(read_heap(schema, fresh["pages"])[first], stored[f"value_{first}"])


def test_checksums_equal_the_servers(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS summed")
        connection.execute(
            "CREATE TABLE summed AS SELECT i, sqrt(i) AS y, repeat('x', i % 50) AS s "
            "FROM generate_series(1, 20000) i"
        )
        connection.execute("CHECKPOINT")
        image = connection.execute(
            "SELECT pg_read_binary_file(pg_relation_filepath('summed'))", binary=True
        ).fetchone()
    assert image
    pages = np.frombuffer(image[0], np.uint8).reshape(-1, 8192)
    stored = pages[:, :24].copy().view(PAGE_HEADER)["pd_checksum"][:, 0]
    assert len(pages) > 100 and np.all(stored) and np.array_equal(stored, checksum(pages))


def test_types_are_those_of_the_server(postgres: str) -> None:
    with psycopg.connect(postgres) as connection:
        found = connection.execute(
            "SELECT format_type(oid, NULL), oid, typlen, typalign FROM pg_type WHERE oid = ANY(%s)",
            ([kind.oid for kind in TYPES.values()],),
        ).fetchall()
    align = {"c": 1, "s": 2, "i": 4, "d": 8}
    server = {oid: (length, align[at]) for _, oid, length, at in found}
    assert server == {kind.oid: (kind.length, kind.align) for kind in TYPES.values()}
