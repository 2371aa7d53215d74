"""Plans of kernels with rows of models: what is computed in which order, for golden results; no units, no schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...models.analytics.config import AnalyticsPlan, Schedule
from ..core.bind_index import BoundIndex
from ..core.diagnostics import Span, error
from .candidates import Maker, Point, bound_indices
from .schedule import Scheduled

#: lanes where nothing is said: no result depends on them
_LANES = 8
_NONE = Schedule(0, 0, 0, 0, 0, 0)


def unscheduled(maker: Maker, indices: Mapping[str, BoundIndex]) -> AnalyticsPlan:
    """Return the plan. Raises KernelError (E605) for lanes, threads or ports that there cannot be."""
    graph, choices = maker.graph, maker.choices
    lanes, threads, ports = choices.lanes or _LANES, choices.threads or 1, choices.ports or 1
    _check(maker, lanes, threads, ports)
    program = maker.program(lanes, 1)
    scheduled = Scheduled(tuple(program.buffers), (), tuple(program.ops), _NONE)
    plan = maker.assemble(program, scheduled, Point(lanes, threads, ports, 1, 1))
    return replace(plan, rows=replace(plan.rows, indices=bound_indices(graph, indices)))


def _check(maker: Maker, lanes: int, threads: int, ports: int) -> None:
    graph, most = maker.graph, maker.target.ports
    batch = graph.merge_count
    place = next((v.span for v in graph.of_kind("index")), Span.whole(graph.name))
    why = ""
    if lanes & (lanes - 1):
        why = f"{lanes} lanes: kernels with rows take a power of two"
    elif ports > most or threads % ports or ports & (ports - 1):
        why = f"{threads} threads on {ports} memory ports of {maker.target.name}, which has {most}"
    elif ports > 1 and batch % threads:
        why = f"batches of {batch} for {threads} threads on {ports} memory ports"
    elif maker.choices.visibility == "all":
        why = "--visibility all: indices are read from pages that say which rows are seen"
    if why:
        hint = "leave the option out: no result depends on lanes or threads, and ports take tuples in another order"
        raise error("E605", f"no plan has {why}", place, hint=hint, source=graph.source or None)
