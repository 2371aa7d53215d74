"""What the designs of all fits have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from penstock.dsl.qr.kernel import FitGraph
from penstock.engines.base import Cycles, Design
from penstock.models.mapping import Storage
from penstock.models.numerics.formats import Format, float32
from penstock.models.qr.resources import estimate, memories
from penstock.models.resources import Resources
from penstock.models.target import Target

if TYPE_CHECKING:
    from penstock.sim.native import PortSpec


class AnyFit(Design):
    """A compiled fit: its graph, and the plan of an engine with one memory port."""

    graph: FitGraph
    plan: Any
    #: over which pages come into a ring, in place of the target's link
    link: str | None = None

    engine_name = "qr"

    @property
    def name(self) -> str:
        return self.graph.name

    def structure(self) -> Any:
        identity = {"engine": self.engine_name, "kernel": self.name}
        return identity | {"target": self.target.to_json(), "config": self.plan.structure()}

    def resources_on(self, part: Target) -> Resources:
        return estimate(self.plan, part)

    def storages(self) -> Iterable[tuple[int, Storage]]:
        return memories(self.plan)

    @property
    def format(self) -> Format:
        return float32  # the solver's

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        from penstock.sim.native import PortSpec

        return (PortSpec("m0_axi", self.plan.bus_bytes, True, True),)

    def to_json(self) -> dict[str, Any]:
        return {"config": self.plan.to_json(), "fit": self.graph.to_json()}


def in_all(runs: Sequence[Cycles], counters: Mapping[str, int]) -> Cycles:
    """Return what runs of the engine take, one after the other."""

    def total(name: str) -> Any:
        return reduce(add, (getattr(run, name) for run in runs))

    cycles, bound, machine = map(total, ("total", "bound", "bound_machine"))
    moved = total("bytes_read"), total("bytes_written")
    return Cycles(cycles, bound, counters, {}, *moved, bound_machine=machine)
