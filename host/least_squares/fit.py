"""Weights of a least-squares fit, how far they may be off, and what statisticians ask of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .dependence import made_of, spread
from .row_blocks import WIDE, Rows, corrected, inverted, sized, triangle
from .sums import (
    EPS,
    Dependent,
    Gram,
    Sums,
    factored,
    gram_of,
    gram_of_rows,
    nearest,
    power,
    resolved,
    root,
    rounding,
    solved,
)

_WIDE_EPS = float(np.finfo(WIDE).eps)
#: above it the sums do not resolve the columns: what rounding did times the condition
_UNRESOLVED = 0.1
_STEPS = 10
_NOISE = 1e-12


@dataclass(frozen=True)
class Options:
    """How a fit is made."""

    intercept: bool = True  #: a bias is fitted as well
    #: what a weight's square costs, the bias's nothing; columns count less their means
    ridge: float = 0.0
    #: "weight", or "sd": of weights times their column's standard deviation
    ridge_per: str = "weight"
    #: where columns depend on each other, the least weights of all that fit, in place of 0 for
    #: those that others determine
    minimum_norm: bool = False
    refine: bool = True  #: weights are refined on the rows


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit of some rows."""

    weights: NDArray[np.float64]  #: 0 for columns of no weight of their own
    bias: float
    #: how far weights may be from those of exact arithmetic on the table's values
    error: NDArray[np.float64]
    bias_error: float
    kept: tuple[int, ...]  #: columns that are independent of those before them
    dependent: tuple[Dependent, ...]  #: the other columns
    rows: int
    #: "none" where the sums were solved exactly, "sums", or "host": a QR factorisation of the rows
    #: in float64
    preconditioner: str
    steps: int  #: passes of refinement
    residual: float  #: root of the sum of squares of the residuals
    label: float  #: root of the sum of squares of the label, less its mean where there is a bias
    #: R of the columns `independent`, each of length 1, without penalties
    triangle: NDArray[np.float64]
    independent: tuple[int, ...]
    lengths: NDArray[np.float64]  #: all features' lengths
    means: NDArray[np.float64]  #: all features' means
    options: Options
    #: sum of the rows' weights
    total: float

    @property
    def rank(self) -> int:
        return len(self.kept)

    @cached_property
    def condition_scaled(self) -> float:
        """The condition number of the independent columns less their means, each of length 1."""
        return _condition(self.triangle)

    @cached_property
    def condition(self) -> float:
        """The condition number of the independent columns as they are, the 1 of the bias among them."""
        kept = list(self.independent)
        scaled = self.triangle * self.lengths[kept]
        if not self.options.intercept:
            return _condition(scaled)
        matrix = np.zeros((len(kept) + 1,) * 2)
        matrix[0, 0] = math.sqrt(self.total)
        matrix[0, 1:] = matrix[0, 0] * self.means[kept]
        matrix[1:, 1:] = scaled
        return _condition(matrix)

    @property
    def freedom(self) -> int:
        """Rows less the parameters that were fitted."""
        return self.rows - self.rank - self.options.intercept

    @property
    def r2(self) -> float:
        return 1 - (self.residual / self.label) ** 2 if self.label else math.nan

    @property
    def rss(self) -> float:
        """The sum of squares of the residuals, NaN beyond float64's range."""
        square = self.residual * self.residual
        return square if 0 < square < math.inf or not self.residual else math.nan

    @cached_property
    def std_err(self) -> tuple[float, NDArray[np.float64]]:
        """Standard errors of bias and weights; NaN where there are none: without further rows, for columns without a weight of their
        own, and with a penalty."""
        errors = np.full(len(self.weights), math.nan)
        if (
            self.freedom <= 0
            or self.options.ridge
            or (self.dependent and self.options.minimum_norm)
        ):
            return math.nan, errors
        kept, deviation = list(self.kept), self.residual / math.sqrt(self.freedom)
        inverse = np.linalg.inv(self.triangle) / self.lengths[kept][:, None]
        errors[kept] = deviation * np.linalg.norm(inverse, axis=1)
        if not self.options.intercept:
            return math.nan, errors
        along = self.means[kept] @ inverse
        return deviation * math.hypot(
            1 / math.sqrt(self.total), float(np.linalg.norm(along))
        ), errors

    def statistics(self) -> Mapping[str, object]:
        """Return the fit's table: coefficients (the bias first, if there is one) with standard errors, t and p, and figures of the whole."""
        from scipy.stats import t as student

        bias, of_weights = self.std_err
        first = [self.bias] if self.options.intercept else []
        coef = np.concatenate([first, self.weights])
        std_err = np.concatenate([[bias] if self.options.intercept else [], of_weights])
        with np.errstate(divide="ignore", invalid="ignore"):
            t = coef / std_err
        p = 2 * student.sf(np.abs(t), max(self.freedom, 1))
        return {
            "coef": coef,
            "std_err": std_err,
            "t": t,
            "p": p,
            "error": np.concatenate(
                [[self.bias_error] if self.options.intercept else [], self.error]
            ),
            "r2": self.r2,
            "rss": self.rss,
            "rows": self.rows,
            "condition": self.condition,
            "condition_scaled": self.condition_scaled,
            "preconditioner": self.preconditioner,
        }


def _condition(matrix: NDArray[np.float64]) -> float:
    if not matrix.any():
        return 1.0
    # the last digits of small singular values need the columns' scales as they are: one-norm scaling by a power of two
    values = np.linalg.svd(matrix / np.abs(matrix).max(), compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] else math.inf


def fit(sums: Sums, rows: Rows | None, options: Options) -> Fit:
    """Return the fit of the rows that are in some sums.

    `rows`: the same rows; None where only the sums are known, or are to be used: then what rounding did to the values is in the stated
    error. Sums of weighted rows are never exact: the roots of weights are rounded.
    """
    if not sums.rows:
        return _nothing(sums.features, options)
    exact = all(sums.exact) and sums.centres is None
    gram = gram_of(sums, options.intercept)
    if exact or rows is None or not options.refine:
        return _exactly(sums, gram, options, exact)
    return _refined(sums, gram, rows, options)


def _nothing(features: int, options: Options) -> Fit:
    zeros, others = np.zeros(features), tuple(Dependent(k, (), 0.0) for k in range(features))
    return Fit(
        zeros,
        0.0,
        zeros,
        0.0,
        (),
        others,
        0,
        "none",
        0,
        0.0,
        0.0,
        np.zeros((0, 0)),
        (),
        zeros,
        zeros,
        options,
        0.0,
    )


def _penalties(options: Options, squares: Sequence[Fraction], total: Fraction) -> list[Fraction]:
    """Return what is added to the sum of squares of each feature, given these sums."""
    each = Fraction(options.ridge)
    if options.ridge_per == "sd":
        return [each * square / total for square in squares]
    return [each] * len(squares)


def _exactly(sums: Sums, gram: Gram, options: Options, exact: bool) -> Fit:
    features, total = sums.features, float(gram.total)
    squares = [gram.value(k, k) for k in range(features)]
    penalties = (
        _penalties(options, squares, gram.total) if options.ridge else [Fraction()] * features
    )
    solution = solved(gram, penalties, options.minimum_norm)
    kept = [k for k in solution.kept if squares[k]]
    factor = resolved(gram, kept, penalties)
    # a penalty gives constant columns the weight 0
    dependent = tuple(d for d in solution.dependent if not options.ridge or squares[d.column])
    means = [m * power(s) for m, s in zip(gram.means, gram.shifts, strict=True)]
    bias = means[-1] - sum(
        (w * m for w, m in zip(solution.weights, means, strict=False)), start=Fraction()
    )
    along = [gram.value(k, features) for k in range(features)]
    tss = gram.value(features, features)
    rss = tss - 2 * sum(
        (w * a for w, a in zip(solution.weights, along, strict=True)), start=Fraction()
    )
    for j, w in enumerate(solution.weights):
        if w:
            rss += w * sum(
                (v * gram.value(j, k) for k, v in enumerate(solution.weights) if v),
                start=Fraction(),
            )
    weights = np.array([nearest(w) for w in solution.weights])
    error, bias_error = EPS / 2 * np.abs(weights), EPS / 2 * abs(nearest(bias))
    lengths = np.array([root(s) for s in squares])
    floats = np.array([nearest(m) for m in means])
    if not exact:
        far = rounding(sums, gram) * math.sqrt(features + 1)
        sizes = np.array([root(s + p) for s, p in zip(squares, penalties, strict=True)])
        spread = _stated(factor, kept, weights, sizes, (root(rss), root(tss)), far)
        error = error + spread
        means_off = far * (root(tss) + float(np.abs(weights) @ lengths)) / math.sqrt(total)
        bias_error += float(np.abs(floats[:-1]) @ spread) + means_off
    independent = kept
    if options.ridge:
        independent, penalties = (
            list(solved(gram, [Fraction()] * features, False).kept),
            [Fraction()] * features,
        )
        factor = resolved(gram, independent, penalties)
    return Fit(weights, nearest(bias), error, bias_error, tuple(kept), dependent, sums.rows, "none", 0, root(rss),
               root(tss), factor, tuple(independent), lengths, floats[:-1], options, total)  # fmt: skip


def _stated(
    factor: NDArray[np.float64],
    kept: Sequence[int],
    weights: NDArray[np.float64],
    lengths: NDArray[np.float64],
    sizes: tuple[float, float],
    far: float,
) -> NDArray[np.float64]:
    """Return how far weights may be from the exact ones where each column is `far` off, as a share of its length; `sizes`: of residual and label."""
    residual, label = sizes
    errors = np.zeros(len(weights))
    if not len(kept) or not far:
        return errors
    condition = _condition(factor)
    size = math.hypot(*(weights[list(kept)] * lengths[list(kept)]))
    away = far * (condition * (size + label) + condition**2 * residual)
    errors[list(kept)] = away / lengths[list(kept)]
    return errors


def _refined(sums: Sums, gram: Gram, rows: Rows, options: Options) -> Fit:
    """Refine weights on the rows: their own residuals, in the widest floating point, and a triangle that has only to come near."""
    features = len(rows.columns) - 1
    lengths, label = rows.lengths[:-1], rows.lengths[-1]
    some = np.where(lengths > 0, lengths, 1)
    penalties = np.zeros(features, WIDE)
    if options.ridge:
        per_weight = options.ridge_per == "weight"
        share = WIDE(options.ridge) / (some**2 if per_weight else rows.total)
        penalties = np.where(lengths > 0, share, 0)
    near = _preconditioner(sums, gram, rows, options, penalties)
    factor, kept, others = near.factor, near.kept, near.others
    if options.ridge and any(lengths[k] for k in others):  # a penalty that float64 does not see
        whole_gram = gram_of_rows(rows.columns, rows.weights, options.intercept)
        return _exactly(sums, whole_gram, options, True)
    omega, last, steps = _iterated(rows, factor, kept, penalties)
    _, squares = rows.step(omega)
    sizes = sized(penalties)
    scale = np.where(lengths > 0, label / some, 0)
    weights, means = omega * scale, rows.means
    if options.ridge:  # which gives constant columns the weight 0
        others = {k: along for k, along in others.items() if lengths[k]}
    off = _WIDE_EPS * 4 * max(features, math.sqrt(rows.count))
    noise = 2 * off * _condition(factor) if kept else off
    relations = {k: along.astype(WIDE) for k, along in others.items()}
    if relations and not options.ridge:
        relations = made_of(rows, factor, kept, others, noise)
    dependent = _dependent(relations, kept, lengths, means)
    residual, real = float(np.sqrt(squares) * label), (lengths * sizes).astype(np.float64)
    near_float = weights.astype(np.float64)
    left = float(np.sqrt(squares + penalties @ omega**2) * label)
    error = _stated(factor, kept, near_float, real, (left, float(label)), off)
    error[kept] += (last * scale / sizes)[kept].astype(np.float64)
    if dependent and options.minimum_norm and kept and np.isfinite(near_float).all():
        weights, error = spread(weights, error, kept, relations, lengths, noise)
    bias = means[-1] - weights @ means[:-1]
    shown, shifts = weights.astype(np.float64), means[:-1].astype(np.float64)
    bias_error = float(np.abs(shifts) @ error) + EPS * abs(float(bias))
    if options.intercept:  # the means' own rounding
        sizes = np.abs(np.append(weights, 1)) * (np.abs(means) + rows.reaches)
        bias_error += float(off * sizes.sum())
    error = error + EPS / 2 * np.abs(shown)
    base = near
    if options.ridge:
        base = _preconditioner(
            sums, gram, rows, replace(options, ridge=0.0), np.zeros(features, WIDE)
        )
    real = lengths.astype(np.float64)
    return Fit(shown, float(bias), error, bias_error, tuple(kept), dependent, rows.count, near.how, steps, residual,
               float(label), base.factor, tuple(base.kept), real, shifts, options, float(rows.total))  # fmt: skip


def _iterated(
    rows: Rows,
    factor: NDArray[np.float64],
    kept: Sequence[int],
    penalties: NDArray[np.longdouble],
) -> tuple[NDArray[np.longdouble], float, int]:
    """Return weights of the rows' scaled columns, what a further step would change about (of columns with penalties), and the steps."""
    picked = list(kept)
    inverse, sizes = inverted(factor), sized(penalties)[picked]
    omega, last = np.zeros(len(penalties), WIDE), math.inf
    for number in range(1, _STEPS + 1):
        gradient, _ = rows.step(omega)
        left = (gradient - penalties * omega)[picked] / sizes
        step = inverse @ (inverse.T @ left)
        size = float(np.abs(step).max(initial=0.0))
        # the first step is off by what rounding makes of the condition's square; the second mends that, and may be as long
        if number > 2 and size >= last / 2:
            return omega, 2 * max(size, last), number
        omega[picked] += step / sizes
        # the next step is shorter by as much as this one was, or by half
        last = size * min(size / last, 0.5) if last < math.inf else size / 2
        if size <= 2 * _WIDE_EPS * float(np.abs(omega[picked] * sizes).max(initial=0.0)):
            return omega, last, number
        last = size
    return omega, last, _STEPS


class _Preconditioner(NamedTuple):
    """A triangle, the columns kept, what determines the others, and where the triangle comes from."""

    factor: NDArray[np.float64]
    kept: list[int]
    others: dict[int, NDArray[np.float64]]
    how: str


def _preconditioner(
    sums: Sums, gram: Gram, rows: Rows, options: Options, penalties: NDArray[np.longdouble]
) -> _Preconditioner:
    """Return a triangle near the triangle of the rows' own values: from the sums, where these resolve it."""
    features = sums.features
    if (rows.weights is None) is (sums.centres is None):
        squares = [gram.value(k, k) for k in range(features)]
        some = (
            _penalties(options, squares, gram.total) if options.ridge else [Fraction()] * features
        )
        kept = [k for k in range(features) if squares[k]]
        if len(kept) == features:
            factor = factored(gram, kept, some)
            if factor is not None:
                far = _condition(factor) * rounding(sums, gram) * math.sqrt(features)
                if far <= _UNRESOLVED:
                    factor = corrected(rows, factor, kept, penalties)
                    return _Preconditioner(factor, kept, {}, "sums")
    tolerance = (features + 1) * EPS
    return _Preconditioner(*triangle(rows, penalties, tolerance), "host")


def _dependent(
    others: Mapping[int, NDArray[np.longdouble]],
    kept: Sequence[int],
    lengths: NDArray[np.longdouble],
    means: NDArray[np.longdouble],
) -> tuple[Dependent, ...]:
    dependences = []
    for k, along in others.items():
        before = [j for j in kept if j < k]
        # what rounding alone leaves of a factor, or of the constant, is none
        near = [
            (j, float(a * lengths[k] / lengths[j]))
            for a, j in zip(along, before, strict=True)
            if lengths[k] and abs(a) > _NOISE
        ]
        terms = [means[k], *(-a * means[j] for j, a in near)]
        constant = float(sum(terms))
        if near and abs(constant) <= _NOISE * (max(abs(t) for t in terms) + lengths[k]):
            constant = 0.0
        dependences.append(Dependent(k, tuple(near), constant))
    return tuple(dependences)
