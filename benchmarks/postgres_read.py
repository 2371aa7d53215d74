"""Reading a table from a server by each way, beside the same transfer with nothing done to it.

    scripts/with-postgres .venv-test/bin/python benchmarks/postgres_read.py [--write]

Without PENSTOCK_PG (which scripts/with-postgres sets) a server of its own is started.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import psycopg
from common import ROOT, Options, Section, machine, main, markdown, ms, versions

from penstock.host.sources import open_table
from penstock.host.sources.postgres import source

_NUMBERS = "i::int4 AS id, i * 0.5::float4 AS a, i / 3.0::float8 AS b, (i % 100)::int2 AS c, i * 2.0::float4 AS d, i % 2 = 0 AS y"
_NULLS = _NUMBERS.replace(
    "i * 0.5::float4", "CASE WHEN i % 10 > 0 THEN i * 0.5::float4 END"
).replace("i / 3.0::float8", "CASE WHEN i % 9 > 0 THEN i / 3.0::float8 END")
_ARRAYS = "i::int4 AS id, i * 0.5::float4 AS y, array_fill(i::float4, ARRAY[54]) AS x"
#: name -> (columns, rows, the SELECT list that the rows way sends)
TABLES = {
    "6 numbers": (_NUMBERS, 1_200_000, "id, a, b, c, d, y"),
    "6 numbers, few rows": (_NUMBERS, 1_000, "id, a, b, c, d, y"),
    "6 numbers, a tenth NULL": (_NULLS, 1_200_000, "id, a, b, c, d, y"),
    "float4[54]": (_ARRAYS, 300_000, "id, y, x"),
}
_TIMES = 5


@contextmanager
def server() -> Iterator[str]:
    if given := os.environ.get("PENSTOCK_PG"):
        yield given
        return
    with subprocess.Popen(
        [ROOT / "scripts" / "with-postgres", "sh", "-c", 'echo "$PENSTOCK_PG"; exec cat'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()


def drain(connection: psycopg.Connection, statement: str) -> None:
    with connection.cursor() as cursor, cursor.copy(statement) as copy:  # type: ignore[arg-type]
        for _ in copy:
            pass


def best(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Return medians in seconds; the two take turns, so that what else the machine does falls on both."""
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(_TIMES):
        for action, taken in zip((one, other), seconds, strict=True):
            begin = perf_counter()
            action()
            taken.append(perf_counter() - begin)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def seconds(action: Callable[[], Any]) -> float:
    """Return the median in seconds."""
    return best(action, lambda: None)[0]


def rows(uri: str, options: Options) -> Iterator[str]:
    relation = source.relation
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pageinspect")
        for name, (columns, count, listed) in TABLES.items():
            count = count // 100 if options.quick else count
            connection.execute(
                f"DROP TABLE IF EXISTS measured; CREATE TABLE measured AS SELECT {columns} FROM generate_series(1, {count}) i"
            )
            connection.execute("VACUUM (FREEZE) measured")
            size, path = connection.execute(
                "SELECT pg_relation_size('measured'), pg_relation_filepath('measured')"
            ).fetchone()  # type: ignore[misc]
            pages, address = size // 8192, f"{uri}&table=measured"

            def files(path: str = path, pages: int = pages) -> None:
                for first in range(0, pages, 512):
                    connection.execute(
                        "SELECT pg_read_binary_file(%s, %s, %s)",
                        (path, first * 8192, min(512, pages - first) * 8192),
                        binary=True,
                    ).fetchall()

            def from_files(address: str = address) -> None:
                source.relation = lambda c, full: replace(relation(c, full), pageinspect=None)  # type: ignore[attr-defined]
                try:
                    open_table(address, pages=True)
                finally:
                    source.relation = relation  # type: ignore[attr-defined]

            raw = f"COPY (SELECT get_raw_page('measured', 'main', b) FROM generate_series(0::bigint, {pages - 1}) b) TO STDOUT (FORMAT binary)"
            if connection.execute("SELECT count(*) FROM measured").fetchone() != (count,):
                raise AssertionError("the table has other rows than were written")
            counted = seconds(lambda: connection.execute("SELECT count(*) FROM measured"))
            select = f"COPY (SELECT {listed} FROM measured) TO STDOUT (FORMAT binary)"
            ways = (
                (
                    "pages from buffers",
                    partial(drain, connection, raw),
                    partial(open_table, address, pages=True),
                ),
                ("pages from files", files, from_files),
                (
                    "rows",
                    partial(drain, connection, select),
                    partial(open_table, address, pages=False),
                ),
            )
            for way, bare, ours in ways:
                alone, read = best(bare, ours)
                bound = ms(counted) if way != "rows" else "–"
                yield f"{name} | {count:,} | {pages:,} | {way} | {ms(alone)} | {bound} | {ms(read)} | {read / alone:.2f}"


def measured(options: Options) -> str:
    with server() as uri:
        found = list(rows(uri, options))
    head = "table | rows | pages | way | transfer alone, ms | count(*) alone, ms | read, ms | read / transfer"
    return f"{machine()}; {versions('psycopg', 'numpy')}; medians of {_TIMES}.\n\n{markdown(head, found)}"


SECTIONS = [Section("postgres", True, measured)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
