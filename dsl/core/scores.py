"""Kernels that score: the graph of a score with what was learned as its models' starts. They learn nothing, and every row gives one number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .diagnostics import Diagnostic, Span
from .graph import Graph, Node, Region, Variable
from .kernel import AnyKernel, Parameter
from .operations import ELEMENTWISE, apply


@dataclass
class ScoreKernel(AnyKernel):
    """The score of a kernel, which an engine for tables compiles.

    `graph`: of the score (`Graph.scoring`), whose models' `init` and metas' `value` are numbers.
    """

    graph: Graph = field(kw_only=True)
    keyword = "kernel"

    @classmethod
    def of(cls, graph: Graph, models: Mapping[str, Any], metas: Mapping[str, float]) -> ScoreKernel:
        """Return the kernel of a score with the models that were learned, as arrays, and the metas' values."""
        place = Span.whole(graph.name)
        variables = {}
        for name, v in graph.variables.items():
            init = (
                np.asarray(models[name], np.float64).reshape(v.shape) if v.kind == "model" else 0.0
            )
            value = metas.get(name, v.value) if v.kind == "meta" else None
            dims: tuple[int | str, ...] = v.shape
            if v.kind == "index":  # what it counts, and how far each of its columns does
                init, dims = v.init, v.dims
            variables[name] = replace(v, init=init, value=value, dims=dims, span=place)
        parameters = [Parameter(v.name, v.kind, v.dims, place, v.value) for v in variables.values()]
        graph = replace(graph, variables=variables)
        return cls(graph.name, graph.name, None, parameters, place, graph=graph)

    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        return []

    def trace(self, dims: Mapping[str, int] | None = None) -> Graph:
        return self.graph


def evaluate(graph: Graph, inputs: Mapping[str, Any]) -> np.ndarray:
    """Return the scores of rows in float64, as NumPy has them.

    Parameters: `inputs`: arrays by variable, of shape [rows, *variable.shape] or flat in each row.
    """
    rows = len(next(iter(inputs.values())))
    values: list[np.ndarray] = []
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node.op == "const":
                value = np.asarray(node.attrs["value"], np.float64)
            elif node.inputs:
                flags = [graph.nodes[i].region is Region.TUPLE for i in node.inputs]
                value = apply(node.op, [values[i] for i in node.inputs], node.attrs, flags)
            else:
                variable = graph.variables[node.attrs["name"]]
                if node.op == "input":
                    array = np.asarray(inputs[variable.name], np.float64)
                    value = array.reshape(rows, *variable.shape)
                else:
                    number = variable.init if node.op == "model" else variable.value
                    value = np.asarray(number, np.float64)
            if value.shape not in (node.shape, (rows, *node.shape)):
                raise ValueError(f"{node.op} gives the shape {value.shape}, not {node.shape}")
            values.append(value)
    return np.asarray(values[graph.returns[0]], np.float64)


def linear(name: str, weights: Any, bias: float) -> ScoreKernel:
    """Return the kernel whose score is bias + Σ w x, over an input `x` of as many elements as there are weights."""
    place, shape = Span.whole(name), np.shape(weights)

    def leaf(kind: str, name: str, shape: tuple[int, ...], region: Region) -> Node:
        return Node(kind, (), shape, region, place, {"name": name})

    nodes = [
        leaf("input", "x", shape, Region.TUPLE),
        leaf("model", "weights", shape, Region.MODEL),
        leaf("model", "bias", (), Region.MODEL),
        Node("mul", (1, 0), shape, Region.TUPLE, place),
        Node("sum", (3,), (), Region.TUPLE, place),
        Node("add", (4, 2), (), Region.TUPLE, place),
    ]
    variables = {
        node.attrs["name"]: Variable(
            node.attrs["name"], node.op, node.shape, node.shape, place, index
        )
        for index, node in enumerate(nodes[:3])
    }
    graph = Graph(name, nodes, variables, (5,), None, 1, 0, score="prediction")
    return ScoreKernel.of(graph, {"weights": weights, "bias": bias}, {})


# as plain data

#: elements of a value of a score, where its models have not half as many
_MOST = 1 << 16
#: so many values of that many elements are in one score at the most
_VALUES = 64


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """Return the graph of a score as plain data, without the values of its models and without places."""
    nodes = [
        [n.op, list(n.inputs), list(n.shape), n.region.name, _attrs(n.attrs)] for n in graph.nodes
    ]
    variables = [
        [v.name, v.kind, list(v.shape), v.node, v.value]
        + ([list(v.dims), list(v.init)] if v.kind == "index" else [])
        for v in graph.variables.values()
    ]
    return {
        "name": graph.name,
        "score": graph.score,
        "root": graph.returns[0],
        "nodes": nodes,
        "variables": variables,
    }


def _attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in attrs.items()}


def graph_from_json(data: Mapping[str, Any]) -> Graph:
    place = Span.whole(data["name"])
    nodes = [
        Node(op, tuple(inputs), tuple(shape), Region[region], place, _held(attrs))
        for op, inputs, shape, region, attrs in data["nodes"]
    ]
    variables = {}
    for name, kind, shape, node, value, *of_index in data["variables"]:
        dims, init = of_index or (shape, 0.0)
        variables[name] = Variable(name, kind, tuple(dims), tuple(shape), place, node, value, init)
    learned = (math.prod(v.shape) for v in variables.values() if v.kind == "model")
    most = max(_MOST, 2 * sum(learned))
    shapes = [v.shape for v in variables.values()]
    for index, node in enumerate(nodes):
        if not all(0 <= operand < index for operand in node.inputs):
            raise ValueError(f"{node.op!r:.60} takes a value that comes later")
        own = computed(node.op, [nodes[operand].shape for operand in node.inputs])
        shapes += [node.shape, own or ()]
    for shape in shapes:
        if min(shape, default=1) < 1 or math.prod(shape) > most:
            raise ValueError(f"a value of its score has the shape {shape!r:.60}")
    if sum(math.prod(node.shape) for node in nodes) > _VALUES * most:
        raise ValueError("the values of its score take too much memory")
    root = (int(data["root"]),)
    return Graph(data["name"], nodes, variables, root, None, 1, 0, score=data["score"])


def computed(op: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape that an operation gives; None where it is no larger than its operands' shapes."""
    if op in ELEMENTWISE:
        return np.broadcast_shapes(*shapes)
    if op in ("outer", "matmul"):
        left, right = shapes
        return left + right if op == "outer" else (*left[:-1], *right[1:])
    return None


def _held(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's attributes, the values of constants as arrays."""
    value = attrs.get("value")
    return {**attrs, **({"value": np.asarray(value)} if isinstance(value, list) else {})}
