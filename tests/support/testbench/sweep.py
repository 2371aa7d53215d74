"""The best plan of a full sweep of forced options, by the cycle model: what the planner's own plan is held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.api import Design, assume, compile
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.models.analytics.bound import bound
from penstock.models.memory import parse_memory
from penstock.targets import target_named as target

__all__ = ["Judged", "forced", "held", "judged", "linear", "modelled"]

_LINEAR = """kernel linear(x: input[d], y: output, w: model[d], b: model, rate: meta = 0.1)
  error = sum(w * x) + b - y
  step  = merge(error * x{over})
  w    <- w - rate / {count} * step
  b    <- b - rate / {count} * merge(error{over})
"""


@dataclass(frozen=True)
class Judged:
    """The planner's cycles, those of the best plan of the sweep that fits, that plan's options, and both bounds of the planner's."""

    cycles: int
    best: int
    choices: Choices
    plans: int
    bound: int
    machine: int

    @property
    def ratio(self) -> float:
        return self.cycles / self.best


def linear(count: int) -> Any:
    """Return the linear model with batches of `count` tuples; 0: of an epoch."""
    over = f", {count}" if count else ""
    return from_text(_LINEAR.format(count=count or 1, over=over), f"linear-{count}.psk")


def modelled(design: Design, rows: int) -> Any:
    return design.run(assume(design.plan.schema, rows), "model", epochs=1)


def held(design: Design, rows: int) -> int:
    """Return so many rows, or about as many as the target's memory holds."""
    schema, have = design.plan.schema, design.target.memory.bytes or 1 << 60
    while assume(schema, rows).pages * schema.page_size > 0.95 * have:
        rows = rows * 9 // 10
    return rows


def forced(design: Design) -> Iterator[Choices]:
    """Yield options that fix all that a user can of a plan."""
    plan, part = design.plan, target(design.target.name)
    longest = max(b.cols for b in plan.buffers)
    whole = sum(field.rows * field.cols for field in plan.layout.fields)  # all in one beat
    parts = {-(-n // beats) for n in (longest, whole) for beats in (1, 2, 3)}
    powers = [1 << k for k in range(9)]
    most = max(longest, whole)
    for threads in sorted(n for n in {*powers, 12, 48} if n <= (plan.merge_count or 256)):
        for ports in (n for n in powers if n <= part.ports and threads % n == 0):
            for lanes in sorted(n for n in {*powers, *parts} if n <= min(64, most)):
                for walkers in (1, 2, 4, 6, 8):
                    yield Choices(lanes=lanes, threads=threads, ports=ports, walkers=walkers)


def judged(kernel: Any, name: str, rows: int, **given: Any) -> Judged:
    """Hold the planner's plan of a kernel for a target against a sweep, over `rows`, or as many as its memory holds.

    What is passed over cannot be better: plans whose own bound is above the best so far, options with which the beats of a group
    alone take longer, and further Striders where the part does not even hold fewer.
    """
    design = compile(kernel, name, **given)
    rows = held(design, rows)
    run, fill = modelled(design, rows), Choices().fill
    pages, batch = assume(design.plan.schema, rows).pages, design.plan.merge_count or rows
    best, chosen, plans = run.cycles, Choices(), 0
    memory = parse_memory(str(design.memory))
    batches = -(-rows // batch)
    longest = max(b.cols for b in design.plan.buffers if b.kind == "input")
    full: set[tuple[Any, ...]] = set()
    for choices in forced(design):
        assert choices.threads and choices.lanes
        groups = batches * -(-batch // choices.threads)
        options = choices.lanes, choices.threads, choices.ports
        if options in full or (groups - batches) * -(-longest // choices.lanes) > best:
            continue
        try:
            other = compile(kernel, name, **given, choices=choices)
        except KernelError:
            full.add(options)
            continue
        plan, plans = other.plan, plans + 1
        if max(other.resources.shares(other.target).values()) > fill:
            full.add(options)
            continue
        if bound(plan, pages, groups - batches, batches - 1, memory, 1).cycles > best:
            continue
        cycles = modelled(other, rows).cycles
        if cycles < best:
            best, chosen = cycles, choices
    return Judged(run.cycles, best, chosen, plans, run.bound.cycles, run.bound_machine.cycles)
