"""What the designs of all fits have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.dsl.core.diagnostics import Span
from penstock.dsl.qr.kernel import FitGraph
from penstock.engines.base import Design
from penstock.models.numerics.formats import Format, float32
from penstock.models.qr.job import Label, Method

__all__ = ["AnyFit", "graph_from", "graph_json"]

if TYPE_CHECKING:
    from penstock.sim.native import PortSpec


class AnyFit(Design):
    """A compiled fit: its graph, and the plan of an engine with one memory port."""

    graph: FitGraph
    plan: Any

    engine_name = "qr"

    @property
    def name(self) -> str:
        return self.graph.name

    def structure(self) -> Any:
        whole = {"engine": self.engine_name, "kernel": self.name}
        return whole | {"target": self.target.to_json(), "config": self.plan.structure()}

    @property
    def format(self) -> Format:
        return float32  # the solver's

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        from penstock.sim.native import PortSpec

        return (PortSpec("m0_axi", self.plan.bus_bytes, True, True),)

    def to_json(self) -> dict[str, Any]:
        return {"config": self.plan.to_json(), "fit": graph_json(self.graph)}


def graph_json(graph: FitGraph) -> dict[str, Any]:
    """Return a graph as plain data."""
    target = graph.target and graph.target.value
    more = {"target": target, "method": graph.method.value, "span": graph.span.to_json()}
    return vars(graph) | more


def graph_from(data: Mapping[str, Any]) -> FitGraph:
    """Return the graph of `graph_json`."""
    target = data["target"] and Label(data["target"])
    method, span = Method(data["method"]), Span(**data["span"])
    return FitGraph(**{**data, "target": target, "method": method, "span": span})
