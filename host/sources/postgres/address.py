"""What a user types for a server's table or query."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ..features import NO_FEATURES, Features
from ..table import SourceError

__all__ = ["Address", "parse", "public"]

_FORM = "the form is postgresql://user@host/database?table=NAME, or ?query=SELECT … in place of the table"
_OURS = ("table", "query", "features", "onehot")


@dataclass(frozen=True)
class Address:
    """`server` goes to the server's library; of `table` and `query` one is set.

    `features`: columns that become numbers though they are none.
    """

    server: str
    table: str | None
    query: str | None
    features: Features = NO_FEATURES

    @property
    def name(self) -> str:
        return self.table if self.table is not None else "query"


def parse(uri: str) -> Address:
    """Take `table=`, `query=`, `features=` and `onehot=` out of the URI's query. Raises SourceError."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:  # such as a bracket that is never closed
        raise SourceError(f"this is no address of a server: {error}", _FORM, code="E701") from error
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    tables, queries = (
        [value.strip() for key, value in pairs if key == wanted and value.strip()]
        for wanted in ("table", "query")
    )
    if len(tables) + len(queries) != 1:
        what = "says both a table and a query" if tables and queries else "does not say which table"
        raise SourceError(f"{public(uri)} {what}", _FORM, code="E701")
    rest = "&".join(
        f"{quote(key)}={quote(value, safe='')}" for key, value in pairs if key not in _OURS
    )
    server = f"{parts.scheme}://{parts.netloc}{parts.path}{'?' if rest else ''}{rest}"
    return Address(
        server,
        tables[0] if tables else None,
        queries[0].rstrip("; \n") if queries else None,
        Features.parse(parts.query),
    )


def public(uri: str) -> str:
    """Return the URI without password and query."""
    parts = urlsplit(uri)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{unquote(parts.path)}"
