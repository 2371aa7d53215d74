"""Peers of a kernel that learns from a table: C made from its graph, and NumPy on whole batches. Both make our updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.analytics import interp
from penstock.dsl.core.graph import Graph
from penstock.host.peers import Peer
from penstock.sim.native.toolchain import BuildError

from .in_c import InC

__all__ = ["peers"]


def peers(
    graph: Graph, table: Mapping[str, NDArray[Any]], epochs: int | None = None
) -> tuple[list[Peer], list[str]]:
    """Return the peers of a kernel whose metas have values, and why one is left out.

    Parameters
    ----------
    table: arrays by variable, [rows, *shape].
    epochs: as our run made, so that the models are ours but for rounding.
    """
    used = {
        v.name: table[v.name] for v in graph.variables.values() if v.kind in ("input", "output")
    }
    rows = len(next(iter(used.values())))
    ways = NumPy(graph, used, epochs)
    found, missing = [Peer("NumPy", rows, ways.prepare, ways.run)], []
    try:
        compiled = InC(graph, np.float32)
    except KeyError as unknown:
        missing.append(f"C: there is none for {unknown.args[0]}")
    except BuildError as failed:
        missing.append(f"C: {failed}")
    else:
        found.insert(
            0,
            Peer(
                "C",
                rows,
                lambda: compiled.rows(used),
                lambda made, count, threads: compiled.run(made[:count], epochs, threads),
                parallel=graph.merge_count != 1,
            ),
        )
    return found, missing


class NumPy:
    """The reference interpreter, a batch at a time."""

    def __init__(self, graph: Graph, table: Mapping[str, NDArray[Any]], epochs: int | None) -> None:
        self.graph, self.table, self.epochs = graph, table, epochs

    def prepare(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(values, np.float64) for name, values in self.table.items()}

    def run(self, made: dict[str, NDArray[Any]], rows: int, threads: int) -> interp.Training:
        return interp.run(
            self.graph, {name: values[:rows] for name, values in made.items()}, epochs=self.epochs
        )
