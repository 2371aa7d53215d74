"""Locks first, the snapshot then: what a transaction reads is the state that its snapshot shows, whatever DDL goes on.

A snapshot older than a lock may show what never was: TRUNCATE, and ALTER TABLE where it writes a table anew, take rows away from
older snapshots too, and columns, partitions and a view's query are those of the moment of the lock. So LOCK TABLE comes before the snapshot
where it can. It cannot for column grants, materialised and foreign tables, and what only functions touch.

All that is locked is judged afterwards. Whoever changes a relation's storage or definition replaces its rows of the catalog.
A row that our snapshot still sees has the number of that transaction as its xmax; where it has committed, all is read again. LOCK TABLE
alone does not tell: what sets a sequence, validates a constraint, adds a child or grants a right waits for no reader.

What names stand for, and who may see which rows, the server takes from the catalog as it is when it reads a query: functions, operators,
types, schemas, roles and their members, policies, relations that are called alike. A second session compares these catalogs as they are at
the end with what the snapshot shows; where they differ, all is read again. Where functions are called, that is every catalog that the reader
may read: a function may ask it, or read a table whose lock it gives back. What one transaction makes and another one undoes meanwhile
leaves no trace there. So a quick reading is repeated until no transaction committed beside it, a few times; where some always do, the
catalogs are looked at several times more, and must stay as they are.

READ ONLY is no lock: a function may RESET it. Whether it is so still, and nothing was written, is asked last. A function that sets
it again may have advanced a sequence: that leaves no trace in the transaction.

Sources: PostgreSQL 15 manual, "Caveats" of Concurrency Control; `access/heap/README.HOT`, `storage/lmgr/README`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from time import monotonic, sleep
from typing import Any, TypeVar

from ..errors import SourceError, server_error
from .names import settle

__all__ = ["LOCK_SECONDS", "Altered", "Locks"]

LOCK_SECONDS = 30
#: what is altered again and again is read so often at least, and for so many seconds
_TRIES, _TRY_SECONDS = 20, 10
#: a reading that took fewer seconds is repeated so often where a transaction committed beside it; then the catalogs are seen so often more
_QUICK, _QUIET_TRIES, _LOOKS = 0.2, 6, 12
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_FIRST_OWN = 16384  # the catalog's relations have smaller OIDs

_HELD = (
    "SELECT DISTINCT relation AS oid FROM pg_catalog.pg_locks "
    f"WHERE locktype = 'relation' AND pid = pg_catalog.pg_backend_pid() AND relation >= {_FIRST_OWN}"
)
#: rows of the catalog that the snapshot shows and a transaction has replaced. An xid of 32 bits is made one of 64.
_BY = """
    SELECT {}, s + ((xmax::text::bigint - s + 2147483648) & 4294967295) - 2147483648 AS by
    FROM {}, pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot()) s WHERE xmax <> 0"""
#: the relations held, and whether the snapshot shows them as they are
_JUDGED = f"""
WITH held AS ({_HELD}),
described AS (
    SELECT c.oid, c.xmax FROM pg_catalog.pg_class c JOIN held USING (oid)
  UNION ALL SELECT held.oid, a.xmax FROM pg_catalog.pg_attribute a JOIN held ON a.attrelid = held.oid
  UNION ALL SELECT held.oid, r.xmax FROM pg_catalog.pg_rewrite r JOIN held ON r.ev_class = held.oid
  UNION ALL SELECT held.oid, p.xmax FROM pg_catalog.pg_policy p JOIN held ON p.polrelid = held.oid
  UNION ALL SELECT held.oid, f.xmax FROM pg_catalog.pg_foreign_table f JOIN held ON f.ftrelid = held.oid
  UNION ALL SELECT held.oid, k.xmax FROM pg_catalog.pg_constraint k JOIN held ON k.conrelid = held.oid
  UNION ALL SELECT held.oid, s.xmax FROM pg_catalog.pg_sequence s JOIN held ON s.seqrelid = held.oid
  UNION ALL SELECT held.oid, i.xmax FROM pg_catalog.pg_inherits i JOIN held ON held.oid IN (i.inhrelid, i.inhparent)),
replaced AS ({_BY.format("oid", "described")})
SELECT oid, EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = held.oid)
            AND NOT EXISTS (SELECT FROM replaced r WHERE r.oid = held.oid AND pg_catalog.txid_status(r.by) = 'committed')
FROM held
"""
#: catalogs, and those of their rows, that say what names, values and rights mean
_MEANING = {
    "pg_aggregate": "", "pg_amop": "", "pg_amproc": "", "pg_auth_members": "", "pg_cast": "", "pg_collation": "", "pg_enum": "",
    "pg_foreign_data_wrapper": "", "pg_foreign_server": "", "pg_language": "", "pg_opclass": "", "pg_operator": "", "pg_policy": "",
    "pg_proc": "", "pg_range": "", "pg_ts_config": "", "pg_ts_config_map": "", "pg_ts_dict": "", "pg_ts_parser": "", "pg_ts_template": "",
    "pg_attribute": "JOIN pg_catalog.pg_class c ON c.oid = r.attrelid AND c.relkind = 'c'",  # of composite types
    "pg_constraint": "WHERE contypid <> 0",  # of domains
    "pg_namespace": "WHERE nspname !~ '^pg_(toast_)?temp_'",
    "pg_type": "WHERE typtype <> 'c' AND typcategory <> 'A'",  # each table has two of these
}  # fmt: skip
_ROWS = "SELECT pg_catalog.count(*), pg_catalog.sum(pg_catalog.hashtext({}::text)) FROM pg_catalog.{} r {}"
_VERSION = "ROW(r.ctid, r.xmin)"
#: what these catalogs say: the versions of their rows, and of roles, which are read in a view, what may change who sees a row
_STATE = " UNION ALL ".join(
    [
        *(_ROWS.format(_VERSION, *each) for each in _MEANING.items()),
        _ROWS.format(
            "ROW(r.oid, r.rolname, r.rolsuper, r.rolinherit, r.rolbypassrls)", "pg_roles", ""
        ),
    ]
)
#: the catalogs that the reader may read, and those of their columns that tell what is another session's temporary object; of a catalog
#: that may be read in part, the columns. Not: what ANALYZE notes, and large objects, which a snapshot has.
_CATALOGS = """
SELECT c.relname,
    pg_catalog.array_agg(a.attname) FILTER (WHERE a.attname ~ '^oid$|(relid|namespace|objid)$|^ev_class$'),
    CASE WHEN c.relkind = 'v' OR NOT pg_catalog.has_table_privilege(c.oid, 'SELECT') THEN pg_catalog.array_agg(pg_catalog.format('r.%I', a.attname)) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
    AND (c.relkind = 'r' AND c.relname NOT IN ('pg_statistic', 'pg_statistic_ext_data', 'pg_largeobject')
         OR c.relname IN ('pg_roles', 'pg_user_mappings'))  -- views of catalogs with passwords
GROUP BY c.oid ORDER BY 1"""
_TEMPORARY = """
WITH spaces AS (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname ~ '^pg_(toast_)?temp_'),
temporary AS MATERIALIZED (
    TABLE spaces
  UNION ALL SELECT oid FROM pg_catalog.pg_class WHERE relpersistence = 't'
  UNION ALL SELECT oid FROM pg_catalog.pg_type WHERE typnamespace IN (TABLE spaces))
"""
_SNAPSHOT = "SELECT pg_catalog.txid_current_snapshot()::text"
#: whether a transaction has committed that a snapshot does not show; true where there are too many to ask
_COMMITTED = """
WITH s AS (SELECT %s::pg_catalog.txid_snapshot AS old, pg_catalog.txid_current_snapshot() AS new),
ends AS (SELECT old, pg_catalog.txid_snapshot_xmin(old) AS low, pg_catalog.txid_snapshot_xmax(new) - 1 AS high FROM s)
SELECT high - low > 10000 OR EXISTS (
    SELECT FROM pg_catalog.generate_series(low, least(high, low + 10000)) x
    WHERE NOT pg_catalog.txid_visible_in_snapshot(x, old) AND pg_catalog.txid_status(x) = 'committed')
FROM ends"""
#: the relations held and their names; who else is called like them, and their children
_HELD_NAMES = f"SELECT oid, relname FROM pg_catalog.pg_class JOIN ({_HELD}) held USING (oid)"
_CALLED = """
SELECT oid, relname::text, relnamespace FROM pg_catalog.pg_class WHERE relname = ANY (%s)
UNION ALL SELECT inhrelid, '', inhparent FROM pg_catalog.pg_inherits WHERE inhparent = ANY (%s) ORDER BY 1, 2, 3"""
#: whether the transaction can write by now, or has written
_WROTE = (
    "SELECT pg_catalog.current_setting('transaction_read_only') <> 'on' "
    "OR pg_catalog.txid_current_if_assigned() IS NOT NULL"
)
#: those that LOCK TABLE may take, without children, which their parents bring
_NAMES = f"""
WITH held AS ({_HELD})
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
FROM held JOIN pg_catalog.pg_class c USING (oid) JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN held p ON p.oid = i.inhparent WHERE i.inhrelid = c.oid)
"""

Found = TypeVar("Found")


class Altered(Exception):
    """A relation was changed by DDL between the snapshot and its lock."""


class Locks:
    """The locks of one connection's transaction.

    A context: a second session, which sees what has changed meanwhile, ends with it.

    Parameters: `names`: relations to lock before the snapshot, qualified and quoted. `calls`: what is read may call functions.
    """

    def __init__(self, connection: Any, names: list[str], calls: bool = False) -> None:
        self.connection, self.names, self.calls = connection, names, calls
        #: what the snapshot's state of the catalogs is, once it was asked
        self._meaning: list[Any] | None = None
        self._snapshot, self._began, self._disturbed = "", 0.0, 0
        self._sessions = ExitStack()

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, *_: object) -> None:
        self._sessions.close()

    @cached_property
    def _beside(self) -> Any:
        import psycopg

        own = self.connection.info
        beside = self._sessions.enter_context(
            psycopg.connect(
                own.dsn,
                password=own.password or None,
                connect_timeout=10,
                autocommit=True,
                prepare_threshold=None,
                client_encoding="utf8",
            )
        )
        settle(beside, read_only=True)
        return beside

    @property
    def _state(self) -> str:
        """The query that tells one state of the catalogs from another."""
        return self._whole_state if self.calls else _STATE

    @cached_property
    def _whole_state(self) -> str:
        rows = []
        for name, marks, columns in self._beside.execute(_CATALOGS).fetchall():
            lasting = " AND ".join(f"r.{mark} NOT IN (TABLE temporary)" for mark in marks or ())
            what = f"ROW({', '.join(columns)})" if columns else _VERSION
            rows.append(_ROWS.format(what, name, f"WHERE {lasting}" * bool(lasting)))
        return _TEMPORARY + " UNION ALL ".join(rows)

    def reading(self, read: Callable[[], Found]) -> Found:
        """Return what `read` returns, in a READ ONLY transaction, which stays open, whose snapshot shows all that it read as it was.

        Raises SourceError where relations are altered again and again, and what `read` raises.
        """

        def checked() -> Found:
            found = read()
            self.check()
            self._check_beside()
            return found

        return self._tried(checked)

    def learn(self, touch: Callable[[], Any]) -> None:
        """Note the relations that `touch` locks, to lock them before the snapshot."""

        def touched() -> None:
            touch()
            self._note()
            self.connection.execute("ROLLBACK")

        self._tried(touched)

    def _tried(self, action: Callable[[], Found]) -> Found:
        from psycopg import Error, errors

        began, tries = monotonic(), 0
        while tries < _TRIES or monotonic() < began + _TRY_SECONDS:
            tries += 1
            try:
                self.begin()
                try:
                    return action()
                except (errors.DeadlockDetected, errors.LockNotAvailable):
                    raise
                except (SourceError, Error):  # which a change may have caused
                    if not self.connection.closed:
                        self.check()
                    raise
            except (Altered, errors.DeadlockDetected):
                self.connection.execute("ROLLBACK")
        raise server_error(
            f"other sessions altered or truncated tables each of the {tries} times that they were read",
            "try again when they have ended",
        )

    def begin(self) -> None:
        """Begin a transaction: the locks, then the snapshot."""
        from psycopg import errors

        for names in (self.names, ()):
            self.connection.execute(f"{_BEGIN}; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            try:
                if names:
                    listed = ", ".join(names)
                    self.connection.execute(f"LOCK TABLE {listed} IN ACCESS SHARE MODE")
                break
            except (
                errors.WrongObjectType,  # a kind of relation that LOCK does not take
                errors.InsufficientPrivilege,  # a right to some columns only
                errors.UndefinedTable,
                errors.InvalidSchemaName,
            ):
                self.connection.execute("ROLLBACK")
        self._began = monotonic()
        self._snapshot = self.connection.execute(_SNAPSHOT).fetchone()[0]
        self._meaning = None

    def check(self) -> None:
        """Raise Altered where a relation that is locked by now is not as the snapshot shows it, or what names and rights mean is not."""
        if self.connection.info.transaction_status.name == "INERROR":  # it has read nothing
            self._repeated()
            return
        self._compare()
        if self.connection.execute(_WROTE).fetchone()[0]:
            self.connection.execute("ROLLBACK")
            raise server_error(
                "a function that was called ended the read-only transaction, or wrote in it",
                "it was rolled back, but for sequences: leave the function out",
            )
        judged = self.connection.execute(_JUDGED).fetchall()
        held = self.connection.execute(_HELD_NAMES).fetchall()
        asked = [name for _, name in held], [oid for oid, _ in held]
        called, called_now = (
            session.execute(_CALLED, asked).fetchall()
            for session in (self.connection, self._beside)
        )
        if called != called_now or not all(same for _, same in judged):
            self._note()
            raise Altered

    def _compare(self) -> None:
        """Raise Altered where what names and rights mean is not as the snapshot shows it."""
        if self._meaning is None:
            self._meaning = self.connection.execute(self._state).fetchall()
        if self._beside.execute(self._state).fetchall() != self._meaning:
            raise Altered

    def _repeated(self) -> bool:
        """Return whether a transaction committed during the reading. Raises Altered where the reading was quick, a few times."""
        if not self._beside.execute(_COMMITTED, (self._snapshot,)).fetchone()[0]:
            return False
        if monotonic() - self._began < _QUICK and self._disturbed < _QUIET_TRIES:
            self._disturbed += 1
            raise Altered
        return True

    def _check_beside(self) -> None:
        """Raise Altered where what names and rights mean may have changed and changed back during the reading."""
        if self._repeated():
            for look in range(_LOOKS):
                sleep(0.001 * look)
                self._compare()

    def _note(self) -> None:
        self.names = [name for (name,) in self.connection.execute(_NAMES)]
