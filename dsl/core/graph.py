"""The typed dataflow graph that both front ends build: one node an operation on whole arrays, spans kept.

Shapes are tuples of integers of length 0 to 2 (dimensions are resolved before nodes get shapes). Broadcasting follows NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .diagnostics import Span


class Region(Enum):
    """When a node is computed. Order matters: a node's region is the highest of its operands' regions, merge nodes raise it."""

    RUN = 0  #: constants, metas: fixed for a run
    MODEL = 1  #: depends on models only: changes once a batch
    TUPLE = 2  #: once a tuple
    MERGED = 3  #: once a batch, after the merge
    CONVERGENCE = 4  #: once an epoch (only what `until` alone needs)


#: leaves: `input`, `output`, `model`, `meta` (attribute `name`), `const` (attribute `value`)
LEAVES = ("input", "output", "model", "meta", "const")


@dataclass
class Node:
    """One operation. `inputs` are indices into `Graph.nodes`, always smaller than the node's own index."""

    op: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    region: Region
    span: Span
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Variable:
    """A parameter of the kernel."""

    name: str
    kind: str  #: "input", "output", "model" or "meta"
    dims: tuple[str | int, ...]  #: as written: names or integers
    shape: tuple[int, ...]
    span: Span
    node: int
    value: float | None = None  #: a meta's value
    init: Any = 0.0  #: a model's start: number, nested list, array or Uniform


@dataclass(frozen=True)
class Uniform:
    """`ps.uniform(low, high, seed=1)`: a model's random start, the same numbers for the same seed and shape."""

    low: float
    high: float
    seed: int = 1


@dataclass
class Graph:
    """A kernel, checked: shapes known, regions assigned, every model returned.

    The graph of a score learns nothing: `returns` is the score's node, its models are those that it uses.
    """

    name: str
    nodes: list[Node]
    variables: dict[str, Variable]
    #: a node for each model, in the order of the models among the parameters
    returns: tuple[int, ...]
    until: int | None  #: a scalar node
    epochs: int
    merge_count: int  #: tuples of a batch: 1 without any merge, 0 for the whole epoch
    source: str = ""  #: the kernel's text, for diagnostics and profiles
    score: str = ""  #: the score's name
    scoring: Graph | None = None  #: the graph of the kernel's score, None where it has none
    unscored: str = ""  #: why it has none

    def of_kind(self, kind: str) -> list[Variable]:
        return [v for v in self.variables.values() if v.kind == kind]
