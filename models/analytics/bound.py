"""The bound of a run of a plan, term by term, and the bound of the machine that it is on.

A further term is a field of `Bound` and its cycles in `bound`. Terms that every plan has are explained in `models.bound_terms`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..bound_terms import Machine, Terms
from ..memory.timing import Memory
from ..rows.bound import RowTerms, row_terms
from ..target import Target
from .config import AnalyticsPlan, depth
from .cycles import RowsAsked
from .storages import products
from .waits import Waits


@dataclass(frozen=True)
class Bound(Terms):
    """The least cycles of a run, by what needs them."""

    memory: int
    operations: int
    recurrence: int
    #: of rows in memory: `models.rows.bound.RowTerms`
    lookups: int = 0
    channel: int = 0
    lanes: int = 0
    banks: int = 0
    #: of the row that changes most often: `models.analytics.waits`
    changes: int = 0
    #: in which pages come through a ring (`models.ring`); the workload sets it
    link: int = 0


def bound(
    plan: AnalyticsPlan,
    pages: int,
    groups: int,
    batches: int,
    memory: Memory,
    epochs: int,
    scores: int = 0,
    rows: RowsAsked | None = None,
    waits: Waits | None = None,
) -> Bound:
    """Return the bound of a run.

    memory: the least cycles in which a port reads the busiest one's pages, and writes so many `scores`.
    operations: groups times the beats of the busiest unit. recurrence: batches
    times the kernel's way from a model to the next one, with as many units as could be used, and what groups of a batch must then lie apart
    (`notes["recurrence"]`, `notes["interval"]`). Of rows in memory, which tuples of an epoch ask for as `rows` says, the terms of `models.rows.bound`.
    changes: those of the place of a row that changes most often, each behind the one before, as `waits` has them.
    """
    by_rows = RowTerms(0, 0, 0, 0)
    chain = max(epochs * waits.chain - waits.last, 0) if waits else 0
    if plan.row_unit is not None and rows is not None:
        by_rows = row_terms(plan.row_unit, rows.asked, rows.bases, memory, epochs, plan.rows.deal)
    busiest = -(-pages // plan.ports) * plan.page_size * epochs
    work: dict[int, int] = {}
    for op in plan.ops:
        if op.region == "group":
            for unit in (op.unit, op.merge_unit):
                if unit >= 0:
                    work[unit] = work.get(unit, 0) + op.beats
    return Bound(
        memory=memory.least(busiest // plan.bus_bytes, _words(plan, scores), plan.bus_bytes),
        operations=groups * max(work.values(), default=0),
        recurrence=batches * int(plan.notes["recurrence"])
        + max(groups - batches, 0) * int(plan.notes["interval"]),
        **by_rows._asdict(),
        changes=chain,
    )


def _words(plan: AnalyticsPlan, scores: int) -> int:
    """Return the bus words that hold so many scores."""
    return -(-scores * plan.format.container // plan.bus_bytes)


def machine_bound(
    plan: AnalyticsPlan, part: Target, pages: int, tuples: int, memory: Memory, epochs: int
) -> Machine | None:
    """Return what no plan of the kernel on this part beats, for so many tuples an epoch; None for plans that were saved without the
    kernel's facts (`notes["machine"]`: the way from model to model by levels of the merge tree, the least distance of groups, products a tuple).
    """
    facts = plan.notes.get("machine")
    if facts is None:
        return None
    batch = plan.merge_count or tuples
    full, rest = divmod(tuples, batch) if batch else (0, 0)
    return Machine.of(
        part,
        memory,
        pages * (plan.page_size // plan.bus_bytes) * epochs,
        [(count * tuples * epochs, products(fn, plan.format)) for fn, count in facts["products"]],
        epochs * (full * _chain(facts, batch) + _chain(facts, rest)),
    )


def _chain(facts: Mapping[str, Any], tuples: int) -> int:
    """Return the least cycles from a batch's begin to the next one's: groups have `2 ** most` tuples at most."""
    most = len(facts["ways"]) - 1
    if not tuples:
        return 0
    groups = -(-tuples // (1 << most))
    return int(facts["ways"][min(depth(tuples), most)] + (groups - 1) * facts["interval"])
