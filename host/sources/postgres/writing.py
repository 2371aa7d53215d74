"""Learned models back into a server's table."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import SourceError, server_error
from ..features import pairs
from .address import parse, public
from .catalog import find
from .names import settle, theirs

#: what to do where the table is there
IF_EXISTS = ("fail", "replace", "append")
_COLUMNS = (
    "model text NOT NULL, place integer[] NOT NULL, name text, value double precision NOT NULL"
)


def write_models(
    url: str,
    name: str,
    models: Mapping[str, Any],
    if_exists: str = "fail",
    *,
    names: Mapping[str, Any] | None = None,
    view: str | None = None,
    select: Callable[[str], str] | None = None,
) -> int:
    """Write arrays into a table of a PostgreSQL server, in one transaction; return its number of new rows.

    Each element is a row (model text, place integer[], name text, value double precision): the array's name, its
    place counted from 1 in every dimension ('{}' for a single number), the column that it belongs to or NULL, its value as float64, exactly.

    * `url`: `postgresql://user@host/database`, or any other address that the server's library takes;
      `?table=NAME`, as sources have it, names the table of the view.
    * `name`: the table's name, qualified with a schema or not; quoted as in SQL.
    * `if_exists`: "fail", "replace" (the rows that are there go in the same transaction: others see the old
      ones or the new; so does a view) or "append".
    * `names`: by array, the names of its elements, None where one has none.
    * `view`, `select`: a view to make in the same transaction, and what returns its SELECT for a table's name
      as SQL has it.

    Raises SourceError: the driver is missing, the server refuses, the table is there (`fail`) or has other columns.
    """
    if if_exists not in IF_EXISTS:
        raise ValueError(f"if_exists must be one of {', '.join(IF_EXISTS)}, not {if_exists!r}")
    try:
        import psycopg
    except ImportError as error:
        raise server_error(
            "writing to a PostgreSQL server needs the package psycopg",
            "pip install 'penstock[postgres]'",
        ) from error
    rows = _rows(models, names or {})
    url, scored = _server(url, view)
    try:
        # the block is one transaction: it ends with COMMIT, or with ROLLBACK where anything is raised
        with psycopg.connect(url, connect_timeout=10, client_encoding="utf8") as connection:
            settle(connection)
            if view is not None and select is not None:
                _make_view(connection, view, select, scored, if_exists)
            _fill(connection, name, rows, if_exists)
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise server_error(
            f"{public(url)} refused to take the models into {name}: {_said(error)}",
            "nothing was written; the table has the columns " + _COLUMNS.replace(" NOT NULL", ""),
        ) from error
    return len(rows)


def _said(error: Exception) -> str:
    """Return the first line of what a server says."""
    return next((line for line in str(error).splitlines() if line.strip()), repr(error))


def _fill(connection: Any, name: str, rows: list[tuple[Any, ...]], if_exists: str) -> None:
    """Write rows into the table of this name; make it where it is not there."""
    from psycopg import sql

    full_name = find(connection, name)
    table = _place(connection, name) if full_name is None else sql.SQL(full_name)
    if full_name is not None:
        if if_exists == "fail":
            raise server_error(
                f"the server has a table {name} already",
                'if_exists="replace" or "append" writes into it',
            )
        if if_exists == "replace":
            connection.execute(sql.SQL("DELETE FROM {}").format(table))
    else:
        connection.execute(sql.SQL(f"CREATE TABLE {{}} ({_COLUMNS})").format(table))
    with (
        connection.cursor() as cursor,
        cursor.copy(
            sql.SQL("COPY {} (model, place, name, value) FROM STDIN (FORMAT binary)").format(table)
        ) as copy,
    ):
        copy.set_types(["text", "int4[]", "text", "float8"])
        for row in rows:
            copy.write_row(row)


def _place(connection: Any, name: str) -> Any:
    """Return where a relation of this name is to be, as SQL has it: in the user's current schema, unless it names one."""
    from psycopg import sql

    with theirs(connection):
        asked = "SELECT pg_catalog.current_schema(), pg_catalog.parse_ident(%s)"
        schema, parts = connection.execute(asked, (name,)).fetchone()
    return sql.Identifier(*([schema] if schema and len(parts) == 1 else []), *parts)


def _rows(models: Mapping[str, Any], names: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    rows = []
    for model, values in models.items():
        array = np.asarray(values, np.float64)
        called = np.asarray(names.get(model, np.full(array.shape, None)), object)
        for place, value in np.ndenumerate(array):
            rows.append((model, [int(i) + 1 for i in place], called[place], float(value)))
    return rows


def _server(url: str, view: str | None) -> tuple[str, str]:
    """Return the server's own address, and the table that a view is of. Raises SourceError (E701)."""
    if "://" in url and asked_of(url):
        address = parse(url)
        if address.table is not None:
            return address.server, address.table
    if view is not None:
        hint = "write postgresql://user@host/database?table=NAME"
        raise SourceError(
            f"{public(url)} does not say which table the view scores", hint, code="E701"
        )
    return url, ""


def asked_of(url: str) -> bool:
    """Return whether an address names a table or a query, as sources do."""
    return any(key in ("table", "query") for key, _ in pairs(url.partition("?")[2]))


def _make_view(
    connection: Any, view: str, select: Callable[[str], str], scored: str, if_exists: str
) -> None:
    """Make a view on a table, which is found as sources find it."""
    from psycopg import Error, sql

    full_name = find(connection, scored)
    if full_name is None:
        raise server_error(f"the server has no table {scored}", "the view scores its rows")
    hint = 'give another name as view=, or none; if_exists="replace" makes a view anew'
    if if_exists != "replace" and find(connection, view) is not None:
        raise server_error(f"the server has a table or view {view} already", hint)
    try:
        place = _place(connection, view)
        if if_exists == "replace":
            connection.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(place))
        statement = sql.SQL("CREATE VIEW {} AS ").format(place)
        connection.execute(statement + sql.SQL(select(full_name)))
    except Error as error:
        what = f"the server refused to make the view {view}: {_said(error)}"
        raise server_error(what, hint) from error
