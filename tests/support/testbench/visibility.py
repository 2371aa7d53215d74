"""The states that a heap tuple can be in, as its header shows them.

Source: PostgreSQL 15 `access/htup_details.h`; the combinations were seen on a server's pages.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.models.heap import page as p

__all__ = ["VISIBILITY", "Visibility"]


@dataclass(frozen=True)
class Visibility:
    """The state of a tuple: bits of `t_infomask` and `t_infomask2`, and whether `t_xmax` holds a transaction."""

    infomask: int
    infomask2: int = 0
    xmax: bool = False


_COMMITTED, _DELETED = p.HEAP_XMIN_COMMITTED, p.HEAP_KEYS_UPDATED
#: the states that `write_pruned` knows, by what happened to the row
VISIBILITY: dict[str, Visibility] = {
    "frozen": Visibility(p.HEAP_XMIN_FROZEN | p.HEAP_XMAX_INVALID),  # VACUUM FREEZE
    "committed": Visibility(_COMMITTED | p.HEAP_XMAX_INVALID),  # inserted, then read by anyone
    "unhinted": Visibility(p.HEAP_XMAX_INVALID),  # inserted, not read yet
    "aborted": Visibility(
        p.HEAP_XMIN_INVALID | p.HEAP_XMAX_INVALID
    ),  # insertion rolled back, then read
    "deleted": Visibility(_COMMITTED | p.HEAP_XMAX_COMMITTED, _DELETED, True),  # deleted, then read
    "deleting": Visibility(_COMMITTED, _DELETED, True),  # deleted by we do not know whom
    "updated": Visibility(
        _COMMITTED | p.HEAP_XMAX_COMMITTED, p.HEAP_HOT_UPDATED, True
    ),  # an old version
    "newer": Visibility(
        _COMMITTED | p.HEAP_XMAX_INVALID | p.HEAP_UPDATED, p.HEAP_ONLY_TUPLE
    ),  # what an update wrote
    "locked": Visibility(
        _COMMITTED | p.HEAP_XMAX_LOCK_ONLY | p.HEAP_XMAX_EXCL_LOCK, _DELETED, True
    ),  # SELECT FOR UPDATE
    "shared": Visibility(
        _COMMITTED | p.HEAP_XMAX_LOCK_ONLY | p.HEAP_XMAX_KEYSHR_LOCK | p.HEAP_XMAX_IS_MULTI, 0, True
    ),
    "multi": Visibility(
        _COMMITTED | p.HEAP_XMAX_IS_MULTI, 0, True
    ),  # several transactions, one may have deleted it
    "moved": Visibility(_COMMITTED | p.HEAP_XMAX_INVALID | 0x4000),  # by a VACUUM FULL before 9.0
}
