"""What fits say of new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.dsl.core.scores import linear
from penstock.engines.score import Scoring

if TYPE_CHECKING:
    from penstock.models.heap.schema import Schema
    from penstock.models.target import Target

__all__ = ["fitted_scores"]


def fitted_scores(
    name: str,
    result: Mapping[str, np.ndarray],
    columns: Sequence[str],
    schema: Schema,
    target: Target,
) -> Scoring:
    """Return what scores rows by bias + Σ w x: in float64 on the host, in float32 in hardware.

    Parameters: `columns`: those of the features, in the weights' order, an array column once.
    """
    kernel = linear(name, np.ravel(result["weights"]), float(np.ravel(result["bias"])[0]))
    used = tuple(dict.fromkeys(columns))
    return Scoring(
        kernel, {"x": used}, schema, "float32", target, {"on_null": "skip"}, backend="host"
    )
