"""Penstock: analytics and training kernels become FPGA hardware that works where the data lives.

A kernel file needs the names of the kernel language only. `compile`, `load`, `open_table`, `Choices`, `Design`, `Run` and the exceptions
`KernelError` and `SourceError` come with planner, sources and models behind them, so they are imported when first asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from penstock.dsl.analytics.kernel import Kernel
from penstock.dsl.core.library import (
    abs,
    exp,
    gaussian,
    least_squares,
    log,
    max,
    merge,
    min,
    norm,
    outer,
    prod,
    rank,
    sigmoid,
    slot,
    sqrt,
    sum,
    tanh,
    uniform,
    until,
    where,
    window,
)
from penstock.dsl.core.python import Input, Key, Meta, Model, Output, kernel
from penstock.dsl.qr.front import fit

if TYPE_CHECKING:
    from penstock.api import Choices, Design, KernelError, Run, SourceError, compile, load
    from penstock.devices import open_device as open
    from penstock.host.sources import open_table

__all__ = [
    "Choices",
    "Design",
    "Input",
    "Kernel",
    "KernelError",
    "Key",
    "Meta",
    "Model",
    "Output",
    "Run",
    "SourceError",
    "abs",
    "compile",
    "exp",
    "fit",
    "gaussian",
    "kernel",
    "least_squares",
    "load",
    "log",
    "max",
    "merge",
    "min",
    "norm",
    "open",
    "open_table",
    "outer",
    "prod",
    "rank",
    "sigmoid",
    "slot",
    "sqrt",
    "sum",
    "tanh",
    "uniform",
    "until",
    "where",
    "window",
]

_LATER = ("Choices", "Design", "KernelError", "Run", "SourceError", "compile", "load", "open_table")
_DEVICE = {"open": "open_device"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version
        return version("penstock")
    if name in _LATER:
        from penstock import api
        return getattr(api, name)
    if name in _DEVICE:
        from penstock import devices
        return getattr(devices, _DEVICE[name])
    # what the front end's message about a misspelt name looks at
    raise AttributeError(f"module 'penstock' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_DEVICE})
