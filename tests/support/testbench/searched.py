"""Search for cases that fail: Hypothesis draws them and shrinks those that do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

__all__ = ["searched"]


def searched(examples: int, hold: Callable[[Random], None]) -> None:
    """Hold so many cases, the same ones in every run; `hold` draws one and holds it."""
    checks = list(HealthCheck)
    own = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=checks,
    )
    own(given(st.randoms(use_true_random=False))(lambda random: hold(random)))()
