"""How often a kernel's values walk over each named axis: a value that has an axis and needs something reduced over it takes one more pass.

Within a pass, values that have the axis are made element by element, and those without are summed up; what is reduced is there only behind
the pass. Operations that a unit makes as elements come, such as a recurrence's `softmax`, take no pass of their own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from .dims import Dim
from .operations import REDUCTIONS, spoken


class Walked(NamedTuple):
    """An axis, the least number of passes over it, and the values that force all but the first one, as the kernel writes them."""

    axis: str
    passes: int
    forced_by: tuple[str, ...]


def walked(nodes: Sequence[Any], source: str | None) -> tuple[Walked, ...]:
    """Return the named axes of values, in order of appearance; `nodes`: a traced kernel's, each behind its operands."""
    # of each value, by axis: the passes that end before it is there
    behind: list[dict[str, int]] = []
    for node in nodes:
        counts: dict[str, int] = {}
        for number in node.inputs:
            for axis, count in behind[number].items():
                counts[axis] = max(count, counts.get(axis, 0))
        for axis in _reduced(node, nodes):
            counts[axis] = counts.get(axis, 0) + 1
        behind.append(counts)
    walks: dict[str, tuple[int, int]] = {}
    for number, node in enumerate(nodes):
        counts = {axis: behind[number].get(axis, 0) + 1 for axis in _names(node.shape)}
        for axis, count in counts.items() | behind[number].items():
            walks[axis] = max(walks.get(axis, (0, 0)), (count, -number))
    order = dict.fromkeys(axis for node in nodes for axis in _names(node.shape))
    return tuple(
        Walked(axis, walks[axis][0], _forcing(nodes, source, behind, axis, -walks[axis][1]))
        for axis in order
    )


def _names(shape: Sequence[int]) -> list[str]:
    return [size.name for size in shape if isinstance(size, Dim)]


def _reduced(node: Any, nodes: Sequence[Any]) -> list[str]:
    if node.op == "matmul":
        return _names(nodes[node.inputs[0]].shape[-1:])
    if node.op not in REDUCTIONS:
        return []
    shape, axis = nodes[node.inputs[0]].shape, node.attrs.get("axis")
    return _names(shape if axis is None else shape[axis : axis + 1])


def _forcing(
    nodes: Sequence[Any],
    source: str | None,
    behind: Sequence[dict[str, int]],
    axis: str,
    last: int,
) -> tuple[str, ...]:
    """Return the reductions over an axis that a value waits for, in their order."""
    reductions: list[str] = []
    number = last
    if axis not in _names(nodes[last].shape):  # it ends a pass that it does not force
        number = max(nodes[last].inputs, key=lambda n: behind[n].get(axis, 0))
    while behind[number].get(axis, 0):
        before = max(nodes[number].inputs, key=lambda n: behind[n].get(axis, 0))
        if behind[before].get(axis, 0) < behind[number][axis]:
            reductions.append(_text(nodes[number], source))
        number = before
    return tuple(dict.fromkeys(reversed(reductions)))


def _text(node: Any, source: str | None) -> str:
    """Return a value as the kernel writes it, or the name of its operation where that takes several lines."""
    span, lines = node.span, (source or "").splitlines()
    if span.line == span.end_line and 0 < span.line <= len(lines):
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]
    return spoken(node.op)
