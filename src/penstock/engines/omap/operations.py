"""Which operations a run carries out."""

from collections.abc import Sequence
from typing import Any

from penstock.dsl.core.diagnostics import Span, error
from penstock.engines.base import Given
from penstock.errors import Conflict
from penstock.host.omap.operations import draw_operations, read_operations
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.messages import Request

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
    requests = list(data)
    if not requests:
        raise error(
            "E472",
            "there are no operations",
            Span.whole("data"),
            hint="give requests, as penstock.host.omap.operations.draw_operations makes them",
        )
    return requests


def operations_of(config: OmapConfig, args: Given) -> tuple[str, Sequence[Request]]:
    """Return the operations and their name for reports. Raises KernelError (E472)."""
    data = args.data if args.data is not None else args.source
    if data is not None and not isinstance(data, str):
        return "operations", _given(data)
    place = "--mix and --keys" if data is None else data
    try:
        if data is not None:
            return data, read_operations(data, config.value_bytes, key=config.key)
        count = args.option("ops", args.rows or 1000)
        requests = draw_operations(
            count,
            config.value_bytes,
            config.capacity,
            mix=_mix(args.option("mix")),
            keys=args.option("keys", "uniform"),
            key=config.key,
            seed=args.seed or 1,
        )
    except ValueError as problem:
        raise error(
            "E472",
            str(problem),
            Span.whole(place),
            hint="`penstock explain E472` shows what operations look like",
        ) from None
    return args.option("keys", "uniform"), requests
