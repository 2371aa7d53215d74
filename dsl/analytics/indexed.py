"""Builds what kernels do with tables of rows: indices, integers made of them, rows that are read and changed.

A row is read as `E[i]`, at most once for the same index, and is a value like any other. `E.at[i].add(v)` is the whole model
with changed rows; nothing but another change and the model's new value may take it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core import dims as D
from ..core.builder import GraphBuilder, Operand, Ref
from ..core.constants import kind_of
from ..core.diagnostics import KernelError, Span
from ..core.graph import Region
from ..core.kernel import Parameter
from ..dialect import Dialect
from . import spans
from .integers import INTEGERS, MEANINGS, OPERATORS

#: the longest bag of indices
MAX_BAG = 64
#: whole numbers below this are exact as constants
_EXACT = 2.0**53
#: operations on values that are exact on integers, too
_AS_INTEGERS = {
    "add": "integer +",
    "sub": "integer -",
    "mul": "integer *",
    "neg": "negative",
}
_NUMBER = "number(i) makes a value of an index"
_CHOICE = "no operation chooses between indices: // and % bring them into other rows, as in E[i % len(E)], or a query makes a column of the chosen one"
_CHANGE = "changes of rows are add, subtract, max, min and set, as in `E.at[i].add(v)` (as text: `E[i] += v`, -=, max=, min=, <-)"


def _exact(numbers: Any) -> bool:
    """Return whether constants are whole numbers that are exact."""
    return bool(np.all((numbers == np.rint(numbers)) & (np.abs(numbers) < _EXACT)))


class IndexedBuilder(GraphBuilder):
    """The graph of a kernel whose models may be tables. `ranges` are what its indices count, by name."""

    def __init__(
        self,
        dialect: Dialect,
        parameters: Sequence[Parameter],
        sizes: Mapping[str, int],
        source: str | None = None,
    ) -> None:
        self.ranges: dict[str, int] = {}
        super().__init__(dialect, parameters, sizes, source)
        for name, counts in self.ranges.items():
            if getattr(counts, "known", True):
                self.nodes[self.variables[name].index].attrs["counts"] = int(counts)

    def declared(self, parameter: Parameter) -> D.Shape:
        shape = super().declared(parameter)
        if parameter.kind != "index":
            return shape
        self.ranges[parameter.name] = shape[0]
        for places in shape[1:]:
            if places > MAX_BAG and getattr(places, "known", True):
                raise self.error(
                    "E491",
                    f"{parameter.name} is a bag of {places} indices; the longest is {MAX_BAG}",
                    parameter.span,
                    hint="split it into several parameters",
                )
        return shape[1:]

    # -- integers

    operators_hint = (
        f"{GraphBuilder.operators_hint}; // and % are of indices, places, counts and whole numbers"
    )

    def is_integer(self, ref: Ref) -> bool:
        return self.nodes[ref.index].op in INTEGERS

    def _integer(self, value: Operand, what: str, span: Span) -> Ref:
        """Return the integer that an operand is, or that a count or place or whole number becomes. Raises KernelError (E492)."""
        if isinstance(value, Ref) and self._is_whole(value):
            return self._as_integer(value, span)
        if isinstance(value, list | tuple | np.ndarray):
            value = self.constant(value, span)
        hint = _NUMBER
        met = kind_of(value) if not isinstance(value, Ref) else "a value of the kernel"
        constant = self.nodes[value.index] if isinstance(value, Ref) else None
        if constant is None and (number := self.number(value)) is not None:
            met, constant = f"{number:g}", self.nodes[self.constant(number, span).index]
        if constant is not None and constant.op == "const":
            numbers = np.asarray(constant.attrs["value"])
            if _exact(numbers):
                return self.constant(constant.attrs["value"], span)
            met = f"{numbers.flat[0]:g}" if numbers.size == 1 else "these numbers"
            hint = f"write whole numbers below 2**53; {_NUMBER}"
        message = f"{what} takes indices and whole numbers, not {met}"
        raise self.error("E492", message, span, hint=hint)

    def _is_whole(self, ref: Ref) -> bool:
        """Return whether a value is an integer, or can be one: it is made of counts, places and whole numbers."""
        return self.nodes[ref.index].op != "const" and bool(self._made_of(ref))

    def _made_of(self, ref: Ref) -> list[int]:
        """Return the nodes of a sum or product of counts, places and whole numbers, in their order; none where it is another value."""
        todo, indices = [ref.index], set[int]()
        while todo:
            index = todo.pop()
            node = self.nodes[index]
            if index in indices:
                continue
            indices.add(index)
            is_integer = node.op in INTEGERS or node.op == "count" or "places" in node.attrs
            if node.op in _AS_INTEGERS:
                todo += node.inputs
            elif not is_integer and not (node.op == "const" and _exact(node.attrs["value"])):
                return []
        return sorted(indices)

    def _as_integer(self, ref: Ref, span: Span) -> Ref:
        """Return what is whole as an integer."""
        integers: dict[int, Ref] = {}
        for index in self._made_of(ref):
            node, integer = self.nodes[index], Ref(index)
            if node.op in _AS_INTEGERS:
                of = [integers[i] for i in node.inputs]
                integer = self.operation(_AS_INTEGERS[node.op], of, node.shape, span)
            elif node.op not in INTEGERS and node.op != "const":
                integer = self.operation("integer", [integer], node.shape, span)
            integers[index] = integer
        return integers[ref.index]

    def _of_integers(self, symbol: str, operands: Sequence[Operand]) -> bool:
        """Return whether an operator is one of integers: what can be a value or an integer is one for `//`, `%`, `==` and `!=`."""
        refs = [v for v in operands if isinstance(v, Ref)]
        return any(
            self.is_integer(v) or (symbol in ("//", "%", "==", "!=") and self._is_whole(v))
            for v in refs
        )

    def special_operator(self, symbol: str, operands: Sequence[Operand], span: Span) -> Ref | None:
        if not self._of_integers(symbol, operands):
            return None
        refs = [self._integer(v, symbol, span) for v in operands]
        if len(refs) == 1:
            return self.operation("negative", refs, self.shape(refs[0]), span)
        if symbol not in OPERATORS:
            hint = "write i // b, or number(i) / b for a fraction" if symbol == "/" else _NUMBER
            raise self.error("E492", f"indices have no operator {symbol}", span, hint=hint)
        if symbol in ("//", "%"):
            self._check_divisor(refs[1], span)
        shape = D.broadcast([self.shape(ref) for ref in refs])
        if shape is None:
            shown = " and ".join(D.show(self.shape(ref)) for ref in refs)
            message = f"the operands of {symbol} have shapes that do not fit together: {shown}"
            raise self._shape_error("E301", message, refs, span)
        return self.operation(OPERATORS[symbol], refs, shape, span)

    def _check_divisor(self, ref: Ref, span: Span) -> None:
        """Raise KernelError (E213) for a divisor that is 0, or may be."""
        node = self.nodes[ref.index]
        if node.op == "const":
            if not np.all(node.attrs["value"]):
                hint = "divide by another number"
                raise self.error("E213", "a division by the constant 0", span, hint=hint)
            return
        ends = spans.span(self.nodes, ref.index)
        known = all(getattr(n, "known", True) for n in self.ranges.values())
        if ends[0] <= 0 <= ends[1] and (known or ends != spans.EXACT):
            hint = "divide by what cannot be 0: a constant, len(E), or i + 1 where i is an index"
            what = "a division by an integer that may be 0"
            at = self.nodes[node.inputs[0]].span if node.op == "integer" else node.span
            raise self.error("E213", what, span, (at, "this one"), hint=hint)

    def as_value(self, value: Operand, span: Span) -> Ref:
        """Add the value of the kernel's format that an index is; a place or count is one."""
        if isinstance(value, Ref) and not self.is_integer(value) and self._is_whole(value):
            return value
        index = self._index_of(value, "number", span)
        return self.operation("number", [index], self.shape(index), span)

    def hashed(self, value: Operand, seed: Any, span: Span) -> Ref:
        """Add the hash of an index."""
        index = self._index_of(value, "hash", span)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 32:
            shown = seed if isinstance(seed, int) else kind_of(seed)
            hint = "write a whole number from 0 to 4294967295"
            raise self.error("E492", f"the seed of hash cannot be {shown}", span, hint=hint)
        attrs = {"seed": seed, "of": self._columns(index.index)}
        return self.operation("hash", [index], self.shape(index), span, attrs)

    def present(self, value: Operand, span: Span) -> Ref:
        """Add the number of places of a bag that a tuple fills."""
        index = self._index_of(value, "count", span)
        if not self.shape(index):
            hint = 'declare a bag, as in `c: ps.Index["n", 8]` (as text: `c: index[n, 8]`); merge(1, n) counts tuples'
            raise self.error(
                "E492", "count takes a bag of indices, and this is a single index", span, hint=hint
            )
        return self.operation("count", [index], (), span)

    def _index_of(self, value: Operand, name: str, span: Span) -> Ref:
        if isinstance(value, Ref) and self._is_whole(value):
            return self._as_integer(value, span)
        hint = 'an index is declared as `i: ps.Index["n"]` (as text: `i: index[n]`)'
        if name == "count":
            hint += "; merge(1, n) counts tuples, sum(v > 0) elements"
        raise self.error(
            "E492", f"{name} takes an index, not a value of the kernel", span, hint=hint
        )

    def _columns(self, index: int) -> tuple[str, ...]:
        """Return the names of the indices that an integer is made of, besides those that a place or count is."""
        node = self.nodes[index]
        if node.op == "index":
            return (node.attrs["name"],)
        if node.op == "integer":
            return ()
        return tuple(dict.fromkeys(name for i in node.inputs for name in self._columns(i)))

    # -- rows

    def select(self, value: Operand, items: Sequence[Any], span: Span) -> Ref | None:
        if not any(isinstance(item, Ref) for item in items):
            if isinstance(value, Ref) and self.is_integer(value) and self._picks(items):
                hint = "the places of a bag are read together, as in E[c]; declare an index of its own for each column to tell them apart"
                raise self.error("E208", "an index has no elements to pick", span, hint=hint)
            return None
        ref = self.operand(value, span)
        table, index = self._place(ref, items, span)
        shape = self.shape(index) + self.shape(table)[1:]
        if len(shape) > 2:
            hint = "give the model one dimension of rows and one of columns at most"
            raise self.error("E303", "rows of a bag make a value of rank 3", span, hint=hint)
        name = self.nodes[table.index].attrs["name"]
        return self.operation("rows", [table, index], shape, span, {"name": name})

    @staticmethod
    def _picks(items: Sequence[Any]) -> bool:
        return any(item is not None and item not in (":", "...") for item in items)

    def _place(self, table: Ref, items: Sequence[Any], span: Span) -> tuple[Ref, Ref]:
        """Return the model and the index of one or more of its rows. Raises KernelError (E208, E493)."""
        node = self.nodes[table.index]
        index = items[0]
        declared = 'an index is declared as `i: ps.Index["n"]` (as text: `i: index[n]`)'
        if not isinstance(index, Ref) or not self._is_whole(index):
            what = "a value of the kernel" if isinstance(index, Ref) else kind_of(index)
            hint = f"rows of a model are read by an index, and {declared}; pick elements with a vector of zeros and ones"
            if isinstance(index, str):
                what = index
                hint = "one index reads whole rows, as in E[i]; pick elements of a row with a vector of zeros and ones"
            raise self.error(
                "E208", f"a value of the kernel cannot be indexed by {what}", span, hint=hint
            )
        if len(items) > 1:
            hint = (
                "one index reads whole rows; pick elements of a row with a vector of zeros and ones"
            )
            raise self.error("E208", f"a row has one index, not {len(items)}", span, hint=hint)
        if node.op != "model" or not node.shape:
            hint = 'a model with rows is declared as `E: ps.Model["n", "k"]` (as text: `E: model[n, k]`)'
            raise self.error(
                "E208",
                "only a model has rows to index",
                span,
                (node.span, "this is none"),
                hint=hint,
            )
        if len(self.shape(index)) > 1:
            hint = "use a bag of indices or a single one"
            raise self.error("E208", "a matrix of indices reads no rows", span, hint=hint)
        if self.region(index) is Region.MERGED:
            hint = "choose rows for each tuple, and merge what comes of it"
            raise self.error(
                "E208", "rows are chosen by tuples, and this index is merged", span, hint=hint
            )
        self._check_range(node.shape[0], index, node.attrs["name"], span)
        return table, self._as_integer(index, span)

    def _check_range(self, rows: int, index: Ref, model: str, span: Span) -> None:
        """Raise KernelError (E493) where an index as it is declared counts further than the rows."""
        node = self.nodes[index.index]
        if node.op != "index" or not all(
            getattr(size, "known", True) for size in (rows, self.ranges[node.attrs["name"]])
        ):
            return
        if (counts := self.ranges[node.attrs["name"]]) > rows:
            name = node.attrs["name"]
            raise self.error(
                "E493",
                f"the index {name} counts {int(counts):,} rows, but {model} has {int(rows):,}",
                span,
                (node.span, f"{name} is declared here"),
                hint=f"use one name for both, or write {model}[{name} % len({model})]",
            )

    @property
    def elements_hint(self) -> str:
        if not self.ranges:
            return super().elements_hint
        return (
            "rows of a model are changed by an index, as in `E.at[i].add(v)` (as text: `E[i] += v`)"
        )

    def change(self, op: str, base: Ref, items: Sequence[Any], value: Operand, span: Span) -> Ref:
        """Add a model with changed rows, on top of the changes before. Raises KernelError."""
        root = base
        while self.nodes[root.index].op == "change":
            root = Ref(self.nodes[root.index].inputs[0])
        _, index = self._place(root, items, span)
        model = self.nodes[root.index]
        ref = self.operand(value, span)
        if self.is_integer(ref):
            ref = self.as_value(ref, span)
        want = self.shape(index) + model.shape[1:]
        if D.broadcast([self.shape(ref), want]) != want:
            raise self._shape_error(
                "E494",
                f"the change of {D.show(want)} of {model.attrs['name']} is {D.show(self.shape(ref))}",
                [ref],
                span,
                hint="give each row that is changed its values; a vector stands for all rows of a bag",
            )
        attrs = {"change": op, "name": model.attrs["name"]}
        refs = [base, index, ref]
        if self.region_of(refs, span) is Region.MERGED:
            hint = "change rows by each tuple's value: the changes of a batch are done one after the other"
            raise self.error(
                "E494", "rows are changed by tuples, and this value is merged", span, hint=hint
            )
        return self.operation("change", refs, model.shape, span, attrs, Region.TUPLE)

    def changed_model(self, ref: Ref) -> str | None:
        """Return the name of the model whose changed rows the value is, None where it is none."""
        node = self.nodes[ref.index]
        return str(node.attrs["name"]) if node.op == "change" else None

    def attribute(self, ref: Ref, name: str, span: Span) -> Any:
        if name != "at" or self.nodes[ref.index].op not in ("model", "change"):
            return None
        from .at import At

        return At(self, ref)

    def no_change(self, span: Span, what: str) -> KernelError:
        return self.error("E494", what, span, hint=_CHANGE)

    def check_value(self, ref: Ref, name: str, span: Span) -> None:
        """Raise KernelError (E492) for an index where the operation `name` takes values."""
        node = self.nodes[ref.index]
        if node.op in INTEGERS:
            message = f"{name} takes values of the kernel, and this is an index"
            hint = _CHOICE if name == "where" else _NUMBER
            raise self.error("E492", message, span, (node.span, "an index"), hint=hint)

    def operation(
        self,
        op: str,
        refs: Sequence[Ref],
        shape: D.Shape,
        span: Span,
        attrs: dict[str, Any] | None = None,
        region: Region | None = None,
    ) -> Ref:
        for ref in refs:
            node = self.nodes[ref.index]
            if node.op in INTEGERS and op not in MEANINGS and op != "change":
                self.check_value(ref, self.name_of(op), span)
            if node.op == "change" and not (op == "change" and ref == refs[0]):
                name = node.attrs["name"]
                raise self.error(
                    "E494",
                    f"{name} with changed rows can only be returned or changed further",
                    span,
                    (node.span, "changed here"),
                    hint=f"all that a batch reads of {name} is as the batch before left it: read {name} itself",
                )
        return super().operation(op, refs, shape, span, attrs, region)
