"""Charts of fits."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.outcome import Outcome
from penstock.report.rows import Chart

__all__ = ["charts"]


def charts(outcome: Outcome) -> Iterable[Chart]:
    """Return the charts of a report."""
    return ()
