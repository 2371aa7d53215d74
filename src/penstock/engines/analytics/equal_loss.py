"""What CPUs do for a training, to a loss at most ours: our updates in C and NumPy, from rows and from raw pages, and what MADlib does."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.graph import Graph
from penstock.host.peers import Measured, Peer, measure
from penstock.host.sources import Table
from penstock.models.heap.schema import Schema
from penstock.models.heap.writer import write_heap

from .glm import loss
from .in_c import InC

_Rows = NDArray[np.float32]
#: at the end of the names of peers that begin at a table's pages, as we do
PAGES = ", from pages"


def random_table(schema: Schema, features: int, rows: int, kernel: str) -> Table:
    """Return a table of standard normal features, with labels of a hidden linear model."""
    source = np.random.default_rng(1)
    x = source.standard_normal((rows, features), dtype=np.float32)
    score = x @ source.standard_normal(features, dtype=np.float32) / np.float32(np.sqrt(features))
    score += source.standard_normal(rows, dtype=np.float32) / 4
    y = score if kernel == "linear" else np.where(score > 0, 1, -1 if kernel == "svm" else 0)
    columns = {"id": np.arange(rows, dtype=np.int32), "y": y, "x": x}
    return Table(schema, write_heap(schema, columns))


def rows_of(table: Table, features: int) -> _Rows:
    """Return features and label of each row, as a Strider takes them from the schema alone: tuples of
    one size lie from the end of a page downwards. Nothing is checked."""
    size = (24 + 8 + 24 + 4 * features + 7) // 8 * 8  # header, id and y, array's header, elements
    page, words = table.schema.page_size, table.pages.view("<i4")
    kept = {column.name: column.type for column in table.schema.columns}
    label = "<f4" if kept["y"] == "float4" else "<i4"
    lowers = np.ascontiguousarray(table.pages[:, 12:14]).view("<u2")[:, 0]
    changes = np.flatnonzero(np.diff(lowers, prepend=-1)).tolist()
    counts, at = (lowers.astype(np.int64) - 24) // 4, 0
    rows = np.empty((int(counts.sum()), features + 1), dtype=np.float32)
    for first, end in itertools.pairwise([*changes, len(lowers)]):  # pages of as many tuples
        shape = (end - first, int(counts[first]))
        out = rows[at : at + shape[0] * shape[1]].reshape(*shape, -1)
        block = words[first:end]
        for place, kind, count, to in ((28, label, 1, features), (56, "<f4", features, 0)):
            part = block.view(kind)[:, (page - size + place) // 4 :]
            tuples = np.lib.stride_tricks.as_strided(part, (*shape, count), (page, -size, 4))
            out[:, :, to : to + count] = tuples
        at += shape[0] * shape[1]
    return rows


def _loss(kernel: str, rows: _Rows, w: NDArray[Any]) -> float:
    return loss(kernel, rows[:, :-1] @ np.ravel(w).astype(np.float32), rows[:, -1])


def _batches(kernel: str, rows: _Rows, batch: int, epochs: int) -> _Rows:
    """Return the model after our updates, by NumPy in float32."""
    w = np.zeros(rows.shape[1] - 1, dtype=np.float32)
    for _ in range(epochs):
        for at in range(0, len(rows), batch):
            x, y = rows[at : at + batch, :-1], rows[at : at + batch, -1]
            score = x @ w
            if kernel == "svm":
                error = np.where(y * score < 1, -y, np.float32(0))
            else:
                error = (1 / (1 + np.exp(-score)) if kernel == "logistic" else score) - y
            w -= np.float32(0.1 / len(y)) * (error @ x)
    return w


def _exact(kernel: str, rows: _Rows, goal: float) -> NDArray[Any]:
    """Return what MADlib computes: closed form of linear regression, else iteratively reweighted
    least squares until the loss is the goal, at most 20 times."""
    x, y = rows[:, :-1], rows[:, -1]
    if kernel == "linear":
        return np.linalg.solve(x.T @ x, x.T @ y)
    w = np.zeros(x.shape[1], dtype=np.float32)
    for _ in range(20):
        p = 1 / (1 + np.exp(-(x @ w)))
        weight = np.maximum(p * (1 - p), np.float32(1e-6))
        w = w + np.linalg.solve(x.T @ (x * weight[:, None]), x.T @ (y - p))
        if _loss(kernel, rows, w) <= goal:
            break
    return w


def measured(
    graph: Graph, kernel: str, table: Table, features: int, batch: int, epochs: int
) -> Iterator[Measured]:
    """Yield what each peer takes, on one thread and on all. Ours is the loss of the same updates in C,
    in float32 as ours."""
    rows = rows_of(table, features)
    compiled = InC(graph)
    goal = _loss(kernel, rows, compiled.run(rows, epochs).models["w"]) * (1 + 1e-3)

    def from_pages(name: str, train: Callable[[_Rows, int], Any]) -> Peer:
        def timed(source: Table, count: int, threads: int) -> Any:
            few = -(-len(source.pages) * count // len(rows))  # pages that hold so many rows
            part = rows_of(Table(source.schema, source.pages[:few]), features)
            return train(part[:count], threads)

        return Peer(
            f"{name}{PAGES}", len(rows), lambda: table, timed, lambda w: _loss(kernel, rows, w)
        )

    def in_c(part: _Rows, threads: int) -> Any:
        return compiled.run(part, epochs, threads).models["w"]

    def from_rows(part: _Rows, count: int, threads: int) -> Any:
        return in_c(part[:count], threads)

    peers = [Peer("C", len(rows), lambda: rows, from_rows, lambda w: _loss(kernel, rows, w))]
    peers.append(from_pages("C", in_c))
    peers.append(from_pages("NumPy", lambda part, _: _batches(kernel, part, batch, epochs)))
    if kernel != "svm":
        name = "closed form" if kernel == "linear" else "IRLS"
        peers.append(from_pages(name, lambda part, _: _exact(kernel, part, goal)))
    for peer in peers:
        yield from measure(peer, ours=goal)
