"""Named errors that hardware reports, the same on every backend (contract C4).

A run that meets one of these publishes no result. The status registers carry the code, the block number and the
line pointer (0 where the error is not about one tuple).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ErrorCode(IntEnum):
    """What stopped a run. The values are what the status register holds."""

    OK = 0
    # the page as a whole
    PAGE_VERSION = 1          #: pd_pagesize_version is not the layout version and page size that the plan was made for
    PAGE_BOUNDS = 2           #: pd_lower, pd_upper or pd_special out of order or outside the page
    # one line pointer
    LINE_BOUNDS = 16          #: a NORMAL line pointer whose tuple lies outside the page's tuple space
    LINE_FLAGS = 17           #: a redirect or unused line pointer with storage
    # one tuple
    TUPLE_HEADER = 32         #: t_hoff out of range or not aligned, or too short for the null bitmap
    TUPLE_NATTS = 33          #: more attributes than the schema has
    TUPLE_VISIBILITY = 34     #: the page alone does not decide whether the tuple is visible
    TUPLE_LENGTH = 35         #: the attributes reach past the end of the tuple
    TUPLE_NULL = 36           #: NULL in a used column under the policy `error`
    TUPLE_EXTERNAL = 37       #: a used (or skipped-over) value is stored out of line or compressed in a way that cannot be read
    ARRAY_SHAPE = 38          #: an array that is not one-dimensional, has another length, lower bound or element type, or holds NULL elements
    # outside the pages
    BUS_READ = 64             #: a read burst came back with an error response
    BUS_WRITE = 65            #: a write burst came back with an error response
    PROGRAM = 66              #: the Strider program holds an unknown opcode or runs past its end
    WATCHDOG = 67             #: no progress for the configured number of cycles
    # the jobs of the qr engine; `block` is the job's index in the run
    QR_DESCRIPTOR = 80        #: a job's descriptor contradicts itself: sizes, flags, or numbers that name no row
    QR_COLUMNS = 81           #: more columns than the engine was built for, or an empty window
    QR_ROWS = 82              #: more rows than the engine's integers hold, or a label beyond them
    QR_ORDER = 83             #: rows or labels out of order
    QR_MEMO = 84              #: a memo of another method or row set (its epoch or row count), or none where one is needed
    QR_WINDOW = 85            #: a memo of another byte window, or of other offsets
    QR_REMOVED = 86           #: rows removed from a triangular factor, which cannot forget them


@dataclass(frozen=True)
class HardwareError:
    """One error report. `block` is the page's index in the run's pages, `line` the 1-based line pointer (0: none)."""

    code: ErrorCode
    block: int = 0
    line: int = 0

    def __str__(self) -> str:
        place = f"block {self.block}" + (f", line pointer {self.line}" if self.line else "")
        return f"{self.code.name} at {place}"
