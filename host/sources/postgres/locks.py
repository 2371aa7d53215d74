"""Locks first, the snapshot then: what a transaction reads is the state that its snapshot shows, whatever DDL goes on.

A snapshot older than a lock may show what never was: TRUNCATE, and ALTER TABLE where it writes a table anew, take rows away from
older snapshots too, and columns, partitions and a view's query are those of the moment of the lock. So LOCK TABLE comes before the snapshot
where it can. It cannot for column grants, materialised and foreign tables, and what only functions touch.

What names stand for, and who may see which rows, the server takes from the catalog as it is when it reads a query: functions, operators,
types, schemas, roles and their members, policies, relations that are called alike. A second session compares these catalogs, and the rows
that describe what is locked, as they are at the end with what the snapshot shows; where they differ, all is read again. LOCK TABLE alone
does not tell: what sets a sequence, validates a constraint, adds a child or grants a right waits for no reader. Where functions may be
called, that is every catalog that the reader may read: a function may ask it, or read a table whose lock it gives back. What one
transaction makes and another one undoes meanwhile leaves no trace there. So a quick reading is repeated until no transaction committed
beside it, a few times; where some always do, the catalogs are looked at several times more, and must stay as they are.

A session remembers: plans of functions keep what names stood for, and a backend tells others of its changes a moment after these can be
seen. So each try to read what calls functions has a session of its own, and none begins while a transaction that its snapshot shows holds
locks.

READ ONLY and REPEATABLE READ are no locks: a function may RESET them. Whether they are so still, and nothing was written, is asked last. A function that sets
it again may have advanced a sequence: that leaves no trace in the transaction.

Sources: PostgreSQL 15 manual, "Caveats" of Concurrency Control; `access/heap/README.HOT`, `storage/lmgr/README`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from time import monotonic, sleep
from typing import Any, TypeVar

from ..errors import SourceError, server_error
from .names import settle

LOCK_SECONDS = 30
#: what is altered again and again is read so often at least, and for so many seconds
_TRIES, _TRY_SECONDS = 20, 10
#: a reading that took fewer seconds is repeated so often where a transaction committed beside it; then the catalogs are seen so often more
_QUICK, _QUIET_TRIES, _LOOKS = 0.2, 6, 12
#: seconds for which a server may have no room for another session
_ROOM_SECONDS = 2
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_FIRST_OWN = 16384  # the catalog's relations have smaller OIDs

_HELD = (
    "SELECT DISTINCT relation AS oid FROM pg_catalog.pg_locks "
    f"WHERE locktype = 'relation' AND pid = pg_catalog.pg_backend_pid() AND relation >= {_FIRST_OWN}"
)
#: other sessions' temporary objects, and what belongs to them
_TEMPORARY = """
WITH spaces AS (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname ~ '^pg_(toast_)?temp_'),
relations AS (SELECT oid FROM pg_catalog.pg_class WHERE relpersistence = 't' OR relnamespace IN (TABLE spaces)),
temporary AS MATERIALIZED (
    TABLE spaces UNION ALL TABLE relations
  UNION ALL SELECT oid FROM pg_catalog.pg_type WHERE typnamespace IN (TABLE spaces)
  UNION ALL SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace IN (TABLE spaces)
  UNION ALL SELECT oid FROM pg_catalog.pg_attrdef WHERE adrelid IN (TABLE relations)
  UNION ALL SELECT oid FROM pg_catalog.pg_constraint WHERE conrelid IN (TABLE relations)
  UNION ALL SELECT oid FROM pg_catalog.pg_rewrite WHERE ev_class IN (TABLE relations)
  UNION ALL SELECT oid FROM pg_catalog.pg_trigger WHERE tgrelid IN (TABLE relations))
"""
#: catalogs, and those of their rows, that tell more of a table than what describes it: labels, rights, servers of foreign partitions. Its
#: columns need functions, operators and casts of the catalog's own alone, which stay.
_MEANING = {
    "pg_auth_members": "", "pg_foreign_data_wrapper": "", "pg_foreign_server": "",
    "pg_enum": "WHERE enumtypid NOT IN (TABLE temporary)",
    "pg_namespace": "WHERE oid NOT IN (TABLE temporary)",
}  # fmt: skip
_ROWS = "SELECT pg_catalog.count(*), pg_catalog.sum(pg_catalog.hashtext({}::text)) FROM pg_catalog.{} r {}"
_VERSION = "(r.ctid::text || ' ' || r.xmin::text)"
#: views of catalogs with passwords: what of them other sessions may change for ours
_VIEWS = {
    "pg_roles": "ROW(r.oid, r.rolname, r.rolsuper, r.rolinherit, r.rolcreaterole, r.rolcreatedb, r.rolreplication, r.rolbypassrls)",
    "pg_user_mappings": "r",
}  # fmt: skip
#: what these catalogs say: the versions of their rows
_MEANINGS = _TEMPORARY + " UNION ALL ".join(
    [
        *(_ROWS.format(_VERSION, *each) for each in _MEANING.items()),
        *(_ROWS.format(row, view, "") for view, row in _VIEWS.items()),
    ]
)
#: catalogs, those of their columns that tell what is temporary, and whether the reader may read them; of the one that the server shows in
#: part, without its passwords, the columns. Not what is data, which a snapshot has: notes of ANALYZE, comments, large objects, settings of
#: sessions to come; nor who owns what.
_CATALOGS = """
SELECT c.relname,
    pg_catalog.array_agg(a.attname) FILTER (WHERE a.attname ~ '^oid$|(relid|namespace|objid|typid)$|^ev_class$'),
    CASE WHEN c.relname = 'pg_subscription' THEN pg_catalog.array_agg('r.' || pg_catalog.quote_ident(a.attname)) END,
    pg_catalog.has_table_privilege(c.oid, 'SELECT') OR c.relname = 'pg_subscription' AND pg_catalog.count(a.attname) > 0
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a
    ON a.attrelid = c.oid AND a.attnum > 0 AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND c.relkind = 'r'
    AND c.relname <> ALL ('{pg_statistic,pg_statistic_ext_data,pg_description,pg_shdescription,pg_largeobject,pg_largeobject_metadata,'
                          'pg_db_role_setting,pg_shdepend,pg_authid,pg_user_mapping}')
GROUP BY c.oid ORDER BY 1"""
#: the relations held; what describes them; who else is called like them, and their children
_HELD_NAMES = f"SELECT oid, relname FROM ({_HELD}) held LEFT JOIN pg_catalog.pg_class USING (oid)"
_DESCRIBED = " UNION ALL ".join(
    _ROWS.format(_VERSION, catalog, f"WHERE r.{column} = ANY (%(held)s)")
    for catalog, column in (
        ("pg_class", "oid"), ("pg_attribute", "attrelid"), ("pg_rewrite", "ev_class"), ("pg_policy", "polrelid"),
        ("pg_foreign_table", "ftrelid"), ("pg_constraint", "conrelid"), ("pg_sequence", "seqrelid"), ("pg_inherits", "inhrelid"),
        ("pg_inherits", "inhparent"), ("pg_class", "relname"),
    )
).replace("r.relname = ANY (%(held)s)", "r.relname = ANY (%(names)s)")  # fmt: skip
_SNAPSHOT = "SELECT pg_catalog.pg_export_snapshot(), pg_catalog.txid_current_snapshot()::text"
#: a lock that is not held yet: a session learns then what others have told
_LEARN = "SELECT FROM pg_catalog.pg_largeobject_metadata LIMIT 0"
#: whether a transaction that a snapshot shows still has to tell others of its changes: it does so before it gives its locks back. Its
#: own number is the least of those that it holds. An xid of 32 bits is made one of 64.
_ENDING = """
WITH s AS (SELECT %s::pg_catalog.txid_snapshot AS shown),
numbers AS (
    SELECT pg_catalog.min(high + ((transactionid::text::bigint - high + 2147483648) & 4294967295) - 2147483648) AS own
    FROM pg_catalog.pg_locks, s, pg_catalog.txid_snapshot_xmax(shown) high
    WHERE locktype = 'transactionid' AND granted AND mode = 'ExclusiveLock' GROUP BY virtualtransaction)
SELECT EXISTS (SELECT FROM numbers, s WHERE pg_catalog.txid_visible_in_snapshot(own, shown))"""
#: whether a transaction has committed that a snapshot does not show; true where there are too many to ask
_COMMITTED = """
WITH s AS (SELECT %s::pg_catalog.txid_snapshot AS old, pg_catalog.txid_current_snapshot() AS new),
ends AS (SELECT old, pg_catalog.txid_snapshot_xmin(old) AS low, pg_catalog.txid_snapshot_xmax(new) - 1 AS high FROM s)
SELECT high - low > 10000 OR EXISTS (
    SELECT FROM pg_catalog.generate_series(low, least(high, low + 10000)) x
    WHERE NOT pg_catalog.txid_visible_in_snapshot(x, old) AND pg_catalog.txid_status(x) = 'committed')
FROM ends"""
#: whether the transaction can write by now, or has written; whether it has another snapshot, or may have; whether texts come in another encoding
_DONE = (
    "ended the read-only transaction, or wrote in it",
    "reset the transaction's isolation",
    "changed client_encoding",
)
_WROTE = (
    "SELECT pg_catalog.current_setting('transaction_read_only') <> 'on' OR pg_catalog.txid_current_if_assigned() IS NOT NULL, "
    "pg_catalog.current_setting('transaction_isolation') <> 'repeatable read' OR pg_catalog.txid_current_snapshot()::text <> %s, "
    "pg_catalog.pg_client_encoding() <> 'UTF8'"
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
    """The locks of one session's transaction.

    A context: its sessions and the transaction end with it. What was read is whole by then, and nothing was written: a session that the
    server has ended meanwhile (an idle one, say) takes nothing away.

    `connect` is what opens a session.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect
        self.names: list[str] = []  #: relations to lock before the snapshot, qualified and quoted
        self.calls = False  #: whether what is read may call functions
        #: what the snapshot's state of the catalogs is, once it was asked
        self._meaning: list[Any] | None = None
        self._snapshot, self._exported = "", ""
        self._began, self._disturbed, self._used = 0.0, 0, False
        self.connection = self._settled(connect())

    @staticmethod
    def _settled(session: Any, **how: Any) -> Any:
        try:
            session.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")  # first: calls may wait
            settle(session, **how)
        except BaseException:
            session.close()
            raise
        return session

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self.connection)
        if "_beside" in self.__dict__:
            self._end(self._beside)

    @staticmethod
    def _end(session: Any) -> None:
        from psycopg import Error

        with suppress(Error):
            session.rollback()
        session.close()

    @cached_property
    def _beside(self) -> Any:
        """A second session, which sees what has changed meanwhile."""
        beside = self._settled(self.connect(), read_only=True)
        beside.prepare_threshold = 5  # it asks the same again and again
        beside.execute("SET work_mem = '64MB'")  # other sessions' objects may be many
        if beside.info.server_version >= 140000:  # rows may be on their way for long
            beside.execute("SET idle_session_timeout = 0")
        return beside

    def _again(self) -> Any:
        """A session in place of one that has ended: the server may need a moment to know that it has room."""
        until = monotonic() + _ROOM_SECONDS
        while True:
            try:
                return self.connect()
            except SourceError:
                if monotonic() > until:
                    raise
                sleep(0.01)

    @property
    def _state(self) -> str:
        """The query that tells one state of the catalogs from another."""
        return self._whole_state if self.calls else _MEANINGS

    @cached_property
    def _whole_state(self) -> str:
        rows = []
        for name, marks, columns, readable in self._beside.execute(_CATALOGS).fetchall():
            if not readable:
                what = f"pg_catalog.{name}, which everybody may read unless somebody revoked it"
                raise server_error(
                    f"this role may not read {what}: whether it changes meanwhile cannot be told",
                    f"GRANT SELECT ON pg_catalog.{name} TO {self.connection.info.user}",
                )
            lasting = " AND ".join(f"r.{mark} NOT IN (TABLE temporary)" for mark in marks or ())
            what = f"ROW({', '.join(columns)})" if columns else _VERSION
            rows.append(_ROWS.format(what, name, f"WHERE {lasting}" * bool(lasting)))
        rows += [_ROWS.format(row, view, "") for view, row in _VIEWS.items()]
        return _TEMPORARY + " UNION ALL ".join(rows)

    def reading(self, read: Callable[[], Found]) -> Found:
        """Return what `read` returns, in a READ ONLY transaction, which stays open, whose snapshot shows all that it read as it was.

        Raises SourceError where relations are altered again and again, and what `read` raises.
        """

        def checked() -> Found:
            answer = read()
            self.check()
            self._check_beside()
            return answer

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
                except (SourceError, Error, UnicodeError):  # which a change may have caused
                    if self.connection.info.transaction_status.name in ("INTRANS", "INERROR"):
                        self.check()
                    raise
            except (Altered, errors.DeadlockDetected):
                self.connection.execute("ROLLBACK")
        raise server_error(
            f"other sessions altered or truncated tables each of the {tries} times that they were read",
            "try again when they have ended",
        )

    def begin(self) -> None:
        """Begin a transaction: the locks, then the snapshot. Raises Altered while what the snapshot shows is not known to all sessions."""
        from psycopg import errors

        if self._used and self.calls:
            self._end(self.connection)
            self.connection = self._settled(self._again())
        self._used = True
        for names in (self.names, ()):
            self.connection.execute(_BEGIN)
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
        exported, self._snapshot = self.connection.execute(_SNAPSHOT).fetchone()
        if self._beside.execute(_ENDING, (self._snapshot,)).fetchone()[0]:
            sleep(0.001)
            raise Altered
        self.connection.execute(_LEARN)
        self._exported, self._meaning = exported, None

    def check(self) -> None:
        """Raise Altered where a relation that is locked by now is not as the snapshot shows it, or what names and rights mean is not."""
        if self.connection.info.transaction_status.name == "INERROR":  # it has read nothing
            self._repeated()
            return
        done = self.connection.execute(_WROTE, (self._snapshot,)).fetchone()
        if what := [deed for deed, true in zip(_DONE, done, strict=True) if true]:
            self.connection.execute("ROLLBACK")
            raise server_error(
                f"a function that was called {what[0]}",
                "it was rolled back, but for sequences: leave the function out",
            )
        self.look()
        self._compare()

    def look(self) -> None:
        """Raise Altered where a relation that is locked by now is not as the snapshot shows it."""
        held = self.connection.execute(_HELD_NAMES).fetchall()
        asked = {"held": [oid for oid, _ in held], "names": [name for _, name in held]}
        shown, now = (
            session.execute(_DESCRIBED, asked).fetchall()
            for session in (self.connection, self._beside)
        )
        if shown != now:
            self._note()
            raise Altered

    def _compare(self) -> None:
        """Raise Altered where what names and rights mean is not as the snapshot shows it."""
        now = self._beside.execute(self._state, prepare=True).fetchall()
        if self._meaning is None:
            self._beside.execute(
                f"BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{self._exported}'"
            )
            self._meaning = self._beside.execute(self._state, prepare=True).fetchall()
            self._beside.execute("COMMIT")
        if now != self._meaning:
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
