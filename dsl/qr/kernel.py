"""Fit kernels, from either front end: which least-squares model the qr engine fits again when rows come and go.

    fit rank_model(key: key)
      model <- least_squares(window(key, 32), target=rank(key))

A fit kernel has one step of its own, `least_squares`, over the bytes of a learned index's keys or over numeric columns of a table.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...models.qr.job import Label, Method
from ..core.builder import Operand
from ..core.diagnostics import Diagnostic, Span
from ..core.dims import Dim
from ..core.kernel import AnyKernel, Option, Parameter
from .functions import (
    KINDS,
    LONGEST,
    MOST_COLUMNS,
    OF_COLUMNS,
    USAGE,
    FitBuilder,
    checked_option,
)


@dataclass(frozen=True)
class FitGraph:
    """A fit kernel, checked."""

    name: str
    features: str  #: name of the key or the input
    label: str | None  #: name of the output; None: the key's rank or slot
    columns: int  #: columns of the model with its bias; for keys, of the longest window
    target: Label | None  #: None over numeric columns
    method: Method
    incremental: bool
    span: Span
    source: str = ""
    #: of numeric columns, as `least_squares` has it, and so are the next two
    intercept: bool = True
    ridge: float = 0.0
    ridge_per: str = "weight"

    @property
    def keys(self) -> bool:
        """Whether it is fitted to keys' bytes, not to numeric columns."""
        return self.target is not None

    def to_json(self) -> dict[str, Any]:
        """Return the graph as plain data."""
        target = self.target and self.target.value
        return vars(self) | {
            "target": target,
            "method": self.method.value,
            "span": self.span.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FitGraph:
        target = data["target"] and Label(data["target"])
        method, span = Method(data["method"]), Span(**data["span"])
        return cls(**{**data, "target": target, "method": method, "span": span})


@dataclass
class FitKernel(AnyKernel):
    """A kernel of the qr engine. `options`: those that stand outside its body."""

    options: dict[str, Option] = field(default_factory=dict, kw_only=True)
    keyword = "fit"
    title = "fit kernel"

    @abstractmethod
    def body(self, builder: FitBuilder) -> list[tuple[Operand, Span]]:
        """Run the kernel's steps on the builder and return what it returns, with its place."""

    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        self.trace(dims)
        return []

    def trace(self, dims: Mapping[str, int] | None = None) -> FitGraph:
        """Return the kernel's graph; the sizes of dimensions that are not given may stay unknown (then `columns` is 0). Raises KernelError."""
        self.check_dims(dims or {})
        builder = FitBuilder(self.dialect, self.parameters, dims or {}, self.source)
        results = self.body(builder)
        self.nodes = builder.nodes
        return self._graph(builder, results)

    def _graph(self, builder: FitBuilder, results: list[tuple[Operand, Span]]) -> FitGraph:
        hint = f"return {USAGE} (as text: `model <- least_squares(...)`)"
        if not results:
            message = f"the fit kernel {self.name} returns nothing"
            raise self.error("E456", message, self.name_span, hint=hint)
        value, span = results[0]
        if len(results) > 1:
            message = f"the fit kernel {self.name} returns {len(results)} values; it fits one model"
            hint, note = "write a kernel for each of them", (span, "the first one is here")
            raise self.error("E456", message, results[1][1], note, hint=hint)
        if builder.op(value) != "least_squares":
            message = f"a fit kernel returns a fit, not {builder.spoken(value)}"
            raise self.error("E456", message, span, hint=hint)
        node = builder.nodes[value.index]
        first, second = (builder.nodes[i] for i in node.inputs)
        keys, incremental = first.op == "window", second.op != "rank"
        variable = (builder.nodes[first.inputs[0]] if keys else first).attrs["name"]
        options = self._options(node.attrs, node.span)
        if options.get("incremental", incremental) is not incremental:
            if keys:
                self._contrary(second.op, node.span)
            incremental = False
        if keys and (wrong := next((name for name in OF_COLUMNS if name in options), None)):
            place = self.options[wrong].span if wrong in self.options else node.span
            hint = f"leave {wrong} out: keys are fitted with a bias, and without a penalty"
            raise self.error("E458", f"{wrong} is for fits over columns", place, hint=hint)
        columns = 1 + (first.attrs["bytes"] if keys else self._width(first.shape))
        if columns > MOST_COLUMNS:
            message = f"{variable} has {columns - 1} columns; a fit takes at most {LONGEST}"
            raise self.error("E454", message, first.span, hint="bind fewer columns to it")
        return FitGraph(
            self.name,
            variable,
            None if keys else second.attrs["name"],
            columns if columns > 1 else 0,
            Label(second.op) if keys else None,
            options.get("method", Method.GRAM),
            incremental,
            node.span,
            self.source or "",
            **{name: options[name] for name in OF_COLUMNS if name in options},
        )

    def _contrary(self, target: str, span: Span) -> None:
        """Raise KernelError (E458) for `incremental` that is not what the target of keys has."""
        place = self.options["incremental"].span if "incremental" in self.options else span
        other, read = ("slot", "all keys") if target == "rank" else ("rank", "changed keys alone")
        hint = f"leave incremental out, or write target={other}(key)"
        raise self.error("E458", f"refits of {target}s read {read}", place, hint=hint)

    def _width(self, shape: Sequence[int]) -> int:
        """The columns of an input of this shape; 0 where they are not known yet."""
        size = shape[0] if shape else 1
        return 0 if isinstance(size, Dim) and not size.known else int(size)

    def _options(self, inner: Mapping[str, Any], span: Span) -> dict[str, Any]:
        options = {name: option.value for name, option in self.options.items()}
        for name, value in inner.items():
            if name in options and options[name] != value:
                note, hint = (self.options[name].span, "first given here"), "leave one of them out"
                raise self.error("E204", f"{name} is given twice", span, note, hint=hint)
            options[name] = value
        return options

    # -- declarations

    def set_option(self, name: str, value: Any, span: Span) -> None:
        """Set one of the options of a fit. Raises KernelError."""
        self.options[name] = Option(checked_option(self, name, value, span), span)

    def check_header(self) -> None:
        """Check names and kinds of parameters. Raises KernelError."""
        self.check_names()
        keys, inputs, outputs = (self.of_kind(kind) for kind in KINDS)
        if not keys and not inputs:
            message = f"the fit kernel {self.name} has nothing to fit to"
            hint = "give it a key, `key: ps.Key` (as text: `key: key`), or an input and an output"
            raise self.error("E457", message, self.name_span, hint=hint)
        if keys and len(self.parameters) > 1:
            other = next(p for p in self.parameters if p is not keys[0])
            message = f"a fit kernel with a key takes nothing else, but it has {other.name}"
            note, hint = (keys[0].span, "the key is here"), f"leave {other.name} out"
            raise self.error("E457", message, other.span, note, hint=hint)
        if keys and keys[0].dims:
            message = f"the key {keys[0].name} has dimensions; a key is a string of bytes"
            hint = "declare it without brackets; window(key, 32) says how many of its bytes count"
            raise self.error("E457", message, keys[0].span, hint=hint)
        if not keys and (len(inputs) > 1 or len(outputs) != 1):
            message = f"a fit over columns takes one input and one output, not {len(inputs)} and {len(outputs)}"
            [parameter] = (*inputs[1:2], *outputs[1:2], inputs[0])[:1]
            hint = 'as in `x: ps.Input["d"], y: ps.Output` (as text: `x: input[d], y: output`)'
            raise self.error("E457", message, parameter.span, hint=hint)
        for p in (*inputs, *outputs):
            if len(p.dims) > (p.kind == "input"):
                message = f"the {p.kind} {p.name} has too many dimensions for a fit"
                hint = "an input is a vector of columns, an output is one number"
                raise self.error("E457", message, p.span, hint=hint)
            self.check_sizes(p)

    def set_default(self, parameter: Parameter, value: Any, span: Span) -> None:
        message = f"the {parameter.kind} {parameter.name} has a default; a fit kernel's parameters have none"
        raise self.error("E457", message, parameter.span, hint="leave it out")
