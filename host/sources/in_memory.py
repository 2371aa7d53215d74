"""Tables that a program holds: arrays by name, record arrays, pandas and polars frames, Arrow tables and datasets."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .arrow import check_names, pack_arrays, pack_arrow
from .errors import SourceError, table_error
from .features import NO_FEATURES, Features
from .table import Table

#: what stands for the file's name in messages and reports
_NAME = Path("table")


def from_memory(data: Any, features: Features = NO_FEATURES) -> Table:
    """Pack what a program holds into pages, as `Table.from_columns` and a Parquet file are packed.

    `data`: a mapping of names to arrays, a NumPy record array, an Arrow table, record batch, reader
    or dataset, a pandas frame (without its index; NaN is NULL there), or whatever else offers its
    columns by the Arrow C interface (`__arrow_c_stream__`, `__arrow_c_array__`), such as a polars frame.

    Raises SourceError for anything else, and for columns that cannot be packed.
    """
    if isinstance(data, np.ndarray) and data.dtype.names:
        data = {name: data[name] for name in data.dtype.names}
    if isinstance(data, Mapping):
        if not all(isinstance(name, str) for name in data):
            raise SourceError(
                "the columns of a dict are named by texts", "write {'x': array, …}", code="E701"
            )
        check_names(list(data), _NAME)
        return pack_arrays(data, _NAME, features)
    import pyarrow as pa

    try:
        table = _as_table(data)
    except (pa.ArrowException, OverflowError, TypeError, ValueError, OSError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise table_error(
            f"this {type(data).__name__} cannot be packed: {reason}", "leave the column out"
        ) from problem
    check_names(table.column_names, _NAME)
    return pack_arrow(table, _NAME, features)


def _as_table(data: Any) -> Any:
    """Return an Arrow table. Raises SourceError for what is none, and what Arrow raises."""
    import pyarrow as pa

    package = type(data).__module__.partition(".")[0]
    if package == "pandas" and hasattr(data, "columns"):
        check_names([str(name) for name in data.columns], _NAME)
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "to_frame") and package in ("pandas", "polars"):
        hint = "to_frame() makes a frame of it"
        raise SourceError(f"a table is not made of a {type(data).__name__}", hint, code="E701")
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    if package == "pyarrow" and hasattr(data, "to_table"):  # a dataset, a scanner
        return data.to_table()
    hint = "give a source as on the command line, a dict of arrays, a record array, a pandas or polars frame, or an Arrow table"
    if hasattr(data, "collect"):
        hint = "collect() makes a frame of it"
    raise SourceError(f"a table is not made of {_article(type(data).__name__)}", hint, code="E701")


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
