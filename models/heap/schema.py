"""What a table's catalog says: columns in attribute order with their PostgreSQL types.

The JSON form (`heap:FILE,SCHEMA.json`)::

    {"table": "cancer", "page_size": 8192,
     "columns": [{"name": "id", "type": "int4", "not_null": true},
                 {"name": "y", "type": "float4"},
                 {"name": "x", "type": "float4[]", "length": 54},
                 {"name": "old", "type": "int8", "dropped": true},
                 {"name": "flag", "type": "bool", "missing": true}]}

A type that no kernel can use is still named, so that it can be stepped over: those of `TYPES` by their names in `pg_type`,
any other by its length and alignment in bytes, as `mood:fixed(4,4)` or `geometry:varlena(8)` (what stands before the colon is
for people).

`missing` is the value of tuples that were written before the column was added (pg_attribute.attmissingval, PostgreSQL ≥ 11);
without it such tuples hold NULL there. Source of lengths and alignments: PostgreSQL 15, `catalog/pg_type.dat`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ..inputs import Input
from .page import MAX_COLUMNS


@dataclass(frozen=True)
class ColumnType:
    """A PostgreSQL type as a heap tuple stores it."""

    name: str
    length: int  #: bytes, −1 for varlena
    align: int  #: bytes
    element: str | None = None  #: for arrays, the element type's name
    oid: int = 0


TYPES: dict[str, ColumnType] = {
    t.name: t
    for t in (
        ColumnType("bool", 1, 1, oid=16),
        ColumnType("int2", 2, 2, oid=21),
        ColumnType("int4", 4, 4, oid=23),
        ColumnType("int8", 8, 8, oid=20),
        ColumnType("float4", 4, 4, oid=700),
        ColumnType("float8", 8, 8, oid=701),
        ColumnType("float4[]", -1, 4, element="float4", oid=1021),
        ColumnType("float8[]", -1, 8, element="float8", oid=1022),
        ColumnType("int2[]", -1, 4, element="int2", oid=1005),
        ColumnType("int4[]", -1, 4, element="int4", oid=1007),
        ColumnType("int8[]", -1, 8, element="int8", oid=1016),
        ColumnType("text", -1, 4, oid=25),
    )
}
#: the types whose values can be numbers of a kernel's format; all others are stepped over
NUMERIC = frozenset(TYPES) - {"text", "int2[]", "int4[]", "int8[]"}
#: the types whose values can be indices
INTEGERS = frozenset(("bool", "int2", "int4", "int8", "date", "int2[]", "int4[]", "int8[]"))
_STEPPED_OVER = {
    # name: (length, align, OID)
    "bytea": (-1, 4, 17),
    "char": (1, 1, 18),
    "name": (64, 1, 19),
    "regproc": (4, 4, 24),
    "oid": (4, 4, 26),
    "tid": (6, 2, 27),
    "xid": (4, 4, 28),
    "cid": (4, 4, 29),
    "json": (-1, 4, 114),
    "xml": (-1, 4, 142),
    "point": (16, 8, 600),
    "lseg": (32, 8, 601),
    "path": (-1, 8, 602),
    "box": (32, 8, 603),
    "polygon": (-1, 8, 604),
    "line": (24, 8, 628),
    "cidr": (-1, 4, 650),
    "circle": (24, 8, 718),
    "macaddr8": (8, 4, 774),
    "money": (8, 8, 790),
    "macaddr": (6, 4, 829),
    "inet": (-1, 4, 869),
    "aclitem": (12, 4, 1033),
    "bpchar": (-1, 4, 1042),
    "varchar": (-1, 4, 1043),
    "date": (4, 4, 1082),
    "time": (8, 8, 1083),
    "timestamp": (8, 8, 1114),
    "timestamptz": (8, 8, 1184),
    "interval": (16, 8, 1186),
    "timetz": (12, 8, 1266),
    "bit": (-1, 4, 1560),
    "varbit": (-1, 4, 1562),
    "numeric": (-1, 4, 1700),
    "uuid": (16, 1, 2950),
    "pg_lsn": (8, 8, 3220),
    "tsvector": (-1, 4, 3614),
    "tsquery": (-1, 4, 3615),
    "jsonb": (-1, 4, 3802),
    "jsonpath": (-1, 4, 4072),
    "xid8": (8, 8, 5069),
    "bool[]": (-1, 4, 1000),
    "numeric[]": (-1, 4, 1231),
}
TYPES |= {
    name: ColumnType(name, length, align, oid=oid)
    for name, (length, align, oid) in _STEPPED_OVER.items()
}
_OTHER = re.compile(r"(?:.*:)?(?:fixed\((\d{1,5}),([1248])\)|varlena\(([48])\))", re.DOTALL)


@cache
def type_named(name: str) -> ColumnType:
    """Return the type of a column by its name in a schema. Raises KeyError where there is none."""
    if name in TYPES:
        return TYPES[name]
    match = _OTHER.fullmatch(name)
    if match is None or (match[1] is not None and not 1 <= int(match[1]) <= 32767):
        raise KeyError(name)
    length, align, varlena = match.groups()
    return (
        ColumnType(name, -1, int(varlena)) if varlena else ColumnType(name, int(length), int(align))
    )


@dataclass(frozen=True)
class Column:
    """One attribute."""

    name: str
    type: str
    not_null: bool = False
    length: int | None = None  #: elements of an array, None where the catalog does not tell
    dropped: bool = False  #: it keeps its slot
    missing: Any = None
    #: what the numbers 0, 1, … of a column of categories stand for (in an array, its places)
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        # one NaN object, so that columns whose defaults are NaN compare equal
        object.__setattr__(self, "missing", _one_nan(self.missing))
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(self.labels))

    @cached_property
    def storage(self) -> ColumnType:
        return type_named(self.type)

    @property
    def is_array(self) -> bool:
        return self.storage.element is not None

    @property
    def is_numeric(self) -> bool:
        return not self.dropped and self.type in NUMERIC

    @property
    def is_usable(self) -> bool:
        """Whether a kernel can use it: as a number, or, arrays of integers too, as an index."""
        return not self.dropped and self.type in NUMERIC | INTEGERS


def _one_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_one_nan(v) for v in value]
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def _check(column: Column) -> None:
    """Raise ValueError where JSON gave a column something of the wrong kind."""
    if not isinstance(column.name, str) or not column.name:
        raise ValueError(f"a column's name must be text, not {column.name!r}")
    for key in ("not_null", "dropped"):
        if not isinstance(getattr(column, key), bool):
            raise ValueError(f"{key} of column {column.name!r} must be true or false")
    length, missing = column.length, column.missing
    if length is not None and (
        not column.is_array or not isinstance(length, int) or isinstance(length, bool) or length < 1
    ):
        raise ValueError(
            f"length of column {column.name!r} must be a whole number from 1, and only arrays have one"
        )
    values = missing if column.is_array and isinstance(missing, list) else [missing]
    if column.labels is not None and not all(isinstance(label, str) for label in column.labels):
        raise ValueError(f"labels of column {column.name!r} must be texts")
    wanted: tuple[type, ...] = (int, float) if column.type in NUMERIC else (str,)
    if missing is not None and (
        isinstance(missing, list) != column.is_array
        or not all(isinstance(v, wanted) for v in values)
    ):
        raise ValueError(
            f"missing of column {column.name!r} is no value of the type {column.type}: {missing!r}"
        )


@dataclass(frozen=True)
class Schema:
    """A table's columns in attribute order, and the page size in bytes (8192 … 32768, a power of two)."""

    table: str
    columns: tuple[Column, ...]
    page_size: int = 8192

    def column(self, name: str) -> Column:
        """Return the column called `name`. Raises KeyError where there is none (dropped columns have no name)."""
        for column in self.columns:
            if column.name == name and not column.dropped:
                return column
        raise KeyError(name)

    def index(self, name: str) -> int:
        """Return the attribute index (from 0) of the column called `name`."""
        return self.columns.index(self.column(name))

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        for column in data["columns"]:
            if column["labels"] is None:
                del column["labels"]
        return data

    def structure(self) -> dict[str, Any]:
        """Return `to_json` without what no hardware depends on: the table's name, labels of categories."""
        columns = [{k: v for k, v in asdict(c).items() if k != "labels"} for c in self.columns]
        return {"page_size": self.page_size, "columns": columns}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Schema:
        """Build a schema from its JSON object. Raises ValueError that names the offending column or key."""
        try:
            columns = []
            if len(data["columns"]) > MAX_COLUMNS:
                what = f"{len(data['columns']):,} columns: a table has at most {MAX_COLUMNS:,}"
                raise ValueError(f"{what}; put features into one array column")
            for entry in data["columns"]:
                try:
                    type_named(entry.get("type"))
                except (KeyError, TypeError):
                    raise ValueError(
                        f"column {entry.get('name')!r} has the type {entry.get('type')!r}; known are "
                        f"{', '.join(TYPES)}, fixed(LENGTH,ALIGN) and varlena(ALIGN)"
                    ) from None
                columns.append(Column(**entry))
                _check(columns[-1])
            schema = cls(
                str(data.get("table", "table")), tuple(columns), int(data.get("page_size", 8192))
            )
        except KeyError as error:
            raise ValueError(f"not a table schema: no key {error}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not a table schema: {error}") from error
        names = Counter(c.name for c in columns if not c.dropped)
        if not names:
            raise ValueError("a table schema without columns")
        name, often = names.most_common(1)[0]
        if often > 1:
            raise ValueError(f"two columns are called {name!r}")
        if schema.page_size not in (1024, 2048, 4096, 8192, 16384, 32768):
            raise ValueError(
                f"page_size must be a power of two from 1024 to 32768, not {schema.page_size}"
            )
        return schema

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        return cls.from_json(Input("a table schema", "Schema.save writes it").json(path))

    def save(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n")
