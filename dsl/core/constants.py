"""Python values that become constants of a kernel, and how messages call those that cannot."""

from typing import Any

import numpy as np

from . import dims as D
from .diagnostics import KernelError, Span, error
from .graph import Uniform

_HINT = "numbers, and NumPy arrays or lists of numbers, can be mixed with a kernel's values"


#: for single kinds, which values are mixed up with
_HINTS = {
    type(None): "does a function that is called here return nothing? `until` gives no value",
    str: "only numbers can be computed with; columns of text cannot be used",
    Uniform: 'a random start is given outside: init={"w": uniform(-0.3, 0.3)} (as text: `init w = uniform(-0.3, 0.3)`)',
    complex: "only real numbers can be computed with",
    dict: "several new values are returned as a tuple, in the order of the models",
}


def constant_array(value: Any, span: Span, source: str | None = None) -> np.ndarray:
    """Return a number or an array of numbers up to rank 2 as float64. Raises KernelError for everything else."""

    def wrong(code: str, message: str, hint: str = _HINT) -> KernelError:
        return error(code, message, span, hint=hint, source=source)

    array = _array(value, wrong)
    if array.ndim > 2:
        raise wrong(
            "E303",
            f"a constant of rank {array.ndim}; values have at most two dimensions",
            "lay it out as a matrix",
        )
    for size in array.shape:
        if size > D.MAX_DIM:
            raise wrong(
                "E307",
                f"a dimension of {size}; the largest is {D.MAX_DIM}",
                "use a smaller constant: a part holds far less",
            )
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].flat[0]
        raise wrong(
            "E213",
            f"a constant is not a finite number: {bad}",
            "what is computed here has no such value; log and sqrt take positive numbers"
            if np.isnan(bad)
            else "the number formats of the hardware do not all have infinities; use a large number",
        )
    return array


def _array(value: Any, wrong: Any) -> np.ndarray:
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        try:
            return np.asarray(float(value))
        except OverflowError:
            raise wrong(
                "E213",
                "a constant is too large for a floating-point number",
                "use a number below 1e308",
            ) from None
    if not isinstance(value, (np.ndarray, list, tuple)):
        raise wrong(
            "E211", f"{kind_of(value)} is not a value of a kernel", _HINTS.get(type(value), _HINT)
        )
    if not isinstance(value, np.ndarray) and _holds_values(value):
        raise wrong(
            "E211",
            "a list of the kernel's values is not a value of a kernel",
            "values cannot be packed into vectors; compute on whole vectors instead",
        )
    depth = _depth(value)
    if depth > 2:
        raise wrong(
            "E303",
            f"a constant of rank {depth}; values have at most two dimensions",
            "lay it out as a matrix",
        )
    try:
        array = np.asarray(value)
    except ValueError:
        raise wrong(
            "E211",
            "a list whose rows have different lengths is not a value of a kernel",
            "give all rows the same length",
        ) from None
    if array.dtype.kind not in "buif":
        what = {"U": "texts", "S": "texts", "O": "Python objects", "c": "complex numbers"}.get(
            array.dtype.kind, array.dtype
        )
        raise wrong("E211", f"an array of {what} is not a value of a kernel")
    if array.size == 0:
        raise wrong(
            "E306",
            "an array without elements is not a value of a kernel",
            "write at least one number into it",
        )
    return array.astype(np.float64)


def _holds_values(items: Any) -> bool:
    """Whether a list or tuple, or a list in it at any depth, holds a value of the kernel."""
    todo, seen = list(items), {id(items)}
    while todo:
        item = todo.pop()
        if isinstance(item, (list, tuple)):
            if id(item) not in seen:
                seen.add(id(item))
                todo += item
        elif getattr(item, "is_kernel_value", False):
            return True
    return False


def _depth(value: Any) -> int:
    """The rank of lists in lists, however deep (NumPy has a limit); 0 for an array."""
    depth = 0
    while isinstance(value, (list, tuple)) and depth < 100:  # a list may hold itself
        depth += 1
        value = value[0] if value else None
    return depth


def kind_of(value: Any) -> str:
    """Return how a message calls a Python value that does not belong where it stands."""
    if value is None:
        return "None"
    if getattr(value, "is_kernel_value", False):
        return str(getattr(type(value), "spoken", "a value of the kernel"))
    if isinstance(value, Uniform):
        return "uniform(...)"
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= 40 else "a text"
    if isinstance(value, (bool, int, float, complex)):
        return f"{value!r}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def make_uniform(low: Any, high: Any, seed: Any, span: Span, source: str | None = None) -> Uniform:
    """Return `uniform(low, high, seed)`. Raises KernelError (E442)."""
    for value in (low, high):
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float, np.integer, np.floating))
            or not np.isfinite(value)
        ):
            what = f"the limits of uniform must be finite numbers, not {kind_of(value)}"
            raise error("E442", what, span, hint="as in uniform(-0.3, 0.3, seed=1)", source=source)
    if not low < high:
        hint = (
            f"swap them: uniform({high}, {low})"
            if low > high
            else f"for one value everywhere write the number itself, {low}"
        )
        raise error(
            "E442",
            f"uniform needs low < high, not {low} and {high}",
            span,
            hint=hint,
            source=source,
        )
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        what = f"the seed of uniform must be a whole number from 0, not {kind_of(seed)}"
        raise error("E442", what, span, hint=f"as in uniform({low}, {high}, seed=1)", source=source)
    return Uniform(float(low), float(high), int(seed))
