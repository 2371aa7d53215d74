"""Which tests execute a line: what a collection stored, read for sources that may be newer."""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from coverage import CoverageData

SLOW = 6  # a test that was ended counts as so many times its seconds
_WORD = re.compile(r"[a-z0-9]+")


class Contexts:
    """A collection: the sources it ran on, what each test took, and the tests of each line."""

    def __init__(self, record: Path, tree: Path) -> None:
        # a collection that is under way writes the file anew
        mine = shutil.copy(record / "combined", record / "reading")
        self.tree, self.data = tree, CoverageData(str(mine))
        self.data.read()
        self.settings = [*map(str.strip, (record / "settings").read_text().splitlines())]
        lines = map(json.loads, (record / "tests.jsonl").read_text().splitlines())
        told = {line["test"]: line for line in lines}
        #: seconds of a processor, of those that pass; of those that were ended, so many times more
        self.seconds = {
            name: test["seconds"] * (SLOW if test["ended"] == "slow" else 1)
            for name, test in told.items()
            if test["ended"] in ("passed", "slow")
        }
        #: how many mutants of a folder the tests of a file have caught
        self.catches: Counter[tuple[str, str]] = Counter()

    def looked_at(self, module: str) -> bool:
        """Return whether tests were collected for a module."""
        return str(self.tree / module) in self.settings

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
        """Return the tests of some lines, likely judges first, and how they were found.

        New lines have the tests of the function around them; lines that are executed while modules
        are imported, be it by one test, or tests are collected, those of the whole module.
        """
        lines, old = self._lines(module), self._old(module, source)
        statement, function = _around(source, begin, end)
        if not function:
            return self.ordered(module, set().union(*lines.values())), "module"
        ranges = [("line", range(begin, end + 1)), ("statement", statement)]
        if not all(number in old for number in statement):
            ranges.append(("function", function))
        for name, numbers in ranges:
            found = set().union(*(lines.get(old.get(n, 0), set()) for n in numbers))
            if found - {""}:
                return self.ordered(module, found), name
            if found:
                function = None
        if function and len(ranges) == 2:
            return [], "nothing executes it"
        return self.ordered(module, set().union(*lines.values())), "module"

    def caught(self, module: str, test: str) -> None:
        """Note that a test caught a mutant: those of its file are likely to catch others nearby."""
        self.catches[_folder(module), test.split("::")[0]] += 1

    def ordered(self, module: str, tests: Iterable[str]) -> list[str]:
        """Return the tests that pass, those first that are likely to judge a module within few seconds.

        Likely are tests whose names are the module's, those that execute little else, and those of a
        file that caught others of its folder. Cases of one function see the same: each next one
        counts half.
        """
        lines, known = self._executed(), [test for test in tests if test in self.seconds]

        def cost(test: str) -> float:
            near = _nearness(module, test) * (1 + self.catches[_folder(module), _file(test)])
            return (0.2 + self.seconds[test]) * (50 + lines[test]) ** 0.5 / near

        costs, before = {test: cost(test) for test in known}, Counter[str]()
        for test in sorted(known, key=lambda test: (costs[test], test)):
            function, file = test.split("[")[0], _file(test)
            costs[test] *= 2 ** min(before[function], 20) * 1.1 ** before[file]
            before.update((function, file))
        return sorted(known, key=lambda test: (costs[test], test))

    @cache  # noqa: B019
    def _executed(self) -> Counter[str]:
        """Return how many lines each test executes."""
        count = Counter[str]()
        for module in self.data.measured_files():
            for names in self.data.contexts_by_lineno(module).values():
                count.update(set(map(_test, names)))
        return count


def _file(test: str) -> str:
    return test.split("::")[0]


def _folder(module: str) -> str:
    return module.rpartition("/")[0]


def _nearness(module: str, test: str) -> int:
    """Return how near the names of a test are to those of a module."""
    folder, _, name = module.removesuffix(".py").rpartition("/")
    path, _, function = test.partition("::")
    rooms = {room for room in folder.split("/") if room not in ("src", "hdl", "models", "dsl")}
    words = set(_WORD.findall(path.replace("_", " ")))
    own = set(_WORD.findall(name.replace("_", " ")))
    near = 4 if rooms & words else 1
    near *= 1 + 4 * len(own & words)
    return near * (2 if own & set(_WORD.findall(function.split("[")[0].replace("_", " "))) else 1)


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
