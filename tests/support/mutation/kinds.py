"""The kinds of mutants, and which are drawn."""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
KINDS = ("operator", "number", "negation", "operand", "condition", "string")
#: what is drawn alike: what decides a plan, hardware, the rest
PLANS = re.compile(
    r"dsl/\w+/(lower|schedule|plan|bind)\w*[./]|models/strider/program|models/.*layout"
)
GROUPS = ("plans", "hardware", "rest")
#: a kind, the place, and what takes it
Change = tuple[str, ast.expr, str]

_TYPES = ("annotation", "returns")  # where an expression is a type
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Mutant:
    """One change of one expression. Its `key` names it as long as its line stays, wherever that moves."""

    module: str
    kind: str
    line: int
    end: int
    begin_column: int
    end_column: int
    text: str
    key: str

    def planted(self, source: str) -> str:
        """Return the source with this change."""
        lines = [line.encode() for line in source.splitlines(keepends=True)]
        begin = sum(map(len, lines[: self.line - 1])) + self.begin_column
        end = sum(map(len, lines[: self.end - 1])) + self.end_column
        data = b"".join(lines)
        return (data[:begin] + self.text.encode() + data[end:]).decode()


def group(module: str) -> str:
    return "plans" if PLANS.match(module) else "hardware" if module.startswith("hdl/") else "rest"


def mutants(
    module: str, source: str, of: Callable[[ast.Module], Iterator[Change]] | None = None
) -> list[Mutant]:
    """Return every mutant of a module, of these changes."""
    found: list[Mutant] = []
    lines, seen = source.splitlines(), dict[str, int]()
    for kind, node, text in (of or changes)(ast.parse(source)):
        assert node.end_lineno is not None and node.end_col_offset is not None
        named = "|".join((module, kind, lines[node.lineno - 1].strip(), ast.unparse(node), text))
        seen[named] = again = seen.get(named, 0) + 1
        key = hashlib.sha256(f"{named}|{again}".encode()).hexdigest()[:16]
        place = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        found.append(Mutant(module, kind, *place, text, key))
    return found


def changes(tree: ast.Module) -> Iterator[Change]:
    """Yield every change. What types, docstrings and `__all__` say does nothing."""
    nodes = list(ast.walk(tree))
    written = [getattr(node, name, None) for node in nodes for name in _TYPES]
    written += [node.value for node in nodes if isinstance(node, ast.Expr) and _string(node.value)]
    written += [node for node in nodes if isinstance(node, ast.JoinedStr)]
    written += [node.value for node in nodes if isinstance(node, ast.Assign) and exports(node)]
    idle = {id(part) for one in written if one is not None for part in ast.walk(one)}
    for node in nodes:
        if isinstance(node, ast.expr) and id(node) not in idle:
            yield from _of_expression(node)
    for scope in nodes:
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_conditions(scope)


def exports(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)


def _string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _of_expression(node: Any) -> Iterator[Change]:
    compares = isinstance(node, ast.Compare)
    operator = node.ops[0] if compares else getattr(node, "op", None)
    if type(operator) in SWAPS:
        changed, other = copy.deepcopy(node), SWAPS[type(operator)]()
        if compares:
            changed.ops[0] = other
        else:
            changed.op = other
        yield "operator", node, f"({ast.unparse(changed)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield "negation", node, f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "number", node, str(node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield "string", node, repr(node.value[:-1] if len(node.value) > 1 else node.value + "x")
    elif isinstance(node, ast.BinOp):
        yield "operand", node, f"({ast.unparse(node.left)})"
        yield "operand", node, f"({ast.unparse(node.right)})"
    elif isinstance(node, ast.BoolOp):
        for k in range(len(node.values)):
            kept = [ast.unparse(value) for i, value in enumerate(node.values) if i != k]
            word = " and " if isinstance(node.op, ast.And) else " or "
            yield "operand", node, "(" + word.join(f"({one})" for one in kept) + ")"


def _condition(node: ast.AST) -> tuple[ast.expr, str, str] | None:
    """Return a condition, how to say "and not" another of its sort, and "never"."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return node.test, "({}) and not ({})", "False and ({})"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        if node.func.attr in ("If", "Elif"):
            return node.args[0], "({}) & ~({})", "0 & ({})"
    return None


def _of_conditions(scope: ast.AST) -> Iterator[Change]:
    """Yield each condition of a function as never true, and as true only where one before it is not."""
    before: dict[str, str] = {}
    for node in sorted(
        _own(scope), key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0))
    ):
        found = _condition(node)
        if found is None:
            continue
        test, narrowed, never = found
        said, other = ast.unparse(test), before.get(narrowed)
        yield "condition", test, f"({never.format(said)})"
        if other and other != said:
            yield "condition", test, f"({narrowed.format(said, other)})"
        # what leaves, and what has an "else", is false already in much of what follows
        if not isinstance(node, ast.If) or not (node.orelse or isinstance(node.body[-1], _LEAVES)):
            before[narrowed] = said


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield a function's nodes, without those of functions within."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _own(child)


def drawn(
    found: list[Mutant], count: int, seed: int, kinds: tuple[str, ...] = KINDS
) -> list[Mutant]:
    """Return so many mutants: each group and each kind as often as the others, as long as there are any.

    A mutant's lot hangs on the seed and its key alone, so that most stay when sources change, and
    the first 100 of 400 are the 100 that are drawn alone.
    """
    lots: dict[tuple[str, str], list[Mutant]] = {(g, k): [] for k in kinds for g in GROUPS}
    for one in sorted(found, key=lambda m: hashlib.sha256(f"{seed}|{m.key}".encode()).digest()):
        lots[group(one.module), one.kind].append(one)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(lots.values()):
        chosen += [lot.pop(0) for lot in lots.values() if lot]
    return chosen[:count]


def sources(root: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """Return the text of every module."""
    files = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
    return {path.relative_to(root).as_posix(): path.read_text() for path in files}
