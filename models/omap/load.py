"""Bulk loads: many records at once, each with one operation that opens no page, then all pages in order.

A load is a run of operations. Each record is inserted by one of them: it draws its pair, goes into a
frame of HBM, and waits there for its page; bins 0 and 1 are shown, which lie in HBM. Then operations
that change nothing open all pages in order, two each, and whatever waits is written. So what the host
sees depends on the number of records alone. A key that is in the map already ends the run with an
error: its pair would be shown.

The client seals the operations of a load with a nonce of their own kind (`messages.load_nonce`), so that the
host can neither run requests as a load nor the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import sqrt

from .config import OmapConfig
from .golden import Item, Map, Step
from .messages import Operation, Request
from .tails import BUDGET, gauss_distance

__all__ = ["batches", "load", "load_requests", "shown", "sweeps"]

#: an operation that no client has: it changes nothing
_NOTHING = 0


def sweeps(config: OmapConfig) -> int:
    """Return how many operations open all pages."""
    return -(-config.host_bins // 2)


def shown(config: OmapConfig, records: int, index: int) -> tuple[int, int]:
    """Return the bins that operation `index` of a load of `records` records shows."""
    if index < records:
        return 0, 1
    first = config.hbm_bins + 2 * (index - records)
    return first % config.bins, (first + 1) % config.bins


def load_requests(config: OmapConfig, items: Iterable[Item], records: int = 0) -> list[Request]:
    """Return the operations of a load: a PUT each, then those that open the pages. `records`: so many
    records are shown, if these are more than the items."""
    puts = [Request(Operation.PUT, item.key, item.value) for item in items]
    nothing = Request(_NOTHING, 0, bytes(config.value_bytes))
    return puts + [nothing] * (max(records - len(puts), 0) + sweeps(config))


def load(box: Map, requests: Iterable[Request], records: int) -> Iterator[Step]:
    """Carry out a load of `records` records. Raises Overflow: DUPLICATE for a key that is there."""
    for index, request in enumerate(requests):
        yield box.step(request, shown(box.config, records, index))


def batches(config: OmapConfig, count: int, present: int = 0) -> list[int]:
    """Return how many records of `count` each of several loads takes, so that HBM's frames hold them
    until they are written, but for the failure budget. `present`: items of the map at first, or more
    of them than there are.

    Raises ValueError where frames have no room for a load at all.
    """
    if count and config.frames - 2 >= config.capacity:
        return [count]  # all items have a frame, and a record beyond the capacity takes none
    left, out = count, []
    while left:
        present = min(present, config.capacity)
        share = config.alpha * present
        spread = sqrt(2 * config.hbm_bins * min(present / config.bins, 4.0))
        settled = min(present, share + spread * gauss_distance(BUDGET - 4))
        size = min(left, int(config.frames - 1 - settled))
        if size < 1:
            raise ValueError(
                f"HBM's {config.frames:,} frames have no room for a record beside {present:,} items; "
                "load before other operations, or use put_many"
            )
        out.append(size)
        left -= size
        present += size
    return out
