"""What trained models say of tuples: the part of a program that the label is compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..numerics.formats import Codes
from .config import AnalyticsPlan
from .golden import _Machine

__all__ = ["score_buffer", "scores"]


def score_buffer(plan: AnalyticsPlan, labels: Collection[str]) -> int:
    """Return the buffer of the score: the value of each tuple, computed from models and inputs, that
    an operation takes together with a label, or with what comes of the labels alone.

    Raises ValueError where there is no such value, or more than one.
    """
    names = [buffer.name for buffer in plan.buffers]
    of_label = {n for n in plan.inputs() if names[n] in labels}
    of_input = set(plan.inputs()) - of_label
    of_model = set(plan.models)
    found: set[int] = set()
    for op in plan.ops:
        if op.region != "group":
            continue
        read = [operand.buffer for operand in op.operands]
        pure = {b for b in read if b in of_label and b not in of_input | of_model}
        if pure:
            found |= {b for b in read if b in of_model & of_input and b not in of_label}
        for known in (of_label, of_input, of_model):
            if known & set(read):
                known.add(op.dest)
    if len(found) != 1:
        listed = ", ".join(sorted(names[n] for n in found)) or "none"
        raise ValueError(f"a kernel needs one value that is compared with its label: {listed}")
    return found.pop()


def scores(
    plan: AnalyticsPlan,
    tuples: Codes,
    models: Mapping[str, Codes],
    runs: Sequence[Codes],
    buffer: int,
) -> Codes:
    """Return the score of each tuple with the arithmetic of the hardware, as codes (n, rows, cols).

    Parameters: `tuples`: (n, beats × lanes) codes in row order; `models`: codes by name, (rows, cols);
    `runs`: codes of the plan's metas and constants in `plan.runs` order; `buffer`: of `score_buffer`.
    """
    places = {plan.buffers[n].name: n for n in plan.models}
    start = {
        places[name]: np.asarray(codes, np.int64).reshape(plan.buffers[places[name]].rows, -1)
        for name, codes in models.items()
    }
    machine = _Machine(plan, runs, start)
    for number in plan.inputs():
        field = plan.layout.field(plan.buffers[number].name)
        rows = np.arange(field.rows)[:, None] * field.stride
        machine.values[number] = tuples[:, field.position + rows + np.arange(field.cols)]
    for op in plan.ops:
        if op.region == "group" and op.merge is None:
            machine.run(op)
        if op.dest == buffer:
            break
    found: Codes = machine.values[buffer]
    return found
