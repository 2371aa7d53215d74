"""Workloads that a map must not let be told apart."""

from __future__ import annotations

from penstock.host.omap.operations import draw_operations
from penstock.models.omap.messages import Operation, Request

__all__ = ["WORKLOADS", "workload"]

#: keys, shares of operations, and whether all keys have items at first; sawtooth: an eighth of them
WORKLOADS = {
    "sweep": ("sweep", {"get": 1.0}, True),
    "uniform": ("uniform", {"get": 0.5, "put": 0.5}, True),
    "hot key": ("hot:1", {"get": 0.5, "put": 0.5}, True),
    "Zipf": ("zipf:0.99", {"get": 0.9, "put": 0.1}, True),
    "sawtooth": ("sawtooth", {"get": 1.0}, True),
    "misses": ("uniform", {"get": 1.0}, False),
    "deletes": ("uniform", {"get": 0.2, "put": 0.3, "delete": 0.5}, True),
}


def workload(name: str, items: int, count: int, seed: int = 1) -> tuple[int, list[Request]]:
    """Return requests on so many keys, and how many of the first of them only fill the map."""
    keys, mix, full = WORKLOADS[name]
    keys = f"sawtooth:{max(items // 8, 1)}" if keys == "sawtooth" else keys
    first = [Request(Operation.PUT, key, bytes(8)) for key in range(items if full else 0)]
    return len(first), first + draw_operations(count, 8, items, mix=mix, keys=keys, seed=seed)
