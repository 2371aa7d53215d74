"""What a run that has learned can say of new rows, as data: an engine makes it (`Design.scoring`), any engine for tables computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.boards.records import from_json as target_from_json
from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span
from penstock.dsl.core.scores import ScoreKernel, graph_from_json, graph_to_json
from penstock.models.heap.schema import Schema
from penstock.models.target import Target


class ScoreError(KernelError, ValueError):
    """A run scores no rows, or not these (E631 to E633)."""


def no_score(name: str, why: str, hint: str = "") -> ScoreError:
    """Return the error for a kernel without a score; `why`: in words behind a colon."""
    hint = hint or "name it: ps.score(value), as text `score name = value`"
    message = f"runs of {name} score no rows: {why}"
    return ScoreError(Diagnostic("E631", message, Span.whole(name), hint=hint))


@dataclass(frozen=True)
class Groups:
    """Groups of rows that have models of their own.

    `column`: the table's, which says the group of a row; `values`: the groups; `models`: by name those of all groups, in this order.
    """

    column: str
    values: tuple[bool | int | str, ...]
    models: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Scoring:
    """A score with what was learned.

    `kernel`: the score's graph with models and metas, of `groups` the first one's; `columns`: of each input the table's columns, in order; `schema`: of the
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
    groups: Groups | None = None

    @property
    def name(self) -> str:
        return self.kernel.graph.score

    def to_json(self) -> dict[str, Any]:
        """Return all but the models' values as plain data."""
        groups = self.groups and {"column": self.groups.column, "values": list(self.groups.values)}
        return {
            "graph": graph_to_json(self.kernel.graph),
            "columns": {name: list(columns) for name, columns in self.columns.items()},
            "schema": self.schema.to_json(),
            "format": self.format,
            "target": self.target.to_json(),
            "options": dict(self.options),
            "backend": self.backend,
            "groups": groups,
        }

    @property
    def models(self) -> dict[str, np.ndarray]:
        """The values of the models that the score uses, of all groups."""
        if self.groups is not None:
            return dict(self.groups.models)
        return {v.name: np.asarray(v.init) for v in self.kernel.graph.of_kind("model")}

    def of_group(self, number: int) -> Scoring:
        """Return the scoring of one group's rows."""
        assert self.groups is not None
        models = {name: of[number] for name, of in self.groups.models.items()}
        return replace(self, kernel=ScoreKernel.of(self.kernel.graph, models, {}), groups=None)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], models: Mapping[str, np.ndarray]) -> Scoring:
        """Return what `to_json` described."""
        groups, first = None, models
        if grouping := data.get("groups"):  # runs of older versions have none
            groups = Groups(grouping["column"], tuple(grouping["values"]), models)
            first = {name: of[0] for name, of in models.items()}
        return cls(
            ScoreKernel.of(graph_from_json(data["graph"]), first, {}),
            {name: tuple(columns) for name, columns in data["columns"].items()},
            Schema.from_json(data["schema"]),
            data["format"],
            target_from_json(data["target"]),
            data["options"],
            data["backend"],
            groups,
        )
