"""The weights of a fit over columns as its user gets them: the exact sums solved exactly, how well
the rows determine them, and which columns the others determine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.qr.table_format import Range
from penstock.models.numerics.formats import Fixed
from penstock.models.qr.columns import Totals
from penstock.models.qr.least_squares import Dependent, ExactFit, Rounding, fit_exactly

__all__ = ["Solution", "solved"]

#: most columns that a message spells out
_MOST = 4


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights, and what there is to say of them.

    `fit`: of the rounded values; `bounds`, `bias_bound`: how far the exact weights of the table's
    own values may be from these at most, None where nothing is known; `dropped`: columns that others
    determine, each with the reason.
    """

    fit: ExactFit
    format: Fixed
    names: Sequence[str]
    policy: str
    bounds: NDArray[np.float64] | None
    bias_bound: float | None
    exact: bool
    dropped: tuple[tuple[str, str], ...]

    @cached_property
    def values(self) -> dict[str, NDArray[np.float64]]:
        bias = self.fit.bias(self.format.fraction_bits)
        return {"bias": np.array([bias]), "weights": self.fit.weights}

    def to_json(self) -> dict[str, Any]:
        return {
            "rank": self.fit.rank,
            "features": len(self.names) - 1,
            "rows": self.fit.rows,
            "condition": self.fit.condition,
            "on_singular": self.policy,
            "dropped": [{"column": name, "reason": why} for name, why in self.dropped],
            "values_exact": self.exact,
            "weights_within": None if self.bounds is None else self.bounds.tolist(),
            "bias_within": self.bias_bound,
        }


def solved(
    totals: Totals,
    format: Fixed,
    ranges: Sequence[Range],
    rounding: Rounding,
    policy: str,
    place: str,
) -> Solution:
    """Return the solution for some totals.

    Parameters: `ranges`: of features and label; `policy`: one of `options.ON_SINGULAR`; `place`: what
    messages call the table.

    Raises KernelError where the policy is "error": E844 where the rows do not determine all weights,
    E845 where the rounding to the format hides whether they do.
    """
    fit = fit_exactly(totals, minimum_norm=policy == "minimum-norm")
    names = [column.name for column in ranges]
    rounded = "" if rounding.exact else f" as rounded to {format.name}"
    reasons = tuple(
        (names[d.column], _reason(d, fit, ranges, format, rounded)) for d in fit.dependent
    )
    if policy == "error" and fit.dependent:
        raise _undetermined(fit, reasons, place, rounding.exact)
    bounds: NDArray[np.float64] | None = None
    bias_bound: float | None = None
    if not (fit.dependent and policy == "minimum-norm") or rounding.exact:
        bounds, in_units = fit.bounds(rounding)
        bias_bound = in_units * 2.0**-format.fraction_bits
        bias_bound += math.ulp(fit.bias(format.fraction_bits))
        if not math.isfinite(bias_bound):
            if policy == "error":
                raise _hidden(fit, ranges, rounding, format, place)
            bounds, bias_bound = None, None
    return Solution(fit, format, names, policy, bounds, bias_bound, rounding.exact, reasons)


def _number(value: float) -> str:
    return f"{value:.6g}"


def _reason(
    found: Dependent, fit: ExactFit, ranges: Sequence[Range], format: Fixed, rounded: str
) -> str:
    """Return in words why a column has no weight of its own."""
    column, unit = ranges[found.column], 2.0**-format.fraction_bits
    if not fit.rows:
        return "without rows"
    if not found.factors:
        if column.span:
            return (
                f"constant in {format.name}: its values span {_number(column.span)}, "
                f"the format's unit is {_number(unit)}"
            )
        return f"constant, {_number(float(found.constant) * unit)} in all rows"
    if fit.rows <= len(fit.kept) + 1 and len(found.factors) > _MOST:
        return f"one more than {fit.rows:,} rows tell apart"
    terms = [
        ("− " if factor < 0 else "+ ") + f"{_number(abs(float(factor)))} × {ranges[k].name}"
        for k, factor in found.factors[:_MOST]
    ]
    if len(found.factors) > _MOST:
        terms.append(f"+ … ({len(found.factors)} columns in all)")
    elif found.constant:
        sign = "− " if found.constant < 0 else "+ "
        terms.append(sign + _number(abs(float(found.constant) * unit)))
    text = " ".join(terms).removeprefix("+ ")
    return f"equal to {text} in all {fit.rows:,} rows{rounded}"


_HINT = (
    "leave such columns out (--bind), or --on-singular drop gives them the weight 0, "
    "--on-singular minimum-norm the least weights of all that fit"
)


def _undetermined(
    fit: ExactFit, reasons: Sequence[tuple[str, str]], place: str, exact: bool
) -> KernelError:
    features = len(fit.numerators)
    more = f", and {len(reasons) - _MOST} more columns" if len(reasons) > _MOST else ""
    listed = "; ".join(f"column {name} is {why}" for name, why in reasons[:_MOST])
    if fit.rows <= features:
        rows = f"{fit.rows:,} row{'s do' if fit.rows != 1 else ' does'} not determine"
        message = f"{rows} {features + 1} weights: {listed}{more}"
        hint = "more rows, or fewer columns (--bind); or " + _HINT.partition("or ")[2]
        return error("E844", message, Span.whole(place), hint=hint)
    message = f"the rows do not determine all weights: {listed}{more}"
    hint = _HINT if exact else f"scale the columns to like ranges, {_HINT}"
    return error("E844", message, Span.whole(place), hint=hint)


def _hidden(
    fit: ExactFit, ranges: Sequence[Range], rounding: Rounding, format: Fixed, place: str
) -> KernelError:
    """The rounded columns are independent, those of the table may not be."""
    lengths = np.array([math.sqrt(fit.gram[k, k] / fit.rows) for k in fit.kept])
    worst = fit.kept[int(np.argmax(rounding.lengths(fit.rows)[list(fit.kept)] / lengths))]
    column, unit = ranges[worst], 2.0**-format.fraction_bits
    message = (
        f"column {column.name} is rounded too coarsely to tell its weight: in {format.name} the unit "
        f"is {_number(unit)}, its values span {_number(column.span)}, and the condition number of "
        f"the columns is {fit.condition:.3g}"
    )
    hint = "scale the columns to like ranges, leave nearly equal ones out, or --format with more fraction bits"
    return error("E845", message, Span.whole(place), hint=hint)
