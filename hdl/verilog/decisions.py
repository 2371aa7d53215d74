"""What a process decides, for each run of bits that it assigns alike, as a tree of conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from .expressions import part
from .rtlil import Assignment, Bits, Chunk, Process, Switch


@dataclass(eq=False)
class Choice:
    """`branches`: a switch's value and a case's patterns (all of them, as one of them is enough), with what holds
    then; the first that fits counts. `otherwise`: what holds where none does."""

    on: Bits
    branches: list[tuple[tuple[str, ...], Tree]]
    otherwise: Tree


Tree = Bits | Choice


def _assignments(body: list[Assignment | Switch]) -> Iterator[Assignment]:
    for item in body:
        if isinstance(item, Assignment):
            yield item
        else:
            for _, inside in item.cases:
                yield from _assignments(inside)


def segments(process: Process) -> list[tuple[int, int]]:
    """Return low bit and width of each run of bits that no assignment cuts."""
    cuts = set()
    for assignment in _assignments(process.body):
        for chunk in assignment.target:
            cuts |= {chunk.low, chunk.low + chunk.width}
    edges = sorted(cuts)
    return [(low, high - low) for low, high in pairwise(edges)]


def tree(process: Process, low: int, width: int, name: Callable[[Choice], Bits]) -> Tree:
    """Return what one run of bits is. `name` gives a decision a wire of its own, where several branches come to it."""
    return _after(process.body, low, width, (), name)


def _after(
    body: list[Assignment | Switch],
    low: int,
    width: int,
    before: Tree,
    name: Callable[[Choice], Bits],
) -> Tree:
    """Return what the bits are after some statements, where they were `before`."""
    for item in body:
        if isinstance(item, Assignment):
            at = 0
            for chunk in item.target:
                if chunk.low <= low and low + width <= chunk.low + chunk.width:
                    before = part(item.value, at + low - chunk.low, width)
                at += chunk.width
            continue
        earlier: Tree = before
        if isinstance(before, Choice):
            before = (Chunk("", 0, 0),)  # stands for it until it is known how often it is needed
        branches = [(p, _after(inside, low, width, before, name)) for p, inside in item.cases]
        if all(subtree is before for _, subtree in branches):
            before = earlier
            continue
        stand_in: Tree = before
        otherwise: Tree = before
        kept: list[tuple[tuple[str, ...], Tree]] = []
        for patterns, subtree in branches:
            if not patterns:
                otherwise = subtree
                break
            kept.append((patterns, subtree))
        before = _simpler(Choice(item.on, kept, otherwise))
        if stand_in is not earlier:
            assert isinstance(earlier, Choice)
            needed = _count(before, stand_in)
            before = (
                _with(before, stand_in, earlier if needed < 2 else name(earlier))
                if needed
                else before
            )
    return before


def _count(node: Tree, what: Tree) -> int:
    """Return how often a value stands in a tree."""
    if node is what:
        return 1
    if not isinstance(node, Choice):
        return 0
    return sum(_count(one, what) for _, one in node.branches) + _count(node.otherwise, what)


def _with(node: Tree, what: Tree, by: Tree) -> Tree:
    """Return a tree with another value in the place of one."""
    if node is what:
        return by
    if not isinstance(node, Choice):
        return node
    branches = [(patterns, _with(one, what, by)) for patterns, one in node.branches]
    return Choice(node.on, branches, _with(node.otherwise, what, by))


def _simpler(choice: Choice) -> Tree:
    """Return a choice without the branches that come to what holds otherwise."""
    patterns = [pattern for labels, _ in choice.branches for pattern in labels]
    exclusive = len(set(patterns)) == len(patterns) and not any("-" in p for p in patterns)
    if exclusive:  # whatever their order
        kept = [branch for branch in choice.branches if not _same(branch[1], choice.otherwise)]
    else:
        kept = list(choice.branches)
        while kept and _same(kept[-1][1], choice.otherwise):
            kept.pop()
    return Choice(choice.on, kept, choice.otherwise) if kept else choice.otherwise


def _same(one: Tree, other: Tree) -> bool:
    if isinstance(one, Choice) or isinstance(other, Choice):
        return one is other
    return one == other
