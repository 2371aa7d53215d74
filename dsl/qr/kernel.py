"""Fit kernels, from either front end: which least-squares model the qr engine fits again when rows come and go.

    fit rank_model(key: key)
      model <- least_squares(window(key, 32), target=rank(key))

A fit kernel has one step of its own, `least_squares`, over the bytes of a learned index's keys or over numeric columns of a table.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...models.qr.job import Bounds, Label, Method
from ..core import functions
from ..core.builder import GraphBuilder, Operand, Ref
from ..core.constants import kind_of
from ..core.diagnostics import Diagnostic, KernelError, Span
from ..core.dims import Dim
from ..core.graph import Region
from ..core.hints import closest
from ..core.kernel import AnyKernel, Option, Parameter

__all__ = ["KINDS", "LONGEST", "OPTIONS", "FitBuilder", "FitGraph", "FitKernel"]

#: kinds of parameters
KINDS = ("key", "input", "output")
#: most columns of a model, the bias among them, and so the most bytes of a window
MOST_COLUMNS = 64
LONGEST = MOST_COLUMNS - 1
#: options of a fit, in the decorator or in `least_squares`
OPTIONS = ("method", "incremental", "bounds")
_USAGE = functions.FIT_FUNCTIONS["least_squares"].usage


@dataclass(frozen=True)
class FitGraph:
    """A fit kernel, checked.

    `features` is the key's or the input's name, `label` the output's (None: the key's rank or slot). `columns`: those of the model with its bias; for keys
    that of the longest window. `target` is None over numeric columns.
    """

    name: str
    features: str
    label: str | None
    columns: int
    target: Label | None
    method: Method
    incremental: bool
    bounds: Bounds
    span: Span
    source: str = ""

    @property
    def keys(self) -> bool:
        """Whether it is fitted to keys' bytes, not to numeric columns."""
        return self.target is not None


class FitBuilder(GraphBuilder):
    """The steps of one fit kernel while they are written down; nothing can be computed with its values."""

    fits: ClassVar[bool] = True

    def __init__(self, parameters: Sequence[Parameter], sizes: dict[str, int], source: str | None = None) -> None:
        super().__init__([], sizes, source)
        for p in parameters:
            shape = tuple(self._size(dim) for dim in p.dims)
            self.variables[p.name] = self._add(p.kind, (), shape, Region.TUPLE, p.span, {"name": p.name})

    @property
    def functions(self) -> Mapping[str, Any]:
        return functions.FIT_FUNCTIONS

    def computes(self, span: Span) -> None:
        raise self.error("E452", "a fit kernel computes nothing with its values", span, hint=f"it says what is fitted: {_USAGE}")

    def transpose(self, value: Operand, span: Span) -> Ref:
        self.computes(span)
        raise AssertionError

    def spoken(self, value: Operand) -> str:
        """What a message calls a value."""
        if not isinstance(value, Ref):
            return kind_of(value)
        node = self.nodes[value.index]
        if node.op in KINDS:
            return "the key" if node.op == "key" else f"the {node.op} {node.attrs['name']}"
        return {"window": "a window", "rank": "a rank", "slot": "a slot"}.get(node.op, "a fit")

    def op(self, value: Operand) -> str:
        """The operation that gave a value, or nothing."""
        return self.nodes[value.index].op if isinstance(value, Ref) else ""

    def fit(self, name: str, a: Mapping[str, Any], span: Span) -> Ref:
        if name == "least_squares":
            return self._least_squares(a, span)
        if self.op(a["key"]) != "key":
            hint = "the key is the kernel's parameter: `key: ps.Key` (as text: `key: key`)"
            raise self.error("E454", f"{name} is taken of a key, not of {self.spoken(a['key'])}", span, hint=hint)
        attrs = {"bytes": self._bytes(a["bytes"], span)} if name == "window" else {}
        return self._add(name, (a["key"].index,), (), Region.TUPLE, span, attrs)

    def _bytes(self, value: Any, span: Span) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            hint = "write it out, as in window(key, 32): the number is part of the hardware"
            raise self.error("E455", f"the longest window must be a whole number of bytes, not {self.spoken(value)}", span, hint=hint)
        if not 1 <= value <= LONGEST:
            hint = "one byte is the least" if value < 1 else "the bytes that tell a group's keys apart are few: 8 to 32 do for most keys"
            raise self.error("E455", f"a window of {value} bytes; it has 1 to {LONGEST}", span, hint=hint)
        return int(value)

    def _least_squares(self, a: Mapping[str, Any], span: Span) -> Ref:
        features, target = a["features"], a["target"]
        what = self.op(features)
        if what not in ("window", "input"):
            hint = "write window(key, 32): the bytes that the model looks at" if what == "key" else \
                "features are window(key, 32), or the numeric columns of an input"
            raise self.error("E454", f"least_squares cannot take {self.spoken(features)} for its features", span, hint=hint)
        wanted = ("rank", "slot") if what == "window" else ("output",)
        if self.op(target) not in wanted:
            hint = "write target=rank(key), or target=slot(key) where the array has gaps" if what == "window" else \
                "the target of columns is the output: `y: ps.Output` (as text: `y: output`), then target=y"
            raise self.error("E459", f"{self.spoken(target)} is no target for {self.spoken(features)}", span, hint=hint)
        given = {name: checked_option(self, name, a[name], span) for name in OPTIONS if a[name] is not None}
        return self._add("least_squares", (features.index, target.index), (), Region.TUPLE, span, given)


def checked_option(builder: FitBuilder | FitKernel, name: str, value: Any, span: Span) -> Any:
    """Return the value of an option of a fit where it is one. Raises KernelError (E458)."""
    if name == "incremental":
        if not isinstance(value, (bool, np.bool_)):
            hint = "True: refits go on from the last fit; False: each one reads all rows"
            raise builder.error("E458", f"incremental must be True or False, not {kind_of(value)}", span, hint=hint)
        return bool(value)
    kinds: type[Method] | type[Bounds] = Method if name == "method" else Bounds
    names = [kind.value for kind in kinds]
    if not isinstance(value, str) or value not in names:
        hint = closest(value, names) if isinstance(value, str) else ""
        known = " and ".join(f'"{known}"' for known in names)
        raise builder.error("E458", f"{name} cannot be {kind_of(value)}", span, hint=hint or f"known are {known}")
    return kinds(value)


@dataclass
class FitKernel(AnyKernel):
    """A kernel of the qr engine. `options`: those that stand outside its body."""

    options: dict[str, Option] = field(default_factory=dict, kw_only=True)
    engine = "qr"
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
        builder = FitBuilder(self.parameters, {name: int(size) for name, size in (dims or {}).items()}, self.source)
        return self._graph(builder, self.body(builder))

    def _graph(self, builder: FitBuilder, results: list[tuple[Operand, Span]]) -> FitGraph:
        hint = f"return {_USAGE} (as text: `model <- least_squares(...)`)"
        if not results:
            raise self.error("E456", f"the fit kernel {self.name} returns nothing", self.name_span, hint=hint)
        if len(results) > 1:
            raise self.error("E456", f"the fit kernel {self.name} returns {len(results)} values; it fits one model", results[1][1],
                             (results[0][1], "the first one is here"), hint="write a kernel for each of them")
        value, span = results[0]
        if builder.op(value) != "least_squares":
            raise self.error("E456", f"a fit kernel returns a fit, not {builder.spoken(value)}", span, hint=hint)
        node = builder.nodes[value.index]
        first, second = (builder.nodes[i] for i in node.inputs)
        own = builder.nodes[first.inputs[0]].attrs["name"] if first.op == "window" else first.attrs["name"]
        given = self._options(node.attrs, node.span)
        if "bounds" in given and first.op != "window":
            span = self.options["bounds"].span if "bounds" in self.options else node.span
            raise self.error("E458", "a fit over columns has no bounds: they are those of a key's place", span, hint="leave bounds out")
        incremental = given.get("incremental", True)
        bounds = given.get("bounds", Bounds.WIDENED if incremental else Bounds.RESCAN)
        if bounds is Bounds.WIDENED and not incremental:
            raise self.error("E458", "bounds cannot be widened where every fit begins anew", node.span,
                             hint='leave bounds out, or incremental=False: "widened" bounds go on from those of the last fit')
        columns = 1 + first.attrs["bytes"] if first.op == "window" else 1 + self._width(first.shape)
        if columns > MOST_COLUMNS:
            raise self.error("E454", f"{own} has {columns - 1} columns; a fit takes at most {LONGEST}", first.span, hint="bind fewer columns to it")
        keys = first.op == "window"
        return FitGraph(self.name, own, None if keys else second.attrs["name"], columns if columns > 1 else 0, Label(second.op) if keys else None,
                        given.get("method", Method.GRAM), incremental, bounds, node.span, self.source or "")

    def _width(self, shape: Sequence[int]) -> int:
        """The columns of an input of this shape; 0 where they are not known yet."""
        size = shape[0] if shape else 1
        return 0 if isinstance(size, Dim) and not size.known else int(size)

    def _options(self, inner: Mapping[str, Any], span: Span) -> dict[str, Any]:
        found = {name: option.value for name, option in self.options.items()}
        for name, value in inner.items():
            if name in found and found[name] != value:
                raise self.error("E204", f"{name} is given twice", span, (self.options[name].span, "first given here"), hint="leave one of them out")
            found[name] = value
        return found

    # -- declarations

    def set_option(self, name: str, value: Any, span: Span) -> None:
        """Set one of `OPTIONS`. Raises KernelError."""
        self.options[name] = Option(checked_option(self, name, value, span), span)

    def check_header(self) -> None:
        """Check names and kinds of parameters. Raises KernelError."""
        self.check_names()
        keys, inputs, outputs = (self.of_kind(kind) for kind in KINDS)
        if not keys and not inputs:
            raise self.error("E457", f"the fit kernel {self.name} has nothing to fit to", self.name_span,
                             hint='give it a key, `key: ps.Key` (as text: `key: key`), or an input and an output')
        if keys and len(self.parameters) > 1:
            other = next(p for p in self.parameters if p is not keys[0])
            raise self.error("E457", f"a fit kernel with a key takes nothing else, but it has {other.name}", other.span, (keys[0].span, "the key is here"),
                             hint=f"leave {other.name} out")
        if keys and keys[0].dims:
            raise self.error("E457", f"the key {keys[0].name} has dimensions; a key is a string of bytes", keys[0].span,
                             hint="declare it without brackets; window(key, 32) says how many of its bytes count")
        if not keys and (len(inputs) > 1 or len(outputs) != 1):
            raise self.error("E457", f"a fit over columns takes one input and one output, not {len(inputs)} and {len(outputs)}",
                             (inputs[1] if len(inputs) > 1 else outputs[1] if len(outputs) > 1 else inputs[0]).span,
                             hint='as in `x: ps.Input["d"], y: ps.Output` (as text: `x: input[d], y: output`)')
        for p in (*inputs, *outputs):
            if len(p.dims) > (1 if p.kind == "input" else 0):
                raise self.error("E457", f"the {p.kind} {p.name} has too many dimensions for a fit", p.span,
                                 hint="an input is a vector of columns, an output is one number")
            self.check_sizes(p)

    def no_default(self, p: Parameter) -> KernelError:
        """The error for a parameter with a default."""
        return self.error("E457", f"the {p.kind} {p.name} has a default; a fit kernel's parameters have none", p.span, hint="leave it out")
