"""Learned models back into a server's table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import server_error
from .address import public

__all__ = ["IF_EXISTS", "write_models"]

#: what to do where the table is there
IF_EXISTS = ("fail", "replace", "append")
_COLUMNS = "model text NOT NULL, place integer[] NOT NULL, value double precision NOT NULL"


def write_models(url: str, name: str, models: Mapping[str, Any], if_exists: str = "fail") -> int:
    """Write arrays into a table of a PostgreSQL server, in one transaction; return its number of new rows.

    Each element is a row (model text, place integer[], value double precision): the array's name, its
    place counted from 1 in every dimension ('{}' for a single number), its value as float64, exactly.

    Parameters
    ----------
    url
        `postgresql://user@host/database`, or any other address that the server's library takes.
    name
        The table's name, qualified with a schema or not; quoted as in SQL.
    if_exists
        "fail", "replace" (the rows that are there go in the same transaction: others see the old ones or the new) or "append".

    Raises
    ------
    SourceError
        The driver is missing, the server refuses, the table is there (`fail`) or has other columns.
    """
    if if_exists not in IF_EXISTS:
        raise ValueError(f"if_exists must be one of {', '.join(IF_EXISTS)}, not {if_exists!r}")
    try:
        import psycopg
        from psycopg import sql
    except ImportError as error:
        raise server_error(
            "writing to a PostgreSQL server needs the package psycopg",
            "pip install 'penstock[postgres]'",
        ) from error
    rows = [
        (model, [int(i) + 1 for i in place], float(value))
        for model, values in models.items()
        for place, value in np.ndenumerate(np.asarray(values, np.float64))
    ]
    try:
        # the block is one transaction: it ends with COMMIT, or with ROLLBACK where anything is raised
        with psycopg.connect(url, connect_timeout=10, client_encoding="utf8") as connection:
            parts = connection.execute("SELECT pg_catalog.parse_ident(%s)", (name,)).fetchone()
            assert parts is not None
            table = sql.Identifier(*parts[0])
            there = connection.execute(
                "SELECT pg_catalog.to_regclass(%s) IS NOT NULL", (name,)
            ).fetchone()
            if there == (True,):
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
                    sql.SQL("COPY {} (model, place, value) FROM STDIN (FORMAT binary)").format(
                        table
                    )
                ) as copy,
            ):
                copy.set_types(["text", "int4[]", "float8"])
                for row in rows:
                    copy.write_row(row)
    except psycopg.Error as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise server_error(
            f"{public(url)} refused to take the models into {name}: {lines[0] if lines else error!r}",
            "nothing was written; the table has the columns " + _COLUMNS.replace(" NOT NULL", ""),
        ) from error
    return len(rows)
