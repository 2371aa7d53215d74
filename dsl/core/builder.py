"""Builds the graph: every operation of a kernel, from either front end, passes here and is checked here.

A `GraphBuilder` knows shapes and regions while the kernel runs, so that a diagnostic names the place where things went
wrong. Values are `Ref`s: indices of nodes. Equal operations on equal operands are one node; operations on constants are
done at once, in float64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..dialect import Dialect, Function
from . import dims as D
from . import hints
from .constants import constant_array, kind_of
from .diagnostics import KernelError, Span, error
from .graph import Region
from .kernel import Parameter
from .operations import ELEMENTWISE, OPERATIONS, REDUCTIONS, apply, spoken

#: a kernel with more operations than this is a runaway loop
MAX_OPERATIONS = 20_000


@dataclass(frozen=True)
class Ref:
    """A value of the kernel: the index of its node in the builder."""

    index: int
    is_kernel_value: ClassVar[bool] = True


#: what an operation takes: a value of the kernel, or a number or array that becomes a constant
Operand = Any


@dataclass
class _Node:
    op: str
    inputs: tuple[int, ...]
    shape: D.Shape
    region: Region
    span: Span
    attrs: dict[str, Any] = field(default_factory=dict)


class GraphBuilder:
    """The graph of one kernel while it grows.

    * `dialect`: the one whose functions the kernel may call.
    * `parameters`: the kernel's parameters, in order; each becomes a leaf.
    * `sizes`: the sizes of named dimensions; a name that is missing gets a stand-in, so that the kernel can
      be checked without its data.
    """

    #: when the parameters' values change, by kind; once a tuple unless given
    regions: ClassVar[Mapping[str, Region]] = {}

    def __init__(
        self,
        dialect: Dialect,
        parameters: Sequence[Parameter],
        sizes: Mapping[str, int],
        source: str | None = None,
    ) -> None:
        self.dialect = dialect
        self.source = source
        self.nodes: list[_Node] = []
        self.variables: dict[str, Ref] = {}
        self.names: dict[str, D.Dim] = {
            name: D.Dim(int(size), name) for name, size in sizes.items()
        }
        self._known: dict[tuple[Any, ...], int] = {}
        self._steps = 0
        #: names of dimensions whose size the kernel asked for before it was known
        self.measured: dict[str, None] = {}
        for p in parameters:
            shape = self.declared(p)
            region = self.regions.get(p.kind, Region.TUPLE)
            self.variables[p.name] = self.add(p.kind, (), shape, region, p.span, {"name": p.name})

    def declared(self, parameter: Parameter) -> D.Shape:
        """Return the shape of the value that a parameter stands for."""
        return tuple(self._size(dim) for dim in parameter.dims)

    def _size(self, dim: int | str) -> int:
        if isinstance(dim, int):
            return dim
        if dim not in self.names:
            self.names[dim] = D.Dim.stand_in(dim, len(self.names))
        return self.names[dim]

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions that the kernel may call, by name."""
        return self.dialect.functions

    def computes(self, span: Span) -> None:
        """Raise KernelError where this kind of kernel computes nothing with its values."""

    # what a dialect may have besides the operations on values; None where it has not

    def special_operator(self, symbol: str, operands: Sequence[Operand], span: Span) -> Ref | None:
        """Apply an operator to operands that are no values of the common kind."""
        return None

    def select(self, value: Operand, items: Sequence[Any], span: Span) -> Ref | None:
        """Index by values of the kernel."""
        return None

    def attribute(self, ref: Ref, name: str, span: Span) -> Any:
        """Return an attribute that values have in Python."""
        return None

    #: what to do where there is no such operator
    operators_hint = "the operators are + - * / @ ** < > <= >="

    @property
    def elements_hint(self) -> str:
        """What to do instead of an assignment to elements."""
        return "compute a whole new value, for example with where and a vector of zeros and ones"

    @staticmethod
    def name_of(op: str) -> str:
        """Return what messages call an operation."""
        return spoken(op) if op in OPERATIONS else op

    @property
    def sizes_wanted(self) -> str:
        """How a hint begins where a size that is not known may be the cause."""
        options = " ".join(f"--dim {name}=SIZE" for name in self.measured)
        return f"give the sizes that it asks for with {options}; " * bool(options)

    # -- values ------------------------------------------------------------------------------------------------------

    def shape(self, ref: Ref) -> D.Shape:
        return self.nodes[ref.index].shape

    def region(self, ref: Ref) -> Region:
        return self.nodes[ref.index].region

    def leaf(self, ref: Ref) -> tuple[str, str] | None:
        """Return the kind and name of the variable that the value is, or None."""
        node = self.nodes[ref.index]
        return (node.op, node.attrs["name"]) if node.op in self.dialect.kinds else None

    def constant(self, value: Any, span: Span) -> Ref:
        """Return the constant for a number or an array of numbers up to rank 2."""
        array = constant_array(value, span, self.source)
        stored: Any = float(array) if array.ndim == 0 else array
        return self.add("const", (), array.shape, Region.RUN, span, {"value": stored})

    def number(self, value: Operand) -> float | None:
        """Return the number that an operand is: a constant scalar or a Python number, else None."""
        if isinstance(value, Ref):
            node = self.nodes[value.index]
            return float(node.attrs["value"]) if node.op == "const" and not node.shape else None
        return (
            float(value)
            if isinstance(value, (int, float, np.integer, np.floating))
            and not isinstance(value, bool)
            else None
        )

    def operand(self, value: Operand, span: Span) -> Ref:
        return value if isinstance(value, Ref) else self.constant(value, span)

    # -- operations --------------------------------------------------------------------------------------------------

    def elementwise(self, op: str, operands: Sequence[Operand], span: Span) -> Ref:
        """Add an elementwise operation with NumPy broadcasting."""
        operation = ELEMENTWISE[op]
        assert len(operation.operands) == len(operands), op
        refs = [self.operand(value, span) for value in operands]
        shapes = [self.shape(ref) for ref in refs]
        shape = D.broadcast(shapes)
        if shape is None:
            listed = (
                " and ".join(D.show(s) for s in shapes)
                if len(shapes) == 2
                else ", ".join(D.show(s) for s in shapes)
            )
            raise self._shape_error(
                "E301",
                f"the operands of {spoken(op)} have shapes that do not fit together: {listed}",
                refs,
                span,
            )
        divisor = None if operation.nonzero is None else self.nodes[refs[operation.nonzero].index]
        if divisor is not None and divisor.op == "const" and not np.all(divisor.attrs["value"]):
            raise self.error("E213", "a division by the constant 0", span, hint=hints.ZERO)
        return self.operation(op, refs, shape, span)

    def reduce(self, op: str, value: Operand, axis: int | None, span: Span) -> Ref:
        """Add a reduction over everything (axis None) or over one axis; of a scalar it is the scalar itself (norm: its
        magnitude).
        """
        operation = REDUCTIONS[op]
        ref = self.operand(value, span)
        shape = self.shape(ref)
        axis = self.axis(op, ref, axis, span)
        if not shape:
            return self.elementwise(operation.scalar, [ref], span) if operation.scalar else ref
        result = () if axis is None else tuple(size for i, size in enumerate(shape) if i != axis)
        return self.operation(op, [ref], result, span, {"axis": axis})

    def axis(self, name: str, ref: Ref, axis: int | None, span: Span) -> int | None:
        """Return which axis a reduction of the value is over: 0 or 1 of a matrix; None for all there is, the one spelling
        of it in the graph. Raises KernelError (E302).
        """
        if axis is None:
            return None
        shape = self.shape(ref)
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
            raise self.error(
                "E302",
                f"the axis of {name} must be a whole number, not {kind_of(axis)}",
                span,
                hint="leave axis out to reduce over everything",
            )
        axis = int(axis)
        if not -len(shape) <= axis < len(shape):
            many = (
                f"has {plural(len(shape), 'axis', 'axes')}"
                if shape
                else "is a scalar and has no axis"
            )
            legal = "" if not shape else "axis=0" if len(shape) == 1 else "axis=0 or axis=1"
            raise self.error(
                "E302",
                f"{name} over axis {axis} of a value that {many}",
                span,
                (self.nodes[ref.index].span, self.label(ref)),
                hint=f"use {legal}, or leave axis out" if legal else "leave axis out",
            )
        return axis % len(shape) if len(shape) == 2 else None

    def matmul(self, left: Operand, right: Operand, span: Span) -> Ref:
        """Add a product of vectors and matrices, NumPy's rules up to rank 2."""
        refs = [self.operand(left, span), self.operand(right, span)]
        shapes = [self.shape(ref) for ref in refs]
        shape = D.matmul(*shapes)
        if shape is None:
            if not all(shapes):
                raise self._shape_error(
                    "E304",
                    f"@ multiplies vectors and matrices, not {' and '.join(map(D.show, shapes))}",
                    refs,
                    span,
                    hint="use * with a scalar",
                )
            listed = f"{D.show(shapes[0])} @ {D.show(shapes[1])}"
            message = f"@ needs the last dimension of its left side to be the first of its right side: {listed}"
            raise self._shape_error(
                "E304", message, refs, span, hint=hints.matmul(*map(self._operand, refs))
            )
        return self.operation("matmul", refs, shape, span)

    def outer(self, left: Operand, right: Operand, span: Span) -> Ref:
        refs = [self.operand(left, span), self.operand(right, span)]
        shapes = [self.shape(ref) for ref in refs]
        if any(len(shape) != 1 for shape in shapes):
            scalar = not all(shapes)
            raise self._shape_error(
                "E305",
                f"outer takes two vectors, not {' and '.join(map(D.show, shapes))}",
                refs,
                span,
                hint="use * with a scalar"
                if scalar
                else "multiply matrices with @, or element by element with *",
            )
        return self.operation("outer", refs, shapes[0] + shapes[1], span)

    def transpose(self, value: Operand, span: Span) -> Ref:
        ref = self.operand(value, span)
        shape = self.shape(ref)
        return ref if len(shape) < 2 else self.operation("transpose", [ref], shape[::-1], span)

    def expand(self, value: Operand, axis: int, span: Span) -> Ref:
        """Put in a dimension of one at `axis`."""
        ref = self.operand(value, span)
        shape = self.shape(ref)
        if len(shape) == 2:
            raise self.error(
                "E303",
                "this makes a value of rank 3; values have at most two dimensions",
                span,
                (self.nodes[ref.index].span, self.label(ref)),
                hint="leave None out, or reduce the matrix over an axis first, as in sum(v, axis=0)",
            )
        return self.operation(
            "expand", [ref], (*shape[:axis], 1, *shape[axis:]), span, {"axis": axis}
        )

    # -- common ------------------------------------------------------------------------------------------------------

    def error(
        self, code: str, message: str, span: Span, *notes: tuple[Span, str], hint: str
    ) -> KernelError:
        return error(code, message, span, *notes, hint=hint, source=self.source)

    def _shape_error(
        self, code: str, message: str, refs: Sequence[Ref], span: Span, hint: str = ""
    ) -> KernelError:
        notes = []
        for ref in dict.fromkeys(refs):
            node = self.nodes[ref.index]
            if node.span != span:
                notes.append((node.span, self.label(ref)))
        names = D.unresolved(*(self.shape(ref) for ref in refs))
        if not names and not hint:
            hint = hints.broadcast([self._operand(ref) for ref in refs])
        if names and not hint:
            options = " ".join(f"--dim {name}=SIZE" for name in names)
            hint = f"the size of {names[0]} is not known here; give it with {options}"
            if len(names) > 1:
                hint = f"use one name where sizes agree, or give the sizes with {options}"
        return self.error(code, message, span, *notes, hint=hint)

    def label(self, ref: Ref) -> str:
        """Return what a note says about the shape of a value."""
        leaf = self.leaf(ref)
        shape = self.shape(ref)
        return f"{leaf[1] if leaf else 'this'} is {D.show(shape)}"

    def _operand(self, ref: Ref) -> hints.Operand:
        leaf = self.leaf(ref)
        return leaf[1] if leaf else "", self.shape(ref)

    def region_of(self, refs: Sequence[Ref], span: Span) -> Region:
        """Return when an operation on the values is computed: with the last of them."""
        return max((self.region(ref) for ref in refs), key=lambda region: region.value)

    def operation(
        self,
        op: str,
        refs: Sequence[Ref],
        shape: D.Shape,
        span: Span,
        attrs: dict[str, Any] | None = None,
        region: Region | None = None,
    ) -> Ref:
        """Add an operation whose operands were checked; one on constants is done at once."""
        operands = [self.nodes[ref.index] for ref in refs]
        if region is None:
            region = self.region_of(refs, span)
        if all(node.op == "const" for node in operands):
            with np.errstate(all="ignore"):
                value = apply(
                    op, [np.asarray(node.attrs["value"]) for node in operands], attrs or {}
                )
            return self.constant(value, span)
        return self.add(op, tuple(ref.index for ref in refs), shape, region, span, attrs or {})

    def add(
        self,
        op: str,
        inputs: tuple[int, ...],
        shape: D.Shape,
        region: Region,
        span: Span,
        attrs: dict[str, Any],
    ) -> Ref:
        """Add a node, or find the one that is equal to it. Raises KernelError (E107) where there are too many."""
        self._steps += 1
        if self._steps > MAX_OPERATIONS:
            raise self.error(
                "E107",
                f"the kernel has more than {MAX_OPERATIONS} operations",
                span,
                hint=self.sizes_wanted
                + "compute with whole vectors, as in sum(v); a Python loop is unrolled while the kernel is traced: does it end?",
            )
        key: tuple[Any, ...]
        if op == "const":
            value = np.asarray(attrs["value"])
            key = (op, value.shape, value.tobytes())
        else:
            key = (op, inputs, *sorted(attrs.items()))
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(_Node(op, inputs, shape, region, span, attrs))
        return Ref(self._known[key])


def plural(count: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{count} {one if count == 1 else many}"
