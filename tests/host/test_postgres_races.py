"""What a reading gives while others alter, truncate and attach: the state before or after, never one between."""

from __future__ import annotations

import contextlib
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.host.sources import SourceError, open_table

#: what is there in state k: a row (k, i) for each i below this, by table
SIZES = {"q1": lambda k: 100 + k % 5, "q2": lambda k: 200 + k % 7, "p1": lambda k: 90 + k % 3}
_FILL = "INSERT INTO {t} (k, i) SELECT {k}, i FROM generate_series(0, {n} - 1) i"
_SETUP = """
DROP TABLE IF EXISTS q1, q2, p CASCADE; DROP TABLE IF EXISTS p2;
CREATE TABLE q1 (k int, i int, secret text); CREATE TABLE q2 (LIKE q1);
CREATE TABLE p (k int, i int, secret text) PARTITION BY RANGE (i);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10000);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10000) TO (20000);
CREATE VIEW both_rows AS SELECT k, i FROM q1 UNION ALL SELECT k, i + 1000 FROM q2;
CREATE MATERIALIZED VIEW m AS SELECT k, i FROM q1;
CREATE OR REPLACE FUNCTION rows_of_q2() RETURNS TABLE (k int, i int) LANGUAGE plpgsql STABLE SECURITY DEFINER
    AS 'BEGIN RETURN QUERY SELECT q2.k, q2.i + 1000 FROM q2; END';
CREATE OR REPLACE FUNCTION rows_of_q2_now() RETURNS TABLE (k int, i int) LANGUAGE plpgsql VOLATILE
    AS 'BEGIN RETURN QUERY EXECUTE ''SELECT q2.k, q2.i + 1000 FROM q2''; END';
GRANT SELECT ON both_rows TO guest; GRANT SELECT (k, i) ON q1, q2, p TO guest;
"""
_BOTH = ("q1", "q2")
#: who reads what, and which tables' rows it gives
READINGS = [
    ("penstock", "table=q1", ("q1",)),
    ("guest", "table=q1", ("q1",)),
    ("penstock", "table=m", ("q1",)),
    ("guest", "table=both_rows", _BOTH),
    ("penstock", "table=v", ("q1",)),
    ("guest", "table=p", ("p1", "p1")),
    ("penstock", "table=p", ("p1", "p1")),
    ("penstock", "query=SELECT k, i FROM q1 UNION ALL SELECT k, i + 1000 FROM q2", _BOTH),
    ("guest", "query=SELECT k, i FROM q1 UNION ALL SELECT k, i + 1000 FROM q2", _BOTH),
    ("guest", "query=SELECT k, i FROM p UNION ALL SELECT k, i - 1000 FROM q1", ("p1", "p1", "q1")),
    ("guest", "query=SELECT k, i FROM q1 UNION ALL SELECT * FROM rows_of_q2()", _BOTH),
    ("guest", "query=SELECT k, i FROM q1 UNION ALL SELECT * FROM rows_of_q2_now()", _BOTH),
    ("penstock", "query=SELECT k, i FROM m UNION ALL SELECT k, i + 1000 FROM q2", _BOTH),
]


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as opened:
        opened.execute("SET client_min_messages = error")
        opened.execute("CREATE EXTENSION IF NOT EXISTS pageinspect")
        if opened.execute("SELECT 1 FROM pg_roles WHERE rolname = 'guest'").fetchone() is None:
            opened.execute("CREATE ROLE guest LOGIN")
        for role in ("guest", "penstock"):  # readers and writers lock in every order
            opened.execute(f"ALTER ROLE {role} SET deadlock_timeout = '20ms'")
        fresh(opened)
        yield opened
        for role in ("guest", "penstock"):
            opened.execute(f"ALTER ROLE {role} RESET deadlock_timeout")


def fresh(connection: psycopg.Connection) -> None:
    connection.execute(_SETUP)
    for _ in advance(connection, random.Random(0), 0):
        pass


def advance(one: psycopg.Connection, rng: random.Random, k: int) -> Iterator[int]:
    """Bring all tables to state `k` in one transaction, by other means each time. Yields how many steps are left, before each and before the end."""
    steps: list[list[str]] = []
    for t, size in SIZES.items():
        fill = _FILL.format(t=t, k=k, n=size(k))
        how = rng.choice(["truncate", "delete", "update", "column", "rewrite"])
        begin = {
            "truncate": [f"TRUNCATE {t}", fill],
            "delete": [f"DELETE FROM {t}", fill],
            "update": [f"DELETE FROM {t} WHERE i >= {size(k) - 3}", f"UPDATE {t} SET k = {k}"],
        }.get(how, [f"DELETE FROM {t}", fill])
        if how == "update":
            begin.append(
                f"INSERT INTO {t} (k, i) SELECT {k}, i FROM generate_series("
                f"(SELECT coalesce(max(i), -1) + 1 FROM {t}), {size(k) - 1}) i"
            )
        if t in _BOTH and how == "column":
            begin += [f"ALTER TABLE {t} ADD c{k} float8 DEFAULT random(), DROP secret"]
            begin += [f"ALTER TABLE {t} ADD secret text, DROP c{k}"]
        elif t in _BOTH and how == "rewrite":
            begin += [f"ALTER TABLE {t} ALTER secret TYPE varchar(9), ADD d{k} int DEFAULT {k}"]
            begin += [f"ALTER TABLE {t} ALTER secret TYPE text USING secret || 'x', DROP d{k}"]
        steps.append(begin)
    # the second partition holds what the first holds, 10,000 higher
    copy = f"SELECT k, i + 10000, secret FROM p1 WHERE i < {SIZES['p1'](k)}"
    attach = "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10000) TO (20000)"
    steps[-1] += rng.choice(
        [
            ["TRUNCATE p2", f"INSERT INTO p2 {copy}"],
            [
                "ALTER TABLE p DETACH PARTITION p2",
                "DELETE FROM p2",
                f"INSERT INTO p2 {copy}",
                attach,
            ],
            ["DROP TABLE p2", "CREATE TABLE p2 (LIKE p)", f"INSERT INTO p2 {copy}", attach],
        ]
    )
    last = [
        "REFRESH MATERIALIZED VIEW m",
        f"CREATE OR REPLACE VIEW v AS SELECT {k} AS k, i FROM q1",
    ]
    rng.shuffle(steps)
    listed = [s for part in steps for s in part] + last
    with one.transaction():
        for left, statement in zip(range(len(listed), 0, -1), listed, strict=True):
            yield left
            one.execute(statement)  # type: ignore[arg-type]
        yield 0


def state(columns: dict[str, Any], tables: tuple[str, ...]) -> int:
    """Return the state that rows show. Raises AssertionError where they show none."""
    rows = Counter(zip(columns["k"].tolist(), columns["i"].tolist(), strict=True))
    k = next(iter(rows))[0]
    places = {"q2": 1000, "q1": -1000 if len(tables) == 3 else 0}
    wanted: Counter[tuple[int, int]] = Counter()
    for at, t in enumerate(tables):
        shift = 10000 if tables[:at].count(t) else places.get(t, 0)
        wanted.update((k, i + shift) for i in range(SIZES[t](k)))
    assert rows == wanted, f"{len(rows)} rows, states {sorted({k for k, _ in rows})}"
    return k


def read(postgres: str, who: str, what: str) -> dict[str, Any]:
    return open_table(f"{postgres.replace('penstock@', f'{who}@')}&{what}").columns()


def waits(connection: psycopg.Connection) -> bool:
    found = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return found != (0,)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("who", "what", "tables"), READINGS)
def test_a_transaction_ends_while_the_reader_waits(
    postgres: str, connection: psycopg.Connection, who: str, what: str, tables: Any, seed: int
) -> None:
    """All is changed already when the reader begins, and it waits; the transaction commits then."""
    found: list[int] = []
    reader = threading.Thread(
        target=lambda: found.append(state(read(postgres, who, what), tables)), daemon=True
    )
    with psycopg.connect(postgres, autocommit=True) as other:
        for left in advance(other, random.Random(seed), 1):
            if not left:
                reader.start()
                while reader.is_alive() and not waits(connection):
                    pass
    reader.join(60)
    assert found in ([0], [1])


@pytest.mark.parametrize("who", ["penstock", "guest"])
def test_a_name_means_another_table_when_the_lock_is_given(
    postgres: str, connection: psycopg.Connection, who: str
) -> None:
    """The writer changes what the name meant, and creates a table that comes first in the path."""
    connection.execute("DROP SCHEMA IF EXISTS first CASCADE; CREATE SCHEMA first")
    connection.execute("GRANT USAGE ON SCHEMA first TO guest")
    found: list[Any] = []
    address = f"{postgres}&options=-c%20search_path%3Dfirst,public"
    reader = threading.Thread(
        target=lambda: found.append(set(read(address, who, "table=q1")["k"].tolist())), daemon=True
    )
    with psycopg.connect(postgres) as other:
        other.execute("LOCK q1; UPDATE q1 SET k = -1; CREATE TABLE first.q1 AS SELECT 1 AS k")
        other.execute("GRANT SELECT (k) ON first.q1 TO guest")
        reader.start()
        while reader.is_alive() and not waits(connection):
            pass
    reader.join(60)
    connection.execute("DROP SCHEMA first CASCADE")
    fresh(connection)
    assert found in ([{0}], [{1}])


_POLICIES = """
ALTER TABLE q1 ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON q1 USING (i < 50);
CREATE ROLE granted; CREATE POLICY every ON q1 {} USING (true)"""
#: what a name stands for besides a table's rows, as it is in state 0, and how it comes into state 1 with the rows
MEANINGS = {
    "a function": (
        "CREATE FUNCTION lim() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 100'",
        "CREATE OR REPLACE FUNCTION lim() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 101'",
        "query=SELECT k, i FROM q1 WHERE i < lim()",
    ),
    "a label": (
        "CREATE TYPE moods AS ENUM ('n0', 'n1'); CREATE TABLE first.kinds AS SELECT 'n0'::moods AS k",
        "ALTER TYPE moods RENAME VALUE 'n1' TO 'x'; ALTER TYPE moods RENAME VALUE 'n0' TO 'n1'",
        "query=SELECT a.k, i FROM q1, (SELECT substr(kinds.k::text, 2)::int AS k FROM kinds) AS a",
    ),
    "a function beside another": (
        "CREATE FUNCTION first.most(bigint) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 100'",
        "CREATE FUNCTION first.most(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 101'",
        "query=SELECT k, i FROM q1 WHERE i < most(0)",
    ),
    "a member of a role": (
        _POLICIES.format("TO granted"),
        "GRANT granted TO guest",
        "table=q1",
    ),
    "a right to all rows": (
        _POLICIES.format("TO granted"),
        "ALTER ROLE guest BYPASSRLS",
        "table=q1",
    ),
    "a policy": (
        "ALTER TABLE q1 ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON q1 USING (i < 50)",
        "CREATE POLICY every ON q1 TO guest USING (true)",
        "query=SELECT k, i FROM q1",
    ),
    "a table that goes": (
        "CREATE TABLE first.q1 AS TABLE q1; GRANT SELECT (k, i) ON first.q1 TO guest; "
        "GRANT USAGE ON SCHEMA first TO guest; DELETE FROM public.q1",
        "DROP TABLE first.q1",
        "query=SELECT k, i FROM q1",
    ),
    "a constraint that is valid": (
        "CREATE TABLE first.a (k int, i int); CREATE TABLE first.b () INHERITS (first.a); ALTER TABLE first.b ADD CHECK (i > 0) NOT VALID",
        "ALTER TABLE first.b VALIDATE CONSTRAINT b_i_check",
        "query=SELECT k, i FROM q1 UNION ALL SELECT k, i FROM a WHERE i < 0",
    ),
    "a child without columns": (
        "CREATE TABLE first.a (); CREATE TABLE first.b () INHERITS (first.a); CREATE TABLE first.c (); INSERT INTO first.c DEFAULT VALUES",
        "ALTER TABLE first.c INHERIT first.a",
        "query=SELECT k, i FROM q1 WHERE i < 100 + (SELECT count(*) FROM a)",
    ),
    "a right that a function asks": (
        "CREATE TABLE first.a (x int); GRANT USAGE ON SCHEMA first TO guest; "
        "CREATE VIEW first.w AS SELECT k, i FROM q1 WHERE i < 100 + has_table_privilege('guest', 'first.a', 'SELECT')::int; GRANT SELECT ON first.w TO guest",
        "GRANT SELECT ON first.a TO guest",
        "table=first.w",
    ),
    "a right to a parameter": (
        "REVOKE ALL ON PARAMETER work_mem FROM guest",
        "GRANT SET ON PARAMETER work_mem TO guest",
        "query=SELECT k, i FROM q1 WHERE i < 100 + has_parameter_privilege('guest', 'work_mem', 'SET')::int",
    ),
    "a right to a tablespace": (
        "REVOKE ALL ON TABLESPACE pg_global FROM guest; GRANT USAGE ON SCHEMA first TO guest",
        "GRANT CREATE ON TABLESPACE pg_global TO guest",
        "query=SELECT k, i FROM q1 WHERE i < 100 + has_tablespace_privilege('guest', 'pg_global', 'CREATE')::int",
    ),
    "an origin of replication": (
        "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin",
        "SELECT pg_replication_origin_create('o')",
        "query=SELECT k, i FROM q1 WHERE i < CASE WHEN pg_replication_origin_oid('o') IS NULL THEN 100 ELSE 101 END",
    ),
    "a column's sequence": (
        "CREATE TABLE first.a (x int); CREATE SEQUENCE first.s",
        "ALTER SEQUENCE first.s OWNED BY first.a.x",
        "query=SELECT k, i FROM q1 WHERE i < CASE WHEN pg_get_serial_sequence('first.a', 'x') IS NULL THEN 100 ELSE 101 END",
    ),
    "a right to a table's row type": (
        "CREATE TABLE first.a (x int); REVOKE USAGE ON TYPE first.a FROM public; GRANT USAGE ON SCHEMA first TO guest",
        "GRANT USAGE ON TYPE first.a TO guest",
        "query=SELECT k, i FROM q1 WHERE i < 100 + has_type_privilege('guest', 'first.a', 'USAGE')::int",
    ),
    "a subscription's name": (
        "CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false, slot_name = NONE)",
        "ALTER SUBSCRIPTION s RENAME TO renamed",
        "query=SELECT k, i FROM q1 WHERE i < 100 + (SELECT (identity = 'renamed')::int FROM pg_subscription s, pg_identify_object(s.tableoid, s.oid, 0))",
    ),
    "a table that a function asks for": (
        "SELECT",
        "CREATE TABLE first.a ()",
        "query=SELECT k, i FROM q1 WHERE i < CASE WHEN to_regclass('first.a') IS NULL THEN 100 ELSE 101 END",
    ),
    "a lock that is given back": (
        """CREATE TABLE first.a AS SELECT 100 AS n; CREATE FUNCTION lim() RETURNS int LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN
        BEGIN n := (SELECT max(a.n) FROM first.a); RAISE 'no'; EXCEPTION WHEN OTHERS THEN END; RETURN coalesce(n, 101); END $$""",
        "TRUNCATE first.a",
        "query=SELECT k, i FROM q1 WHERE i < lim()",
    ),
}


@pytest.mark.parametrize("meaning", MEANINGS)
def test_what_names_stand_for_changes_after_the_snapshot(
    postgres: str,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    meaning: str,
) -> None:
    """A writer changes rows, and what a name of the query stands for, in one transaction: between snapshot and query."""
    from penstock.host.sources.postgres import locks

    before, after, what = MEANINGS[meaning]
    last = (
        3 if what.startswith("table=") else 2
    )  # the turn that reads: those before it look for what to lock
    connection.execute("DROP SCHEMA IF EXISTS first CASCADE; CREATE SCHEMA first")
    connection.execute("DROP FUNCTION IF EXISTS lim; DROP TYPE IF EXISTS moods CASCADE")
    fresh(connection)
    connection.execute("SET search_path = first, public")
    connection.execute(before)
    begin, turns = locks.Locks.begin, list[str]()

    def changed(self: Any) -> None:
        begin(self)
        turns.append(what)
        if len(turns) == last:
            with psycopg.connect(postgres) as other:
                other.execute("SET search_path = first, public; SET lock_timeout = '9s'")
                other.execute("DELETE FROM public.q1")
                other.execute(_FILL.format(t="public.q1", k=1, n=SIZES["q1"](1)))
                other.execute(after)

    monkeypatch.setattr(locks.Locks, "begin", changed)
    # the comparison of catalogs alone is judged, not that a disturbed reading is repeated
    monkeypatch.setattr(locks, "_QUIET_TRIES", 0)
    monkeypatch.setattr(locks, "_LOOKS", 0)
    address = f"{postgres}&options=-c%20search_path%3Dfirst,public"
    try:
        # LOCK TABLE takes no table of which some columns may be read
        who = "guest" if re.search("first.q1|guest", after) else "penstock"
        assert state(read(address, who, what), ("q1",)) == 1 and len(turns) > last
    finally:
        connection.execute("SET search_path = public; DROP SCHEMA first CASCADE")
        connection.execute("DROP FUNCTION IF EXISTS lim; DROP TYPE IF EXISTS moods CASCADE")
        fresh(connection)
        connection.execute("DROP ROLE IF EXISTS granted; ALTER ROLE guest NOBYPASSRLS")
        connection.execute("DROP SUBSCRIPTION IF EXISTS s")
        connection.execute("DROP SUBSCRIPTION IF EXISTS renamed")


def test_a_sequence_is_set_behind_its_lock(
    postgres: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sets it waits for no reader: one transaction does so, and changes rows, when all is locked and looked at."""
    from penstock.host.sources.postgres import locks

    look, turns = locks.Locks.look, [0]

    def changed(self: Any) -> None:
        look(self)
        turns[0] += 1
        if turns[0] == 1:
            with psycopg.connect(postgres) as other:
                other.execute("UPDATE q1 SET k = 1; INSERT INTO q1 (k, i) VALUES (1, 100)")
                other.execute("ALTER SEQUENCE reached RESTART WITH 101")

    connection.execute("DROP SEQUENCE IF EXISTS reached; CREATE SEQUENCE reached START 100")
    monkeypatch.setattr(locks.Locks, "look", changed)
    for name in ("_QUIET_TRIES", "_LOOKS"):
        monkeypatch.setattr(locks, name, 0)
    what = "query=SELECT k, i FROM q1, reached WHERE i < last_value"
    assert state(read(postgres, "penstock", what), ("q1",)) == 1 and turns[0] > 2


def test_what_is_made_and_undone_while_a_query_is_read(
    postgres: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction changes rows and adds a function beside another, behind the first look at the catalogs; one before the last drops it."""
    from penstock.host.sources.postgres import locks

    look, turns = locks.Locks.look, [0]

    def changed(self: Any) -> None:
        turns[0] += 1
        with psycopg.connect(postgres) as other:
            other.execute("SET lock_timeout = '9s'")
            if turns[0] == 2:
                other.execute("DROP FUNCTION first.most(int)")
                other.commit()
            look(self)
            if turns[0] == 1:
                other.execute("UPDATE q1 SET k = 1; INSERT INTO q1 (k, i) VALUES (1, 100)")
                other.execute(
                    "CREATE FUNCTION first.most(int) RETURNS int LANGUAGE sql AS 'SELECT 50'"
                )

    connection.execute("DROP SCHEMA IF EXISTS first CASCADE; CREATE SCHEMA first")
    connection.execute(
        "CREATE FUNCTION first.most(bigint) RETURNS int LANGUAGE sql AS 'SELECT 999'"
    )
    fresh(connection)
    monkeypatch.setattr(locks.Locks, "look", changed)
    monkeypatch.setattr(locks, "_QUICK", 60)  # however busy the machine is
    try:
        found = read(postgres, "penstock", "query=SELECT k, i FROM q1 WHERE i < first.most(0)")
        assert state(found, ("q1",)) == 1 and turns[0] > 2
    finally:
        connection.execute("DROP SCHEMA first CASCADE")
        fresh(connection)


#: what a function, a policy or a type of the reader's kept from the try before: how it begins, what changes, and what is read
KEPT = {
    "a plan": (
        "CREATE FUNCTION first.f(float8) RETURNS int LANGUAGE sql AS 'SELECT 100'; "
        "CREATE FUNCTION first.g() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN f(1); END'",
        "CREATE FUNCTION first.f(int) RETURNS int LANGUAGE sql AS 'SELECT 101'",
        "query=SELECT k, i FROM q1 WHERE i < first.g()",
    ),
    "a type": (
        "CREATE DOMAIN public.kept_number AS int CHECK (value = 100); "
        "CREATE FUNCTION first.g() RETURNS int LANGUAGE plpgsql AS 'DECLARE v kept_number; "
        "BEGIN v := 101; RETURN v; EXCEPTION WHEN OTHERS THEN RETURN 100; END'",
        "CREATE DOMAIN first.kept_number AS int",
        "query=SELECT k, i FROM q1 WHERE i < first.g()",
    ),
}


@pytest.mark.parametrize("kept", KEPT)
def test_what_a_session_keeps_from_an_earlier_try(
    postgres: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """A writer changes rows, and what a name stands for in a function that was called already, when the rows have been read."""
    from penstock.host.sources.postgres import source

    before, after, what = KEPT[kept]
    connection.execute(
        "DROP SCHEMA IF EXISTS first CASCADE; DROP DOMAIN IF EXISTS public.kept_number; CREATE SCHEMA first"
    )
    fresh(connection)
    connection.execute(before)
    rows, turns = source._Reading._rows, [0]

    def changed(self: Any, *arguments: Any) -> Any:
        found = rows(self, *arguments)
        turns[0] += 1
        if turns[0] == 1:
            with psycopg.connect(postgres) as other:
                other.execute("UPDATE q1 SET k = 1; INSERT INTO q1 (k, i) VALUES (1, 100)")
                other.execute(after)
        return found

    monkeypatch.setattr(source._Reading, "_rows", changed)
    try:
        found = read(f"{postgres}&options=-c%20search_path%3Dfirst,public", "penstock", what)
        assert state(found, ("q1",)) == 1 and turns[0] > 1
    finally:
        connection.execute("DROP SCHEMA first CASCADE; DROP DOMAIN IF EXISTS public.kept_number")
        fresh(connection)


def test_what_disturbs_nobody(
    postgres: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of catalogs that are locked, temporary objects, large objects, comments, settings: nothing is read again."""
    from penstock.host.sources.postgres import locks

    begin, tries = locks.Locks.begin, [0]

    def disturbed(self: Any) -> None:
        begin(self)
        tries[0] += 1
        other.execute(f"""
            DISCARD TEMP; BEGIN; SELECT FROM pg_class WHERE relname = 'q1' FOR UPDATE; COMMIT;
            CREATE TEMP TABLE a (x serial PRIMARY KEY, y int DEFAULT 3 CHECK (y > 2)); CREATE TEMP TABLE b (x int REFERENCES a);
            COMMENT ON COLUMN a.y IS 'y'; CREATE TEMP VIEW v AS SELECT k FROM q1; CREATE TYPE pg_temp.m AS ENUM ('x', 'y');
            CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; SELECT lo_unlink(lo_create(0));
            COMMENT ON TABLE q1 IS '{tries[0]}'; ALTER ROLE guest SET work_mem = '{64 + tries[0]}kB'; ANALYZE q1""")

    with psycopg.connect(postgres, autocommit=True) as other:
        monkeypatch.setattr(locks.Locks, "begin", disturbed)
        monkeypatch.setattr(locks, "_QUIET_TRIES", 0)
        try:
            for who, what, fewest in (
                ("penstock", "table=q1", 2),
                ("guest", "query=SELECT k, i FROM q1", 2),
            ):
                tries[0] = 0
                assert state(read(postgres, who, what), ("q1",)) == 0 and tries[0] == fewest
        finally:
            connection.execute("ALTER ROLE guest RESET work_mem")


@pytest.mark.parametrize(
    "how", ["SET LOCAL transaction_isolation TO DEFAULT", "RESET transaction_isolation"]
)
def test_a_function_that_resets_the_isolation(
    postgres: str, connection: psycopg.Connection, how: str
) -> None:
    """What follows in the query would see what has been committed meanwhile."""
    connection.execute(
        "DROP SCHEMA IF EXISTS first CASCADE; CREATE SCHEMA first; CREATE FUNCTION first.f() RETURNS int LANGUAGE plpgsql AS "
        f"$$ BEGIN {how}; RETURN 100; END $$"
    )
    try:
        with pytest.raises(SourceError, match="reset the transaction's isolation"):
            open_table(f"{postgres}&query=SELECT k, i FROM q1 WHERE i < first.f()")
    finally:
        connection.execute("DROP SCHEMA first CASCADE")


_ENCODING = "set_config('client_encoding', {}, false)"


def test_a_function_that_changes_the_encoding(
    postgres: str, connection: psycopg.Connection
) -> None:
    """Texts are what they are, whatever it is while they are sent; names and Penstock's own statements come in UTF-8, or not at all."""
    for now, back in (("'latin1'", "'UTF8'"), ("'SJIS'", "'UTF8'")):
        config = _ENCODING.format(f"CASE WHEN i < 2 THEN {now} ELSE {back} END")
        query = f"SELECT i, {config} AS s, CASE WHEN i < 1 THEN 'Ã©ソ'::text ELSE 'éソ' END AS w FROM generate_series(0, 3) i"
        table = open_table(f"{postgres}&query={query}", features=["w"])
        assert table.group_values("w") == ["Ã©ソ", *3 * ["éソ"]]
    connection.execute(
        "DROP FUNCTION IF EXISTS early; CREATE FUNCTION early(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
        f"$$ BEGIN PERFORM {_ENCODING.format('$1')}; RETURN 1; END $$"
    )
    for query in (
        "early('latin1') AS a, '→' AS w",
        "early('SQL_ASCII') AS a, 1 AS é",
        f"{_ENCODING.format(repr('latin1'))} AS s, 1 AS a",
    ):
        with pytest.raises(SourceError, match="changed client_encoding"):
            open_table(f"{postgres}&query=SELECT {query}")


@pytest.mark.parametrize(
    ("catalog", "left"),
    [("pg_auth_members", ""), ("pg_enum", "oid"), ("pg_ts_dict", ""), ("pg_attrdef", "oid")],
)
def test_a_catalog_that_was_revoked(
    postgres: str, connection: psycopg.Connection, catalog: str, left: str
) -> None:
    """What it says may let other rows pass a policy."""
    connection.execute(
        f"DROP ROLE IF EXISTS cut; CREATE ROLE cut LOGIN; GRANT SELECT ON q1 TO cut; REVOKE SELECT ON pg_catalog.{catalog} FROM PUBLIC"
    )
    try:
        if left:
            connection.execute(f"GRANT SELECT ({left}) ON {catalog} TO PUBLIC")
        with pytest.raises(
            SourceError, match=f"may not read pg_catalog.{catalog}, which everybody"
        ):
            read(postgres, "cut", "query=SELECT k, i FROM q1")
    finally:
        connection.execute(
            f"REVOKE ALL ON {catalog} FROM PUBLIC; GRANT SELECT ON {catalog} TO PUBLIC; REVOKE ALL ON q1 FROM cut; DROP ROLE cut"
        )


@pytest.mark.parametrize("catalog", ["pg_enum", "pg_proc"])
def test_a_catalog_that_is_locked(
    postgres: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, catalog: str
) -> None:
    """VACUUM FULL of a catalog takes such a lock."""
    monkeypatch.setattr("penstock.host.sources.postgres.locks.LOCK_SECONDS", 1)
    with connection.transaction():
        connection.execute(f"LOCK pg_catalog.{catalog} IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError, match="did not give a lock on q1 within"):
            open_table(f"{postgres}&table=q1")


def test_few_sessions(postgres: str, connection: psycopg.Connection) -> None:
    """Two are enough, also where a try ends and the next one begins; idle ones may be ended by the server."""
    connection.execute(
        "DROP ROLE IF EXISTS few; CREATE ROLE few LOGIN CONNECTION LIMIT 2; GRANT SELECT ON q1 TO few"
    )
    connection.execute("ALTER ROLE few SET idle_session_timeout = '100ms'")
    try:
        for _ in range(3):
            time.sleep(0.2)  # sessions of the one before may still end
            what = "query=SELECT k, i FROM q1, pg_sleep(0.15) LIMIT 100"
            assert state(read(postgres, "few", what), ("q1",)) == 0
    finally:
        connection.execute("REVOKE ALL ON q1 FROM few; DROP ROLE few")


def check_races(postgres: str, connection: psycopg.Connection, readings: int) -> None:
    stop, done, faults = threading.Event(), [0], list[BaseException]()

    def go_on() -> None:
        rng = random.Random(1)
        try:
            with psycopg.connect(postgres, autocommit=True) as other:
                while not stop.is_set():
                    time.sleep(rng.choice([0, 0.01, 0.03]))
                    if rng.random() < 0.2:
                        other.execute(f"VACUUM FULL {rng.choice(['q1', 'q2', 'p1', 'p'])}")
                    with contextlib.suppress(psycopg.errors.DeadlockDetected):
                        for _ in advance(other, rng, done[0] + 1):
                            time.sleep(rng.choice([0, 0, 0.001, 0.004]))
                        done[0] += 1
        except BaseException as error:
            faults.append(error)

    seen: Counter[str] = Counter()
    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        for turn in range(readings):
            who, what, tables = READINGS[turn % len(READINGS)]
            before = done[0]
            try:
                k = state(read(postgres, who, what), tables)
            except SourceError as error:
                seen[error.message] += 1
            else:
                assert before <= k <= done[0] + 1
                seen["before" if k == before else "after"] += 1
    finally:
        stop.set()
        writer.join()
    print(f"{done[0]} transactions beside {readings} readings: {dict(seen)}")
    assert not faults and seen["before"] + seen["after"] >= 0.99 * readings, (faults, seen)


def test_random_races(postgres: str, connection: psycopg.Connection) -> None:
    check_races(postgres, connection, 104)


@pytest.mark.long
def test_random_races_long(postgres: str, connection: psycopg.Connection) -> None:
    for _ in range(25):
        fresh(connection)
        check_races(postgres, connection, 240)
