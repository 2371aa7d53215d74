"""Which rows of its models a kernel asks for, as the indices of a table say; nothing is trained."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...models.rows.integers import ABSENT
from ..core.diagnostics import error
from ..core.graph import Graph
from .integers import MEANINGS


@dataclass(frozen=True)
class Lookups:
    """The rows of one model in the order in which they are asked for in an epoch, and which of them are changed then."""

    rows: np.ndarray
    changes: np.ndarray


def check_by_integers(graph: Graph) -> None:
    """Raise KernelError (E497) for an index that depends on values."""
    nodes = graph.nodes
    for node in nodes:
        todo = [node.inputs[1]] if node.op in ("rows", "change") else []
        while todo:
            of = nodes[todo.pop()]
            if of.op not in (*MEANINGS, "index", "const") or of.op == "rows":
                raise error(
                    "E497",
                    "which row is asked for depends on values, which are not known before the kernel is trained",
                    of.span,
                    hint="a profile counts the rows that indices of the table name",
                    source=graph.source or None,
                )
            todo += of.inputs


def in_order(parts: Sequence[np.ndarray], count: int) -> Lookups:
    """Join what is read and what is changed, [tuples, places] each, by batches of `count` tuples."""
    batches = len(parts[0]) // count
    end = batches * count
    cut = [(p[:end].reshape(batches, count * p.shape[1]), p[end:].reshape(1, -1)) for p in parts]
    rows = np.concatenate(
        [np.concatenate(pieces, axis=1).ravel() for pieces in zip(*cut, strict=True)]
    )
    flags = [
        np.concatenate([np.zeros(r.shape, bool), np.ones(c.shape, bool)], axis=1).ravel()
        for r, c in zip(*cut, strict=True)
    ]
    mask = rows != ABSENT
    return Lookups(rows[mask], np.concatenate(flags)[mask])
