"""The weights of a fit over columns as its user gets them, and what is said where the rows do not determine them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.qr.kernel import FitGraph
from penstock.dsl.qr.units import Unit
from penstock.host.least_squares import Dependent, Fit, Options, Rows, Sums, fit
from penstock.models.qr.columns import Totals

from .options import Solving
from .values import Values

__all__ = ["Solution", "solved"]

#: most columns that a message spells out
_MOST = 4


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
        found: dict[str, Any] = {"names": [*first, *self.columns.names[:-1]]}
        for name, value in self.fit.statistics().items():
            found[name] = _plain(value)
        units = zip(self.columns.packed_names, self.units, strict=True)
        found |= {
            "rank": self.fit.rank,
            "on_singular": self.policy,
            "dropped": [{"column": name, "reason": why} for name, why in self.dropped],
            "units": [{"column": name, **vars(unit)} for name, unit in units],
            "steps": self.fit.steps,
        }
        if self.columns.weight is not None:
            found |= {"sample_weight": self.columns.weight, "weight": self.fit.total}
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(v) for v in value.tolist()]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def solved(
    totals: Totals,
    rows: Rows,
    columns: Values,
    units: Sequence[Unit],
    graph: FitGraph,
    solving: Solving,
    place: str,
) -> Solution:
    """Return the solution for some totals.

    Parameters: `rows`: those of `columns` that are in them; `units`: of the engine's columns; `place`: what messages call the table.

    Raises KernelError (E844) where the rows do not determine all weights and the policy is "error".
    """
    offsets, shifts = totals.offsets.tolist(), totals.shifts.tolist()
    exact, names = [u.exact for u in units], columns.names
    sums = Sums(totals.joined, offsets, shifts, exact, columns.centres)
    choices = solving.on_singular == "minimum-norm", solving.refine != "never"
    options = Options(graph.intercept, graph.ridge, graph.ridge_per, *choices)
    found = fit(sums, rows if totals.rows else None, options)
    reasons = tuple((names[d.column], _reason(d, found, names)) for d in found.dependent)
    if solving.on_singular == "error" and reasons:
        raise _undetermined(found, reasons, place)
    return Solution(found, columns, units, solving.on_singular, reasons)


def _reason(found: Dependent, fit: Fit, names: Sequence[str]) -> str:
    """Return in words why a column has no weight of its own."""
    if not fit.rows:
        return "without rows"
    if not found.factors:
        return f"constant, {found.constant:.6g} in all rows"
    if fit.rows <= len(fit.kept) + 1 and len(found.factors) > _MOST:
        return f"one more than {fit.rows:,} rows tell apart"
    sign = lambda value: "− " if value < 0 else "+ "
    terms = [f"{sign(f)}{abs(f):.6g} × {names[k]}" for k, f in found.factors[:_MOST]]
    if len(found.factors) > _MOST:
        terms.append(f"+ … ({len(found.factors)} columns in all)")
    elif found.constant:
        terms.append(f"{sign(found.constant)}{abs(found.constant):.6g}")
    return f"equal to {' '.join(terms).removeprefix('+ ')} in all {fit.rows:,} rows"


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
