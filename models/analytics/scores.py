"""What trained models say of tuples: the golden result of a plan that scores."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..numerics.formats import Codes
from .config import AnalyticsPlan
from .golden import PlanMachine

#: tuples that are computed side by side
_CHUNK = 1 << 14


def scores(
    plan: AnalyticsPlan, tuples: Codes, models: Mapping[str, Codes], runs: Sequence[Codes]
) -> Codes:
    """Return the score of each tuple as codes, bit for bit as the hardware has it.

    Parameters: `tuples`: (n, beats × lanes) codes in row order; `models`: codes by name, (rows, cols);
    `runs`: codes of the plan's metas and constants in `plan.roles.runs` order.
    """
    assert plan.roles.score is not None
    start = {
        n: np.asarray(models[plan.buffers[n].name], np.int64).reshape(plan.buffers[n].rows, -1)
        for n in plan.roles.models
    }
    parts = [np.zeros(0, np.int64)]
    for first in range(0, len(tuples), _CHUNK):
        part = tuples[first : first + _CHUNK]
        machine = PlanMachine(plan, runs, start)
        machine.take(part)
        for op in plan.ops:
            machine.run(op, len(part))
        parts.append(np.broadcast_to(machine.values[plan.roles.score], (len(part), 1, 1))[:, 0, 0])
    return np.concatenate(parts)
