"""Tables that a program holds: arrays by name, pandas and polars frames, Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import check_names, pack_arrow
from .table import SourceError, Table, pack

__all__ = ["from_memory"]

#: what stands for the file's name in messages and reports
_NAME = Path("table")


def from_memory(data: Any) -> Table:
    """Pack what a program holds into pages, as `Table.from_columns` and a Parquet file are packed.

    `data`: a mapping of names to arrays, an Arrow table or record batch, a pandas frame (without
    its index; NaN is NULL there), or whatever else offers its columns as an Arrow stream
    (`__arrow_c_stream__`), such as a polars frame.

    Raises SourceError for anything else, and for columns that cannot be packed.
    """
    if isinstance(data, Mapping):
        if not all(isinstance(name, str) for name in data):
            raise SourceError(
                "the columns of a dict are named by texts", "write {'x': array, …}", code="E701"
            )
        return pack(data, _NAME.stem)
    import pyarrow as pa

    package = type(data).__module__.partition(".")[0]
    try:
        if package == "pandas" and hasattr(data, "columns"):
            table = pa.Table.from_pandas(data, preserve_index=False)
        elif hasattr(data, "__arrow_c_stream__"):
            table = pa.table(data)
        elif isinstance(data, pa.RecordBatch):
            table = pa.Table.from_batches([data])
        else:
            raise SourceError(
                f"a table is not made of {_article(type(data).__name__)}",
                "give a source as on the command line, a dict of arrays, a pandas or polars frame, or an Arrow table",
                code="E701",
            )
    except (pa.ArrowException, TypeError, ValueError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise SourceError(
            f"this {type(data).__name__} cannot be packed: {reason}",
            "leave the column out",
            code="E704",
        ) from problem
    check_names(table.column_names, _NAME)
    return pack_arrow(table, _NAME, narrow=False)


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
