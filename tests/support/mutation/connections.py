"""Mutants of the shared hardware: those of `kinds`, strings apart, and what is special to connections."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from itertools import pairwise

from mutation.kinds import KINDS, Change, changes, exports

#: packages all of whose components are parts of proofs
PACKAGES = tuple(f"hdl/{name}" for name in ("stream", "memory", "shell", "link", "soc"))
CONNECTIONS = (*(kind for kind in KINDS if kind != "string"), "connection", "field", "swap")

_CHECKS = (ast.Raise, ast.Assert)
_DECLARES = ("__init__", "__eq__", "__repr__")


def connections(tree: ast.Module) -> Iterator[Change]:
    """Yield the changes of a module of hardware; constructors check and declare only."""
    if ".eq(" not in ast.unparse(tree):
        return
    idle = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, _CHECKS)
        or (isinstance(node, ast.Assign) and exports(node))
        or getattr(node, "name", "") in _DECLARES
        for part in ast.walk(node)
    }
    for change in changes(tree):
        if change[0] != "string" and id(change[1]) not in idle:
            yield change
    for node in ast.walk(tree):
        if id(node) not in idle:
            yield from _of_connection(node)


def _of_connection(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.AugAssign(value=ast.Call() as value) if ast.unparse(node.target).startswith("m.d"):
            yield "connection", value, "[]"
        case ast.List() | ast.Tuple():
            yield from _of_list(node)
        case ast.Constant(value=int() as value) if type(value) is int and value > 0:
            yield "number", node, str(value - 1)
        case ast.Call(func=ast.Name("Mux"), args=[_, _, _]):
            yield "swap", node, _swapped(node, "args", 1, 2)
        case ast.Call(func=ast.Name("Cat"), args=[_, _, *_]):
            yield "swap", node, _swapped(node, "args", 0, 1)
        case ast.Call(func=ast.Name("Signal" | "Const" | "range"), args=[*_, last]):
            if not isinstance(last, ast.Starred | ast.GeneratorExp | ast.Constant):
                yield "number", last, f"({ast.unparse(last)} - 1)"
        case ast.Call(func=ast.Attribute(attr="If" | "Elif"), args=[condition]):
            yield "condition", condition, f"({ast.unparse(condition)}) == 0"
            yield "condition", condition, "1"


def _of_list(node: ast.List | ast.Tuple) -> Iterator[Change]:
    """Assignments, or names of fields: drop one, or give two each other's values."""
    assigned = [
        e for e in node.elts if isinstance(e, ast.Call) and ast.unparse(e.func)[-3:] == ".eq"
    ]
    if all(
        isinstance(e, ast.Constant) and isinstance(e.value, str)
        for e in node.elts[1:] and node.elts
    ):
        for k in range(len(node.elts) if len(node.elts) > 1 else 0):
            yield "field", node, ast.unparse(ast.Tuple(node.elts[:k] + node.elts[k + 1 :]))
    for one in assigned:
        yield "connection", one, "*[]"
    for one, other in pairwise(assigned):
        changed = copy.deepcopy(node)
        mine, theirs = (changed.elts[node.elts.index(each)] for each in (one, other))
        mine.args, theirs.args = theirs.args, mine.args
        if ast.unparse(mine.args) != ast.unparse(theirs.args):
            yield "swap", node, ast.unparse(changed)


def _swapped(node: ast.Call, name: str, i: int, k: int) -> str:
    changed = copy.deepcopy(node)
    those = getattr(changed, name)
    those[i], those[k] = those[k], those[i]
    return ast.unparse(changed)
