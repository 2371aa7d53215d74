"""Columns that become numbers though they are none: which, and how categories are numbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

import numpy as np

from ...models.heap.schema import Schema
from .errors import SourceError, table_error

#: categories of one column, at most
MOST_CATEGORIES = 4096


def pairs(query: str) -> list[tuple[str, str]]:
    """Take the query of an address apart into keys and values, as they stand there. An & that no KEY= follows is part of a value."""
    parts = re.split(r"&(?=[A-Za-z_]\w*=)", query)
    cut = [part.strip("&").partition("=") for part in parts]
    return [(key, value) for key, _, value in cut if key]


def asked(value: str) -> str:
    """Return what a value of ours means: what has white space, which no encoded text has, is taken as it was typed."""
    return value if re.search(r"\s", value) else unquote_plus(value)


@dataclass(frozen=True)
class Features:
    """What was asked for of a table's columns."""

    named: tuple[str, ...] = ()  #: dates, times, enums and texts that are to become numbers
    one_hot: tuple[str, ...] = ()  #: those among enums and texts that become one array each
    #: schema of a design that is to run on the table: its columns say the same, and which numbers
    #: their categories have
    like: Schema | None = None
    #: columns that choose rows of models, if they are there: texts and dictionaries among them are
    #: categories, however many; arrays are of integers, of any length
    indices: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()  #: columns of integers that are categories
    #: an index whose category the design does not know is "error", or "code", which is −1
    unseen: str = "error"
    #: by column that a kernel takes by name: it takes all numbers of a table where the column is no
    #: array; None: it takes all columns
    used: Mapping[str, bool] | None = None

    @classmethod
    def parse(cls, query: str) -> Features:
        """Take `features=` and `onehot=` out of the query of an address. Other keys are passed over."""
        items = pairs(query)
        named, one_hot = (
            tuple(
                name.strip()
                for key, value in items
                if key == wanted
                for name in asked(value).split(",")
                if name.strip()
            )
            for wanted in ("features", "onehot")
        )
        return cls(named, one_hot)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that were named."""
        return (*self.named, *self.one_hot)

    def _of_design(self) -> dict[str, Any]:
        if self.like is None:
            return {}
        return {c.name: c for c in self.like.columns if c.is_numeric or c.name in self.indices}

    def asked(self, column: str) -> bool:
        """Whether a column is to become a number whatever its type."""
        return column in self.columns or column in self.indices or column in self._of_design()

    def categorical(self, column: str) -> bool:
        """Whether integers are categories."""
        return column in self.categories or (
            column in self.indices and self.labels(column) is not None
        )

    def labels(self, column: str) -> tuple[str, ...] | None:
        """The labels that a design has for a column; None where it has none, or there is no design."""
        design_column = self._of_design().get(column)
        return None if design_column is None else design_column.labels

    def places(self, column: str) -> bool:
        """Whether a column of categories becomes an array with one place for each of them."""
        design_column = self._of_design().get(column)
        return column in self.one_hot or (design_column is not None and design_column.is_array)

    def uses(self, columns: Mapping[str, str]) -> frozenset[str]:
        """Return which of a table's columns, with their types in SQL, a run takes: all where a kernel's own are not all there."""
        if self.like is not None:
            return frozenset((*self._of_design(), *self.columns))
        used = self.used
        if used is None or not all(
            n in columns and (columns[n].endswith("[]") or not array) for n, array in used.items()
        ):
            return frozenset(columns)
        return frozenset((*used, *self.columns))

    def check(self, name: str, columns: Iterable[str]) -> None:
        """Raise SourceError where a column was named that the table `name` does not have."""
        names = list(columns)
        for wanted in self.columns:
            if wanted not in names:
                raise table_error(
                    f"{name} has no column {wanted!r}", f"it has {', '.join(names)[:200]}"
                )


NO_FEATURES = Features()


@dataclass(frozen=True)
class Numbered:
    """A column of categories as numbers: the type here, the values (one-hot: a list with None for
    NULL where there is any), what was done in words, the labels of the numbers."""

    type: str
    values: Any
    how: str
    labels: tuple[str, ...]


def number_categories(
    column: str,
    cells: Sequence[str | None],
    features: Features,
    own_order: tuple[Sequence[str], str] | None = None,
) -> Numbered:
    """Number a column's texts.

    * `cells`: the texts, None for NULL.
    * `own_order`: the labels of the column's type in their order, and what that order is called in words;
      without it the texts are ordered by their code points.

    Raises SourceError for too many categories, and for one that the design does not know.
    """
    of_design = features.labels(column)
    if of_design is not None:
        labels, order = of_design, "as the design numbers them"
    elif own_order is not None:
        labels, order = tuple(own_order[0]), own_order[1]
    else:
        labels = tuple(sorted({cell for cell in cells if cell is not None}))
        order = "in the order of their code points"
    if len(labels) > MOST_CATEGORIES and column not in features.indices:
        raise table_error(
            f"column {column!r} has {len(labels):,} different values; {MOST_CATEGORIES:,} categories are the most",
            "is it a category at all? Group its values first: a query can (?query=SELECT …)",
        )
    numbers = {label: number for number, label in enumerate(labels)}
    if column in features.indices:
        codes = _codes(column, cells, numbers, features.unseen)
        return Numbered("int4", codes, f"categories numbered from 0 {order}", labels)
    try:
        codes = np.fromiter(
            (0 if cell is None else numbers[cell] for cell in cells), np.int32, len(cells)
        )
    except KeyError as missing:
        raise SourceError(
            f"column {column!r} has the category {missing.args[0]!r}, which the design does not know",
            f"it was compiled for {', '.join(labels)[:200]}; compile the kernel for this table",
            code="E706",
        ) from None
    if not features.places(column):
        return Numbered("int4", codes, f"categories numbered from 0 {order}", labels)
    matrix = np.zeros((len(codes), len(labels)), np.float32)
    matrix[np.arange(len(codes)), codes] = 1
    values: Any = matrix
    if None in cells:
        values = [None if cell is None else row for row, cell in zip(matrix, cells, strict=True)]
    return Numbered("float4[]", values, f"one place for each category, {order}", labels)


def _codes(
    column: str, cells: Sequence[str | None], numbers: Mapping[str, int], unseen: str
) -> np.ndarray:
    """Return the numbers of an index's categories, 0 for NULL, −1 for one that the design does not know. Raises SourceError (E849)."""
    places = (0 if cell is None else numbers.get(cell, -1) for cell in cells)
    codes = np.fromiter(places, np.int32, len(cells))
    new = np.nonzero(codes < 0)[0]
    if len(new) and unseen == "error":
        row = int(new[0])
        raise SourceError(
            f"row {row + 1:,}, column {column!r}: the category {cells[row]!r} is not among the {len(numbers):,} of the design",
            "--on-unseen skip leaves such rows out, --on-unseen last takes the model's last row; or compile the kernel for this table",
            code="E849",
        )
    return codes
