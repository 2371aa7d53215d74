"""What names in statements mean: ours are taken from pg_catalog alone, the user's from the search path of the user's session.

Whoever may make objects in a schema of that path can give it operators that fit better than the catalog's, such as `<>` of oid and int4
(CVE-2018-1058; PostgreSQL 15 manual, "Schemas", "Usage Patterns"). What our statements call would then run with the reader's rights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# calls of functions by their qualified names, with literals of the declared types: nothing else is looked up
_KEEP = "SELECT pg_catalog.set_config('penstock.search_path', pg_catalog.current_setting('search_path'), false)"
_OURS = "SELECT pg_catalog.set_config('search_path', '', {})"
_THEIRS = "SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('penstock.search_path'), true)"


def settle(connection: Any, *, read_only: bool = False) -> None:
    """Take names from pg_catalog alone from now on, but within `theirs`. `read_only`: no transaction of this session may write."""
    if read_only:
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    connection.execute(_KEEP)
    connection.execute(_OURS.format("false"))


@contextmanager
def theirs(connection: Any) -> Iterator[None]:
    """Within a transaction, take names as the user's session does: for what the user wrote, and for functions that a view calls.

    Where an error ends it, the path is ours again with the transaction's, or the savepoint's, end.
    """
    connection.execute(_THEIRS)
    yield
    connection.execute(_OURS.format("true"))
