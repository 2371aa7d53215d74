"""A kernel of the analytics engine as written: its models, epochs and starts, from either front end, and the way from there
to a checked graph.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ...models.analytics.shell import MAX_EPOCHS
from ..core import dims as D
from ..core.constants import kind_of
from ..core.diagnostics import Diagnostic, Span, error
from ..core.graph import Graph, Uniform
from ..core.kernel import AnyKernel, Option, Parameter
from .builder import MAX_MERGE, AnalyticsBuilder
from .finish import Return, finish

#: the most rows of a model that is read and changed by index
MAX_ROWS = 1 << 32
#: numbers of a model: its start and its result are held as float64
MAX_NUMBERS = 1 << 28


@dataclass
class Kernel(AnyKernel):
    """A kernel of the analytics engine, which can be traced to a graph. `batch`: tuples for which all models stand still."""

    epochs: int = 1
    batch: Option | None = None
    init: dict[str, Option] = field(default_factory=dict)
    keyword = "kernel"

    @abstractmethod
    def body(self, builder: AnalyticsBuilder) -> list[Return]:
        """Run the kernel's operations on the builder and return the models' new values."""

    def trace(self, dims: Mapping[str, int] | None = None, **sizes: int) -> Graph:
        """Return the kernel's graph for the given sizes of its named dimensions. Raises KernelError."""
        dim_sizes = {**(dims or {}), **sizes}
        self.check_dims(dim_sizes)
        missing = [name for name in self.dim_names if name not in dim_sizes]
        if missing:
            parameter = next(p for p in self.parameters if missing[0] in p.dims)
            raise self.error(
                "E505",
                f"the size of dimension {missing[0]} is not known",
                parameter.span,
                hint=f"give it with --dim {missing[0]}=SIZE",
            )
        for model in self.of_kind("model"):
            sizes_of = (d if isinstance(d, int) else dim_sizes[d] for d in model.dims)
            self._check_numbers(model, prod(sizes_of))
        return self._trace(dim_sizes)

    def _check_numbers(self, model: Parameter, numbers: int) -> None:
        if numbers > MAX_NUMBERS:
            raise self.error(
                "E307",
                f"the model {model.name} has {numbers:,} numbers; the most are {MAX_NUMBERS:,}",
                model.span,
                hint="where an index takes sparse numbers, --categories COLUMN counts those that there are",
            )

    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        """Check the kernel for sizes that may still be unknown and return its warnings. Raises KernelError at the first error."""
        self.outline(dims)
        return self.warnings

    def outline(self, dims: Mapping[str, int] | None = None) -> Graph:
        """Return the checked graph for sizes that may still be unknown: its shapes have them, too. Raises KernelError."""
        dim_sizes = dict(dims or {})
        self.check_dims(dim_sizes)
        return self._trace(dim_sizes)

    def _trace(self, sizes: dict[str, int]) -> Graph:
        builder = AnalyticsBuilder(self.dialect, self.parameters, sizes, self.source)
        self._check_init(builder)
        returns = self.body(builder)
        self.nodes = builder.nodes
        graph, self.warnings = finish(self, builder, returns, self.init, self.epochs, self.batch)
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
        if all(not self.of_kind(kind) for kind in ("input", "output", "index")):
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
        if parameter.kind == "index" and len(parameter.dims) not in (1, 2):
            name = parameter.name
            raise self.error(
                "E491",
                f"the index {name} does not say what it counts"
                if not parameter.dims
                else f"the index {name} has {len(parameter.dims)} dimensions",
                parameter.span,
                hint=f'`{name}: ps.Index["n"]` is one of n rows, `{name}: ps.Index["n", 8]` a bag of up to 8 '
                f"(as text: `{name}: index[n]`, `{name}: index[n, 8]`)",
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

    def largest(self, parameter: Parameter, axis: int) -> int:
        rows = axis == 0 and parameter.kind in ("index", "model") and self.of_kind("index")
        return MAX_ROWS if rows else super().largest(parameter, axis)

    def set_default(self, parameter: Parameter, value: Any, span: Span) -> None:
        """Give a meta its value. Raises KernelError where the parameter takes none or the value is no number."""
        if parameter.kind != "meta":
            raise self.error(
                "E403",
                f"the {parameter.kind} {parameter.name} has a default; only a meta has one",
                span,
                hint="a model's start is given by init"
                if parameter.kind == "model"
                else "its values come from the table",
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

    def set_batch(self, value: Any, span: Span) -> None:
        """Set the number of tuples for which all models stand still. Raises KernelError (E424)."""
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            hint = "write a number of tuples, as in `batch=256` (as text: `batch 256`)"
            raise self.error(
                "E424", f"batch must be a whole number, not {kind_of(value)}", span, hint=hint
            )
        if not 1 <= value <= MAX_MERGE:
            hint = "`merge(v)` without a number is over the whole epoch"
            raise self.error(
                "E424", f"a batch of {value} tuples; it takes 1 to {MAX_MERGE}", span, hint=hint
            )
        self.batch = Option(int(value), span)

    def set_init(self, name: str, value: Any, span: Span) -> None:
        """Set a model's start; shapes are checked when they are known. Raises KernelError."""
        model = next((p for p in self.parameters if p.name == name), None)
        if model is None or model.kind != "model":
            models = ", ".join(p.name for p in self.of_kind("model"))
            what = (
                f"{name} is not a parameter of the kernel"
                if model is None
                else f"{name} is an {model.kind}, not a model"
            )
            what = what.replace("an m", "a m")
            raise self.error(
                "E444",
                f"init sets the start of models, but {what}",
                span,
                hint=f"its models are {models}",
            )
        if name in self.init:
            raise self.error(
                "E204",
                f"the start of {name} is given twice",
                span,
                (self.init[name].span, "first given here"),
                hint="leave one of them out",
            )
        self.init[name] = Option(checked_init(name, value, span, self.source), span)

    def _check_init(self, builder: AnalyticsBuilder) -> None:
        for name, option in self.init.items():
            check_init_shape(
                name, option.value, builder.shape(builder.variables[name]), option.span, self.source
            )


def checked_epochs(value: Any, span: Span, source: str | None = None) -> int:
    """Return the value where it is a number of epochs. Raises KernelError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        hint = "write the number of passes over the table, as in `epochs=10` (as text: `epochs 10`)"
        raise error(
            "E441",
            f"epochs must be a whole number, not {kind_of(value)}",
            span,
            hint=hint,
            source=source,
        )
    if not 1 <= value <= MAX_EPOCHS:
        hint = (
            "one pass over the table is the least"
            if value < 1
            else "`until` ends a run when the model is good enough"
        )
        raise error(
            "E441",
            f"epochs must be from 1 to {MAX_EPOCHS}, not {value}",
            span,
            hint=hint,
            source=source,
        )
    return int(value)


def checked_init(
    name: str, value: Any, span: Span, source: str | None = None
) -> float | np.ndarray | Uniform:
    """Return a model's start as a number, a float64 array or Uniform. Raises KernelError."""
    hint = "a model starts at a number, an array of its shape, or uniform(low, high, seed=1)"
    if isinstance(value, Uniform):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        raise error(
            "E442",
            f"the start of {name} has rows of different lengths",
            span,
            hint=hint,
            source=source,
        ) from None
    if array.dtype.kind not in "iuf" or array.ndim > 2 or array.size == 0:
        what = (
            f"an array of rank {array.ndim}"
            if array.dtype.kind in "iuf" and array.size
            else kind_of(value)
        )
        what = "an empty array" if array.dtype.kind in "iuf" and not array.size else what
        raise error(
            "E442", f"the model {name} cannot start at {what}", span, hint=hint, source=source
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise error("E442", f"the start of {name} is not finite", span, hint=hint, source=source)
    return array if array.ndim else float(array)


def check_init_shape(
    name: str, value: Any, shape: Sequence[int], span: Span, source: str | None = None
) -> None:
    """Check that a start fits its model; sizes that are not known yet fit everything. Raises KernelError (E443)."""
    if not isinstance(value, np.ndarray):
        return
    fits = len(shape) == value.ndim and all(
        size == have or (isinstance(size, D.Dim) and not size.known)
        for size, have in zip(shape, value.shape, strict=True)
    )
    if not fits:
        what = (
            f"give an array of the shape {D.show(shape)}, one number for all its elements,"
            if shape
            else "give one number,"
        )
        raise error(
            "E443",
            f"the start of {name} is {D.show(value.shape)}, but the model is {D.show(shape)}",
            span,
            hint=f"{what} or uniform(low, high, seed=1)",
            source=source,
        )
