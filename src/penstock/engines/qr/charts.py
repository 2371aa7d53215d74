"""Charts of fits."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.models.qr.cycles import Bound
from penstock.outcome import Outcome
from penstock.report.common import bound_terms, roofline_chart, shares_chart
from penstock.report.rows import Chart

from .columns import ColumnsDesign
from .keys import FitDesign

__all__ = ["charts"]


def charts(outcome: Outcome) -> Iterable[Chart]:
    """Return the charts of a report."""
    yield from _roofline(outcome)
    yield from shares_chart(outcome, bound_terms(outcome))


def _roofline(outcome: Outcome) -> Iterable[Chart]:
    """Return the roofline in products: what the busy cycles of sums and solver could make."""
    design, model = outcome.design, outcome.model
    if model is None or not isinstance(model.bound, Bound):
        return
    if isinstance(design, FitDesign):
        plan = design.plan
        sums, solver = plan.gram_lanes, plan.solvers * plan.lanes
    elif isinstance(design, ColumnsDesign):
        sums, solver = design.plan.columns.gram_lanes, 0
    else:
        return
    products = model.bound.sums * sums + model.bound.solver * solver
    moved = max(model.bytes_read or 0, model.bytes_written or 0)
    note = (
        "A product is one multiplier of the sums or of the solver for one cycle. Bytes are those "
        "of the busier direction. Dashed lines are the speeds that the other terms of the bound "
        "allow."
    )
    yield from roofline_chart(outcome, "products", products, moved, sums + solver, note)
