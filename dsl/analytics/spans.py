"""Between which numbers the integers lie that kernels make of indices."""

from collections.abc import Sequence
from itertools import product
from operator import add, mul, sub
from typing import Any

import numpy as np

from ...models.rows.units import Range
from .integers import INTEGERS

#: what 64 bits hold, the least one left out: it stands for a place that is not there
EXACT = (-(1 << 63) + 1, (1 << 63) - 1)
_HASH = (-(1 << 31), (1 << 31) - 1)
_ENDS = {"integer +": add, "integer -": sub, "integer *": mul}


def span(nodes: Sequence[Any], index: int) -> Range:
    """Return the least and the greatest value that node `index` may have, of a graph or what becomes one; beyond 64 bits and where nothing says it `EXACT`."""
    known: dict[int, Range] = {}
    todo = [index]
    while todo:
        node = nodes[todo[-1]]
        inputs = node.inputs if node.op in INTEGERS else ()
        missing = [i for i in inputs if i not in known]
        if missing:
            todo += missing
            continue
        number = todo.pop()
        bounds = _span(nodes, nodes[number], [known[i] for i in inputs])
        inside = EXACT[0] <= bounds[0] and bounds[1] <= EXACT[1]
        known[number] = bounds if inside else EXACT
    return known[index]


def _span(nodes: Sequence[Any], node: Any, of: list[Range]) -> Range:
    if node.op == "index":
        return 0, max(0, node.attrs.get("counts", 1 << 62) - 1)
    if node.op == "const":
        values = np.asarray(node.attrs["value"])
        return int(values.min()), int(values.max())
    if node.op == "hash":
        return _HASH
    if node.op == "integer":
        operand = nodes[node.inputs[0]]
        if operand.op == "const":
            return of[0]
        if operand.op == "count":
            return 0, nodes[operand.inputs[0]].shape[-1]
        places = operand.attrs.get("places")
        return EXACT if places is None else (0, places - 1)
    if node.op == "negative":
        [(low, high)] = of
        return -high, -low
    if node.op in _ENDS:
        ends = [_ENDS[node.op](a, b) for a, b in product(*of)]
        return min(ends), max(ends)
    if node.op in ("integer //", "integer %") and of[1][0] > 0:
        (low, high), (least, most) = of
        ends = [a // b for a, b in product((low, high), (least, most))]
        return (0, most - 1) if node.op == "integer %" else (min(ends), max(ends))
    return EXACT
