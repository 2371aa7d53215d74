"""Both front ends of recurrences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lark import Token

from ..core import text
from ..core.builder import GraphBuilder, Ref
from ..core.diagnostics import Span
from ..core.dims import show
from ..core.python import Traced
from .kernel import Recurrence, Returned

__all__ = ["PythonRecurrence", "TextRecurrence"]


@dataclass
class PythonRecurrence(Traced, Recurrence):
    """A recurrence whose body is a Python function."""

    def body(self, builder: GraphBuilder) -> Returned:
        result = self.run(builder)
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        if result is None:
            return Returned(None, None, self.name_span, self.name_span)
        spans = self.return_spans(len(values)) or [self.name_span] * len(values)
        if len(values) > 2:
            raise self.error(
                "E461",
                f"the recurrence {self.name} returns {len(values)} values",
                spans[2],
                hint="return the new state and the output, or the output alone",
            )
        plain = [self.plain(builder, v, s) for v, s in zip(values, spans, strict=True)]
        state = plain[0] if len(plain) == 2 else None
        own = builder.shape(builder.variables[next(p.name for p in self.of_kind("state"))])
        if len(plain) == 1 and isinstance(plain[0], Ref) and builder.shape(plain[0]) == own:
            raise self.error(
                "E461",
                f"the recurrence {self.name} has no output",
                spans[0],
                hint=f"what it returns is {show(own)} like the state: return S, q @ S",
            )
        return Returned(state, plain[-1], spans[0], spans[-1])


@dataclass
class TextRecurrence(text.Written, Recurrence):
    """A recurrence whose body is text."""

    def body(self, builder: GraphBuilder) -> Returned:
        statements = _Body(self, builder)
        statements.run()
        return statements.returned


class _Body(text.Body):
    """Runs the statements of a recurrence: `S <- ...` is the new state, which S means from then on; `y <- ...`
    the output."""

    def __init__(self, kernel: TextRecurrence, builder: GraphBuilder) -> None:
        super().__init__(kernel, builder)
        self.returned = Returned(None, None, kernel.name_span, kernel.name_span)

    def update(self, token: Token, value: Any, span: Span) -> None:
        name, place = str(token), text.span_of(self.kernel.file, token)
        is_state = any(p.name == name for p in self.kernel.of_kind("state"))
        given = self.returned.state if is_state else self.returned.output
        if given is not None:
            what = "the new state" if is_state else "an output"
            raise self.builder.error(
                "E204", f"{what} is given twice", place, hint="leave one of the lines out"
            )
        if is_state:
            self.returned.state, self.returned.state_span = value, span
            self.values[name] = value
        else:
            if name in self.defined:
                raise self.builder.error(
                    "E204",
                    f"{name} is defined twice",
                    place,
                    (self.defined[name], "first defined here"),
                    hint="give the output another name",
                )
            self.returned.output, self.returned.output_span = value, span
