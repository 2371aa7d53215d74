"""What `penstock` offers to kernels in Python: the dialects' decorators, kinds of parameters, functions and kernel classes."""

from typing import Any

from ..dialect import Function, dialects
from .python import Annotation, decorator
from .tensor import call


def offered() -> dict[str, Any]:
    """Return what stands behind `ps.`, by name. Where two dialects offer a name, a function is the kernel's own.

    Nothing is kept: a dialect of another package may ask for names while it is being imported itself.
    """
    names: dict[str, Any] = {}
    for dialect in dialects().values():
        written: dict[str, Any] = {}
        if dialect.python is not None:
            written = {dialect.keyword: decorator(dialect)}
            written |= {kind.capitalize(): Annotation(kind) for kind in dialect.kinds}
        offers = {
            **written,
            dialect.kernel.__name__: dialect.kernel,
            **{name: _function(called) for name, called in dialect.functions.items()},
        }
        names = offers | names
    return names


def _function(called: Function) -> Any:
    """The function that a kernel's Python code calls."""

    def wrapper(*args: Any, **keywords: Any) -> Any:
        return call(called.name, args, keywords)

    wrapper.__name__ = wrapper.__qualname__ = called.name
    wrapper.__doc__ = called.doc
    wrapper.__module__ = "penstock"
    wrapper.__signature__ = called.declared  # type: ignore[attr-defined]
    return wrapper
