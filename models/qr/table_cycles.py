"""Exact cycles of the engine of fits over numeric columns (`table_config`), and the least that there are."""

from collections.abc import Sequence
from functools import lru_cache

from ..bound_terms import Machine
from ..errors import HardwareError, RunError
from ..memory.bursts import Reader, Writer
from ..memory.timing import Memory, Ports
from ..ring import Arrivals
from ..strider.costs import Costs
from ..strider.cycles import PortModel
from ..target import Target
from .columns import ROWS_MAX
from .cycles import Bound, widest
from .schedule import ADD, CONVERT, DIV, MUL
from .shell import FitError
from .solver import solved
from .table_config import AHEAD, UNIT_BYTES, Segment, TableFitPlan

#: cycles from a number's choice to where it is in a word, and where its conversion begins
GATHER, CHOOSE = 3, 2


def run(
    engine: TableFitPlan,
    segments: Sequence[tuple[Segment, Costs | None]],
    memory: Memory,
    *,
    totals: int = 0,
    answer: int = 0,
    arrivals: Arrivals | None = None,
    rows: int | None = None,
) -> int:
    """Return the exact cycles of a run: rows that come, then rows that go, each with what walking their pages costs (None: no pages).

    Pages are free of errors. Raises RunError where they have fewer rows than a segment asks for, or where the `rows` of
    the totals, if known, become more than the sums hold, or fewer than none. `totals`, `answer`: addresses; `arrivals`: when
    pages come, those of rows that go behind the others, where the plan has a ring.
    Cycle 0 is the one in which the engine's `start` is high.
    """
    come, go = (segment for segment, _ in segments)
    if rows is not None:
        many = rows < 0 or rows + come.rows > ROWS_MAX
        if many or rows + come.rows < go.rows:
            block, item = (come.block, 1) if many else (go.block, 2)
            raise RunError(HardwareError(FitError.QR_ROWS, block, item=item))
    channel = memory.channel()
    reader = Reader(channel, engine.bus_bytes)
    now, first = _loaded(engine, reader, totals), 0
    for number, (segment, costs) in enumerate(segments, 1):
        begin, now, lacks = now, now + 1, segment.rows > 0
        if costs is not None:
            at = {"address": segment.address, "epochs": 1, "first": first}
            port = PortModel(engine.port, costs, reader.port, begin, arrivals=arrivals, **at)
            now, lacks = _walked(engine, segment, port)
        if lacks:
            raise RunError(HardwareError(FitError.QR_SHORT, segment.block, item=number))
        first += segment.pages if engine.ring else 0  # of the ring's stream
    return _written(engine, channel, now + 1, answer)


def words_read(engine: TableFitPlan, segments: Sequence[Segment]) -> int:
    """Return the bus words that a run reads."""
    return engine.totals_words + engine.port.words_per_page * sum(
        segment.pages for segment in segments
    )


def bound(engine: TableFitPlan, segments: Sequence[Segment], memory: Memory) -> Bound:
    """Return the least cycles of such a run.

    memory: the least cycles in which the port moves its words. sums: rows over rows a cycle. recurrence: the memory's latency for totals,
    pages and answer, and in the solver from each column's pivot to the next one, and both solves.
    """
    rows = sum(segment.rows for segment in segments)
    return Bound(
        memory=memory.least(words_read(engine, segments), engine.answer_words, engine.bus_bytes),
        sums=rows * engine.columns.slots,
        solver=0,
        dot=0,
        recurrence=_chain(engine, memory),
    )


def _chain(engine: TableFitPlan, memory: Memory) -> int:
    return 3 * memory.quickest + engine.columns.n * (DIV + 2 * MUL + ADD + 2 * (MUL + ADD))


def machine_bound(
    engine: TableFitPlan, part: Target, segments: Sequence[Segment], memory: Memory
) -> Machine:
    """Return what no engine for the fit on this part beats. Of `engine` only the columns and the pages count.

    memory: pages and sums. products: those of a row with itself, but for 1 × 1, of 18 bits. recurrence: as of `bound`.
    """
    columns, rows = engine.columns, sum(segment.rows for segment in segments)
    read = sum(segment.pages for segment in segments) * engine.walk.schema.page_size
    read += UNIT_BYTES * (engine.head + columns.products)
    wide, timing = widest(part, memory)
    products = [(rows * (columns.products - 1), [(18, 18, False)])]
    return Machine.of(wide, timing, read // wide.bus_bytes, products, _chain(engine, memory))


def _loaded(engine: TableFitPlan, reader: Reader, address: int) -> int:
    """Return the cycle in which the rows that come are asked for."""
    columns, units, words = engine.columns, engine.units, engine.totals_words
    reader.command(1, address, words)
    ready = 1
    for _ in range(words):
        ready = reader.accept(ready) + units
    filler = columns.slots * columns.gram_lanes - columns.products
    used = (engine.head + columns.products - 1) % units + 1
    return ready - units + used + filler + 1


def _walked(engine: TableFitPlan, segment: Segment, port: PortModel) -> tuple[int, bool]:
    """Return the cycle after the Striders have been flushed, and whether there are fewer rows than are asked for.

    Where pages are alike the walk soon repeats itself: a state that was seen before comes again as much later still, so whole periods are leapt over.
    """
    seen, ready, cycles = 0, 0, engine.columns.slots
    last, page, end = segment.skip + segment.rows, -1, 0
    marks: dict[tuple[object, ...], tuple[int, int, int]] = {}

    def accept(earliest: int) -> int:
        return max(earliest, ready)

    while True:
        cycle, kind = port.pull(accept)
        if kind != "tuple":
            assert kind == "end"
            return cycle + 2, 0 < segment.rows and seen < last
        ready = cycle + (cycles if segment.skip <= seen < last else 1)
        seen += 1
        if seen == last and segment.rows:
            if port.page < segment.pages - 1:
                where = f"is not in the last of {segment.pages} pages"
                raise ValueError(f"the last of {segment.rows} rows {where}")
            return ready + 2, False
        if not port.shift_invariant or port.page == page or port.alike < 3:
            continue
        page = port.page
        if page + port.alike != end:
            marks, end = {}, page + port.alike
        left = (
            segment.skip - seen if seen < segment.skip else last - seen if seen < last else 1 << 62
        )
        key = (port.state(cycle), ready - cycle, seen < segment.skip, seen < last)
        if key in marks:
            before, first, rows = marks[key]
            times = min((port.alike - 2) // (page - first), left // (seen - rows))
            if times > 0:
                port.leap(times * (page - first), times * (cycle - before))
                ready = ready + times * (cycle - before)
                seen = seen + times * (seen - rows)
                page = port.page
            marks = {}
        else:
            marks[key] = cycle, page, seen


def _written(engine: TableFitPlan, memory: Ports, first: int, address: int) -> int:
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

    _, sent, idle = Writer(memory, engine.bus_bytes).write(
        first, address, engine.answer_words, source
    )
    return max(sent[-1] + 1, idle)


def _solved(engine: TableFitPlan, starts: list[int]) -> int:
    """Return the cycle from which on the weights are there, when the words of the totals were begun in these cycles."""
    later = tuple(start - starts[0] for start in starts)
    return starts[0] + _solving(engine.columns.n, engine.head, engine.units, later)


@lru_cache(maxsize=256)
def _solving(n: int, head: int, units: int, starts: tuple[int, ...]) -> int:
    """Return `_solved` for words of which the first was begun in cycle 0: plans that differ before the solver have it in common."""
    # the last number of each column, of the label's not its square
    ends = (head + (k + 1) * (k + 2) // 2 - 1 - (k == n) for k in range(n + 1))
    come = (starts[last // units] + last % units + CHOOSE + CONVERT + 1 for last in ends)
    return solved(n, come)
