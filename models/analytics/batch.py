"""The record of one batch: its tuples, each with its group and thread. `golden.takers` decides which tuple goes where, `golden.PlanMachine.merge`
in which order they are summed.
"""

from dataclasses import dataclass

import numpy as np

from ..numerics.formats import Codes


@dataclass(frozen=True)
class Batch:
    """The tuples of one batch, none for an epoch without tuples or one whose last batch was full."""

    tuples: Codes  #: codes (n, positions), in row order of the groups
    group: np.ndarray  #: each tuple's place
    thread: np.ndarray  #: each tuple's place
    source: np.ndarray  #: port and number there of each tuple
    count: int = 1  #: batches that it stands for
