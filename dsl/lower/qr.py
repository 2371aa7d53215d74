"""Lowering: from a fit kernel to the configuration of a qr engine that fits on a target.

The cost of a candidate is its cycles a refit in the long run, the slowest of memory, sums, solvers and bounds, each by itself (`models.qr.cycles` has the
exact ones). Of all candidates within a few per cent of the fastest the smallest is taken, as the analytics engine's planner does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...models.memory.timing import Fixed
from ...models.qr import rotations
from ...models.qr.config import Config
from ...models.qr.cycles import Work
from ...models.qr.job import Bounds, Method, Sums, Target
from ...models.qr.layout import ENTRY_BYTES, Size, row_stride
from ...models.qr.resources import estimate
from ...models.qr.solver import alone
from ...models.qr.suffix import Blocks
from ...models.resources import FILL, Resources
from ...models.target import Target as Part
from ..diagnostics import KernelError, error
from ..fit import FitGraph

__all__ = ["Load", "cost", "longest_text", "lower"]

#: candidates within this factor of the fastest are as good
TOLERANCE = 1.03
#: segments of an anchor without blocks: slots do not drift, ranks do (docs/qr.md)
SEGMENTS = {Target.SLOT: 1, Target.RANK: 32}
#: rows of a block that moves together, about; fewest and most blocks
BLOCK, BLOCKS = 10, (16, 256)
#: most groups interleaved in one solver
MOST_CONTEXTS = 16
_DIVISORS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SOLVERS = (1, 2, 3, 4, 6, 8, 12, 16)
#: rows that show how long a group takes alone
_SAMPLE = 64


@dataclass(frozen=True)
class Load:
    """What an engine is planned for: a refit of a group of `rows`, `new` of which came and as many as `gone` went, in windows as long as they may be."""

    rows: int = 1000
    new: int = 50
    gone: int = 0

    def work(self, config: Config) -> Work:
        """Such a refit, with the passes over all rows that the engine makes."""
        slots, changes = config.target is Target.SLOT, self.new + self.gone
        columns, span = config.n_max, 2 * self.rows if slots else self.rows
        # of a block in which a change lies a quarter moves by itself
        moved = self.new if slots else min(changes * self.rows // (4 * config.blocks), self.rows - self.new) if config.blocks else 0
        size = Size(columns, self.rows, inserted=self.new, removed=self.gone, moved=moved, span=span)
        tree = not slots and config.sums is Sums.INCREMENTAL and not config.blocks
        read, written = _tree(self.rows, columns - 1, changes, config.bus_bytes) if tree else (0, 0)
        return Work.plain(size, config.bounds is Bounds.RESCAN, read, written)


@lru_cache(maxsize=256)
def _tree(rows: int, length: int, changes: int, bus_bytes: int) -> tuple[int, int]:
    """Bus words of the tree of narrow sums that changes, evenly spread, read and write."""
    blocks = Blocks(np.zeros((rows, length), dtype=np.uint8), bus_bytes)
    spent = blocks.traffic([blocks.place(int(rank)) for rank in np.linspace(0, rows, changes).astype(int)])
    return spent.read, spent.written


def lower(graph: FitGraph, part: Part, *, memory: Fixed | None = None, load: Load | None = None) -> Config:
    """Return the engine for a fit over keys on `part`.

    Parameters: `memory`: the port's timing where it is not the target's own; `load`: the refits that it is made for.

    Raises KernelError (E601) where nothing fits: it names the resource, and the longest window that would.
    """
    timing, load = memory or Fixed(part.latency, part.bytes_per_cycle), load or Load()
    if part.bus_bytes < 8:
        raise error("E601", f"kernel {graph.name!r} does not fit on {part.name}: its memory port is {part.bus_bytes} bytes wide, a refit's sums have 8",
                    graph.span, hint="choose a target with wider ports (--target); `penstock targets` lists them", source=_source(graph))
    if row_stride(graph.columns - 1) > part.bus_bytes:
        raise error("E601", f"kernel {graph.name!r} does not fit on {part.name}: a window of {graph.columns - 1} bytes is wider than its memory port of "
                    f"{part.bus_bytes} bytes", graph.span, source=_source(graph),
                    hint=f"the longest window that fits is {longest_text(graph, part, load)}; or choose a target with wider ports (--target)")
    base = _base(graph, part, load)
    good = [(cost(c, load, timing), c, estimate(c, part)) for c in _candidates(base, part, load)]
    good = [entry for entry in good if entry[2].fits(part) is None]
    if not good:
        raise _too_large(graph, part, load)
    best = min(cycles for cycles, _, _ in good)
    return min((entry for entry in good if entry[0] <= best * TOLERANCE), key=lambda entry: (entry[2].lut + 100 * entry[2].dsp, entry[0]))[1]


def cost(config: Config, load: Load, memory: Fixed) -> float:
    """Return about how many cycles such a refit takes when many follow one another."""
    work = load.work(config)
    interval = memory.interval(config.bus_bytes)
    solver = _slots(config, work) / (config.solvers * config.vectors)
    return max(interval * max(sum(work.read(config)), work.written(config)), work.sums_cycles(config), work.dot_cycles(config), solver)


@lru_cache(maxsize=1024)
def _slots_of(config: Config, work: Work) -> int:
    return work.slots(config)


def _slots(config: Config, work: Work) -> int:
    # the slots do not depend on anything else
    return _slots_of(Config(n_max=config.n_max, method=config.method, lanes=config.lanes), work)


def _base(graph: FitGraph, part: Part, load: Load, columns: int | None = None) -> Config:
    n, blocks = max(4, columns or graph.columns), 0
    assert graph.target is not None
    if graph.method is Method.GRAM and graph.target is Target.RANK and graph.incremental:
        blocks = min(max(1 << (load.rows // BLOCK).bit_length(), BLOCKS[0]), BLOCKS[1])
    widened = graph.bounds is Bounds.WIDENED and not blocks
    return Config(n_max=n, method=graph.method, target=graph.target, sums=Sums.INCREMENTAL if graph.incremental else Sums.SCAN, bounds=graph.bounds,
                  segments=SEGMENTS[graph.target] if widened else 1, blocks=blocks, bus_bytes=part.bus_bytes, gram_lanes=1, lanes=1, contexts=2, jobs=4)


def _candidates(base: Config, part: Part, load: Load) -> Iterator[Config]:
    n, triangle = base.n_max, base.n_max * (base.n_max + 1) // 2
    passes = base.bounds is Bounds.RESCAN or base.sums is Sums.SCAN
    entries = part.bus_bytes // ENTRY_BYTES
    # a lane for every entry, or as many as come in whole bus words
    sums = sorted({triangle} | {whole for d in (*_DIVISORS, triangle) if (whole := -(-triangle // d // entries) * entries) < triangle})
    for row_units in (1, 2, 4, 8) if passes else (1, 2):
        # the solver of `gram` takes a row a cycle
        for width in sorted({-(-n // d) for d in _DIVISORS}) if base.method is Method.GIVENS else (n,):
            if base.method is Method.GIVENS:
                units: Iterable[Config] = (replace(base, vectors=v, lanes=width) for v in (1, 2, 3, 4, 6, 8))
            else:
                units = (replace(base, gram_lanes=g, lanes=width, solvers=s) for g in sums for s in _SOLVERS)
            for unit in units:
                contexts = _contexts(replace(unit, solvers=1), load)
                ahead = -(-3 * part.latency // 32) + 2
                yield replace(unit, row_units=row_units, contexts=contexts, jobs=contexts * unit.solvers + ahead)


@lru_cache(maxsize=4096)
def _contexts_of(config: Config, work: Work) -> int:
    if config.method is Method.GIVENS:
        work = replace(work, met=work.met[:_SAMPLE])
    one = replace(config, contexts=1)
    cycles = rotations.alone(one, [work.folding()]) if config.method is Method.GIVENS else alone(one, [work.tasks(config)])
    return min(MOST_CONTEXTS, -(-cycles // max(1, work.slots(config) // config.vectors)) + 1)


def _contexts(config: Config, load: Load) -> int:
    """Groups that keep one solver busy: how much longer one takes alone than its issue slots."""
    return _contexts_of(Config(n_max=config.n_max, method=config.method, lanes=config.lanes, vectors=config.vectors), load.work(config))


def _smallest(graph: FitGraph, part: Part, columns: int, load: Load) -> Resources:
    """What the leanest candidate takes."""
    needs = [estimate(c, part) for c in _candidates(_base(graph, part, load, columns), part, load)]
    return min(needs, key=lambda need: (need.fits(part) is not None, need.lut + 100 * need.dsp))


def _longest(graph: FitGraph, part: Part, load: Load) -> int:
    """The longest window that fits; 0: none does."""
    return next((n - 1 for n in range(graph.columns - 1, 1, -1)
                 if row_stride(n - 1) <= part.bus_bytes and _smallest(graph, part, n, load).fits(part) is None), 0)


def longest_text(graph: FitGraph, part: Part, load: Load) -> str:
    """Return the longest window shorter than the graph's that fits on a part, as it is written in a kernel."""
    longest = _longest(graph, part, load)
    return f"window(key, {longest})" if longest else "none: not even one byte fits"


def _too_large(graph: FitGraph, part: Part, load: Load) -> KernelError:
    need = _smallest(graph, part, graph.columns, load)
    resource = need.fits(part) or "lut"
    return error("E601", f"kernel {graph.name!r} does not fit on {part.name}: the smallest engine for windows of {graph.columns - 1} bytes needs "
                 f"{getattr(need, resource):,} {resource.upper()}, the part has {_usable(part, resource)}", graph.span,
                 hint=f"the longest window that fits is {longest_text(graph, part, load)}; or choose a larger target (--target)", source=_source(graph))


def _usable(part: Part, resource: str) -> str:
    have = getattr(part, resource)
    return f"{have:,}" if resource in ("dsp", "bram") else f"{have:,}, of which {FILL:.0%} can be routed"


def _source(graph: FitGraph) -> str | None:
    return graph.source or None
