"""What CPUs do for a training, to a loss at most ours: our updates in C and NumPy, from rows and from raw pages, and what MADlib does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.graph import Graph
from penstock.host.peers import Measured, Peer, measure
from penstock.host.sources import Table
from penstock.models.heap.schema import Schema
from penstock.models.heap.writer import write_heap

from .in_c import InC
from .peers import peers

__all__ = ["measured", "random_table", "rows_of"]

_Rows = NDArray[np.float32]


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
    page, parts = table.schema.page_size, []
    lowers = np.ascontiguousarray(table.pages[:, 12:14]).view("<u2")[:, 0]
    label = next(c for c in table.schema.columns if c.name == "y").type
    for lower in sorted(set(lowers.tolist()), reverse=True):
        pages = np.ascontiguousarray(table.pages[lowers == lower])
        count = (lower - 24) // 4
        tuples = np.lib.stride_tricks.as_strided(
            pages[:, page - size :], (len(pages), count, size), (page, -size, 1)
        )
        words = np.ascontiguousarray(tuples[:, :, 28 : 56 + 4 * features]).reshape(
            -1, 28 + 4 * features
        )
        found = np.empty((len(words), features + 1), dtype=np.float32)
        found[:, :features] = words[:, 28:].view("<f4")
        found[:, features] = words[:, :4].copy().view("<i4" if label == "int4" else "<f4")[:, 0]
        parts.append(found)
    return np.concatenate(parts)


def _loss(kernel: str, rows: _Rows, w: NDArray[Any]) -> float:
    """Return the mean loss of a model: squared, logistic or hinge."""
    score, y = rows[:, :-1] @ np.ravel(w).astype(np.float32), rows[:, -1]
    if kernel == "linear":
        return float(np.mean((score - y) ** 2))
    if kernel == "svm":
        return float(np.mean(np.maximum(0, 1 - y * score)))
    return float(np.mean(np.logaddexp(0, np.where(y > 0, -score, score))))


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

    def judged(name: str, run: Callable[[_Rows, int], Any], pages: bool) -> Peer:
        def timed(made: Any, count: int, threads: int) -> Any:
            if pages:  # no more of them than hold so many rows
                few = -(-len(table.pages) * count // len(rows))
                made = rows_of(Table(table.schema, table.pages[:few]), features)
            return run(made[:count], threads)

        def loss(result: Any) -> float:
            return _loss(kernel, rows, result)

        return Peer(name, len(rows), lambda: rows, timed, loss)

    def in_c(part: _Rows, threads: int) -> Any:
        return compiled.run(part, epochs, threads).models["w"]

    def in_numpy(part: _Rows, threads: int) -> Any:
        return _batches(kernel, part, batch, epochs)

    found = peers(graph, {"x": rows[:, :-1], "y": rows[:, -1]}, epochs)[0]
    found += [judged("C, raw pages", in_c, True), judged("NumPy, raw pages", in_numpy, True)]
    if kernel != "svm":
        name = "closed form" if kernel == "linear" else "IRLS"
        found.append(judged(name, lambda part, threads: _exact(kernel, part, goal), False))
    for peer in found:
        yield from measure(peer, ours=goal)
