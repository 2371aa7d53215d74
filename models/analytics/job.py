"""One run of a plan on heap pages: its golden result and its cycles; `bound` has its bound."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..errors import HardwareError
from ..memory.bursts import Reader
from ..memory.timing import Memory
from ..numerics.formats import Codes
from ..ring import Arrivals
from ..rows.errors import RowCode
from ..strider.costs import Costs, analyse
from ..strider.cycles import PortModel
from ..strider.errors import PageError
from ..strider.judge import RowCounts
from ..strider.lost import lost
from .config import AnalyticsPlan
from .cycles import Cycles, RowsAsked, run
from .golden import NoRowOf, TrainingResult, takers, train
from .indices import Port, walk_port
from .loader import EmptySource, TupleSource
from .waits import Waits

_BY_VALUES = (
    "values name this row, whatever --on-index says; an integer `j % len(P)` is always a row of P, "
    "and --dim gives the model more rows"
)


def port_pages(plan: AnalyticsPlan, pages: np.ndarray) -> list[np.ndarray]:
    """Return each memory port's pages: page p belongs to port p mod ports. Contiguous arrays."""
    return [np.ascontiguousarray(pages[q :: plan.ports]) for q in range(plan.ports)]


def ports(plan: AnalyticsPlan, pages: np.ndarray) -> list[Port] | HardwareError:
    """Return what each port's pages give, or the error that ends the run: that of the lowest page."""
    walks = [walk_port(plan, part, q, plan.ports) for q, part in enumerate(port_pages(plan, pages))]
    errors = [port.error for port in walks if port.error is not None]
    return min(errors, key=lambda e: e.block) if errors else walks


def walk(plan: AnalyticsPlan, pages: np.ndarray) -> tuple[list[Codes], RowCounts] | HardwareError:
    """Return each port's tuples (n, positions) as the Striders deliver them and what was left out and counted, or the error that ends the
    run: that of the lowest page."""
    walks = ports(plan, pages)
    if isinstance(walks, HardwareError):
        return walks
    counts = RowCounts()
    for port in walks:
        counts.add(port.counts)
    return [port.tuples for port in walks], counts


def order(plan: AnalyticsPlan, pages: np.ndarray) -> np.ndarray | HardwareError:
    """Return which rows an epoch learns from, in its order, or the error that ends the run: that of the lowest page.

    Rows that are seen are numbered from 0 in the order of pages and line pointers; those that are left out are not returned.
    """
    walks = ports(plan, pages)
    if isinstance(walks, HardwareError):
        return walks
    seen = [port.seen for port in walks]
    block, line, _ = np.concatenate(seen).T
    number = np.empty(len(block), np.int64)
    number[np.lexsort((line, block))] = np.arange(len(block))
    ends = np.cumsum([len(part) for part in seen])[:-1]
    rows = [n[part[:, 2] != 0] for n, part in zip(np.split(number, ends), seen, strict=True)]
    taken = (chosen for batch in takers(plan, [len(n) for n in rows]) for chosen in batch)
    return np.array([rows[port][n] for port, n, _, _ in taken], dtype=np.int64)


def golden(
    plan: AnalyticsPlan, pages: np.ndarray, runs: Sequence[Codes], models: Mapping[str, Codes]
) -> TrainingResult | HardwareError:
    """Return the golden result of training on heap pages (pages, page_size), or the run's error."""
    walks = ports(plan, pages)
    if isinstance(walks, HardwareError):
        return walks
    tuples, counts = [port.tuples for port in walks], RowCounts()
    for port in walks:
        counts.add(port.counts)
    try:
        trained = train(plan, tuples, dict(models), runs)
    except NoRowOf as missing:  # a row that values name
        block, line = walks[missing.port].where[missing.number].tolist()
        code, detail = PageError.VALUE_INDEX, str(missing)
        return HardwareError(code, block, line, detail=detail, advice=_BY_VALUES)
    if plan.watches and trained.beyond is not None:
        (of, number), what = trained.beyond
        block, line = walks[of].where[number].tolist()
        message = f"{what}, by line pointer {line} of block {block}"
        return HardwareError(RowCode.ROW_OVERFLOW, detail=message)
    trained.inputs = replace(counts, lost=lost(plan.walk, pages, tuples))
    return trained


def page_costs(plan: AnalyticsPlan, pages: np.ndarray) -> Costs | HardwareError:
    """Return what walking the pages (pages, page_size) costs, or the error that ends the run: that of the lowest page."""
    costs = analyse(plan.port, plan.walk, pages)
    if costs.errors:
        block = min(costs.errors)
        event = costs.errors[block]
        return HardwareError(event.code, block, event.line, event.item)
    return costs


def strider_cycles(plan: AnalyticsPlan, costs: Costs) -> int:
    """Return how long the busiest port's Striders take for one epoch if pages are always there and tuples always taken."""
    busiest = max(
        sum(
            count * sum(wait for _, wait, _ in events)
            for count, events in costs.every(plan.ports, q).runs
        )
        for q in range(plan.ports)
    )
    return -(-busiest // plan.striders.walkers)


def model_cycles(
    plan: AnalyticsPlan,
    pages: np.ndarray | Costs,
    memory: Memory,
    epochs: int,
    *,
    boot_address: int = 0,
    result_address: int = 0,
    page_addresses: Sequence[int] = (),
    rows: RowsAsked | None = None,
    waits: Waits | None = None,
    arrivals: Sequence[Arrivals] = (),
) -> Cycles:
    """Return the exact cycles of a run of `epochs` epochs over the pages, given themselves or as their costs; they must be free of errors.

    Addresses, of pages one a port, count where memory is not of a fixed latency. `rows`, `waits`: as of `cycles.run`. `arrivals`: of each port's pages,
    where it has a ring.
    """
    costs = pages if isinstance(pages, Costs) else analyse(plan.port, plan.walk, pages)
    assert not costs.errors

    def sources(reader: Reader, origin: int) -> list[TupleSource]:
        models: list[TupleSource] = []
        for q in range(plan.ports):
            part = costs.every(plan.ports, q)
            port = (
                memory.port(plan.bus_bytes) if q else reader.port
            )  # the boot image leaves its trace on port 0
            models.append(
                PortModel(
                    plan.port,
                    part,
                    port,
                    origin,
                    address=page_addresses[q] if page_addresses else 0,
                    epochs=plan.epochs,
                    arrivals=arrivals[q] if arrivals else None,
                )
                if part.runs
                else EmptySource(origin)
            )
        return models

    return run(
        plan,
        sources,
        memory,
        epochs,
        boot_address=boot_address,
        result_address=result_address,
        rows=rows,
        waits=waits,
    )


def rows_in_memory(plan: AnalyticsPlan, tuples: Codes) -> np.ndarray:
    """Return which rows of models in memory tuples ask for (tuples, places of the row unit), as `walk_port` has them."""
    columns, at = [np.zeros((len(tuples), 0), np.int64)], plan.layout.beats * plan.lanes
    assert plan.row_unit is not None
    positions = {place.position for place in plan.row_unit.places}
    for index in plan.rows.indices:
        if plan.layout.field(index.name).position in positions:
            columns.append(tuples[:, at : at + index.places])
        at += index.places
    return np.concatenate(columns, axis=1)


def drawn(plan: AnalyticsPlan, tuples: int, zipf: float = 0.0) -> Codes:
    """Return so many tuples as `walk_port` has them, of zeros, but for their indices, which are drawn, with seed 1.

    `zipf`: the k-th of a column's rows, in an order that is drawn as well, comes k ** −zipf times as often as the first; 0: all come alike.
    """
    rng = np.random.default_rng(1)
    columns = [np.zeros((tuples, plan.layout.beats * plan.lanes), np.int64)]
    for index in plan.rows.indices:
        order, shares = np.empty(0, np.int64), np.empty(0)
        for k in range(index.places):
            _, begin, counts = index.columns[min(k, len(index.columns) - 1)]
            rows = min(counts, index.counts)
            if not zipf:
                columns.append(begin + rng.integers(0, rows, (tuples, 1)))
                continue
            if k < len(index.columns):  # places of one column share its rows
                order, shares = rng.permutation(rows), np.cumsum(np.arange(1, rows + 1) ** -zipf)
            at = np.searchsorted(shares, rng.random((tuples, 1)) * shares[-1])
            columns.append(begin + order[np.minimum(at, rows - 1)])
    return np.concatenate(columns, axis=1)
