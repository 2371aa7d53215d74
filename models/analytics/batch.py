"""One batch of tuples, as golden results take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numerics.formats import Codes


@dataclass(frozen=True)
class Batch:
    """The tuples of one batch: `tuples` (n, positions) codes in row order of the groups, `group` and `thread` their places. A
    batch may be empty (an epoch without tuples, or one whose last batch was full). `source`: port and number there of each tuple; `count`:
    batches that it stands for."""

    tuples: Codes
    group: np.ndarray
    thread: np.ndarray
    source: np.ndarray
    count: int = 1
