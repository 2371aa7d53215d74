"""Tables straight from a real server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from urllib.parse import quote

import numpy as np
import psycopg
import pytest

from penstock.host.sources import SourceError, open_table
from penstock.models.heap.schema import Column


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as opened:
        yield opened


def fails(src: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        open_table(src)
    assert caught.value.message == message


def test_catalog_and_pages(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS house CASCADE; DROP DOMAIN IF EXISTS metres; CREATE DOMAIN metres AS float8")
    connection.execute("CREATE TABLE house "
                       "(id int4 NOT NULL, built timestamptz, width metres, gone int8, kind varchar(20), x float4[])")
    connection.execute("INSERT INTO house SELECT i, now(), i / 4.0, i, 'brick', ARRAY[i, i + 1] FROM generate_series(1, 1000) i")
    connection.execute("ALTER TABLE house DROP COLUMN gone")
    connection.execute("ALTER TABLE house ADD COLUMN price float8 DEFAULT 1.5, ADD COLUMN ok bool DEFAULT true, "
                       "ADD COLUMN tag text DEFAULT 'n''one', ADD COLUMN z float8[] DEFAULT '{1,2}', ADD COLUMN n int2")
    connection.execute("VACUUM FREEZE house")
    table = open_table(f"{postgres}&table=house")
    assert table.schema.table == table.name == "house" and table.schema.page_size == 8192
    assert table.schema.columns == (
        Column("id", "int4", not_null=True), Column("built", "int8", dropped=True), Column("width", "float8"),
        Column("........pg.dropped.4........", "int8", dropped=True), Column("kind", "text"), Column("x", "float4[]", length=2),
        Column("price", "float8", missing=1.5), Column("ok", "bool", missing=True), Column("tag", "text", missing="n'one"),
        Column("z", "float8[]", length=2, missing=[1.0, 2.0]), Column("n", "int2"))
    got = table.columns()
    assert got["id"].tolist() == list(range(1, 1001)) and got["width"][3] == 1.0 and got["kind"][0] == "brick"
    assert set(got["price"]) == {1.5} and all(got["ok"]) and got["tag"][9] == "n'one" and got["z"].shape == (1000, 2)
    assert got["n"].mask.all()


def test_names_are_quoted(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute("""DROP SCHEMA IF EXISTS "My ""s" CASCADE; CREATE SCHEMA "My ""s";
                          CREATE TABLE "My ""s"."Dr. T;" (a int4)""")
    connection.execute("""INSERT INTO "My ""s"."Dr. T;" VALUES (5)""")
    connection.execute("""DROP TABLE IF EXISTS "Big", "a b";
                          CREATE TABLE "Big" AS SELECT 6 AS a; CREATE TABLE "a b" AS SELECT 7 AS a""")
    for name, value in (('"My ""s"."Dr. T;"', 5), ("Big", 6), ('"Big"', 6), ("a b", 7), ('public."Big"', 6)):
        assert open_table(f"{postgres}&table={quote(name)}").pages[0, -8:-4].view("<i4")[0] == value


@pytest.mark.parametrize("inspect", [False, True])
def test_both_ways_to_the_pages(postgres: str, connection: psycopg.Connection, inspect: bool) -> None:
    connection.execute("CREATE EXTENSION IF NOT EXISTS pageinspect" if inspect else "DROP EXTENSION IF EXISTS pageinspect")
    connection.execute("DROP TABLE IF EXISTS many; CREATE TABLE many AS "
                       "SELECT i::int4 AS i, i / 2.0::float8 AS y FROM generate_series(1, 150000) i")
    connection.execute("VACUUM FREEZE many")
    table = open_table(f"{postgres}&table=many")
    assert len(table.pages) > 512 and table.rows == 150000      # more than one query's worth
    got = table.columns()
    assert np.array_equal(got["i"], np.arange(1, 150001)) and np.array_equal(got["y"], np.arange(1, 150001) / 2)


def test_what_is_no_heap_table(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute("""
        DROP VIEW IF EXISTS a_view; CREATE VIEW a_view AS SELECT 1; DROP TABLE IF EXISTS parts, nothing, odd;
        CREATE TABLE parts (a int) PARTITION BY RANGE (a); CREATE TABLE nothing (a int); CREATE TABLE odd (a int, u uuid)""")
    fails(f"{postgres}&table=a_view", "a_view is a view; only a table has heap pages")
    fails(f"{postgres}&table=parts", "parts is a partitioned table; only a table has heap pages")
    fails(f"{postgres}&table=nothing", "the table nothing is empty")
    fails(f"{postgres}&table=pg_class_oid_index", "pg_class_oid_index is an index; only a table has heap pages")
    fails(f"{postgres}&table=odd", "column 'u' has the type uuid, which is stored in a way that cannot be stepped over")
    fails(f"{postgres}&table=nowhere", "the server has no table nowhere")
    fails(f"{postgres}&table=public.", "the server has no table public.")
    fails(f"{postgres}&table={quote('x; DROP TABLE nothing')}", "the server has no table x; DROP TABLE nothing")


def test_a_user_without_rights(postgres: str, connection: psycopg.Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS secret; CREATE TABLE secret AS SELECT 1 AS a")
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'guest'").fetchone() is None:
        connection.execute("CREATE ROLE guest LOGIN")
    guest = postgres.replace("penstock@", "guest@")
    for statement in ("CREATE EXTENSION IF NOT EXISTS pageinspect", "DROP EXTENSION pageinspect"):
        connection.execute(statement)
        with pytest.raises(SourceError, match=r"^this user may not read pages of public.secret: "):
            open_table(f"{guest}&table=secret")
    connection.execute("DROP TABLE IF EXISTS listed; CREATE TABLE listed AS SELECT ARRAY[1.0::float4] AS x")
    fails(f"{guest}&table=listed", "the server refused a query on listed: permission denied for table listed")


def test_no_connection(postgres: str) -> None:
    fails(postgres, "postgresql://penstock@/postgres does not say which table")
    with pytest.raises(SourceError) as caught:
        open_table("postgresql://someone:secret@127.0.0.1:1/base?table=t")
    assert caught.value.message.startswith("cannot connect to postgresql://someone@127.0.0.1:1/base: ")
    assert "refused" in caught.value.message and "secret" not in caught.value.message


def test_no_driver(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SourceError) as caught:
        open_table(f"{postgres}&table=t")
    assert caught.value.message == "reading from a PostgreSQL server needs the package psycopg"
    assert caught.value.hint == "pip install 'penstock[postgres]'"
