"""Values as a heap tuple stores them: scalars, varlena headers, one-dimensional arrays.

Sources: PostgreSQL 15 `postgres.h` (varlena headers), `utils/array.h`, `access/common/heaptuple.c` (when a header is one byte
long).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .page import ARRAY, VARATT_EXTERNAL, VARATT_SHORT_MAX
from .schema import TYPES, Column, ColumnType

#: the NumPy type of each fixed-length PostgreSQL type
DTYPES: dict[str, np.dtype[Any]] = {
    "bool": np.dtype("?"),
    "int2": np.dtype("<i2"),
    "int4": np.dtype("<i4"),
    "int8": np.dtype("<i8"),
    "float4": np.dtype("<f4"),
    "float8": np.dtype("<f8"),
}


def dtype_of(kind: ColumnType) -> np.dtype[Any]:
    """Return the NumPy type of a type of fixed length; that of a type that is only stepped over is its bytes."""
    return DTYPES.get(kind.name) or np.dtype(f"V{kind.length}")


class Raw(bytes):
    """A variable-length value given as its very bytes, header included; it is aligned unless the header is one byte long.

    For values that the writer has no other words for: out of line, compressed, many-dimensional arrays, arrays with NULL
    elements.
    """

    @property
    def unaligned(self) -> bool:
        return bool(self) and bool(self[0] & 1)

    @property
    def external(self) -> bool:
        return self[:1] == bytes([VARATT_EXTERNAL])


def varlena(body: bytes, short: bool = True) -> Raw:
    """Put a header before `body`: one byte if `short` allows that and the value has at most 127 bytes with it, else four."""
    if short and len(body) + 1 <= VARATT_SHORT_MAX:
        return Raw(bytes([(len(body) + 1) << 1 | 1]) + body)
    return Raw(((len(body) + 4) << 2).to_bytes(4, "little") + body)


def array_body(
    elements: npt.ArrayLike | Sequence[Any], element: str, *, lower: int | Sequence[int] = 1
) -> bytes:
    """Return an array as it follows its varlena header.

    `elements` may have any number of dimensions and, as a list, hold None for NULL; an empty array has no dimensions at all.
    Each dimension starts at the index `lower`, or at its own where several are given.
    """
    cells = np.asarray(elements, dtype=object)
    dims = cells.shape if cells.size else ()
    present = np.array([cell is not None for cell in cells.flat], bool)
    header = (
        ARRAY.itemsize - 8 + 8 * len(dims)
    )  # fixed part, then a length and a lower bound for each dimension
    offset = 0
    bitmap = b""
    if not present.all():
        bitmap = np.packbits(present, bitorder="little").tobytes()
        offset = (
            (4 + header + len(bitmap) + 7) // 8 * 8
        )  # counted from the start of a 4-byte varlena header
        bitmap = bitmap.ljust(offset - 4 - header, b"\0")
    lowers = [lower] * len(dims) if isinstance(lower, int) else lower
    numbers = [len(dims), offset, TYPES[element].oid, *dims, *lowers]
    data = np.array([cell for cell in cells.flat if cell is not None], DTYPES[element])
    return np.array(numbers, "<i4").tobytes() + bitmap + data.tobytes()


def scalars(column: Column, values: Any) -> npt.NDArray[Any]:
    """Convert numbers to the column's NumPy type. Raises ValueError where an integer column cannot hold one of them.

    A column of a type that is only stepped over takes `bytes` of the type's length.
    """
    if column.storage.length > 0 and column.type not in DTYPES:
        wanted = dtype_of(column.storage)
        cells = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if any(not isinstance(cell, bytes) or len(cell) != wanted.itemsize for cell in cells):
            raise ValueError(
                f"column {column.name!r} is {column.type}; its values are {wanted.itemsize} bytes each"
            )
        return np.array(cells, wanted)
    wanted = DTYPES[TYPES[column.type].element or column.type]
    array = np.asarray(values)
    if array.dtype == wanted:
        return array
    if array.size and array.dtype.kind not in "biuf":
        raise ValueError(f"column {column.name!r} is {column.type}; its values are not numbers")
    if wanted.kind in "iu" and array.size:
        if array.dtype.kind == "f" and not np.array_equal(array, np.trunc(array)):
            raise ValueError(
                f"column {column.name!r} is {column.type}; its values are not whole numbers"
            )
        info = np.iinfo(wanted)
        # the bounds as Python integers: a float array would round 2**63 - 1 up
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise ValueError(
                f"column {column.name!r} is {column.type}; its values reach from {array.min()} to {array.max()}"
            )
    with np.errstate(over="ignore"):
        return array.astype(wanted)
