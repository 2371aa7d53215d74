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
#: weights are determined where their bounds are at most this share of the largest one, or move what
#: is predicted by no more than the second share of the label's spread
_OF_LARGEST, _OF_LABEL = 0.5, 0.01


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights, and what there is to say of them.

    `fit`: of the rounded values; `bounds`, `bias_bound`: how far the exact weights of the table's
    own values may be from these at most, None where nothing is known; `determined`: whether these are
    small beside the weights; `dropped`: columns that others determine, each with the reason.
    """

    fit: ExactFit
    format: Fixed
    names: Sequence[str]
    policy: str
    bounds: NDArray[np.float64] | None
    bias_bound: float | None
    exact: bool
    determined: bool
    dropped: tuple[tuple[str, str], ...]

    @cached_property
    def values(self) -> dict[str, NDArray[np.float64]]:
        bias = self.fit.bias(self.format.fraction_bits)
        return {"bias": np.array([bias]), "weights": self.fit.weights}

    @cached_property
    def not_told_from_zero(self) -> list[str]:
        """The columns whose weight may be 0, for all that is known after the rounding."""
        if self.exact:
            return []
        kept = self.fit.kept
        if self.bounds is None:
            return [self.names[k] for k in kept]
        weights = np.abs(self.fit.weights)
        return [self.names[k] for k in kept if self.bounds[k] >= weights[k] and self.bounds[k]]

    def to_json(self) -> dict[str, Any]:
        return {
            "rank": self.fit.rank,
            "features": len(self.names) - 1,
            "rows": self.fit.rows,
            "condition": self.fit.condition,
            "on_singular": self.policy,
            "dropped": [{"column": name, "reason": why} for name, why in self.dropped],
            "values_exact": self.exact,
            "determined": self.determined,
            "not_told_from_zero": self.not_told_from_zero,
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
    E845 where the rounding to the format hides whether they do, or leaves bounds that say nothing of
    the weights (`_determined`). E844 under every policy where the format holds nothing of the label.
    """
    fit = fit_exactly(totals, minimum_norm=policy == "minimum-norm")
    names = [column.name for column in ranges]
    if _label_lost(ranges[-1], format, rounding):
        raise _lost(ranges[-1], format, place)
    rounded = "" if rounding.exact else f" as rounded to {format.name}"
    reasons = tuple(
        (names[d.column], _reason(d, fit, ranges, format, rounded)) for d in fit.dependent
    )
    if policy == "error" and fit.dependent:
        raise _undetermined(fit, reasons, place, rounding.exact)
    bounds: NDArray[np.float64] | None = None
    bias_bound: float | None = None
    determined = rounding.exact
    if not (fit.dependent and policy == "minimum-norm") or rounding.exact:
        bounds, in_units = fit.bounds(rounding)
        bias_bound = in_units * 2.0**-format.fraction_bits
        bias_bound += math.ulp(fit.bias(format.fraction_bits))
        if not math.isfinite(bias_bound):
            if policy == "error":
                raise _hidden(fit, ranges, rounding, format, place)
            bounds, bias_bound = None, None
        elif not determined:
            determined = _determined(fit, bounds)
            if not determined and policy == "error":
                raise _vague(fit, bounds, ranges, rounding, format, place)
    exact = rounding.exact
    return Solution(fit, format, names, policy, bounds, bias_bound, exact, determined, reasons)


def _label_lost(label: Range, format: Fixed, rounding: Rounding) -> bool:
    """Whether the label is constant in the format, but not in the table."""
    ends = {round(end * 2.0**format.fraction_bits) for end in (label.least, label.greatest)}
    return len(ends) == 1 and label.span > 0 and bool(rounding.most[-1])


def _determined(fit: ExactFit, bounds: NDArray[np.float64]) -> bool:
    """Whether the bounds of the weights say something of them.

    Weights and bounds count times their column's spread, so that a column's scale does not matter.
    Bounds are small enough up to half of the largest weight, and up to a hundredth of the label's
    spread: weights near 0 are a result too where the columns have nothing to do with the label.
    """
    spreads = fit.spreads[:-1]
    largest = float((np.abs(fit.weights) * spreads).max(initial=0.0))
    most = max(_OF_LARGEST * largest, _OF_LABEL * float(fit.spreads[-1]))
    return bool((bounds * spreads <= most).all())


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


def _lost(label: Range, format: Fixed, place: str) -> KernelError:
    """The label has no digits in the format."""
    unit = 2.0**-format.fraction_bits
    message = (
        f"the rows do not determine any weight: column {label.name}, the label, is constant in "
        f"{format.name}: its values span {_number(label.span)}, the format's unit is {_number(unit)}"
    )
    hint = "scale the label, or the columns, to like ranges: the weights scale with them"
    return error("E844", message, Span.whole(place), hint=hint)


_SCALE = "scale the columns to like ranges, leave nearly equal ones out, or --format with more fraction bits"


def _coarse(
    column: Range, ranges: Sequence[Range], format: Fixed, place: str, what: str, known: str
) -> KernelError:
    """A column has too few digits in the format, whose unit another one may have set."""
    bits, hint = format.fraction_bits, _SCALE
    unit = _number(2.0**-bits)
    wide = min(ranges, key=lambda other: other.most_bits)
    if wide is not column and wide.most_bits == bits:
        extent = f"reaches {wide.reach:.6g}" if wide.far else f"spans {wide.span:.6g}"
        unit += f", which column {wide.name} sets, which {extent}"
    if wide.far and wide.most_bits == bits:
        hint = f"subtract a constant from column {wide.name}, {hint}"
    message = (
        f"column {column.name} is rounded too coarsely to tell {what}: in {format.name} the unit is "
        f"{unit}; its values span {_number(column.span)}, and {known}"
    )
    return error("E845", message, Span.whole(place), hint=hint)


def _vague(
    fit: ExactFit,
    bounds: NDArray[np.float64],
    ranges: Sequence[Range],
    rounding: Rounding,
    format: Fixed,
    place: str,
) -> KernelError:
    """The weights have bounds, but these are as large as the weights."""
    column = ranges[int(np.argmax(fit.shares(rounding)))]
    largest = int(np.argmax(np.abs(fit.weights) * fit.spreads[:-1]))
    known = (
        f"the condition number of the columns is {fit.condition:.3g}: the largest weight, "
        f"{fit.weights[largest]:.3g} of {ranges[largest].name}, may be {bounds[largest]:.2g} away"
    )
    return _coarse(column, ranges, format, place, "the weights", known)


def _hidden(
    fit: ExactFit, ranges: Sequence[Range], rounding: Rounding, format: Fixed, place: str
) -> KernelError:
    """The rounded columns are independent, those of the table may not be."""
    lengths = np.array([math.sqrt(fit.gram[k, k] / fit.rows) for k in fit.kept])
    worst = fit.kept[int(np.argmax(rounding.lengths(fit.rows)[list(fit.kept)] / lengths))]
    known = f"the condition number of the columns is {fit.condition:.3g}"
    return _coarse(ranges[worst], ranges, format, place, "its weight", known)
