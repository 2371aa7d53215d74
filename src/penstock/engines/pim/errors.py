"""How far a run is from float64, and which heads lose their decays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.models.pim import rate
from penstock.models.pim.error import reference
from penstock.models.pim.layout import Floats, Layout, Operands
from penstock.models.pim.unit import FRACTION

__all__ = ["MOST", "Beside", "Compared", "clipped", "collapsed"]

#: numbers of states that are computed in float64, token by token: golden takes 50 to 500 times as long over as many
MOST = 1 << 25


def collapsed(format: str, rates: Floats | None) -> NDArray[np.int64]:
    """Return the items some rate of which becomes 0 in the unit, or changes by more than one part in a hundred.

    MX8 cuts what is `FRACTION` bits below the largest number of a group: smaller rates take nothing from it.
    """
    if rates is None:
        return np.zeros(0, dtype=np.int64)
    gone = rate.lost(rates)
    if format == "mx8":
        gone |= (rates != 0) & (np.abs(rates) < 2.0**-FRACTION)
    return np.flatnonzero(gone.any(axis=(0, 2)))


@dataclass
class Compared:
    """How far outputs were from float64's, in all; `at`: where the largest error is, `largest_bound`: its bound."""

    count: int = 0
    squares: float = 0.0
    sizes: float = 0.0
    largest: float = 0.0
    at: Sequence[int] = ()
    largest_bound: float = 0.0
    bound: float = 0.0
    within: bool = True

    def add(
        self,
        given: Floats,
        exact: Floats,
        bound: Floats,
        place: Callable[[int, int, int], Sequence[int]],
    ) -> None:
        """Add outputs (tokens, items, columns), float64's and the bound; `place`: what to say of a token, an item and a column."""
        error = np.abs(given - exact)
        self.count += error.size
        self.squares += float((error**2).sum())
        self.sizes += float((exact**2).sum())
        where = np.unravel_index(int(error.argmax()), error.shape)
        if not self.at or error[where] > self.largest:
            token, item, column = map(int, where)
            self.largest, self.largest_bound = float(error[where]), float(bound[where])
            self.at = place(token, item, column)
        self.bound = max(self.bound, float(bound.max()))
        self.within &= bool((error <= bound).all())

    def to_json(self) -> dict[str, Any]:
        rms, size = (math.sqrt(x / max(self.count, 1)) for x in (self.squares, self.sizes))
        return {
            "rms": rms,
            "rms_of_output": rms / size if size else 0.0,
            "largest": self.largest,
            "largest_at": list(self.at),
            "largest_bound": self.largest_bound,
            "bound": self.bound,
            "within_bound": self.within,
        }


@dataclass(frozen=True, eq=False)
class Beside:
    """What the units gave (y: tokens, items, columns) beside float64."""

    layout: Layout
    operands: Operands
    y: Floats

    @cached_property
    def items(self) -> Sequence[int]:
        """Those that are compared: all, or some, evenly apart, where there are very many numbers."""
        own = self.layout
        most = max(1, MOST // (own.head * own.columns * own.tokens))
        if most >= own.items:
            return range(own.items)
        return [number * own.items // most for number in range(most)]

    @cached_property
    def _taken(self) -> tuple[Floats, Floats, Floats]:
        """What was given, float64's, and the bound, of the items that are compared."""
        of, own = list(self.items), self.operands
        state = None if own.state is None else own.state[of]
        given = (None if x is None else x[:, of] for x in (own.q, own.c, own.k, own.v))
        operands = Operands(state, *given)
        exact = reference(self.layout.config, self.layout.mode, operands, self.layout.tokens)
        return self.y[:, of], exact.y, exact.y_bound

    def to_json(self) -> dict[str, Any]:
        made = Compared()
        made.add(*self._taken, self._place)
        return {"heads": len(self.items), "of": self.layout.items, **made.to_json()}

    def _place(self, token: int, place: int, column: int) -> list[int]:
        return [token, *divmod(self.items[place], self.layout.heads), column]

    def collapsed(self) -> list[dict[str, Any]]:
        """Return the heads that collapse, each with its smallest rate that is not 0."""
        rates, made = self.operands.c, []
        for item in collapsed(self.layout.config.format, rates):
            assert rates is not None
            own = np.abs(rates[:, item])
            request, head = divmod(int(item), self.layout.heads)
            made.append({"request": request, "head": head, "rate": float(own[own > 0].min())})
        return made


def clipped(y: Floats, largest: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return sums within float32, 0 in place of what is no number, and which of them were not."""
    outside = ~(np.abs(y) <= largest)
    if not outside.any():
        return y, outside
    return np.clip(np.nan_to_num(y, nan=0.0), -largest, largest), outside
