"""Names of `penstock`, for editors and type checkers: written by `penstock.stub`."""

from collections.abc import Callable, Mapping
from typing import Any, overload

from penstock.api import KernelError, Run, SourceError
from penstock.design import Design, compile, load
from penstock.dsl.analytics.front import PythonKernel
from penstock.dsl.analytics.kernel import Kernel
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.graph import Uniform
from penstock.dsl.core.python import Annotation
from penstock.dsl.core.tensor import Tensor
from penstock.dsl.omap.kernel import MapKernel, ObliviousMap, bytes, text, u64
from penstock.dsl.pim.front import PythonRecurrence
from penstock.dsl.pim.kernel import Recurrence
from penstock.dsl.qr.front import PythonFit
from penstock.dsl.qr.kernel import FitKernel
from penstock.engines.pim.models.language import LanguageModel
from penstock.estimator import Estimator
from penstock.host.learned_index import LearnedIndex
from penstock.host.sources import open_table
from penstock.models.errors import Error
from penstock.models.target import Target
from penstock.runs.devices import open_device as open
from penstock.sweeps.explore import explore
from penstock.targets import target_named as target

__all__ = [
    "Cache",
    "Choices",
    "Design",
    "Error",
    "Estimator",
    "FitKernel",
    "Index",
    "Input",
    "Kernel",
    "KernelError",
    "Key",
    "LanguageModel",
    "LearnedIndex",
    "MapKernel",
    "Meta",
    "Model",
    "ObliviousMap",
    "Output",
    "Recurrence",
    "Run",
    "SourceError",
    "State",
    "Target",
    "__version__",
    "abs",
    "append",
    "argmax",
    "argmin",
    "bytes",
    "compile",
    "count",
    "exp",
    "explore",
    "fit",
    "gaussian",
    "hash",
    "kernel",
    "least_squares",
    "load",
    "log",
    "max",
    "mean",
    "merge",
    "min",
    "norm",
    "number",
    "open",
    "open_table",
    "outer",
    "prod",
    "rank",
    "recurrence",
    "score",
    "sigmoid",
    "slot",
    "softmax",
    "sqrt",
    "sum",
    "tanh",
    "target",
    "text",
    "u64",
    "uniform",
    "until",
    "where",
    "window",
]

__version__: str
Cache: Annotation
Index: Annotation
Input: Annotation
Key: Annotation
Meta: Annotation
Model: Annotation
Output: Annotation
State: Annotation

def abs(v: Any) -> Tensor:
    """The magnitude, elementwise."""

def append(cache: Any, row: Any) -> Tensor:
    """A cache with one row more, behind its rows: each token appends a row, and reads it."""

def argmax(v: Any, *, axis: int | None = None) -> Tensor:
    """The place of the largest element, counted from 0, or along one axis; of the first where several are equal, and of the first NaN."""

def argmin(v: Any, *, axis: int | None = None) -> Tensor:
    """The place of the smallest element, counted from 0, or along one axis; of the first where several are equal, and of the first NaN."""

def count(c: Any) -> Tensor:
    """How many places of a bag of indices a tuple fills: the length of its array."""

def exp(v: Any) -> Tensor:
    """The exponential, elementwise."""

@overload
def fit(function: Callable[..., Any], /) -> PythonFit: ...
@overload
def fit(
    *,
    method: str = "gram",
    incremental: bool | None = None,
    intercept: bool | None = None,
    ridge: float | None = None,
    ridge_per: str | None = None,
) -> Callable[[Callable[..., Any]], PythonFit]:
    """Make a fit kernel of a function: `@fit` or `@fit(method="gram", incremental=True)`.

    * `method`: "gram" (exact integer sums) or "givens" (a triangular factor in float32).
    * `incremental`: whether refits read the changed rows alone, not all of them; over keys it follows from the target.
    * `intercept`: over columns, False fits no bias.
    * `ridge`: over columns, what the square of a weight costs, the bias nothing.
    * `ridge_per`: "weight", or "sd": of weights times their column's standard deviation.

    Raises KernelError: the signature is not one of a fit kernel, or an option is wrong.
    """

def gaussian(v: Any) -> Tensor:
    """exp(-v * v), elementwise."""

def hash(i: Any, seed: int = 0) -> Tensor:
    """An index made of another: MurmurHash3 (x86, 32 bits, as scikit-learn's `murmurhash3_32`) of the bytes of its column's type, from -2³¹ to 2³¹ - 1."""

@overload
def kernel(function: Callable[..., Any], /) -> PythonKernel: ...
@overload
def kernel(
    *, epochs: int = 1, init: Mapping[str, Any] | None = None, batch: int | None = None
) -> Callable[[Callable[..., Any]], PythonKernel]:
    """Make a kernel of a function: `@kernel` or `@kernel(epochs=10, init={"w": 0.1})`.

    * `epochs`: passes over the table, 1 unless given.
    * `init`: the models' starts by name: a number, an array or `uniform(low, high, seed=1)`; 0 unless given.
    * `batch`: tuples for which all models stand still, those of its merges; 1 unless given.

    Raises KernelError: the signature is not one of a kernel. What the body does wrong is found when it is traced.
    """

def least_squares(
    features: Any,
    target: Any,
    *,
    method: str | None = None,
    incremental: bool | None = None,
    intercept: bool | None = None,
    ridge: float | None = None,
    ridge_per: str | None = None,
) -> Tensor:
    """The linear model of the features that comes nearest to the target: what a fit kernel returns.

    `method`: "gram" (exact integer sums; unless given) or "givens" (a triangular factor). `incremental`: refits read the
    changed rows alone (unless given); False: each reads all rows. Over keys it follows from the target: True with slots,
    False with ranks.

    Over columns: `intercept`: False fits no bias. `ridge`: what the square of a weight costs, the bias nothing; `ridge_per`: "weight",
    or "sd": of weights times their column's standard deviation.
    """

def log(v: Any) -> Tensor:
    """The natural logarithm, elementwise."""

def max(v: Any, *, axis: int | None = None) -> Tensor:
    """The largest element, or the largest along one axis."""

def mean(v: Any, n: int | None = None) -> Tensor:
    """The mean of `v` over `n` tuples, over the whole epoch without `n`; over as many as there are where the last batch has fewer."""

def merge(v: Any, n: int | None = None, op: str = "+") -> Tensor:
    """Combine `v` over `n` tuples in row order, over the whole epoch without `n`; `op` is "+", "*", "max" or "min". `merge(1, n)` counts them."""

def min(v: Any, *, axis: int | None = None) -> Tensor:
    """The smallest element, or the smallest along one axis."""

def norm(v: Any, *, axis: int | None = None) -> Tensor:
    """The square root of the sum of squares of all elements, or along one axis."""

def number(i: Any) -> Tensor:
    """The value, in the kernel's number format, that an index is."""

def outer(a: Any, b: Any) -> Tensor:
    """The matrix of all products of two vectors' elements."""

def prod(v: Any, *, axis: int | None = None) -> Tensor:
    """The product of all elements, or along one axis."""

def rank(key: Any) -> Tensor:
    """How many keys of the group lie before this one."""

@overload
def recurrence(function: Callable[..., Any], /) -> PythonRecurrence: ...
@overload
def recurrence() -> Callable[[Callable[..., Any]], PythonRecurrence]:
    """Make a recurrence of a function: `@recurrence`.

    The function is one step of one head: it takes the state and the step's inputs, and returns the new
    state and the output. A function that returns an output alone reads a cache, which may grow by a row: `K = append(K, key)`.

    Raises KernelError: the signature is not one of a recurrence.
    """

def score(value: Any, name: str = "score") -> Tensor:
    """Make a value the score of each row, under this name: what a trained model says of rows without a label. Return the value."""

def sigmoid(v: Any) -> Tensor:
    """1 / (1 + exp(-v)), elementwise."""

def slot(key: Any) -> Tensor:
    """The key's place in the group's array, in which gaps are left."""

def softmax(v: Any) -> Tensor:
    """The weights exp(v) / sum(exp(v)) of a cache's scores, made beside the banks."""

def sqrt(v: Any) -> Tensor:
    """The square root, elementwise."""

def sum(v: Any, *, axis: int | None = None) -> Tensor:
    """The sum of all elements, or along one axis."""

def tanh(v: Any) -> Tensor:
    """The hyperbolic tangent, elementwise."""

def uniform(low: float, high: float, seed: int = 1) -> Uniform:
    """A model's random start between `low` and `high`; the same numbers for the same seed and shape."""

def until(condition: Any) -> None:
    """Stop the training when the condition holds after an epoch's last batch."""

def where(condition: Any, a: Any, b: Any) -> Tensor:
    """`a` where the condition is not zero, else `b`, elementwise; both are computed."""

def window(key: Any, bytes: int) -> Tensor:
    """The bytes of a key that tell a group's keys apart, at most so many; the index chooses where they begin, group by group."""
