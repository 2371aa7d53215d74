"""What a user types for a server's table or query."""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from ..errors import SourceError
from ..features import NO_FEATURES, Features, asked, pairs

_FORM = "the form is postgresql://user@host/database?table=NAME, or ?query=SELECT … in place of the table"
_OURS = ("table", "query", "features", "onehot")


@dataclass(frozen=True)
class Address:
    """Where a table is; one of `table` and `query` is set."""

    server: str  #: goes to the server's library
    table: str | None
    query: str | None
    features: Features = NO_FEATURES  #: columns that become numbers though they are none

    @property
    def name(self) -> str:
        return self.table if self.table is not None else "query"


def parse(uri: str) -> Address:
    """Take `table=`, `query=`, `features=` and `onehot=` out of the URI's query. Raises SourceError."""
    head, _, query = uri.partition("?")
    try:
        urlsplit(head), uri.encode()
    except ValueError as error:  # such as a bracket that is never closed, bytes that are no UTF-8
        raise SourceError(f"this is no address of a server: {error}", _FORM, code="E701") from error
    tables, queries = (
        [asked(value).strip() for key, value in pairs(query) if key == wanted and value.strip()]
        for wanted in ("table", "query")
    )
    if len(tables) + len(queries) != 1:
        what = (
            "says both a table and a query"
            if tables and queries
            else f"says {len(tables or queries)} {'tables' if tables else 'queries'}"
            if tables or queries
            else "does not say which table"
        )
        raise SourceError(f"{public(uri)} {what}", _FORM, code="E701")
    # what is not ours is written as the server's library has it, where a plus is a plus
    rest = "&".join(
        f"{quote(key)}={quote(unquote(value), safe='')}"
        for key, value in pairs(query)
        if key not in _OURS
    )
    return Address(
        f"{head}{'?' if rest else ''}{rest}",
        tables[0] if tables else None,
        queries[0].rstrip("; \t\r\n") if queries else None,
        Features.parse(query),
    )


def public(uri: str) -> str:
    """Return the address without password and query."""
    if "://" not in uri:  # keys and values, as the server's library takes them too
        return re.sub(r"(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)", r"\1***", uri)
    scheme, mark, rest = uri.partition("?")[0].partition("://")
    user, at, place = rest.rpartition("@")
    # a password, cut at its ?
    if not at and "@" in uri and re.match(r"[^:/[]*:(?!\d*(/|$))", place):
        return f"{scheme}{mark}{place.partition(':')[0]}:***"
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{unquote(place)}"
