"""How many planted defects the tests notice: `python tests/mutants.py [--count N] [--seed S] [PART OF A PATH …]`.

Draws mutants of the product's modules by the seed, plants one at a time into the sources of this
checkout (an editable install), runs the folders of tests that mirror the module, and takes it out
again. The test that has the module's name runs first, then those that import the module, for they
notice soonest. A mutant is caught when a test fails. One whose tests take more than --minutes of
processor time is late: it is neither caught nor missed. Prints a line for each, and the sums. Exit
code 0 whatever they are. --near runs only the tests that name the module, which is quick: what is
missed then may be caught by the folder's others. --first skips mutants, to go on where a run ended.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("src/penstock", "boards", "dsl", "hdl", "host", "models", "sim")
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

#: where an expression is a type
_TYPES = ("annotation", "returns")


def mutants(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield (expression, what takes its place) of every mutant. Types that are written down do nothing."""
    written = [getattr(node, name, None) for node in ast.walk(tree) for name in _TYPES]
    types = {id(part) for one in written if one is not None for part in ast.walk(one)}
    for node in ast.walk(tree):
        if id(node) in types:
            continue
        if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
            kept, node.op = node.op, SWAPS[type(node.op)]()  # type: ignore[assignment]
            yield node, f"({ast.unparse(node)})"
            node.op = kept  # type: ignore[assignment]
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            kept_op, node.ops[0] = node.ops[0], SWAPS[type(node.ops[0])]()  # type: ignore[call-overload]
            yield node, f"({ast.unparse(node)})"
            node.ops[0] = kept_op
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, f"({ast.unparse(node.operand)})"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, str(node.value + 1)


def planted(source: str, node: ast.expr, text: str) -> str:
    """Return the source with `text` in place of an expression."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    assert node.end_lineno is not None and node.end_col_offset is not None
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    data = b"".join(lines)
    return (data[:begin] + text.encode() + data[end:]).decode()


def mirror(module: Path) -> list[Path]:
    """Return the tests that mirror a module: of its folder and of those around it."""
    parts = module.relative_to(ROOT).parts[:-1]
    folders = [ROOT / "tests" / part for part in parts if (ROOT / "tests" / part).is_dir()]
    return [test for folder in folders or [ROOT / "tests"] for test in folder.rglob("test_*.py")]


def tests(module: Path, near: bool) -> list[str]:
    """Return the tests of a module, those that are likely to notice a defect in it first; `near`:
    only these, where there are any."""
    parts = module.relative_to(ROOT).with_suffix("").parts
    name = ".".join(["penstock", *(parts[2:] if parts[0] == "src" else parts)])
    said = re.compile(rf"\b{re.escape(name)}\b")

    def order(test: Path) -> tuple[bool, bool, Path]:
        return test.stem != f"test_{module.stem}", not said.search(test.read_text()), test

    found = sorted(map(order, mirror(module)))
    named = [entry for entry in found if entry[:2] != (True, True)]
    return [str(test) for *_, test in (named if near and named else found)]


def noticed(module: Path, minutes: float, near: bool) -> str:
    """Return whether the tests of a module notice what has been planted into it."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (round(60 * minutes), round(60 * minutes)))

    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not long"]
    command += ["-p", "no:cacheprovider", *tests(module, near)]
    try:
        run = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            timeout=5 * 60 * minutes,
            check=False,
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        return "late"
    if -run.returncode in (signal.SIGXCPU, signal.SIGKILL):
        return "late"
    return "caught" if run.returncode else "MISSED"


def drawn(count: int, seed: int, chosen: list[str]) -> Iterator[tuple[Path, str, int, str]]:
    """Yield (module, its mutant, line, what is new) of so many mutants."""
    found = []
    for package in PACKAGES:
        for module in sorted((ROOT / package).rglob("*.py")):
            if not chosen or any(part in str(module.relative_to(ROOT)) for part in chosen):
                for node, text in mutants(ast.parse(module.read_text())):
                    found.append((module, node, text))
    for module, node, text in random.Random(seed).sample(found, min(count, len(found))):
        yield module, planted(module.read_text(), node, text), node.lineno, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=30, help="of processor time, for one mutant"
    )
    parser.add_argument("--first", type=int, default=0, help="skip so many mutants")
    parser.add_argument("--near", action="store_true", help="only tests that name the module")
    parser.add_argument("parts", nargs="*")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the source is put back then as well
    found: Counter[str] = Counter()
    all_of_them = drawn(given.count, given.seed, given.parts)
    for module, mutant, line, text in islice(all_of_them, given.first, None):
        source = module.read_text()
        try:
            module.write_text(mutant)
            found[(end := noticed(module, given.minutes, given.near))] += 1
        finally:
            module.write_text(source)
        print(f"{end:6}", f"{module.relative_to(ROOT)}:{line}", text, flush=True)
    print(
        f"of {found.total()} mutants: {found['caught']} caught, {found['MISSED']} missed, {found['late']} late"
    )


if __name__ == "__main__":
    main()
