"""Operators of one generated token: what a layer asks of a GPU or of units beside the banks.

Sizes are elements; each operator says how often a token needs it (`repeats`: layers). Categories are those
of the paper's latency breakdown.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray


class Category(StrEnum):
    """Where latency and energy are booked."""

    STATE_UPDATE = "state update"
    ATTENTION = "attention"
    DISCRETIZATION = "discretization"
    CONVOLUTION = "causal conv1d"
    GEMM = "GEMM"
    COMMUNICATION = "communication"
    OTHERS = "others"


@dataclass(frozen=True)
class Gemm:
    """`rows` × `depth` times `depth` × `columns`, 16-bit elements."""

    rows: int
    columns: int
    depth: int
    repeats: int
    category: Category = Category.GEMM


@dataclass(frozen=True)
class StateUpdate:
    """S = d⊙S + k vᵀ, y = Sᵀq of `heads` states, each `dim_head` × `dim_state`."""

    heads: int
    dim_head: int
    dim_state: int
    repeats: int
    category: Category = Category.STATE_UPDATE


@dataclass(frozen=True)
class Attention:
    """Scores against `contexts` keys or the sum over as many values, of `heads` vectors of `dim_head`;
    `contexts`: for each token, the tokens that came before it."""

    kind: Literal["score", "attend"]
    heads: int
    dim_head: int
    contexts: NDArray[np.int64]
    repeats: int
    category: Category = Category.ATTENTION


@dataclass(frozen=True)
class Softmax:
    """Softmax of `heads` vectors, as long as `contexts` says for each token."""

    heads: int
    contexts: NDArray[np.int64]
    repeats: int
    category: Category = Category.OTHERS


@dataclass(frozen=True)
class Pointwise:
    """An activation or a normalisation of so many elements."""

    kind: Literal["activation", "norm"]
    elements: int
    repeats: int
    category: Category = Category.OTHERS


@dataclass(frozen=True)
class AllReduce:
    """A sum over all devices of so many 16-bit elements."""

    elements: int
    repeats: int
    category: Category = Category.COMMUNICATION


Operator = Gemm | StateUpdate | Attention | Softmax | Pointwise | AllReduce
