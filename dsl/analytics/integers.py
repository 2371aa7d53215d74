"""What kernels do with indices, in NumPy: integers, rows that are read, rows that are changed.

Integers are exact, of 64 bits. A place of a bag that a tuple leaves out is `ABSENT`, and so is whatever integers make of it:
its row is read as zeros and is not changed, and nothing holds for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...models.rows.hashing import murmur3
from ..core.operations import Elementwise, Structural

__all__ = ["ABSENT", "CHANGES", "INTEGERS", "MEANINGS", "OPERATORS", "Change", "change_rows"]

Array = np.ndarray

ABSENT = int(np.iinfo(np.int64).min)

#: what `E.at[i]` can do with rows, by name
CHANGES: dict[str, Callable[..., Any]] = {
    "add": np.add.at,
    "subtract": np.subtract.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
    "set": lambda table, index, values: table.__setitem__(index, values),
}


def _integer(operation: Callable[..., Array]) -> Callable[..., Array]:
    def meaning(*operands: Array) -> Array:
        whole = [np.asarray(v).astype(np.int64) for v in operands]
        absent = np.logical_or.reduce(np.broadcast_arrays(*(v == ABSENT for v in whole)))
        return np.where(absent, ABSENT, operation(*whole))

    return meaning


def _holds(compare: Callable[..., Array]) -> Callable[..., Array]:
    def meaning(a: Array, b: Array) -> Array:
        present = (a != ABSENT) & (b != ABSENT)
        return (present & compare(a, b)).astype(np.float64)

    return meaning


def _hash(values: Sequence[Array], flags: Sequence[bool], attrs: dict[str, Any]) -> Array:
    found = murmur3(values[0], attrs["seed"], attrs["bytes"]).astype(np.int64)
    return np.where(values[0] == ABSENT, ABSENT, found)


def _rows(values: Sequence[Array], flags: Sequence[bool], attrs: dict[str, Any]) -> Array:
    table, index = values
    _check(table, index, attrs["name"])
    absent = index == ABSENT
    found = table[np.where(absent, 0, index)]
    found[absent] = 0
    return np.asarray(found)


def _check(table: Array, index: Array, name: str) -> None:
    """Raise IndexError for a row that there is not."""
    wrong = (index != ABSENT) & ((index < 0) | (index >= len(table)))
    if wrong.any():
        raise IndexError(f"{name} has rows 0 to {len(table) - 1}, not {int(index[wrong].flat[0])}")


_TWO = ("a", "b")
_DIVIDE = {"//": np.floor_divide, "%": np.remainder}
_ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, **_DIVIDE}
_COMPARISONS = {
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
#: operations on integers by their operator
OPERATORS = {symbol: f"integer {symbol}" for symbol in (*_ARITHMETIC, *_COMPARISONS)}
#: operations whose result is an integer
INTEGERS = frozenset(
    {"index", "hash", "integer", "negative", *(OPERATORS[symbol] for symbol in _ARITHMETIC)}
)
_ALL: tuple[Elementwise | Structural, ...] = (
    *(Elementwise(OPERATORS[s], _integer(f), operands=_TWO) for s, f in _ARITHMETIC.items()),
    *(Elementwise(OPERATORS[s], _holds(f), operands=_TWO) for s, f in _COMPARISONS.items()),
    Elementwise("negative", _integer(np.negative)),
    Elementwise("integer", lambda v: np.asarray(v).astype(np.int64)),
    Elementwise("number", lambda v: np.where(v == ABSENT, 0.0, v)),
    Structural("hash", _hash),
    Structural("count", lambda v, flags, attrs: np.sum(v[0] != ABSENT, axis=-1) * 1.0),
    Structural("rows", _rows, operands=("table", "index")),
)
#: what each operation does
MEANINGS = {operation.name: operation for operation in _ALL}


@dataclass(frozen=True)
class Change:
    """One change of rows for each of some tuples: `index` (tuples, …), `values` (tuples, …, columns)."""

    name: str
    index: Array
    values: Array

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
