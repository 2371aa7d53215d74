"""The used columns of a table as the host reads them, each value as it is stored: they choose the units, and weights are refined on them. And the weights
of a fit over columns as its user gets them, and what is said where the rows do not determine them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.qr.kernel import FitGraph
from penstock.dsl.qr.units import Unit, unit_of
from penstock.host.least_squares import Dependent, Fit, Options, Rows, Sums, fit
from penstock.host.sources import Table
from penstock.models.numerics.convert import STORED, numbers_of
from penstock.models.numerics.policy import InputPolicy
from penstock.models.qr.columns import Totals
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.program import missing_numbers
from penstock.models.strider.table import walk_table

from .options import Solving

#: most columns that a message spells out
_MOST = 4


def column_names(walk: WalkConfig) -> tuple[str, ...]:
    """Return how messages call the features and the label: an element of an array by its number,
    from 1 on as in SQL."""
    columns = walk.schema.columns
    return tuple(
        f"{columns[s.column].name}[{s.first + k + 1}]"
        if columns[s.column].is_array
        else columns[s.column].name
        for s in sorted(walk.layout.sources, key=lambda source: source.position)
        for k in range(s.count)
    )


@dataclass(frozen=True, eq=False)
class Values:
    """The rows of a table up to the first that cannot be read: features and label, int64 or float64 as they are stored.

    `weights`: of the rows, None: 1 each; `weight`: their column; `centres`: what was taken from features and label before they were
    multiplied by the roots of the weights.
    """

    names: tuple[str, ...]
    columns: Sequence[NDArray[np.int64] | NDArray[np.float64]]
    #: of rows older than a column, where pages may have such rows
    missing: Sequence[float | int | None]
    weights: NDArray[np.float64] | None = None
    weight: str | None = None
    centres: Sequence[float] | None = None

    @property
    def packed_names(self) -> tuple[str, ...]:
        """The columns in the engine's order."""
        return self.names if self.weight is None else (f"√{self.weight}", *self.names)

    def units(self, limbs: Sequence[int | None]) -> list[Unit]:
        """Return the columns' units; `limbs`: how many, None where the values say it."""
        units = []
        for column, missing, count in zip(self.columns, self.missing, limbs, strict=True):
            more = [] if missing is None else [missing]
            every = np.concatenate([column, np.array(more, dtype=column.dtype)])
            units.append(unit_of(every, count))
        return units

    def rows(self, first: int, last: int, centred: bool) -> Rows:
        """Return some of the rows, for least squares; `centred`: of a fit with a bias."""
        weights = None if self.weights is None else self.weights[first:last]
        return Rows([column[first:last] for column in self.columns], weights, centred)

    def solved(
        self,
        totals: Totals,
        rows: Rows,
        units: Sequence[Unit],
        graph: FitGraph,
        solving: Solving,
        place: str,
    ) -> Solution:
        """Return the solution for some totals.

        Parameters: `rows`: those that are in them; `units`: of the engine's columns; `place`: what messages call the table.

        Raises KernelError (E844) where the rows do not determine all weights and the policy is "error", (E847) where a weight is beyond float64.
        """
        offsets, shifts = totals.offsets.tolist(), totals.shifts.tolist()
        exact, names = [u.exact for u in units], self.names
        sums = Sums(totals.joined, offsets, shifts, exact, self.centres)
        choices = solving.on_singular == "minimum-norm", solving.refine != "never"
        options = Options(graph.intercept, graph.ridge, graph.ridge_per, *choices)
        with np.errstate(over="ignore", invalid="ignore"):
            regression = fit(sums, rows if totals.rows else None, options)
        if (beyond := ~np.isfinite([*regression.weights, regression.bias])).any():
            what = [*(f"weight of column {name}" for name in names[:-1]), "bias"][
                int(beyond.argmax())
            ]
            message = f"the {what} is beyond what float64 holds"
            hint = "give the column or the label in another unit"
            raise error("E847", message, Span.whole(place), hint=hint)
        reasons = tuple(
            (names[d.column], _reason(d, regression, names)) for d in regression.dependent
        )
        if solving.on_singular == "error" and reasons:
            raise _undetermined(regression, reasons, place)
        return Solution(regression, self, units, solving.on_singular, reasons)


def values_of(table: Table, walk: WalkConfig) -> Values:
    """Read the rows that the Striders would deliver."""
    policy = InputPolicy("saturate", "skip" if walk.policy.skips else "pass")
    codes = walk_table(table.pages, replace(walk, format=STORED, policy=policy))[0]
    columns, missing = [], []
    for place in range(walk.positions):
        source = next(s for s in walk.layout.sources if s.position <= place < s.position + s.count)
        bits = np.ascontiguousarray(codes[:, place]).view(np.uint64)
        columns.append(numbers_of(walk.element(source.column), bits))
        missing.append(missing_numbers(walk, source.column, source.first + place - source.position))
    return Values(column_names(walk), columns, missing)


@dataclass(frozen=True, eq=False)
class Solution:
    """A fit, and what there is to say of it. `dropped`: columns that others determine, each with the reason."""

    fit: Fit
    columns: Values
    units: Sequence[Unit]
    policy: str
    dropped: tuple[tuple[str, str], ...]

    @cached_property
    def values(self) -> dict[str, NDArray[np.float64]]:
        return {"bias": np.array([self.fit.bias]), "weights": self.fit.weights}

    def to_json(self) -> dict[str, Any]:
        """Return what `Run.fit` has, as plain data: None for numbers that there are not."""
        first = ["bias"] if self.fit.options.intercept else []
        report: dict[str, Any] = {"names": [*first, *self.columns.names[:-1]]}
        for name, value in self.fit.statistics().items():
            report[name] = _plain(value)
        units = zip(self.columns.packed_names, self.units, strict=True)
        report |= {
            "rank": self.fit.rank,
            "on_singular": self.policy,
            "dropped": [{"column": name, "reason": why} for name, why in self.dropped],
            "units": [{"column": name, **vars(unit)} for name, unit in units],
            "steps": self.fit.steps,
        }
        if self.columns.weight is not None:
            report |= {"sample_weight": self.columns.weight, "weight": self.fit.total}
        return report


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(v) for v in value.tolist()]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _reason(column: Dependent, fit: Fit, names: Sequence[str]) -> str:
    """Return in words why a column has no weight of its own."""
    if not fit.rows:
        return "without rows"
    if not column.factors:
        return f"constant, {column.constant:.6g} in all rows"
    if fit.rows <= len(fit.kept) + 1 and len(column.factors) > _MOST:
        return f"one more than {fit.rows:,} rows tell apart"
    sign = lambda value: "− " if value < 0 else "+ "
    terms = [f"{sign(f)}{abs(f):.6g} × {names[k]}" for k, f in column.factors[:_MOST]]
    if len(column.factors) > _MOST:
        terms.append(f"+ … ({len(column.factors)} columns in all)")
    elif column.constant:
        terms.append(f"{sign(column.constant)}{abs(column.constant):.6g}")
    near = "" if fit.preconditioner == "none" else ", as far as float64 tells,"
    return f"equal{near} to {' '.join(terms).removeprefix('+ ')} in all {fit.rows:,} rows"


_HINT = (
    "leave such columns out (--bind), or --on-singular drop gives them the weight 0, "
    "--on-singular minimum-norm the least weights of all that fit"
)


def _undetermined(fit: Fit, reasons: Sequence[tuple[str, str]], place: str) -> KernelError:
    weights = len(fit.weights) + fit.options.intercept
    more = f", and {len(reasons) - _MOST} more columns" if len(reasons) > _MOST else ""
    listed = "; ".join(f"column {name} is {why}" for name, why in reasons[:_MOST])
    if fit.rows < weights:
        rows = f"{fit.rows:,} row{'s do' if fit.rows != 1 else ' does'} not determine"
        message = f"{rows} {weights} weights: {listed}{more}"
        hint = "more rows, or fewer columns (--bind); or " + _HINT.partition("or ")[2]
        return error("E844", message, Span.whole(place), hint=hint)
    message = f"the rows do not determine all weights: {listed}{more}"
    return error("E844", message, Span.whole(place), hint=_HINT)
