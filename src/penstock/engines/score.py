"""What a run that has learned can say of new rows, as data: an engine makes it (`Design.scoring`), any engine for tables computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.boards.records import from_json as target_from_json
from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span
from penstock.dsl.core.scores import ScoreKernel, graph_from_json, graph_to_json
from penstock.models.heap.schema import Schema
from penstock.models.target import Target

__all__ = ["ScoreError", "Scoring", "no_score"]


class ScoreError(KernelError, ValueError):
    """A run scores no rows, or not these (E631 to E633)."""


def no_score(name: str, why: str, hint: str = "") -> ScoreError:
    """Return the error for a kernel without a score; `why`: in words behind a colon."""
    hint = hint or "name it: ps.score(value), as text `score name = value`"
    message = f"runs of {name} score no rows: {why}"
    return ScoreError(Diagnostic("E631", message, Span.whole(name), hint=hint))


@dataclass(frozen=True)
class Scoring:
    """A score with what was learned.

    `kernel`: the score's graph with models and metas; `columns`: of each input the table's columns, in order; `schema`: of the
    table that was learned from; `format`: of the hardware's numbers; `target`: what the training was compiled for;
    `options`: of the engine that scores, such as `on_nan`; `backend`: what scores unless the user says otherwise.
    """

    kernel: ScoreKernel
    columns: Mapping[str, tuple[str, ...]]
    schema: Schema
    format: str
    target: Target
    options: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "golden"

    @property
    def name(self) -> str:
        """The score's name."""
        return self.kernel.graph.score

    def to_json(self) -> dict[str, Any]:
        """Return all but the models' values as plain data."""
        return {
            "graph": graph_to_json(self.kernel.graph),
            "columns": {name: list(columns) for name, columns in self.columns.items()},
            "schema": self.schema.to_json(),
            "format": self.format,
            "target": self.target.to_json(),
            "options": dict(self.options),
            "backend": self.backend,
        }

    @property
    def models(self) -> dict[str, np.ndarray]:
        """The values of the models that the score uses."""
        return {v.name: np.asarray(v.init) for v in self.kernel.graph.of_kind("model")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], models: Mapping[str, np.ndarray]) -> Scoring:
        """Return what `to_json` described."""
        return cls(
            ScoreKernel.of(graph_from_json(data["graph"]), models, {}),
            {name: tuple(columns) for name, columns in data["columns"].items()},
            Schema.from_json(data["schema"]),
            data["format"],
            target_from_json(data["target"]),
            data["options"],
            data["backend"],
        )
