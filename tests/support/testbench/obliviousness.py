"""Statistical tests of what the host sees of a map: whether it tells anything of keys and operations.

These are T1 to T5, T7 and T8 of the table in benchmarks/measured.md. Most take traces (`Trace`); all return `Finding`s.
A z is that of a chi-square statistic around its degrees of freedom. The distributions are SciPy's, the classifier is scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from penstock.models.omap.golden import Step

__all__ = [
    "P_LIMIT",
    "T_LIMIT",
    "Z_LIMIT",
    "Finding",
    "Trace",
    "ciphertexts",
    "classifier",
    "independence",
    "same_gaps",
    "same_histogram",
    "same_times",
    "shape",
    "trace",
    "uniformity",
]

#: |z| of T2 and T3, |t| of T8
Z_LIMIT, T_LIMIT = 4.0, 4.5
#: p of T1 and T4, before a correction for the number of tests
P_LIMIT = 1e-4
_CLASSES, _LAGS = 64, 8
_WINDOW, _PARTS = 64, 16

Counts = NDArray[np.float64]
Pages = NDArray[np.int64]


class Finding(NamedTuple):
    """What a test found: its name, its statistic by name, and whether it passes."""

    test: str
    statistic: str
    value: float
    passes: bool


@dataclass(frozen=True)
class Trace:
    """What operations show, in order. `bins`, `hbm_bins`: of the map. `read`, `written`: of each
    operation, the pages that it reads and writes."""

    bins: int
    hbm_bins: int
    read: tuple[tuple[int, ...], ...]
    written: tuple[tuple[int, ...], ...]

    @property
    def pages(self) -> int:
        return self.bins - self.hbm_bins

    def touched(self) -> Pages:
        """Return all pages that are read, in order."""
        return np.array([page for pages in self.read for page in pages], dtype=np.int64)

    def side(self, number: int) -> Pages:
        """Return the first or second page of the operations that read two."""
        return np.array([pages[number] for pages in self.read if len(pages) == 2], dtype=np.int64)


def trace(bins: int, hbm_bins: int, steps: Iterable[Step]) -> Trace:
    """Return what the operations of the golden model show."""
    pages = tuple(tuple(opened.page for opened in step.opened) for step in steps)
    return Trace(bins, hbm_bins, pages, pages)


def _z(statistic: float, freedom: float) -> float:
    return (statistic - freedom) / sqrt(2 * freedom)


def shape(seen: Trace) -> list[Finding]:
    """T1: none, one or two pages an operation as often as pairs of distinct bins give; each page
    that is read is written."""
    bins, hbm = seen.bins, seen.hbm_bins
    counts = np.bincount([len(pages) for pages in seen.read], minlength=3).astype(float)
    pairs = bins * (bins - 1)
    expected = np.array(
        [hbm * (hbm - 1), 2 * hbm * seen.pages, seen.pages * (seen.pages - 1)], dtype=float
    )
    expected *= len(seen.read) / pairs
    some = expected > 0
    wrong = bool(counts[3:].sum() or counts[:3][~some].sum())
    p = 0.0 if wrong else float(stats.chisquare(counts[:3][some], expected[some]).pvalue)
    unpaired = sum(a != b for a, b in zip(seen.read, seen.written, strict=True))
    return [
        Finding("T1", "p, pages an operation", p, p > P_LIMIT),
        Finding("T1", "operations that write other pages than they read", unpaired, not unpaired),
    ]


def uniformity(seen: Trace) -> Finding:
    """T2: all pages are read equally often; two-sided."""
    counts = np.bincount(seen.touched(), minlength=seen.pages)
    z = _z(float(stats.chisquare(counts).statistic), seen.pages - 1)
    return Finding("T2", "z, pages", z, abs(z) < Z_LIMIT)


def independence(seen: Trace) -> Finding:
    """T3: the page of one operation tells nothing of those up to eight operations later, nor the
    first page of an operation of its second. The largest |z| of all tables."""
    classes = min(_CLASSES, seen.pages)
    sizes = np.bincount(np.arange(seen.pages) * classes // seen.pages).astype(float)
    one = np.array([pages[0] if pages else -1 for pages in seen.read], dtype=np.int64)
    worst = 0.0
    for lag in range(1, _LAGS + 1):
        both = (one[:-lag] >= 0) & (one[lag:] >= 0)
        worst = _worse(worst, _table(one[:-lag][both], one[lag:][both], seen.pages, sizes, 0.0))
    worst = _worse(worst, _table(seen.side(0), seen.side(1), seen.pages, sizes, 1.0))
    return Finding("T3", "z, pairs of pages", worst, abs(worst) < Z_LIMIT)


def _worse(one: float, other: float) -> float:
    return other if abs(other) > abs(one) else one


def _table(first: Pages, second: Pages, pages: int, sizes: Counts, distinct: float) -> float:
    classes = len(sizes)
    a, b = first * classes // pages, second * classes // pages
    counts = np.bincount(a * classes + b, minlength=classes * classes).reshape(classes, classes)
    expected = np.outer(sizes, sizes) - distinct * np.diag(sizes)
    expected *= len(first) / expected.sum()
    # marginals are T2's business: the table is compared with the product of its own
    rows = counts.sum(1) / np.maximum(expected.sum(1), 1e-300)
    columns = counts.sum(0) / np.maximum(expected.sum(0), 1e-300)
    expected = expected * rows[:, None] * columns[None, :]
    expected *= counts.sum() / max(expected.sum(), 1e-300)
    filled = expected > 0
    if (expected[filled].mean() if filled.any() else 0.0) < 1.0:
        return 0.0  # too few operations to tell anything
    statistic = float(((counts[filled] - expected[filled]) ** 2 / expected[filled]).sum())
    return _z(statistic, (classes - 1) ** 2)


def same_histogram(one: Trace, other: Trace) -> Finding:
    """T4: two workloads read all pages equally often."""
    counts = np.array([np.bincount(t.touched(), minlength=one.pages) for t in (one, other)])
    p = float(stats.chi2_contingency(counts[:, counts.any(0)]).pvalue)
    return Finding("T4", "p, histograms", p, p > P_LIMIT)


def _gaps(seen: Trace) -> Pages:
    """Return the reads from each one to the next of the same page."""
    touched = seen.touched()
    order = np.argsort(touched, kind="stable")
    same = touched[order][1:] == touched[order][:-1]
    return np.asarray(np.diff(order)[same], dtype=np.int64)


def same_gaps(one: Trace, other: Trace) -> Finding:
    """T4: in two workloads a page is read again after equally long."""
    p = float(stats.ks_2samp(_gaps(one), _gaps(other)).pvalue)
    return Finding("T4", "p, gaps between visits", p, p > P_LIMIT)


def _features(seen: Trace) -> Counts:
    rows = []
    count = len(seen.read) // _WINDOW
    for k in range(count):
        window = seen.read[k * _WINDOW : (k + 1) * _WINDOW]
        pages = np.array([page for some in window for page in some], dtype=np.int64)
        parts = np.bincount(pages * _PARTS // seen.pages, minlength=_PARTS)
        order = np.argsort(pages, kind="stable")
        same = pages[order][1:] == pages[order][:-1]
        gaps = np.diff(order)[same]
        rows.append(
            [
                len(pages),
                float(parts.var()),
                float(parts.max()),
                len(pages) - len(np.unique(pages)),
                float(gaps.mean()) if len(gaps) else 0.0,
                float(gaps.min()) if len(gaps) else 0.0,
                float(sum(len(some) == 2 for some in window)),
            ]
        )
    return np.array(rows, dtype=float)


def classifier(one: Trace, other: Trace) -> Finding:
    """T5: logistic regression on windows of 64 operations cannot tell two workloads apart: the area
    under its curve on windows that it was not trained with."""
    rows = [_features(seen) for seen in (one, other)]
    halves = [len(r) // 2 for r in rows]
    train = np.concatenate([r[:h] for r, h in zip(rows, halves, strict=True)])
    held_out = [r[h:] for r, h in zip(rows, halves, strict=True)]
    few, many = (len(r) for r in held_out)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(train, np.repeat([0, 1], halves))
    scores = model.decision_function(np.concatenate(held_out))
    area = float(roc_auc_score(np.repeat([0, 1], [few, many]), scores))
    deviation = sqrt((few + many + 1) / (12 * few * many))
    return Finding("T5", "(AUC − ½) ÷ σ", (area - 0.5) / deviation, abs(area - 0.5) < 3 * deviation)


def ciphertexts(sent: Iterable[tuple[int, int, bytes]]) -> Finding:
    """T7: no ciphertext of (page, counter, bytes) comes twice, and no page's counter."""
    pages: set[tuple[int, int]] = set()
    texts: set[bytes] = set()
    count = 0
    for page, counter, text in sent:
        pages.add((page, counter))
        texts.add(text)
        count += 1
    again = 2 * count - len(pages) - len(texts)
    return Finding("T7", "ciphertexts or nonces that come again", again, not again)


def same_times(one: Sequence[int], other: Sequence[int]) -> list[Finding]:
    """T8: times of two workloads: Welch's t, and Kolmogorov-Smirnov."""
    t = (
        0.0
        if list(one) == list(other)
        else float(stats.ttest_ind(one, other, equal_var=False).statistic)
    )
    p = float(stats.ks_2samp(one, other).pvalue)
    return [
        Finding("T8", "t, times", t, abs(t) < T_LIMIT),
        Finding("T8", "p, times", p, p > P_LIMIT),
    ]
