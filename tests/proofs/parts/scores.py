"""Scores on their way out (hdl.analytics.scores): in no kernel's own device, but in that of its scores."""

from __future__ import annotations

import numpy as np

from penstock.api import compile
from penstock.dsl.core.load import from_text
from penstock.hdl.analytics.scores import ScoreWriter
from penstock.scores.scoring import score_design, score_table

__all__ = ["COMPONENTS", "PROOFS"]

_KERNEL = "kernel linear(x: input[2], y: output, w: model[2])\n  w <- w - (sum(w * x) - y) * x\n"


def _writer() -> ScoreWriter:
    table = {"x": np.zeros((2, 2), "f4"), "y": np.zeros(2)}
    scoring = compile(from_text(_KERNEL), "small", table, "fixed:4,4").scoring({"w": np.zeros(2)})
    held = score_table(scoring, {"x": table["x"]})
    return ScoreWriter(score_design(scoring, held, held).plan)


PROOFS: list[object] = []
COMPONENTS = {"ScoreWriter": _writer}
