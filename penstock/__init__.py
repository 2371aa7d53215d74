"""Penstock: analytics and training kernels become FPGA hardware that works where the data lives."""

from __future__ import annotations

from penstock.dsl.kernel import Kernel
from penstock.dsl.library import (
    abs,
    exp,
    gaussian,
    log,
    max,
    merge,
    min,
    norm,
    outer,
    prod,
    sigmoid,
    sqrt,
    sum,
    tanh,
    uniform,
    until,
    where,
)
from penstock.dsl.python import Input, Meta, Model, Output, kernel

__all__ = [
    "Input",
    "Kernel",
    "Meta",
    "Model",
    "Output",
    "abs",
    "exp",
    "gaussian",
    "kernel",
    "log",
    "max",
    "merge",
    "min",
    "norm",
    "outer",
    "prod",
    "sigmoid",
    "sqrt",
    "sum",
    "tanh",
    "uniform",
    "until",
    "where",
]
