"""Columns of which the number format leaves nothing: their values differ, and become one number."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..numerics.convert import STORED
from ..numerics.policy import InputPolicy
from .config import WalkConfig
from .judge import delivery
from .table import walk_table


def lost(
    walk: WalkConfig, pages: NDArray[np.uint8], parts: Sequence[NDArray[np.int64]]
) -> tuple[str, ...]:
    """Return the columns, and the elements of arrays (`x[1]`, as in SQL), whose codes are equal in all tuples though what is stored is not.

    `parts`: the tuples' codes as `walk_table` returns them. Pages are read again only where some codes are all equal.
    """
    zero, other = walk.format.encode(np.array([0.0, -0.0]))  # one value
    places, parts = delivery(walk), [np.where(p == other, zero, p) for p in parts if len(p)]
    for rows in [rows for part in parts for rows in (part[:1024], part)]:
        places = places[(rows[:, places] == parts[0][0, places]).all(axis=0)]
    if not parts or not len(places):
        return ()
    policy = InputPolicy("saturate", "skip" if walk.policy.skips else "pass")
    stored = walk_table(pages, replace(walk, format=STORED, policy=policy))[0][:, places]
    names = []
    for place in places[(stored != stored[:1]).any(axis=0)].tolist():
        at = walk.value_at(place + 1)
        assert at is not None
        column = walk.schema.columns[at[0]]
        names.append(f"{column.name}[{at[1] + 1}]" if column.is_array else column.name)
    return tuple(names)
