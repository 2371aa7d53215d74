"""Charts of kernels that learn from a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.outcome import Outcome
from penstock.report.rows import Chart

if TYPE_CHECKING:
    from .design import AnalyticsDesign

__all__ = ["charts"]


def charts(outcome: Outcome, design: AnalyticsDesign) -> Iterable[Chart]:
    """Return the charts of a report."""
    return ()
