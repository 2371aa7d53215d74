"""Locks first, the snapshot then: what a transaction reads is the state that its snapshot shows, whatever DDL goes on.

A snapshot older than a lock may show what never was: TRUNCATE, and ALTER TABLE where it writes a table anew, take rows away from
older snapshots too, and columns, partitions and a view's query are those of the moment of the lock. So LOCK TABLE comes before the snapshot
where it can. It cannot for column grants, materialised and foreign tables, and what only functions touch.

Those are judged afterwards, under their locks. Whoever changes a relation's storage or definition replaces its rows of the catalog.
A row that our snapshot still sees has the number of that transaction as its xmax; where it has committed, all is read again. One that
commits later changes nothing that the lock does not protect, but for a partition that is attached: it is a relation newly locked.

What names stand for is judged in the same way: functions, labels, schemas, and relations that are called alike.

READ ONLY is no lock: a function may RESET it. Whether it is so still, and nothing was written, is asked last. A function that sets
it again may have advanced a sequence: that leaves no trace in the transaction.

Sources: PostgreSQL 15 manual, "Caveats" of Concurrency Control; `access/heap/README.HOT`, `storage/lmgr/README`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import SourceError, server_error

__all__ = ["LOCK_SECONDS", "Altered", "Locks"]

LOCK_SECONDS = 30
_TRIES = 20
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
#: the relations held that are not proven yet, and whether the snapshot shows them as they are
_JUDGED = f"""
WITH held AS (SELECT oid FROM ({_HELD}) l WHERE oid <> ALL (%s)),
described AS (
    SELECT c.oid, c.xmax FROM pg_catalog.pg_class c JOIN held USING (oid)
  UNION ALL SELECT held.oid, a.xmax FROM pg_catalog.pg_attribute a JOIN held ON a.attrelid = held.oid
  UNION ALL SELECT held.oid, r.xmax FROM pg_catalog.pg_rewrite r JOIN held ON r.ev_class = held.oid
  UNION ALL SELECT held.oid, p.xmax FROM pg_catalog.pg_policy p JOIN held ON p.polrelid = held.oid
  UNION ALL SELECT held.oid, f.xmax FROM pg_catalog.pg_foreign_table f JOIN held ON f.ftrelid = held.oid
  UNION ALL SELECT held.oid, i.xmax FROM pg_catalog.pg_inherits i JOIN held ON held.oid IN (i.inhrelid, i.inhparent)),
replaced AS ({_BY.format("oid", "described")})
SELECT oid, EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = held.oid)
            AND NOT EXISTS (SELECT FROM replaced r WHERE r.oid = held.oid AND pg_catalog.txid_status(r.by) = 'committed')
FROM held
"""
#: whether what names stand for is as the snapshot has it: functions, operators, casts and labels of users, schemas, and relations
#: that are called as one that is held. The server takes these as they are when it reads a query.
_MEANT = f"""
WITH held AS ({_HELD}),
described AS (
    SELECT xmax FROM pg_catalog.pg_proc WHERE oid >= {_FIRST_OWN}
  UNION ALL SELECT xmax FROM pg_catalog.pg_operator WHERE oid >= {_FIRST_OWN}
  UNION ALL SELECT xmax FROM pg_catalog.pg_cast WHERE oid >= {_FIRST_OWN}
  UNION ALL SELECT xmax FROM pg_catalog.pg_enum
  UNION ALL SELECT xmax FROM pg_catalog.pg_namespace
  UNION ALL SELECT c.xmax FROM pg_catalog.pg_class c
            WHERE c.relname IN (SELECT relname FROM pg_catalog.pg_class JOIN held USING (oid))),
replaced AS ({_BY.format("0", "described")})
SELECT NOT EXISTS (SELECT FROM replaced WHERE pg_catalog.txid_status(by) = 'committed')
"""
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

    Parameters: `names`: relations to lock before the snapshot, qualified and quoted.
    """

    def __init__(self, connection: Any, names: list[str]) -> None:
        self.connection, self.names = connection, names
        self._proven: list[int] = []

    def reading(self, read: Callable[[], Found]) -> Found:
        """Return what `read` returns, in a READ ONLY transaction, which stays open, whose snapshot shows all that it read as it was.

        Raises SourceError where relations are altered again and again, and what `read` raises.
        """

        def checked() -> Found:
            try:
                found = read()
            except SourceError:  # which a changed table may have caused
                self.check()
                raise
            self.check()
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
        from psycopg.errors import DeadlockDetected

        for _ in range(_TRIES):
            try:
                self.begin()
                return action()
            except (Altered, DeadlockDetected):
                self.connection.execute("ROLLBACK")
        raise server_error(
            f"other sessions altered or truncated tables each of the {_TRIES} times that they were read",
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
        self._proven = [oid for (oid,) in self.connection.execute(_HELD)] if names else []

    def check(self) -> None:
        """Raise Altered where a relation that is locked by now is not as the snapshot shows it. A failed transaction has read nothing."""
        if self.connection.info.transaction_status.name == "INERROR":
            return
        if self.connection.execute(_WROTE).fetchone()[0]:
            self.connection.execute("ROLLBACK")
            raise server_error(
                "a function of the query ended the read-only transaction, or wrote in it",
                "it was rolled back, but for sequences: leave the function out",
            )
        judged = self.connection.execute(_JUDGED, (self._proven,)).fetchall()
        (same,) = self.connection.execute(_MEANT).fetchone()
        if not (same and all(same for _, same in judged)):
            self._note()
            raise Altered
        self._proven += [oid for oid, _ in judged]

    def _note(self) -> None:
        self.names = [name for (name,) in self.connection.execute(_NAMES)]
