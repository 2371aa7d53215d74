"""Queries that somebody pastes in the hope to write: each is the server's error, or reads and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from penstock.host.sources import SourceError, open_table

_SETUP = """
DROP TABLE IF EXISTS kept CASCADE; CREATE TABLE kept AS SELECT 1 AS a, 'x' AS s; DROP SEQUENCE IF EXISTS counted; CREATE SEQUENCE counted;
CREATE OR REPLACE FUNCTION run(q text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE q; RETURN 1; END';
CREATE OR REPLACE FUNCTION run_early(q text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM run(q); RETURN 1; END';
CREATE OR REPLACE FUNCTION turned() RETURNS int LANGUAGE plpgsql SET transaction_read_only = off AS 'BEGIN DELETE FROM kept; RETURN 1; END';
CREATE OR REPLACE FUNCTION caught() RETURNS int LANGUAGE plpgsql AS
    'BEGIN BEGIN PERFORM run(''SET TRANSACTION READ WRITE''); EXCEPTION WHEN OTHERS THEN END; DELETE FROM kept; RETURN 1; END';
"""
_DELETE = "DELETE FROM kept WHERE a = 1"
#: a query that closes our parenthesis by itself, and goes on with {w}
_OUT = (
    "SELECT 1.0 AS a) AS q) TO STDOUT; COMMIT; {w}; COPY (SELECT a FROM (SELECT 1.0 AS a",
    "SELECT 1.0 AS a) AS q; COMMIT; {w}; SELECT * FROM (SELECT 1.0 AS a",
    "SELECT 1.0 AS a) AS q LIMIT 0; COMMIT; {w} --",
    "SELECT 1.0 AS a\n) AS q; END; {w}; BEGIN; SELECT * FROM (SELECT 1.0 AS a",
    "SELECT 1.0 AS a -- \n) AS q; COMMIT; {w}; /* */ SELECT * FROM (SELECT 1.0 AS a --",
    "SELECT 1.0 AS a/* ) */) AS q; ROLLBACK; {w}; SELECT * FROM (SELECT 1.0 AS a",
    "SELECT $$)$$ AS s, 1.0 AS a) AS q; COMMIT; {w}; SELECT * FROM (SELECT $b$($b$ AS s, 1.0 AS a",
    r"SELECT '\' AS s, 1.0 AS a) AS q; COMMIT; {w}; SELECT * FROM (SELECT '\' AS s, 1.0 AS a",
    r"SELECT E'\'' AS s, 1.0 AS a) AS q; COMMIT; {w}; SELECT * FROM (SELECT 1.0 AS a",
    "SET standard_conforming_strings = off; COMMIT; {w}; SELECT 1 AS a",
    "VALUES (1)) AS q; COMMIT; {w}; SELECT * FROM (VALUES (1)",
    "SELECT 1 AS a; COMMIT; {w}; SELECT 1 AS a",
    "SELECT 1 AS a) AS q; SET TRANSACTION READ WRITE; {w}; SELECT * FROM (SELECT 1 AS a",
    "SELECT 1 AS a) AS q; ROLLBACK AND CHAIN; {w}; SELECT * FROM (SELECT 1 AS a",
    "SELECT 1 AS a) AS q; DO $d$ BEGIN COMMIT; {w}; END $d$; SELECT * FROM (SELECT 1 AS a",
    "SELECT 1 AS a FROM kept) AS q) TO PROGRAM 'touch {file}' --",
    "SELECT 1 AS a FROM kept) TO '{file}'; COMMIT; {w}; COPY (SELECT 1 AS a",
)
#: statements that are no SELECT, or one that writes
_NOT_SELECT = (
    _DELETE,
    f"{_DELETE} RETURNING 1",
    f"WITH d AS ({_DELETE} RETURNING a) SELECT * FROM d",
    f"SELECT * FROM (WITH d AS ({_DELETE} RETURNING a) SELECT * FROM d) x",
    "SELECT a INTO copied FROM kept",
    "CREATE TABLE copied AS SELECT 1 AS a",
    "SELECT a FROM kept FOR UPDATE",
    "TRUNCATE kept",
    "COPY kept TO '{file}'",
    "COPY (SELECT 1) TO PROGRAM 'touch {file}'",
    f"EXPLAIN ANALYZE {_DELETE}",
    f"DO 'BEGIN {_DELETE}; END'",
    "CALL run('x')",
    "COMMIT",
    "ROLLBACK; BEGIN",
    "LOCK TABLE kept",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "NOTIFY everyone",
    "SELECT $1 AS a",
    "SELECT nextval('counted') AS a",
    "SELECT setval('counted', 100) AS a",
    "SELECT turned() AS a",
    "SELECT caught() AS a",
    f"SELECT query_to_xml('{_DELETE}', true, true, '') AS x, 1 AS a",
    "SELECT set_config('transaction_read_only', 'off', false)::bool AS a",
)
#: statements within a function
_WITHIN = (
    _DELETE,
    "SET TRANSACTION READ WRITE",
    f"SET transaction_read_only = off; {_DELETE}",
    f"SELECT set_config(''transaction_read_only'', ''off'', true); {_DELETE}",
    f"COMMIT; {_DELETE}",
    f"ROLLBACK; {_DELETE}",
    "CREATE TEMP TABLE copied (a int)",
    "TRUNCATE kept",
    "COPY kept FROM PROGRAM ''echo 2''",
    "GRANT ALL ON kept TO PUBLIC",
    "ALTER TABLE kept ADD b int",
    "DROP FUNCTION turned",
    "CREATE ROLE intruder SUPERUSER",
    "PREPARE TRANSACTION ''x''",
    f"DO $d$ BEGIN {_DELETE}; END $d$",
)
REFUSED = [
    *(form.replace("{w}", _DELETE) for form in _OUT),
    *_NOT_SELECT,
    *(f"SELECT run('{statement}') AS a" for statement in _WITHIN),
    *(f"SELECT run_early('{statement}') AS a" for statement in _WITHIN[:3]),
]
#: these are read, and what they do ends with the transaction
READ = {
    "SELECT 1 AS a; ;\n": 1,
    "TABLE kept": 1,
    "SELECT a FROM kept WHERE s <> ') AS q; COMMIT; DELETE FROM kept; SELECT * FROM (' -- )": 1,
    "SELECT a FROM kept WHERE s <> $x$); DROP TABLE kept$x$ /* ; COMMIT; ) */": 1,
    r"SELECT a FROM kept WHERE s <> '\' AND s <> '; DELETE FROM kept'": 1,
    "SELECT run('NOTIFY everyone') AS a": 1,
    "SELECT run('SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE') AS a": 1,
}
_STATE = """
SELECT (SELECT array_agg(k::text) FROM kept k), (SELECT (last_value, is_called)::text FROM counted), (SELECT count(*) FROM pg_class),
       (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_roles), (SELECT relacl::text FROM pg_class WHERE relname = 'kept'),
       (SELECT count(*) FROM pg_largeobject_metadata),
       (SELECT count(*) FROM pg_prepared_xacts)
"""


@pytest.fixture(scope="module")
def connection(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as opened:
        opened.execute(f"SET client_min_messages = error; {_SETUP}; LISTEN everyone")
        yield opened


@pytest.mark.parametrize("query", [*REFUSED, *READ])
def test_a_query_cannot_write(
    postgres: str, connection: psycopg.Connection, tmp_path: Path, query: str
) -> None:
    tmp_path.chmod(0o777)  # the server runs as somebody else
    connection.execute("TRUNCATE kept; INSERT INTO kept VALUES (1, 'x')")
    before = connection.execute(_STATE).fetchall()
    address = f"{postgres}&query={quote(query.replace('{file}', f'{tmp_path}/file'))}"
    if query in READ:
        assert open_table(address).columns()["a"].tolist() == [READ[query]]
    else:
        with pytest.raises(SourceError, match=r"^the server refused a query on query: .+$"):
            open_table(address)
    assert connection.execute(_STATE).fetchall() == before
    assert not list(tmp_path.iterdir()) and not list(connection.notifies(timeout=0, stop_after=1))


#: PostgreSQL lets RESET past what SET is refused (`guc.c`, set_config_option: a value of the server's own is not checked)
_RESET = "RESET transaction_read_only"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT set_config('transaction_read_only', NULL, true) IS NULL AS a",
        f"SELECT run('{_RESET}; {_DELETE}') AS a",
        f"SELECT run('{_RESET}; {_DELETE}; SET transaction_read_only = on') AS a",
        "SELECT lo_create(4711)::int AS a",  # which READ ONLY does not forbid
        f"SELECT run('{_RESET}; CLUSTER kept USING kept_a') AS a",
        f"SELECT a FROM kept WHERE run('{_RESET}; INSERT INTO kept VALUES (2, $$y$$)') = 1",
    ],
)
def test_what_ends_the_read_only_transaction_is_refused(
    postgres: str, connection: psycopg.Connection, query: str
) -> None:
    connection.execute("TRUNCATE kept; INSERT INTO kept VALUES (1, 'x')")
    connection.execute("CREATE INDEX IF NOT EXISTS kept_a ON kept (a)")
    before = connection.execute(_STATE).fetchall()
    with pytest.raises(SourceError, match="ended the read-only transaction, or wrote in it"):
        open_table(f"{postgres}&query={quote(query)}")
    assert connection.execute(_STATE).fetchall() == before


def test_rows_are_sent_as_one_statement(
    postgres: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the query was not looked at before: the protocol takes one statement only."""
    from penstock.host.sources.postgres import source

    described = source._Reading._describe
    monkeypatch.setattr(
        source._Reading, "_describe", lambda self, _: described(self, "SELECT 1.0 AS a")
    )
    written = _OUT[0].replace("{w}", _DELETE)
    with pytest.raises(SourceError, match="cannot insert multiple commands"):
        open_table(f"{postgres}&query={quote(written)}")
    assert connection.execute("SELECT a FROM kept").fetchall() == [(1,)]


#: relations and functions of the catalog's names, which stand before it in the path: each deletes all rows
_SHADOWS = """
DROP SCHEMA IF EXISTS tools CASCADE; CREATE SCHEMA tools;
CREATE FUNCTION tools.w() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM public.kept; RETURN 1; END';
DO $d$ DECLARE r record; BEGIN
    FOR r IN SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') AND relname ~ '{views}' LOOP
        EXECUTE format('CREATE VIEW tools.%I AS SELECT oid, nspname FROM pg_catalog.pg_namespace WHERE tools.w() = 1', r.relname);
    END LOOP;
    FOR r IN SELECT p.* FROM pg_proc p WHERE pronamespace = 'pg_catalog'::regnamespace AND NOT proretset AND prokind = 'f'
             AND proname ~ '^(quote_ident|to_regclass|current_set|row_sec|pg_is_in|pg_back|pg_rel|txid_(cur|snapshot_x|stat)|format_t|has_|pg_exp)'
             AND proargmodes IS NULL LOOP
        EXECUTE format('CREATE FUNCTION tools.%I(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN PERFORM tools.w(); RETURN NULL; END''',
                       r.proname, pg_get_function_identity_arguments(r.oid), pg_get_function_result(r.oid));
    END LOOP;
END $d$
"""


@pytest.mark.parametrize("views", ["^pg_namespace$", "^pg_[a-z_]*[a-z]$"])
@pytest.mark.parametrize(
    "what", ["table=kept", "table=kept&features=s", "query=SELECT * FROM kept"]
)
def test_names_of_the_catalog_mean_the_catalog(
    postgres: str, connection: psycopg.Connection, what: str, views: str
) -> None:
    connection.execute("TRUNCATE kept; INSERT INTO kept VALUES (1, 'x')")
    connection.execute(_SHADOWS.replace("{views}", views))
    path = "options=-c%20search_path%3Dtools,pg_catalog,public"
    try:
        assert open_table(f"{postgres}&{path}&{what}").columns()["a"].tolist() == [1]
    finally:
        left = connection.execute("SELECT a FROM kept").fetchall()
        connection.execute("DROP SCHEMA tools CASCADE")
        assert left == [(1,)]


_OPERATOR = """
CREATE FUNCTION public.taken{n}({left}, {right}) RETURNS {gives} LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('transaction_read_only') = 'off' THEN DELETE FROM kept; END IF; RETURN {value}; END $$;
CREATE OPERATOR public.{name} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.taken{n})"""
#: operators that fit better than the catalog's own, and a value that would lead astray
_OPERATORS = (
    ("<>", "oid", "int4", "bool", "false"),
    ("=", "oid", "regclass", "bool", "$1 OPERATOR(pg_catalog.=) 'public.astray'::regclass::oid"),
    ("=", "oid", "int4", "bool", "true"),
    (">=", "oid", "int4", "bool", "false"),
    ("!~", "name", "name", "bool", "false"),
    ("=", "float8", "int4", "bool", "true"),
    ("+", "int4", "float8", "float8", "7"),
)


def test_an_enum_that_others_cast(postgres: str, connection: psycopg.Connection) -> None:
    """Its labels are what the type writes, whoever has made a cast to text."""
    connection.execute("""
        DROP TYPE IF EXISTS states CASCADE; DROP TABLE IF EXISTS cast_by_others; CREATE TYPE states AS ENUM ('on', 'off');
        CREATE TABLE cast_by_others AS SELECT 1 AS a, 'off'::states AS s;
        CREATE FUNCTION said(states) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE ''called''; END';
        CREATE CAST (states AS text) WITH FUNCTION said(states)""")
    try:
        found = open_table(f"{postgres}&table=cast_by_others&features=s")
        assert found.columns()["s"].tolist() == [1]
    finally:
        connection.execute("DROP TABLE cast_by_others; DROP TYPE states CASCADE")


def test_operators_of_others(postgres: str, connection: psycopg.Connection) -> None:
    """Whoever may create objects in a schema of the reader's path gives it operators: nothing of ours calls one, reading or writing."""
    from penstock.host.sources.postgres.writing import write_models

    connection.execute(
        "DROP TABLE IF EXISTS astray, kept_models CASCADE; CREATE TABLE astray AS SELECT 7 AS a; CREATE VIEW kept_rows AS SELECT a FROM kept"
    )
    try:
        for n, (name, left, right, gives, value) in enumerate(_OPERATORS):
            connection.execute(
                _OPERATOR.format(n=n, name=name, left=left, right=right, gives=gives, value=value)
            )
        for what in ("table=kept", "table=kept_rows", "query=SELECT a FROM kept"):
            found = open_table(f"{postgres}&{what}".replace(" ", "%20"))
            assert found.columns()["a"].tolist() == [1]
        url = f"{postgres}&table=kept"
        select = "SELECT t.a, 1 + t.a::float8 AS up, t.a::float8 = 1 AS one FROM {} t".format
        for _ in range(2):
            write_models(
                url, "kept_models", {"w": [1.0]}, "replace", view="kept_scores", select=select
            )
        assert connection.execute("SELECT * FROM public.kept_scores").fetchall() == [(1, 2.0, True)]
        assert connection.execute("SELECT value FROM kept_models").fetchall() == [(1.0,)]
        assert connection.execute("SELECT pg_catalog.count(*) FROM kept").fetchone() == (1,)
    finally:
        connection.execute(
            "DROP TABLE IF EXISTS astray, kept_models; DROP VIEW IF EXISTS kept_rows, kept_scores"
        )
        for n, (_, left, right, *_) in enumerate(_OPERATORS):
            connection.execute(f"DROP FUNCTION IF EXISTS public.taken{n}({left}, {right}) CASCADE")
