"""COPY … TO STDOUT (FORMAT binary): what the server sends, taken apart with NumPy.

Sources: PostgreSQL 15 documentation, COPY, "Binary Format" (a header of 19 bytes, then for each row the number of fields in two
bytes and each field after its length in four, -1 for NULL, all big-endian); "Message Flow", "COPY Operations": one CopyData message
a row. The trailer is a row of -1 fields.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ....models.heap.schema import TYPES
from ....models.heap.values import DTYPES, array_body, varlena

_HEADER, _TRAILER = 19, 2
_BATCH = 1 << 14  # rows taken apart together, at most

Bytes = npt.NDArray[np.uint8]
#: rows one after another, and how long each is
Batch = tuple[Bytes, npt.NDArray[np.int64]]
#: a column's values (an array of numbers, a matrix, or a list with None for NULL) and where it is NULL
Values = tuple[Any, npt.NDArray[np.bool_]]


def messages(connection: Any, statement: Any) -> Iterator[Batch]:
    """Yield the rows of a binary COPY, many together, as they were sent, their numbers of fields included: bytes and lengths."""
    rows = sent(connection, statement)
    while True:
        data, lengths = bytearray(), list[int]()
        for row in islice(rows, _BATCH):
            data += row
            lengths.append(len(row))
        if not lengths:
            return
        yield np.frombuffer(data, np.uint8), np.array(lengths)


def sent(connection: Any, statement: Any) -> Iterator[memoryview]:
    """Yield each row of a binary COPY as the library holds it, its number of fields included.

    `statement` goes by the extended protocol, which takes one statement only. A reader that stops early ends the connection.
    """
    from psycopg import errors, generators, pq

    library = connection.pgconn
    library.send_query_params(statement.as_bytes(connection), None)
    (result,) = connection.wait(generators.execute(library))
    if result.status != pq.ExecStatus.COPY_OUT:
        raise errors.error_from_result(result, connection.info.encoding)
    try:
        # what has arrived is taken from the library itself, a row a call; `_waited` waits for more, as whoever interrupts us expects
        take = library.get_copy_data
        length, row = _waited(connection)
        length, row = length - _HEADER, row[_HEADER:]  # both come in one message
        while length > _TRAILER:
            yield row
            length, row = take(1)
            if not length:
                length, row = _waited(connection)
        while length == _TRAILER:
            length, row = _waited(connection)
        for result in connection.wait(generators.fetch_many(library)):
            if result.error_message:
                raise errors.error_from_result(result, connection.info.encoding)
    finally:
        if library.transaction_status == pq.TransactionStatus.ACTIVE:
            connection.close()


def _waited(connection: Any) -> tuple[int, memoryview]:
    """Return the next row, and how long it is. At the end, the length is below 0. Raises the server's error."""
    from psycopg import generators

    row = connection.wait(generators.copy_from(connection.pgconn))
    return (len(row), memoryview(row)) if hasattr(row, "__len__") else (-1, memoryview(b""))


def columns_of(
    connection: Any, queries: Iterable[Any], kinds: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.bool_]]]:
    """Return what SELECTs give together, whose columns have these names and types, and where it is NULL; both without columns where there are no rows."""
    from psycopg import sql

    statements = (sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(query) for query in queries)
    parts = [
        fields(batch, list(kinds.values()))
        for statement in statements
        for batch in messages(connection, statement)
    ]
    joined = [concatenated(column) for column in zip(*parts, strict=True)]
    return {name: v for name, (v, _) in zip(kinds, joined, strict=False)}, {
        name: null for name, (_, null) in zip(kinds, joined, strict=False)
    }


def fields(batch: Batch, kinds: Sequence[str]) -> list[Values]:
    """Take rows apart into columns of these types ("category": texts in UTF-8)."""
    data, lengths = batch
    if (lengths == lengths[0]).all():
        even = _even(data.reshape(len(lengths), -1), kinds)
        if even is not None:
            return even
    return _uneven(data, np.cumsum(lengths) - lengths + 2, kinds)


def _even(rows: Bytes, kinds: Sequence[str]) -> list[Values] | None:
    """Take apart rows whose fields all have the first row's lengths; None where some do not."""
    at, out = 2, list[Values]()
    none = np.zeros(len(rows), bool)
    for kind in kinds:
        head = rows[0, at : at + 4]
        length = int(head.view(">i4")[0])
        if length < 0 or not (rows[:, at : at + 4] == head).all():
            return None
        at += 4
        field = rows[:, at : at + length]
        at += length
        if kind in DTYPES:
            out.append((_numbers(np.ascontiguousarray(field), kind), none))
        elif kind == "category":
            out.append((_texts(field), none))
        else:
            matrix = _matrix(field, kind) if length > 12 else None
            out.append(
                (
                    _arrays([cell.tobytes() for cell in field], kind) if matrix is None else matrix,
                    none,
                )
            )
    return out


def _texts(cells: Iterable[Bytes | None]) -> list[str | None]:
    return [None if cell is None else cell.tobytes().decode() for cell in cells]


def _numbers(field: Bytes, kind: str) -> npt.NDArray[Any]:
    """Return values of a fixed-length type from a contiguous matrix of bytes, one a row."""
    wanted = DTYPES[kind]
    return field.view(wanted.newbyteorder(">"))[:, 0].astype(wanted)


def _matrix(field: Bytes, kind: str) -> npt.NDArray[Any] | None:
    """Return arrays of one length, without NULL, counted from 1; None where they are others."""
    element = DTYPES[TYPES[kind].element or ""]
    # dimensions, whether there are NULLs, the element's type, elements, the lowest index
    head = field[0, :20].copy().view(">i4").tolist()
    count, step = head[3], 4 + element.itemsize
    if (
        (*head[:2], head[4]) != (1, 0, 1)
        or field.shape[1] != 20 + count * step
        or not (field[:, :20] == field[0, :20]).all()
    ):
        return None
    cells = field[:, 20:].reshape(len(field), count, step)[:, :, 4:]
    return np.ascontiguousarray(cells).view(element.newbyteorder(">"))[:, :, 0].astype(element)


def _uneven(data: Bytes, at: npt.NDArray[np.int64], kinds: Sequence[str]) -> list[Values]:
    """Take rows apart whose first field's length lies at `at`."""
    sizes, out = _anywhere(data, ">i4"), list[Values]()
    for kind in kinds:
        length = sizes[at].astype(np.int64)
        null = length < 0
        at = at + 4
        if kind in DTYPES:
            wanted = DTYPES[kind]
            numbers = _anywhere(data, wanted.newbyteorder(">"))
            # a NULL's place may lie behind the end; what stands there is not its value
            values: Any = numbers[np.minimum(at, len(numbers) - 1)].astype(wanted)
            values[null] = 0
        else:
            cells = [
                None if size < 0 else data[first : first + size]
                for first, size in zip(at.tolist(), length.tolist(), strict=True)
            ]
            if kind == "category":
                values = _texts(cells)
            else:
                values = _arrays([None if cell is None else cell.tobytes() for cell in cells], kind)
        out.append((values, null))
        at += np.maximum(length, 0)
    return out


def _anywhere(data: Bytes, dtype: Any) -> npt.NDArray[Any]:
    """Return the number that begins at each byte; zeros stand in where there are too few for one."""
    dtype = np.dtype(dtype)
    if len(data) < dtype.itemsize:
        data = np.zeros(dtype.itemsize, np.uint8)
    return np.ndarray((len(data) - dtype.itemsize + 1,), dtype, data.data, strides=(1,))


def _arrays(cells: Sequence[bytes | None], kind: str) -> Any:
    """Return arrays as a matrix where they are alike, else a list of arrays, None for NULL, and `Raw` for arrays of other shapes."""
    if len({len(cell) for cell in cells if cell is not None}) == 1 and None not in cells:
        field = np.frombuffer(b"".join(cell or b"" for cell in cells), np.uint8).reshape(
            len(cells), -1
        )
        if field.shape[1] > 12 and (matrix := _matrix(field, kind)) is not None:
            return matrix
    return [None if cell is None else _array(cell, kind) for cell in cells]


def _array(cell: bytes, kind: str) -> Any:
    element = TYPES[kind].element or ""
    dims, nulls = (int(v) for v in np.frombuffer(cell, ">i4", 2))
    if not dims:
        return np.zeros(0, DTYPES[element])
    shape, lower = np.frombuffer(cell, ">i4", 2 * dims, 12).reshape(dims, 2).astype(int).T
    if not nulls and dims == 1 and lower[0] == 1:
        matrix = _matrix(np.frombuffer(cell, np.uint8)[None], kind)
        assert matrix is not None
        return matrix[0]
    at, elements = 12 + 8 * dims, []
    for _ in range(int(np.prod(shape))):
        size = int(np.frombuffer(cell, ">i4", 1, at)[0])
        elements.append(
            None
            if size < 0
            else np.frombuffer(cell, DTYPES[element].newbyteorder(">"), 1, at + 4)[0].item()
        )
        at += 4 + max(size, 0)
    cells = np.empty(len(elements), object)
    cells[:] = elements
    return varlena(
        array_body(cells.reshape(shape), element, lower=[int(v) for v in lower]), short=False
    )


def array_lengths(values: Any) -> set[int]:
    """Return how many elements the arrays of a column have; those of other shapes, which end a run, are passed over."""
    if isinstance(values, np.ndarray):
        return {values.shape[1]}
    return {len(cell) for cell in values if isinstance(cell, np.ndarray)}


def one_length(lengths: Collection[int]) -> int | None:
    """Return the length that all arrays of a column have; None where there is none, or they have no elements."""
    return (next(iter(lengths)) or None) if len(lengths) == 1 else None


def concatenated(parts: Sequence[Values]) -> Values:
    """Join a column's values of several batches."""
    null = np.concatenate([part[1] for part in parts])
    values = [part[0] for part in parts]
    if all(isinstance(v, np.ndarray) for v in values) and len({v.shape[1:] for v in values}) == 1:
        return np.concatenate(values), null
    return [cell for part in values for cell in part], null
