"""Oblivious maps for tests: a small configuration, requests, and a dict that answers them."""

from __future__ import annotations

import random
from typing import Any

from penstock.models.omap.config import OmapConfig
from penstock.models.omap.messages import Keys, Operation, Request, Response, Status

__all__ = ["KEYS", "Mirror", "config", "requests"]

_draw = random.Random(19)
KEYS = Keys(*(_draw.getrandbits(128) for _ in range(4)))


def config(**changes: Any) -> OmapConfig:
    """A map of 40 items in 16 bins."""
    standard = {
        "capacity": 40,
        "value_bytes": 8,
        "bins": 16,
        "hbm_bins": 4,
        "slots": 16,
        "buckets": 8,
        "bucket_slots": 16,
        "frames": 64,
        "window": 4,
        "openers": 2,
        "sealers": 2,
        "deadline": 30,
    }
    return OmapConfig(**{**standard, **changes})


def requests(
    config: OmapConfig,
    count: int,
    *,
    seed: int,
    keys: int | None = None,
    unknown: bool = True,
    mix: tuple[int, int, int] = (4, 5, 3),
) -> list[Request]:
    """Requests with keys below `keys` (half as many again as the map holds), some of them unknown;
    `mix`: how often GET, PUT and DELETE."""
    draw = random.Random(seed)
    keys = config.capacity * 3 // 2 if keys is None else keys
    kinds = [kind for kind, often in zip(Operation, mix, strict=True) for _ in range(often)]
    made = []
    for _ in range(count):
        kind = draw.choice((0, 4, 255)) if unknown and draw.random() < 0.05 else draw.choice(kinds)
        size = config.value_bytes
        value = draw.randbytes(size) if kind == Operation.PUT else bytes(size)
        made.append(Request(kind, draw.randrange(keys), value))
    return made


class Mirror:
    """What a map must answer."""

    def __init__(self, config: OmapConfig) -> None:
        self.config = config
        self.items: dict[int, bytes] = {}

    def step(self, request: Request) -> Response:
        """Carry out a request."""
        kind, key, value = request
        none = bytes(self.config.value_bytes)
        if kind not in tuple(Operation):
            return Response(Status.UNKNOWN, key, none)
        old = self.items.get(key)
        status = Status.MISSING if old is None else Status.FOUND
        if kind == Operation.PUT:
            if old is None and len(self.items) >= self.config.capacity:
                status = Status.FULL
            else:
                self.items[key] = value
        elif kind == Operation.DELETE:
            self.items.pop(key, None)
        return Response(status, key, none if old is None else old)
