"""Makes tests/heap/data/*.npz: pages of a real PostgreSQL server in every state, with SQL's answer beside them.

    scripts/with-postgres python tests/heap/make_pages.py

Each archive holds `pages`, `schema` (JSON), and for each column NAME that a kernel could use `value_NAME` (zero where NULL) and
`null_NAME`, in the order of pages and line pointers: what a transaction that starts now sees. `expect` is "rows" where the pages
alone give that answer, otherwise the name of the error that a reader must report. Columns whose rows are arrays of different
lengths are left out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from penstock.host.sources import open_table
from penstock.models.heap.schema import Schema
from penstock.models.heap.values import DTYPES

DATA = Path(__file__).parent / "data"
TYPES = "id int4 NOT NULL, a bool, b int2, c int8, d float4, e float8"
#: SQL for the values of those columns in row i
VALUES = "i, i % 3 = 0, (i * 7 - 900)::int2, i::int8 * 123456789012 - 99, (i - 250) / 8.0::float4, sqrt(i) * 1e100"
X4 = "ARRAY(SELECT (i * 0.5 + k)::float4 FROM generate_series(1, {n}) k)"
X8 = "ARRAY(SELECT sqrt(i + k)::float8 FROM generate_series(1, {n}) k)"
FREEZE = "VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) {t}"


def _fill(t: str, rows: int = 300, values: str = VALUES) -> str:
    return f"INSERT INTO {t} SELECT {values} FROM generate_series(1, {rows}) i"


def plain(t: str) -> list[str]:
    """All types, no NULL, frozen; one array with a 4-byte header of each kind."""
    return [
        f"CREATE TABLE {t} ({TYPES}, x float4[], z float8[])",
        f"ALTER TABLE {t} ALTER x SET STORAGE PLAIN, ALTER z SET STORAGE PLAIN",
        _fill(t, values=f"{VALUES}, {X4.format(n=5)}, {X8.format(n=3)}"),
        FREEZE.format(t=t),
    ]


def wide(t: str) -> list[str]:
    """The shape of DAnA's tables: id, label, 384 features."""
    return [
        f"CREATE TABLE {t} (id int4, y float4, x float4[])",
        f"ALTER TABLE {t} ALTER x SET STORAGE PLAIN",
        _fill(t, 11, f"i, i % 2, {X4.format(n=384)}"),
        FREEZE.format(t=t),
    ]


def nulls(t: str) -> list[str]:
    """NULL in every nullable column, in all combinations; ten columns, so that the bitmap has two bytes."""
    return [
        f"CREATE TABLE {t} ({TYPES}, x float4[], s text, f int2, g float8)",
        f"ALTER TABLE {t} ALTER x SET STORAGE PLAIN",
        _fill(
            t,
            256,
            "i, "
            + ", ".join(
                f"CASE WHEN i >> {k} & 1 = 0 THEN {v} END"
                for k, v in enumerate(
                    [
                        "i % 3 = 0",
                        "(i - 99)::int2",
                        "i::int8 << 33",
                        "i / 4.0",
                        "i * 1e-200",
                        X4.format(n=2),
                        "repeat('s', i % 7)",
                        "7::int2",
                    ]
                )
            )
            + ", i + 0.25",
        ),
        FREEZE.format(t=t),
    ]


def short_arrays(t: str) -> list[str]:
    """Default storage: arrays with 1-byte headers at odd addresses behind text of all lengths."""
    return [
        f"CREATE TABLE {t} (id int4, s text, x float4[], b bool, z float8[], y float4)",
        _fill(t, 200, f"i, repeat('t', i % 140), {X4.format(n=8)}, true, {X8.format(n=4)}, i"),
        FREEZE.format(t=t),
    ]


def long_arrays(t: str) -> list[str]:
    """Default storage, but too long for a 1-byte header: aligned after all."""
    return [
        f"CREATE TABLE {t} (id int4, b bool, x float4[], c bool, z float8[], y float4)",
        _fill(t, 60, f"i, true, {X4.format(n=40)}, false, {X8.format(n=20)}, i"),
        FREEZE.format(t=t),
    ]


def updated(t: str) -> list[str]:
    """A third of the rows updated, then read: old and new versions side by side, hinted."""
    return [
        f"CREATE TABLE {t} ({TYPES}) WITH (fillfactor = 60)",
        _fill(t),
        f"UPDATE {t} SET d = -d WHERE id % 3 = 0",
        f"SELECT count(*) FROM {t}",
    ]


def pruned(t: str) -> list[str]:
    """Updated within the page three times, deleted from, vacuumed: redirect and unused line pointers, tuples out of order."""
    return [
        f"CREATE TABLE {t} ({TYPES}) WITH (fillfactor = 50)",
        f"CREATE INDEX ON {t} (id)",
        _fill(t),
        *[f"UPDATE {t} SET d = d + 1, e = -e WHERE id % 4 = 0"] * 3,
        f"DELETE FROM {t} WHERE id % 7 = 0",
        FREEZE.format(t=t),
    ]


def dead(t: str) -> list[str]:
    """Deleted, then vacuumed without the index being cleaned: dead line pointers stay."""
    return [
        f"CREATE TABLE {t} ({TYPES})",
        f"CREATE INDEX ON {t} (id)",
        _fill(t),
        f"DELETE FROM {t} WHERE id % 5 IN (1, 2)",
        f"VACUUM (INDEX_CLEANUP off) {t}",
        f"SELECT count(*) FROM {t}",
    ]


def deleted(t: str) -> list[str]:
    """Deleted, then read: the page itself says that the deletion is done."""
    return [
        f"CREATE TABLE {t} ({TYPES})",
        _fill(t),
        f"DELETE FROM {t} WHERE id BETWEEN 50 AND 120",
        f"SELECT count(*) FROM {t}",
    ]


def aborted(t: str) -> list[str]:
    """Half of the rows come from a transaction that was rolled back, and a deletion that was rolled back."""
    return [
        f"CREATE TABLE {t} ({TYPES})",
        _fill(t, 100),
        "BEGIN",
        _fill(t, 100),
        "ROLLBACK",
        _fill(t, 40),
        "BEGIN",
        f"DELETE FROM {t} WHERE id < 30",
        "ROLLBACK",
        f"SELECT count(*) FROM {t}",
    ]


def locked(t: str) -> list[str]:
    """Rows locked by SELECT FOR UPDATE and FOR SHARE in transactions that are over."""
    return [
        f"CREATE TABLE {t} ({TYPES})",
        _fill(t),
        f"SELECT count(*) FROM {t}",
        "BEGIN",
        f"SELECT count(*) FROM (SELECT 1 FROM {t} WHERE id < 40 FOR UPDATE) s",
        f"SELECT count(*) FROM (SELECT 1 FROM {t} WHERE id BETWEEN 60 AND 80 FOR SHARE) s",
        f"SELECT count(*) FROM (SELECT 1 FROM {t} WHERE id BETWEEN 90 AND 99 FOR KEY SHARE) s",
        "COMMIT",
    ]


def added(t: str) -> list[str]:
    """Columns added after rows were written, with and without default: rows of three lengths."""
    return [
        f"CREATE TABLE {t} (id int4 NOT NULL, y float4)",
        _fill(t, 60, "i, i / 2.0"),
        f"ALTER TABLE {t} ADD COLUMN g float8 DEFAULT 2.5, ADD COLUMN h int2 NOT NULL DEFAULT -3",
        _fill(t, 60, "i, i, i, i"),
        f"ALTER TABLE {t} ADD COLUMN p float4, ADD COLUMN q bool DEFAULT true, ADD COLUMN x float4[] DEFAULT '{{1,2.5,-3}}'",
        _fill(t, 60, "i, i, i, i, i, i % 2 = 0, ARRAY[i, i, i]"),
        FREEZE.format(t=t),
    ]


def dropped(t: str) -> list[str]:
    """Columns dropped after rows were written: their values stay in old rows and are NULL in new ones."""
    return [
        f"CREATE TABLE {t} (id int4, old1 int2, y float4, old2 text, z float8, old3 float8[])",
        _fill(t, 80, f"i, i, i / 2.0, repeat('o', i % 9), i * 3, {X8.format(n=2)}"),
        f"ALTER TABLE {t} DROP COLUMN old1, DROP COLUMN old2, DROP COLUMN old3",
        _fill(t, 80, "i, -i, i * 5"),
        FREEZE.format(t=t),
    ]


def checkpointed(t: str) -> list[str]:
    """A frozen table with text between its numbers, some rows without it."""
    return [
        f"CREATE TABLE {t} (s text, y float8, u text, id int4)",
        _fill(
            t,
            150,
            "CASE WHEN i % 4 > 0 THEN repeat('é', i % 50) END, i, repeat('long ', i % 60), i",
        ),
        FREEZE.format(t=t),
    ]


def unhinted(t: str) -> list[str]:
    """Fresh rows that nobody read: only the commit log knows."""
    return [f"CREATE TABLE {t} ({TYPES})", _fill(t)]


def deleting(t: str) -> list[str]:
    """Deleted, and nobody read the table since."""
    return [
        f"CREATE TABLE {t} ({TYPES})",
        _fill(t),
        f"SELECT count(*) FROM {t}",
        f"DELETE FROM {t} WHERE id = 70",
    ]


def compressed(t: str) -> list[str]:
    """An array long and dull enough to be compressed in place."""
    return [
        f"CREATE TABLE {t} (id int4, x float4[])",
        f"ALTER TABLE {t} ALTER x SET STORAGE MAIN",
        _fill(t, 3, "i, array_fill(1::float4, ARRAY[1000])"),
        FREEZE.format(t=t),
    ]


def external(t: str) -> list[str]:
    """Arrays that moved out of line."""
    return [
        f"CREATE TABLE {t} (id int4, x float4[])",
        f"ALTER TABLE {t} ALTER x SET STORAGE EXTERNAL",
        _fill(t, 5, f"i, {X4.format(n=1000)}"),
        FREEZE.format(t=t),
    ]


def null_element(t: str) -> list[str]:
    """An array with a NULL in it."""
    return [
        f"CREATE TABLE {t} (id int4, x float4[])",
        f"INSERT INTO {t} VALUES (1, '{{1,2,3}}'), (2, '{{1,NULL,3}}')",
        FREEZE.format(t=t),
    ]


def matrix(t: str) -> list[str]:
    """A two-dimensional array."""
    return [
        f"CREATE TABLE {t} (id int4, x float4[])",
        f"INSERT INTO {t} VALUES (1, '{{{{1,2}},{{3,4}}}}')",
        FREEZE.format(t=t),
    ]


def lower_bound(t: str) -> list[str]:
    """An array whose first index is 0."""
    return [
        f"CREATE TABLE {t} (id int4, x float4[])",
        f"INSERT INTO {t} VALUES (1, '[0:2]={{1,2,3}}')",
        FREEZE.format(t=t),
    ]


def ragged(t: str) -> list[str]:
    """Arrays of different lengths, an empty one among them."""
    return [
        f"CREATE TABLE {t} (id int4, x float4[])",
        f"INSERT INTO {t} VALUES (1, '{{1,2,3}}'), (2, '{{4,5}}'), (3, '{{}}')",
        FREEZE.format(t=t),
    ]


#: every case with what a reader must do: answer with the rows, or report an error
CASES: dict[Callable[[str], list[str]], str] = {
    plain: "rows",
    wide: "rows",
    nulls: "rows",
    short_arrays: "rows",
    long_arrays: "rows",
    updated: "rows",
    pruned: "rows",
    dead: "rows",
    deleted: "rows",
    aborted: "rows",
    locked: "rows",
    added: "rows",
    dropped: "rows",
    checkpointed: "rows",
    unhinted: "TUPLE_VISIBILITY",
    deleting: "TUPLE_VISIBILITY",
    compressed: "TUPLE_EXTERNAL",
    external: "TUPLE_EXTERNAL",
    null_element: "ARRAY_SHAPE",
    matrix: "ARRAY_SHAPE",
    lower_bound: "ARRAY_SHAPE",
    ragged: "ARRAY_SHAPE",
}


def make(uri: str, connection: Any, case: Callable[[str], list[str]]) -> dict[str, Any]:
    """Bring a table into the case's state; return the archive's entries. `connection` commits by itself."""
    name = f"case_{case.__name__}"
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in case(name):
        connection.execute(statement)
    connection.execute("CREATE EXTENSION IF NOT EXISTS pageinspect")
    images = connection.execute(
        "SELECT get_raw_page(%s, 'main', block) FROM generate_series(0, pg_relation_size(%s::regclass) / 8192 - 1) AS block "
        "ORDER BY block",
        (name, name),
        binary=True,
    ).fetchall()
    pages = np.stack([np.frombuffer(image, np.uint8) for (image,) in images])
    schema = open_table(f"{uri}&table={name}").schema  # after the pages: it reads rows
    entries: dict[str, Any] = {
        "pages": pages,
        "schema": json.dumps(schema.to_json()),
        "expect": CASES[case],
    }
    return entries | answer(connection, schema, name)


def answer(connection: Any, schema: Schema, name: str) -> dict[str, Any]:
    """Ask SQL for the rows in the order of pages and line pointers."""
    columns = [c for c in schema.columns if not c.dropped]
    listed = ", ".join(f'"{c.name}"' for c in columns)
    rows = connection.execute(f"SELECT {listed} FROM {name} ORDER BY ctid").fetchall()
    entries: dict[str, Any] = {}
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        null = np.array([v is None for v in values], bool)
        kept = [v for v in values if v is not None]
        data: Any
        if column.type == "text":
            data = np.array([v or "" for v in values], str)
        elif not column.is_array:
            data = np.array([v or 0 for v in values], DTYPES[column.type])
        elif (
            len({np.shape(v) for v in kept}) == 1
            and np.ndim(kept[0]) == 1
            and not any(None in v for v in kept)
        ):
            data = np.zeros((len(values), len(kept[0])), DTYPES[column.storage.element or ""])
            data[~null] = kept
        else:
            continue
        entries[f"value_{column.name}"], entries[f"null_{column.name}"] = data, null
    return entries


def main() -> None:
    import psycopg

    uri = os.environ.get("PENSTOCK_PG")
    if not uri:
        sys.exit("run this as: scripts/with-postgres python tests/heap/make_pages.py")
    DATA.mkdir(exist_ok=True)
    with psycopg.connect(uri, autocommit=True) as connection:
        for case in CASES:
            entries = make(uri, connection, case)
            np.savez_compressed(DATA / f"{case.__name__}.npz", **entries)
            print(f"{case.__name__}: {len(entries['pages'])} pages")


if __name__ == "__main__":
    main()
