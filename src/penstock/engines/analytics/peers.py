"""Peers of a kernel that learns from a table: C made from its graph, and NumPy on whole batches, which make our updates; scikit-learn's model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.analytics import interp
from penstock.dsl.core.bind import Binding
from penstock.dsl.core.graph import Graph
from penstock.host.peers import Peer
from penstock.host.sources import Table
from penstock.sim.native.toolchain import BuildError

from .glm import NONE, scikit_learn
from .in_c import InC


def arrays(table: Table, binding: Binding) -> dict[str, NDArray[Any]]:
    """Return the values of each input and output, [rows, *shape]. Raises SourceError."""
    columns, schema = table.columns(), table.schema.columns
    arrays = {}
    for name, parts in binding.fields.items():
        pieces = []
        for part in parts:
            values = np.asarray(columns[schema[part.attribute].name], np.float64)
            values = values.reshape(table.rows, -1)
            pieces.append(values[:, part.first : part.first + part.count])
        arrays[name] = np.concatenate(pieces, axis=1)
    return arrays


def peers(
    graph: Graph, table: Mapping[str, NDArray[Any]], epochs: int | None = None
) -> tuple[list[Peer], list[str]]:
    """Return the peers of a kernel whose metas have values, and why one is left out.

    * `table`: arrays by variable, [rows, *shape].
    * `epochs`: as our run made, so that the models are ours but for rounding.
    """
    names = [v.name for v in graph.variables.values() if v.kind in ("input", "output")]
    rows = len(table[names[0]])

    def in_numpy(arrays: dict[str, NDArray[Any]], count: int, threads: int) -> interp.Training:
        part = {name: values[:count] for name, values in arrays.items()}
        return interp.run(graph, part, epochs=epochs)

    def doubles() -> dict[str, NDArray[Any]]:
        return {name: np.asarray(table[name], np.float64) for name in names}

    programs, missing = [Peer("NumPy", rows, doubles, in_numpy)], list[str]()
    try:
        compiled = InC(graph, np.float32)
    except KeyError as unknown:
        return programs, [f"C: there is none for {unknown.args[0]}", NONE]
    except BuildError as failed:
        missing.append(f"C: {failed}")
        ours = interp.run(graph, doubles(), epochs=epochs)
    else:

        def in_c(matrix: NDArray[Any], count: int, threads: int) -> interp.Training:
            return compiled.run(matrix[:count], epochs, threads)

        load = lambda: compiled.rows(table)
        programs.insert(0, Peer("C", rows, load, in_c, parallel=graph.merge_count != 1))
        ours = compiled.run(load(), epochs)
    learned = scikit_learn(graph, table, epochs or graph.epochs, ours.models)
    if isinstance(learned, Peer):
        programs.append(learned)
    else:
        missing.append(learned)
    return programs, missing
