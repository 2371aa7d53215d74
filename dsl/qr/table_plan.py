"""Lowering: from a fit over numeric columns to the engine that keeps up with the pages of its table, or comes closest of those that fit.

What a candidate takes is what the cycle model says of pages full of rows, read one after the other. Of all candidates within a few per cent of the fastest
the smallest is taken, and the memory port has the widths that it may have, as in the planner of fits over keys.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...models.memory.timing import Memory
from ...models.qr.columns import Columns
from ...models.qr.resources import estimate
from ...models.qr.table_config import Segment, TableFitPlan
from ...models.qr.table_cycles import run
from ...models.resources import AIM, Resources
from ...models.strider.config import WalkConfig, tuple_slots
from ...models.strider.costs import analyse
from ...models.strider.row_pages import RowPages
from ...models.target import Target
from ..core.diagnostics import KernelError
from .kernel import FitGraph
from .plan import checked_ports, chosen, unfit

_WALKERS = (1, 2, 3, 4, 6, 8)
_LANES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
#: full pages on which each candidate is timed
_PAGES = 24


def lower_table(
    graph: FitGraph,
    columns: Columns,
    walk: WalkConfig,
    page: NDArray[np.uint8],
    part: Target,
    memory: Memory | None = None,
    fill: float = AIM,
) -> TableFitPlan:
    """Return the engine for a fit over a table.

    `page`: a full page of it; `memory`: the port's timing where it is not the target's own: then the port is as wide as the target's; `fill`: as of
    `plan.lower`.

    Raises KernelError (E601) where nothing fits: it names the resource.
    """
    good: list[tuple[float, Resources, TableFitPlan]] = []
    least: Resources | None = None
    for bus, timing in checked_ports(graph, part, memory, "a fit's").items():
        # walking a page costs the same with all candidates of a port's width
        costs = analyse(TableFitPlan(columns, walk, bus).port, walk, np.tile(page, (_PAGES, 1)))
        rows = RowPages(costs).rows
        for plan in _candidates(columns, walk, rows // _PAGES, bus):
            need = estimate(plan, part)
            if least is None or (need.lut, need.dsp) < (least.lut, least.dsp):
                least = need
            if need.fits(part) is None:
                # rows that come, then rows that go: of these none
                full = [(Segment(0, _PAGES, 0, rows), costs), (Segment(), None)]
                good.append((run(plan, full, timing), need, plan))
    if not good:
        assert least is not None
        raise _too_large(graph, least, part)
    return chosen(good, part, fill)


def _candidates(columns: Columns, walk: WalkConfig, rows: int, bus: int) -> Iterator[TableFitPlan]:
    lanes = sorted({columns.products, *(n for n in _LANES if n < columns.products)})
    for walkers in _WALKERS:
        slots = tuple_slots(walkers, rows)
        for n in lanes:
            gram = replace(columns, gram_lanes=n)
            yield TableFitPlan(gram, walk, bus, walkers=walkers, buffers=2, slots=slots)


def _too_large(graph: FitGraph, need: Resources, part: Target) -> KernelError:
    resource = need.fits(part) or "dsp"
    why = f"the smallest engine needs {getattr(need, resource):,} {resource.upper()}, the part has {getattr(part, resource):,}"
    return unfit(graph, part, why, "a larger target (--target, --board) would help")
