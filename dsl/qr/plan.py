"""Lowering: from a fit kernel to the configuration of a qr engine that fits on a target.

The cost of a candidate is its cycles a refit in the long run, the slowest of memory, sums, solvers and bounds, each by itself (`models.qr.cycles` has the
exact ones). Of all candidates within a few per cent of the fastest the smallest is taken, as the analytics engine's planner does.

The memory port has the target's width; where the memory is on the part itself (`Target.shared`), it may be wider: block RAM is as wide as one likes.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TypeVar

from ...models.memory.timing import FixedLatency, Memory
from ...models.qr.config import FitPlan
from ...models.qr.cycles import Work
from ...models.qr.job import Method
from ...models.qr.layout import ENTRY_BYTES, Size, change_words, row_stride, row_words
from ...models.qr.programs import tasks
from ...models.qr.resources import estimate
from ...models.qr.schedule import WIDEN_TURNS
from ...models.qr.solver import alone, solved
from ...models.resources import AIM, FILL, MOST, Resources
from ...models.target import Target
from ..core.diagnostics import KernelError, error
from .kernel import FitGraph

Plan = TypeVar("Plan")
#: whether a part's memory holds the run of a graph that its plan fits
Room = Callable[[FitGraph], bool]

#: candidates within this factor of the fastest are as good
TOLERANCE = 1.03
#: most groups interleaved in one solver
MOST_CONTEXTS = 16
#: how much wider than the target's a port to memory on the part may be, up to so many bytes
WIDER, WIDEST = (1, 2, 4), 32
#: least width: that of a sum
LEAST = 8
#: from a job's last sum to the next one's first, words aside: it is looked at, its records are on their way
BETWEEN = 12
#: cycles of the dot unit in which bounds are widened
WIDENING = len(WIDEN_TURNS)
_DIVISORS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SOLVERS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class Load:
    """What an engine is planned for: a refit of a group, in windows as long as they may be."""

    rows: int = 1000  #: rows of the group
    new: int = 50  #: rows that came
    gone: int = 0  #: rows that went

    def work(self, config: FitPlan) -> Work:
        """Such a refit, with the passes over all rows that the engine makes."""
        span, moved = self.rows, 0
        if config.incremental:
            # at half density a new row finds its gap taken the more often, the more others come (what runs of benchmarks/measured.md need)
            span = 2 * self.rows
            moved = min(self.new, self.new // 8 + 6 * self.new**2 // max(self.rows, 1))
        size = Size(
            config.n_max, self.rows, inserted=self.new, removed=self.gone, moved=moved, span=span
        )
        return Work.plain(size, not config.incremental)


def lower(
    graph: FitGraph,
    part: Target,
    *,
    memory: Memory | None = None,
    load: Load | None = None,
    fill: float = AIM,
    room: Room | None = None,
) -> FitPlan:
    """Return the engine for a fit over keys on `part`.

    Parameters: `memory`: the port's timing where it is not the target's own; then the port is not wider than the target's; `load`: the refits that it is
    made for; `fill`: the share of each resource that is aimed at, more is taken only where nothing else fits; `room`: of a run that is known.

    Raises KernelError (E601) where nothing fits: it names the resource, and the longest window that would.
    """
    load, ports = load or Load(), checked_ports(graph, part, memory, "a refit's")
    if row_stride(graph.columns - 1) > max(ports):
        why = f"a window of {graph.columns - 1} bytes is wider than its memory port of {max(ports)} bytes"
        hint = f"the longest window that fits is {longest_text(graph, part, room)}; or choose a target with wider ports (--target)"
        raise unfit(graph, part, why, hint)
    good: list[tuple[float, Resources, FitPlan]] = []
    for bus, timing in ports.items():
        if row_stride(graph.columns - 1) > bus:
            continue
        for config in _candidates(graph, bus, part):
            need = estimate(config, part)
            if need.fits(part) is None:
                good.append((cost(config, load, timing), need, config))
    if not good:
        raise _too_large(graph, part, room)
    return chosen(good, part, fill)


def chosen(good: list[tuple[float, Resources, Plan]], part: Target, fill: float = AIM) -> Plan:
    """Return the smallest one of the fastest plans that take up to `fill` of anything of `part`, where some do, given with their cycles and resources."""
    good = [entry for entry in good if entry[1].fits(part, fill) is None] or good
    best = min(cycles for cycles, _, _ in good)
    return min(
        (entry for entry in good if entry[0] <= best * TOLERANCE),
        key=lambda entry: (entry[1].lut + 100 * entry[1].dsp, entry[0]),
    )[2]


def checked_ports(
    graph: FitGraph, part: Target, memory: Memory | None, whose: str
) -> dict[int, Memory]:
    """Return `ports_of`. Raises KernelError (E601) where there are none; `whose`: the sums that are too wide."""
    ports = ports_of(part, memory)
    if not ports:
        why = f"its memory port is {part.bus_bytes} bytes wide, {whose} sums have {LEAST}"
        hint = "choose a target with wider ports (--target); `penstock targets` lists them"
        raise unfit(graph, part, why, hint)
    return ports


def ports_of(part: Target, memory: Memory | None) -> dict[int, Memory]:
    """Return the memory port's possible widths, each with its timing; none where it is too narrow for a sum."""
    ports: dict[int, Memory]
    if memory is None and part.shared:
        widths = (times * part.bus_bytes for times in WIDER)
        most = max(WIDEST, part.bus_bytes)
        ports = {bus: FixedLatency(part.latency, bus) for bus in widths if bus <= most}
    else:
        ports = {part.bus_bytes: memory or FixedLatency(part.latency, part.bytes_per_cycle)}
    return {bus: timing for bus, timing in ports.items() if bus >= LEAST}


def cost(config: FitPlan, load: Load, memory: Memory) -> float:
    """Return about how many cycles such a refit takes when many follow one another."""
    work = load.work(config)
    interval = memory.interval(config.bus_bytes)
    read = sum(work.read(config))
    sums, passes = float(work.sums_cycles(config)), 0
    if config.incremental:
        sums += WIDENING  # changes wait while bounds have the dot unit
    else:
        # words of the pass for c and of that for the bounds come through one port, and each waits for its taker
        passes = 2 * row_words(work.size, config)
        together = min(config.row_units, config.bus_bytes // row_stride(config.n_max - 1))
        sums += -(-work.size.places // together)
    solver = _slots(config.method, work) / config.solvers
    if config.method is Method.GRAM:
        # a job's changes come while they are added up, its other words between two jobs' changes
        sums += BETWEEN + interval * (read - change_words(work.size, config) - passes)
    return max(interval * max(read, work.written(config)), sums, work.dot_cycles(config), solver)


@lru_cache(maxsize=1024)
def _slots(method: Method, work: Work) -> int:
    """Cycles of a solver's lanes."""
    return alone(work) if method is Method.GIVENS else len(tasks(work.size.columns))


def _candidates(
    graph: FitGraph, bus_bytes: int, part: Target, columns: int | None = None
) -> Iterator[FitPlan]:
    assert graph.target is not None
    n, entries = max(4, columns or graph.columns), bus_bytes // ENTRY_BYTES
    base = FitPlan(n_max=n, method=graph.method, target=graph.target, bus_bytes=bus_bytes)
    givens, triangle = graph.method is Method.GIVENS, n * (n + 1) // 2
    contexts, ahead = 1 if givens else _contexts(n), -(-3 * part.latency // 32) + 2
    # a lane for every entry, or as many as come in whole bus words
    words = (-(-triangle // d // entries) * entries for d in (*_DIVISORS, triangle))
    sums = sorted({triangle, *(count for count in words if count < triangle)})
    units = [(2 * n, 1)] if givens else list(product(sums, _SOLVERS))
    for row_units in (1,) if base.incremental else (1, 2, 4, 8):
        for lanes, solvers in units:
            unit = replace(base, gram_lanes=lanes, solvers=solvers, row_units=row_units)
            yield replace(unit, contexts=contexts, jobs=contexts * solvers + ahead)


@lru_cache(maxsize=64)
def _contexts(n: int) -> int:
    """Groups that keep one solver busy: how much longer one takes alone than its issue slots."""
    return min(MOST_CONTEXTS, -(-(solved(n, range(n + 1)) - 1) // len(tasks(n))) + 1)


def _smallest(graph: FitGraph, part: Target, columns: int) -> Resources | None:
    """What the leanest candidate takes; None: no port is as wide as a row."""
    widths = [bus for bus in ports_of(part, None) if row_stride(columns - 1) <= bus]
    needs = [estimate(c, part) for bus in widths for c in _candidates(graph, bus, part, columns)]
    return min(
        needs,
        key=lambda need: (need.fits(part) is not None, need.lut + 100 * need.dsp),
        default=None,
    )


def longest_text(graph: FitGraph, part: Target, room: Room | None = None) -> str:
    """Return the longest window shorter than the graph's that fits on a part, its run too, as it is written in a kernel."""

    def too_long(window: int) -> bool:
        need = _smallest(graph, part, window + 1)
        return need is None or need.fits(part) is not None

    def no_room(window: int) -> bool:
        return room is not None and not room(replace(graph, columns=window + 1))

    longest = bisect_left(range(1, graph.columns - 1), True, key=too_long)
    if longest and no_room(longest):  # which takes longer to say
        longest = bisect_left(range(1, longest), True, key=no_room)
    return f"window(key, {longest})" if longest else "none: not even one byte fits"


def _too_large(graph: FitGraph, part: Target, room: Room | None) -> KernelError:
    need = _smallest(graph, part, graph.columns)
    assert need is not None  # a row is not wider than the port
    resource = need.fits(part) or "lut"
    why = (
        f"the smallest engine for windows of {graph.columns - 1} bytes needs {getattr(need, resource):,} {resource.upper()}, "
        f"the part has {_usable(part, resource)}"
    )
    hint = f"the longest window that fits is {longest_text(graph, part, room)}; or choose a larger target (--target, --board)"
    return unfit(graph, part, why, hint)


def _usable(part: Target, resource: str) -> str:
    have = getattr(part, resource)
    return f"{have:,}" if resource not in MOST else f"{have:,}, of which {FILL:.0%} can be routed"


def unfit(graph: FitGraph, part: Target, why: str, hint: str) -> KernelError:
    """Return the error (E601) of a kernel whose engine does not fit on a part."""
    message = f"kernel {graph.name!r} does not fit on {part.name}: {why}"
    return error("E601", message, graph.span, hint=hint, source=graph.source or None)
