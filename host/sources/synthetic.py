"""Random tables with something to learn: labels come from a hidden linear model of the row's features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...models.heap.schema import NUMERIC, Schema
from ...models.heap.values import DTYPES
from .errors import SourceError, table_error

MOST_ROWS = 1 << 40
_TASKS = ("classification", "signed", "regression")


@dataclass(frozen=True)
class RandomOptions:
    """What stands after `random:`. `task`: labels are 0/1 (classification), -1/+1 (signed) or real numbers (regression)."""

    rows: int = 1000
    seed: int = 1
    task: str = "classification"

    @classmethod
    def parse(cls, text: str) -> RandomOptions:
        """Read `rows=1000,seed=1,task=regression` (a task's name alone will do). Raises SourceError."""
        fields: dict[str, Any] = {}
        form = "the form is random:rows=1000,seed=1,task=regression"
        for part in filter(None, (p.strip() for p in text.split(","))):
            key, equals, value = (s.strip() for s in part.partition("="))
            if not equals and key in _TASKS:
                key, value = "task", key
            if key not in ("rows", "seed", "task"):
                raise SourceError(f"random: does not know {key!r}", form, code="E701")
            if key in fields:
                raise SourceError(
                    f"random: {key} is given twice", "leave one of them out", code="E701"
                )
            if key == "task":
                if value not in _TASKS:
                    raise SourceError(
                        f"random: does not know the task {value!r}",
                        f"known are {', '.join(_TASKS)}",
                        code="E701",
                    )
                fields[key] = value
                continue
            try:
                fields[key] = int(value.replace("_", ""))
            except ValueError as error:
                raise SourceError(
                    f"random: {key} must be a whole number, not {value!r}",
                    f"as in random:{key}={1000 if key == 'rows' else 1}",
                    code="E701",
                ) from error
        options = cls(**fields)
        if options.rows > MOST_ROWS:
            raise SourceError(
                f"random: {options.rows} rows are too many: the most is {MOST_ROWS}",
                "penstock model --rows N needs no table at all",
                code="E701",
            )
        if options.rows < 1 or options.seed < 0:
            raise SourceError(
                "random: rows must be at least 1 and seed at least 0",
                "as in random:rows=1000,seed=1",
                code="E701",
            )
        return options


def random_columns(
    schema: Schema,
    options: RandomOptions,
    labels: tuple[str, ...] = ("y",),
    counts: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Make columns of this schema: features from the standard normal distribution, the columns in `labels` from a hidden model.

    Integer features are whole numbers from -8 to 8, bool features 0 or 1; indices, which `counts` names, lie
    from 0 to below that number. Raises SourceError for an array column without `length`.
    """
    rng = np.random.default_rng(options.seed)
    rows, columns = options.rows, dict[str, Any]()
    score = np.zeros(rows)
    features = 0
    kept = [c for c in schema.columns if not c.dropped]
    for column in (c for c in kept if c.name not in labels):
        if column.is_array and column.length is None:
            raise table_error(
                f"column {column.name!r} of a random table has no length",
                'write "length" into the schema',
            )
        values: Any
        if column.name in (counts or {}):
            shape = (rows, column.length or 0) if column.is_array else (rows,)
            values = rng.integers(0, (counts or {})[column.name], shape)
            columns[column.name] = values.astype(DTYPES[column.storage.element or column.type])
            continue
        if column.type not in NUMERIC:
            columns[column.name] = (
                [f"row {i}" for i in range(rows)] if column.type == "text" else [None] * rows
            )
            continue
        if column.is_array:
            values = rng.standard_normal((rows, column.length or 0), np.float32)
        elif column.type.startswith("float"):
            values = rng.standard_normal(rows, np.float32)
        else:
            values = (
                rng.integers(0, 2, rows) if column.type == "bool" else rng.integers(-8, 9, rows)
            )
        matrix = values.reshape(rows, -1)
        score += matrix @ rng.standard_normal(matrix.shape[1])
        features += matrix.shape[1]
        columns[column.name] = values.astype(DTYPES[column.storage.element or column.type])
    score /= max(features, 1) ** 0.5
    for column in (c for c in kept if c.name in labels):
        columns[column.name] = _labels(column.type, column.length, score, options.task, rng, rows)
    return columns


def _labels(
    kind: str, length: int | None, score: Any, task: str, rng: np.random.Generator, rows: int
) -> Any:
    if length is not None:  # several targets: each a scaled, noisy copy
        values = score[:, None] * rng.uniform(0.5, 1.5, length) + 0.1 * rng.standard_normal(
            (rows, length)
        )
    else:
        values = score + 0.1 * rng.standard_normal(rows)
    if task == "classification" or kind == "bool":
        values = (values > 0).astype(np.float64)
    elif task == "signed":
        values = np.where(values > 0, 1.0, -1.0)
    return (
        np.rint(values)
        if kind.startswith("int")
        else values.astype(DTYPES.get(kind.removesuffix("[]"), np.dtype("<f8")))
    )
