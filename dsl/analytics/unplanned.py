"""Errors where there is no plan: E605 for choices that go with none, E601 for a part that holds none."""

from collections.abc import Iterable
from dataclasses import replace

from ...models.resources import FILL
from ..core.diagnostics import KernelError, Span, error
from .candidates import Candidate, Maker
from .lower_rows import by_rows
from .widths import MOST, lanes_of


def _place(maker: Maker) -> Span:
    graph = maker.graph
    return next((v.span for v in graph.of_kind("model")), Span.whole(graph.name))


def no_such_plan(maker: Maker) -> KernelError:
    """Return the error for lanes that no row fills, or for threads and ports that are fixed and do not go together (E605)."""
    part, chosen, batch = maker.target, maker.choices, maker.graph.merge_count
    if chosen.lanes and by_rows(maker.graph):
        most = lanes_of(replace(maker, choices=replace(chosen, lanes=None)))[0][-1]
        if chosen.lanes > most:
            binds = f"the shortest sum of {maker.graph.name!r} fills {most}"
            what = (
                f"no plan has {chosen.lanes} lanes: {binds if most < MOST else f'{MOST} at most'}"
            )
            return error("E605", what, _place(maker), hint=f"give --lanes {most} or fewer")
    threads, ports = (n or "any number of" for n in (chosen.threads, chosen.ports))
    return error(
        "E605",
        f"no plan has {threads} threads on {ports} memory ports of {part.name} for batches of {batch or 'an epoch'}",
        _place(maker),
        hint=f"{part.name} has {part.ports} memory port{'s' * (part.ports > 1)}: leave --ports out"
        if chosen.ports and chosen.ports > part.ports
        else "ports must be a power of two, divide the threads, and threads on several ports must divide the batch",
    )


def none_fits(maker: Maker, candidates: Iterable[Candidate]) -> KernelError:
    """Return the error for candidates of which the part holds none (E601)."""
    need = min(candidates, key=lambda c: c.resources.lut).resources
    graph, have, chosen = maker.graph, maker.target, maker.choices
    resource = need.fits(have)
    assert resource is not None
    names = ("lanes", "threads", "ports", "walkers")
    fixed = [f"--{name} {n}" for name in names if (n := getattr(chosen, name)) is not None]
    free = f"leave {' and '.join(fixed)} out, so that the planner finds what fits; "
    sizes = ", ".join(f"{v.name}{list(v.shape)}" for v in graph.of_kind("model"))
    fills = getattr(need, resource) <= getattr(have, resource)
    return error(
        "E601",
        f"kernel {graph.name!r} does not fit on {have.name}: the smallest engine found needs {getattr(need, resource):,} {resource.upper()}, "
        f"the part has {getattr(have, resource):,}{f', of which {FILL:.0%} can be filled' * fills}",
        _place(maker),
        hint=f"{free * bool(fixed)}models {sizes} in {maker.fmt.name}: "
        "a smaller dimension, a narrower format (--format) or a larger target (--target, --board) would help",
    )
