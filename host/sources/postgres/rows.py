"""The rows way: the server sends what a SELECT gives, and the rows are packed into pages here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....models.heap.schema import Column, Schema
from ....models.heap.writer import write_heap
from ..errors import server_error, table_error
from ..features import Features, Numbered, number_categories
from ..provenance import Cast
from .casts import CATEGORIES, Feature
from .catalog import Attribute
from .copying import Values, array_lengths, concatenated, fields, messages, one_length

__all__ = ["read_rows"]


def read_rows(
    connection: Any,
    name: str,
    origin: Any,
    columns: Sequence[tuple[Attribute, Feature]],
    left_out: Sequence[Attribute],
    features: Features,
    page_size: int,
) -> tuple[Schema, Any, tuple[Cast, ...]]:
    """Read `origin`, SQL that can stand behind FROM; return the schema, the pages and the casts.

    The columns come in their order, behind them `left_out`, as dropped columns that the rows do not reach. Where every column of `features.like`
    that a kernel could use is among them with its type, the pages have that schema instead.

    Raises SourceError for no rows, rows that fit no page, too many categories.
    """
    values, nulls = _fetch(connection, name, origin, columns)
    made, casts, like = [], [], features.like
    for a, todo in columns:
        becomes, how = todo.becomes, todo.how
        labels: tuple[str, ...] | None = None
        if becomes == CATEGORIES:
            found = _number(connection, a, values[a.name], features)
            becomes, how, labels, values[a.name] = found.type, found.how, found.labels, found.values
        if how:
            casts.append(Cast(a.name, a.written, becomes, how, labels or ()))
        length = None
        if becomes.endswith("[]"):
            length = one_length(array_lengths(values[a.name])) if labels is None else len(labels)
        made.append(Column(a.name, becomes, not_null=a.not_null, length=length, labels=labels))
    schema = Schema(
        name,
        (*made, *(Column(a.name, a.type or "text", dropped=True) for a in left_out)),
        page_size,
    )
    natts = len(made)
    if like is not None and _fits(like, made):
        known = {c.name: c for c in made}
        values = {c.name: values[c.name] for c in like.columns if c.is_numeric}
        nulls = {n: nulls[n] for n in values}
        columns_there = tuple(
            c
            if not c.is_numeric or c.length is not None
            else replace(known[c.name], missing=c.missing)
            for c in like.columns
        )
        schema = Schema(name, columns_there, like.page_size)
        natts = max(i for i, c in enumerate(like.columns) if c.is_numeric) + 1
    return *_pack(schema, values, nulls, natts, like is not None), tuple(casts)


def _fits(like: Schema, made: Sequence[Column]) -> bool:
    wanted = {(c.name, c.type) for c in like.columns if c.is_numeric}
    return bool(wanted) and wanted <= {(c.name, c.type) for c in made}


def _fetch(
    connection: Any, name: str, origin: Any, columns: Sequence[tuple[Attribute, Feature]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    from psycopg import sql

    listed = sql.SQL(", ").join(
        sql.SQL(todo.expression).format(sql.Identifier("q", a.name)) for a, todo in columns
    )
    kinds = [todo.becomes for _, todo in columns]
    parts: list[list[Values]] = []
    for batch in messages(
        connection,
        sql.SQL("COPY (SELECT {} FROM {} AS q) TO STDOUT (FORMAT binary)").format(listed, origin),
    ):
        parts.append(fields(batch, kinds))
    if not parts:
        raise server_error(f"{name} is empty", "training needs at least one row")
    joined = {a.name: concatenated([part[k] for part in parts]) for k, (a, _) in enumerate(columns)}
    return {key: v for key, (v, _) in joined.items()}, {
        key: null for key, (_, null) in joined.items()
    }


def _number(
    connection: Any, a: Attribute, cells: Sequence[str | None], features: Features
) -> Numbered:
    """Number a column's texts, an enum's in its own order."""
    own_order = None
    if a.kind == "e":
        rows = connection.execute(
            "SELECT enumlabel FROM pg_enum WHERE enumtypid = %s ORDER BY enumsortorder", (a.oid,)
        )
        own_order = [row[0] for row in rows], "in the enum's order"
    return number_categories(a.name, cells, features, own_order)


def _pack(
    schema: Schema, values: Mapping[str, Any], nulls: Mapping[str, Any], natts: int, settled: bool
) -> tuple[Schema, Any]:
    """Pack into pages of the schema's size, or larger ones unless the size is `settled`."""
    sizes = (
        [schema.page_size]
        if settled
        else [size for size in (8192, 16384, 32768) if size >= schema.page_size]
    )
    for size in sizes:
        schema = Schema(schema.table, schema.columns, size)
        try:
            return schema, write_heap(schema, values, nulls=nulls, natts=natts)
        except ValueError as error:
            reason = str(error)
            if "does not fit a page" not in reason:
                raise
    raise table_error(
        f"{schema.table}: {reason}", "select fewer columns, or shorter types, with ?query=SELECT …"
    )
