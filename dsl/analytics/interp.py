"""The reference: a kernel's updates in float64 NumPy, straight from the graph, to compare trained weights with.

Nothing of the hardware is in it: no formats, no threads, no order of sums. Batches are computed as arrays with an axis of
tuples in front. Models that are tables are read and changed with NumPy's indexing and `add.at`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.graph import Graph, Region
from ..core.operations import OPERATIONS, evaluate
from .integers import ABSENT, MEANINGS, Change, change_rows
from .overrides import initial_value

#: at most so many elements of the largest value of a batch are held at once
_CHUNK = 1 << 22
#: how a merge combines the values of a batch, along the axis of tuples, and two partial results
_MERGES: dict[str, Callable[..., np.ndarray]] = {
    "add": np.sum,
    "mul": np.prod,
    "max": np.max,
    "min": np.min,
}
_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Training:
    """What a training came to: the models, the epochs that ran, and whether `until` held."""

    models: dict[str, np.ndarray]
    epochs: int
    converged: bool


def train(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray] | None = None,
    epochs: int | None = None,
) -> dict[str, np.ndarray]:
    """Return the trained models by name; see `run`."""
    return run(graph, inputs, outputs, epochs).models


def run(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray] | None = None,
    epochs: int | None = None,
) -> Training:
    """Train on a table.

    * `inputs`, `outputs`: arrays by variable, of shape [rows, *variable.shape] (or flat in each row), all
      with the same number of rows. An index is an array of integers; a bag's missing places are masked
      (`numpy.ma`), and so may be all of them.
    * `epochs`: instead of the graph's own number.

    Every meta must have a value. `until` is tested after an epoch's last batch on the values of that batch: a model in its
    condition is the model that the batch began with. A table without rows leaves the models as they were.

    Raises IndexError for a row that a model does not have, OverflowError for an integer that 64 bits do not hold.
    """
    arrays = {**inputs, **(outputs or {})}
    table: dict[int, np.ndarray] = {}
    rows = 0
    sizes: dict[str, int] = {}
    for variable in (v for kind in ("input", "output", "index") for v in graph.of_kind(kind)):
        if variable.kind == "index":
            array, sizes[variable.name] = _integers(arrays[variable.name])
        else:
            array = np.asarray(arrays[variable.name], dtype=np.float64)
        rows = array.shape[0]
        table[variable.node] = array.reshape(rows, *variable.shape)
    if len({array.shape[0] for array in table.values()}) > 1:
        raise ValueError("inputs and outputs have different numbers of rows")
    return _Run(graph, table, rows, sizes).train(graph.epochs if epochs is None else epochs)


def _integers(indices: np.ndarray) -> tuple[np.ndarray, int]:
    """Return indices, with `ABSENT` for what is masked, and the bytes of their column's type."""
    masked = np.ma.asarray(indices)
    if masked.dtype.kind not in "iub":
        raise TypeError(f"indices are integers, not {masked.dtype}")
    return np.ma.filled(masked.astype(np.int64), ABSENT), 8 if masked.dtype.itemsize == 8 else 4


def constants(graph: Graph) -> dict[int, np.ndarray]:
    """Return what stays the same for a run, by node: constants, metas, and what is made of them alone."""
    return _Run(graph, {}, 0).fixed


def _given(graph: Graph) -> dict[int, np.ndarray]:
    fixed: dict[int, np.ndarray] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "const":
            fixed[i] = np.asarray(node.attrs["value"], dtype=np.float64)
    for variable in graph.of_kind("meta"):
        if variable.value is None:
            raise ValueError(f"the meta {variable.name} has no value")
        fixed[variable.node] = np.asarray(variable.value, dtype=np.float64)
    return fixed


class _Run:
    def __init__(
        self,
        graph: Graph,
        table: dict[int, np.ndarray],
        rows: int,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.graph = graph
        self.sizes = sizes or {}
        self.table = table
        self.rows = rows
        self.models = {v.node: initial_value(v) for v in graph.of_kind("model")}
        self.order = {
            region: [
                i
                for i, n in enumerate(graph.nodes)
                if n.region is region and n.inputs and n.op != "change"
            ]
            for region in Region
        }
        self.changes = {
            v.node: list(self._changes(i))
            for v, i in zip(graph.of_kind("model"), graph.returns, strict=False)
        }
        self.merges = [i for i, n in enumerate(graph.nodes) if n.op == "merge"]
        widest = max(math.prod(n.shape) for n in graph.nodes if n.op not in ("model", "change"))
        self.chunk = max(1, _CHUNK // widest)
        self.fixed = _given(graph)
        self.compute(Region.RUN, self.fixed)

    def _changes(self, index: int) -> Iterator[int]:
        """Yield the changes of rows that a model's new value is made of, in the order in which they are written."""
        node = self.graph.nodes[index]
        if node.op == "change":
            yield from self._changes(node.inputs[0])
            yield index

    def compute(self, region: Region, values: dict[int, np.ndarray], batched: bool = False) -> None:
        nodes = self.graph.nodes
        for i in self.order[region]:
            node = nodes[i]
            if node.op != "merge":
                flags = [batched and nodes[j].region is Region.TUPLE for j in node.inputs]
                operation = OPERATIONS.get(node.op) or MEANINGS[node.op]
                attrs = node.attrs
                if "of" in attrs:  # a hash is of the bytes of the widest column
                    attrs = {
                        **attrs,
                        "bytes": max((self.sizes[name] for name in attrs["of"]), default=4),
                    }
                values[i] = evaluate(operation, [values[j] for j in node.inputs], attrs, flags)

    def train(self, epochs: int) -> Training:
        count = self.graph.merge_count or max(self.rows, 1)
        models = list(self.graph.of_kind("model"))
        done, converged = 0, False
        with np.errstate(all="ignore"):
            while done < epochs and not converged:
                values: dict[int, np.ndarray] = {}
                for first in range(0, self.rows, count):
                    values = self.batch(first, min(first + count, self.rows))
                    for v, i in zip(models, self.graph.returns, strict=True):
                        if not self.changes[v.node]:
                            self.models[v.node] = values[i].copy()
                done += 1
                if self.graph.until is not None and values:
                    self.compute(Region.CONVERGENCE, values)
                    converged = bool(values[self.graph.until] != 0)
        return Training({v.name: self.models[v.node] for v in models}, done, converged)

    def batch(self, first: int, end: int) -> dict[int, np.ndarray]:
        """All values after one batch; those of single tuples only where there is one tuple."""
        shared = {**self.fixed, **self.models}
        self.compute(Region.MODEL, shared)
        values = shared
        changes: dict[int, list[list[Change]]] = {node: [] for node in self.changes}
        for start in range(first, end, self.chunk):
            part = slice(start, min(start + self.chunk, end))
            tuples = {**shared, **{node: array[part] for node, array in self.table.items()}}
            self.compute(Region.TUPLE, tuples, batched=True)
            for i in self.merges:
                node = self.graph.nodes[i]
                merged = tuples[node.inputs[0]]
                if node.attrs.get("counts"):
                    merged = np.ones(part.stop - part.start)
                new = _MERGES[node.attrs["op"]](merged, axis=0)
                values[i] = _COMBINE[node.attrs["op"]](values[i], new) if i in values else new
            for model, written in self.changes.items():
                if written:
                    changes[model].append([self.change(i, tuples, part) for i in written])
            if end - first == 1:
                values.update(
                    {
                        i: tuples[i][0]
                        for i, n in enumerate(self.graph.nodes)
                        if n.region is Region.TUPLE and i in tuples
                    }
                )
        self.compute(Region.MERGED, values)
        self.write(changes)
        return values

    def change(self, index: int, tuples: dict[int, np.ndarray], part: slice) -> Change:
        """Return what a change does for these tuples."""
        node, nodes = self.graph.nodes[index], self.graph.nodes
        base, at, update = node.inputs
        count = part.stop - part.start
        places, values = (
            tuples[i] if nodes[i].region is Region.TUPLE else tuples[i][None] for i in (at, update)
        )
        rows = nodes[at].shape + nodes[base].shape[1:]
        values = values.reshape(
            len(values), *(1,) * (len(rows) - values.ndim + 1), *values.shape[1:]
        )
        return Change(
            node.attrs["change"],
            np.broadcast_to(places, (count, *nodes[at].shape)),
            np.broadcast_to(values, (count, *rows)),
        )

    def write(self, changes: Mapping[int, Sequence[Sequence[Change]]]) -> None:
        """Change the rows of models: for each, the changes of one part of the batch's tuples after the other."""
        for v in self.graph.of_kind("model"):
            if changes.get(v.node) and self.graph.until is not None:
                self.models[v.node] = self.models[v.node].copy()  # the test sees the batch's own
            for part in changes.get(v.node, ()):
                change_rows(self.models[v.node], part, v.name)
