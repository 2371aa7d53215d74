"""Formats by name for studies of accuracy: each rounds arrays of numbers, the last axis in groups."""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.models.numerics.formats import parse_format
from penstock.models.numerics.mx import FAMILY

from .ocp import OCP, SMALL, GroupScaled


class Quantiser(Protocol):
    """Rounds numbers; with `random`, bytes of the same shape, stochastically."""

    @property
    def name(self) -> str: ...

    def quantise(
        self, values: ArrayLike, random: ArrayLike | None = None
    ) -> NDArray[np.float64]: ...


_NAMED: dict[str, Quantiser] = {**FAMILY, **OCP, **SMALL, "int8": GroupScaled()}
NAMES = (*_NAMED, "float16", "bfloat16", "float32")


class _Plain:
    """A number format without groups; it has no stochastic rounding."""

    def __init__(self, name: str) -> None:
        self.name, self._format = name, parse_format(name)

    def quantise(self, values: ArrayLike, random: ArrayLike | None = None) -> NDArray[np.float64]:
        if random is not None:
            raise ValueError(f"{self.name} rounds to nearest")
        return self._format.decode(self._format.encode(values))


def quantiser(name: str) -> Quantiser:
    """Return the format of a name: those of `NAMES`, or another of `parse_format`. Raises ValueError."""
    return _NAMED[name] if name in _NAMED else _Plain(name)
