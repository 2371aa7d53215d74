"""No circle of imports has more than two files; imports for types alone, and those inside functions, count as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("boards", "dsl", "hdl", "host", "models", "sim")


def modules() -> dict[str, Path]:
    """Return the files of the product by their modules' names."""
    files = {path: path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}
    for room in ROOMS:
        files |= {path: "penstock" / path.relative_to(ROOT) for path in (ROOT / room).rglob("*.py")}
    return {
        ".".join(name.with_suffix("").parts).removesuffix(".__init__"): path
        for path, name in files.items()
    }


def imported(module: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a module imports; a package's own names are its `__init__`'s."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inside = f"{base}.{alias.name}"
                yield from (name for name in [inside if inside in known else base] if name in known)


def circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sets of more than one module that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        found, waiting = set[str](), [start]
        while waiting:
            new = arrows[waiting.pop()] - found
            found |= new
            waiting += new
        reached[start] = found
    together = {
        frozenset(other for other in reached[name] if name in reached[other]) | {name}
        for name in arrows
    }
    return [sorted(group) for group in together if len(group) > 1]


def test_circles() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_circle_of_more_than_two_files() -> None:
    known = modules()
    assert len(known) > 400
    arrows = {name: set(imported(name, path, known)) - {name} for name, path in known.items()}
    assert arrows["penstock.engines.design"] >= {"penstock.runs.run", "penstock.models.target"}
    assert [group for group in circles(arrows) if len(group) > 2] == []
