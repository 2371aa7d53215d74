"""Tables in files: PostgreSQL relation files as they are; CSV, NumPy and Parquet files packed into heap pages."""

import csv
import difflib
import glob
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import numpy.typing as npt

from ...models.heap.checksum import damaged
from ...models.heap.page import LAYOUT_VERSION, PAGE_HEADER, PAGE_HEADER_SIZE, PAGE_SIZES
from ...models.heap.reader import read_heap
from ...models.heap.schema import Column, Schema
from ...models.inputs import MEMORY, Input
from .arrow import check_names, pack_arrays, pack_arrow
from .errors import SourceError, table_error
from .features import NO_FEATURES, Features
from .table import Table

_SCHEMA_FORM = 'a schema is {"columns": [{"name": "x", "type": "float4"}, …]}'
#: more than any number of float8 has before its point
_DIGITS = 310
_SEGMENT = 1 << 30  # a relation goes on in FILE.1, FILE.2, … after each gigabyte
#: what is said of a file before its contents are looked at
_FILE = Input(
    "a data file",
    "who runs penstock must be allowed to read it; `ls -l` shows who is",
    partial(SourceError, code="E702"),
    MEMORY,
)
_SCHEMA = Input("a table schema", _SCHEMA_FORM, SourceError)
_ANEW = "is the file complete? Write it anew"
_ARCHIVE = Input(
    "a NumPy archive of plain arrays",
    "write it with numpy.savez(file, name=array, …)",
    SourceError,
    MEMORY,
)
_CSV = Input("a CSV file", "every line needs as many cells as the first", SourceError, MEMORY)
_PARQUET = Input("a Parquet file that can be read", _ANEW, SourceError, MEMORY)
_ARROW = Input("an Arrow file that can be read", _ANEW, SourceError, MEMORY)
#: bytes that a row takes in a page at the least, its header and line pointer, and a cell; a file may say that one value stands for millions
_ROW, _CELL = 28, 4


def _existing(path: Path) -> Path:
    if not path.is_file():
        what = f"{path} is not a file" if path.exists() else f"no such file: {path}"
        raise SourceError(what, _others(path), code="E702")
    if path.stat().st_size == 0:
        raise SourceError(
            f"{path} is empty",
            "was it written to its end? A table needs at least one row",
            code="E702",
        )
    _FILE.open(path).close()
    return path


def _others(path: Path) -> str:
    """Return what else the user may have meant."""
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError:
        names = []
    stems = {Path(name).stem: name for name in names if Path(name).suffix == path.suffix}
    close = difflib.get_close_matches(path.stem, stems, n=1)
    if close and folder is not path:
        return f"did you mean {folder / stems[close[0]]}?"
    return "paths are taken from the current folder" if folder is not path else "name a file in it"


# -- heap:FILE,SCHEMA.json -------------------------------------------------------------------------------------------------


def open_heap(files: str) -> Table:
    """Open `FILE,SCHEMA.json`: a relation file (with its further segments where it has some) and its schema. Pages with a checksum are held against
    it, unless `?data_checksums=off` follows."""
    names, _, asked = files.partition("?")
    if asked not in ("", "data_checksums=on", "data_checksums=off"):
        hint = "data_checksums=off is what a relation file may have there"
        raise SourceError(f"heap:{names} has no {asked}", hint, code="E701")
    file, comma, description = names.rpartition(",")
    if not comma or not file or not description:
        raise SourceError(
            f"heap:{files} does not name two files",
            "the form is heap:FILE,SCHEMA.json",
            code="E701",
        )
    path, schema = _existing(Path(file)), _schema(_existing(Path(description)))
    pages = _relation(path)
    if len(pages) % schema.page_size:
        raise SourceError(
            f"{path} has {len(pages)} bytes, which is not a whole number of pages of {schema.page_size} bytes",
            f"is page_size in {description} the server's block_size, and the file complete?",
        )
    pages = pages.reshape(-1, schema.page_size)
    if (size := _other_page_size(pages)) is not None:
        raise SourceError(
            f"the pages of {path} have {size} bytes each, but {description} says {schema.page_size}",
            f'write "page_size": {size} in {description}',
        )
    if not asked.endswith("off"):
        _check_pages(path, pages)
    return Table(fill_lengths(schema, pages), pages, schema.table)


def _schema(path: Path) -> Schema:
    data = _SCHEMA.json(path)
    with _SCHEMA.parsing(path):
        _check_form(data, path)
        try:
            return Schema.from_json(data)
        except ValueError as error:
            what, _, hint = str(error).partition("; ")
            raise SourceError(f"{path}: {what}", hint or _SCHEMA_FORM) from error


def _check_pages(path: Path, pages: npt.NDArray[np.uint8]) -> None:
    """Raise SourceError (E708) for the first page that is not what its checksum says."""
    segment = re.search(r"\.(\d{1,6})$", path.name)  # of a relation's further files
    first, wrong = 0, damaged(pages)
    if len(wrong) and segment:
        first = int(segment[1]) * (_SEGMENT // pages.shape[1])
        wrong = damaged(pages, first)
    if len(wrong):
        page, more = int(wrong[0]), f", and of {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise SourceError(
            f"{path}: the checksum of page {page} (block {first + page}) is wrong{more}: the page was damaged",
            "copy the file again from the server; a server whose data_checksums are off wrote it? Put ?data_checksums=off behind the schema",
            code="E708",
        )


def _check_form(data: Any, path: Path) -> None:
    """Raise SourceError where JSON holds something else than an object with a list of columns."""
    columns = data.get("columns") if isinstance(data, dict) else None
    keys = [field.name for field in fields(Column)]
    if not isinstance(data, dict):
        what = f"not a table schema: {_json_kind(data)} instead of an object"
    elif "columns" not in data:
        what = "not a table schema: no key 'columns'"
    elif not isinstance(columns, list):
        what = f"columns is {_json_kind(columns)} instead of a list"
    elif odd := [c for c in columns if not isinstance(c, dict)]:
        what = f"one of the columns is {_json_kind(odd[0])} instead of an object"
    elif (bare := next((i for i, c in enumerate(columns, 1) if "name" not in c), None)) is not None:
        what = f"column {bare} has no name"
    elif unknown := [key for c in columns for key in c if key not in keys]:
        raise SourceError(
            f"{path}: a column has no key {unknown[0]!r}", f"known are {', '.join(keys)}"
        )
    elif odd := [c for c in columns if not isinstance(c.get("type"), str)]:
        what = f"column {odd[0]['name']!r} has the type {json.dumps(odd[0].get('type'))[:40]}"
    elif not isinstance(data.get("page_size", 8192), int) or isinstance(
        data.get("page_size"), bool
    ):
        what = f"page_size must be a power of two from 1024 to 32768, not {data['page_size']!r}"
    else:
        return
    raise SourceError(f"{path}: {what}", _SCHEMA_FORM)


def _json_kind(value: Any) -> str:
    kinds: dict[Any, str] = {list: "a list", str: "a text"}
    return kinds.get(type(value)) or json.dumps(value)[:20]


def _relation(path: Path) -> npt.NDArray[np.uint8]:
    parts = [_bytes(path)]
    while (
        len(parts[-1]) == _SEGMENT
        and (following := path.with_name(f"{path.name}.{len(parts)}")).exists()
    ):
        parts.append(_bytes(following))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _bytes(path: Path) -> npt.NDArray[np.uint8]:
    with _FILE.open(path) as file, _FILE.parsing(path):
        return np.fromfile(file, np.uint8)


def _other_page_size(pages: npt.NDArray[np.uint8]) -> int | None:
    """Return the page size that all pages agree on where it is not the schema's.

    Pages that disagree among themselves are for the hardware to report.
    """
    first = int(pages[0, :PAGE_HEADER_SIZE].view(PAGE_HEADER)["pd_pagesize_version"][0])
    size = first & 0xFF00
    if (
        size == pages.shape[1]
        or first & 0xFF != LAYOUT_VERSION
        or size not in PAGE_SIZES
        or pages.size % size
    ):
        return None
    versions = (
        pages.reshape(-1, size)[:, :PAGE_HEADER_SIZE]
        .copy()
        .view(PAGE_HEADER)["pd_pagesize_version"]
    )
    return size if np.all(np.isin(versions, (first, 0))) else None


def fill_lengths(schema: Schema, pages: npt.NDArray[np.uint8]) -> Schema:
    """Take array lengths that the schema leaves open from the first page whose rows agree; leave them open where none does."""
    if all(not c.is_array or c.length is not None or c.dropped for c in schema.columns):
        return schema
    for page in pages[:16]:
        try:
            columns = read_heap(schema, page[None])
        # a page that is for the hardware to report
        except (ValueError, IndexError, UnicodeDecodeError):
            continue
        lengths = {
            name: values.shape[1]
            for name, values in columns.items()
            if isinstance(values, np.ndarray) and values.ndim == 2
        }
        if any(lengths.values()):
            return replace(
                schema,
                columns=tuple(
                    replace(c, length=lengths.get(c.name))
                    if c.is_array and c.length is None and not c.dropped
                    else c
                    for c in schema.columns
                ),
            )
    return schema


# -- files that we pack ----------------------------------------------------------------------------------------------------


def open_npz(path: Path, features: Features = NO_FEATURES) -> Table:
    """Open a NumPy archive: each array a column by its name, a matrix an array column."""
    arrays = read_npz(path)
    rows = max((len(array) for array in arrays.values() if array.ndim), default=0)
    _ARCHIVE.check_unpacked(path, path.stat().st_size, rows * _ROW)
    return pack_arrays(arrays, path, features)


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a NumPy archive by name. Raises SourceError."""
    return _ARCHIVE.arrays(_existing(path), path)


def open_csv(path: Path, features: Features = NO_FEATURES) -> Table:
    """Open a CSV file: names in the first line (c1, c2, … where that line holds numbers only). Empty cells, NULL, null and NA are NULL.

    Whole numbers become integers, other numbers float8, true/false bool; a column with anything else is text. A column of numbers but for a few cells
    is refused: as text it would silently be no feature any more. So is one of whole numbers some of which neither int8 nor float8 holds.
    """
    from pyarrow import ArrowInvalid  # a second that only these files cost
    from pyarrow import csv as arrow

    with _CSV.open(_existing(path)) as raw:
        if b"\0" in raw.read(4096):
            raise SourceError(
                f"{path} is not text", "is it a CSV file? If it is, save it as UTF-8, not as UTF-16"
            )
    _check_quotes(path)
    with _text(path) as file, _CSV.parsing(path):
        reader = csv.reader(file)
        first = next((cells for cells in reader if cells), [])
        head = reader.line_num  # empty lines before it, and line ends in names, included
    headed = not all(_is_number(cell) for cell in first)
    names = (
        [cell.strip() for cell in first] if headed else [f"c{i}" for i in range(1, len(first) + 1)]
    )
    _check_head(names, path)
    head = head if headed else 0

    def read(**more: Any) -> Any:
        with _CSV.open(path) as file:
            return arrow.read_csv(
                file,
                read_options=arrow.ReadOptions(column_names=names, skip_rows=head),
                parse_options=arrow.ParseOptions(newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    null_values=["", "NULL", "null", "NA"],
                    strings_can_be_null=True,
                    timestamp_parsers=[],
                    **more,
                ),
            )

    try:
        table = read()
    except ArrowInvalid as error:
        reason = str(error).removeprefix("CSV parse error: ")
        if "Empty CSV" in reason:
            raise table_error(
                f"{path.stem} has no rows", "training needs at least one row"
            ) from error
        raise SourceError(
            f"{path}: {reason}", "every line needs as many cells as the first"
        ) from error
    for name, column in zip(names, table.columns, strict=True):
        _check_cells(name, column, path, head)
        if _beyond(column):
            cells = read(include_columns=[name], column_types={name: "string"})[name]
            _check_whole(name, cells.to_pylist(), path, head)
    return pack_arrow(table, path, features, narrow=True)


def _text(path: Path) -> TextIO:
    """Open a CSV file. Spreadsheets write a byte order mark, which is no part of the first name."""
    return io.TextIOWrapper(_CSV.open(path), newline="", encoding="utf-8-sig", errors="replace")


def _check_quotes(path: Path) -> None:
    """Raise SourceError for a quoted cell without an end, which would take in all rows behind it."""
    with _CSV.open(path) as raw:
        marks = sum(part.count(b'"') for part in iter(lambda: raw.read(1 << 20), b""))
    if marks % 2 == 0:
        return
    begun, limit = 0, csv.field_size_limit(sys.maxsize)  # a mark inside a cell is none of these
    try:
        with _text(path) as file:
            reader = csv.reader(file, strict=True)
            for _ in reader:
                begun = reader.line_num
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise SourceError(
                f"{path}: a quotation mark in line {begun + 1} or behind it has no end",
                "close it, or leave it out: the rows behind it would be part of the cell",
            ) from error
    finally:
        csv.field_size_limit(limit)


def _check_head(names: list[str], path: Path) -> None:
    """Raise SourceError for a first line that does not name columns."""
    check_names(names, path)
    if any("\ufffd" in name for name in names):
        raise SourceError(f"{path} is not text in UTF-8", "save it as UTF-8")
    mark = next((mark for mark in ";\t|" if mark in names[0]), None) if len(names) == 1 else None
    if mark is not None:
        raise SourceError(
            f"{path} has one column, {names[0][:60]!r}",
            f"its cells seem to be separated by {mark!r}: commas are what separates them here",
        )


def _check_cells(name: str, column: Any, path: Path, head: int) -> None:
    """Raise SourceError where more than half of a text column's cells are numbers. `head`: lines before the rows."""
    import pyarrow as pa

    if not pa.types.is_string(column.type):
        return
    cells = [
        (row, cell) for row, cell in enumerate(column.to_pylist(), 1 + head) if cell is not None
    ]
    odd = [(row, cell) for row, cell in cells if not _is_number(cell)]
    if odd and 2 * len(odd) < len(cells):
        row, cell = odd[0]
        raise table_error(
            f"column {name!r} of {path} has numbers in {len(cells) - len(odd)} rows, but {cell[:40]!r} in line {row}",
            "mend the cell, or leave it empty for NULL; a column that is meant as text cannot be used, so take it out",
        )


def _beyond(column: Any) -> bool:
    """Return whether a column may be float8 because int8 does not hold its whole numbers."""
    from pyarrow import compute, types

    if not types.is_floating(column.type):
        return False
    most = compute.max(compute.abs(column)).as_py()
    return most is not None and most >= 1 << 63


def _check_whole(name: str, cells: list[str | None], path: Path, head: int) -> None:
    """Raise SourceError where a column's cells are whole numbers, one of which float8 would change."""
    numbers = [(row, cell.strip()) for row, cell in enumerate(cells, 1 + head) if cell is not None]
    if not all(re.fullmatch(r"[+-]?\d+", cell, re.ASCII) for _, cell in numbers):
        return
    for row, cell in numbers:
        if len(cell) > _DIGITS or float(cell) != int(cell):
            raise table_error(
                f"column {name!r} of {path} has {cell[:40]} in line {row}, and whole numbers beyond int8: "
                "float8 would change some",
                "write them as 1.8e19 if float8's digits are enough, or with a letter before them as text",
            )


def open_parquet(path: Path, features: Features = NO_FEATURES) -> Table:
    """Open a Parquet file, or all that a pattern such as `days/*.parquet` names, in the order of
    their names: numbers, bool and text as they are, a list column of one length an array column,
    empty cells NULL."""
    return _opened(path, features, _PARQUET, _read_parquet)


def open_arrow(path: Path, features: Features = NO_FEATURES) -> Table:
    """Open an Arrow (Feather) file or stream, or all that a pattern names, as `open_parquet`."""
    return _opened(path, features, _ARROW, _read_arrow)


def _read_parquet(file: Path, opened: BinaryIO) -> Any:
    """Read one file, whatever stands around it: `read_table` would take folder names for columns. Pages with a checksum are held against it."""
    from pyarrow import parquet

    reader = parquet.ParquetFile(opened, page_checksum_verification=True)
    about, size = reader.metadata, file.stat().st_size
    sizes = (about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    packed = about.num_rows * (_ROW + about.num_columns * _CELL)
    _PARQUET.check_unpacked(file, size, max(sum(sizes), packed))
    return reader.read()


def _read_arrow(file: Path, opened: BinaryIO) -> Any:
    """Read a file or a stream. The format has no checksums."""
    from pyarrow import feather, ipc

    begin = opened.read(6)
    opened.seek(0)
    if begin == b"ARROW1" or begin[:4] == b"FEA1":  # a file, or one of Feather's first version
        table = feather.read_table(opened, memory_map=False)
    else:
        with ipc.open_stream(opened) as stream:
            table = stream.read_all()
    packed = table.num_rows * (_ROW + table.num_columns * _CELL)
    _ARROW.check_unpacked(file, file.stat().st_size, packed)
    return table


def _opened(
    path: Path, features: Features, kind: Input, read: Callable[[Path, BinaryIO], Any]
) -> Table:
    import pyarrow as pa

    files = _matching(path)
    tables = []
    for file in files:
        with kind.open(file) as opened, kind.parsing(file):
            tables.append(read(file, opened))
            tables[-1].validate(full=True)  # offsets of texts and lists that lead elsewhere
    first = tables[0].schema
    for file, table in zip(files, tables, strict=True):
        if not table.schema.equals(first):
            other = next(
                (
                    f"{a} here, {b} there"
                    for a, b in zip(table.schema, first, strict=False)
                    if a != b
                ),
                f"{len(table.schema)} columns here, {len(first)} there",
            )
            raise table_error(
                f"{file} has other columns than {files[0]}: {other}",
                "files of one table have the same columns, in the same order and of the same types",
            )
    check_names(first.names, path)
    return pack_arrow(pa.concat_tables(tables), path, features)


def _matching(path: Path) -> list[Path]:
    """Return the files that a pattern names, in the order of their names; a file that is there is itself."""
    if not glob.has_magic(str(path)) or path.exists():
        return [_existing(path)]
    matches = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    if not matches:
        raise SourceError(
            f"no file matches {path}", "paths are taken from the current folder", code="E702"
        )
    return [_existing(file) for file in matches]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
