"""Whether the device and the host can step what somebody's folder says: its hardware alone does not tell."""

import math
from graphlib import TopologicalSorter
from typing import Any

import numpy as np

from penstock.dsl.pim.recurrent import Recurrent
from penstock.models.pim.layout import Layout
from penstock.models.pim.rounds import MODES

from .data import shapes_of
from .design import PimDesign

#: elements of a value of the host, for one head and token: a product of vectors of 4,096
_MOST = 1 << 24


def check(design: PimDesign) -> None:
    """Compute what the host computes of a token of zeros. Raises ValueError, and whatever that raises, for what cannot be stepped."""
    heads = design.heads // design.group
    rows: list[int] = []
    of: dict[str, Any] = {"items": design.batch * heads, "tokens": 1, "heads": heads}
    for recurrent in design.recurrents:
        TopologicalSorter({n: node.inputs for n, node in enumerate(recurrent.nodes)}).prepare()
        for part in recurrent.parts:
            _step(part)
        rows.append(sum(Layout(design.device, *part.form, **of).rows for part in recurrent.parts))
    used = sum(rows[layer] for layer in design.layers)
    if not 0 < used <= design.device.rows:
        raise ValueError(f"{used} rows of banks that have {design.device.rows}")


def _step(part: Recurrent) -> None:
    """Compute operands, results and the host's states of one token."""
    if part.mode not in MODES:
        raise ValueError(f"no recurrence {part.mode!r:.40}")
    (_, head, many), shapes = part.form, shapes_of(part)
    for name, shape in shapes.items():
        if min(shape, default=1) < 1 or (name != part.state and math.prod(shape) > _MOST):
            raise ValueError(f"{name!r:.40} has the shape {shape}")
    values = {name: np.zeros((1, *shape)) for name, shape in shapes.items() if name != part.state}
    wide = head if part.mode == "attend" else many
    values |= {name: np.zeros((1, wide)) for name in part.results}
    for one in part.passes:
        for node, size in ((one.d, head), (one.k, head), (one.q, head), (one.v, many)):
            if node is not None:
                np.broadcast_to(part.host(values, node, _MOST).reshape(1, -1), (1, size))
    for name, node in part.held:
        part.host(values, node, _MOST).reshape(shapes[name])
    part.host(values, part.output, _MOST)
