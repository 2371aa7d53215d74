"""Columns as Arrow and NumPy hold them, packed into heap pages."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...models.inputs import Input, cause
from .errors import SourceError, table_error
from .features import NO_FEATURES, Features, number_categories
from .provenance import NO_ARRAYS, Cast, Provenance
from .table import Table, check_count, integer_type, pack

_DAYS = 10957  # from 1970-01-01, Arrow's epoch, to 2000-01-01, PostgreSQL's
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY = 86400


def check_names(names: list[str], path: Path) -> None:
    """Raise SourceError for columns without a name, or with that of another, and for too many."""
    check_count(names, path.stem)
    seen = set[str]()
    for name in names:
        if not name:
            raise table_error(
                f"{path} has a column without a name", "name every column in the first line"
            )
        if name in seen:
            raise table_error(
                f"{path} has two columns called {name!r}", "give one of them another name"
            )
        seen.add(name)


def pack_arrays(columns: Mapping[str, Any], path: Path, features: Features = NO_FEATURES) -> Table:
    """Pack arrays by name, as `Table.from_columns` does, with what was asked for of them. Columns
    of frames, and lists with None, are packed as those of frames are; columns of texts and dates
    go through Arrow where they become numbers.

    Raises SourceError.
    """
    import pyarrow as pa

    features.check(str(path), columns)
    packing = _Packing(path, features, narrow=False)
    for name, values in columns.items():
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            packing.add(name, values)
            continue
        try:
            column = _as_arrow(values, features.asked(name), features.categorical(name))
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as problem:
            raise table_error(
                f"column {name!r} of {path} cannot be packed: {cause(problem)}",
                "convert it to numbers or texts, every row of an array column of the same length",
            ) from problem
        if column is None and name in features.indices and np.ndim(values) == 2:
            packing.bags(name, values)
        elif column is None:
            packing.columns[name] = values
        else:
            packing.add(name, column)
    return packing.table()


def _as_arrow(values: Any, asked: bool, categorical: bool = False) -> Any:
    """Return a column as an Arrow array: one of a frame, which knows more than its array, one of
    Python objects, one of dates or times, and if `asked` one of texts, if `categorical` one of integers. None for others."""
    import pyarrow as pa

    if type(values).__module__.partition(".")[0] == "pandas":
        return pa.array(values, from_pandas=True)  # where NaN is NULL, as in a frame
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    try:
        array = values if isinstance(values, np.ndarray) else np.asarray(values)
    except ValueError:  # arrays of different lengths, or None among them
        return pa.array(values)
    if array.ndim != 1 or array.dtype.kind not in "MmUSO" + "iu" * categorical:
        return None
    if array.dtype.kind == "O" and not asked:
        return pa.array(array.tolist())
    if array.dtype.kind in "US" and not asked:
        return None
    null = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    plain = np.ma.getdata(array)
    if plain.dtype.kind in "US":  # Arrow ends NumPy's texts at a NUL, NumPy drops those at the end
        texts = values if isinstance(values, list | tuple) else plain.tolist()
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in texts]
        plain = np.array(texts, object)
    if plain.dtype.kind == "M" and np.datetime_data(plain.dtype)[0] in ("D", "M", "W", "Y"):
        plain = plain.astype("M8[D]")
    return pa.array(plain, mask=null, from_pandas=True)


def pack_arrow(
    table: Any, path: Path, features: Features = NO_FEATURES, narrow: bool = False
) -> Table:
    """Pack an Arrow table. `narrow`: its integers are 64 bits wide, and its texts texts, only
    because nobody said otherwise.

    Columns that cannot be stored are left out; `provenance` names them. Raises SourceError.
    """
    if not table.num_rows:
        raise table_error(f"{path} has no rows", "training needs at least one row")
    features.check(str(path), table.column_names)
    packing = _Packing(path, features, narrow)
    for field, column in zip(table.schema, table.columns, strict=True):
        packing.add(field.name, column, field.metadata)
    return packing.table()


class _Packing:
    """Columns on their way into pages, and what was done with them."""

    def __init__(self, path: Path, features: Features, narrow: bool) -> None:
        self.path, self.features, self.narrow = path, features, narrow
        self.columns: dict[str, Any] = {}
        self.arrays: dict[str, str] = {}  # of integers, with their type
        self.casts: list[Cast] = []
        self.left_out: list[tuple[str, str]] = []
        self.problem: SourceError | None = None  # of the first arrays that were left out

    def table(self) -> Table:
        """Return the table. Raises SourceError."""
        if not self.columns and self.problem:
            raise self.problem
        if not self.columns and self.left_out:
            name, kind = self.left_out[0]
            raise table_error(
                f"{self.path} has no column that can be stored: {name!r} has the type {kind}",
                "dates, times and texts become numbers where they are named: ?features=COLUMN,…",
            )
        labels = {cast.column: cast.categories for cast in self.casts if cast.categories}
        packed = pack(self.columns, self.path.stem, labels=labels, arrays=self.arrays)
        if self.casts or self.left_out:
            facts = Provenance("packed", "its columns are packed here", "", len(packed.pages))
            casts, left_out = tuple(self.casts), tuple(self.left_out)
            packed.provenance = replace(facts, casts=casts, left_out=left_out)
        return packed

    def add(self, name: str, column: Any, metadata: Mapping[bytes, bytes] | None = None) -> None:
        """Take up one column; `metadata`: of its field. Raises SourceError."""
        try:
            self._add(name, column, _frequency(column.type, metadata or {}))
        except SourceError:
            raise
        except Exception as problem:  # whatever its metadata say, pandas and Arrow may refuse
            raise table_error(
                f"column {name!r} of {self.path} cannot be packed: {cause(problem)}",
                "leave the column out",
            ) from problem

    def _add(self, name: str, column: Any, frequency: str | None) -> None:
        import pyarrow as pa

        own_order = None
        index, categories = name in self.features.indices, pa.types.is_dictionary(column.type)
        if categories and (column.type.ordered or index):
            own_order = self._own_order(name, column), "in the type's order"
        if isinstance(column, pa.ChunkedArray):
            column = _joined(column)
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if frequency is not None:
            self._periods(name, column, frequency)
            return
        if pa.types.is_dictionary(column.type):
            values = column.dictionary
            if pa.types.is_string_view(values.type):  # which Arrow cannot take by number yet
                values = values.cast(pa.string())
            column = values.take(column.indices)
        if index and _whole_days(column):
            column = column.cast(pa.date32())
        kind, asked = column.type, self.features.asked(name)
        if _is(kind, "list") and index:
            element = column.type.value_type
            known = element.to_pandas_dtype() if _is(element, "number") else None
            self.bags(name, column.to_pylist(), known)
        elif _is(kind, "number") and index and (categories or self.features.categorical(name)):
            order = None if categories else _in_order(column)
            self._categories(name, kind, self._texts(name, column), own_order or order)
        elif _is(kind, "list"):
            self._arrays(name, column, asked)
        elif pa.types.is_null(kind):
            self.columns[name] = np.ma.masked_all(len(column), np.float64)
        elif _is(kind, "number"):
            self.columns[name] = self._numbers(column)
        elif pa.types.is_decimal(kind):
            self._cast(name, kind, column, "float8", _ROUNDED, _decimals(column))
        elif pa.types.is_duration(kind) and asked:
            raise table_error(
                f"column {name!r} of {self.path} has the type {kind}, which cannot become a number",
                "divide it by a unit of time: its seconds are a number",
            )
        elif not asked and (
            not _is(kind, "text", "binary") and not (self.narrow and pa.types.is_date(kind))
        ):
            self.left_out.append((name, str(kind)))
        elif not asked:
            self.columns[name] = np.array(self._texts(name, column), object)
        elif pa.types.is_temporal(kind):
            self._cast(name, kind, column, *_since(column))
        elif self.narrow and (moments := _moments(column)) is not None:
            self._cast(name, moments.type, moments, *_since(moments))
        else:
            self._categories(name, kind, self._texts(name, column), own_order)

    def _periods(self, name: str, column: Any, frequency: str) -> None:
        """Take up periods, which are stored as numbers that count from 1970: an index has them as categories, a feature as the moments at which they begin."""
        import pyarrow as pa

        if not self.features.asked(name):
            self.left_out.append((name, "period"))
            return
        try:
            import pandas as pd
        except ImportError as error:
            raise table_error(
                f"column {name!r} of {self.path} holds periods of pandas, which is not installed",
                "pip install pandas, or store dates",
            ) from error
        counted = column.fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
        periods = pd.PeriodIndex(pd.arrays.PeriodArray(counted, dtype=f"period[{frequency}]"))
        if name in self.features.indices:
            order = [str(p) for p in periods.dropna().unique().sort_values()], "in order of time"
            cells = [None if p is pd.NaT else str(p) for p in periods]
            self._categories(name, "period", cells, order)
            return
        moments = pa.array(periods.to_timestamp(), from_pandas=True)
        self._cast(name, "period", moments, *_since(moments))

    def _arrays(self, name: str, column: Any, asked: bool) -> None:
        """Take up arrays of one length; leave out others, which nobody asked for."""
        try:
            self.columns[name] = _array_from_arrow(name, column, self.path)
        except SourceError as problem:
            if asked:
                raise
            self.problem = self.problem or problem
            self.left_out.append((name, NO_ARRAYS))

    def bags(self, name: str, values: Any, element: Any = None) -> None:
        """Take up arrays of integers, of any lengths; what is masked is left out. `element`: the type of what they hold. Raises SourceError."""
        cells: list[Any] = []
        for row in values:
            kept = row.compressed() if isinstance(row, np.ma.MaskedArray) else row
            cells.append(None if kept is None else np.asarray(kept))
        filled = [cell for cell in cells if cell is not None and cell.size]
        if {cell.dtype.kind for cell in filled} - {"i", "u", "b"}:
            raise table_error(
                f"column {name!r} of {self.path} holds arrays that are not of integers",
                "an index takes whole numbers, without NULL in an array",
            )
        if element is not None:
            filled = [cell.astype(element) for cell in filled]
        of_types = [
            integer_type(name, np.concatenate([cell for cell in filled if cell.dtype == dtype]))
            for dtype in {cell.dtype for cell in filled}
        ]
        self.arrays[name] = max(of_types, default="int4") + "[]"  # int2 to int8
        self.columns[name] = [c if c is None else c.astype(np.int64) for c in cells]

    def _own_order(self, name: str, column: Any) -> list[str]:
        """Return the categories of a dictionary: those of the chunk that has all of the others' in
        their order; where none has and the type has no order, those of all chunks, one behind the other.
        Raises SourceError where an order is needed and none is told."""
        import pyarrow as pa

        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        orders = {
            tuple(chunk.dictionary.cast(pa.string()).to_pylist()): None
            for chunk in chunks
            if len(chunk)
        }
        longest = max(orders, key=len, default=())
        needed = self.features.asked(name) and self.features.labels(name) is None
        for order in orders if needed else ():
            rest = iter(longest)
            if not all(label in rest for label in order):  # each behind the one before
                if not column.type.ordered:
                    return list(dict.fromkeys(label for known in orders for label in known))
                raise table_error(
                    f"column {name!r} of {self.path} has chunks whose categories do not tell one order: "
                    f"{', '.join(map(str, longest))[:100]} and {', '.join(map(str, order))[:100]}",
                    "give all chunks the dictionary of all categories in their order",
                )
        return list(longest)

    def _numbers(self, column: Any) -> Any:
        import pyarrow as pa

        null = np.asarray(column.is_null())
        fill = False if pa.types.is_boolean(column.type) else 0
        values = (column.fill_null(fill) if null.any() else column).to_numpy(zero_copy_only=False)
        if (
            self.narrow
            and values.dtype == np.int64
            and values.size
            and values.min() >= -(1 << 31)
            and values.max() < 1 << 31
        ):
            values = values.astype(np.int32)
        return np.ma.masked_array(values, null) if null.any() else values

    def _texts(self, name: str, column: Any) -> list[str | None]:
        import pyarrow as pa

        try:
            texts: list[str | None] = column.cast(pa.string()).to_pylist()
        except pa.ArrowException as error:
            what = f"has the type {column.type}, which cannot be packed"
            if _is(column.type, "binary"):
                what = "holds bytes that are no text in UTF-8"
            raise table_error(
                f"column {name!r} of {self.path} {what}", "leave the column out"
            ) from error
        return texts

    def _cast(self, name: str, kind: Any, column: Any, becomes: str, how: str, values: Any) -> None:
        null = np.asarray(column.is_null())
        self.columns[name] = np.ma.masked_array(values, null) if null.any() else values
        self.casts.append(Cast(name, str(kind), becomes, how))

    def _categories(self, name: str, kind: Any, cells: list[str | None], own_order: Any) -> None:
        categories = number_categories(name, cells, self.features, own_order)
        values = categories.values
        if categories.type == "int4" and None in cells:
            values = np.ma.masked_array(values, [cell is None for cell in cells])
        self.columns[name] = values
        self.casts.append(Cast(name, str(kind), categories.type, categories.how, categories.labels))


_PERIODS = Input("a column of periods", "write the file anew", table_error)


def _frequency(kind: Any, metadata: Mapping[bytes, bytes]) -> str | None:
    """Return the frequency of a column of pandas' periods, also where PyArrow knows no type of that name; None of others."""
    if getattr(kind, "extension_name", "") == "pandas.period":
        return str(kind.freq)
    if metadata.get(b"ARROW:extension:name") == b"pandas.period":
        return str(_PERIODS.json_of(metadata[b"ARROW:extension:metadata"], "its metadata")["freq"])
    return None


def _in_order(column: Any) -> tuple[list[str], str]:
    """Return the integers of a column as the labels of its categories."""
    integers = sorted(set(column.to_pylist()) - {None})
    return [str(value) for value in integers], "in their order"


_ROUNDED = "to the nearest float8; exact where float8 holds the number"


#: kinds of types, by the names of Arrow's questions, not all of which each version has
_KINDS = {
    "list": ("list", "large_list", "fixed_size_list"),
    "number": ("integer", "floating", "boolean"),
    "text": ("string", "large_string", "string_view"),
    "binary": ("binary", "large_binary", "binary_view", "fixed_size_binary"),
}


def _is(kind: Any, *kinds: str) -> bool:
    import pyarrow as pa

    questions = (getattr(pa.types, f"is_{name}", None) for each in kinds for name in _KINDS[each])
    return any(ask is not None and ask(kind) for ask in questions)


def _decimals(column: Any) -> npt.NDArray[np.float64]:
    """Return the nearest float64 to each decimal."""
    return np.array([0.0 if v is None else float(v) for v in column.to_pylist()], np.float64)


def _moments(column: Any) -> Any:
    """Return texts as timestamps where all of them are ISO 8601; None where not."""
    import pyarrow as pa

    try:
        return column.cast(pa.timestamp("us"))
    except pa.ArrowException:
        return None


def _joined(column: Any) -> Any:
    """Return a column as one array, without empty chunks, which have no buffers: PyArrow 26 cannot join those with others."""
    import pyarrow as pa

    try:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
    except KeyError:  # intervals of months, for one
        raise pa.ArrowNotImplementedError(f"PyArrow has no arrays of {column.type}") from None
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _since(column: Any) -> tuple[str, str, Any]:
    """Return the type here, what is done in words, and the values of a column of dates or times,
    any where it is NULL."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date(kind):
        days = _integers(column.cast(pa.date32())) - _DAYS
        if len(days) and days.min() < -(1 << 31):
            raise OverflowError("dates before the year -5,877,611 are too long ago for int4")
        return "int4", "days since 2000-01-01", days.astype(np.int32)
    ticks, per = _integers(column), _PER_SECOND[kind.unit]
    if pa.types.is_time(kind):
        return "float8", "seconds since midnight", ticks / per
    zone = " UTC" if kind.tz is not None else ""
    seconds, part = np.divmod(ticks, per)
    since = (seconds - _DAYS * _DAY).astype(np.float64) + part / per
    return "float8", f"seconds since 2000-01-01 00:00:00{zone}", since


def _whole_days(column: Any) -> bool:
    """Return whether a column is one of timestamps without a zone that are all midnights: frames have no other dates."""
    import pyarrow as pa

    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.tz is not None:
        return False
    return not np.any(_integers(column) % (_PER_SECOND[kind.unit] * _DAY))


def _integers(column: Any) -> npt.NDArray[np.int64]:
    """Return the integers that stand for dates or times, 0 for NULL."""
    import pyarrow as pa

    width = pa.int32() if column.type.bit_width == 32 else pa.int64()
    values: npt.NDArray[Any] = column.view(width).fill_null(0).to_numpy(zero_copy_only=False)
    return values.astype(np.int64)


def _array_from_arrow(name: str, column: Any, path: Path) -> npt.NDArray[Any]:
    from pyarrow import compute

    if column.null_count:
        raise table_error(
            f"array column {name!r} of {path} has rows without an array",
            "drop these rows, or fill them",
        )
    elements = column.flatten()
    if not _is(elements.type, "number"):
        raise table_error(
            f"array column {name!r} of {path} has elements of the type {elements.type}",
            "only numbers can be packed",
        )
    if elements.null_count:
        raise table_error(
            f"array column {name!r} of {path} has missing elements",
            "arrays with NULL elements are not supported",
        )
    lengths = np.asarray(compute.list_value_length(column))
    if lengths.min() != lengths.max():
        raise table_error(
            f"the arrays in column {name!r} of {path} have from {lengths.min()} to {lengths.max()} elements",
            "every row of an array column must have the same length",
        )
    return elements.to_numpy(zero_copy_only=False).reshape(len(column), -1)
