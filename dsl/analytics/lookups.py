"""Which rows of its models a kernel asks for, as the indices of a table say; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..core.diagnostics import error
from ..core.graph import Graph
from ..core.operations import evaluate
from .integers import ABSENT, MEANINGS

__all__ = ["Lookups", "lookups"]


@dataclass(frozen=True)
class Lookups:
    """The rows of one model in the order in which they are asked for in an epoch, and which of them are changed then."""

    rows: np.ndarray
    changes: np.ndarray


def lookups(graph: Graph, indices: Mapping[str, tuple[np.ndarray, int]]) -> dict[str, Lookups]:
    """Return what is asked of each model that is read or changed by row: in each batch first what it reads, then what it changes.

    `indices`: of each index its integers [tuples, …], `ABSENT` for places that are left out, and the bytes of its column.

    Raises KernelError (E497) for an index that depends on values, IndexError for a row that there is not.
    """
    used: dict[str, tuple[list[int], list[int]]] = {}
    for node in graph.nodes:
        if node.op in ("rows", "change"):
            kinds = used.setdefault(node.attrs["name"], ([], []))
            kinds[node.op == "change"].append(node.inputs[1])
    integers = _Integers(graph, indices)
    found = {}
    for name, kinds in used.items():
        rows = len(next(iter(indices.values()))[0]) if indices else 0
        parts = [
            np.concatenate(
                [integers.flat(i) for i in nodes] or [np.zeros((rows, 0), np.int64)], axis=1
            )
            for nodes in kinds
        ]
        for part in parts:
            _check(name, graph.variables[name].shape[0], part)
        found[name] = _in_order(parts, graph.merge_count or max(rows, 1))
    return found


def _check(name: str, rows: int, asked: np.ndarray) -> None:
    """Raise IndexError for a row that a model does not have."""
    wrong = np.argwhere((asked != ABSENT) & ((asked < 0) | (asked >= rows)))
    if len(wrong):
        tuple_, place = wrong[0].tolist()
        row = int(asked[tuple_, place])
        raise IndexError(
            f"row {tuple_} of the table asks for row {row} of {name}, which has {rows}"
        )


def _in_order(parts: list[np.ndarray], count: int) -> Lookups:
    """Join what is read and what is changed, [tuples, places] each, by batches of `count` tuples."""
    whole = len(parts[0]) // count
    cut = [
        (p[: whole * count].reshape(whole, count * p.shape[1]), p[whole * count :].reshape(1, -1))
        for p in parts
    ]
    rows = np.concatenate(
        [np.concatenate(pieces, axis=1).ravel() for pieces in zip(*cut, strict=True)]
    )
    flags = [
        np.concatenate([np.zeros(r.shape, bool), np.ones(c.shape, bool)], axis=1).ravel()
        for r, c in zip(*cut, strict=True)
    ]
    there = rows != ABSENT
    return Lookups(rows[there], np.concatenate(flags)[there])


class _Integers:
    """The integers of a graph, each computed once."""

    def __init__(self, graph: Graph, indices: Mapping[str, tuple[np.ndarray, int]]) -> None:
        self.graph, self.indices = graph, indices
        self.known: dict[int, np.ndarray] = {}

    def flat(self, index: int) -> np.ndarray:
        values = self.of(index)
        return values.reshape(len(values), -1)

    def of(self, index: int) -> np.ndarray:
        if index not in self.known:
            node = self.graph.nodes[index]
            if node.op == "index":
                self.known[index] = self.indices[node.attrs["name"]][0]
            elif node.op == "const":
                self.known[index] = np.asarray(node.attrs["value"])
            elif node.op not in MEANINGS:
                raise error(
                    "E497",
                    "which row is asked for depends on values, which are not known before the kernel is trained",
                    node.span,
                    hint="a profile counts the rows that indices of the table name",
                    source=self.graph.source or None,
                )
            else:
                attrs = dict(node.attrs)
                if "of" in attrs:
                    attrs["bytes"] = max(self.indices[name][1] for name in attrs["of"])
                flags = [self.graph.nodes[i].op != "const" for i in node.inputs]
                operands = [self.of(i) for i in node.inputs]
                self.known[index] = evaluate(MEANINGS[node.op], operands, attrs, flags)
        return self.known[index]
