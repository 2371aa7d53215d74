"""Columns to variables: which column of a table feeds which input or output, and what sizes follow from that.

A variable takes the columns that `--bind` names for it; else the column of its own name (an array for a vector or matrix,
any number for a scalar). If the kernel has one input and neither applies, it takes all numeric columns that nothing else
took, in the table's order. Dimension names get their sizes from the elements found.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...models.heap.schema import Column, Schema
from .bind_index import BoundIndex, Counts, bind_indices, is_index
from .diagnostics import KernelError, Span
from .dims import LARGE_HINT, MAX_DIM
from .graph import Graph
from .hints import closest
from .kernel import AnyKernel, Parameter


@dataclass(frozen=True)
class Source:
    """A run of elements of one column: attribute index in the schema (from 0), first element, number of elements."""

    attribute: int
    first: int
    count: int


@dataclass(frozen=True)
class Binding:
    """Where every input, output and index comes from (elements in row-major order), and the sizes of all the kernel's dimensions."""

    fields: dict[str, tuple[Source, ...]]
    dims: dict[str, int]
    indices: dict[str, BoundIndex] = field(default_factory=dict)


@dataclass
class _Take:
    """The columns of one variable, by attribute index; whether the user chose them."""

    columns: list[int]
    chosen: bool = False


#: see `bind`
Unusable = Callable[[str], tuple[str, str] | None]


def bind(
    kernel: AnyKernel,
    schema: Schema,
    bindings: Mapping[str, Sequence[str]] | None = None,
    dims: Mapping[str, int] | None = None,
    unusable: Unusable | None = None,
    counts: Counts | None = None,
) -> Binding:
    """Return the binding of a kernel to a table. Raises KernelError.

    * `bindings`: for some variables, the names of their columns in order.
    * `dims`: sizes that the user gave.
    * `unusable`: for a column's name, why it cannot feed a kernel (in words that follow the name) and what to
      do; None where nothing is known against it.
    * `counts`: of a column of integers by its name, how far it counts, where a table says it.
    """
    sizes = dict(dims or {})
    kernel.check_dims(sizes)
    return Binder(kernel, schema, bindings or {}, sizes, unusable or (lambda column: None)).run(
        counts
    )


class Binder:
    def __init__(
        self,
        kernel: AnyKernel,
        schema: Schema,
        bindings: Mapping[str, Sequence[str]],
        dims: dict[str, int],
        unusable: Unusable,
    ) -> None:
        self.kernel = kernel
        self.unusable = unusable
        self.schema = schema
        self.bindings = bindings
        self.dims = dims
        self.origin: dict[str, tuple[Span, str]] = {
            name: (kernel.name_span, f"{name} was given as {size}") for name, size in dims.items()
        }
        self.variables = [p for p in kernel.parameters if p.kind in ("input", "output")]
        self.indices = kernel.of_kind("index")
        self.known = frozenset(dims)
        self.takes: dict[str, _Take] = {}
        self.owner: dict[int, Parameter] = {}

    def run(self, far: Counts | None = None) -> Binding:
        self.explicit()
        self.by_name()
        self.rest()
        counts = self.counts()
        self.known = frozenset(self.dims)
        indices = bind_indices(self, far) if self.indices else {}
        self.resolve_models()
        self.defaults(counts)
        fields = {
            p.name: tuple(Source(i, 0, counts[i]) for i in self.takes[p.name].columns)
            for p in self.variables
        }
        return Binding(
            fields, {name: int(self.dims[name]) for name in self.kernel.dim_names}, indices
        )

    # -- which columns -----------------------------------------------------------------------------------------------

    def explicit(self) -> None:
        known = {p.name: p for p in (*self.variables, *self.indices)}
        for name, columns in self.bindings.items():
            if name not in known:
                hint = closest(name, known) or f"columns can be bound to {', '.join(known)}"
                raise self.error(
                    "E616",
                    f"the kernel {self.kernel.name} has no input or output {name}",
                    self.kernel.name_span,
                    hint=hint,
                )
            take = _Take([], chosen=True)
            self.takes[name] = take
            for column in columns:
                take.columns.append(self.take(known[name], self.find(known[name], column)))
            if not take.columns:
                raise self.error(
                    "E611", f"no column is given for {name}", known[name].span, hint=self.listing()
                )

    def find(self, parameter: Parameter, column: str) -> int:
        try:
            return self.schema.index(column)
        except KeyError:
            self.refuse(parameter, column)
            close = closest(column, (c.name for c in self.schema.columns if not c.dropped))
            raise self.error(
                "E611",
                f"the table {self.schema.table} has no column {column}",
                parameter.span,
                hint=close or self.listing(),
            ) from None

    def refuse(self, parameter: Parameter, column: str) -> None:
        """Raise KernelError where something is known against a column."""
        known = self.unusable(column)
        if known is not None:
            message = f"{parameter.name} cannot take the column {column}: it {known[0]}"
            hint = f"{known[1]}; {self.listing()}"
            raise self.error("E613", message, parameter.span, hint=hint)

    def take(self, parameter: Parameter, index: int) -> int:
        column = self.schema.columns[index]
        if parameter.kind == "index" and not is_index(column):
            raise self.no_index(parameter, column)
        if parameter.kind != "index" and not column.is_numeric:
            self.refuse(parameter, column.name)
            raise self.error(
                "E613",
                f"{parameter.name} cannot take the column {column.name}: its type {column.type} is not numeric",
                parameter.span,
                hint=self.listing(),
            )
        if index in self.owner:
            other = self.owner[index]
            notes = [(other.span, f"{other.name} takes it too")] if other is not parameter else []
            raise self.error(
                "E612",
                f"the column {column.name} is used twice",
                parameter.span,
                *notes,
                hint="every column feeds one variable, once",
            )
        self.owner[index] = parameter
        return index

    def no_index(self, parameter: Parameter, column: Column) -> KernelError:
        message = f"the index {parameter.name} cannot take the column {column.name}: its type {column.type} is no integer"
        hint = "whole numbers, dates and arrays of whole numbers are indices"
        if column.type == "text":
            hint = f"texts become categories where the source names them: ?features={column.name}"
        elif column.type.startswith("float") and column.is_array:
            hint += f"; a table that is opened before keeps them by open_table(…, indices=['{column.name}'])"
        elif column.type.startswith("float"):
            hint += "; in pandas .astype('Int64') makes whole numbers of floats, .dt.normalize() dates of moments, in SQL ::bigint and ::date"
        return self.error("E613", message, parameter.span, hint=hint)

    def by_name(self) -> None:
        for parameter in (*self.variables, *self.indices):
            if parameter.name in self.takes:
                continue
            column = next(
                (c for c in self.schema.columns if c.name == parameter.name and not c.dropped), None
            )
            if column is None or (
                parameter.kind != "index"
                and parameter.dims
                and not column.is_array
                and column.is_numeric
            ):
                continue  # a number of that name is not the vector
            index = self.schema.columns.index(column)
            if index in self.owner:
                continue
            self.takes[parameter.name] = _Take([self.take(parameter, index)])

    def rest(self) -> None:
        inputs = self.kernel.of_kind("input")
        for parameter in (*self.variables, *self.indices):
            if parameter.name in self.takes:
                continue
            if parameter.kind == "input" and len(inputs) == 1 and self.free():
                # outputs come first: they may still find their column by name
                continue
            self.refuse(parameter, parameter.name)
            what = "array column" if parameter.dims else "numeric column"
            what = "column" if parameter.kind == "index" else what
            why = f"the table {self.schema.table} has no {what} of that name"
            names = [None if c.dropped else c.name for c in self.schema.columns]
            taken = names.index(parameter.name) if parameter.name in names else None
            if taken is not None and taken in self.owner:
                why = f"the column of that name feeds {self.owner[taken].name}"
            message = f"the {parameter.kind} {parameter.name} has no column: {why}"
            hint = f"say which with --bind {parameter.name}=COLUMN; {self.listing()}"
            raise self.error("E617", message, parameter.span, hint=hint)
        for parameter in inputs:
            if parameter.name not in self.takes:
                self.takes[parameter.name] = _Take([self.take(parameter, i) for i in self.free()])

    def free(self) -> list[int]:
        """The numeric columns that nothing has taken."""
        columns = enumerate(self.schema.columns)
        return [i for i, c in columns if c.is_numeric and i not in self.owner]

    # -- how many elements -------------------------------------------------------------------------------------------

    def counts(self) -> dict[int, int]:
        """The elements of every column used; sizes of dimensions are settled on the way."""
        counts: dict[int, int] = {}
        waiting = list(self.variables)
        while waiting:
            left = []
            for parameter in waiting:
                if not self.settle(parameter, counts):
                    left.append(parameter)
            if len(left) == len(waiting):
                raise self.stuck(left[0], counts)
            waiting = left
        return counts

    def defaults(self, counts: dict[int, int]) -> None:
        """Raise KernelError where rows older than an array column have arrays of another length there."""
        for index, count in counts.items():
            column = self.schema.columns[index]
            if isinstance(column.missing, list) and len(column.missing) != count:
                parameter = self.owner[index]
                self.refuse(parameter, column.name)
                raise self.error(
                    "E614",
                    f"{parameter.name} takes {_elements(count)} of the column {column.name}, "
                    f"but its default for older rows has {len(column.missing)}",
                    parameter.span,
                    hint="UPDATE these rows, or take a table whose arrays have one length",
                )

    def length(self, column: Column) -> int | None:
        return column.length if column.is_array else 1

    def settle(self, parameter: Parameter, counts: dict[int, int]) -> bool:
        """Match a variable with its columns. Returns False where sizes are still missing."""
        indices = self.takes[parameter.name].columns
        lengths = [self.length(self.schema.columns[i]) for i in indices]
        unknown = [i for i, n in zip(indices, lengths, strict=True) if n is None]
        have = sum(n for n in lengths if n is not None)
        sizes = [d if isinstance(d, int) else self.dims.get(d) for d in parameter.dims]
        want = math.prod(s for s in sizes if s is not None)
        open_dims = [d for d, s in zip(parameter.dims, sizes, strict=True) if s is None]
        if unknown:
            if open_dims or len(unknown) > 1:
                return False
            counts[unknown[0]] = want - have
            if counts[unknown[0]] < 1:
                raise self.mismatch(parameter, have + 1, want)  # an array has one at least
        elif len(set(open_dims)) > 1:
            return False
        elif open_dims:
            name = str(open_dims[0])
            power = open_dims.count(name)
            size = round((have / want) ** (1 / power))
            if want * size**power != have:
                raise self.mismatch(parameter, have, want)
            self.define(name, size, parameter)
        elif have != want:
            raise self.mismatch(parameter, have, want)
        for i, n in zip(indices, lengths, strict=True):
            if n is not None:
                counts[i] = n
        return True

    def define(self, name: str, size: int, parameter: Parameter) -> None:
        if size > MAX_DIM:
            hint = f"bind fewer columns to {parameter.name}: {LARGE_HINT}"
            raise self.error(
                "E307",
                f"a dimension of {size}; the largest is {MAX_DIM}",
                parameter.span,
                hint=hint,
            )
        self.dims[name] = size
        self.origin[name] = (
            parameter.span,
            f"{name} is {size} because of the columns of {parameter.name}",
        )

    def mismatch(self, parameter: Parameter, have: int, want: int) -> KernelError:
        columns = self.takes[parameter.name]
        named = [self.schema.columns[i] for i in columns.columns]
        shown = ", ".join(
            f"{c.name}[{c.length}]"
            if c.is_array and c.length
            else f"{c.name}[]"
            if c.is_array
            else c.name
            for c in named[:8]
        )
        shown += ", …" if len(named) > 8 else ""
        notes = [self.origin[d] for d in parameter.dims if isinstance(d, str) and d in self.origin]
        sizes = [f"{d}={self.dims[d]}" if d in self.dims else str(d) for d in parameter.dims]
        shape = f"[{', '.join(sizes)}]" if sizes else "a scalar"
        if self.open(parameter):
            message = f"{parameter.name} is {shape}, which does not divide the {_elements(have)} of its columns: {shown}"
        else:
            message = f"{parameter.name} is {shape} and takes {_elements(want)}, but its columns have {have}: {shown}"
        code = "E615" if notes else "E614"
        hint = f"choose its columns with --bind {parameter.name}=COLUMN,COLUMN"
        if columns.chosen:
            hint = f"name columns of {_elements(want)} together in --bind {parameter.name}=…; {self.listing()}"
            if len(parameter.dims) == 1 and isinstance(parameter.dims[0], str):
                hint = f"write --dim {parameter.dims[0]}={have}, or {hint}"
            elif not parameter.dims:
                hint = f"{parameter.name} is one number: name one column; {self.listing()}"
        if self.open(parameter):
            hint = f"choose columns of a multiple of {_elements(want)} with --bind {parameter.name}=…, or give all sizes with --dim"
        return self.error(code, message, parameter.span, *notes, hint=hint)

    def open(self, parameter: Parameter) -> bool:
        return any(isinstance(d, str) and d not in self.dims for d in parameter.dims)

    def stuck(self, parameter: Parameter, counts: dict[int, int]) -> KernelError:
        for index in self.takes[parameter.name].columns:
            column = self.schema.columns[index]
            if self.length(column) is None:
                self.refuse(parameter, column.name)
                return self.error(
                    "E618",
                    f"the length of the array column {column.name} is not known",
                    parameter.span,
                    hint='write it into the schema ("length"), or give the sizes of the kernel\'s dimensions with --dim',
                )
        name = next(d for d in parameter.dims if isinstance(d, str) and d not in self.dims)
        return self.unresolved(str(name), parameter)

    def unresolved(self, name: str, parameter: Parameter) -> KernelError:
        return self.error(
            "E505",
            f"the size of dimension {name} is not known",
            parameter.span,
            hint=f"give it with --dim {name}=SIZE",
        )

    def resolve_models(self) -> None:
        for parameter in self.kernel.parameters:
            for dim in parameter.dims:
                if isinstance(dim, str) and dim not in self.dims:
                    raise self.unresolved(dim, parameter)

    def listing(self) -> str:
        columns = [c.name for c in self.schema.columns if c.is_numeric]
        shown = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
        return f"its numeric columns are {shown}" if columns else "it has no numeric column"

    def error(
        self, code: str, message: str, span: Span, *notes: tuple[Span, str], hint: str
    ) -> KernelError:
        return self.kernel.error(code, message, span, *notes, hint=hint)


def _elements(count: int) -> str:
    return f"{count} element" if count == 1 else f"{count} elements"


def schema_for(graph: Graph, bindings: Mapping[str, Sequence[str]] | None = None) -> Schema:
    """Return the schema of a table made for the kernel: one `float4` or `float4[]` column for each input and output (for
    random data), `int4` or `int4[]` for each index. A variable of which `bindings` name as many columns as it has elements has these, `float4 NOT NULL`.
    """
    columns = []
    for variable in (*graph.of_kind("output"), *graph.of_kind("input")):
        size = math.prod(variable.shape)
        names = tuple(bindings.get(variable.name, ())) if bindings else ()
        if names and len(names) == size:
            columns += [Column(name, "float4", not_null=True) for name in names]
            continue
        columns.append(
            Column(variable.name, "float4[]", length=size)
            if variable.shape
            else Column(variable.name, "float4")
        )
    for variable in graph.of_kind("index"):
        places = variable.shape[0] if variable.shape else None
        kind = "int4[]" if variable.shape else "int4"
        columns.append(Column(variable.name, kind, length=places))
    return Schema("random", tuple(columns))
