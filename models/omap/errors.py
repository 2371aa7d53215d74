"""What stops an oblivious map. None of them says anything of the map's content."""

from __future__ import annotations

from ..errors import ErrorCode, HardwareCode, HardwareError

__all__ = ["MapError", "error_of"]


class MapError(HardwareCode):
    """Errors of the engine. After one of them the map answers no more: restore a snapshot."""

    PAGE_TAG = (
        200,
        "a page is not the one that was written last",
        "the host's memory was changed: restore a snapshot",
        "E850",
    )
    REQUEST_TAG = (
        201,
        "a request was not sealed for this place in the session",
        "seal each request with its own number, in order",
        "E850",
    )
    PAGE_FULL = (
        202,
        "more items fall to a page than it has room for",
        "restore a snapshot into a map with more slots",
        "E851",
    )
    BUCKET_FULL = (
        203,
        "a bucket of the position map is full",
        "restore a snapshot into a map with more buckets",
        "E851",
    )
    FRAMES = 204, "HBM has no frame left", "restore a snapshot into a map with more frames", "E851"
    DEADLINE = (
        205,
        "HBM answered later than its stated worst case",
        "compile with the memory's true timing",
        "E852",
    )
    STOPPED = 206, "an earlier run did not come to its end", "restore a snapshot", "E850"
    EPOCH = 207, "the snapshot is not the latest one", "give the latest snapshot", "E850"
    SNAPSHOT = 208, "the snapshot was changed", "give the snapshot as it was taken", "E850"
    OLD_EPOCH = (
        210,
        "a snapshot's epoch is not above the last one, or has more than 56 bits",
        "give each snapshot an epoch of its own, in order, below 2^56",
        "E850",
    )
    DUPLICATE = (
        209,
        "a record's key is in the map already",
        "load each key once, into a map with fresh keys",
        "E850",
    )


def error_of(code: int) -> HardwareError:
    """Return the error of a code, a map's own or one of all engines. Raises ValueError for a code
    that there is not."""
    return HardwareError(MapError(code) if code in set(MapError) else ErrorCode(code))
