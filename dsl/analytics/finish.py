"""The last step from a traced kernel to its graph: what it returns, which nodes live, when they are computed."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..core import dims as D
from ..core.builder import Operand, Ref
from ..core.diagnostics import Diagnostic, Note, Span
from ..core.graph import LEAVES, Graph, Node, Region, Variable
from ..core.kernel import AnyKernel, Option, Parameter
from . import hints
from .builder import AnalyticsBuilder


@dataclass
class Return:
    """A model's new value: the model's name, the value, and the place of its expression."""

    model: str
    value: Operand
    span: Span


def finish(
    kernel: AnyKernel,
    builder: AnalyticsBuilder,
    returns: list[Return],
    init: Mapping[str, Option],
    epochs: int,
    batch: Option | None = None,
) -> tuple[Graph, list[Diagnostic]]:
    """Return the checked graph and the warnings; `init`, `epochs` and `batch` are the kernel's. Raises KernelError."""
    count = _batch(kernel, builder, batch)
    by_model = {r.model: r for r in returns}
    roots: list[int] = []
    for model in kernel.of_kind("model"):
        if model.name not in by_model:
            raise kernel.error(
                "E406",
                f"the model {model.name} gets no new value",
                kernel.name_span,
                (model.span, "declared here"),
                hint=f"return its new value, as in `return {model.name} - rate * step` "
                f"(as text: `{model.name} <- {model.name} - rate * step`)",
            )
        ref = _new_value(kernel, builder, model, by_model[model.name])
        if builder.changed_model(ref) is None and builder.region(ref) is Region.TUPLE:
            _of_one_tuple(kernel, builder, by_model[model.name], count, batch)
        roots.append(ref.index)
    until = builder.until[0].index if builder.until else None
    graph = _assemble(kernel, builder, roots, until, epochs, count)
    _begin(graph, init)
    scored = score_of(builder)
    if isinstance(scored, str):
        graph.unscored = scored
    else:
        graph.scoring = _scoring(kernel, builder, *scored)
    return graph, [*_warnings(graph), *_lost_changes(builder, roots)]


def _lost_changes(builder: AnalyticsBuilder, roots: list[int]) -> Iterator[Diagnostic]:
    """Yield a warning for each change of rows that no new value is made of."""
    kept = _reach(builder, roots)
    for index, node in enumerate(builder.nodes):
        if node.op == "change" and index not in kept:
            name = node.attrs["name"]
            what = f"rows of {name} are changed, but the result is not returned"
            hint = f"return it as the new value: {name} itself stays as it is"
            yield Diagnostic("W105", what, node.span, hint=hint, severity="warning")


def _new_value(kernel: AnyKernel, builder: AnalyticsBuilder, model: Parameter, r: Return) -> Ref:
    """Return a model's new value. Raises KernelError (E408) where it has another shape, (E494) where it is another model's rows."""
    ref, declared = builder.operand(r.value, r.span), (model.span, "declared here")
    have, want = builder.shape(ref), builder.shape(builder.variables[model.name])
    if have != want:
        raise kernel.error(
            "E408",
            f"the new value of {model.name} is {D.show(have)}, but the model is {D.show(want)}",
            r.span,
            declared,
            hint=hints.new_value(model.name, have, want),
        )
    if builder.changed_model(ref) not in (None, model.name):
        hint = f"return {model.name} itself with its changes, or as it is"
        changed = builder.changed_model(ref)
        message = f"the new value of {model.name} is {changed} with changed rows"
        raise kernel.error("E494", message, r.span, declared, hint=hint)
    return ref


def _of_one_tuple(
    kernel: AnyKernel, builder: AnalyticsBuilder, r: Return, count: int, batch: Option | None
) -> None:
    """Raise KernelError (E427) where a new value belongs to one tuple, and a batch has more."""
    if not builder.merges and count == 1:
        return
    what, place = f"a batch has {count} of them", (batch or r).span
    if builder.merges:
        what, place = "the kernel merges", builder.nodes[builder.merges[0]].span
    raise kernel.error(
        "E427",
        f"the new value of {r.model} belongs to a single tuple, but {what}",
        r.span,
        (place, "merged here" if builder.merges else "given here"),
        hint="within a batch the model is held still: merge what the new value is made of, or merge nothing at all",
    )


def _batch(kernel: AnyKernel, builder: AnalyticsBuilder, batch: Option | None) -> int:
    """Return the tuples of a batch, 0 for the epoch. Raises KernelError (E423) where merges are over another number."""
    if not builder.merges:
        return 1 if batch is None else batch.value
    merge = builder.nodes[builder.merges[0]]
    if batch is not None and merge.attrs["count"] != batch.value:
        over = f"{merge.attrs['count']} tuples" if merge.attrs["count"] else "the whole epoch"
        raise kernel.error(
            "E423",
            f"all merges of a kernel span its batch: {over} here, batch is {batch.value}",
            merge.span,
            (batch.span, "given here"),
            hint="write the same number in both places, or leave batch out",
        )
    return int(merge.attrs["count"])


def _reach(builder: AnalyticsBuilder, roots: list[int]) -> set[int]:
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        index = todo.pop()
        if index not in seen:
            seen.add(index)
            todo += builder.nodes[index].inputs
    return seen


def _begin(graph: Graph, init: Mapping[str, Option]) -> None:
    """Enter what the models are at the beginning."""
    for name, option in init.items():
        start = option.value
        graph.variables[name].init = start.copy() if isinstance(start, np.ndarray) else start


def _assemble(
    kernel: AnyKernel,
    builder: AnalyticsBuilder,
    roots: list[int],
    until: int | None,
    epochs: int,
    count: int,
) -> Graph:
    live = _reach(builder, roots if until is None else [*roots, until])
    # parameters stay, used or not: the table's layout counts them
    live |= {ref.index for ref in builder.variables.values()}
    number = {old: new for new, old in enumerate(sorted(live))}
    result = _nodes(builder, number, _convergence(builder, roots, until))
    variables = _variables(kernel, builder, number)
    return Graph(
        kernel.name,
        result,
        variables,
        tuple(number[i] for i in roots),
        None if until is None else number[until],
        epochs,
        count,
        kernel.source or "",
    )


def _nodes(
    builder: AnalyticsBuilder, number: Mapping[int, int], once_an_epoch: Collection[int] = ()
) -> list[Node]:
    """Return the builder's nodes that have a number, in its order."""
    nodes = builder.nodes
    return [
        Node(
            nodes[i].op,
            tuple(number[j] for j in nodes[i].inputs),
            tuple(int(size) for size in nodes[i].shape),
            Region.CONVERGENCE if i in once_an_epoch else nodes[i].region,
            nodes[i].span,
            dict(nodes[i].attrs),
        )
        for i in number
    ]


def _variables(
    kernel: AnyKernel, builder: AnalyticsBuilder, number: Mapping[int, int]
) -> dict[str, Variable]:
    """Return the parameters whose nodes have a number."""
    variables = {}
    for parameter in kernel.parameters:
        ref = builder.variables[parameter.name]
        if ref.index in number:
            variables[parameter.name] = Variable(
                parameter.name,
                parameter.kind,
                parameter.dims,
                tuple(int(size) for size in builder.shape(ref)),
                parameter.span,
                number[ref.index],
                parameter.default,
            )
    return variables


def score_of(builder: AnalyticsBuilder) -> tuple[int, str] | str:
    """Return the node and the name of the score: that of `score`; else the one value of each row, made of models and
    inputs, that an operation takes together with a label, or with what comes of labels alone. Return why there is none."""
    if builder.scored is not None:
        return builder.scored[0].index, builder.scored[1]
    nodes = builder.nodes
    made_of = {kind: set[int]() for kind in ("output", "input", "model")}
    candidates: dict[int, None] = {}
    for index, node in enumerate(nodes):
        kind = "input" if node.op == "index" else node.op
        if kind in made_of:
            made_of[kind].add(index)
        for known in made_of.values():
            if not known.isdisjoint(node.inputs):
                known.add(index)
        labels, inputs, models = made_of.values()
        if any(i in labels and i not in inputs | models for i in node.inputs):
            scores = (i for i in node.inputs if i in inputs & models and i not in labels)
            candidates |= dict.fromkeys(i for i in scores if nodes[i].region is Region.TUPLE)
    if len(candidates) != 1:
        listed = f"there are {len(candidates)}" if candidates else "there is none"
        return f"its score is the one value that is compared with its label: {listed}"
    [index] = candidates
    if nodes[index].shape:
        return f"what it compares with its label is {D.show(nodes[index].shape)}, and a score is one number"
    return index, "score"


def _scoring(kernel: AnyKernel, builder: AnalyticsBuilder, root: int, name: str) -> Graph:
    number = {old: new for new, old in enumerate(sorted(_reach(builder, [root])))}
    return Graph(
        kernel.name,
        _nodes(builder, number),
        _variables(kernel, builder, number),
        (number[root],),
        None,
        1,
        0,
        kernel.source or "",
        score=name,
    )


def _convergence(builder: AnalyticsBuilder, roots: list[int], until: int | None) -> set[int]:
    """The nodes that `until` alone needs: computed once an epoch. Leaves, merges and what is fixed for a run stay as they are."""
    if until is None:
        return set()
    nodes = builder.nodes
    merges = [i for i in _reach(builder, [until]) if nodes[i].op == "merge"]
    needed = _reach(builder, [*roots, *(j for i in merges for j in nodes[i].inputs)])
    alone: set[int] = set()
    todo = [until]
    while todo:
        index = todo.pop()
        node = nodes[index]
        if (
            index in needed
            or index in alone
            or node.op in LEAVES
            or node.op == "merge"
            or node.region is Region.RUN
        ):
            continue
        alone.add(index)
        todo += node.inputs
    return alone


def _warnings(graph: Graph) -> list[Diagnostic]:
    used = {i for node in graph.nodes for i in node.inputs} | set(graph.returns)
    out = []
    for variable in graph.variables.values():
        if variable.node not in used and variable.kind != "model":
            out.append(
                Diagnostic(
                    "W101",
                    f"the {variable.kind} {variable.name} is not used",
                    variable.span,
                    (),
                    hint="its column is read all the same"
                    if variable.kind != "meta"
                    else "leave it out, or use it",
                    severity="warning",
                )
            )
    for node in (graph.nodes[i] for i in graph.returns):
        if node.region in (Region.RUN, Region.MODEL) and node.op != "model":
            hint = "let it depend on an input, as in `w - rate * merge(error * x, 16)`"
            what = "the new value of a model does not depend on the table"
            out.append(Diagnostic("W102", what, node.span, hint=hint, severity="warning"))
    return [*out, *_divided_merges(graph)]


def _summed_factors(graph: Graph, index: int) -> Iterator[Node]:
    """Yield the sums over a batch that a value is a multiple of: `merge(v, n)` itself, and in `rate * merge(v, n)`."""
    seen, todo = set[int](), [index]
    while todo:
        index = todo.pop()
        node = graph.nodes[index]
        if index in seen:
            continue
        seen.add(index)
        if node.op == "merge" and node.attrs["op"] == "add":
            yield node
        if node.op == "div" and not graph.nodes[node.inputs[1]].attrs.get("counts"):  # no mean
            todo.append(node.inputs[0])
        elif node.op in ("mul", "neg"):
            todo += node.inputs


def _divided_merges(graph: Graph) -> Iterator[Diagnostic]:
    """Yield a warning for each sum over a batch that is divided by the most tuples that a batch has."""
    nodes = graph.nodes
    for node in nodes:
        if node.op not in ("div", "mul"):
            continue
        pairs = [node.inputs, node.inputs[::-1]] if node.op == "mul" else [node.inputs]
        for of, by in ((a, nodes[b]) for a, b in pairs):
            if by.op != "const" or np.ndim(number := by.attrs["value"]) != 0:
                continue
            for merged in _summed_factors(graph, of):
                count = merged.attrs["count"]
                if count < 2 or number != (count if node.op == "div" else 1 / count):
                    continue
                yield Diagnostic(
                    "W104",
                    f"a sum over at most {count} tuples is divided by {count}, "
                    "also where an epoch's last batch has fewer",
                    node.span,
                    (Note(merged.span, "summed here"),),
                    hint=f"mean(v, {count}) divides by as many tuples as there are",
                    severity="warning",
                )
