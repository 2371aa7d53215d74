"""The least cycles of a row unit, and what it waits for: each term is reached where nothing else binds, and waits add up to the time."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.memory import parse_memory
from penstock.models.memory.dealt import Deal
from penstock.models.memory.timing import Memory
from penstock.models.rows.bound import busiest_bank, row_terms
from penstock.models.rows.unit import Place, RowTable, RowUnitConfig
from penstock.models.rows.unit_cycles import RowUnitModel


class Free:
    """An engine that never makes the unit wait; `late`: but for so many cycles behind each batch."""

    def __init__(self, late: int = 0) -> None:
        self.late = late

    def through(self, cycle: int, ago: int) -> int:
        return cycle + self.late

    def writes(self, model: int, cycle: int) -> bool:
        return False


def config(columns: int, rows: int, lines: int, lanes: int = 4) -> RowUnitConfig:
    table = RowTable(("E",), (columns,), rows, lines)
    return RowUnitConfig((table,), (Place(0, 0, 0, False),), lanes, 32, 1, 1, 4, 8)


def ran(unit: RowUnitConfig, trace: np.ndarray, memory: Memory, late: int = 0) -> RowUnitModel:
    made = RowUnitModel(unit, memory.channel(), [0])
    for row in trace.tolist():
        made.pass_on(made.free, [row], 0, Free(late))
    return made


HITS = np.arange(4000) % 8
FAR = np.arange(1000) * 7 % 1000
ONE_BANK = np.arange(400) * 512  # each another DRAM row, all of one bank


@pytest.mark.parametrize(
    ("term", "unit", "trace", "memory"),
    [
        ("lookups", config(1, 8, 8), HITS, "latency=5,bytes=8"),
        ("channel", config(32, 1000, 8, 32), FAR, "latency=5,bytes=2"),
        ("lanes", config(32, 1000, 8, 1), FAR, "latency=5,bytes=8"),
        ("banks", config(1, 1 << 18, 8), ONE_BANK, "sdr-166"),
    ],
)
def test_each_term_is_reached(
    term: str, unit: RowUnitConfig, trace: np.ndarray, memory: str
) -> None:
    made = parse_memory(memory)
    terms = row_terms(unit, trace[:, None], [0], made, 1, Deal())
    found = ran(unit, trace, made)
    cycles = max(found.mover.arrival, found.free)
    assert max(terms._fields, key=lambda name: getattr(terms, name)) == term, terms
    assert max(terms) <= cycles <= 1.1 * max(terms), (terms, cycles)


def test_waits_are_all_there_is() -> None:
    """A lookup takes a cycle, one that finds no line one more; the first one three."""
    rng, unit = np.random.default_rng(1), config(16, 60, 8)
    for memory in ("latency=3,bytes=8", "latency=40,bytes=2", "ddr4-2400"):
        trace = rng.integers(0, 60, 300)
        found = ran(unit, trace, parse_memory(memory), late=5)
        waits = found.waits
        lookups = [waits[name] for name in ("tuples", "room", "lines", "rows")]
        assert found.lookups.through + 1 == sum(lookups) + 300 + found.counts.fetched
        assert waits["batches"] == 5 * (found.counts.fetched - 8) and not waits["written"]
        assert waits["tuples"] < 9 and waits["lines"] > 0 and found.late > 0
        assert waits["room"] + waits["rows"] > 0


def test_busiest_bank() -> None:
    assert busiest_bank(parse_memory("latency=5,bytes=8"), [0, 8], Deal()) is None
    memory = parse_memory("sdr-166")
    bank, times = busiest_bank(memory, [8 * row for row in ONE_BANK.tolist()] + [1024], Deal()) or (
        -1,
        0,
    )
    assert (bank, times) == (0, 400)
