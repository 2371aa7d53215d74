"""Maps that leak, each in one way: traces that the tests of obliviousness must not let pass.

A map of bins alone: no values, no encryption. `oblivious` is the protocol, all others change one line.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from penstock.models.omap.messages import Operation, Request
from testbench.obliviousness import Trace

__all__ = ["LEAKS", "leaky"]

#: leaks, and the test that sees each, with the workload that shows it
LEAKS = {
    "one bin": "T2",
    "a GET keeps its pair": "T3",
    "items of HBM touch no page": "T1",
    "stops after the item": "T1",
    "writes what changed": "T1",
    "a miss touches nothing": "T1",
    "biased range": "T2",
}


def leaky(
    leak: str, bins: int, hbm_bins: int, requests: Iterable[Request], seed: int, skip: int = 0
) -> Trace:
    """Return what a map with this leak shows of requests, those before `skip` left out."""
    draw = np.random.default_rng(seed)
    loads = [0] * bins
    places: dict[int, tuple[tuple[int, int], int]] = {}
    read, written = [], []

    def bin_() -> int:
        if leak == "biased range":
            return int(draw.integers(1 << int(bins - 1).bit_length())) % bins
        return int(draw.integers(bins))

    def pair() -> tuple[int, int]:
        first, second = bin_(), bin_()
        return (first, second) if first != second else pair()

    for request in requests:
        kept = places.pop(request.key, None)
        shown, holds = kept if kept is not None else (pair(), -1)
        if leak == "one bin" and kept is not None:
            other = bin_()
            while other == holds:
                other = bin_()
            shown = (holds, other)
        pages = [b - hbm_bins for b in shown if b >= hbm_bins]
        if leak == "items of HBM touch no page" and 0 <= holds < hbm_bins:
            pages = []
        if leak == "stops after the item" and holds == shown[0]:
            pages = pages[:1] if holds >= hbm_bins else []
        if leak == "a miss touches nothing" and kept is None:
            pages = []
        read.append(tuple(pages))
        kept_pages = leak == "writes what changed" and request.operation == Operation.GET
        written.append(() if kept_pages and kept is None else tuple(pages))
        if kept is not None:
            loads[holds] -= 1
        if request.operation == Operation.DELETE or (
            kept is None and request.operation != Operation.PUT
        ):
            continue
        fresh = pair()
        if leak == "a GET keeps its pair" and kept is not None:
            fresh = kept[0]
        holds = fresh[1] if loads[fresh[1]] < loads[fresh[0]] else fresh[0]
        loads[holds] += 1
        places[request.key] = fresh, holds
    return Trace(bins, hbm_bins, tuple(read[skip:]), tuple(written[skip:]))
