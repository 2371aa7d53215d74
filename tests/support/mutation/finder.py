"""Imports `penstock` from a copy. A copy's environment imports this file first (mutation.copies).

MUTATION_PLANTED names a module of the copy and a file with its changed text: the module is that text
then, in every process. MUTATION_PROBES names a file of JSON, for each module its statements and their
numbers: a statement that is executed puts its numbers into HITS. What processes that are not pytest's
executed goes at their ends into the folder MUTATION_RECORD, by the test that started them.
"""

from __future__ import annotations

import ast
import atexit
import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

FOLDERS: dict[str, str] = {}  # of packages; a copy adds its own below
HITS: set[int] = set()

_BODIES = ("body", "orelse", "finalbody")
_PROBES = os.environ.get("MUTATION_PROBES")
#: of a module's path: the numbers of each line where a statement begins; 0: of every function
PROBES: dict[str, dict[str, list[int]]] = json.loads(Path(_PROBES).read_text()) if _PROBES else {}


def probed(source: str, lines: dict[str, list[int]]) -> ast.Module:
    """Return a module whose statements say what they execute."""
    tree = ast.parse(source)
    for node in [*ast.walk(tree)]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (every := lines.get("0")):
            k = 1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0
            node.body[k:k] = _says(every, node.body[k])
        for name in _BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list):
                body[:] = [
                    one for s in body for one in (*_says(lines.get(str(s.lineno), []), s), s)
                ]
    return ast.fix_missing_locations(tree)


def _says(numbers: list[int], place: ast.stmt) -> list[ast.stmt]:
    if not numbers:
        return []
    said = ast.parse(f"__import__('copied_checkout').HITS.update({tuple(numbers)})").body[0]
    for part in ast.walk(said):
        ast.copy_location(part, place)
    return [said]


class Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        source = Path(self.path).read_text()
        planted, _, text = os.environ.get("MUTATION_PLANTED", "").partition(os.pathsep)
        if planted == self.path:
            source = Path(text).read_text()
        tree = probed(source, PROBES.get(self.path, {}))
        return compile(tree, self.path, "exec", dont_inherit=True)


class Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "penstock":
            return None
        if folder := FOLDERS.get(name):
            place = os.path.join(folder, "__init__.py")
            spec = spec_from_file_location(name, place, submodule_search_locations=[folder])
        else:
            spec = PathFinder.find_spec(name, path)
        planted = os.environ.get("MUTATION_PLANTED", "").partition(os.pathsep)[0]
        if spec and spec.origin and (spec.origin in PROBES or spec.origin == planted):
            spec.loader = Loader(name, spec.origin)
        return spec


def _told() -> None:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if HITS and test and (folder := os.environ.get("MUTATION_RECORD")):
        with (Path(folder) / f"started-{os.getpid()}.jsonl").open("a") as file:
            file.write(f"{json.dumps({'test': test, 'hits': sorted(HITS)})}\n")


if PROBES:
    atexit.register(_told)
sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
