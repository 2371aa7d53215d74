"""Builds the graph: every operation of a kernel, from either front end, passes here and is checked here.

A `GraphBuilder` knows shapes and regions while the kernel runs, so that a diagnostic names the place where things went
wrong. Values are `Ref`s: indices of nodes. Equal operations on equal operands are one node; operations on constants are
done at once, in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from . import dims as D
from . import hints
from .constants import constant_array, kind_of
from .diagnostics import KernelError, Span, error
from .evaluate import apply as evaluate
from .graph import ELEMENTWISE, REDUCTIONS, Region

if TYPE_CHECKING:
    from .kernel import Parameter

__all__ = ["MAX_OPERATIONS", "GraphBuilder", "Operand", "Ref"]

#: a kernel with more operations than this is a runaway loop
MAX_OPERATIONS = 20_000
#: the largest batch of a merge, in tuples
MAX_MERGE = 1 << 24

#: how messages call an operation
_SPOKEN = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "gt": ">",
    "le": "<=",
    "ge": ">=",
    "neg": "unary -",
    "matmul": "@",
}
_MERGE_OPS = {"+": "add", "*": "mul", "max": "max", "min": "min"}


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

    Parameters
    ----------
    parameters: the kernel's parameters, in order; each becomes a leaf.
    sizes: the sizes of named dimensions; a name that is missing gets a stand-in, so that the kernel can be checked without
    its data.
    """

    #: whether it is a fit kernel's (`fit.FitBuilder`)
    fits: ClassVar[bool] = False

    def __init__(self, parameters: Sequence[Parameter], sizes: dict[str, int], source: str | None = None) -> None:
        self.source = source
        self.nodes: list[_Node] = []
        self.variables: dict[str, Ref] = {}
        self.until: tuple[Ref, Span] | None = None
        self.merges: list[int] = []
        self.names: dict[str, D.Dim] = {name: D.Dim(size, name) for name, size in sizes.items()}
        self._known: dict[tuple[Any, ...], int] = {}
        self._steps = 0
        for parameter in parameters:
            shape = tuple(self._size(dim) for dim in parameter.dims)
            region = {"input": Region.TUPLE, "output": Region.TUPLE, "model": Region.MODEL, "meta": Region.RUN}[parameter.kind]
            self.variables[parameter.name] = self._add(
                parameter.kind, (), shape, region, parameter.span, {"name": parameter.name}
            )

    def _size(self, dim: int | str) -> int:
        if isinstance(dim, int):
            return dim
        if dim not in self.names:
            self.names[dim] = D.Dim.stand_in(dim, len(self.names))
        return self.names[dim]

    @property
    def functions(self) -> Mapping[str, Any]:
        """The functions that the kernel may call, by name."""
        from .functions import FUNCTIONS

        return FUNCTIONS

    def computes(self, span: Span) -> None:
        """Raise KernelError where this kind of kernel computes nothing with its values."""

    def fit(self, name: str, a: Mapping[str, Any], span: Span) -> Ref:
        """Add a step of a fit kernel: the functions of others have none."""
        raise AssertionError(name)

    # -- values ------------------------------------------------------------------------------------------------------

    def shape(self, ref: Ref) -> D.Shape:
        return self.nodes[ref.index].shape

    def region(self, ref: Ref) -> Region:
        return self.nodes[ref.index].region

    def leaf(self, ref: Ref) -> tuple[str, str] | None:
        """Return the kind and name of the variable that the value is, or None."""
        node = self.nodes[ref.index]
        return (node.op, node.attrs["name"]) if node.op in ("input", "output", "model", "meta") else None

    def constant(self, value: Any, span: Span) -> Ref:
        """Return the constant for a number or an array of numbers up to rank 2."""
        array = constant_array(value, span, self.source)
        stored: Any = float(array) if array.ndim == 0 else array
        return self._add("const", (), array.shape, Region.RUN, span, {"value": stored})

    def number(self, value: Operand) -> float | None:
        """Return the number that an operand is: a constant scalar or a Python number, else None."""
        if isinstance(value, Ref):
            node = self.nodes[value.index]
            return float(node.attrs["value"]) if node.op == "const" and not node.shape else None
        return float(value) if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool) else None

    def operand(self, value: Operand, span: Span) -> Ref:
        return value if isinstance(value, Ref) else self.constant(value, span)

    # -- operations --------------------------------------------------------------------------------------------------

    def elementwise(self, op: str, operands: Sequence[Operand], span: Span) -> Ref:
        """Add an elementwise operation with NumPy broadcasting."""
        assert ELEMENTWISE[op] == len(operands), op
        refs = [self.operand(value, span) for value in operands]
        shapes = [self.shape(ref) for ref in refs]
        shape = D.broadcast(shapes)
        if shape is None:
            listed = " and ".join(D.show(s) for s in shapes) if len(shapes) == 2 else ", ".join(D.show(s) for s in shapes)
            raise self._shape_error(
                "E301", f"the operands of {_spoken(op)} have shapes that do not fit together: {listed}", refs, span
            )
        divisor = self.nodes[refs[1].index] if op == "div" else None
        if divisor is not None and divisor.op == "const" and not np.all(divisor.attrs["value"]):
            raise self.error("E213", "a division by the constant 0", span, hint=hints.ZERO)
        return self._operation(op, refs, shape, span)

    def reduce(self, op: str, value: Operand, axis: int | None, span: Span) -> Ref:
        """Add a reduction over everything (axis None) or over one axis; of a scalar it is the scalar itself (norm: its
        magnitude).
        """
        assert op in REDUCTIONS, op
        ref = self.operand(value, span)
        shape = self.shape(ref)
        if axis is not None:
            if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
                raise self.error(
                    "E302",
                    f"the axis of {op} must be a whole number, not {kind_of(axis)}",
                    span,
                    hint="leave axis out to reduce over everything",
                )
            axis = int(axis)
            if not -len(shape) <= axis < len(shape):
                many = f"has {_plural(len(shape), 'axis', 'axes')}" if shape else "is a scalar and has no axis"
                legal = "" if not shape else "axis=0" if len(shape) == 1 else "axis=0 or axis=1"
                raise self.error(
                    "E302",
                    f"{op} over axis {axis} of a value that {many}",
                    span,
                    (self.nodes[ref.index].span, self.label(ref)),
                    hint=f"use {legal}, or leave axis out" if legal else "leave axis out",
                )
            axis %= len(shape)
            if len(shape) == 1:
                axis = None  # the same as the whole: one spelling in the graph
        if not shape:
            return self.elementwise("abs", [ref], span) if op == "norm" else ref
        result = () if axis is None else tuple(size for i, size in enumerate(shape) if i != axis)
        return self._operation(op, [ref], result, span, {"axis": axis})

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
            raise self._shape_error("E304", message, refs, span, hint=hints.matmul(*map(self._operand, refs)))
        return self._operation("matmul", refs, shape, span)

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
                hint="use * with a scalar" if scalar else "multiply matrices with @, or element by element with *",
            )
        return self._operation("outer", refs, shapes[0] + shapes[1], span)

    def transpose(self, value: Operand, span: Span) -> Ref:
        ref = self.operand(value, span)
        shape = self.shape(ref)
        return ref if len(shape) < 2 else self._operation("transpose", [ref], shape[::-1], span)

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
        return self._operation("expand", [ref], (*shape[:axis], 1, *shape[axis:]), span, {"axis": axis})

    def merge(self, value: Operand, count: Any, op: Any, span: Span) -> Ref:
        """Add a merge: combine a value over `count` tuples in row order (None: over the epoch)."""
        ref = self.operand(value, span)
        if count is None:
            tuples = 0
        else:
            if isinstance(count, Ref) or isinstance(count, bool) or not isinstance(count, (int, np.integer)):
                raise self.error(
                    "E424",
                    f"the number of tuples of a merge must be a whole number, not {kind_of(count)}",
                    span,
                    hint="write it out, as in merge(v, 16), or leave it out to merge over the whole epoch",
                )
            tuples = int(count)
            if not 1 <= tuples <= MAX_MERGE:
                raise self.error(
                    "E424",
                    f"a merge over {tuples} tuples; it takes 1 to {MAX_MERGE}",
                    span,
                    hint="leave the number out to merge over the whole epoch",
                )
        if not isinstance(op, str) or op not in _MERGE_OPS:
            raise self.error(
                "E425",
                f"a merge cannot use the operation {op!r}"
                if isinstance(op, str)
                else f"the operation of a merge must be a string, not {kind_of(op)}",
                span,
                hint='known are "+", "*", "max" and "min"',
            )
        node = self.nodes[ref.index]
        if node.region is Region.MERGED:
            inner = self._merge_before(ref.index)
            raise self.error(
                "E422",
                "this value was merged already; merges cannot be nested",
                span,
                (self.nodes[inner].span, "merged here"),
                hint="merge once and compute with the result",
            )
        if node.region is not Region.TUPLE:
            raise self.error(
                "E421",
                "only a value that depends on the tuple can be merged",
                span,
                (node.span, "this is the same for every tuple of a batch"),
                hint="use the value without merge",
            )
        for other in self.merges:
            first = self.nodes[other]
            if first.attrs["count"] != tuples:
                raise self.error(
                    "E423",
                    f"all merges of a kernel span the same batch: {_tuples(tuples)} here, {_tuples(first.attrs['count'])} before",
                    span,
                    (first.span, f"merged over {_tuples(first.attrs['count'])} here"),
                    hint=hints.merges(tuples, first.attrs["count"]),
                )
        result = self._operation("merge", [ref], node.shape, span, {"count": tuples, "op": _MERGE_OPS[op]}, Region.MERGED)
        if result.index not in self.merges:
            self.merges.append(result.index)
        return result

    def stop_when(self, condition: Operand, span: Span) -> None:
        """Record the kernel's `until`."""
        if self.until is not None:
            raise self.error(
                "E433",
                "a kernel has one until",
                span,
                (self.until[1], "the first one is here"),
                hint="join two conditions with * (both hold) or + (one of them holds)",
            )
        ref = self.operand(condition, span)
        node = self.nodes[ref.index]
        if node.shape:
            raise self.error(
                "E431",
                f"until takes a scalar, not {D.show(node.shape)}",
                span,
                (node.span, self.label(ref)),
                hint="reduce it first, as in until(norm(v) < 0.01)",
            )
        if node.region is Region.TUPLE:
            raise self.error(
                "E432",
                "until is tested once an epoch, but its condition depends on single tuples",
                span,
                (node.span, "this has a value for every tuple"),
                hint="merge the value first",
            )
        if node.region is Region.RUN:
            raise self.error(
                "E434",
                "the condition of until never changes during a run",
                span,
                (node.span, "this is fixed for a run"),
                hint="let it depend on a merged value or on the model",
            )
        self.until = (ref, span)

    # -- common ------------------------------------------------------------------------------------------------------

    def error(self, code: str, message: str, span: Span, *notes: tuple[Span, str], hint: str) -> KernelError:
        return error(code, message, span, *notes, hint=hint, source=self.source)

    def _shape_error(self, code: str, message: str, refs: Sequence[Ref], span: Span, hint: str = "") -> KernelError:
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

    def _merge_before(self, index: int) -> int:
        """The first merge among the nodes that the node depends on."""
        todo, seen = [index], set()
        while todo:
            node = self.nodes[todo[-1]]
            if node.op == "merge":
                return todo[-1]
            seen.add(todo.pop())
            todo += [i for i in node.inputs if i not in seen and self.nodes[i].region is Region.MERGED]
        raise AssertionError("a merged value without a merge")

    def _operation(
        self,
        op: str,
        refs: Sequence[Ref],
        shape: D.Shape,
        span: Span,
        attrs: dict[str, Any] | None = None,
        region: Region | None = None,
    ) -> Ref:
        operands = [self.nodes[ref.index] for ref in refs]
        if region is None:
            region = max((node.region for node in operands), key=lambda r: r.value)
            if region is Region.MERGED:
                for node in operands:
                    if node.region is Region.TUPLE:
                        merged = next(r.index for r in refs if self.nodes[r.index].region is Region.MERGED)
                        raise self.error(
                            "E426",
                            "a value of single tuples meets a merged value",
                            span,
                            (node.span, "this has a value for every tuple"),
                            (self.nodes[self._merge_before(merged)].span, "merged here"),
                            hint="a merged value is known only when its batch ends; merge the other value as well",
                        )
        if all(node.op == "const" for node in operands):
            with np.errstate(all="ignore"):
                value = evaluate(op, [np.asarray(node.attrs["value"]) for node in operands], attrs or {})
            return self.constant(value, span)
        return self._add(op, tuple(ref.index for ref in refs), shape, region, span, attrs or {})

    def _add(self, op: str, inputs: tuple[int, ...], shape: D.Shape, region: Region, span: Span, attrs: dict[str, Any]) -> Ref:
        self._steps += 1
        if self._steps > MAX_OPERATIONS:
            raise self.error(
                "E107",
                f"the kernel has more than {MAX_OPERATIONS} operations",
                span,
                hint="a Python loop is unrolled while the kernel is traced; does it end?",
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


def _spoken(op: str) -> str:
    return _SPOKEN.get(op, op)


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _tuples(count: int) -> str:
    return _plural(count, "tuple", "tuples") if count else "the whole epoch"
