"""Planning: threads, lanes, ports and units for a target, chosen by what the static schedule says of each candidate.

The cost of a candidate is its cycles a tuple in the long run: the slower of memory, Striders, loaders and engine, where the engine's batch
takes its groups' intervals and then the way from the last group to the new model. Of all candidates within a few per cent of the fastest
the smallest is taken (DAnA chooses likewise: PVLDB 11(11), section 6.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...models.analytics.config import AnalyticsPlan, Buffer
from ...models.analytics.resources import estimate
from ...models.heap.schema import TYPES, Schema
from ...models.memory.timing import FixedLatency, Memory
from ...models.numerics.formats import Format
from ...models.resources import FILL, Resources
from ...models.strider.layout import Source, TupleLayout, place
from ...models.target import Target
from ..core.bind import Source as BoundSource
from ..core.diagnostics import Span, error
from ..core.graph import Graph
from .lower import Program, lower
from .schedule import Scheduled, schedule

__all__ = ["Choices", "plan"]

#: candidates within this factor of the fastest are as good
TOLERANCE = 1.03
#: families whose block RAMs take half a cycle of the clocks that these plans are for
_SLOW_READS = ("ecp5",)
#: threads beyond this many are not tried
MOST_THREADS = 256


@dataclass(frozen=True)
class Choices:
    """What the user fixes; None leaves it to the planner."""

    lanes: int | None = None
    threads: int | None = None
    ports: int | None = None
    walkers: int | None = None
    on_null: str = "error"
    on_overflow: str = "error"
    on_nan: str = "error"
    visibility: str = "hints"


@dataclass(frozen=True)
class _Candidate:
    plan: AnalyticsPlan
    cycles: float
    resources: Resources


def plan(
    graph: Graph,
    columns: Mapping[str, Sequence[BoundSource]],
    schema: Schema,
    target: Target,
    fmt: Format,
    *,
    choices: Choices | None = None,
    memory: Memory | None = None,
) -> AnalyticsPlan:
    """Return the plan for `graph` on `target`.

    Parameters: `columns`: for each `Input` and `Output` where its values come from, in order (`Binding.fields`); `fmt`:
    the engine's number format; `memory`: the port's timing where it is not the target's own.

    Raises KernelError (E601) where nothing fits, (E605) where there is no plan with the user's choices.
    """
    memory = memory or FixedLatency(target.latency, target.bytes_per_cycle)
    return _Planner(graph, columns, schema, target, fmt, choices or Choices(), memory).run()


@dataclass
class _Planner:
    graph: Graph
    columns: Mapping[str, Sequence[BoundSource]]
    schema: Schema
    target: Target
    fmt: Format
    choices: Choices
    memory: Memory
    smallest: _Candidate | None = None

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each input and output."""
        variables = [v for kind in ("input", "output") for v in self.graph.of_kind(kind)]
        return {v.name: ((1, 1, *v.shape)[-2], (1, 1, *v.shape)[-1]) for v in variables}

    def run(self) -> AnalyticsPlan:
        good: list[_Candidate] = []
        space = list(self._space())
        if not space:
            raise self._impossible()
        for lanes, threads, ports in space:
            for candidate in self._candidates(lanes, threads, ports):
                if self.smallest is None or candidate.resources.lut < self.smallest.resources.lut:
                    self.smallest = candidate
                if candidate.resources.fits(self.target) is None:
                    good.append(candidate)
        if not good:
            raise self._too_large()
        best = min(c.cycles for c in good)
        chosen = min(
            (c for c in good if c.cycles <= best * TOLERANCE),
            key=lambda c: (c.resources.lut + 100 * c.resources.dsp, c.cycles),
        ).plan
        # the way from model to model with a unit for every operation: the kernel's own recurrence
        free = schedule(
            lower(self.graph, chosen.lanes, serial_limit=1), self.fmt, chosen.threads, 1
        )
        return replace(
            chosen,
            notes={**chosen.notes, "recurrence": min(free.schedule.batch, chosen.schedule.batch)},
        )

    def _space(self) -> Iterator[tuple[int, int, int]]:
        """Yield (lanes, threads, ports) to be tried."""
        chosen, batch = self.choices, self.graph.merge_count
        most = min(batch or MOST_THREADS, MOST_THREADS)
        cols = {cols for _, cols in self.shapes.values()} | {
            (1, 1, *v.shape)[-1] for v in self.graph.of_kind("model")
        }
        longest = max(cols, default=1)
        useful = max(1, min(longest, 64, 4 * self.target.bus_bytes // self.fmt.container))
        widths = {1, 2, 4, 8, 16, 32} | {-(-longest // beats) for beats in (1, 2, 3, 4)}
        lanes_tried = [chosen.lanes] if chosen.lanes else sorted(n for n in widths if n <= useful)
        for threads in [chosen.threads] if chosen.threads else _powers(most):
            # several ports share a batch evenly; as many of them are used as threads and batch allow
            possible = [
                n
                for n in _powers(self.target.ports)
                if threads % n == 0 and (n == 1 or batch % threads == 0)
            ]
            for ports in [chosen.ports] if chosen.ports else possible[-1:]:
                if ports in possible:
                    for lanes in lanes_tried:
                        yield lanes, threads, ports

    # one candidate

    def _candidates(self, lanes: int, threads: int, ports: int) -> Iterator[_Candidate]:
        """Yield the plan with the units that the stream of tuples asks for, and, where the way through a batch is what takes long, one with more."""
        layout = self._layout(lanes)
        walkers = self.choices.walkers or self._walkers(lanes)
        stream = max(self._bus_cycles(), self._walk_cycles(lanes) / walkers, layout.beats)
        interval = max(1, int(stream * threads / ports))
        for target in dict.fromkeys((interval, max(1, interval // 4))):
            program = lower(self.graph, lanes, serial_limit=target)
            scheduled = schedule(program, self.fmt, threads, target)
            made = self._assemble(program, scheduled, layout, threads, ports, walkers, stream)
            cycles = self._cycles(made, stream)
            yield _Candidate(made, cycles, estimate(made, self.target))
            if cycles * ports <= stream * TOLERANCE:
                return

    def _cycles(self, made: AnalyticsPlan, stream: float) -> float:
        """Return the estimated cycles a tuple in the long run."""
        s = made.schedule
        count = made.merge_count or 1 << 20
        groups = -(-count // made.threads)
        return max(stream / made.ports, ((groups - 1) * s.interval + s.batch) / count)

    def _assemble(
        self,
        program: Program,
        scheduled: Scheduled,
        layout: TupleLayout,
        threads: int,
        ports: int,
        walkers: int,
        stream: float,
    ) -> AnalyticsPlan:
        s = scheduled.schedule
        per_port = threads // ports
        fill = max(1.0, stream * per_port)
        # slots for the groups being computed, one being loaded, and what arrives while a batch is closed
        backlog = min(s.batch / fill, -(-(self.graph.merge_count or threads) // threads))
        input_slots = max(
            2, min(8, int(-(-s.release // max(s.interval, fill))) + 1 + int(np.ceil(backlog)))
        )
        rows = max(1, (self.schema.page_size - 24) // (self.tuple_bytes + 4))
        tuple_slots = 4 if walkers == 1 else min(rows + 1, 4096)
        latency_pages = (self.memory.latency + 24) / max(
            1.0, self.schema.page_size / self.memory.rate(self.target.bus_bytes)
        )
        # beside small block RAMs a third page would take as many of them again
        pages = 2 if self.target.bram_bits <= 4096 else 2 + int(np.ceil(latency_pages / walkers))
        buffers, ops, remap = _compact(scheduled.buffers, scheduled)
        buffers = tuple(replace(b, slots=input_slots) if b.kind == "input" else b for b in buffers)
        return AnalyticsPlan(
            kernel=self.graph.name,
            target=self.target.name,
            format_name=self.fmt.name,
            lanes=layout.lanes,
            threads=threads,
            ports=ports,
            walkers=walkers,
            page_buffers=pages,
            tuple_slots=tuple_slots,
            input_slots=input_slots,
            bus_bytes=self.target.bus_bytes,
            merge_count=self.graph.merge_count,
            epochs=self.graph.epochs,
            layout=layout,
            buffers=buffers,
            units=scheduled.units,
            ops=ops,
            models=tuple(remap[n] for n in program.models),
            runs=tuple(remap[n] for n in program.runs if n in remap),
            until=remap[program.until] if program.until is not None else None,
            schedule=s,
            schema=self.schema,
            visibility=self.choices.visibility,
            on_overflow=self.choices.on_overflow,
            on_nan=self.choices.on_nan,
            lean=self.target.lean,
            window_latency=5 if self.target.lean and self.target.family in _SLOW_READS else 4,
            notes={
                "means": any(node.attrs.get("counts", False) for node in self.graph.nodes),
                "run_values": {
                    buffers[remap[n]].name: np.asarray(v).tolist()
                    for n, v in zip(program.runs, program.run_values, strict=True)
                    if n in remap
                },
            },
        )

    # the stream of tuples

    def _layout(self, lanes: int) -> TupleLayout:
        beats, fields = place(self.shapes, lanes)
        sources: list[Source] = []
        for item in fields:
            index = 0
            for part in self.columns[item.name]:
                column, first, count = part.attribute, part.first, part.count
                while count:
                    row, col = divmod(index, item.cols)
                    run = min(count, item.cols - col)
                    sources.append(
                        Source(column, first, run, item.position + row * item.stride + col)
                    )
                    index, first, count = index + run, first + run, count - run
        return TupleLayout(lanes, beats, fields, tuple(sources), self.choices.on_null)

    @cached_property
    def tuple_bytes(self) -> int:
        """Estimate a tuple's bytes with its header (columns whose length the catalog does not tell count as short)."""
        size = 0
        for column in self.schema.columns:
            kind = column.storage
            if kind.element is not None:
                length = 24 + (column.length or 1) * TYPES[kind.element].length
            else:
                length = kind.length if kind.length > 0 else 8
            size = -(-size // kind.align) * kind.align + length
        return 24 + -(-size // 8) * 8

    def _bus_cycles(self) -> float:
        return (self.tuple_bytes + 4) / self.memory.rate(self.target.bus_bytes)

    def _walk_cycles(self, lanes: int) -> float:
        """Estimate a Strider's cycles a tuple: a few of its own and one for each window of each run of values."""
        cycles = 4.0
        for places in self.columns.values():
            for part in places:
                name = self.schema.columns[part.attribute].type
                size = TYPES[TYPES[name].element or name].length
                cycles += -(-part.count // max(1, min(self.target.bus_bytes // size, lanes)))
        return cycles

    def _walkers(self, lanes: int) -> int:
        return int(max(1, min(8, np.ceil(self._walk_cycles(lanes) / max(1.0, self._bus_cycles())))))

    def _impossible(self) -> Exception:
        threads, ports, batch = self.choices.threads, self.choices.ports, self.graph.merge_count
        span = next((v.span for v in self.graph.of_kind("model")), Span.whole(self.graph.name))
        return error(
            "E605",
            f"no plan has {threads or 'any number of'} threads on {ports or 'any number of'} memory ports of {self.target.name} "
            f"for batches of {batch or 'an epoch'}",
            span,
            hint=f"{self.target.name} has {self.target.ports} memory port{'s' * (self.target.ports > 1)}: leave --ports out"
            if ports and ports > self.target.ports
            else "ports must be a power of two, divide the threads, and threads on several ports must divide the batch",
        )

    def _too_large(self) -> Exception:
        assert self.smallest is not None
        need, have = self.smallest.resources, self.target
        resource = need.fits(self.target)
        assert resource is not None
        span = next((v.span for v in self.graph.of_kind("model")), Span.whole(self.graph.name))
        fixed = [
            f"--{name} {value}"
            for name in ("lanes", "threads", "ports", "walkers")
            if (value := getattr(self.choices, name)) is not None
        ]
        free = (
            f"leave {' and '.join(fixed)} out, so that the planner finds what fits; "
            if fixed
            else ""
        )
        sizes = ", ".join(f"{v.name}{list(v.shape)}" for v in self.graph.of_kind("model"))
        full = (
            ""
            if getattr(need, resource) > getattr(have, resource)
            else f", of which {FILL:.0%} can be filled"
        )
        return error(
            "E601",
            f"kernel {self.graph.name!r} does not fit on {have.name}: the smallest engine found needs "
            f"{getattr(need, resource):,} {resource.upper()}, the part has {getattr(have, resource):,}{full}",
            span,
            hint=f"{free}models {sizes} in {self.fmt.name}: "
            "a smaller dimension, a narrower format (--format) or a larger target (--target, --board) would help",
        )


def _powers(limit: int) -> Iterator[int]:
    n = 1
    while n <= limit:
        yield n
        n *= 2


def _compact(
    buffers: Sequence[Buffer], scheduled: Scheduled
) -> tuple[tuple[Buffer, ...], tuple, dict[int, int]]:
    """Drop buffers that no operation touches; return the rest, the operations renumbered, and the renumbering."""
    touched = {op.dest for op in scheduled.ops}  # the models among them
    touched |= {o.buffer for op in scheduled.ops for o in op.operands}
    keep = sorted(touched)
    remap: dict[int, int] = {old: new for new, old in enumerate(keep)}
    ops: list[Any] = [
        replace(
            op,
            dest=remap[op.dest],
            operands=tuple(replace(o, buffer=remap[o.buffer]) for o in op.operands),
        )
        for op in scheduled.ops
    ]
    return tuple(buffers[n] for n in keep), tuple(ops), remap
