"""What is fitted, as plain data in manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.dsl.core.diagnostics import Span
from penstock.dsl.qr.kernel import FitGraph
from penstock.models.qr.job import Label, Method

__all__ = ["graph_from", "graph_json"]


def graph_json(graph: FitGraph) -> dict[str, Any]:
    """Return a graph as plain data."""
    return {
        **vars(graph),
        "target": graph.target and graph.target.value,
        "method": graph.method.value,
        "span": graph.span.to_json(),
    }


def graph_from(data: Mapping[str, Any]) -> FitGraph:
    """Return the graph of `graph_json`."""
    target = data["target"] and Label(data["target"])
    method, span = Method(data["method"]), Span(**data["span"])
    return FitGraph(**{**data, "target": target, "method": method, "span": span})
