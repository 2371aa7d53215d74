"""Which tests execute a line: what a collection stored, read for sources that may be newer."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from coverage import CoverageData


class Contexts:
    """A collection: the sources it ran on, what each test took, and the tests of each line."""

    def __init__(self, record: Path, tree: Path) -> None:
        # a collection that is under way writes the file anew
        mine = shutil.copy(record / "combined", record / "reading")
        self.tree, self.data = tree, CoverageData(str(mine))
        self.data.read()
        lines = map(json.loads, (record / "tests.jsonl").read_text().splitlines())
        told = {line["test"]: line for line in lines}
        #: seconds of a processor, of those that pass
        self.seconds = {k: t["seconds"] for k, t in told.items() if t["ended"] == "passed"}

    @cache  # noqa: B019
    def _lines(self, module: str) -> dict[int, set[str]]:
        found = self.data.contexts_by_lineno(str(self.tree / module))
        return {line: set(map(_test, names)) for line, names in found.items()}

    @cache  # noqa: B019
    def _old(self, module: str, source: str) -> dict[int, int]:
        """Return where lines stood when they were collected."""
        old = self.tree / module
        before = old.read_text().splitlines() if old.is_file() else []
        same = SequenceMatcher(None, source.splitlines(), before, autojunk=False)
        blocks = same.get_matching_blocks()
        return {a + k + 1: b + k + 1 for a, b, size in blocks for k in range(size)}

    def tests(self, module: str, source: str, begin: int, end: int) -> tuple[list[str], str]:
        """Return the tests of some lines, fastest first, and how they were found.

        New lines have the tests of the function around them; lines that are executed while modules
        are imported, be it by one test, or tests are collected, those of the whole module.
        """
        lines, old = self._lines(module), self._old(module, source)
        statement, function = _around(source, begin, end)
        if not function:
            return self.ordered(set().union(*lines.values())), "module"
        ranges = [("line", range(begin, end + 1)), ("statement", statement)]
        if not all(number in old for number in statement):
            ranges.append(("function", function))
        for name, numbers in ranges:
            found = set().union(*(lines.get(old.get(n, 0), set()) for n in numbers))
            if found - {""}:
                return self.ordered(found), name
            if found:
                function = None
        if function and len(ranges) == 2:
            return [], "nothing executes it"
        return self.ordered(set().union(*lines.values())), "module"

    def ordered(self, tests: Iterable[str]) -> list[str]:
        """Return the tests that pass, those of like duration together, file by file.

        A fixture of a file is made once for each such part of its tests, and not for each test.
        """
        known = [test for test in tests if test in self.seconds]
        return sorted(known, key=lambda t: (int(self.seconds[t] * 10).bit_length(), t))


def _test(context: str) -> str:
    """Return the test of a context: of one that set up, or of a process that a test started."""
    for end in ("|setup", " (call)", " (setup)", " (teardown)"):
        context = context.removesuffix(end)
    return context


def _around(source: str, begin: int, end: int) -> tuple[range, range | None]:
    """Return the lines of the innermost statement, without its body, and those of the function."""
    statement, function = range(begin, end + 1), None
    for node in ast.walk(ast.parse(source)):  # outer ones first
        if not isinstance(node, ast.stmt) or not node.lineno <= begin <= end <= (
            node.end_lineno or 0
        ):
            continue
        body = getattr(node, "body", None)
        last = max(body[0].lineno - 1, node.lineno) if body else node.end_lineno or 0
        statement = range(node.lineno, last + 1)
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and body
            and begin >= body[0].lineno
        ):
            function = range(body[0].lineno, (node.end_lineno or 0) + 1)
    return statement, function
