"""The dialect of least-squares models that are fitted again: `fit name(...)` and `@ps.fit`."""

from __future__ import annotations

from pathlib import Path

from ..dialect import Dialect, Words
from .front import PythonFit, TextFit
from .functions import FUNCTIONS, GONE, KINDS, USAGE
from .kernel import FitKernel


def _options(
    *,
    method: str = "gram",
    incremental: bool | None = None,
    intercept: bool | None = None,
    ridge: float | None = None,
    ridge_per: str | None = None,
) -> None:
    """Make a fit kernel of a function: `@fit` or `@fit(method="gram", incremental=True)`.

    * `method`: "gram" (exact integer sums) or "givens" (a triangular factor in float32).
    * `incremental`: whether refits read the changed rows alone, not all of them; over keys it follows from the target.
    * `intercept`: over columns, False fits no bias.
    * `ridge`: over columns, what the square of a weight costs, the bias nothing.
    * `ridge_per`: "weight", or "sd": of weights times their column's standard deviation.

    Raises KernelError: the signature is not one of a fit kernel, or an option is wrong.
    """


DIALECT = Dialect(
    keyword="fit",
    kinds=KINDS,
    functions=FUNCTIONS,
    kernel=FitKernel,
    python=PythonFit,
    text=TextFit,
    options=_options,
    words=Words(
        one="a fit kernel",
        usage='@ps.fit(method="gram", incremental=True)',
        header="key: key",
        example=("ps.Key", "key"),
        returns="least_squares(...)",
        call="step",
        purpose="a learned index is fitted by a fit kernel",
        no_function=f"a fit kernel is one line: {USAGE}",
        no_kind="a fit kernel's parameters are a key, or inputs and an output: leave {name} out; the weights are what it returns",
        no_statement="it is solved at once, from where it stands: leave it out",
        no_condition="a fit kernel says what is fitted, the same for every key: leave the condition out",
        gone=GONE,
    ),
    pages=Path(__file__).with_name("pages"),
    groups={"E45": "Fit kernels"},
)
