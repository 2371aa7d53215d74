"""Tables straight from a running PostgreSQL server: the catalog gives the schema, the buffer manager the pages.

Page images come from `pageinspect.get_raw_page` where that extension is installed, otherwise from the relation's files after a
CHECKPOINT. Both need rights that the server gives to superusers (or, for files, to members of pg_checkpoint and
pg_read_server_files). Nothing in the database is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import numpy as np
import numpy.typing as npt

from ...models.heap.schema import TYPES, Column, Schema
from .table import SourceError, Table

__all__ = ["open_postgres"]

_BATCH = 512            # pages a query

#: how the catalog calls the types that a kernel can use
_NAMES = {kind.oid: name for name, kind in TYPES.items()}
#: types to step over others with, by (attlen, attalign): only storage counts
_STAND_INS = {(1, "c"): "bool", (2, "s"): "int2", (4, "i"): "int4", (8, "d"): "int8", (-1, "i"): "text", (-1, "d"): "float8[]"}

_KINDS = {"v": "a view", "p": "a partitioned table", "f": "a foreign table", "S": "a sequence", "i": "an index",
          "I": "a partitioned index", "c": "a composite type", "t": "a TOAST table"}

_RELATION = """
SELECT c.oid, c.relkind::text, a.amname, n.nspname, c.relname, format('%%I.%%I', n.nspname, c.relname),
       current_setting('block_size')::int, pg_relation_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am a ON a.oid = c.relam
WHERE c.oid = coalesce(to_regclass(%(name)s), to_regclass(%(quoted)s))
"""

_COLUMNS = """
WITH RECURSIVE base AS (
    SELECT a.attnum, a.atttypid AS oid FROM pg_attribute a WHERE a.attrelid = %(oid)s AND a.attnum > 0
  UNION ALL
    SELECT base.attnum, t.typbasetype FROM base JOIN pg_type t ON t.oid = base.oid WHERE t.typtype = 'd')
SELECT a.attname, t.oid, a.attlen, a.attalign::text, a.attnotnull, a.attisdropped,
       CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1] END, format_type(a.atttypid, a.atttypmod)
FROM pg_attribute a
     LEFT JOIN base ON base.attnum = a.attnum AND NOT EXISTS
         (SELECT FROM pg_type d WHERE d.oid = base.oid AND d.typtype = 'd')
     LEFT JOIN pg_type t ON t.oid = base.oid
WHERE a.attrelid = %(oid)s AND a.attnum > 0
ORDER BY a.attnum
"""


def open_postgres(uri: str) -> Table:
    """Open `postgresql://…?table=NAME`. NAME may be qualified and is quoted as in SQL; the rest of the URI goes to the server's
    library.

    Raises SourceError where the driver is missing, the server refuses, the table does not exist or is not a heap, or this user
    may not read pages.
    """
    address, name = _split(uri)
    try:
        import psycopg
    except ImportError as error:
        raise SourceError("reading from a PostgreSQL server needs the package psycopg",
                          "pip install 'penstock[postgres]'", code="E705") from error
    try:
        connection = psycopg.connect(address, connect_timeout=10)
    except psycopg.Error as error:
        raise SourceError(f"cannot connect to {_public(address)}: {_first_line(error)}",
                          "is the server running, and are host, port, user and database right?", code="E705") from error
    with connection, _sql_errors(psycopg.Error, name):
        return _read(connection, name)


def _split(uri: str) -> tuple[str, str]:
    """Take `table=NAME` out of the URI's query."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:                                 # such as a bracket that is never closed
        raise SourceError(f"this is no address of a server: {error}", "the form is postgresql://user@host/database?table=NAME",
                          code="E701") from error
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    tables = [value for key, value in pairs if key == "table"]
    if len(tables) != 1 or not tables[0]:
        raise SourceError(f"{_public(uri)} does not say which table", "the form is postgresql://user@host/database?table=NAME", code="E701")
    query = "&".join(f"{quote(key)}={quote(value, safe='')}" for key, value in pairs if key != "table")
    return f"{parts.scheme}://{parts.netloc}{parts.path}{'?' if query else ''}{query}", tables[0]


def _public(uri: str) -> str:
    """Return the URI without password and query."""
    parts = urlsplit(uri)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{unquote(parts.path)}"


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__


@contextmanager
def _sql_errors(kind: type[Exception], name: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        raise SourceError(f"the server refused a query on {name}: {_first_line(error)}",
                          "try the same address with psql; the server's log says more", code="E705") from error


def _read(connection: Any, name: str) -> Table:
    from psycopg import errors
    quoted = '"' + name.replace('"', '""') + '"'
    try:
        found = connection.execute(_RELATION, {"name": name, "quoted": quoted}).fetchone()
    except errors.InvalidName:                                  # to_regclass does not take it for a name at all
        connection.rollback()
        found = connection.execute(_RELATION, {"name": quoted, "quoted": quoted}).fetchone()
    if found is None:
        raise SourceError(f"the server has no table {name}", "qualify it with its schema, and quote it where it has capitals: "
                                                             'table=myschema."MyTable"', code="E705")
    oid, kind, method, namespace, relation, full, page_size, size = found
    if kind not in "rm":
        raise SourceError(f"{name} is {_KINDS.get(kind, 'no table')}; only a table has heap pages",
                          "name one of its partitions" if kind == "p" else "CREATE TABLE … AS SELECT … makes a table of it", code="E705")
    if method != "heap":
        raise SourceError(f"{name} is stored by the access method {method}, not by heap",
                          "CREATE TABLE … USING heap AS SELECT … makes a heap of it", code="E705")
    columns = tuple(_column(row) for row in connection.execute(_COLUMNS, {"oid": oid}))
    columns = _lengths(connection, namespace, relation, columns)
    if not size:
        raise SourceError(f"the table {name} is empty", "training needs at least one row", code="E705")
    pages = _pages(connection, oid, full, page_size)
    return Table(Schema(relation, columns, page_size), pages, relation)


def _column(row: Any) -> Column:
    name, oid, length, align, not_null, dropped, missing, written = row
    known = None if dropped else _NAMES.get(oid)
    if known is not None:
        return Column(name, known, not_null=not_null, missing=_missing(known, missing))
    stand_in = _STAND_INS.get((length, align))
    if stand_in is None:
        raise SourceError(f"column {name!r} has the type {written}, which is stored in a way that cannot be stepped over",
                          "make a table without it: CREATE TABLE … AS SELECT …", code="E705")
    # a type that no kernel can use: text where that is how it is stored, otherwise a slot without a column in it
    return Column(name, stand_in, not_null=not_null, dropped=dropped or stand_in != "text")


def _missing(kind: str, text: str | None) -> Any:
    if text is None or kind == "text":
        return text
    if kind == "bool":
        return text == "t"
    if kind.endswith("[]"):
        return [float(v) for v in text.strip("{}").split(",") if v]
    return float(text) if kind.startswith("float") else int(text)


def _lengths(connection: Any, namespace: str, relation: str, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Ask the table for the length of its arrays, which the catalog does not know; rows that differ leave it open."""
    from psycopg import sql
    arrays = [c for c in columns if c.is_array and not c.dropped]
    if not arrays:
        return columns
    ends = sql.SQL(", ").join(
        sql.SQL("min(array_length({0}, 1)), max(array_length({0}, 1))").format(sql.Identifier(c.name)) for c in arrays)
    found = connection.execute(sql.SQL("SELECT {} FROM ONLY {}").format(ends, sql.Identifier(namespace, relation))).fetchone()
    ranges = zip(arrays, found[::2], found[1::2], strict=True)
    known = {c.name: int(low) for c, low, high in ranges if low is not None and low == high}
    return tuple(replace(c, length=known.get(c.name)) if c in arrays else c for c in columns)


def _pages(connection: Any, oid: int, full: str, page_size: int) -> npt.NDArray[np.uint8]:
    from psycopg import errors, sql
    extension = connection.execute("SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
                                   "WHERE e.extname = 'pageinspect'").fetchone()
    connection.commit()                                         # CHECKPOINT wants no transaction before it
    refused: Exception | None = None
    if extension is not None:
        try:
            return _raw_pages(connection, sql.Identifier(extension[0], "get_raw_page"), full, oid, page_size)
        except (errors.InsufficientPrivilege, errors.UndefinedFunction) as error:   # before 14 it takes other arguments
            connection.rollback()
            refused = error
    try:
        return _file_pages(connection, oid, page_size)
    except errors.InsufficientPrivilege as error:
        reason = _first_line(refused or error)
        raise SourceError(f"this user may not read pages of {full}: {reason}",
                          "connect as a superuser, or let one run: GRANT pg_checkpoint, pg_read_server_files TO …; GRANT EXECUTE "
                          "ON FUNCTION pg_read_binary_file(text, bigint, bigint) TO …", code="E705") from error


def _raw_pages(connection: Any, function: Any, full: str, oid: int, page_size: int) -> npt.NDArray[np.uint8]:
    from psycopg import sql
    count = connection.execute("SELECT pg_relation_size(%s)", (oid,)).fetchone()[0] // page_size
    pages = np.zeros((count, page_size), np.uint8)
    query = sql.SQL("SELECT block, {}(%s, 'main', block) FROM generate_series(%s::bigint, %s::bigint) AS block").format(function)
    for first in range(0, count, _BATCH):
        rows = connection.execute(query, (full, first, min(first + _BATCH, count) - 1), binary=True)
        for block, image in rows:
            pages[block] = np.frombuffer(image, np.uint8)
    return pages


def _file_pages(connection: Any, oid: int, page_size: int) -> npt.NDArray[np.uint8]:
    connection.autocommit = True
    connection.execute("CHECKPOINT")                            # what the server holds in memory goes to the files
    path, size, segment = connection.execute(
        "SELECT pg_relation_filepath(%s), pg_relation_size(%s), "
        "(SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size')",
        (oid, oid)).fetchone()
    segment *= page_size
    data = np.zeros(size, np.uint8)
    for first in range(0, size, _BATCH * page_size):
        length = min(_BATCH * page_size, size - first)
        file = path if first < segment else f"{path}.{first // segment}"
        place = (file, first % segment, length)
        image = connection.execute("SELECT pg_read_binary_file(%s, %s, %s)", place, binary=True).fetchone()[0]
        data[first:first + length] = np.frombuffer(image, np.uint8)
    return data.reshape(-1, page_size)
