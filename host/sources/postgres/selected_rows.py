"""The rows way: the server sends what a SELECT gives, and the rows are packed into pages here."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....models.heap.page import PAGE_SIZES
from ....models.heap.schema import Column, Schema
from ..errors import server_error, table_error
from ..features import Features, Numbered, number_categories
from ..provenance import Cast
from ..table import NO_FIT, in_pages
from .casts import CATEGORIES, WHOLE, Feature
from .catalog import Attribute
from .copying import array_lengths, columns_of, one_length
from .names import theirs


def read_rows(
    source: Any,
    name: str,
    origin: Any,
    columns: Sequence[tuple[Attribute, Feature]],
    left_out: Sequence[Attribute],
    page_size: int,
) -> tuple[Schema, Any, tuple[Cast, ...]]:
    """Read `origin`, SQL that can stand behind FROM, by a `PostgresSource`; return the schema, the pages and the casts.

    The columns come in their order, behind them `left_out`, as dropped columns that the rows do not reach. Where every column of `features.like`
    that a kernel could use is among them with its type, the pages have that schema instead.

    Raises SourceError for no rows, rows that fit no page, too many categories.
    """
    connection, features = source.connection, source.features
    values, nulls = _fetch(connection, name, origin, columns)
    fields, casts, like = [], [], features.like
    for a, todo in columns:
        becomes, how = todo.becomes, todo.how
        labels: tuple[str, ...] | None = None
        if becomes == CATEGORIES:
            categories = _number(connection, a, values[a.name], features)
            becomes, how = categories.type, categories.how
            labels, values[a.name] = categories.labels, categories.values
        if how:
            casts.append(Cast(a.name, a.written, becomes, how, labels or ()))
        length = None
        if becomes.endswith("[]"):
            length = one_length(array_lengths(values[a.name])) if labels is None else len(labels)
        fields.append(Column(a.name, becomes, not_null=a.not_null, length=length, labels=labels))
    behind = (Column(a.name, a.type or "text", dropped=True) for a in left_out)
    size = page_size if like is not None else max(page_size, 8192)
    schema = Schema(name, (*fields, *behind), size)
    natts = len(fields)
    used = lambda c: c.is_numeric or c.name in features.indices
    if like is not None and _fits([c for c in like.columns if used(c)], fields):
        known = {c.name: c for c in fields}
        values = {c.name: values[c.name] for c in like.columns if used(c)}
        nulls = {n: nulls[n] for n in values}
        columns_there = tuple(
            c if not used(c) or c.length is not None else replace(known[c.name], missing=c.missing)
            for c in like.columns
        )
        schema = Schema(name, columns_there, like.page_size)
        natts = max(i for i, c in enumerate(like.columns) if used(c)) + 1
    most = PAGE_SIZES[-1] if like is None else schema.page_size
    try:
        return *in_pages(schema, values, most, nulls=nulls, natts=natts), tuple(casts)
    except ValueError as error:
        if NO_FIT not in str(error):
            raise
        raise table_error(
            f"{name}: {error}", "select fewer columns, or shorter types, with ?query=SELECT …"
        ) from error


def _fits(used: Sequence[Column], fields: Sequence[Column]) -> bool:
    wanted = {(c.name, c.type) for c in used}
    return bool(wanted) and wanted <= {(c.name, c.type) for c in fields}


def _fetch(
    connection: Any, name: str, origin: Any, columns: Sequence[tuple[Attribute, Feature]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    from psycopg import sql

    listed = sql.SQL(", ").join(
        sql.SQL(todo.expression).format(sql.Identifier("q", a.name)) for a, todo in columns
    )
    query = sql.SQL("SELECT {} FROM {} AS q").format(listed, origin)
    with theirs(connection):
        becomes = {a.name: todo.becomes for a, todo in columns}
        values, nulls = columns_of(connection, [query], becomes)
    if not values:
        raise server_error(f"{name} is empty", "training needs at least one row")
    return values, nulls


def _number(
    connection: Any, a: Attribute, cells: Sequence[str | None], features: Features
) -> Numbered:
    """Number a column's texts, an enum's in its own order, whole numbers in theirs."""
    own_order = None
    if a.type in WHOLE:
        own_order = sorted({cell for cell in cells if cell is not None}, key=int), "in their order"
    if a.kind == "e":
        rows = connection.execute(
            "SELECT enumlabel FROM pg_catalog.pg_enum WHERE enumtypid = %s ORDER BY enumsortorder",
            (a.oid,),
        )
        own_order = [row[0] for row in rows], "in the enum's order"
    return number_categories(a.name, cells, features, own_order)
