"""Both front ends of fit kernels: the decorator `fit`, and texts that begin with `fit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from lark import Token

from ..core import text
from ..core.builder import Operand
from ..core.diagnostics import Span, error
from ..core.places import caller_span, node_span
from ..core.python import Traced, declared, defaults, written_options
from ..core.tensor import Tensor
from .kernel import KINDS, OPTIONS, FitBuilder, FitKernel

__all__ = ["PythonFit", "TextFit", "fit", "text_fit"]

_USAGE = 'usage: @ps.fit(method="gram", incremental=True)'


@dataclass
class PythonFit(Traced, FitKernel):
    """A fit kernel whose body is a Python function."""

    def body(self, builder: FitBuilder) -> list[tuple[Operand, Span]]:
        result = self.run(builder)
        if result is None:
            return []
        values = list(result) if isinstance(result, (tuple, list)) and result else [result]
        spans = self.return_spans(len(values)) or [self.name_span] * len(values)
        for value, span in zip(values, spans, strict=True):
            if isinstance(value, Tensor) and value._builder is not builder:
                raise self.error("E214", "this value belongs to another kernel, or to an earlier trace of this one", span,
                                 hint="values live only inside the kernel's function: do not keep them in globals")
        return [(value._ref if isinstance(value, Tensor) else value, span) for value, span in zip(values, spans, strict=True)]


@overload
def fit(function: Callable[..., Any], /) -> PythonFit: ...


@overload
def fit(*, method: str = "gram", incremental: bool = True, bounds: str | None = None) -> Callable[[Callable[..., Any]], PythonFit]: ...


def fit(function: Any = None, /, **options: Any) -> Any:
    """Make a fit kernel of a function: `@fit` or `@fit(method="gram", incremental=True)`.

    Parameters
    ----------
    method: "gram" (exact integer sums) or "givens" (a triangular factor in float32).
    incremental: whether refits read the changed rows alone, not all of them.
    bounds: of the errors: "widened" from refit to refit, or by a "rescan" of all rows.

    Raises
    ------
    KernelError: the signature is not one of a fit kernel, or an option is wrong.
    """
    for name in options:
        if name in ("epochs", "init"):
            raise error("E453", f"a fit kernel has no {name}", caller_span(), hint="it is solved at once, from where it stands: leave it out")
        if name not in OPTIONS:
            raise error("E203", f"fit has no argument {name}", caller_span(), hint=_USAGE)
    if function is not None:
        return _make(function, options)
    return lambda decorated: _make(decorated, options)


def _make(function: Any, options: dict[str, Any]) -> PythonFit:
    made, node = declared(PythonFit, function, KINDS)
    made.check_header()
    for p, _ in defaults(made):
        raise made.no_default(p)
    places = written_options(node)
    for name, value in options.items():
        if value is not None:
            made.set_option(name, value, node_span(made.file, places[name]) if name in places else made.name_span)
    return made


@dataclass
class TextFit(text.Written, FitKernel):
    """A fit kernel whose body is text."""

    def body(self, builder: FitBuilder) -> list[tuple[Operand, Span]]:
        found = _Body(self, builder)
        found.run()
        return found.results


class _Body(text.Body):
    """Runs the statements of a fit kernel on a builder."""

    def __init__(self, kernel: TextFit, builder: FitBuilder) -> None:
        super().__init__(kernel, builder)
        self.results: list[tuple[Operand, Span]] = []

    def update(self, token: Token, value: Any, span: Span) -> None:
        if str(token) in self.defined:
            place = text._span(self.kernel.file, token)
            raise self.builder.error("E204", f"{token} is defined twice", place, (self.defined[str(token)], "first defined here"),
                                     hint="the fit's name stands here alone, as in `model <- least_squares(...)`")
        self.results.append((value, span))


def text_fit(tree: Any, source: str, file: str) -> TextFit:
    """Return the fit kernel of a parsed text. Raises KernelError."""
    made, given, options = text.declared(TextFit, tree, source, file, KINDS)
    made.check_header()
    for p, _ in given:
        raise made.no_default(p)
    for option in [*options, *(statement for statement in made.statements if statement.data == "until")]:
        span = text._span(file, option)
        raise made.error("E453", f"a fit kernel has no {option.data}", span, hint="it is solved at once, from where it stands: leave it out")
    return made
