"""Both front ends of fit kernels: what the decorator `fit` and texts that begin with it make."""

from dataclasses import dataclass
from typing import Any

from lark import Token

from ..core import text
from ..core.builder import Operand
from ..core.diagnostics import Span
from ..core.python import Traced
from .functions import FitBuilder
from .kernel import FitKernel


@dataclass
class PythonFit(Traced, FitKernel):
    """A fit kernel whose body is a Python function."""

    def body(self, builder: FitBuilder) -> list[tuple[Operand, Span]]:
        return self.returned(builder)


@dataclass
class TextFit(text.Written, FitKernel):
    """A fit kernel whose body is text."""

    def body(self, builder: FitBuilder) -> list[tuple[Operand, Span]]:
        statements = _Body(self, builder)
        statements.run()
        return statements.results


class _Body(text.Body):
    """Runs the statements of a fit kernel on a builder."""

    def __init__(self, kernel: TextFit, builder: FitBuilder) -> None:
        super().__init__(kernel, builder)
        self.results: list[tuple[Operand, Span]] = []

    def update(self, token: Token, value: Any, span: Span) -> None:
        name = str(token)
        if name in self.defined:
            hint = "the fit's name stands here alone, as in `model <- least_squares(...)`"
            place = text.span_of(self.kernel.file, token)
            note = (self.defined[name], "first defined here")
            raise self.builder.error("E204", f"{name} is defined twice", place, note, hint=hint)
        self.results.append((value, span))
