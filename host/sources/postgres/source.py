"""One run's reading of a server: connection, lock, snapshot, the choice of the way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ....models.heap.schema import Schema
from ..errors import server_error, table_error
from ..features import NO_FEATURES, Features
from ..provenance import UNREADABLE, Provenance
from ..table import Table
from . import locks
from .address import Address, parse, public
from .casts import CATEGORIES, Feature, as_stored, asked
from .catalog import Attribute, Relation, attributes, described, find, relation, schema_columns
from .direct import NotDirect, read_pages
from .locks import Altered, Locks
from .names import theirs
from .selected_rows import read_rows

#: characters of a server's message that are shown, and of the parts of a longer one
_LONGEST, _BEGIN_OF_LINE, _END_OF_LINE = 300, 120, 120


def open_postgres(
    uri: str, *, pages: bool | None = None, features: Features = NO_FEATURES
) -> Table:
    """Open `postgresql://…?table=NAME` or `?query=SELECT …`, as one snapshot sees it.

    NAME may be qualified and is quoted as in SQL; `features=` and `onehot=` name columns (separated by commas) of dates, times, enums
    and texts that are to become numbers; the rest of the URI goes to the server's library.

    * `pages`: True: the table's own pages or an error, casts left out. False: rows as SELECT sends them.
      None: pages where they serve.
    * `features`: columns that are to become numbers, beside those of the address. `features.like`, the schema
      of a design that is to run on the table: rows that the server sends are packed as it says, if its
      columns are there.

    Returns Table: every tuple that SELECT sees under the snapshot, once; `provenance` says how it was read.

    Raises SourceError: the driver is missing, the server refuses, there is no such table, it has no rows or
    no column that can be a number, its pages cannot be read where they are insisted on, a lock is not given
    within 30 s.
    """
    address = parse(uri)
    try:
        import psycopg
    except ImportError as error:
        raise server_error(
            "reading from a PostgreSQL server needs the package psycopg",
            "pip install 'penstock[postgres]'",
        ) from error

    def connect() -> Any:
        try:
            return psycopg.connect(
                address.server,
                connect_timeout=10,
                autocommit=True,
                prepare_threshold=None,
                client_encoding="utf8",
            )
        except psycopg.Error as error:
            raise server_error(
                f"cannot connect to {public(address.server)}: {_first_line(error)}",
                "in a password, @ / ? # are written %40 %2F %3F %23"
                if uri.partition("?")[0].count("@") > 1
                else "is the server running, and are host, port, user and database right?",
            ) from error

    with _sql_errors(psycopg.Error, address.name), Locks(connect) as held:
        return _Reading(held, address, pages, features).table()


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    line = lines[0].strip()
    # the server may quote a number of thousands of digits
    return line if len(line) <= _LONGEST else f"{line[:_BEGIN_OF_LINE]} … {line[-_END_OF_LINE:]}"


@contextmanager
def _sql_errors(kind: type[Exception], name: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        if getattr(error, "sqlstate", None) == "55P03":
            raise server_error(
                f"the server did not give a lock on {name} within {locks.LOCK_SECONDS} s",
                "someone holds it ACCESS EXCLUSIVE (ALTER TABLE, VACUUM FULL, …): try again later",
            ) from error
        raise server_error(
            f"the server refused a query on {name}: {_first_line(error)}",
            "try the same address with psql; the server's log says more",
        ) from error


@contextmanager
def _cast_errors(name: str, cast: Sequence[str]) -> Iterator[None]:
    """Say which columns are cast where the server meets a number, or a date, that is out of range."""
    from psycopg import errors

    try:
        yield
    except (errors.NumericValueOutOfRange, errors.DatetimeFieldOverflow) as error:
        if not cast:
            raise
        columns = f"column {cast[0]!r} is" if len(cast) == 1 else f"columns {', '.join(cast)} are"
        raise server_error(
            f"the server refused a query on {name}: {_first_line(error)}",
            f"{columns} cast to numbers, which hold neither infinite dates nor magnitudes beyond float8's: "
            "leave such values out, or the column: ?query=SELECT …",
        ) from error


def _stored_alike(one: Schema, other: Schema) -> bool:
    """Whether pages of one table are read as those of the other, the defaults of rows older than a column included."""
    shapes = [
        (s.page_size, [(c.type, c.dropped, c.missing if c.is_usable else None) for c in s.columns])
        for s in (one, other)
    ]
    return shapes[0] == shapes[1]


class _Reading:
    def __init__(
        self, held: Locks, address: Address, pages: bool | None, features: Features
    ) -> None:
        self.held, self.address, self.pages = held, address, pages
        self.features = replace(
            features,
            named=(*features.named, *address.features.named),
            one_hot=(*features.one_hot, *address.features.one_hot),
        )
        self.like = features.like
        self.full: str | None = None  # what the table's name meant when the locks were chosen

    def table(self) -> Table:
        query = self.address.query
        if query is not None and self.pages:
            raise server_error(
                "a query has no pages of its own", "without --pages the rows come by SELECT"
            )
        held = self.held
        if query is None:
            return held.reading(lambda: self._named(self.address.name, held))
        held.calls = True
        held.learn(lambda: self._describe(query))
        return held.reading(lambda: self._query(query, held))

    @property
    def connection(self) -> Any:
        """The session of this try."""
        return self.held.connection

    def _named(self, name: str, held: Locks) -> Table:
        from psycopg import sql

        full = find(self.connection, name)
        if full is None:
            raise server_error(
                f"the server has no table {name}",
                "qualify it with its schema, and quote it where it has capitals: "
                'table=myschema."MyTable"',
            )
        if full != self.full:  # what the name means is known only under its lock and our snapshot
            self.full, held.names = full, [full]
            raise Altered
        row = relation(self.connection, full)
        if not held.calls and (row.kind in "vf" or row.row_security):
            held.calls = True
            raise Altered
        if row.kind not in "rmvpf":
            raise server_error(
                f"{name} is {row.what}; it has no rows to learn from", "name a table or a view"
            )
        origin = sql.Identifier(row.namespace, row.name)
        # takes the locks that are missing; the server's own words say what is not allowed
        with theirs(self.connection):
            self.connection.execute(sql.SQL("EXPLAIN SELECT FROM {}").format(origin))
        held.look()
        columns = [as_stored(a, self.features) for a in attributes(self.connection, row.oid)]
        obstacle = self._obstacle(row, columns)
        if obstacle is None:
            try:
                return self._pages(row, columns)
            except NotDirect as error:
                obstacle = str(error)
        if self.pages:
            raise server_error(
                f"{name} cannot be read page by page: {obstacle}",
                "without --pages the rows come by SELECT",
            )
        return self._rows(row.name, origin, columns, obstacle, row.snapshot, row.page_size)

    # -- the direct way ----------------------------------------------------------------------------------------------------

    def _obstacle(self, relation: Relation, columns: Sequence[Attribute]) -> str | None:
        """Return why the table's pages alone do not say what SELECT says; None where they may."""
        if relation.kind not in "rm":
            return f"{relation.what} has no pages of its own"
        if relation.method != "heap":
            return f"the access method {relation.method} is not heap"
        if relation.has_children:
            return "its children's rows belong to it"
        if relation.row_security:
            return "row-level security applies"
        if relation.persistence == "t":
            return "it is a temporary table"
        if virtual := [a.name for a in columns if a.virtual and not a.dropped]:
            return f"its generated column {virtual[0]!r} is virtual: pages hold NULL in its place"
        if self.pages:
            return None
        if self.pages is False:
            return "rows were asked for"
        if unreadable := [a.name for a in columns if not a.dropped and not a.readable]:
            return f"this user may not read its column {unreadable[0]!r}"
        chosen = self._features(columns)
        used = self.features.uses({a.name: a.type or "" for a, _ in chosen})
        if cast := [
            a for a, todo in chosen if a.name in used and (todo.how or todo.becomes == CATEGORIES)
        ]:
            return f"the server casts its column {cast[0].name!r}, {cast[0].written}"
        if self.like is not None and not _stored_alike(self._schema(relation, columns), self.like):
            return "the design has these columns in another layout"
        return None

    def _schema(self, relation: Relation, columns: Sequence[Attribute]) -> Schema:
        utf8 = self.connection.info.parameter_status("server_encoding") == "UTF8"
        return Schema(relation.name, schema_columns(columns, utf8), relation.page_size)

    def _pages(self, relation: Relation, columns: Sequence[Attribute]) -> Table:
        schema = self._schema(relation, columns)
        read = read_pages(self.connection, relation, schema, bool(self.pages))
        reason = (
            "pages were insisted on"
            if self.pages
            else "its pages can be read, and its columns need no cast"
        )
        facts = Provenance(
            read.way, reason, relation.snapshot, len(read.pages), read.untouched, read.rebuilt
        )
        table = Table(read.schema, read.pages, relation.name, facts)
        if not len(read.pages) or not table.rows:
            raise server_error(
                f"the table {relation.name} is empty", "training needs at least one row"
            )
        return table

    # -- the rows way ------------------------------------------------------------------------------------------------------

    def _describe(self, query: str) -> Any:
        """Let the server take the query, as one statement that is a SELECT, and lock what it names; return what it says of the result.

        Whatever is sent behind a FROM afterwards is this text, in parentheses: it opens and closes as many of its own.
        """
        from psycopg import sql

        # the protocol of binary results takes one statement only; a comment may end the query
        declared = sql.SQL("DECLARE q NO SCROLL CURSOR FOR {}\n").format(sql.SQL(query))
        with theirs(self.connection):
            self.connection.execute(declared, binary=True)
            description = self.connection.execute("FETCH 0 FROM q").description
        self.connection.execute("CLOSE q")
        return description

    def _query(self, query: str, held: Locks) -> Table:
        from psycopg import sql

        now = "SELECT pg_catalog.txid_current_snapshot()::text"
        snapshot = self.connection.execute(now).fetchone()[0]
        description = self._describe(query)
        held.look()
        names = [column.name for column in description]
        if twice := [name for name in names if names.count(name) > 1]:
            raise table_error(
                f"the query gives two columns called {twice[0]!r}", "name one of them with AS"
            )
        columns = [as_stored(a, self.features) for a in described(self.connection, description)]
        reason, origin = "a query has no pages of its own", sql.SQL("({}\n)").format(sql.SQL(query))
        return self._rows("query", origin, columns, reason, snapshot, 8192)

    def _features(self, columns: Sequence[Attribute]) -> list[tuple[Attribute, Feature]]:
        """Return the columns that become numbers here. Raises SourceError for one that was asked for and cannot, or is not there."""
        attributes = [a for a in columns if not a.dropped and a.readable]
        hidden = [a.name for a in columns if not a.dropped and not a.readable]
        if kept := [name for name in hidden if name in self.features.columns]:
            raise table_error(
                f"column {kept[0]!r} of {self.address.name} is {UNREADABLE}",
                "GRANT SELECT on it, or use other columns",
            )
        self.features.check(self.address.name, (a.name for a in attributes))
        pairs = [(a, asked(a, self.features)) for a in attributes]
        return [(a, todo) for a, todo in pairs if todo is not None]

    def _rows(
        self,
        name: str,
        origin: Any,
        columns: Sequence[Attribute],
        reason: str,
        snapshot: str,
        page_size: int,
    ) -> Table:
        chosen = self._features(columns)
        taken = {a.name for a, _ in chosen}
        left = [a for a in columns if not a.dropped and a.name not in taken]
        if not chosen:
            raise table_error(
                f"{name} has no column that is a number",
                "name columns to convert: &features=COLUMN,…",
            )
        with _cast_errors(name, [a.name for a, todo in chosen if todo.how]):
            schema, pages, casts = read_rows(self, name, origin, chosen, left, page_size)
        left_out = tuple((a.name, a.written if a.readable else UNREADABLE) for a in left)
        facts = Provenance("rows", reason, snapshot, len(pages), casts=casts, left_out=left_out)
        return Table(schema, pages, name, facts)
