"""Which operations a run carries out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.dsl.core.diagnostics import Span, error
from penstock.engines.base import Given
from penstock.errors import Conflict
from penstock.host.omap.operations import draw_operations, read_operations
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.messages import Request

__all__ = ["check_options", "operations_of"]

_DRAWN = ("ops", "mix", "keys")


def check_options(given_names: set[str], source: bool) -> None:
    """Raise Conflict for options of random operations beside a file of operations."""
    if source:
        for name in _DRAWN:
            if name in given_names:
                raise Conflict(
                    f"--{name} is for random operations",
                    f"leave --{name} or --data out: the file says which operations there are",
                )


def _mix(text: str | dict[str, float] | None) -> dict[str, float] | None:
    if text is None or isinstance(text, dict):
        return text
    if not isinstance(text, str):
        raise ValueError(f"mix {text!r}; expected shares, as in get=0.9,put=0.1")
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            raise ValueError(f"mix {part!r}; expected shares, as in get=0.9,put=0.1") from None
    return shares


def _given(data: Any) -> list[Request]:
    """Return operations that Python gives. Raises KernelError (E472) where there are none."""
    made = list(data)
    if not made:
        raise error(
            "E472",
            "there are no operations",
            Span.whole("data"),
            hint="give requests, as penstock.host.omap.operations.draw_operations makes them",
        )
    return made


def operations_of(config: OmapConfig, given: Given) -> tuple[str, Sequence[Request]]:
    """Return the operations and their name for reports. Raises KernelError (E472)."""
    data = given.data if given.data is not None else given.source
    if data is not None and not isinstance(data, str):
        return "operations", _given(data)
    place = "--mix and --keys" if data is None else data
    try:
        if data is not None:
            return data, read_operations(data, config.value_bytes, key=config.key)
        count = given.option("ops", given.rows or 1000)
        made = draw_operations(
            count,
            config.value_bytes,
            config.capacity,
            mix=_mix(given.option("mix")),
            keys=given.option("keys", "uniform"),
            key=config.key,
            seed=given.seed or 1,
        )
    except ValueError as problem:
        raise error(
            "E472",
            str(problem),
            Span.whole(place),
            hint="`penstock explain E472` shows what operations look like",
        ) from None
    return given.option("keys", "uniform"), made
