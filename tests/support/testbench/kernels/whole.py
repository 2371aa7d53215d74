"""Indices in `meaning`: plain Python integers, None for a place of a bag that is left out, and what is done to rows by them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import murmurhash3_32

__all__ = ["LINE", "Whole", "do"]

#: a line that changes rows: model, index, sign, value
LINE = re.compile(r"(\w+)\[(.+?)\] (\+=|-=|max=|min=|<-) (.+)")
_DO = {"+=": "add", "-=": "sub", "max=": "max", "min=": "min"}


class Whole:
    """One integer, or those of a bag in a list; `wide`: its column has 8 bytes; `known`: it is not of another tuple's pass."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, meaning: Any, cells: Any, wide: bool = False) -> None:
        self.meaning, self.cells, self.wide = meaning, cells, wide

    def _with(self, name: str, other: Any, turned: bool) -> tuple[Any, bool]:
        """Return what an operator makes of each place, None where one side is left out."""
        theirs, wide = (
            (other.cells, other.wide) if isinstance(other, Whole) else (_ints(other), False)
        )
        mine = self.cells
        many = [v for v in (mine, theirs) if isinstance(v, list)]
        places = len(many[0]) if many else 1
        apply = getattr(operator, name)
        found = []
        for n in range(places):
            a, b = (v[n] if isinstance(v, list) else v for v in (mine, theirs))
            pair = (b, a) if turned else (a, b)
            found.append(None if a is None or b is None else apply(*pair))
        return (found if many else found[0]), self.wide or wide

    def present(self) -> int:
        return sum(cell is not None for cell in self.cells)

    def hashed(self, seed: int) -> Whole:
        kind = np.int64 if self.wide else np.int32
        one = lambda v: None if v is None else murmurhash3_32(kind(v).tobytes(), int(seed))
        cells = [one(v) for v in self.cells] if isinstance(self.cells, list) else one(self.cells)
        return Whole(self.meaning, cells, self.wide)

    def rows(self, codes: Any, zero: Any) -> Any:
        """Return the rows of a table; a row of zeros for what is left out."""
        nothing = np.empty(codes.shape[1:], object)
        nothing[...] = zero
        pick = lambda v: nothing[()] if v is None else codes[_place(v, codes)]
        if not isinstance(self.cells, list):
            found = np.empty(codes.shape[1:], object)
            found[...] = pick(self.cells)
            return found
        found = np.empty((len(self.cells), *codes.shape[1:]), object)
        for n, cell in enumerate(self.cells):
            found[n] = pick(cell)
        return found


def _place(row: int, codes: Any) -> int:
    assert 0 <= row < len(codes), f"row {row} of {len(codes)}"
    return row


def _ints(value: Any) -> Any:
    array = np.asarray(value)
    return int(array) if array.ndim == 0 else [int(v) for v in array]


def _arithmetic(name: str, turned: bool) -> Callable[..., Any]:
    def apply(a: Whole, b: Any) -> Whole:
        b = b if isinstance(b, Whole) or not hasattr(b, "meaning") else b.meaning.integer(b)
        if a.cells is NotImplemented or getattr(b, "cells", 0) is NotImplemented:
            return Whole(a.meaning, NotImplemented)
        return Whole(a.meaning, *a._with(name, b, turned))

    return apply


def _comparison(name: str) -> Callable[..., Any]:
    def apply(a: Whole, b: Any) -> Any:
        if a.cells is NotImplemented:
            return a.meaning.unknown()
        cells, _ = a._with(name, b, False)
        truth = [bool(v) for v in cells] if isinstance(cells, list) else bool(cells)
        return a.meaning.value(np.asarray(truth, np.float64))

    return apply


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(Whole, f"__{_name}__", _arithmetic(_name, False))
    setattr(Whole, f"__r{_name}__", _arithmetic(_name, True))
for _name in ("lt", "gt", "le", "ge", "eq", "ne"):
    setattr(Whole, f"__{_name}__", _comparison(_name))


def do(
    arithmetic: Any, models: dict[str, Any], changes: Sequence[tuple[str, Whole, str, Any]]
) -> None:
    """Change rows one by one; `changes`: of all tuples of a batch, in order (model, index, sign, codes)."""
    for model, index, sign, codes in changes:
        table = models[model]
        many = isinstance(index.cells, list)
        cells = index.cells if many else [index.cells]
        want = (len(cells), *table.shape[1:]) if many else table.shape[1:]
        values = np.broadcast_to(codes, want).reshape(len(cells), *table.shape[1:])
        for cell, value in zip(cells, values, strict=True):
            if cell is None:
                continue
            at = _place(cell, table)
            if sign == "<-":
                table[at] = value
            else:
                apply = np.frompyfunc(getattr(arithmetic, _DO[sign]), 2, 1)
                table[at] = apply(table[at], value)
