"""What the catalog says of a relation, and of the columns of a relation or a query."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....models.heap.reader import TEXTS
from ....models.heap.schema import INTEGERS, NUMERIC, TYPES, Column
from ....models.heap.values import DTYPES
from .locks import Altered
from .names import theirs

_KINDS = {
    "r": "a table",
    "m": "a materialised view",
    "v": "a view",
    "p": "a partitioned table",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
    "I": "a partitioned index",
    "c": "a composite type",
    "t": "a TOAST table",
}

#: without operators: the user's search path, which it is for, may have other ones
_MEANT = "SELECT coalesce(pg_catalog.to_regclass(%s), pg_catalog.to_regclass(%s))::pg_catalog.oid"
_FULL = """
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""

_RELATION = """
SELECT c.oid, c.relkind::text, a.amname, n.nspname, c.relname, c.relpersistence::text, pg_catalog.current_setting('block_size')::int,
       EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid), pg_catalog.row_security_active(c.oid), pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('data_checksums') = 'on', pg_catalog.current_setting('server_version_num')::int, pg_catalog.txid_current_snapshot()::text,
       (SELECT e.extnamespace::pg_catalog.regnamespace::pg_catalog.text FROM pg_catalog.pg_extension e WHERE e.extname = 'pageinspect')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_catalog.pg_am a ON a.oid = c.relam
WHERE c.oid = %s::pg_catalog.regclass
"""

_ATTRIBUTES = """
WITH RECURSIVE base AS (
    SELECT a.attnum, a.atttypid AS oid FROM pg_catalog.pg_attribute a WHERE a.attrelid = %(oid)s AND a.attnum > 0
  UNION ALL
    SELECT base.attnum, t.typbasetype FROM base JOIN pg_catalog.pg_type t ON t.oid = base.oid WHERE t.typtype = 'd')
SELECT a.attname, coalesce(t.oid, 0), CASE WHEN NOT a.attisdropped THEN t.typname END, coalesce(t.typtype::text, 'b'), a.attlen,
       a.attalign::text, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attisdropped,
       CASE WHEN a.atthasmissing AND t.oid = ANY (%(usable)s) THEN a.attmissingval END,
       coalesce(pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT'), false), a.attgenerated = 'v'
FROM pg_catalog.pg_attribute a
     LEFT JOIN base ON base.attnum = a.attnum AND NOT EXISTS
         (SELECT FROM pg_catalog.pg_type d WHERE d.oid = base.oid AND d.typtype = 'd')
     LEFT JOIN pg_catalog.pg_type t ON t.oid = base.oid
WHERE a.attrelid = %(oid)s AND a.attnum > 0
ORDER BY a.attnum
"""

_TYPES = "SELECT oid, typname, typtype::text, typlen, typalign::text, pg_catalog.format_type(oid, NULL) FROM pg_catalog.pg_type WHERE oid = ANY(%s)"

#: names of the types that schemas know, by OID
_NAMES = {kind.oid: name for name, kind in TYPES.items() if kind.oid}
#: types whose defaults are wanted; some others cannot be sent at all
_DEFAULTS = [TYPES[name].oid for name in sorted(NUMERIC | INTEGERS | {"text"})]
#: a type for a dropped column's slot, by length and alignment: only storage counts
_STORED_ALIKE = {
    (1, 1): "bool",
    (2, 2): "int2",
    (4, 4): "int4",
    (8, 8): "int8",
    (-1, 4): "text",
    (-1, 8): "float8[]",
}
_ALIGN = {"c": 1, "s": 2, "i": 4, "d": 8}


@dataclass(frozen=True)
class Relation:
    """A relation as the snapshot shows it. `pageinspect` is the schema of that extension, quoted, or None."""

    oid: int
    kind: str
    method: str | None
    namespace: str
    name: str
    persistence: str
    page_size: int
    has_children: bool
    row_security: bool
    in_recovery: bool
    checksums: bool
    version: int
    snapshot: str
    pageinspect: str | None

    @property
    def what(self) -> str:
        return _KINDS.get(self.kind, "no table")


@dataclass(frozen=True)
class Attribute:
    """A column at the server."""

    name: str
    oid: int
    type: str | None  #: its name in a schema, a domain's base type; None for a dropped column
    kind: str  #: typtype of pg_type
    length: int
    align: int
    written: str  #: how SQL writes the type
    not_null: bool = False
    dropped: bool = False
    missing: bytes | None = None  #: binary form of an array with the default of older rows
    readable: bool = True
    #: a generated column that is computed when it is read; tuples hold NULL in its place, from
    #: version 18 on
    virtual: bool = False


def find(connection: Any, name: str) -> str | None:
    """Return the qualified, quoted name of the relation that `name` means, None where there is none. Qualified and quoted as in SQL.

    Raises Altered where the snapshot is older than the relation.
    """
    from psycopg import errors

    quoted = '"' + name.replace('"', '""') + '"'

    def meant(first: str) -> int | None:
        # a savepoint: the error ends no more than this
        with connection.transaction(), theirs(connection):
            return connection.execute(_MEANT, (first, quoted)).fetchone()[0]

    try:
        oid = meant(name)
    except errors.InvalidName:  # to_regclass does not take it for a name at all
        oid = meant(quoted)
    if oid is None:
        return None
    row = connection.execute(_FULL, (oid,)).fetchone()
    if row is None:
        raise Altered
    return row[0]


def relation(connection: Any, full: str) -> Relation:
    """Return the catalog's row of the relation with this qualified name. Raises Altered where the snapshot is older."""
    row = connection.execute(_RELATION, (full,)).fetchone()
    if row is None:
        raise Altered
    return Relation(*row)


def attributes(connection: Any, oid: int) -> list[Attribute]:
    """Return a relation's columns in attribute order, dropped ones included."""
    asked = {"oid": oid, "usable": _DEFAULTS}
    return [_attribute(*row) for row in connection.execute(_ATTRIBUTES, asked, binary=True)]


def described(connection: Any, description: Any) -> list[Attribute]:
    """Return the columns of a query from what the server says of its result."""
    codes = [column.type_code for column in description]
    known = {row[0]: row for row in connection.execute(_TYPES, (codes,))}
    return [_attribute(column.name, *known[column.type_code]) for column in description]


def _attribute(
    name: str, oid: int, type_name: str | None, kind: str, length: int, align: str, *rest: Any
) -> Attribute:
    known = None if type_name is None else _type(oid, type_name, length, _ALIGN[align])
    return Attribute(name, oid, known, kind, length, _ALIGN[align], *rest)


def _type(oid: int, name: str, length: int, align: int) -> str:
    if oid in _NAMES:
        return _NAMES[oid]
    return f"{name}:fixed({length},{align})" if length > 0 else f"{name}:varlena({align})"


def schema_columns(attributes: Sequence[Attribute], utf8: bool) -> tuple[Column, ...]:
    """Return the columns as the table's own pages hold them. `utf8`: so are its texts; others are only stepped over.

    A column that a kernel could use but whose default no array header can say (NULL elements, two dimensions) is one that is only
    stepped over.
    """
    columns = []
    for a in attributes:
        if a.dropped:
            stored = f"fixed({a.length},{a.align})" if a.length > 0 else f"varlena({a.align})"
            columns.append(
                Column(a.name, _STORED_ALIKE.get((a.length, a.align), stored), dropped=True)
            )
            continue
        assert a.type is not None
        kind, missing = a.type, None
        try:
            if not utf8 and kind in TEXTS:
                raise ValueError
            if a.missing is not None and kind != "date":
                missing = _default(kind, a.missing)
        except ValueError:
            kind = f"{kind}:varlena({a.align})"
        columns.append(Column(a.name, kind, not_null=a.not_null, missing=missing))
    return tuple(columns)


def _default(kind: str, image: bytes) -> Any:
    """Return the one element of attmissingval. Raises ValueError for an array that is not one-dimensional from 1 on, or has NULLs."""
    value = _elements(image)[0]
    if kind == "text":
        return value.decode()
    element = TYPES[kind].element
    if element is None:
        return _number(kind, value)
    return [_number(element, cell) for cell in _elements(value)]


def _elements(image: bytes) -> list[bytes]:
    """Return the elements of a one-dimensional array in the protocol's binary form (`array_send`)."""
    dims, nulls, _ = struct.unpack_from(">iiI", image)
    if dims > 1 or nulls:
        raise ValueError(f"an array of {dims} dimensions{', with NULL elements' if nulls else ''}")
    if not dims:
        raise ValueError("an array without elements")
    count, lower = struct.unpack_from(">ii", image, 12)
    if lower != 1:
        raise ValueError(f"an array whose first element is number {lower}")
    at, out = 20, []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", image, at)
        out.append(image[at + 4 : at + 4 + length])
        at += 4 + length
    return out


def _number(kind: str, value: bytes) -> Any:
    import numpy as np

    return np.frombuffer(value, DTYPES[kind].newbyteorder(">"))[0].item()
