"""Plans of kernels with rows of models: what is computed in which order, for golden results; no units, no schedule."""

from ...models.analytics.config import Schedule
from ..core.diagnostics import Span, error
from .candidates import Maker, Point
from .lower import Program
from .schedule import Scheduled

#: lanes where nothing is said: no result depends on them
_LANES = 8
_NONE = Schedule(0, 0, 0, 0, 0, 0)


def unscheduled(maker: Maker) -> Point:
    """Return the point of such a plan. Raises KernelError (E605) for lanes, threads or ports that there cannot be."""
    choices = maker.choices
    lanes, threads, ports = choices.lanes or _LANES, choices.threads or 1, choices.ports or 1
    _check(maker, lanes, threads, ports)
    return Point(lanes, threads, ports, 1, 1)


def untimed(program: Program) -> Scheduled:
    """Return a program in its order alone."""
    return Scheduled(tuple(program.buffers), (), tuple(program.ops), _NONE)


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
