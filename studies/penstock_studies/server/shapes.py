"""The twelve model shapes of Pimba's evaluation, and the operators of one generated token.

Source: Pimba (MICRO 2025), section 6 and its public performance model. The shapes of 70 billion parameters
are projections of the paper's: layers and width grown, the number of heads kept. "dim_head" is the axis of
d, k and q; "dim_state" that of v. For Mamba-2 these are d_state and headdim.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .operators import (
    AllReduce,
    Attention,
    Category,
    Gemm,
    Operator,
    Pointwise,
    Softmax,
    StateUpdate,
)


@dataclass(frozen=True)
class AttentionShape:
    """Attention layers: how many, their heads and the length of a head."""

    layers: int
    heads: int
    dim_head: int


@dataclass(frozen=True)
class ModelShape:
    """A model: `layers` of state updates with `heads` states of `dim_head` × `dim_state`, `hidden` wide,
    and layers of attention. `devices`: over how many the paper splits it."""

    name: str
    family: str
    hidden: int
    layers: int = 0
    heads: int = 0
    dim_head: int = 0
    dim_state: int = 0
    attention: AttentionShape | None = None
    devices: int = 1

    @property
    def state_elements(self) -> int:
        """Elements of state that a request keeps."""
        return self.layers * self.heads * self.dim_head * self.dim_state


def _shapes() -> dict[str, ModelShape]:
    shapes = (
        ModelShape("retnet-2.7b", "RetNet", 2560, 32, 10, 256, 512),
        ModelShape("gla-2.7b", "GLA", 2560, 32, 5, 256, 512),
        ModelShape("hgrn2-2.7b", "HGRN2", 2560, 32, 20, 128, 128),
        ModelShape("mamba2-2.7b", "Mamba-2", 2560, 64, 80, 128, 64),
        ModelShape("zamba2-7b", "Zamba2", 3584, 81, 112, 64, 64, AttentionShape(13, 32, 224)),
        ModelShape("opt-7b", "OPT", 4096, attention=AttentionShape(32, 32, 128)),
        ModelShape("retnet-70b", "RetNet", 7680, 96, 10, 768, 1536, devices=8),
        ModelShape("gla-70b", "GLA", 7680, 96, 5, 768, 1536, devices=8),
        ModelShape("hgrn2-70b", "HGRN2", 7680, 96, 20, 384, 384, devices=8),
        ModelShape("mamba2-70b", "Mamba-2", 7680, 192, 80, 384, 192, devices=8),
        ModelShape(
            "zamba2-70b", "Zamba2", 7168, 174, 112, 128, 128, AttentionShape(28, 64, 224), 8
        ),
        ModelShape("opt-70b", "OPT", 8192, attention=AttentionShape(80, 64, 128), devices=8),
    )
    return {shape.name: shape for shape in shapes}


MODELS = _shapes()


def generation(
    shape: ModelShape, batch: int, devices: int, contexts: NDArray[np.int64]
) -> list[Operator]:
    """Return what one device computes for a generated token of each of `batch` requests.

    `devices`: over how many the model is split (tensor parallel); `contexts`: for each token, how many came
    before it. Heads of state updates are rounded up to whole ones for each device, as in the paper.
    """
    if shape.family in ("Mamba-2", "Zamba2"):
        operators = _mamba(shape, batch, devices)
    elif shape.layers:
        operators = _recurrent(shape, batch, devices)
    else:
        operators = []
    if shape.attention is not None:
        operators += _attention(shape, shape.attention, batch, devices, contexts)
    return operators


def _update(shape: ModelShape, batch: int, devices: int) -> StateUpdate:
    heads = math.ceil(shape.heads / devices) * batch
    return StateUpdate(heads, shape.dim_head, shape.dim_state, shape.layers)


def _recurrent(shape: ModelShape, batch: int, devices: int) -> list[Operator]:
    """Return the layers of RetNet, GLA and HGRN2: a state update between projections, then a feed-forward part."""
    hidden, share, layers = shape.hidden, shape.hidden // devices, shape.layers
    if shape.family == "RetNet":
        projections = [(4 * share, hidden), (2 * hidden, share), (hidden, 2 * hidden // devices)]
        forward, active = 4.2, 1.4
    elif shape.family == "GLA":
        projections = [(2 * share, hidden), (16, hidden), (share // 2, 16), (2 * hidden, share)]
        forward, active = 8.0, 2.6
    else:
        projections = [(3 * share, hidden), (hidden, share)]
        forward, active = 8.0, 2.6
    projections.append((int(forward * share), hidden))
    return [
        _update(shape, batch, devices),
        *(Gemm(batch, columns, depth, layers) for columns, depth in projections),
        Pointwise("norm", batch * hidden, 2 * layers),
        Pointwise("activation", batch * int(active * share), layers),
        AllReduce(batch * hidden, 2 * layers),
    ]


def _mamba(shape: ModelShape, batch: int, devices: int) -> list[Operator]:
    """Return the layers of Mamba-2. Convolution and discretisation work on whole heads on each device."""
    hidden, share, layers = shape.hidden, shape.hidden // devices, shape.layers
    return [
        _update(shape, batch, devices),
        Gemm(batch, int(4.1 * share), hidden, layers),
        Gemm(batch, hidden, 2 * hidden // devices, layers),
        Pointwise("activation", batch * int(8.4 * hidden), layers, Category.CONVOLUTION),
        Pointwise("activation", batch * shape.heads, layers, Category.DISCRETIZATION),
        Pointwise("norm", batch * 2 * hidden, layers),
        Pointwise("activation", batch * 2 * share, layers),
        AllReduce(batch * hidden, layers),
    ]


def _attention(
    shape: ModelShape,
    attention: AttentionShape,
    batch: int,
    devices: int,
    contexts: NDArray[np.int64],
) -> list[Operator]:
    """Return the layers of attention; those of Zamba2 take two vectors side by side, of twice the width."""
    hidden, share, layers = shape.hidden, shape.hidden // devices, attention.layers
    heads = attention.heads // devices * batch
    if shape.layers:
        projections = [
            (6 * share, 2 * hidden),
            (hidden, 2 * hidden // devices),
            (8 * share, hidden),
        ]
        norms = (2 * hidden, hidden)
    else:
        projections = [(3 * share, hidden), (hidden, share), (4 * share, hidden)]
        norms = (hidden, hidden)
    projections.append((hidden, 4 * share))
    return [
        Attention("score", heads, attention.dim_head, contexts, layers),
        Softmax(heads, contexts, layers),
        Attention("attend", heads, attention.dim_head, contexts, layers),
        *(Gemm(batch, columns, depth, layers) for columns, depth in projections),
        *(Pointwise("norm", batch * width, layers) for width in norms),
        Pointwise("activation", batch * 4 * share, layers),
        AllReduce(batch * hidden, 2 * layers),
    ]
