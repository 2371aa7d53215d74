"""Where a tuple's values lie: from table columns to the engine's lanes.

A *flat position* p is lane `p % lanes` of beat `p // lanes`. A vector starts on a fresh beat, so does each row of a matrix;
scalars fill lanes left over at the end of earlier beats before they open a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Integer(NamedTuple):
    """A flat position whose value is an integer, not a code."""

    position: int
    counts: int  #: how many integers it may be, from 0 on
    leaves: bool = False  #: other integers leave the tuple out; else they are errors
    #: what −1, a category that is not known, becomes; −1: it leaves the tuple out; `NUMBERS`: there
    #: are no categories
    unseen: int = -2


#: of `Integer.unseen`: there are no categories
NUMBERS = -2


@dataclass(frozen=True)
class Source:
    """Consecutive elements of one column that land on consecutive flat positions of a field."""

    column: int  #: attribute index in the schema
    first: int  #: index within an array column; 0 for a scalar column
    count: int
    position: int


@dataclass(frozen=True)
class Field:
    """One `Input` or `Output` variable of the kernel: `rows` × `cols` values (1 × 1: a scalar)."""

    name: str
    rows: int
    cols: int
    position: int  #: where row 0 begins
    stride: int  #: places from row to row


@dataclass(frozen=True)
class TupleLayout:
    """The engine's view of one tuple: beats of codes, and which column element fills which position."""

    lanes: int
    beats: int
    fields: tuple[Field, ...]
    sources: tuple[Source, ...]
    on_null: str = "error"  #: policy for NULL in a used column: "error" or "skip"
    integers: tuple[Integer, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TupleLayout:
        """Return what `asdict` gave, read back."""
        fields = tuple(Field(**field) for field in data["fields"])
        sources = tuple(Source(**source) for source in data["sources"])
        integers = tuple(Integer(*integer) for integer in data.get("integers", ()))
        return cls(data["lanes"], data["beats"], fields, sources, data["on_null"], integers)

    def field(self, name: str) -> Field:
        return next(f for f in self.fields if f.name == name)


def place(shapes: dict[str, tuple[int, int]], lanes: int) -> tuple[int, tuple[Field, ...]]:
    """Place fields of the given (rows, cols) on beats of `lanes`; return the number of beats (at least 1) and the fields."""
    beats = 0
    free: list[int] = []
    fields: dict[str, Field] = {}
    for name, (rows, cols) in shapes.items():
        if rows * cols == 1:
            continue
        stride = -(-cols // lanes) * lanes
        fields[name] = Field(name, rows, cols, beats * lanes, stride)
        for row in range(rows):
            start = beats * lanes + row * stride
            free += range(start + cols, start + stride)
        beats += rows * (stride // lanes)
    for name, (rows, cols) in shapes.items():
        if rows * cols != 1:
            continue
        if not free:
            free = list(range(beats * lanes, (beats + 1) * lanes))
            beats += 1
        fields[name] = Field(name, 1, 1, free.pop(0), lanes)
    return max(beats, 1), tuple(fields[name] for name in shapes)


def beats_of(shapes: Mapping[str, tuple[int, int]], lanes: int) -> int:
    """Return the number of beats that `place` returns."""
    sizes = shapes.values()
    beats = sum(rows * -(-cols // lanes) for rows, cols in sizes if rows * cols > 1)
    free = beats * lanes - sum(rows * cols for rows, cols in sizes if rows * cols > 1)
    scalars = sum(rows * cols == 1 for rows, cols in sizes)
    return max(1, beats + max(0, -(-(scalars - free) // lanes)))
