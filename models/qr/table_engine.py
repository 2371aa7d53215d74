"""The engine of fits over numeric columns: rows from Striders into exact sums, then one solver. Its memory, its registers and its exact cycles.

A run is one fit: the sums of the fit before are read, rows that come are added, rows that go are taken, the new sums and the weights are written.

In memory, little-endian, each part on a bus word of its own (`pack_totals`, `unpack_answer`):

* totals: the offsets of features and label, then the sums over a aᵀ, a = (1, features, label), by columns of the upper triangle; 8 bytes each.
* answer: new totals; then the mask of columns that have a weight (8 bytes), and weights, float32 codes of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..heap.schema import Schema
from ..memory.bursts import Reader, Writer
from ..memory.timing import Fixed as Timing
from ..numerics.formats import Codes
from ..shell import Counter, EngineRegister, Monitor, RegisterMap
from ..strider.config import PortConfig, WalkConfig
from ..strider.costs import Costs
from ..strider.cycles import PortModel
from ..strider.layout import Source, TupleLayout
from ..strider.program import port_config
from .blocks import Solver
from .columns import Columns, Solution, Totals
from .config import Config
from .cycles import Bound
from .schedule import ADD, CONVERT, DIV, MUL, STEP
from .shell import ADDRESS_BITS

__all__ = ["AHEAD", "ANSWER", "PAGES", "TOTALS", "UNIT_BYTES", "Segment", "TableEngine", "bound", "layout", "pack_answer", "pack_totals", "register_map", "run",
           "unpack_answer", "words_read"]

#: bytes of a number in memory
UNIT_BYTES = 8
#: where things lie in memory in a simulation: addresses of totals, answer and the first page
TOTALS, ANSWER, PAGES = 0x0100_0000, 0x0200_0000, 0x1_0000_0000
#: words of the answer between the sums and memory
AHEAD = 8
#: cycles from a number's choice to where it is in a word, and where its conversion begins
GATHER, CHOOSE = 3, 2


@dataclass(frozen=True)
class TableEngine:
    """The hardware of a fit: `columns`, what the Striders walk, the memory port, and how many Striders, page buffers and slots there are."""

    columns: Columns
    walk: WalkConfig
    bus_bytes: int = 64
    walkers: int = 1
    buffers: int = 2
    slots: int = 4

    def __post_init__(self) -> None:
        if self.bus_bytes < UNIT_BYTES:
            raise ValueError(f"a sum has {UNIT_BYTES} bytes, the memory port {self.bus_bytes}")
        if (self.walk.layout.lanes, self.walk.layout.beats) != (self.columns.n, 1) or self.walk.format != self.columns.format:
            raise ValueError("the Striders must give a row's features and label in one beat, in the columns' format")

    @cached_property
    def port(self) -> PortConfig:
        """The Striders, with their program built in."""
        return port_config(self.walk, self.bus_bytes, walkers=self.walkers, buffers=self.buffers, slots=self.slots, lean=True)

    @cached_property
    def solver(self) -> Config:
        n = max(4, self.columns.n)
        return Config(n_max=n, lanes=n, contexts=1, jobs=1, bus_bytes=self.bus_bytes)

    def to_json(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in ("bus_bytes", "walkers", "buffers", "slots")}, "columns": self.columns.to_json(),
                "schema": self.walk.schema.to_json(), "layout": asdict(self.walk.layout), "visibility": self.walk.visibility}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableEngine:
        columns, said = Columns(**data["columns"]), data["layout"]
        placed = TupleLayout(said["lanes"], said["beats"], (), tuple(Source(**source) for source in said["sources"]), said["on_null"])
        walk = WalkConfig(Schema.from_json(data["schema"]), placed, columns.format, data["visibility"])
        return cls(columns, walk, *(data[name] for name in ("bus_bytes", "walkers", "buffers", "slots")))

    @property
    def units(self) -> int:
        """Numbers in a bus word."""
        return self.bus_bytes // UNIT_BYTES

    @property
    def totals_words(self) -> int:
        return -(-(self.columns.n + self.columns.products) // self.units)

    @property
    def answer_words(self) -> int:
        return self.totals_words + -(-(1 + -(-self.columns.n // 2)) // self.units)


def layout(columns: Sequence[tuple[int, int]], on_null: str = "error") -> TupleLayout:
    """Return where a row's values go: `columns` are attribute and element of each feature, then of the label."""
    return TupleLayout(len(columns), 1, (), tuple(Source(attribute, element, 1, k) for k, (attribute, element) in enumerate(columns)), on_null)


@dataclass(frozen=True)
class Segment:
    """Rows that come or go: they lie in `pages` pages from the byte `address` on, `rows` of them behind the first `skip`; `block`: the first page's number.

    Rows before them are walked and left alone; those behind them are not walked, and the last row is in the last page (or there are fewer than `rows`).
    """

    address: int = 0
    pages: int = 0
    skip: int = 0
    rows: int = 0
    block: int = 0


def register_map(design: int = 0) -> RegisterMap:
    """Return the engine's register map: totals and answer are aligned to the bus, pages to their size."""
    made = [EngineRegister("totals", ADDRESS_BITS, "the sums of the fit before"), EngineRegister("answer", ADDRESS_BITS, "where new sums and weights go")]
    for name, what in (("come", "come"), ("go", "go")):
        made += [EngineRegister(f"{name}_address", ADDRESS_BITS, f"the first page of the rows that {what}"),
                 EngineRegister(f"{name}_pages", 32, "how many pages; 0: none"), EngineRegister(f"{name}_skip", 32, "rows before them"),
                 EngineRegister(f"{name}_rows", 32, "how many rows"), EngineRegister(f"{name}_block", 32, "the first page's number, for errors")]
    return RegisterMap(made, [Counter("rows", "rows added or taken"), Counter("left", "rows of the same pages left alone"),
                              Counter("held", "cycles in which a row waited for the sums", progress=False)], [Monitor("tuples"), Monitor("words")], design)


def pack_totals(totals: Totals, engine: TableEngine) -> NDArray[np.uint8]:
    """Return the totals' bytes, in whole bus words."""
    memory = np.zeros(engine.totals_words * engine.units, dtype="<i8")
    n, products = engine.columns.n, engine.columns.products
    memory[:n], memory[n:n + products] = totals.offsets, _packed(totals.sums)
    return memory.view(np.uint8)


def unpack_answer(memory: NDArray[np.uint8], engine: TableEngine) -> tuple[Totals, Codes, NDArray[np.bool_]]:
    """Return the new totals, the weights' codes and the mask of an answer's bytes."""
    n, products = engine.columns.n, engine.columns.products
    numbers = np.frombuffer(memory[:engine.answer_words * engine.bus_bytes].tobytes(), dtype="<i8")
    sums = np.zeros((n + 1, n + 1), dtype=np.int64)
    columns, rows = np.tril_indices(n + 1)
    sums[rows, columns] = numbers[n:n + products]
    result = numbers[engine.totals_words * engine.units:]
    mask = (int(result[0]) >> np.arange(n) & 1).astype(bool)
    return Totals(numbers[:n].astype(np.int64), int(sums[0, 0]), sums), result[1:].view("<u4")[:n].astype(np.int64), mask


def pack_answer(totals: Totals, solution: Solution, engine: TableEngine) -> NDArray[np.uint8]:
    """Return the bytes that the hardware writes for these."""
    result = np.zeros((engine.answer_words - engine.totals_words) * engine.units, dtype="<i8")
    result[0] = np.array([sum(int(kept) << k for k, kept in enumerate(solution.mask))], dtype="<u8").view("<i8")[0]
    result[1:].view("<u4")[:engine.columns.n] = solution.weights
    return np.concatenate([pack_totals(totals, engine), result.view(np.uint8)])


def _packed(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """The upper triangle by columns."""
    columns, rows = np.tril_indices(len(sums))
    return sums[rows, columns]


def run(engine: TableEngine, segments: Sequence[tuple[Segment, Costs | None]], memory: Timing, *, totals: int = 0, answer: int = 0) -> int:
    """Return the exact cycles of a run: rows that come, then rows that go, each with what walking their pages costs (None: no pages).

    Pages are free of errors. `totals`, `answer`: addresses. Cycle 0 is the one in which the engine's `start` is high.
    """
    reader = Reader(memory, engine.bus_bytes)
    now = _loaded(engine, reader, totals)
    for segment, costs in segments:
        now = _walked(engine, segment, costs, reader, now) if segment.pages and costs is not None else now + 1
    return _written(engine, memory, now + 1, answer)


def words_read(engine: TableEngine, segments: Sequence[Segment]) -> int:
    """Return the bus words that a run reads."""
    return engine.totals_words + engine.port.words_per_page * sum(segment.pages for segment in segments)


def bound(engine: TableEngine, segments: Sequence[Segment], memory: Timing) -> Bound:
    """Return the least cycles of such a run.

    memory: words over words a cycle, the busier direction. sums: rows over rows a cycle. recurrence: the memory's latency for totals, pages and answer, and in
    the solver from each column's pivot to the next one, and both solves.
    """
    interval, rows = memory.interval(engine.bus_bytes), sum(segment.rows for segment in segments)
    chain = 3 * memory.latency + engine.columns.n * (DIV + 2 * MUL + ADD + 2 * (MUL + ADD))
    return Bound(interval * max(words_read(engine, segments), engine.answer_words), rows * engine.columns.row_cycles, 0, 0, chain)


def _loaded(engine: TableEngine, reader: Reader, address: int) -> int:
    """Return the cycle in which the rows that come are asked for."""
    columns, units, words = engine.columns, engine.units, engine.totals_words
    reader.command(1, address, words)
    ready = 1
    for _ in range(words):
        ready = reader.accept(ready) + units
    filler = columns.slots * columns.gram_lanes - columns.products
    used = (columns.n + columns.products - 1) % units + 1
    return ready - units + used + filler + 1


def _walked(engine: TableEngine, segment: Segment, costs: Costs, reader: Reader, origin: int) -> int:
    """Return the cycle after the Striders have been flushed.

    Where pages are alike the walk soon repeats itself: a state that was seen before comes again as much later still, so whole periods are leapt over.
    """
    port, seen, ready, cycles = PortModel(engine.port, costs, reader.port, origin), 0, 0, engine.columns.row_cycles
    last, page, end = segment.skip + segment.rows, -1, 0
    marks: dict[tuple[object, ...], tuple[int, int, int]] = {}

    def accept(earliest: int) -> int:
        return max(earliest, ready)
    while True:
        cycle, kind = port.pull(accept)
        if kind != "tuple":
            assert kind == "end"
            return cycle + 2
        ready = cycle + (cycles if segment.skip <= seen < last else 1)
        seen += 1
        if seen == last and segment.rows:
            if port.page < costs.pages - 1:
                raise ValueError(f"the last of {segment.rows} rows is not in the last of {costs.pages} pages")
            return ready + 2
        if port.page == page or port.alike < 3:
            continue
        page = port.page
        if page + port.alike != end:
            marks, end = {}, page + port.alike
        left = segment.skip - seen if seen < segment.skip else last - seen if seen < last else 1 << 62
        key = (port.state(cycle), ready - cycle, seen < segment.skip, seen < last)
        if key in marks:
            before, first, rows = marks[key]
            times = min((port.alike - 2) // (page - first), left // (seen - rows))
            if times > 0:
                port.leap(times * (page - first), times * (cycle - before))
                ready, seen, page = ready + times * (cycle - before), seen + times * (seen - rows), port.page
            marks = {}
        else:
            marks[key] = cycle, page, seen


def _written(engine: TableEngine, memory: Timing, first: int, address: int) -> int:
    """Return the cycle of `done` when the sums are read from cycle `first` on."""
    units, totals = engine.units, engine.totals_words
    starts: list[int] = []
    taken: list[int] = []
    solved = 0

    def source(previous: int) -> int:
        nonlocal solved
        number = len(starts)
        if number:
            taken.append(previous)
        if number == totals:
            solved = _solved(engine, starts)
        begin = starts[-1] + units if number else first
        if number >= AHEAD:
            begin = max(begin, taken[number - AHEAD] + 1)
        if number >= totals:
            begin = max(begin, solved)
        starts.append(begin)
        return begin + units + GATHER
    _, sent, idle = Writer(memory, engine.bus_bytes).write(first, address, engine.answer_words, source)
    return max(sent[-1] + 1, idle)


def _solved(engine: TableEngine, starts: list[int]) -> int:
    """Return the cycle from which on the weights are there, when the words of the totals were begun in these cycles."""
    n, units = engine.columns.n, engine.units
    solver = Solver(engine.solver, lambda cycle: None)
    now = entry = 0
    for column in range(n + 1):
        entry += column + 1
        last = n + (entry if column < n else entry - 1) - 1      # not the label's square
        now = starts[last // units] + last % units + CHOOSE + CONVERT + 1
        solver.look(now)
        solver.load(now, 0, n, column == n)
    while True:
        now += 1
        solver.look(now)
        if solver.step(now) is not None:
            return now + STEP
