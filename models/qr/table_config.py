"""The engine of fits over numeric columns: rows from Striders into exact sums, then one solver. Its units, and its memory as the host writes and reads it.

A run is one fit: the sums of the fit before are read, rows that come are added, rows that go are taken, the new sums and the weights are written. The
exact cycles are in `table_cycles`. Memory is little-endian, each part on a bus word of its own (`pack_totals`, `unpack_answer`):

* totals: the offsets of features and label, then their units: bits 0 to 11 the shift, signed, from bit 12 on the code of what rows
  older than the column hold; then the sums over a aᵀ (`columns`), by columns of the upper triangle; 8 bytes each.
* answer: new totals, which the next fit goes on from where they lie; then the mask of columns that have a weight (8 bytes), and weights, float32 codes of
  4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.formats import Codes
from ..numerics.limbs import SHIFT_BITS
from ..strider.config import PortConfig, WalkConfig
from ..strider.layout import Source, TupleLayout
from ..strider.program import missing_codes, port_config
from .columns import Columns, Totals
from .config import FitPlan
from .job import Integers

#: bytes of a number in memory
UNIT_BYTES = 8
#: words of the answer between the sums and memory
AHEAD = 8
#: bursts do not cross such a boundary: what begins at one costs the bursts that the cycle model counts
_PIECE = 4096


@dataclass(frozen=True)
class TableFitPlan:
    """The hardware of a fit: `columns`, what the Striders walk, the memory port, and how many Striders, page buffers and slots there are."""

    columns: Columns
    walk: WalkConfig
    bus_bytes: int = 64
    walkers: int = 1
    buffers: int = 2
    slots: int = 4
    #: page slots that the host fills during a run (`models.ring`); 0: pages lie in memory
    ring: int = 0

    def __post_init__(self) -> None:
        if self.bus_bytes < UNIT_BYTES:
            raise ValueError(f"a sum has {UNIT_BYTES} bytes, the memory port {self.bus_bytes}")
        if (self.walk.layout.lanes, self.walk.layout.beats) != (
            self.columns.n,
            1,
        ) or self.walk.format != self.columns.format:
            raise ValueError(
                "the Striders must give a row's features and label in one beat, in the columns' limbs"
            )

    @cached_property
    def port(self) -> PortConfig:
        """The Striders, with their program built in."""
        return _port(self.walk, self.bus_bytes, self.walkers, self.buffers, self.slots, self.ring)

    @cached_property
    def solver(self) -> FitPlan:
        n = max(4, self.columns.n)
        return FitPlan(n_max=n, contexts=1, jobs=1, bus_bytes=self.bus_bytes)

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("bus_bytes", "walkers", "buffers", "slots")},
            "columns": self.columns.to_json(),
            **self.walk.to_json(),
            **({"ring": self.ring} if self.ring else {}),
        }

    def structure(self) -> dict[str, Any]:
        """Return `to_json` without the table's name, on which no hardware depends."""
        return {**self.to_json(), "schema": self.walk.schema.structure()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableFitPlan:
        columns = Columns(**data["columns"])
        shape = {name: data[name] for name in ("bus_bytes", "walkers", "buffers", "slots")}
        walk = WalkConfig.from_json(data, columns.format)
        return cls(columns, walk, **shape, ring=data.get("ring", 0))

    @property
    def units(self) -> int:
        """Numbers in a bus word."""
        return self.bus_bytes // UNIT_BYTES

    @property
    def totals_words(self) -> int:
        return -(-(self.head + self.columns.products) // self.units)

    @property
    def head(self) -> int:
        """Numbers before the sums: an offset and a unit of each column."""
        return 2 * self.columns.n

    @cached_property
    def inserts(self) -> bool:
        """Whether rows older than a column hold a value there that pages do not store."""
        schema = self.walk.schema
        return any(schema.columns[k].missing is not None for k in self.walk.used)

    @property
    def answer_words(self) -> int:
        return self.totals_words + -(-(1 + -(-self.columns.n // 2)) // self.units)


@lru_cache(maxsize=64)
def _port(
    walk: WalkConfig, bus_bytes: int, striders: int, buffers: int, slots: int, ring: int
) -> PortConfig:
    """Return the port of all plans that differ behind it."""
    sizes = {"striders": striders, "buffers": buffers, "slots": slots}
    return port_config(walk, bus_bytes, **sizes, lean=True, ring=ring)


def layout(columns: Sequence[tuple[int, int]], on_null: str = "error") -> TupleLayout:
    """Return where a row's values go: `columns` are attribute and element of each feature, then of the label."""
    sources = tuple(Source(column, element, 1, k) for k, (column, element) in enumerate(columns))
    return TupleLayout(len(columns), 1, (), sources, on_null)


@dataclass(frozen=True)
class Segment:
    """Rows that come or go.

    Rows before them are walked and left alone; those behind them are not walked, and the last row is in the last page.
    """

    address: int = 0  #: the first byte of their pages, or of the ring through which these come
    pages: int = 0
    skip: int = 0  #: rows before them
    rows: int = 0
    block: int = 0  #: the first page's number


@dataclass(frozen=True)
class Places:
    """Addresses: two answers, of which the next fit's totals are one and its answer the other, and the first page."""

    answers: tuple[int, int]
    pages: int


def places(engine: TableFitPlan) -> Places:
    """Return where things lie in a memory that begins at address 0, packed as closely as bursts allow."""
    answer = _up(engine.answer_words * engine.bus_bytes, _PIECE)
    page = max(_PIECE, engine.walk.schema.page_size)
    return Places((0, answer), _up(2 * answer, page))


def memory_for(engine: TableFitPlan, pages: int) -> int:
    """Return the bytes of memory, a multiple of 4096, that fits over so many pages take at `places`."""
    return _up(places(engine).pages + (engine.ring or pages) * engine.walk.schema.page_size, _PIECE)


def registers(totals: int, answer: int, segments: Sequence[Segment]) -> dict[str, int]:
    """Return the registers of a run: the rows that come, those that go."""
    numbers = {"totals": totals, "answer": answer}
    for name, segment in zip(("come", "go"), segments, strict=True):
        numbers |= {f"{name}_{field}": value for field, value in asdict(segment).items()}
    return numbers


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def pack_totals(totals: Totals, engine: TableFitPlan) -> NDArray[np.uint8]:
    """Return the totals' bytes, in whole bus words."""
    memory = np.zeros(engine.totals_words * engine.units, dtype="<i8")
    n, head, products = engine.columns.n, engine.head, engine.columns.products
    unit = totals.shifts & (1 << SHIFT_BITS) - 1
    if engine.inserts:
        unit |= _missing(replace(engine.walk, format=totals.format)) << SHIFT_BITS
    memory[:n], memory[n:head] = totals.offsets, unit
    columns, rows = np.tril_indices(len(totals.sums))
    memory[head : head + products] = totals.sums[rows, columns]
    return memory.view(np.uint8)


def _missing(walk: WalkConfig) -> Integers:
    """The codes of what rows older than a column hold there, by flat position; 0 where that is nothing."""
    fills = np.zeros(walk.positions, dtype=np.int64)
    for source in walk.layout.sources:
        codes = missing_codes(walk, source.column)
        if codes is not None:
            first = source.first if walk.schema.columns[source.column].is_array else 0
            fills[source.position : source.position + source.count] = codes[first:][: source.count]
    return fills


def unpack_answer(
    memory: NDArray[np.uint8], engine: TableFitPlan
) -> tuple[Totals, Codes, NDArray[np.bool_]]:
    """Return the new totals, the weights' codes and the mask of an answer's bytes."""
    n, head, products = engine.columns.n, engine.head, engine.columns.products
    numbers = np.frombuffer(memory[: engine.answer_words * engine.bus_bytes].tobytes(), dtype="<i8")
    sums = np.zeros((engine.columns.factors,) * 2, dtype=np.int64)
    columns, rows = np.tril_indices(engine.columns.factors)
    sums[rows, columns] = numbers[head : head + products]
    result = numbers[engine.totals_words * engine.units :]
    mask = (int(result[0]) >> np.arange(n) & 1).astype(bool)
    unit = 64 - SHIFT_BITS
    shifts = numbers[n:head].astype(np.int64) << unit >> unit
    totals = Totals(engine.columns, shifts, numbers[:n].astype(np.int64), sums)
    return totals, result[1:].view("<u4")[:n].astype(np.int64), mask
