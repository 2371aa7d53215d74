"""The dialect of kernels that learn tuple by tuple: `kernel name(...)` and `@ps.kernel`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..dialect import Dialect, Words
from .front import PythonKernel, TextKernel
from .functions import FUNCTIONS
from .hints import INSTEAD
from .kernel import Kernel


def _options(
    *, epochs: int = 1, init: Mapping[str, Any] | None = None, batch: int | None = None
) -> None:
    """Make a kernel of a function: `@kernel` or `@kernel(epochs=10, init={"w": 0.1})`.

    * `epochs`: passes over the table, 1 unless given.
    * `init`: the models' starts by name: a number, an array or `uniform(low, high, seed=1)`; 0 unless given.
    * `batch`: tuples for which all models stand still, those of its merges; 1 unless given.

    Raises KernelError: the signature is not one of a kernel. What the body does wrong is found when it is traced.
    """


DIALECT = Dialect(
    keyword="kernel",
    kinds=("input", "output", "model", "meta", "index"),
    functions=FUNCTIONS,
    kernel=Kernel,
    python=PythonKernel,
    text=TextKernel,
    options=_options,
    words=Words(
        one="a kernel",
        usage='@ps.kernel(epochs=10, init={"w": 0.1})',
        header="x: input[d], y: output, w: model[d]",
        example=('ps.Input["d"]', "input[d]"),
        returns="the models' new values",
        does="learns tuple by tuple",
        instead=INSTEAD,
    ),
    statements=("epochs", "init", "batch", "until"),
    pages=Path(__file__).with_name("pages"),
    groups={
        "E42": "Merges",
        "E43": "Termination",
        "E44": "Epochs and starts",
        "E48": "Scores",
        "E49": "Indices and rows",
    },
)
