"""How columns of each type become numbers.

Types of a kernel's own are sent as they are; `numeric` and arrays of integers are cast by the server wherever they stand; dates, times,
enums and texts only where they are asked for, for most of them are no features.
"""

from dataclasses import dataclass, replace

from ....models.heap.schema import NUMERIC
from ..errors import table_error
from ..features import Features
from .catalog import Attribute

_ROUNDED = "to the nearest float8; exact where float8 holds the number"
#: type -> (type here, expression, in words): cast wherever they stand
_ALWAYS = {
    "numeric": ("float8", "{}::pg_catalog.float8", f"numeric {_ROUNDED}"),
    "numeric[]": ("float8[]", "{}::pg_catalog.float8[]", f"numeric {_ROUNDED}"),
    "int2[]": ("float4[]", "{}::pg_catalog.float4[]", "exact"),
    "int4[]": ("float8[]", "{}::pg_catalog.float8[]", "exact"),
    "int8[]": ("float8[]", "{}::pg_catalog.float8[]", f"int8 {_ROUNDED}"),
    "bool[]": ("float4[]", "{}::pg_catalog.int4[]::pg_catalog.float4[]", "false 0, true 1"),
}
#: cast where they are asked for
_ASKED = {
    "money": ("float8", "{}::pg_catalog.numeric::pg_catalog.float8", f"numeric {_ROUNDED}"),
    "date": (
        "int4",
        "({} OPERATOR(pg_catalog.-) pg_catalog.date '2000-01-01')",
        "days since 2000-01-01",
    ),
    "time": ("float8", "extract(epoch FROM {})::pg_catalog.float8", "seconds since midnight"),
    "timetz": ("float8", "extract(epoch FROM {})::pg_catalog.float8", "seconds since midnight UTC"),
    "timestamp": (
        "float8",
        "extract(epoch FROM {} OPERATOR(pg_catalog.-) pg_catalog.timestamp '2000-01-01')::pg_catalog.float8",
        "seconds since 2000-01-01 00:00:00",
    ),
    "timestamptz": (
        "float8",
        "extract(epoch FROM {} OPERATOR(pg_catalog.-) pg_catalog.timestamptz '2000-01-01 00:00:00+00')::pg_catalog.float8",
        "seconds since 2000-01-01 00:00:00 UTC",
    ),
}
#: whole numbers, which may be categories
WHOLE = ("int2", "int4", "int8")
_TEXTS = ("text", "varchar", "bpchar", "name", "char")
#: a text's bytes: a function that is called may change the encoding in which texts are sent
_TEXT = "pg_catalog.convert_to({}, 'UTF8')"
CATEGORIES = "category"  #: `becomes` of columns whose texts are numbered after they arrived


@dataclass(frozen=True)
class Feature:
    """What the server is to send for a column."""

    becomes: str  #: the type here, or `CATEGORIES`
    expression: str = "{}"  #: what SQL asks for, with {} for the column's quoted name
    how: str = ""  #: "" where nothing is done


def as_stored(a: Attribute, features: Features) -> Attribute:
    """Return a column as indices read it: a date is the days since 2000-01-01 that it is stored and sent as, int4."""
    if a.type == "date" and a.name in features.indices and not features.categorical(a.name):
        return replace(a, type="int4")
    return a


def asked(a: Attribute, features: Features) -> Feature | None:
    """Return what is done with a column: an index takes arrays of integers as they are, and whole numbers that are categories.

    Raises SourceError as `feature`.
    """
    if a.name in features.indices and a.type in ("int2[]", "int4[]", "int8[]"):
        return Feature(a.type)
    if a.type in WHOLE and a.name in features.indices and features.categorical(a.name):
        return Feature(CATEGORIES, _TEXT.format("{}::pg_catalog.text"))
    return feature(a) if features.asked(a.name) else always(a)


def always(a: Attribute) -> Feature | None:
    """Return what is done with a column unasked; None where it is left out."""
    if a.type in NUMERIC:
        return Feature(a.type)
    return Feature(*_ALWAYS[a.type]) if a.type in _ALWAYS else None


def feature(a: Attribute) -> Feature:
    """Return what is done with a column that was asked for. Raises SourceError where its type is no feature."""
    feature = always(a)
    if feature is not None:
        return feature
    if a.type in _ASKED:
        return Feature(*_ASKED[a.type])
    if a.kind == "e":  # its label: a cast to text may be a function that somebody made
        return Feature(CATEGORIES, _TEXT.format("pg_catalog.textin(pg_catalog.enum_out({}))"))
    if a.type in _TEXTS:
        return Feature(CATEGORIES, _TEXT.format("{}::pg_catalog.text"))
    raise table_error(
        f"column {a.name!r} has the type {a.written}, which cannot become a number",
        "numbers, booleans, dates, times, enums and texts can; a query can compute one: ?query=SELECT …",
    )
