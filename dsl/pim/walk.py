"""Walks over the nodes of a recurrence: `node` gives the one of a number."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

__all__ = ["in_turn", "reached"]


def reached(wanted: Iterable[int], node: Callable[[int], Any]) -> set[int]:
    """Return the nodes that some are made of, with them."""
    todo, seen = list(wanted), set[int]()
    while todo:
        number = todo.pop()
        if number not in seen:
            seen.add(number)
            todo += node(number).inputs
    return seen


def in_turn(
    wanted: int, node: Callable[[int], Any], done: Container[int]
) -> Iterator[tuple[int, Any]]:
    """Yield the number of each node that one is made of and itself, behind those that it is made of, unless it is `done`, which whoever takes it
    has it be."""
    todo = [wanted]
    while todo:
        number = todo[-1]
        if number in done:
            todo.pop()
        elif missing := [n for n in node(number).inputs if n not in done]:
            todo += missing
        else:
            yield todo.pop(), node(number)
