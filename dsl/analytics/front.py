"""Both front ends of kernels that learn tuple by tuple: what the decorator `kernel` and texts that begin with it make."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lark import Token

from ..core import functions, text
from ..core.builder import Ref, plural
from ..core.constants import kind_of
from ..core.diagnostics import Span
from ..core.hints import closest
from ..core.python import Traced
from ..core.tensor import Tensor
from .builder import AnalyticsBuilder
from .finish import Return
from .kernel import Kernel

#: changes of rows, as texts write them
_CHANGES = {"+=": "add", "-=": "subtract", "max=": "max", "min=": "min", "<-": "set"}


@dataclass
class PythonKernel(Traced, Kernel):
    """A kernel of the analytics engine whose body is a Python function."""

    def body(self, builder: AnalyticsBuilder) -> list[Return]:
        return self._returns(builder, self.run(builder))

    def _returns(self, builder: AnalyticsBuilder, result: Any) -> list[Return]:
        """Return the models' new values, from what the function returned. Raises KernelError (E407)."""
        models = self.of_kind("model")
        if result is None:  # `finish` reports the models without a new value (E406)
            return []
        # a tuple or list has a value for each model; of a single model, a list of plain numbers is its
        # new value
        several = isinstance(result, (tuple, list)) and (
            len(models) != 1 or any(isinstance(v, Tensor) for v in result)
        )
        values = list(result) if several else [result]
        spans = self.return_spans(len(values))
        if len(values) != len(models):
            span = spans[0] if spans else self.name_span
            if spans and len(spans) > 1:
                span = Span(
                    span.file, span.line, span.column, spans[-1].end_line, spans[-1].end_column
                )
            raise builder.error(
                "E407",
                f"the kernel returns {plural(len(values), 'value', 'values')} for {plural(len(models), 'model', 'models')}",
                span,
                hint=f"return the new value of {models[0].name} alone"
                if len(models) == 1
                else f"return the new values of {', '.join(m.name for m in models)}, in this order",
            )
        out = []
        for position, (model, value) in enumerate(zip(models, values, strict=True)):
            place = spans[position] if spans else self.name_span
            plain = self.plain(builder, value, place)
            if isinstance(plain, Ref) and not spans:
                place = builder.nodes[plain.index].span
            out.append(Return(model.name, plain, place))
        return out

    def set_options(self, options: Mapping[str, Any], written: Mapping[str, ast.expr]) -> None:
        if "epochs" in options:
            self.set_epochs(options["epochs"], self.place(written.get("epochs")))
        if options.get("batch") is not None:
            self.set_batch(options["batch"], self.place(written.get("batch")))
        init, literal = options.get("init"), written.get("init")
        if init is None:
            return
        if not isinstance(init, Mapping):
            raise self.error(
                "E442",
                f"init must be a dictionary from models to starts, not {kind_of(init)}",
                self.place(literal),
                hint='as in init={"w": 0.1}',
            )
        parts: dict[Any, ast.expr] = {}
        if isinstance(literal, ast.Dict):
            pairs = zip(literal.keys, literal.values, strict=True)
            parts = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
        for name, value in init.items():
            self.set_init(str(name), value, self.place(parts.get(name, literal)))


@dataclass
class TextKernel(text.Written, Kernel):
    """A kernel of the analytics engine whose body is text."""

    def body(self, builder: AnalyticsBuilder) -> list[Return]:
        statements = _Body(self, builder)
        statements.run()
        return list(statements.returns.values())

    def set_statements(self, options: list[Any]) -> None:
        spans: dict[str, Span] = {}
        for option in options:
            value = option.children[-1]
            if option.data == "init":
                self.set_init(
                    str(option.children[0]),
                    text.literal(self, value),
                    text.span_of(self.file, value),
                )
                continue
            span = text.span_of(self.file, option)
            if option.data in spans:
                raise self.error(
                    "E204",
                    f"{option.data} is given twice",
                    span,
                    (spans[option.data], "first given here"),
                    hint="leave one of them out",
                )
            spans[option.data] = span
            set_option = self.set_epochs if option.data == "epochs" else self.set_batch
            set_option(text.literal(self, value), text.span_of(self.file, value))


class _Body(text.Body):
    """Runs the statements of a kernel on a builder. `returns`: the models' new values, of `w <- value` (`update`) and of `w[i] += value` and its like
    (`change`); `changed`: the latter of them. A further change of a model goes on top of the one before."""

    def __init__(self, kernel: TextKernel, builder: AnalyticsBuilder) -> None:
        super().__init__(kernel, builder)
        self.builder: AnalyticsBuilder = builder
        self.returns: dict[str, Return] = {}
        self.changed: dict[str, Return] = {}

    def update(self, token: Token, value: Any, span: Span) -> None:
        name, place = str(token), text.span_of(self.kernel.file, token)
        models = [p.name for p in self.kernel.of_kind("model")]
        if name not in models:
            raise self.builder.error(
                "E409",
                f"{name} is not a model; only a model gets a new value",
                place,
                hint=closest(name, models) or f"write `{name} = ...` for an intermediate value",
            )
        if name in self.changed:
            raise self.builder.error(
                "E204",
                f"{name} gets a new value, and rows of it are changed",
                place,
                (self.changed[name].span, "changed here"),
                hint="change it in one way or the other",
            )
        if name in self.returns:
            raise self.builder.error(
                "E204",
                f"{name} gets its new value twice",
                place,
                (self.returns[name].span, "first given here"),
                hint="leave one of the lines out, or give the first value a name: `step = ...`",
            )
        self.returns[name] = Return(name, value, span)

    def change(self, statement: Any, span: Span) -> None:
        token, *items = statement.children[:-2]
        name = str(token)
        if name not in self.values:
            place = text.span_of(self.kernel.file, token)
            raise functions.unknown_name(self.builder, name, self.values, place)
        symbol = re.sub(r"\s", "", statement.children[-2].children[0])
        if symbol not in _CHANGES or name not in [p.name for p in self.kernel.of_kind("model")]:
            super().change(statement, span)  # raises: values cannot be changed so
        if name in self.returns and name not in self.changed:
            self.update(token, None, span)  # raises: it has a new value already
        *at, value = [self.evaluate(child) for child in (*items, statement.children[-1])]
        base = self.changed[name].value if name in self.changed else self.builder.variables[name]
        ref = self.builder.change(_CHANGES[symbol], base, at, value, span)
        self.changed[name] = self.returns[name] = Return(name, ref, span)
