"""Both front ends of recurrences."""

from dataclasses import dataclass
from typing import Any

from lark import Token

from ..core import text
from ..core.builder import GraphBuilder, Ref
from ..core.diagnostics import Span
from ..core.dims import show
from ..core.python import Traced
from .kernel import Recurrence, Returned


@dataclass
class PythonRecurrence(Traced, Recurrence):
    """A recurrence whose body is a Python function."""

    def body(self, builder: GraphBuilder) -> Returned:
        returned = self.returned(builder)
        if not returned:
            return Returned({}, None, self.name_span)
        plain, spans = zip(*returned, strict=True)
        names = [p.name for kind in ("state", "cache") for p in self.of_kind(kind)]
        if len(plain) not in (1, len(names) + 1):
            several = "the new states in their order" if len(names) > 1 else "the new state"
            what = f"the recurrence {self.name} returns {len(plain)} values"
            hint = f"return {several} and the output, or the output alone"
            raise self.error("E461", what, spans[min(len(plain) - 1, len(names) + 1)], hint=hint)
        shape = next(
            builder.shape(builder.variables[p.name])
            for p in (*self.of_kind("state"), *self.of_kind("cache"))
            if len(p.dims) == 2
        )
        if len(plain) == 1 and isinstance(plain[0], Ref) and builder.shape(plain[0]) == shape:
            what = f"the recurrence {self.name} has no output"
            hint = f"what it returns is {show(shape)} like the state: return S, q @ S"
            raise self.error("E461", what, spans[0], hint=hint)
        states = zip(plain[:-1], spans[:-1], strict=True)
        return Returned(dict(zip(names, states, strict=False)), plain[-1], spans[-1])


@dataclass
class TextRecurrence(text.Written, Recurrence):
    """A recurrence whose body is text."""

    def body(self, builder: GraphBuilder) -> Returned:
        statements = _Body(self, builder)
        statements.run()
        return statements.returned


class _Body(text.Body):
    """Runs the statements of a recurrence: `S <- ...` is a new state, which S means from then on, as `K <- ...` a cache that grew; `y <- ...`
    the output."""

    def __init__(self, kernel: TextRecurrence, builder: GraphBuilder) -> None:
        super().__init__(kernel, builder)
        self.returned = Returned({}, None, kernel.name_span)

    def update(self, token: Token, value: Any, span: Span) -> None:
        name, place = str(token), text.span_of(self.kernel.file, token)
        kept = (p.name for kind in ("state", "cache") for p in self.kernel.of_kind(kind))
        is_state = name in kept
        if name in self.returned.states if is_state else self.returned.output is not None:
            what = "the new state" if is_state else "an output"
            raise self.builder.error(
                "E204", f"{what} is given twice", place, hint="leave one of the lines out"
            )
        if is_state:
            self.returned.states[name] = value, span
            self.values[name] = value
        else:
            if name in self.defined:
                what = f"{name} is defined twice"
                hint = "give the output another name"
                raise self.builder.error(
                    "E204", what, place, (self.defined[name], "first defined here"), hint=hint
                )
            self.returned.output, self.returned.output_span = value, span
