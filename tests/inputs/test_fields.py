"""models/fields.py: the first place in plain data that is not of its declared type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from penstock.models.fields import misfit


class Timed(Protocol):
    """What a value cannot be asked for."""

    seconds: float


@dataclass
class Inner:
    name: str
    sizes: tuple[int | None, ...] = ()


@dataclass
class Outer:
    inner: Inner
    pair: tuple[str, float] = ("a", 1)
    more: Mapping[str, Inner] | None = None
    anything: Any = None
    timed: Timed | None = None
    late: Unknown = 7  # type: ignore[name-defined]


RIGHT = Outer(Inner("x", (1, None)), more={"k": Inner("y")}, timed=Inner("z"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (RIGHT, None),
        (Outer(Inner(3)), ".inner.name"),  # type: ignore[arg-type]
        (Outer(Inner("x", (1, "2"))), ".inner.sizes[1]"),  # type: ignore[arg-type]
        (Outer(Inner("x", (True,))), ".inner.sizes[0]"),
        (Outer(Inner("x", [1])), ".inner.sizes"),  # type: ignore[arg-type]
        (Outer(Inner("x"), ("a", 1, 2)), ".pair"),  # type: ignore[arg-type]
        (Outer(Inner("x"), ("a", "1")), ".pair[1]"),  # type: ignore[arg-type]
        (Outer(Inner("x"), more={"k": Inner(3)}), ".more['k'].name"),  # type: ignore[arg-type]
        (Outer(Inner("x"), more={3: Inner("y")}), ".more[3]"),  # type: ignore[dict-item]
        (Outer(Inner("x"), anything=Inner(3)), ".anything.name"),  # type: ignore[arg-type]
        (Outer(Inner("x"), timed=Inner(3)), ".timed.name"),  # type: ignore[arg-type]
    ],
)
def test_the_first_place(value: Outer, where: str | None) -> None:
    assert misfit(value, Outer) == where
