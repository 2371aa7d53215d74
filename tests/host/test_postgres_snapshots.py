"""Tables with every history beside SELECT under the same snapshot, while others go on changing them."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from penstock.host.sources import Table, open_table
from penstock.host.sources.postgres import source
from penstock.host.sources.postgres.names import theirs
from penstock.models.heap.values import DTYPES, Raw
from penstock.models.numerics.convert import from_pg
from penstock.models.numerics.formats import parse_format
from penstock.models.numerics.policy import InputPolicy
from penstock.models.strider.config import PortConfig, WalkConfig
from penstock.models.strider.isa import FIXED_TYPES
from penstock.models.strider.layout import Source, TupleLayout, place
from penstock.models.strider.program import generate
from penstock.models.strider.table import walk_table
from testbench.strider_bench import check_port

FLOAT = parse_format("float32")
EVERYTHING = InputPolicy("saturate", "pass")
#: one Strider for every table here: programs come at run time, so that a single build serves all schemas
PORT = PortConfig(
    page_size=8192,
    bus_bytes=16,
    lanes=4,
    beats=40,
    format=FLOAT,
    types=FIXED_TYPES,
    program_depth=256,
)
WAYS = ("buffers", "files", "rows")


def read_beside(uri: str, name: str, way: str | None) -> tuple[Table, list[tuple[Any, ...]]]:
    """Read a table by one way (None: as it comes), and SELECT its columns in the same transaction."""
    answers: list[list[tuple[Any, ...]]] = []
    reading = source._Reading

    class Beside(reading):  # type: ignore[misc, valid-type]
        def table(self) -> Table:
            found = super().table()
            listed = sql.SQL(", ").join(
                sql.Identifier(c.name) for c in found.schema.columns if c.is_numeric
            )
            asked = sql.SQL("SELECT {} FROM {}").format(listed, sql.SQL(name))
            with theirs(self.connection):
                answers.append(self.connection.execute(asked, binary=True).fetchall())
            return found

    def without_inspect(connection: Any, full: str) -> Any:
        return replace(relation(connection, full), pageinspect=None)

    relation = source.relation
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_Reading", Beside)
        if way == "files":
            patch.setattr(source, "relation", without_inspect)
        table = open_table(f"{uri}&table={name}", pages=None if way is None else way != "rows")
    assert table.provenance is not None and way in (None, table.provenance.way)
    return table, answers[0]


def canonical(kind: str, value: Any) -> Any:
    """Return a value so that equal ones are equal, NaN included."""
    if value is None or value is np.ma.masked:
        return None
    if isinstance(value, Raw):
        return bytes(value)
    dtype = DTYPES[kind.removesuffix("[]")]
    if not kind.endswith("[]"):
        return np.asarray(float(value) if isinstance(value, Decimal) else value, dtype).tobytes()
    cells = np.asarray([float(v) if isinstance(v, Decimal) else v for v in value], dtype)
    return len(cells), cells.tobytes()


def same_rows(table: Table, expected: list[tuple[Any, ...]], rtl: bool = False) -> bool:
    """The host's reader gives the same multiset of tuples, and golden the same multiset of those without NULL.

    `rtl`: the RTL Strider gives the same codes in the same order as golden, in the cycles of the model. Returns whether
    it did: tuples and programs may be too large for the one port that is built here.
    """
    assert table.rows == len(expected)
    columns = [c for c in table.schema.columns if c.is_numeric]
    got = table.columns()
    rows = Counter(
        zip(*([canonical(c.type, v) for v in got[c.name]] for c in columns), strict=True)
    )
    wanted = Counter(
        tuple(canonical(c.type, v) for c, v in zip(columns, row, strict=True)) for row in expected
    )
    assert rows == wanted, (
        f"{len(wanted - rows)} lost, {len(rows - wanted)} extra of {len(expected)}"
    )
    used = [c for c in columns if not c.is_array or c.length is not None]
    wide = {c.name: c.length or 1 for c in used}
    beats, fields = place({name: (1, n) for name, n in wide.items()}, PORT.lanes)
    fits = beats <= PORT.beats and table.schema.page_size == PORT.page_size
    beats = max(beats, PORT.beats)
    sources = tuple(Source(table.schema.index(f.name), 0, f.cols, f.position) for f in fields)
    layout = TupleLayout(PORT.lanes, beats, fields, sources, "skip")
    walk = WalkConfig(table.schema, layout, FLOAT, policy=EVERYTHING)
    codes, counts, _, error = walk_table(table.pages, walk)
    assert error is None and counts.sum() == len(codes)
    indices = [columns.index(c) for c in used]
    full = [
        [row[i] for i in indices] for row in expected if all(row[i] is not None for i in indices)
    ]
    out = np.zeros((len(full), walk.positions), np.int64)
    for k, (column, field) in enumerate(zip(used, fields, strict=True)):
        element = column.type.removesuffix("[]")
        cells = [
            [
                float(v) if isinstance(v, Decimal) else v
                for v in (row[k] if column.is_array else [row[k]])
            ]
            for row in full
        ]
        raw = np.asarray(cells, DTYPES[element]).reshape(len(full), field.cols)
        out[:, field.position : field.position + field.cols] = from_pg(
            element, raw.view(f"<u{raw.itemsize}"), FLOAT
        )
    assert Counter(map(bytes, codes)) == Counter(map(bytes, out))
    if not rtl or not fits or len(generate(walk)) > PORT.program_depth:
        return False
    run = check_port(PORT, walk, table.pages)
    assert run.error is None and run.counters[0] == len(codes)
    return True


# -- tables that live on while they are read -------------------------------------------------------------------------------

_BODY = "id int4, a int2, b float8, s text, x float4[], z float8[], ok bool"
_ROWS = """INSERT INTO {t} (id, a, b, s, x, z, ok) SELECT i, CASE WHEN i % 7 > 0 THEN i % 100 END, i / 3.0,
    repeat(md5(i::text), i % 5 * CASE WHEN i % 50 = 0 THEN 40 ELSE 1 END), ARRAY[i, 1, 2, 3, 4],
    CASE WHEN i % 20 = 0 THEN NULL WHEN i % 20 < 3 THEN array_fill(i::float8, ARRAY[130]) ELSE {small} END, i % 2 = 0
    FROM generate_series({first}, {last}) i"""
#: arrays that are plain, compressed and out of line, all of one length
_PLAIN = "(SELECT array_agg(i + k / 7.0) FROM generate_series(1, 130) k)"


def live(connection: psycopg.Connection) -> list[str]:
    """Make the tables; return their names."""
    run = connection.execute
    run("DROP TABLE IF EXISTS lived, unlogged, heir, half, kin, ranges CASCADE")
    run(f"CREATE TABLE lived ({_BODY}, gone numeric)")
    run("ALTER TABLE lived ALTER z SET STORAGE EXTERNAL, SET (toast_tuple_target = 600)")
    run(f"CREATE UNLOGGED TABLE unlogged ({_BODY})")
    run(f"CREATE TABLE half ({_BODY}) WITH (fillfactor = 50)")
    run(f"CREATE TABLE kin ({_BODY}); CREATE TABLE heir (extra int) INHERITS (kin)")
    run(
        f"CREATE TABLE ranges ({_BODY}) PARTITION BY RANGE (id); CREATE TABLE ranges_1 PARTITION OF ranges FOR VALUES FROM (0) TO (200); "
        "CREATE TABLE ranges_2 PARTITION OF ranges DEFAULT"
    )
    for name in ("lived", "unlogged", "half", "kin", "heir", "ranges"):
        run(_ROWS.format(t=name, first=1, last=400, small=_PLAIN))
        if name not in ("kin", "ranges"):
            run(f"CREATE UNIQUE INDEX {name}_id ON {name} (id)")
    run(
        "ALTER TABLE lived DROP gone, ADD late float4 DEFAULT 0.1, ADD flags float8[] DEFAULT '{1,NaN}', ADD u uuid DEFAULT gen_random_uuid()"
    )
    run("ALTER TABLE lived ALTER z SET STORAGE EXTENDED")
    run(_ROWS.format(t="lived", first=401, last=600, small=_PLAIN))
    run("CLUSTER half USING half_id")
    run("VACUUM (FREEZE) heir")
    return ["lived", "unlogged", "half", "kin", "heir", "ranges"]


def churn(
    uri: str, names: list[str], stop: threading.Event, seed: int, faults: list[BaseException]
) -> None:
    """Change the tables until told to stop: every kind of change, committed, aborted, in subtransactions, under locks of several."""
    rng = random.Random(seed)
    try:
        with psycopg.connect(uri, autocommit=True) as one:
            one.execute("SET lock_timeout = '300ms'; SET deadlock_timeout = '50ms'")
            while not stop.is_set():
                name = rng.choice(names)
                with contextlib.suppress(
                    psycopg.errors.LockNotAvailable,
                    psycopg.errors.DeadlockDetected,
                    psycopg.errors.UniqueViolation,
                    psycopg.errors.InFailedSqlTransaction,
                ):
                    _change(one, name, rng)
    except BaseException as error:
        faults.append(error)


def _change(one: psycopg.Connection, name: str, rng: random.Random) -> None:
    low = rng.randrange(600)
    some = f"id BETWEEN {low} AND {low + rng.randrange(40)}"
    what = rng.randrange(10)
    if what == 0:
        one.execute(f"DELETE FROM {name} WHERE {some}")
    elif what == 1:
        first = rng.randrange(1000, 10**9)
        one.execute(_ROWS.format(t=name, first=first, last=first + rng.randrange(30), small=_PLAIN))
    elif what == 2:
        one.execute(
            f"UPDATE {name} SET b = b + 1, ok = NOT ok WHERE {some}"
        )  # HOT where there is room
    elif what == 3 and name != "ranges":
        one.execute(
            f"UPDATE {name} SET id = id + {rng.randrange(10**9, 2 * 10**9 - 1000)} WHERE id < 1000 AND {some}"
        )  # cold
    elif what == 4:
        one.execute(f"VACUUM ({rng.choice(['FREEZE', 'FREEZE false', 'TRUNCATE'])}) {name}")
    elif what == 5 and name in ("half", "lived") and rng.random() < 0.2:
        one.execute(
            rng.choice([f"CLUSTER {name} USING {name}_id", "CHECKPOINT", f"VACUUM FULL {name}"])
        )
    else:
        with contextlib.suppress(psycopg.Rollback), one.transaction():
            one.execute(f"UPDATE {name} SET a = coalesce(a, 0) + 1, x[2] = x[2] + 1 WHERE {some}")
            with contextlib.suppress(psycopg.Rollback), one.transaction():
                one.execute(f"UPDATE {name} SET z = NULL WHERE {some}")
                if rng.random() < 0.5:
                    raise psycopg.Rollback
            one.execute(
                f"SELECT FROM {name} WHERE id % 5 = 1 FOR {rng.choice(['SHARE', 'KEY SHARE', 'UPDATE'])} SKIP LOCKED"
            )
            time.sleep(rng.random() * 0.02)
            if rng.random() < 0.4:
                raise psycopg.Rollback


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as opened:
        opened.execute(
            "CREATE EXTENSION IF NOT EXISTS pageinspect; SET client_min_messages = error"
        )
        yield opened


def check_living(postgres: str, connection: psycopg.Connection, seconds: float) -> None:
    names = live(connection)
    stop, faults = threading.Event(), list[BaseException]()
    threads = [
        threading.Thread(target=churn, args=(postgres, names, stop, seed, faults))
        for seed in range(2)
    ]
    for thread in threads:
        thread.start()
    seen: Counter[str] = Counter()
    ends, turn = time.monotonic() + seconds, 0
    try:
        while (time.monotonic() < ends or turn < 12) and not faults:
            name = names[turn % len(names)]
            way = None if name in ("kin", "ranges") else WAYS[turn // len(names) % 3]
            table, expected = read_beside(
                postgres, name, None if name == "unlogged" and way == "files" else way
            )
            assert table.provenance is not None
            seen[table.provenance.way] += 1
            seen["rtl"] += same_rows(table, expected, rtl=turn % 4 == 0)
            turn += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(f"0 lost, 0 extra, 0 stale, no refusal; {dict(seen)}")
    assert not faults and set(seen) == {*WAYS, "rtl"} and seen["rtl"] >= 3, (faults, seen)


def test_tables_that_go_on_changing(postgres: str, connection: psycopg.Connection) -> None:
    check_living(postgres, connection, 1)


@pytest.mark.long
def test_tables_that_go_on_changing_long(postgres: str, connection: psycopg.Connection) -> None:
    check_living(postgres, connection, 600)


# -- schemas and histories at random ---------------------------------------------------------------------------------------

#: an expression for row i of every type that can stand in a table
VALUES = {
    "bool": "i % 3 = 0",
    "int2": "(i % 30000)::int2",
    "int4": "i * 7",
    "int8": "i * 4000000007",
    "float4": "i / 3.0",
    "float8": "sqrt(i)",
    "numeric": "i / 8.0",
    "text": "repeat('ä', i % 200)",
    "varchar(300)": "repeat('v', i % 300)",
    "char(7)": "i::text",
    '"char"': "'c'",
    "name": "'n' || i",
    "bytea": "decode(repeat('ff', i % 90), 'hex')",
    "uuid": "md5(i::text)::uuid",
    "date": "date '2000-01-01' + i",
    "time": "time '00:00' + i * interval '1 s'",
    "timetz": "timetz '00:00+01' + i * interval '1 s'",
    "timestamp": "timestamp '2000-01-01' + i * interval '1 h'",
    "timestamptz": "timestamptz '2000-01-01' + i * interval '1 h'",
    "interval": "i * interval '1 day 1 s'",
    "money": "i::money",
    "oid": "i::oid",
    "tid": "('(' || i || ',1)')::tid",
    "xid": "i::text::xid",
    "cid": "'7'",
    "pg_lsn": "'0/16B3748'",
    "point": "point(i, 1)",
    "box": "box(point(0, 0), point(i, i))",
    "lseg": "lseg(point(0, 0), point(i, 1))",
    "line": "'{1,2,3}'",
    "circle": "circle(point(0, 0), i)",
    "path": "'((0,0),(1,1))'",
    "polygon": "'((0,0),(1,1),(2,0))'",
    "inet": "'10.0.0.1'",
    "cidr": "'10.0.0.0/8'",
    "macaddr": "'08:00:2b:01:02:03'",
    "macaddr8": "'08:00:2b:01:02:03:04:05'",
    "bit(9)": "i::bit(9)",
    "varbit": "i::bit(13)::varbit",
    "json": "'{}'",
    "jsonb": "'{\"a\": 1}'",
    "xml": "'<a/>'",
    "tsvector": "'a b'",
    "tsquery": "'a & b'",
    "int4range": "int4range(i, i + 5)",
    "float4[]": "ARRAY[i, 2, 3]",
    "float8[]": "ARRAY[i / 7.0, 0]",
    "int4[]": "ARRAY[i, -i]",
    "int8[]": "ARRAY[i]",
    "numeric[]": "ARRAY[i / 4.0, 1]",
    "text[]": "ARRAY['a', NULL]",
    "jsonpath": "'$.a'",
    "regproc": "'now'",
    "xid8": "'5'",
    "aclitem": "'=r/penstock'",
    "bool[]": "ARRAY[true, i % 2 = 0]",
}
_NUMBERS = ("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "float4[]", "float8[]")


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[str, bool, str]], list[tuple[str, int, int]]]:
    """A schema (type, whether NULLs come, storage) and what happens to the table."""
    kind = st.one_of(st.sampled_from(_NUMBERS), st.sampled_from(sorted(VALUES)))
    columns = draw(
        st.lists(
            st.tuples(kind, st.booleans(), st.sampled_from(["", "PLAIN", "EXTERNAL"])),
            min_size=1,
            max_size=8,
        )
    )
    steps = st.tuples(
        st.sampled_from(
            [
                "insert",
                "insert",
                "update",
                "cold",
                "delete",
                "abort",
                "subabort",
                "lock",
                "multi",
                "add",
                "drop",
                "vacuum",
                "freeze",
                "cluster",
                "open",
                "checkpoint",
                "select",
            ]
        ),
        st.integers(0, 300),
        st.integers(2, 7),
    )
    return columns, draw(st.lists(steps, min_size=1, max_size=10))


def play(
    connection: psycopg.Connection,
    other: psycopg.Connection,
    columns: list[tuple[str, bool, str]],
    steps: list[tuple[str, int, int]],
    number: int,
) -> None:
    """Bring the table `history` into being. `other` is left in an open transaction that has changed rows if a step says so."""
    t, kinds = "history", list(columns)
    other.execute("ROLLBACK")
    connection.execute(f"DROP TABLE IF EXISTS {t}")
    names = [f"c{k}" for k in range(len(kinds))]
    fill = ["", "WITH (fillfactor = 50)"][number % 2]
    connection.execute(
        f"CREATE {['', 'UNLOGGED'][number % 5 == 0]} TABLE {t} (id int4 NOT NULL, "
        f"{', '.join(f'{n} {k[0]}' for n, k in zip(names, kinds, strict=True))}) {fill}"
    )
    connection.execute(f"CREATE INDEX history_id ON {t} (id)")
    for name, (kind, _, storage) in zip(names, kinds, strict=True):
        if storage and kind.endswith("[]"):
            connection.execute(f"ALTER TABLE {t} ALTER {name} SET STORAGE {storage}")
    there = dict(zip(names, kinds, strict=True))

    def insert(rows: int, into: psycopg.Connection = connection) -> None:
        listed = ", ".join(
            f"CASE WHEN i % 4 = {k % 4} THEN NULL ELSE ({VALUES[kind]})::{kind} END"
            if null
            else f"({VALUES[kind]})::{kind}"
            for k, (kind, null, _) in enumerate(there.values())
        )
        into.execute(
            f"INSERT INTO {t} (id, {', '.join(there)}) SELECT i, {listed} FROM generate_series(1, {rows}) i"
            if there
            else f"INSERT INTO {t} (id) SELECT generate_series(1, {rows})"
        )

    insert(60)
    for what, rows, modulus in steps:
        some = f"id % {modulus} = 1"
        if what == "insert":
            insert(rows)
        elif what in ("update", "cold"):
            connection.execute(
                f"UPDATE {t} SET id = id + {int(what == 'cold') * modulus} WHERE {some}"
            )
        elif what == "delete":
            connection.execute(f"DELETE FROM {t} WHERE {some}")
        elif what in ("abort", "subabort"):
            with connection.transaction(force_rollback=what == "abort"):
                insert(modulus)
                with connection.transaction(force_rollback=what == "subabort"):
                    connection.execute(f"UPDATE {t} SET id = -id WHERE {some}")
        elif what in ("lock", "multi"):
            with connection.transaction(), other.transaction(force_rollback=True):
                connection.execute(f"SELECT FROM {t} WHERE {some} FOR KEY SHARE")
                other.execute(
                    f"SELECT FROM {t} WHERE {some} FOR {'KEY SHARE' if what == 'multi' else 'NO KEY UPDATE'} SKIP LOCKED"
                )
        elif what == "add":
            kind = sorted(VALUES)[rows % len(VALUES)]
            name = f"d{len(there)}_{rows}_{modulus}"
            if name not in there:
                first = connection.execute(
                    f"SELECT quote_literal(({VALUES[kind]})::{kind}::text) FROM (SELECT {rows} AS i) q"
                ).fetchone()
                assert first
                connection.execute(f"ALTER TABLE {t} ADD {name} {kind} DEFAULT {first[0]}")
                there[name] = kind, False, ""
        elif what == "drop" and len(there) > 1:
            connection.execute(f"ALTER TABLE {t} DROP {(name := sorted(there)[rows % len(there)])}")
            del there[name]
        elif what == "cluster":
            connection.execute(f"CLUSTER {t} USING history_id")
        elif what in ("vacuum", "freeze"):
            connection.execute(f"VACUUM ({'FREEZE' if what == 'freeze' else 'TRUNCATE'}) {t}")
        elif what == "checkpoint":
            connection.execute("CHECKPOINT")
        elif what == "select":
            connection.execute(f"SELECT count(*) FROM {t}")
        elif what == "open" and what == steps[-1][0]:  # nothing after it may want a stronger lock
            other.execute("BEGIN")
            insert(modulus, other)
            other.execute(f"DELETE FROM {t} WHERE {some}")
            return


def check_histories(
    postgres: str, connection: psycopg.Connection, examples: int, on_rtl: int
) -> None:
    """`on_rtl`: how many of the histories the RTL Strider walks as well."""
    ways: Counter[str] = Counter()
    with psycopg.connect(postgres, autocommit=True) as other:
        other.execute("SET client_min_messages = error")
        for each in (connection, other):
            each.execute("SET lock_timeout = '5s'")

        @given(histories())
        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        def check(history: Any) -> None:
            play(connection, other, *history, number=ways.total() - ways["rtl"])
            if not connection.execute("SELECT count(*) FROM history").fetchone()[0]:  # type: ignore[index]
                return
            for way in (None, "buffers", "rows"):
                table, expected = read_beside(postgres, "history", way)
                rtl = way is None and ways["rtl"] < on_rtl
                ways["rtl"] += same_rows(table, expected, rtl)
                assert table.provenance is not None
                ways[table.provenance.way] += 1

        check()
        other.execute("ROLLBACK")
    print(f"0 lost, 0 extra, no refusal; {dict(ways)}")
    assert ways["buffers"] and ways["rows"] and ways["rtl"] == on_rtl


def test_histories(postgres: str, connection: psycopg.Connection) -> None:
    check_histories(postgres, connection, 25, 15)


@pytest.mark.long
def test_histories_long(postgres: str, connection: psycopg.Connection) -> None:
    check_histories(postgres, connection, 1000, 300)


@pytest.mark.parametrize("kind", sorted(VALUES))
def test_every_type_may_stand_unused(
    postgres: str, connection: psycopg.Connection, kind: str
) -> None:
    """A column of each type, with and without NULLs, lies between columns that are read from the table's own pages."""
    connection.execute("DROP TABLE IF EXISTS one_type")
    connection.execute(
        f"CREATE TABLE one_type AS SELECT i AS id, CASE WHEN i % 3 > 0 THEN ({VALUES[kind]})::{kind} END AS u, i / 3.0::float8 AS y, "
        f"({VALUES[kind]})::{kind} AS v, i % 2 = 0 AS b FROM generate_series(1, 150) i"
    )
    table, expected = read_beside(postgres, "one_type", "buffers")
    same_rows(table, expected)
