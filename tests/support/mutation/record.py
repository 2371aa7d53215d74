"""Which tests execute a mutant's line: probes to collect it, and what a collection stored."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from mutation.kinds import Mutant

SLOW = 6  # a test that was ended counts as so many times its seconds
UNKNOWN = 5.0  # seconds, at least, of one that did not pass
_WORD = re.compile(r"[a-z0-9]+")
_PARTS = (8.0, 40.0)  # tests of so many seconds are tried before those of more


def probes(
    tree: Path, wanted: Iterable[Mutant]
) -> tuple[list[str], dict[str, dict[str, list[int]]]]:
    """Return the keys of mutants, and for each module the lines of their statements with the keys' places.

    What only an import executes has the line 0: every function of the module stands for it.
    """
    keys: list[str] = []
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for mutant in wanted:
        source = (tree / mutant.module).read_text()
        line = statement(source, mutant.line, mutant.end)
        found[str(tree / mutant.module)][str(line)].append(len(keys))
        keys.append(mutant.key)
    return keys, found


def statement(source: str, begin: int, end: int) -> int:
    """Return where the innermost statement around some lines begins, 0 where an import executes it."""
    line, inside = 0, False
    for node in ast.walk(ast.parse(source)):  # outer ones first
        if not isinstance(node, ast.stmt) or not node.lineno <= begin <= end <= (
            node.end_lineno or 0
        ):
            continue
        line = node.lineno if inside else 0
        body = getattr(node, "body", None)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = inside or begin >= node.body[0].lineno
        elif isinstance(node, ast.ClassDef) and body and begin >= body[0].lineno and not inside:
            line = 0
    return line


class Record:
    """A collection: what each test took, and the tests of each mutant."""

    def __init__(self, folder: Path) -> None:
        self.keys: dict[str, int] = {
            key: k for k, key in enumerate(json.loads((folder / "keys.json").read_text()))
        }
        self.seconds: dict[str, float] = {}
        self.tests = defaultdict[int, set[str]](set)
        self.passed = Counter[str]()  # how many probes each test passes
        for file in sorted(folder.glob("*.jsonl")):
            for told in map(json.loads, file.read_text().splitlines()):
                self._add(told)
        #: how many mutants of a folder the tests of a file have caught
        self.catches = Counter[tuple[str, str]]()

    def _add(self, told: dict[str, object]) -> None:
        test, hits = str(told["test"]), told["hits"]
        if "seconds" in told:
            seconds = float(str(told["seconds"]))
            if told["ended"] != "passed":  # or a fixture of its file's was ended
                seconds = SLOW * max(seconds, UNKNOWN)
            self.seconds[test] = seconds
        assert isinstance(hits, list)
        self.passed[test] += len(hits)
        for k in hits:
            self.tests[k].add(test)

    def ordered(self, mutant: Mutant) -> list[tuple[str, float]]:
        """Return the tests that execute a mutant's line, with their seconds; likely judges come first.

        Likely are tests whose names are the module's, those that execute little else, and those of a
        file that caught others of its folder. Cases of one function see the same: each next one
        counts half. Of what takes alike, a file's tests stand together: a fixture is made once.
        """
        folder = mutant.module.rpartition("/")[0]
        known = [t for t in self.tests[self.keys[mutant.key]] if t in self.seconds]

        def cost(test: str) -> float:
            near = _nearness(mutant.module, test) * (1 + self.catches[folder, _file(test)])
            return (0.2 + self.seconds[test]) * (50 + self.passed[test]) ** 0.5 / near

        costs, before = {test: cost(test) for test in known}, Counter[str]()
        for test in sorted(known, key=lambda test: (costs[test], test)):
            function, file = test.split("[")[0], _file(test)
            costs[test] *= 2 ** min(before[function], 20) * 1.1 ** before[file]
            before.update((function, file))
        return self._together(sorted(known, key=lambda test: (costs[test], test)))

    def _together(self, tests: list[str]) -> list[tuple[str, float]]:
        parts, total = [dict[str, list[str]]() for _ in range(len(_PARTS) + 1)], 0.0
        for test in tests:
            total += self.seconds[test] + 0.1
            parts[sum(total > end for end in _PARTS)].setdefault(_file(test), []).append(test)
        return [(t, self.seconds[t]) for part in parts for some in part.values() for t in some]

    def caught(self, mutant: Mutant, test: str) -> None:
        """Note that a test caught a mutant: those of its file are likely to catch others nearby."""
        self.catches[mutant.module.rpartition("/")[0], _file(test)] += 1


def _file(test: str) -> str:
    return test.split("::")[0]


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
