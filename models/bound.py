"""The least cycles of a run, by what needs them."""

from __future__ import annotations

from operator import add
from typing import Self

__all__ = ["Terms"]


class Terms:
    """Least cycles that a run can take, term by term; `cycles` is the largest and `by` its name.

    Dataclasses made of it name their terms; sums of them are term by term as well.
    """

    @property
    def cycles(self) -> int:
        return max(vars(self).values())

    @property
    def by(self) -> str:
        return max(vars(self), key=lambda name: getattr(self, name))

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, vars(self).values(), vars(other).values()))
