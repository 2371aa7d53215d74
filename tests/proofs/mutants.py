"""How many drawn defects the proofs notice, by themselves: `python tests/proofs/mutants.py [--count N] [--seed S] [MODULE …]`.

Draws mutants of the shared hardware's sources by the seed: a field or an assignment dropped, two swapped,
a number off by one, a mask or a condition dropped, a condition negated. Each is planted in memory and
decided by the proofs of the module's parts alone, as the tests decide them. It is caught where one of
them no longer holds, or no longer reaches a cover. What is left is `same` where both designs, as the proofs
have them, are shown to give the same at all outputs for all inputs, else SURVIVES; `late` where the time
was not enough. Prints a line for each, and the sums.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import multiprocessing
import random
import sys
import warnings
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]

from harness import Bench, Proof, decide, directed  # noqa: E402
from harness.defects import replanted  # noqa: E402
from harness.small import made  # noqa: E402
from parts import PROOFS  # noqa: E402

from penstock.hdl.modules import directed_ports  # noqa: E402

#: packages all of whose components are parts of proofs
PACKAGES = ("hdl.stream", "hdl.memory", "hdl.shell", "hdl.link", "hdl.soc")
_COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OTHER = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Add: ast.Sub, ast.Sub: ast.Add}


def modules() -> list[str]:
    """The modules of the packages that have hardware in them."""

    found = []
    for package in PACKAGES:
        folder = Path(importlib.import_module(f"penstock.{package}").__file__).parent
        for file in sorted(folder.glob("*.py")):
            if ".eq(" in file.read_text():
                found.append(f"{package}.{file.stem}")
    return found


class Edits(ast.NodeVisitor):
    """Collects (place in the source, what takes its place) of a module's mutants."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str]] = []

    def edit(self, node: ast.AST, text: str) -> None:
        self.found.append((node, text))

    # what is no hardware: constructors check and declare, texts and types do nothing
    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in ("__init__", "__eq__", "__repr__"):
            for statement in node.body:
                self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                self.visit(statement)

    def visit_Raise(self, node: ast.Raise) -> None: ...
    def visit_Assert(self, node: ast.Assert) -> None: ...
    def visit_Import(self, node: ast.Import) -> None: ...
    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("m.If", "m.Elif"):
                condition = ast.unparse(call.args[0])
                self.edit(call.args[0], f"({condition}) == 0")
                self.edit(call.args[0], "1")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.value, ast.Call) and ast.unparse(node.target).startswith("m.d."):
            self.edit(node.value, "[]")
        self.generic_visit(node)

    def visit_List(self, node: ast.List | ast.Tuple) -> None:
        """Assignments, or names of fields: drop one, or give two each other's values."""
        names = [e for e in node.elts if isinstance(e, ast.Constant) and type(e.value) is str]
        calls = [e for e in node.elts if isinstance(e, ast.Call) and _assigns(e)]
        if len(names) > 1 and len(names) == len(node.elts):
            for name in names:
                rest = ", ".join(repr(other.value) for other in names if other is not name)
                self.edit(node, f"({rest},)")
        for one in calls:
            self.edit(one, "*[]")
        for one, other in pairwise(calls):
            a, b = ast.unparse(one.args[0]), ast.unparse(other.args[0])
            if a != b:
                new = f"{ast.unparse(one.func)}({b}), {ast.unparse(other.func)}({a})"
                self.edit(_Span(one, other), new)
        self.generic_visit(node)

    visit_Tuple = visit_List

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        parts = [ast.unparse(argument) for argument in node.args]
        if name == "Mux":
            self.edit(node, f"Mux({parts[0]}, {parts[2]}, {parts[1]})")
        if name == "Cat" and len(parts) > 1:
            self.edit(node, f"Cat({', '.join([parts[1], parts[0], *parts[2:]])})")
        if name in ("Signal", "Const", "range") and len(node.args) and _number(node.args[-1]):
            self.edit(node.args[-1], f"({parts[-1]} - 1)")  # wider is the same
            for argument in node.args[:-1]:
                self.visit(argument)
        else:
            for argument in node.args:
                self.visit(argument)
        self.visit(node.func)
        for keyword in node.keywords:
            if keyword.arg not in ("name", "attrs", "reset_less"):
                self.visit(keyword.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        left, right = ast.unparse(node.left), ast.unparse(node.right)
        if isinstance(node.op, ast.BitAnd | ast.BitOr):
            self.edit(node, f"({left})")
            self.edit(node, f"({right})")
        elif type(node.op) in _OTHER:
            self.edit(node, f"({left} {'-' if isinstance(node.op, ast.Add) else '+'} {right})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        op = (_COMPARE | _OTHER).get(type(node.ops[0]))
        if op is not None:
            self.edit(node, f"({ast.unparse(ast.Compare(node.left, [op()], node.comparators))})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Invert):
            self.edit(node, f"({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self.edit(node, str(node.value + 1))
            if node.value > 0:
                self.edit(node, str(node.value - 1))


class _Span:
    """From one expression to another."""

    def __init__(self, first: ast.expr, last: ast.expr) -> None:
        self.lineno, self.col_offset = first.lineno, first.col_offset
        self.end_lineno, self.end_col_offset = last.end_lineno, last.end_col_offset


def _assigns(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "eq"


def _number(node: ast.expr) -> bool:
    return not isinstance(node, ast.Starred | ast.GeneratorExp)


def changed(source: str, node, text: str) -> str:
    """The source with `text` in a node's place."""
    lines = source.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    data = b"".join(lines)
    return (data[:begin] + text.encode() + data[end:]).decode()


def drawn(count: int, seed: int, chosen: list[str]) -> list[tuple[str, int, str, str, str]]:
    """(module, line, what was there, what is, the mutant's source) of so many mutants."""
    found = []
    for name in modules():
        if not chosen or any(part in name for part in chosen):
            source = inspect.getsource(importlib.import_module(f"penstock.{name}"))
            edits = Edits()
            edits.visit(ast.parse(source))
            for node, text in edits.found:
                found.append((name, node, text, source))
    picked = random.Random(seed).sample(found, min(count, len(found)))
    return [
        (name, node.lineno, _text(source, node), text, changed(source, node, text))
        for name, node, text, source in picked
    ]


def _text(source: str, node) -> str:
    found = ast.get_source_segment(source, node) or ""
    return " ".join(found.split())


@cache
def looking_at(module: str) -> list[Proof]:
    """The proofs of a module's parts, then of those that use it."""
    whole = importlib.import_module(f"penstock.{module}")
    own, using = [], []
    for proof in PROOFS:
        package, _, name = proof.part.rpartition(".")
        part = getattr(importlib.import_module(f"penstock.{package}"), name, None)
        home = importlib.import_module(getattr(part, "__module__", "penstock"))
        if home is whole:
            own.append(proof)
        elif any(getattr(v, "__module__", None) == whole.__name__ for v in vars(home).values()):
            using.append(proof)
    soon = lambda proof: (proof.method == "bounded", bool(proof.long))
    return [*sorted(own, key=soon), *sorted(using, key=soon)]


@cache
def text_of(number: int) -> str:
    return PROOFS[number].bench().rtlil()


def caught(proof: Proof, seconds: int) -> str:
    """What a proof says of what is planted: "caught", "holds", "late" or "unchanged"."""
    bench = proof.bench()
    if bench.rtlil() == text_of(PROOFS.index(proof)):
        return "unchanged"
    if proof.player:
        return "caught" if directed(proof).holds is False else "holds"
    verdict = decide(
        bench, method=proof.method, depth=proof.depth, covers=proof.covers, seconds=seconds
    )
    if verdict.holds is None:
        if proof.method == "induction" and "out of time" not in verdict.detail:
            return "caught"  # what induction has to know is no longer so
        bench = proof.bench()
        verdict = decide(bench, method="bounded", depth=proof.search, seconds=seconds)
        return "caught" if verdict.holds is False else "late"
    missing = [text for text in bench.covers if text not in verdict.reached]
    return "caught" if not verdict.holds or missing else "holds"


def _dut(proof: Proof):
    """A proof's component, elaborated now, with its ports."""
    part = proof.bench().m._named_submodules.get("dut")
    component = getattr(part, "component", part)
    return component, part if part is not component else made(component)


def same(proofs: list[Proof], module: str, source: str, seconds: int) -> bool:
    """Whether the parts, as the proofs have them, do the same with a mutant's source."""
    for proof in proofs:
        one, left = _dut(proof)
        with replanted(module, source):
            other, right = _dut(proof)
        b = Bench()
        b.m.submodules.left, b.m.submodules.right = left, right
        mine, theirs = directed_ports(one), directed_ports(other)
        outputs = []
        for name, (value, direction) in mine.items():
            if direction.value == "input":
                free = b.free(name, len(value))
                b.d.comb += [value.eq(free), theirs[name][0].eq(free)]
            else:
                outputs.append(name)
                b.check(name, value == theirs[name][0])
        b.cover("it runs", ~b.first)
        if decide(b, method="pdr", seconds=seconds).holds is not True:
            return False
    return True


def judged(mutant: tuple[str, int, str, str, str], seconds: int = 12) -> tuple[tuple, str, str]:
    """The end of a mutant, and the proof that caught it."""
    module, _, _, _, source = mutant
    proofs = [proof for proof in looking_at(module) if not proof.long]
    for proof in proofs:
        text_of(PROOFS.index(proof))
    warnings.simplefilter("ignore")
    late, touched = False, []
    with replanted(module, source):
        for proof in proofs:
            try:
                said = caught(proof, seconds)
            except Exception as error:
                return mutant, "invalid", f"{type(error).__name__}: {error}"[:150]
            if said == "caught":
                return mutant, "caught", proof.name
            late |= said == "late"
            if said != "unchanged":
                touched.append(proof)
    with contextlib.suppress(Exception):
        if touched and same(touched, module, source, seconds // 2):
            return mutant, "same", ""
    return mutant, ("late" if late else "SURVIVES"), ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", default="1/1", help="2/3: every third mutant from the second on")
    parser.add_argument("modules", nargs="*", help="parts of names, such as hdl.memory.guard")
    given = parser.parse_args()
    found: Counter[str] = Counter()
    part, parts = map(int, given.part.split("/"))
    mutants = drawn(given.count, given.seed, given.modules)[part - 1 :: parts]
    with multiprocessing.get_context("fork").Pool(given.jobs, maxtasksperchild=40) as pool:
        for mutant, end, by in pool.imap_unordered(judged, mutants):
            module, line, old, new, _ = mutant
            found[end] += 1
            print(f"{end:8} {module}:{line} {old} → {new}  {by[:90]}", flush=True)
    real = found.total() - found["invalid"] - found["same"]
    print(
        f"of {found.total()} drawn, {found['invalid']} are no design and {found['same']} change nothing; "
        f"of {real}: {found['caught']} caught ({found['caught'] / max(real, 1):.1%}), "
        f"{found['SURVIVES']} survive, {found['late']} late"
    )


if __name__ == "__main__":
    main()
