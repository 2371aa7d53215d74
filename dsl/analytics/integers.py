"""What kernels do with indices, in NumPy: integers, rows that are read, rows that are changed.

Integers are exact, of 64 bits. A place of a bag that a tuple leaves out is `ABSENT`, and so is whatever integers make of it:
its row is read as zeros and is not changed, and nothing holds for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...models.rows.integers import (
    ABSENT,
    ARITHMETIC,
    COMPARISONS,
    hashed,
    numbers,
    present,
    too_wide,
)
from ..core.operations import Elementwise, Structural

Array = np.ndarray

#: what `E.at[i]` can do with rows, by name
CHANGES: dict[str, Callable[..., Any]] = {
    "add": np.add.at,
    "subtract": np.subtract.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
    "set": lambda table, index, values: table.__setitem__(index, values),
}


def _holds(name: str) -> Callable[..., Array]:
    return lambda a, b: COMPARISONS[name](a, b).astype(np.float64)


def _exact(symbol: str) -> Callable[..., Array]:
    def meaning(*operands: Array) -> Array:
        if np.any(too_wide(symbol, *operands)):
            raise OverflowError(f"integer {symbol} gives what 64 bits do not hold")
        return ARITHMETIC[symbol](*operands)

    return meaning


def _hash(values: Sequence[Array], flags: Sequence[bool], attrs: dict[str, Any]) -> Array:
    return hashed(values[0], attrs["seed"], attrs["bytes"])


def _rows(values: Sequence[Array], flags: Sequence[bool], attrs: dict[str, Any]) -> Array:
    table, index = values
    _check(table, index, attrs["name"])
    absent = index == ABSENT
    rows = table[np.where(absent, 0, index)]
    rows[absent] = 0
    return np.asarray(rows)


def _check(table: Array, index: Array, name: str) -> None:
    """Raise IndexError for a row that there is not."""
    wrong = (index != ABSENT) & ((index < 0) | (index >= len(table)))
    if wrong.any():
        raise IndexError(f"{name} has rows 0 to {len(table) - 1}, not {int(index[wrong].flat[0])}")


_TWO = ("a", "b")
#: operations on integers by their operator
OPERATORS = {s: f"integer {s}" for s in (*ARITHMETIC, *COMPARISONS) if s != "negative"}
#: operations whose result is an integer
INTEGERS = frozenset(
    {"index", "hash", "integer", *(OPERATORS.get(symbol, symbol) for symbol in ARITHMETIC)}
)
_ALL: tuple[Elementwise | Structural, ...] = (
    *(Elementwise(OPERATORS[s], _exact(s), operands=_TWO) for s in ARITHMETIC if s in OPERATORS),
    *(Elementwise(OPERATORS[s], _holds(s), operands=_TWO) for s in COMPARISONS),
    Elementwise("negative", ARITHMETIC["negative"]),
    Elementwise("integer", lambda v: np.asarray(v).astype(np.int64)),
    Elementwise("number", lambda v: numbers(v).astype(np.float64)),
    Structural("hash", _hash),
    Structural("count", lambda v, flags, attrs: present(v[0]) * 1.0),
    Structural("rows", _rows, operands=("table", "index")),
)
#: what each operation does
MEANINGS = {operation.name: operation for operation in _ALL}


@dataclass(frozen=True)
class Change:
    """One change of rows for each of some tuples."""

    name: str
    index: Array  #: (tuples, …)
    values: Array  #: (tuples, …, columns)

    def broadcast(self, table: Array) -> tuple[Array, Array]:
        """Return the indices (tuples, places) and the values (tuples, places, *columns)."""
        index = self.index.reshape(len(self.index), -1)
        return index, self.values.reshape(*index.shape, *table.shape[1:])


def change_rows(table: Array, changes: Sequence[Change], model: str) -> None:
    """Change a table's rows one by one, in the order (tuple, order written, place in the bag).

    Raises IndexError for a row that there is not.
    """
    pairs = [change.broadcast(table) for change in changes]
    names = {change.name for change in changes}
    if len(names) == 1:
        joined = [np.concatenate(parts, axis=1) for parts in zip(*pairs, strict=True)]
        steps = [(changes[0].name, joined[0].ravel(), joined[1].reshape(-1, *table.shape[1:]))]
    else:
        steps = [
            (change.name, index[t], values[t])
            for t in range(len(pairs[0][0]))
            for change, (index, values) in zip(changes, pairs, strict=True)
        ]
    for name, index, values in steps:
        _check(table, index, model)
        present = index != ABSENT
        CHANGES[name](table, index[present], values[present])
