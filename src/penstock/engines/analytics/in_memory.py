"""What is counted and told of rows in memory."""

from collections.abc import Iterable, Mapping

import numpy as np

from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.analytics.shell import ROW_COUNTERS
from penstock.models.errors import ErrorCode, HardwareError
from penstock.models.memory import Memory
from penstock.models.memory.dealt import Deal
from penstock.models.numerics.formats import Codes
from penstock.models.rows.bound import busiest, busiest_bank
from penstock.models.rows.unit_cycles import RowUnitModel
from penstock.report.parts import Row, Share
from penstock.runs.outcome import Outcome
from penstock.sim.machine import PAGE, round_up

#: causes of waits as reports name them; the last one is that of tuples that were looked up
_CAUSES = {
    "row_waits.tuples": "for tuples",
    "row_waits.room": "for room",
    "row_waits.lines": "for a free line",
    "row_waits.rows": "for rows that wait to be asked for",
    "row_waits.batches": "of these, for batches before",
    "row_waits.written": "for rows written back",
    "row_waits.port": "for the port",
    "row_waits.changes": "changes for those of their row",
    "rows_late": "a tuple for its rows",
}


def named(error: HardwareError, plan: AnalyticsPlan) -> HardwareError:
    """Return an error with what it is about, where that is a row in memory: the row unit reports the table, and 1 + the row."""
    if int(error.code) not in (ErrorCode.BUS_READ, ErrorCode.BUS_WRITE) or not error.item:
        return error
    models = " and ".join(plan.rows.tables[error.block].models)
    return HardwareError(error.code, detail=f"row {error.item - 1:,} of {models}")


def row_spaces(plan: AnalyticsPlan) -> tuple[int, ...]:
    """Return the address space of each memory port that rows have: a single one's is that of pages, several have one of their own each."""
    ports = plan.rows.deal.ports if plan.rows.tables else 0
    return (0,) if ports == 1 else tuple(range(1, ports + 1))


def row_places(plan: AnalyticsPlan, begin: int = 0) -> tuple[tuple[int, ...], int]:
    """Return the addresses of tables of rows that lie from `begin` on, and the bytes that they take."""
    tables, end, unit = [], begin, plan.row_unit
    for size, rows in unit.sizes if unit else ():
        tables.append(-(-end // size) * size)
        end = round_up(tables[-1] + rows * size, PAGE * plan.rows.deal.channels)
    return tuple(tables), end - begin


def row_parts(plan: AnalyticsPlan, models: Mapping[str, Codes], begin: int = 0) -> list[np.ndarray]:
    """Return what each of the ports of rows has from `begin` on."""
    (tables, size), unit = row_places(plan, begin), plan.row_unit
    content = np.zeros(size, np.uint8)
    for t, at in enumerate(tables):
        assert unit is not None
        image = unit.image(t, models)
        content[at - begin :][: len(image)] = image
    return plan.rows.deal.parts(content, plan.bus_bytes)


def row_counters(
    unit: RowUnitModel, asked: np.ndarray, memory: Memory, deal: Deal
) -> dict[str, int]:
    """Return what a row unit moved, what it waited for, which rows and which DRAM bank were asked for most."""
    counts = unit.counts
    moved = counts.lookups, counts.hits, counts.fetched, counts.written
    counters = dict(zip(ROW_COUNTERS, moved, strict=True))
    counters |= {f"row_waits.{cause}": cycles for cause, cycles in unit.waits.items()}
    counters["rows_late"] = unit.late
    for t, table in enumerate(unit.config.tables):
        mine = [n for n, place in enumerate(unit.config.places) if place.table == t]
        if len(asked):
            row, times = busiest(asked[:, mine])
            counters |= {
                f"hottest_row.{table.models[0]}": row,
                f"hottest_lookups.{table.models[0]}": times,
            }
    if bank := busiest_bank(memory, unit.mover.moved, deal):
        counters |= dict(zip(("busiest_bank", "busiest_bank_rows"), bank, strict=True))
    return counters


def rows_moved(outcome: Outcome, plan: AnalyticsPlan) -> Iterable[Row]:
    """Yield what was asked of models in memory, and what went to memory and back."""
    run = outcome.rtl or outcome.model
    if not plan.rows.tables or run is None or plan.row_unit is None:
        return
    stats = outcome.model.counters if outcome.model is not None else {}
    for t, table in enumerate(plan.rows.tables):
        lines, size = f"{table.lines:,} of {table.rows:,} rows", plan.row_unit.row_bytes(t)
        pinned = f", {len(table.pinned):,} of them hot ones" if table.pinned else ""
        name = table.models[0]
        hottest = ""
        if (row := stats.get(f"hottest_row.{name}")) is not None:
            hottest = f"; hottest row {row:,}, {stats[f'hottest_lookups.{name}']:,} times an epoch"
        yield Row(
            " and ".join(table.models),
            f"in memory, {size} bytes a row; {lines} held on chip{pinned}{hottest}",
        )
    if "row_lookups" not in run.counters:  # a lean device does not count them
        return
    counts = {name: run.counters.get(name, 0) for name in ROW_COUNTERS}
    asked, moved = counts["row_lookups"], (counts["rows_fetched"], counts["rows_written"])
    share = f"{counts['row_hits'] / max(asked, 1):.1%}"
    yield Row("rows", f"{asked:,} asked for, {share} of them held")
    bank = ""
    if (number := stats.get("busiest_bank")) is not None:
        bank = f"; busiest bank {number} with {stats['busiest_bank_rows'] / max(sum(moved), 1):.1%}"
    yield Row("  moved", "{:,} fetched, {:,} written back".format(*moved) + bank)
    if outcome.rtl is None and outcome.design is not None and outcome.design.uncounted:
        yield Row("  port", "their own; on the board they share the pages', which takes longer")
    yield from _row_waits(stats, outcome.cycles or 0)


def _row_waits(stats: Mapping[str, int], cycles: int) -> Iterable[Row]:
    """Yield what the row unit waited for, and how long tuples waited for their rows."""
    waits = {text: stats[key] for key, text in _CAUSES.items() if stats.get(key)}
    if waits and cycles:
        yield Row("  waits", "cycles, of all (a tuple's overlap with the others)")
        for text, count in waits.items():
            yield Row(f"    {text}", Share(count, cycles))
