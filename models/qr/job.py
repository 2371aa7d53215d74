"""What goes into a refit and what comes out: windows, jobs, memos, fits.

A *row* is the bytes of a key in the group's window, order of keys. Column 0 of the design matrix is the constant 1 (the bias), column 1 + j is byte j
minus the group's offset j: an integer from -255 to 255. The *label* of a row is what the model predicts: its rank (how many rows lie before it) or,
where the host keeps gaps in its array, its slot. Numbers of the float32 kind are codes (`models.numerics`), integers are exact.
"""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..numerics.formats import Codes, float32
from .arith import predict

Rows = NDArray[np.uint8]
Integers = NDArray[np.int64]


class Method(StrEnum):
    """How the memo is kept: a triangular factor in float32, or the exact integer Gram matrix."""

    GIVENS = "givens"
    GRAM = "gram"


class Label(StrEnum):
    """What a row's label is: its rank among the rows, or the slot of the host's array (labels given, gaps allowed)."""

    RANK = "rank"
    SLOT = "slot"


@dataclass(frozen=True)
class Window:
    """Bytes `prefix` … `prefix + length - 1` of every key; a model over it has `columns` = length + 1 columns with the bias."""

    prefix: int
    length: int

    @property
    def columns(self) -> int:
        return self.length + 1


#: most rows of a group
ROWS_MAX = 1 << 23
#: bytes of a Gram entry: |entry| <= 255² · 2**23 rows < 2**39. Always so many, so that a group's growth changes no word's places
ENTRY_BYTES = 5


def row_stride(length: int) -> int:
    """Bytes from one row to the next, where rows lie in memory."""
    return max(4, 1 << (length - 1).bit_length())


def _indices() -> Integers:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Anchor:
    """What widened bounds start from: the model that the last pass over all rows saw, and its errors."""

    weights: Codes  #: float32 codes (n,): the anchor model
    #: bounds of label - prediction under the anchor model; err_min = 2**31 - 1: there never was a
    #: row
    err_min: int
    err_max: int
    #: the least prediction of the rows under the anchor model; says where a score may have been cut
    #: off at 0
    least: int
    #: uint8 (length,): the box that holds the rows
    low: Rows
    high: Rows


@dataclass(frozen=True)
class Exact:
    """Exact sums over a row set."""

    rows: int  #: how many
    #: int64 (n,): column sums and sums of squares; sums[0] = squares[0] = rows
    sums: Integers
    squares: Integers
    right_hand_side: Integers  #: int64 (n,): c = Aᵀb
    #: int64 (n, n), upper triangle, the rest 0: AᵀA (method `gram`), else None
    gram: Integers | None


@dataclass(frozen=True)
class Memo(Exact):
    """What a refit leaves for the next one: sums over the group's rows, and more. Opaque to the host, which stores it and hands it back."""

    #: what it is a memo of: `method`, `target`, `window`
    method: Method
    target: Label
    window: Window
    offsets: Rows  #: uint8 (length,): the group's fixed offsets
    epoch: int  #: counts the refits since the full one; the job must name the same number
    #: float32 codes (n,) and (n, n): AᵀA = uᵀ diag(d) u, u with a unit diagonal (method `givens`),
    #: else None
    d: Codes | None = None
    u: Codes | None = None
    anchor: Anchor | None = None  #: what widened bounds start from (target `slot`), else None


@dataclass(frozen=True)
class Job:
    """One refit of one group.

    `rows` is the row set *after* the changes; hardware reads of it only what its configuration needs. Without a memo the job is a full training and the lists
    of changes are ignored.
    """

    group: int  #: the group's number, which the result repeats
    #: the byte window and uint8 (length,) offsets; with a memo both must be the memo's
    window: Window
    offsets: Rows
    rows: Rows  #: uint8 (m, length): all rows in order. Not descending.
    #: int64 (m,): slots, ascending (target `slot`); None with `rank`
    labels: Integers | None = None
    #: int64: indices into `rows` of rows that the memo has not, ascending
    inserted: Integers = field(default_factory=_indices)
    #: uint8 (k, length): rows of the memo that are no longer there
    removed: Rows = field(default_factory=lambda: np.zeros((0, 0), dtype=np.uint8))
    #: int64 (k,): the slots that they had (target `slot`)
    removed_labels: Integers = field(default_factory=_indices)
    #: int64: indices into `rows` of old rows whose slot is another one now, ascending
    moved: Integers = field(default_factory=_indices)
    #: int64: the slots they had (target `slot`)
    moved_from: Integers = field(default_factory=_indices)
    memo: Memo | None = None  #: the last fit's
    epoch: int = 0  #: the epoch that the host believes the memo has
    #: target `slot`: the widest err_max - err_min that is published without a pass over all rows;
    #: -1: make the pass
    limit: int = 1 << 30

    @property
    def target(self) -> Label:
        return Label.RANK if self.labels is None else Label.SLOT

    def target_labels(self) -> Integers:
        """Labels of `rows`, int64 (m,): the slots, or how many rows lie before each."""
        return np.arange(len(self.rows)) if self.labels is None else self.labels


@dataclass(frozen=True)
class Fit:
    """What a refit publishes."""

    group: int  #: the job's
    weights: Codes  #: float32 codes (n,), bias first
    #: bool (n,): columns that have a weight; the others' were set to 0 by the rank rule
    mask: NDArray[np.bool_]
    #: every row has err_min <= label - prediction <= err_max. With no row: 1, 0.
    err_min: int
    err_max: int
    rescanned: bool  #: the bounds come from a pass over all rows
    memo: Memo  #: for the next job; its epoch is what that job must name

    @property
    def values(self) -> NDArray[np.float32]:
        """The weights as float32 numbers."""
        return np.asarray(float32.decode(self.weights), dtype=np.float32)

    def predict(self, rows: Rows) -> Integers:
        """Predicted labels of rows uint8 (m, length), int64 (m,), by the lookup's own arithmetic (`arith.predict`)."""
        return predict(self.weights, self.memo.offsets, rows)
