"""Memory of the engine of fits over numeric columns, as the host writes and reads it.

Little-endian, each part on a bus word of its own (`pack_totals`, `unpack_answer`):

* totals: the offsets of features and label, then their units: bits 0 to 11 the shift, signed, from bit 12 on the code of what rows
  older than the column hold; then the sums over a aᵀ (`columns`), by columns of the upper triangle; 8 bytes each.
* answer: new totals, which the next fit goes on from where they lie; then the mask of columns that have a weight (8 bytes), and weights, float32 codes of
  4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..numerics.formats import Codes
from ..numerics.limbs import SHIFT_BITS
from ..strider.config import WalkConfig
from ..strider.program import missing_codes
from .columns import Totals
from .job import Integers
from .table_config import Segment, TableFitPlan

__all__ = ["Places", "memory_for", "pack_totals", "places", "registers", "unpack_answer"]

#: bursts do not cross such a boundary: what begins at one costs the bursts that the cycle model counts
_PIECE = 4096


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
    return _up(places(engine).pages + pages * engine.walk.schema.page_size, _PIECE)


def registers(totals: int, answer: int, segments: Sequence[Segment]) -> dict[str, int]:
    """Return the registers of a run: the rows that come, those that go."""
    found = {"totals": totals, "answer": answer}
    for name, segment in zip(("come", "go"), segments, strict=True):
        found |= {f"{name}_{field}": value for field, value in asdict(segment).items()}
    return found


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
    found = np.zeros(walk.positions, dtype=np.int64)
    for source in walk.layout.sources:
        codes = missing_codes(walk, source.column)
        if codes is not None:
            first = source.first if walk.schema.columns[source.column].is_array else 0
            found[source.position : source.position + source.count] = codes[first:][: source.count]
    return found


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
