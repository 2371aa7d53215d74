"""Builds the graph of a kernel that learns tuple by tuple: the operations on values, merges, and `until`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..core import dims as D
from ..core.builder import Operand, Ref, plural
from ..core.constants import kind_of
from ..core.diagnostics import Span
from ..core.graph import Region
from ..core.kernel import Parameter
from ..dialect import Dialect
from . import hints
from .indexed import IndexedBuilder

#: the largest batch of a merge, in tuples
MAX_MERGE = 1 << 24
_MERGE_OPS = {"+": "add", "*": "mul", "max": "max", "min": "min"}


class AnalyticsBuilder(IndexedBuilder):
    """The graph of one kernel while it grows. `merges` are the nodes of its merges, `until` is its condition and its place,
    `scored` its score with name and place."""

    regions: ClassVar[Mapping[str, Region]] = {"model": Region.MODEL, "meta": Region.RUN}

    def __init__(
        self,
        dialect: Dialect,
        parameters: Sequence[Parameter],
        sizes: Mapping[str, int],
        source: str | None = None,
    ) -> None:
        super().__init__(dialect, parameters, sizes, source)
        self.until: tuple[Ref, Span] | None = None
        self.scored: tuple[Ref, str, Span] | None = None
        self.merges: list[int] = []

    def mean(self, value: Operand, count: Any, span: Span) -> Ref:
        """Add the mean of a value over `count` tuples (None: over the epoch), fewer where the batch
        has fewer."""
        total = self.merge(value, count, "+", span)
        tuples = self._tuple_count(int(self.nodes[total.index].attrs["count"]), span)
        return self.elementwise("div", [total, tuples], span)

    def _tuple_count(self, most: int, span: Span) -> Ref:
        """Add the number of tuples of a batch, which takes at most so many (0: the epoch)."""
        attrs = {"count": most, "op": "add", "counts": True}
        one = self.constant(1.0, span)
        return self._merged(self.add("merge", (one.index,), (), Region.MERGED, span, attrs))

    def _merged(self, merge: Ref) -> Ref:
        if merge.index not in self.merges:
            self.merges.append(merge.index)
        return merge

    def _batch(self, count: Any, span: Span) -> int:
        """Return how many tuples a merge is over, 0 for the epoch."""
        if count is None:
            return 0
        if (
            isinstance(count, Ref)
            or isinstance(count, bool)
            or not isinstance(count, (int, np.integer))
        ):
            raise self.error(
                "E424",
                f"the number of tuples of a merge must be a whole number, not {kind_of(count)}",
                span,
                hint="write it out, as in merge(v, 16), or leave it out to merge over the whole epoch",
            )
        if not 1 <= count <= MAX_MERGE:
            raise self.error(
                "E424",
                f"a merge over {count} tuples; it takes 1 to {MAX_MERGE}",
                span,
                hint="leave the number out to merge over the whole epoch",
            )
        return int(count)

    def merge(self, value: Operand, count: Any, op: Any, span: Span) -> Ref:
        """Add a merge: combine a value over `count` tuples in row order (None: over the epoch). The sum of 1 is the number of
        tuples."""
        ref, tuples = self.operand(value, span), self._batch(count, span)
        if not isinstance(op, str) or op not in _MERGE_OPS:
            raise self.error(
                "E425",
                f"a merge cannot use the operation {op!r}"
                if isinstance(op, str)
                else f"the operation of a merge must be a string, not {kind_of(op)}",
                span,
                hint='known are "+", "*", "max" and "min"',
            )
        counts = op == "+" and self.number(ref) == 1
        if not counts:
            self._check_merged(ref, span)
        self._check_batch(tuples, span)
        if counts:
            return self._tuple_count(tuples, span)
        attrs = {"count": tuples, "op": _MERGE_OPS[op]}
        return self._merged(
            self.operation("merge", [ref], self.shape(ref), span, attrs, Region.MERGED)
        )

    def _check_merged(self, ref: Ref, span: Span) -> None:
        """Raise KernelError unless the value has one of its own for each tuple."""
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
                hint="use the value without merge; merge(1, n) counts the tuples",
            )

    def _check_batch(self, tuples: int, span: Span) -> None:
        """Raise KernelError (E423) where another merge is over another number of tuples."""
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

    def place(self, op: str, value: Operand, axis: int | None, span: Span) -> Ref:
        """Add the place of the largest ("max") or smallest ("min") element, as NumPy counts them."""
        ref = self.operand(value, span)
        self.check_value(ref, f"arg{op}", span)
        shape, axis = self.shape(ref), self.axis(f"arg{op}", ref, axis, span)
        if not shape:
            return self.constant(0.0, span)
        best = self.reduce(op, ref, axis, span)
        if axis == 1:
            best = self.expand(best, 1, span)
        many = math.prod(shape) if axis is None else shape[axis]
        places: Operand = 0.0  # sizes that are not known yet may be too many for an array
        if not D.unresolved(shape):
            places = np.arange(many).reshape(shape if axis is None else (-1, 1)[: 2 - axis])
        is_best = self.elementwise("ge" if op == "max" else "le", [ref, best], span)
        # what nothing holds for is NaN; all places but the wanted ones become the last
        is_number = self.elementwise("le", [ref, ref], span)
        others = self.elementwise("where", [is_number, many - 1, places], span)
        positions = self.elementwise("where", [is_best, places, others], span)
        rest = () if axis is None else shape[:axis] + shape[axis + 1 :]
        return self.operation("min", [positions], rest, span, {"axis": axis, "places": int(many)})

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

    def score(self, value: Operand, name: Any, span: Span) -> Ref:
        """Record the kernel's score and return it."""
        if self.scored is not None:
            raise self.error(
                "E481",
                "a kernel has one score",
                span,
                (self.scored[2], "the first one is here"),
                hint="score the value that is wanted, in a kernel of its own each",
            )
        # results have columns block and line of their own
        if not isinstance(name, str) or not name.isidentifier() or name in ("block", "line"):
            shown = repr(name) if isinstance(name, str) else kind_of(name)
            hint = 'a column takes the name, as in score(p, name="probability")'
            raise self.error("E482", f"the name of a score cannot be {shown}", span, hint=hint)
        ref = self.operand(value, span)
        node = self.nodes[ref.index]
        if node.shape:
            raise self.error(
                "E483",
                f"a score is one number for each row, not {D.show(node.shape)}",
                span,
                (node.span, self.label(ref)),
                hint="reduce it first, as in score(sum(w * x))",
            )
        if node.region is Region.MERGED:
            raise self.error(
                "E484",
                "a score has a value for each row, but this one is merged",
                span,
                (self.nodes[self._merge_before(ref.index)].span, "merged here"),
                hint="score the value before it is merged",
            )
        if node.region is not Region.TUPLE:
            raise self.error(
                "E484",
                "a score has a value for each row, but this one is the same for all of them",
                span,
                (node.span, "this depends on no input"),
                hint="let it depend on an input, as in score(sum(w * x))",
            )
        path = self.path_to_label(ref.index)
        if path:
            label = self.nodes[path[-1]]
            notes = [(self.nodes[i].span, "on the way to it") for i in path[1:-2]][:4]
            if len(path) > 1:
                notes.append((self.nodes[path[-2]].span, f"{label.attrs['name']} comes in here"))
            raise self.error(
                "E485",
                f"the score depends on the label {label.attrs['name']}, which new rows do not have",
                span,
                *notes,
                (label.span, "the label"),
                hint="score what is compared with the label, made of inputs, models and metas",
            )
        self.scored = ref, name, span
        return ref

    def path_to_label(self, index: int) -> list[int]:
        """Return the nodes from this one to the first label that it depends on, both included; none without one."""
        before: dict[int, int | None] = {index: None}
        todo = [index]
        for at in todo:  # breadth first: the shortest way
            node = self.nodes[at]
            if node.op == "output":
                path = [at]
                while (back := before[path[-1]]) is not None:
                    path.append(back)
                return path[::-1]
            for i in node.inputs:
                if i not in before:
                    before[i] = at
                    todo.append(i)
        return []

    def region_of(self, refs: Sequence[Ref], span: Span) -> Region:
        region = super().region_of(refs, span)
        if region is Region.MERGED:
            for node in (self.nodes[ref.index] for ref in refs):
                if node.region is Region.TUPLE:
                    merged = next(ref.index for ref in refs if self.region(ref) is Region.MERGED)
                    raise self.error(
                        "E426",
                        "a value of single tuples meets a merged value",
                        span,
                        (node.span, "this has a value for every tuple"),
                        (self.nodes[self._merge_before(merged)].span, "merged here"),
                        hint="a merged value is known only when its batch ends; merge the other value as well",
                    )
        return region

    def _merge_before(self, index: int) -> int:
        """The first merge among the nodes that the node depends on."""
        todo, seen = [index], set()
        while todo:
            node = self.nodes[todo[-1]]
            if node.op == "merge":
                return todo[-1]
            seen.add(todo.pop())
            todo += [
                i for i in node.inputs if i not in seen and self.nodes[i].region is Region.MERGED
            ]
        raise AssertionError("a merged value without a merge")


def _tuples(count: int) -> str:
    return plural(count, "tuple", "tuples") if count else "the whole epoch"
