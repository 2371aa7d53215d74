"""What fits say of new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.dsl.core.scores import linear
from penstock.engines.score import Groups, Scoring
from penstock.models.heap.schema import Schema
from penstock.models.target import Target

__all__ = ["fitted_scores"]


def fitted_scores(
    name: str,
    result: Mapping[str, np.ndarray],
    columns: Sequence[str],
    schema: Schema,
    target: Target,
    groups: Groups | None = None,
) -> Scoring:
    """Return what scores rows by bias + Σ w x: in float64 on the host, in float32 in hardware.

    Parameters: `columns`: those of the features, in the order of the weights; `groups`: where a row's group says which weights.
    """
    weights = result["weights"] if groups is None else result["weights"][0]
    kernel = linear(name, np.ravel(weights), float(np.ravel(result["bias"])[0]))
    used = {"x": tuple(dict.fromkeys(columns))}
    options = {"on_null": "skip"}
    return Scoring(kernel, used, schema, "float32", target, options, "host", groups)
