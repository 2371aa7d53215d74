"""A kernel as written: its name, its parameters and its options, from either front end, and the way from there to a
checked graph.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from . import dims as D
from .builder import GraphBuilder
from .constants import kind_of
from .diagnostics import Diagnostic, KernelError, Span, error
from .finish import Return, finish
from .graph import Graph, Uniform

__all__ = ["KINDS", "MAX_EPOCHS", "AnyKernel", "Kernel", "Option", "Parameter", "resolve"]

KINDS = ("input", "output", "model", "meta")
MAX_EPOCHS = 2**31 - 1
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass
class Parameter:
    """One parameter. `dims` as written: names or sizes; `default` is a meta's value, None where it has none."""

    name: str
    kind: str
    dims: tuple[str | int, ...]
    span: Span
    default: float | None = None


@dataclass
class Option:
    """An option of a kernel (its epochs, a model's start) with the place where it stands."""

    value: Any
    span: Span


@dataclass
class AnyKernel(ABC):
    """What kernels of all engines have: a name, parameters, a place in a file, and a check.

    `name_span` is the place of its name; `warnings` are those of the latest check or trace; `engine` is what it is compiled for.
    """

    name: str
    file: str
    source: str | None
    parameters: list[Parameter]
    name_span: Span
    warnings: list[Diagnostic] = field(default_factory=list, kw_only=True)
    engine: ClassVar[str]

    @staticmethod
    def from_text(source: str, filename: str = "<kernel>") -> Any:
        """Return the kernel, of whatever engine, that a text in the syntax of `.psk` files describes (docs/dsl.md). Raises KernelError."""
        from .text import parse_kernel

        return parse_kernel(source, filename)

    @abstractmethod
    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        """Check the kernel for sizes that may still be unknown and return its warnings. Raises KernelError at the first error."""

    def of_kind(self, kind: str) -> list[Parameter]:
        return [parameter for parameter in self.parameters if parameter.kind == kind]

    @property
    def dim_names(self) -> list[str]:
        """The names of its dimensions, in order of appearance."""
        return list(dict.fromkeys(dim for parameter in self.parameters for dim in parameter.dims if isinstance(dim, str)))

    def error(self, code: str, message: str, span: Span, *notes: tuple[Span, str], hint: str) -> KernelError:
        return error(code, message, span, *notes, hint=hint, source=self.source if span.file == self.file else None)

    def check_names(self) -> None:
        """Check that no name is given twice. Raises KernelError."""
        seen: dict[str, Parameter] = {}
        for parameter in self.parameters:
            if parameter.name in seen:
                raise self.error(
                    "E204",
                    f"{parameter.name} is defined twice",
                    parameter.span,
                    (seen[parameter.name].span, "first defined here"),
                    hint="give one of them another name",
                )
            seen[parameter.name] = parameter

    def check_sizes(self, parameter: Parameter) -> None:
        """Check a parameter's dimensions as they are declared. Raises KernelError."""
        for dim in parameter.dims:
            if isinstance(dim, str) and _NAME.match(dim):
                continue
            if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
                raise self.error(
                    "E306",
                    f"{dim!r} is not a dimension" if isinstance(dim, str) else f"{kind_of(dim)} is not a dimension",
                    parameter.span,
                    hint="a dimension is a name or a whole number",
                )
            if dim < 1:
                raise self.error("E306", f"{dim} is not a dimension", parameter.span, hint="a size is at least 1")
            if dim > D.MAX_DIM:
                raise self.error(
                    "E307",
                    f"a dimension of {dim}; the largest is {D.MAX_DIM}",
                    parameter.span,
                    hint=f"give {parameter.name} a smaller dimension: {D.LARGE_HINT}",
                )

    def check_dims(self, dims: Mapping[str, int]) -> None:
        """Check sizes that the user gave. Raises KernelError for a name that the kernel does not use and for a size out of
        range.
        """
        for name, size in dims.items():
            if name not in self.dim_names:
                used = ", ".join(self.dim_names)
                raise self.error(
                    "E504",
                    f"the kernel {self.name} has no dimension {name}",
                    self.name_span,
                    hint=f"its dimensions are {used}" if used else "it has no named dimensions",
                )
            if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size <= D.MAX_DIM:
                raise self.error(
                    "E504",
                    f"dimension {name} cannot have the size {size}",
                    self.name_span,
                    hint=f"a size is a whole number from 1 to {D.MAX_DIM}",
                )


@dataclass
class Kernel(AnyKernel):
    """A kernel of the analytics engine, which can be traced to a graph."""

    epochs: int = 1
    init: dict[str, Option] = field(default_factory=dict)
    engine = "analytics"

    @abstractmethod
    def body(self, builder: GraphBuilder) -> list[Return]:
        """Run the kernel's operations on the builder and return the models' new values."""

    def trace(self, dims: Mapping[str, int] | None = None, **sizes: int) -> Graph:
        """Return the kernel's graph for the given sizes of its named dimensions. Raises KernelError."""
        given = {**(dims or {}), **sizes}
        self.check_dims(given)
        missing = [name for name in self.dim_names if name not in given]
        if missing:
            parameter = next(p for p in self.parameters if missing[0] in p.dims)
            raise self.error(
                "E505",
                f"the size of dimension {missing[0]} is not known",
                parameter.span,
                hint=f"give it with --dim {missing[0]}=SIZE",
            )
        return self._trace(given)

    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        """Check the kernel for sizes that may still be unknown and return its warnings. Raises KernelError at the first error."""
        given = dict(dims or {})
        self.check_dims(given)
        self._trace(given)
        return self.warnings

    def _trace(self, sizes: dict[str, int]) -> Graph:
        builder = GraphBuilder(self.parameters, {name: int(size) for name, size in sizes.items()}, self.source)
        self._check_init(builder)
        returns = self.body(builder)
        graph, self.warnings = finish(self, builder, returns)
        return graph

    # -- declarations ------------------------------------------------------------------------------------------------

    def check_header(self) -> None:
        """Check names, dimensions and the presence of a model. Raises KernelError."""
        self.check_names()
        for parameter in self.parameters:
            self._check_parameter(parameter)
        if not self.of_kind("model"):
            raise self.error(
                "E404",
                f"the kernel {self.name} has no model",
                self.name_span,
                hint='a kernel learns at least one model: give it a parameter like `w: Model["d"]` (as text: `w: model[d]`)',
            )
        if not self.of_kind("input") and not self.of_kind("output"):
            raise self.error(
                "E410",
                f"the kernel {self.name} reads nothing of the table",
                self.name_span,
                hint='give it at least one input, such as `x: Input["d"]`, or an output, such as `y: Output` '
                "(as text: `x: input[d]`, `y: output`)",
            )

    def _check_parameter(self, parameter: Parameter) -> None:
        if parameter.kind == "meta" and parameter.dims:
            raise self.error(
                "E403",
                f"the meta {parameter.name} has dimensions; a meta is one number",
                parameter.span,
                hint="declare it without brackets, or write an array into the kernel as a constant",
            )
        if len(parameter.dims) > 2:
            as_python = f'{parameter.name}: {parameter.kind.capitalize()}["n", "d"]'
            raise self.error(
                "E303",
                f"{parameter.name} has {len(parameter.dims)} dimensions; values have at most two",
                parameter.span,
                hint=f"lay its elements out as a matrix, `{as_python}` (as text: `{parameter.name}: {parameter.kind}[n, d]`), "
                "or use several parameters",
            )
        self.check_sizes(parameter)

    def set_default(self, parameter: Parameter, value: Any, span: Span) -> None:
        """Give a meta its value. Raises KernelError where the parameter takes none or the value is no number."""
        if parameter.kind != "meta":
            raise self.error(
                "E403",
                f"the {parameter.kind} {parameter.name} has a default; only a meta has one",
                span,
                hint="a model's start is given by init" if parameter.kind == "model" else "its values come from the table",
            )
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise self.error(
                "E403",
                f"the default of the meta {parameter.name} must be a number, not {kind_of(value)}",
                span,
                hint=f"write a number, as in `{parameter.name}: ps.Meta = 0.1` (as text: `{parameter.name}: meta = 0.1`)",
            )
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if not np.isfinite(number):
            raise self.error(
                "E403",
                f"the default of the meta {parameter.name} must be a finite number, not {number}",
                span,
                hint="not all number formats of the hardware have infinities or NaN; use a large number, such as 1e6",
            )
        parameter.default = number

    def set_epochs(self, value: Any, span: Span) -> None:
        """Set the number of passes over the table. Raises KernelError."""
        self.epochs = checked_epochs(value, span, self.source)

    def set_init(self, name: str, value: Any, span: Span) -> None:
        """Set a model's start; shapes are checked when they are known. Raises KernelError."""
        model = next((p for p in self.parameters if p.name == name), None)
        if model is None or model.kind != "model":
            models = ", ".join(p.name for p in self.of_kind("model"))
            what = f"{name} is not a parameter of the kernel" if model is None else f"{name} is an {model.kind}, not a model"
            what = what.replace("an m", "a m")
            raise self.error("E444", f"init sets the start of models, but {what}", span, hint=f"its models are {models}")
        if name in self.init:
            raise self.error(
                "E204",
                f"the start of {name} is given twice",
                span,
                (self.init[name].span, "first given here"),
                hint="leave one of them out",
            )
        self.init[name] = Option(checked_init(name, value, span, self.source), span)

    def _check_init(self, builder: GraphBuilder) -> None:
        for name, option in self.init.items():
            check_init_shape(name, option.value, builder.shape(builder.variables[name]), option.span, self.source)


def checked_epochs(value: Any, span: Span, source: str | None = None) -> int:
    """Return the value where it is a number of epochs. Raises KernelError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        hint = "write the number of passes over the table, as in `epochs=10` (as text: `epochs 10`)"
        raise error("E441", f"epochs must be a whole number, not {kind_of(value)}", span, hint=hint, source=source)
    if not 1 <= value <= MAX_EPOCHS:
        hint = "one pass over the table is the least" if value < 1 else "`until` ends a run when the model is good enough"
        raise error("E441", f"epochs must be from 1 to {MAX_EPOCHS}, not {value}", span, hint=hint, source=source)
    return int(value)


def checked_init(name: str, value: Any, span: Span, source: str | None = None) -> float | np.ndarray | Uniform:
    """Return a model's start as a number, a float64 array or Uniform. Raises KernelError."""
    hint = "a model starts at a number, an array of its shape, or uniform(low, high, seed=1)"
    if isinstance(value, Uniform):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        raise error("E442", f"the start of {name} has rows of different lengths", span, hint=hint, source=source) from None
    if array.dtype.kind not in "iuf" or array.ndim > 2 or array.size == 0:
        what = f"an array of rank {array.ndim}" if array.dtype.kind in "iuf" and array.size else kind_of(value)
        what = "an empty array" if array.dtype.kind in "iuf" and not array.size else what
        raise error("E442", f"the model {name} cannot start at {what}", span, hint=hint, source=source)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise error("E442", f"the start of {name} is not finite", span, hint=hint, source=source)
    return array if array.ndim else float(array)


def check_init_shape(name: str, value: Any, shape: Sequence[int], span: Span, source: str | None = None) -> None:
    """Check that a start fits its model; sizes that are not known yet fit everything. Raises KernelError (E443)."""
    if not isinstance(value, np.ndarray):
        return
    fits = len(shape) == value.ndim and all(
        size == have or (isinstance(size, D.Dim) and not size.known) for size, have in zip(shape, value.shape, strict=True)
    )
    if not fits:
        what = f"give an array of the shape {D.show(shape)}, one number for all its elements," if shape else "give one number,"
        raise error(
            "E443",
            f"the start of {name} is {D.show(value.shape)}, but the model is {D.show(shape)}",
            span,
            hint=f"{what} or uniform(low, high, seed=1)",
            source=source,
        )


def make_uniform(low: Any, high: Any, seed: Any, span: Span, source: str | None = None) -> Uniform:
    """Return `uniform(low, high, seed)`. Raises KernelError (E442)."""
    for value in (low, high):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or not np.isfinite(value):
            what = f"the limits of uniform must be finite numbers, not {kind_of(value)}"
            raise error("E442", what, span, hint="as in uniform(-0.3, 0.3, seed=1)", source=source)
    if not low < high:
        hint = f"swap them: uniform({high}, {low})" if low > high else f"for one value everywhere write the number itself, {low}"
        raise error("E442", f"uniform needs low < high, not {low} and {high}", span, hint=hint, source=source)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        what = f"the seed of uniform must be a whole number from 0, not {kind_of(seed)}"
        raise error("E442", what, span, hint=f"as in uniform({low}, {high}, seed=1)", source=source)
    return Uniform(float(low), float(high), int(seed))


def resolve(kernel: Kernel, dims: Mapping[str, int]) -> Graph:
    """Return the kernel's graph once the sizes of all its dimensions are known. Raises KernelError."""
    return kernel.trace(dims)
