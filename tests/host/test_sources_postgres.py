"""Tables straight from a real server."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import numpy as np
import psycopg
import pytest

from penstock.host.sources import Cast, SourceError, Table, open_table
from penstock.host.sources.postgres import counting, direct, locks
from penstock.models.heap.schema import Column


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as opened:
        opened.execute("CREATE EXTENSION IF NOT EXISTS pageinspect")
        if opened.execute("SELECT 1 FROM pg_roles WHERE rolname = 'guest'").fetchone() is None:
            opened.execute("CREATE ROLE guest LOGIN")
        yield opened
        opened.execute("CREATE EXTENSION IF NOT EXISTS pageinspect")


def fails(src: str, message: str, pages: bool | None = None) -> None:
    with pytest.raises(SourceError) as caught:
        open_table(src, pages=pages)
    assert caught.value.message == message


def way(table: Table) -> tuple[str, str]:
    assert table.provenance is not None
    return table.provenance.way, table.provenance.reason


def test_catalog_and_pages(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute(
        "DROP TABLE IF EXISTS house CASCADE; DROP DOMAIN IF EXISTS metres; CREATE DOMAIN metres AS float8"
    )
    connection.execute(
        "CREATE TABLE house "
        "(id int4 NOT NULL, built timestamptz, width metres, gone int8, kind varchar(20), x float4[], u uuid)"
    )
    connection.execute(
        "INSERT INTO house SELECT i, now(), i / 4.0, i, 'brick', ARRAY[i, i + 1], gen_random_uuid() FROM generate_series(1, 1000) i"
    )
    connection.execute("ALTER TABLE house DROP COLUMN gone")
    connection.execute(
        "ALTER TABLE house ADD COLUMN price float8 DEFAULT 1.5, ADD COLUMN ok bool DEFAULT true, "
        "ADD COLUMN tag text DEFAULT 'n''one', ADD COLUMN z float8[] DEFAULT '{1,2}', ADD COLUMN n int2"
    )
    connection.execute("VACUUM FREEZE house")
    table = open_table(f"{postgres}&table=house")
    assert table.schema.table == table.name == "house" and table.schema.page_size == 8192
    assert table.schema.columns == (
        Column("id", "int4", not_null=True),
        Column("built", "timestamptz"),
        Column("width", "float8"),
        Column("........pg.dropped.4........", "int8", dropped=True),
        Column("kind", "varchar"),
        Column("x", "float4[]", length=2),
        Column("u", "uuid"),
        Column("price", "float8", missing=1.5),
        Column("ok", "bool", missing=True),
        Column("tag", "text", missing="n'one"),
        Column("z", "float8[]", length=2, missing=[1.0, 2.0]),
        Column("n", "int2"),
    )
    assert table.provenance is not None
    assert (table.provenance.way, table.provenance.untouched_share) == ("buffers", 1.0)


def test_names_are_quoted(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute("""DROP SCHEMA IF EXISTS "My ""s" CASCADE; CREATE SCHEMA "My ""s";
                          CREATE TABLE "My ""s"."Dr. T;" ("a ""{}" int4)""")
    connection.execute("""INSERT INTO "My ""s"."Dr. T;" VALUES (5)""")
    connection.execute("""DROP TABLE IF EXISTS "Big", "a b";
                          CREATE TABLE "Big" AS SELECT 6 AS a; CREATE TABLE "a b" AS SELECT 7 AS a""")
    for name, value in (
        ('"My ""s"."Dr. T;"', 5),
        ("Big", 6),
        ('"Big"', 6),
        ("a b", 7),
        ('public."Big"', 6),
    ):
        for pages in (True, False):
            table = open_table(f"{postgres}&table={quote(name)}", pages=pages)
            assert [v.tolist() for v in table.columns().values()] == [[value]]


@pytest.mark.parametrize("inspect", [False, True])
def test_both_ways_to_the_pages(
    postgres: str, connection: psycopg.Connection, inspect: bool
) -> None:
    connection.execute(
        "CREATE EXTENSION IF NOT EXISTS pageinspect"
        if inspect
        else "DROP EXTENSION IF EXISTS pageinspect"
    )
    connection.execute(
        "DROP TABLE IF EXISTS many; CREATE TABLE many AS "
        "SELECT i::int4 AS i, i / 2.0::float8 AS y FROM generate_series(1, 150000) i"
    )
    connection.execute("VACUUM FREEZE many")
    table = open_table(f"{postgres}&table=many")
    assert len(table.pages) > 512 and table.rows == 150000  # more than one query's worth
    got = table.columns()
    assert np.array_equal(got["i"], np.arange(1, 150001)) and np.array_equal(
        got["y"], np.arange(1, 150001) / 2
    )
    assert way(table) == (
        "buffers" if inspect else "files",
        "its pages can be read, and its columns need no cast",
    )


def test_what_pages_cannot_serve(postgres: str, connection: psycopg.Connection) -> None:
    """Everything that SELECT reads is read; insisting on pages says why they are not to be had."""
    connection.execute("""
        DROP VIEW IF EXISTS a_view; DROP MATERIALIZED VIEW IF EXISTS a_matview; DROP TABLE IF EXISTS parts, parent, quick, guarded CASCADE;
        CREATE VIEW a_view AS SELECT i, i * 0.5::float4 AS x FROM generate_series(1, 300) i;
        CREATE MATERIALIZED VIEW a_matview AS SELECT * FROM a_view;
        CREATE TABLE parts (i int) PARTITION BY RANGE (i);
        CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100); CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
        INSERT INTO parts SELECT generate_series(1, 300);
        CREATE TABLE parent (i int); CREATE TABLE child (x float4) INHERITS (parent);
        INSERT INTO parent SELECT generate_series(1, 100); INSERT INTO child SELECT generate_series(101, 300);
        CREATE UNLOGGED TABLE quick AS SELECT generate_series(1, 300) AS i""")
    for name, reason in (
        ("a_view", "a view has no pages of its own"),
        ("parts", "a partitioned table has no pages of its own"),
        ("parent", "its children's rows belong to it"),
    ):
        table = open_table(f"{postgres}&table={name}")
        assert sorted(table.columns()["i"].tolist()) == list(range(1, 301)) and way(table) == (
            "rows",
            reason,
        )
        fails(
            f"{postgres}&table={name}", f"{name} cannot be read page by page: {reason}", pages=True
        )
    for name in ("a_matview", "quick"):
        assert way(open_table(f"{postgres}&table={name}"))[0] == "buffers"
    assert open_table(f"{postgres}&table=child").rows == 200
    connection.execute("DROP EXTENSION pageinspect")
    table = open_table(f"{postgres}&table=quick")  # its pages are in no file
    assert table.rows == 300
    assert way(table) == (
        "rows",
        "the extension pageinspect is not installed; files of a table that is not logged are never current",
    )


def test_foreign_tables(
    postgres: str, connection: psycopg.Connection, tmp_path_factory: pytest.TempPathFactory
) -> None:
    connection.execute(
        "CREATE EXTENSION IF NOT EXISTS file_fdw; DROP SERVER IF EXISTS disk CASCADE; "
        "CREATE SERVER disk FOREIGN DATA WRAPPER file_fdw; "
        "CREATE FOREIGN TABLE far (i int, x float8) SERVER disk OPTIONS (program 'seq -f %g,0.5 1 50', format 'csv')"
    )
    table = open_table(f"{postgres}&table=far")
    assert table.columns()["i"].tolist() == list(range(1, 51)) and way(table) == (
        "rows",
        "a foreign table has no pages of its own",
    )


def test_temporary_tables(postgres: str, connection: psycopg.Connection) -> None:
    """Another session's temporary table is nobody else's: the server says so."""
    connection.execute("CREATE TEMP TABLE mine AS SELECT generate_series(1, 10) AS i")
    space = connection.execute(
        "SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()"
    ).fetchone()
    assert space
    fails(
        f"{postgres}&table={space[0]}.mine",
        f"the server refused a query on {space[0]}.mine: cannot access temporary tables of other sessions",
    )


def test_queries(postgres: str, connection: psycopg.Connection) -> None:
    query = quote(
        "SELECT i, i / 10.0 AS x, NULL::int AS n, 'a' || i % 3 AS s FROM generate_series(1, 20) i -- the end"
    )
    table = open_table(f"{postgres}&query={query}")
    assert (
        table.provenance is not None
        and table.provenance.reason == "a query has no pages of its own"
    )
    assert table.provenance.left_out == (("s", "text"),)
    assert (
        table.columns()["x"].tolist() == [i / 10 for i in range(1, 21)]
        and table.columns()["n"].mask.all()
    )
    fails(f"{postgres}&query=SELECT", "query has no column that is a number")
    fails(
        f"{postgres}&query={quote('SELECT 1 AS a, 2 AS a')}",
        "the query gives two columns called 'a'",
    )
    fails(f"{postgres}&query={quote('SELECT 1 AS a WHERE false')}", "query is empty")
    fails(f"{postgres}&query={quote('SELECT 1')}", "a query has no pages of its own", pages=True)


def test_queries_as_they_are_typed(postgres: str, connection: psycopg.Connection) -> None:
    """No sign of SQL that means something in an address changes what a query says."""
    connection.execute(
        "DROP TABLE IF EXISTS typed; "
        "CREATE TABLE typed AS SELECT i AS a, 10 * i AS b FROM generate_series(1, 30) i"
    )
    for query in (
        "SELECT a+b, b FROM typed",
        "SELECT a, b FROM typed -- not all\nWHERE a > 3",
        "SELECT a\n,\tb\nFROM typed\t;\r\n",
        "SELECT a # 1 AS a, b FROM typed WHERE a > 3 # 7",
        "SELECT a%20 AS a, b FROM typed",
        "SELECT a & 6 AS a, b FROM typed WHERE a&1 = 1",
        "SELECT a, b FROM typed WHERE '?' || a LIKE '?%25'",
    ):
        expected = connection.execute(query.rstrip("; \t\r\n").encode()).fetchall()
        for address in (f"&query={query}", f"&query={quote(query)}", f"&query={quote_plus(query)}"):
            columns = list(open_table(postgres + address).columns().values())
            assert list(zip(*columns, strict=True)) == expected, address
    asked = open_table(f"{postgres}&query=SELECT a+b AS \"a+b\", 'k' AS k FROM typed&features=k")
    assert asked.columns()["a+b"].tolist()[:2] == [11, 22] and "k" in asked.columns()
    connection.execute('DROP TABLE IF EXISTS "odd#1+2"; CREATE TABLE "odd#1+2" AS SELECT 7 AS a')
    assert open_table(f"{postgres}&table={quote('odd#1+2')}").columns()["a"].tolist() == [7]
    fails(f"{postgres}&table=typed#1", "the server has no table typed#1")
    fails(
        "postgresql://me:a#b/c@nowhere/shop",
        "postgresql://me@nowhere/shop does not say which table",
    )


def test_what_is_no_table(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute(
        "DROP TABLE IF EXISTS nothing, words; CREATE TABLE nothing (a int, n numeric); CREATE TABLE words AS SELECT now() AS w"
    )
    for pages in (True, False, None):
        fails(
            f"{postgres}&table=nothing",
            "the table nothing is empty" if pages else "nothing is empty",
            pages,
        )
    fails(f"{postgres}&table=words", "words has no column that is a number", pages=False)
    fails(f"{postgres}&table=nothing&features=b", "nothing has no column 'b'")
    fails(
        f"{postgres}&table=pg_class_oid_index",
        "pg_class_oid_index is an index; it has no rows to learn from",
    )
    fails(f"{postgres}&table=nowhere", "the server has no table nowhere")
    fails(f"{postgres}&table=public.", "the server has no table public.")
    fails(
        f"{postgres}&table={quote('x; DROP TABLE nothing')}",
        "the server has no table x; DROP TABLE nothing",
    )


def test_nothing_but_select(postgres: str, connection: psycopg.Connection) -> None:
    """A role that may only SELECT reads everything, and no more than its rights and policies give it."""
    connection.execute("""
        DROP TABLE IF EXISTS shared, guarded, partly, secret CASCADE; DROP VIEW IF EXISTS shown;
        CREATE TABLE shared AS SELECT i, i * 2.0::float8 AS x, ARRAY[i, 1]::float4[] AS v FROM generate_series(1, 500) i;
        CREATE TABLE guarded AS TABLE shared; ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
        CREATE POLICY low ON guarded USING (i <= 40);
        CREATE TABLE partly AS TABLE shared; CREATE TABLE secret AS TABLE shared; CREATE VIEW shown AS TABLE secret;
        GRANT SELECT ON shared, guarded, shown TO guest; GRANT SELECT (i, v) ON partly TO guest""")
    guest = postgres.replace("penstock@", "guest@")
    for statement in ("CREATE EXTENSION IF NOT EXISTS pageinspect", "DROP EXTENSION pageinspect"):
        connection.execute(statement)
        for name, rows in (("shared", 500), ("guarded", 40), ("shown", 500), ("partly", 500)):
            table = open_table(f"{guest}&table={name}")
            assert table.rows == rows and way(table)[0] == "rows"
            assert sorted(table.columns()["i"].tolist()) == list(range(1, rows + 1))
        assert (
            "x" not in table.columns()
            and table.provenance
            and table.provenance.left_out == (("x", "not readable by this user"),)
        )
        fails(
            f"{guest}&table=secret",
            "the server refused a query on secret: permission denied for table secret",
        )
    with pytest.raises(
        SourceError,
        match=r"^shared cannot be read page by page: the extension pageinspect is not installed; ",
    ):
        open_table(f"{guest}&table=shared", pages=True)


def test_numbers_of_other_types(postgres: str, connection: psycopg.Connection) -> None:
    """`numeric` and arrays of integers are numbers without being asked for; the facts say how they were cast."""
    connection.execute(
        "DROP TABLE IF EXISTS houses; CREATE TABLE houses (price numeric(10,2), area numeric, rooms int, tags int4[], big int8[], y float4)"
    )
    connection.execute(
        "INSERT INTO houses VALUES (100000.25, 0.1, 3, '{1,2}', '{9007199254740993}', 1), (7, 1e30, NULL, '{3,-4}', '{-1}', 2), "
        "('NaN', NULL, 1, '{5,6}', '{0}', 3)"
    )
    table = open_table(f"{postgres}&table=houses")
    got, facts = table.columns(), table.provenance
    assert got["price"].tolist()[:2] == [100000.25, 7.0] and math.isnan(got["price"][2])
    assert got["area"].tolist() == [0.1, 1e30, None] and got["rooms"].tolist() == [3, None, 1]
    assert got["tags"].tolist() == [[1, 2], [3, -4], [5, 6]] and got["big"].tolist() == [
        [9007199254740992.0],
        [-1],
        [0],
    ]
    assert [(c.name, c.type, c.length) for c in table.schema.columns] == [
        ("price", "float8", None),
        ("area", "float8", None),
        ("rooms", "int4", None),
        ("tags", "float8[]", 2),
        ("big", "float8[]", 1),
        ("y", "float4", None),
    ]
    assert (
        facts is not None and facts.reason == "the server casts its column 'price', numeric(10,2)"
    )
    assert facts.casts[0] == Cast(
        "price",
        "numeric(10,2)",
        "float8",
        "numeric to the nearest float8; exact where float8 holds the number",
    )
    assert [cast.column for cast in facts.casts] == ["price", "area", "tags", "big"]
    # insisting on pages leaves them out, in their places
    table = open_table(f"{postgres}&table=houses", pages=True)
    assert [c.name for c in table.schema.columns if c.is_numeric] == ["rooms", "y"]
    assert table.columns()["rooms"].tolist() == [3, None, 1]


def test_features_that_were_asked_for(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute(
        "DROP TABLE IF EXISTS moods, seen; DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad')"
    )
    connection.execute(
        "CREATE TABLE seen (d date, t time, ts timestamp, tz timestamptz, m mood, s text, v money, i int)"
    )
    connection.execute(
        "INSERT INTO seen VALUES ('1999-12-31', '00:01:00.5', '2000-01-02', '2000-01-01 01:00+01', 'glad', 'b', '12.25', 1), "
        "('2024-02-29', '23:59:59', '1970-01-01', '2000-01-01 00:00:01+00', 'sad', 'a', '-1', 2), "
        "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, 3)"
    )
    table = open_table(f"{postgres}&table=seen&features=d,t,ts,tz,m&features=v&onehot=s")
    got = table.columns()
    assert got["d"].tolist() == [-1, 8825, None] and got["t"].tolist() == [60.5, 86399.0, None]
    assert got["ts"].tolist() == [86400.0, -946684800.0, None] and got["tz"].tolist() == [
        0.0,
        1.0,
        None,
    ]
    assert got["m"].tolist() == [2, 0, None] and got["v"].tolist() == [12.25, -1.0, None]
    assert [None if v is None else v.tolist() for v in got["s"]] == [[0, 1], [1, 0], None]
    assert table.provenance is not None
    casts = {cast.column: cast for cast in table.provenance.casts}
    assert (
        casts["d"].how == "days since 2000-01-01"
        and casts["tz"].how == "seconds since 2000-01-01 00:00:00 UTC"
    )
    assert (
        casts["m"].categories == ("sad", "ok", "glad")
        and casts["s"].categories == ("a", "b")
        and casts["s"].becomes == "float4[]"
    )
    assert [
        c.name for c in open_table(f"{postgres}&table=seen").schema.columns if c.is_numeric
    ] == ["i"]
    fails(
        f"{postgres}&query={quote('SELECT point(1,2) AS p')}&features=p",
        "column 'p' has the type point, which cannot become a number",
    )
    connection.execute("UPDATE seen SET d = 'infinity' WHERE i = 1")
    fails(
        f"{postgres}&table=seen&features=d",
        "the server refused a query on seen: cannot subtract infinite dates",
    )


def test_a_design_reads_rows_in_its_own_layout(
    postgres: str, connection: psycopg.Connection
) -> None:
    """Pages of a table by the direct way, and its rows packed as that way has them, have one schema."""
    connection.execute(
        "DROP TABLE IF EXISTS same; CREATE TABLE same AS "
        "SELECT 'x' AS s, i, gen_random_uuid() AS u, ARRAY[i, 2]::float4[] AS x, now() AS t, i * 0.5::float8 AS y FROM generate_series(1, 99) i"
    )
    direct = open_table(f"{postgres}&table=same")
    rows = open_table(f"{postgres}&table=same", direct.schema, pages=False)
    assert way(direct)[0] == "buffers" and way(rows)[0] == "rows" and rows.schema == direct.schema
    for name in ("i", "x", "y"):
        assert np.array_equal(rows.columns()[name], direct.columns()[name])
    packed = open_table(f"{postgres}&table=same", pages=False)
    again = open_table(f"{postgres}&table=same", packed.schema)
    assert again.schema == packed.schema and way(again) == (
        "rows",
        "the design has these columns in another layout",
    )


def test_defaults_do_not_go_through_text(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS older; CREATE TABLE older AS SELECT 1 AS i")
    connection.execute(
        "ALTER TABLE older ADD a float8 DEFAULT 0.1::float8 + 0.2, ADD b float4 DEFAULT 'NaN', ADD c float8[] DEFAULT '{0.1,NaN}', "
        "ADD d float4[] DEFAULT '{1,NULL}', ADD e float8[] DEFAULT '{{1,2},{3,4}}', ADD f int8 DEFAULT 9007199254740993, "
        "ADD g uuid DEFAULT '00000000-0000-0000-0000-000000000001', ADD h text[] DEFAULT '{a,NULL}', ADD k bool DEFAULT true, "
        "ADD l float8[] DEFAULT '[2:3]={1,2}'"
    )
    name = postgres.rsplit("?", 1)
    table = open_table(f"{name[0]}?options=-c%20extra_float_digits%3D-15&{name[1]}&table=older")
    columns = {c.name: c for c in table.schema.columns}
    assert (
        columns["a"].missing == 0.1 + 0.2
        and columns["f"].missing == 9007199254740993
        and columns["k"].missing is True
    )
    assert (
        math.isnan(columns["b"].missing)
        and columns["c"].missing[0] == 0.1
        and math.isnan(columns["c"].missing[1])
    )
    # no array header says such defaults
    assert not any(columns[name].is_numeric for name in "del")
    again = open_table(f"{postgres}&table=older")
    assert again.schema == table.schema  # NaN is NaN


def test_compressed_and_external_arrays(postgres: str, connection: psycopg.Connection) -> None:
    """Rows with such arrays are packed anew; where most rows have them, or they are too long, rows come by SELECT."""
    connection.execute("DROP TABLE IF EXISTS longs; CREATE TABLE longs (i int, x float8[], n text)")
    connection.execute(
        "INSERT INTO longs SELECT i, array_fill(i::float8, ARRAY[300]), repeat(md5(i::text), CASE WHEN i % 10 = 0 THEN 200 ELSE 1 END) "
        "FROM generate_series(1, 20) i"
    )
    connection.execute("ALTER TABLE longs ALTER x SET STORAGE EXTERNAL")
    connection.execute(
        "INSERT INTO longs SELECT i, (SELECT array_agg(random()) FROM generate_series(1, 300 + i * 0)), 'e' FROM generate_series(21, 30) i"
    )
    connection.execute("ALTER TABLE longs ALTER x SET STORAGE PLAIN")
    connection.execute(
        "INSERT INTO longs SELECT i, array_fill(i::float8, ARRAY[300]), 'p' FROM generate_series(31, 200) i"
    )
    table = open_table(f"{postgres}&table=longs")
    assert table.provenance is not None and (table.provenance.way, table.provenance.rebuilt) == (
        "buffers",
        30,
    )
    assert table.schema.column("x").length == 300
    got = dict(zip(table.columns()["i"].tolist(), table.columns()["x"].tolist(), strict=True))
    assert got == dict(connection.execute("SELECT i, x FROM longs"))
    connection.execute("DELETE FROM longs WHERE i > 40")
    assert way(open_table(f"{postgres}&table=longs")) == (
        "rows",
        "most rows have arrays that are compressed or out of line",
    )
    table = open_table(f"{postgres}&table=longs", pages=True)
    assert table.provenance is not None and table.provenance.rebuilt == 30 and table.rows == 40
    connection.execute(
        "INSERT INTO longs SELECT i, array_fill(i::float8, ARRAY[300]), 'p' FROM generate_series(31, 200) i; "
        "ALTER TABLE longs ALTER x SET STORAGE EXTENDED; INSERT INTO longs VALUES (0, array_fill(1::float8, ARRAY[2000]))"
    )
    table = open_table(f"{postgres}&table=longs")
    assert table.schema.page_size == 16384 and table.provenance is not None
    assert table.provenance.reason.startswith(
        "a row with its arrays in it does not fit the server's pages: "
    )


def test_a_lock_that_is_not_given(
    postgres: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_SECONDS", 1)
    connection.execute("DROP TABLE IF EXISTS held; CREATE TABLE held AS SELECT 1 AS i")
    with connection.transaction():
        connection.execute("LOCK TABLE held IN ACCESS EXCLUSIVE MODE")
        fails(f"{postgres}&table=held", "the server did not give a lock on held within 1 s")


def test_no_connection(postgres: str) -> None:
    fails(postgres, "postgresql://penstock@/postgres does not say which table")
    with pytest.raises(SourceError) as caught:
        open_table("postgresql://someone:secret@127.0.0.1:1/base?table=t")
    assert caught.value.message.startswith(
        "cannot connect to postgresql://someone@127.0.0.1:1/base: "
    )
    assert "refused" in caught.value.message and "secret" not in caught.value.message


def test_no_driver(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SourceError) as caught:
        open_table(f"{postgres}&table=t")
    assert caught.value.message == "reading from a PostgreSQL server needs the package psycopg"
    assert caught.value.hint == "pip install 'penstock[postgres]'"


def test_someone_waits_for_a_stronger_lock(
    postgres: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session that counts would queue behind whoever waits for us; then the first session counts."""
    connection.execute(
        "DROP TABLE IF EXISTS wanted; CREATE TABLE wanted AS SELECT generate_series(1, 3000) AS i"
    )
    gate, images, count, found = threading.Event(), direct._images, counting._count, []

    def alter() -> None:
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("ALTER TABLE wanted ADD n int DEFAULT 1")

    def late(*arguments: Any) -> None:
        gate.wait(20)
        count(*arguments)
        found.extend(arguments[4])

    def altered(*arguments: Any) -> Any:
        waiting.start()
        while connection.execute(
            "SELECT count(*) FROM pg_locks WHERE relation = 'wanted'::regclass AND NOT granted"
        ).fetchone() == (0,):
            pass
        gate.set()
        return images(*arguments)

    waiting = threading.Thread(target=alter)
    with monkeypatch.context() as patch:
        patch.setattr(counting, "_LARGE", 0)
        patch.setattr(counting, "_count", late)
        patch.setattr(direct, "_images", altered)
        table = open_table(f"{postgres}&table=wanted")
    waiting.join()
    assert table.rows == 3000 and not found
    monkeypatch.setattr(counting, "_LARGE", 0)
    assert [c.name for c in open_table(f"{postgres}&table=wanted").schema.columns] == ["i", "n"]


def test_what_is_said_of_columns_that_are_no_features(
    postgres: str, connection: psycopg.Connection
) -> None:
    """A column that the table has is never said to be missing, nor a number to be text."""
    connection.execute(
        "DROP TABLE IF EXISTS odd; CREATE TABLE odd (t timestamptz, n numeric, y real)"
    )
    connection.execute("INSERT INTO odd SELECT now(), i / 3.0, i FROM generate_series(1, 9) i")
    rows, pages = (
        open_table(f"{postgres}&table=odd"),
        open_table(f"{postgres}&table=odd", pages=True),
    )
    assert rows.unusable("t") == (
        "has the type timestamp with time zone, which is not numeric",
        "a date, a time, an enum or a text becomes a number where the source names it: &features=t",
    )
    assert rows.unusable("n") is None and rows.unusable("y") is None and rows.unusable("no") is None
    assert pages.unusable("n") == (
        "is stored as numeric",
        "without --pages the server makes float8 of it",
    )
    assert pages.unusable("t") is not None


def test_a_design_keeps_the_numbers_of_categories(
    postgres: str, connection: psycopg.Connection
) -> None:
    connection.execute("DROP TABLE IF EXISTS seen, later")
    connection.execute(
        "CREATE TABLE seen (shop text, y real); CREATE TABLE later (shop text, y real)"
    )
    connection.execute("INSERT INTO seen VALUES ('a', 1), ('b', 2), ('c', 3)")
    connection.execute("INSERT INTO later VALUES ('c', 1), ('b', 2)")
    design = open_table(f"{postgres}&table=seen&features=shop").schema
    assert design.column("shop").labels == ("a", "b", "c")
    assert open_table(f"{postgres}&table=later", design).columns()["shop"].tolist() == [2, 1]
    connection.execute("INSERT INTO later VALUES ('d', 1)")
    fails_on = "column 'shop' has the category 'd', which the design does not know"
    with pytest.raises(SourceError) as caught:
        open_table(f"{postgres}&table=later", design)
    assert caught.value.message == fails_on and caught.value.code == "E706"


def test_defaults_of_added_arrays(postgres: str, connection: psycopg.Connection) -> None:
    """What an array column's default holds counts as what the rows hold, for as long as rows hold it."""
    connection.execute(
        "DROP TABLE IF EXISTS grown; CREATE TABLE grown AS SELECT generate_series(1, 3) AS a; "
        "ALTER TABLE grown ADD COLUMN v float8[] DEFAULT '{1,2}'"
    )
    address = f"{postgres}&table=grown"
    older = open_table(address)
    assert way(older)[0] == "buffers" and older.schema.column("v").length == 2
    assert older.columns()["v"].tolist() == [[1, 2]] * 3
    # a design for these rows takes them by SELECT as well, and tables where the default is another
    like = open_table(address, schema=older.schema, pages=False)
    assert like.schema.columns == older.schema.columns
    connection.execute(
        "DROP TABLE IF EXISTS other; CREATE TABLE other AS SELECT 1 AS a; "
        "ALTER TABLE other ADD COLUMN v float8[] DEFAULT '{5,6}'"
    )
    other = open_table(f"{postgres}&table=other", schema=older.schema)
    assert way(other) == ("rows", "the design has these columns in another layout")
    assert other.columns()["v"].tolist() == [[5, 6]]
    connection.execute("INSERT INTO grown VALUES (4, '{1,2,3}')")
    mixed = open_table(address)
    assert mixed.schema.column("v").length is None
    assert mixed.unusable("v") == (
        "has arrays of 2 to 3 elements",
        "every row of an array column must have the same length; a query can cut them: ?query=SELECT …",
    )
    connection.execute("UPDATE grown SET v = '{7,8,9}' WHERE a < 4")
    newer = open_table(address).schema.column("v")
    assert newer.length == 3 and newer.missing is None


def test_stored_generated_columns_are_in_pages(
    postgres: str, connection: psycopg.Connection
) -> None:
    connection.execute("DROP TABLE IF EXISTS made CASCADE")
    connection.execute(
        "CREATE TABLE made (x float8, twice float8 GENERATED ALWAYS AS (2 * x) STORED)"
    )
    connection.execute("INSERT INTO made SELECT i FROM generate_series(1, 9) i")
    table = open_table(f"{postgres}&table=made")
    assert way(table)[0] != "rows"
    assert table.columns()["twice"].tolist() == [2.0 * i for i in range(1, 10)]


def test_unused_arrays_of_any_shape(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS shapes CASCADE")
    connection.execute("CREATE TABLE shapes (y float8, m float8[], h float4[], x float4[])")
    connection.execute(
        "INSERT INTO shapes SELECT i, ARRAY[[1, i], [3, 4]], ARRAY[i, NULL, 3], ARRAY[i, 2] FROM generate_series(1, 9) i"
    )
    table = open_table(f"{postgres}&table=shapes")
    assert way(table)[0] != "rows"
    read = table.columns()
    assert read["m"].tolist() == [[[1, i], [3, 4]] for i in range(1, 10)]
    assert read["h"].tolist() == [[i, None, 3] for i in range(1, 10)]
    assert read["x"].tolist() == [[i, 2] for i in range(1, 10)]
    assert table.paged(8192) is table
    with pytest.raises(
        SourceError, match="array column 'm' has NULL elements or several dimensions"
    ):
        table.paged(16384)
    connection.execute("ALTER TABLE shapes DROP COLUMN m")
    with pytest.raises(
        SourceError, match="array column 'h' has NULL elements or several dimensions"
    ):
        open_table(f"{postgres}&table=shapes").paged(16384)
    connection.execute("ALTER TABLE shapes DROP COLUMN h")
    assert open_table(f"{postgres}&table=shapes").paged(16384).columns()["x"].shape == (9, 2)


@pytest.mark.parametrize("kind", ["float4[]", "int4[]"])
def test_the_length_of_arrays_beside_null(
    postgres: str, connection: psycopg.Connection, kind: str
) -> None:
    """By pages and by rows alike, and where rows are packed anew."""
    connection.execute(
        f"DROP TABLE IF EXISTS parted; CREATE TABLE parted (x {kind}, long float8[], y float4)"
    )
    connection.execute(
        "INSERT INTO parted VALUES ('{1,2}', '{0}', 1), (NULL, '{1}', 2), ('{3,NULL}', '{2}', 3), (NULL, NULL, 4)"
    )
    assert open_table(f"{postgres}&table=parted").schema.column("x").length == 2
    connection.execute(
        "TRUNCATE parted; INSERT INTO parted SELECT CASE WHEN i % 3 > 0 THEN '{1,2}'::float4[] END, "
        "CASE WHEN i % 4 > 0 THEN array_fill(i::float8, ARRAY[CASE WHEN i < 20 THEN 700 ELSE 1 END]) END, i FROM generate_series(1, 90) i"
    )
    table = open_table(f"{postgres}&table=parted")
    assert table.provenance is not None and bool(table.provenance.rebuilt) == (kind == "float4[]")
    assert table.schema.column("x").length == 2 and table.schema.column("long").length is None


@pytest.mark.parametrize("pages", [None, False])
def test_arrays_without_elements(
    postgres: str, connection: psycopg.Connection, pages: bool | None
) -> None:
    connection.execute(
        "DROP TABLE IF EXISTS none; CREATE TABLE none AS SELECT '{}'::float4[] AS x, NULL::float4[] AS z, 1 AS y"
    )
    table = open_table(f"{postgres}&table=none", pages=pages)
    what = "every row of an array column must have the same length, 1 or more"
    assert table.unusable("x") == ("has arrays without elements", what)
    assert table.unusable("z") == ("has no array in any row", what)


def test_values_that_no_number_holds(postgres: str, connection: psycopg.Connection) -> None:
    """The hint names the columns; a number of thousands of digits is cut."""
    connection.execute(
        "DROP TABLE IF EXISTS vast; CREATE TABLE vast AS SELECT 1e4000 AS n, 'infinity'::date AS d, 1 AS y"
    )
    with pytest.raises(SourceError) as caught:
        open_table(f"{postgres}&table=vast")
    assert caught.value.message.endswith('" is out of range for type double precision')
    assert len(caught.value.message) < 300 and " … " in caught.value.message
    hint = (
        "{} cast to numbers, which hold neither infinite dates nor magnitudes beyond float8's: "
        "leave such values out, or the column: ?query=SELECT …"
    )
    assert caught.value.hint == hint.format("column 'n' is")
    with pytest.raises(SourceError) as caught:
        open_table(f"{postgres}&query=SELECT d, y, y::numeric AS z FROM vast&features=d")
    assert (
        caught.value.message
        == "the server refused a query on query: cannot subtract infinite dates"
    )
    assert caught.value.hint == hint.format("columns d, z are")
    # nothing is cast here: the query's own arithmetic is out of range
    with pytest.raises(SourceError) as caught:
        open_table(f"{postgres}&query=SELECT 1000000 * 1000000 * y AS y FROM vast")
    assert caught.value.hint == "try the same address with psql; the server's log says more"


@pytest.mark.parametrize("pages", [None, False])
def test_a_session_that_ends_when_all_is_read(
    postgres: str,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    pages: bool | None,
) -> None:
    """As one that packs for longer than idle_in_transaction_session_timeout: what was read is whole."""
    from penstock.host.sources.postgres import source

    connection.execute("DROP TABLE IF EXISTS last; CREATE TABLE last AS SELECT 1 AS y")
    read = source._Reading.table

    def ended(reading: Any) -> Table:
        table = read(reading)
        connection.execute(
            "SELECT pg_terminate_backend(%s, 10000)", (reading.connection.info.backend_pid,)
        )
        return table

    monkeypatch.setattr(source._Reading, "table", ended)
    assert open_table(f"{postgres}&table=last", pages=pages).columns()["y"].tolist() == [1]


def test_what_an_address_says_twice(postgres: str) -> None:
    start = postgres.partition("?")[0]
    fails(f"{postgres}&table=a&table=b", f"{start} says 2 tables")
    fails(f"{postgres}&query=SELECT 1&query=SELECT 2", f"{start} says 2 queries")
    fails(f"{postgres}&table=a&query=SELECT 1", f"{start} says both a table and a query")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("me:se@cret@/db", "me@/db"),
        ("me:se/cret@nowhere.invalid/db", "me@nowhere.invalid/db"),
        ("me:se?cret@/db", "me:***"),
    ],
)
def test_passwords_with_marks_that_are_not_encoded(said: str, shown: str) -> None:
    with pytest.raises(SourceError) as caught:
        open_table(f"postgresql://{said}?table=t")
    assert f"postgresql://{shown}" in caught.value.message
    if said.count("@") > 1:
        assert caught.value.hint == "in a password, @ / ? # are written %40 %2F %3F %23"


def test_a_named_column_that_may_not_be_read(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute(
        "DROP TABLE IF EXISTS hidden; CREATE TABLE hidden AS SELECT 'a' AS t, 1 AS y; GRANT SELECT (y) ON hidden TO guest"
    )
    with pytest.raises(SourceError) as caught:
        open_table(f"{postgres.replace('penstock@', 'guest@')}&table=hidden&features=t")
    assert caught.value.message == "column 't' of hidden is not readable by this user"


def test_texts_of_another_encoding(postgres: str, connection: psycopg.Connection) -> None:
    """Pages hold the server's: what is no number is stepped over, and comes by rows where it is named."""
    connection.execute("DROP DATABASE IF EXISTS western")
    connection.execute("CREATE DATABASE western ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    western = postgres.replace("/postgres?", "/western?")
    try:
        with psycopg.connect(western, client_encoding="utf8") as other:
            other.execute(
                "CREATE TABLE t AS SELECT 1 AS a, 'Ã©'::text AS w UNION ALL SELECT 2, 'é'"
            )
        table = open_table(f"{western}&table=t")
        assert table.columns()["w"] == ["Ã©".encode("latin1"), "é".encode("latin1")]
        assert open_table(f"{western}&table=t&features=w").group_values("w") == ["Ã©", "é"]
    finally:
        connection.execute("DROP DATABASE western WITH (FORCE)")
