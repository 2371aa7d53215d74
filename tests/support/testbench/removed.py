"""Penstock as if the packages of an engine had never been there: the folders of the rest under one, as links."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path

import penstock.engines

__all__ = ["packages", "without"]

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("boards", "dsl", "hdl", "host", "models", "sim")


def packages() -> dict[str, tuple[str, ...]]:
    """Return the packages of each engine."""
    engines = (m.name for m in pkgutil.iter_modules(penstock.engines.__path__) if m.ispkg)
    return {name: importlib.import_module(f"penstock.engines.{name}").PACKAGES for name in engines}


def without(removed: Sequence[str], place: Path) -> dict[str, str]:
    """Lay a tree out in a folder; return the variables of an environment whose `penstock` it is."""
    gone = {name.replace(".", "/") for name in removed}

    def lay(source: Path, name: str) -> None:
        if name in gone or source.name == "__pycache__":
            return
        path = place / "penstock" / name
        if any(other.startswith(f"{name}/") for other in gone):
            path.mkdir(parents=True, exist_ok=True)
            for part in source.iterdir():
                lay(part, f"{name}/{part.name}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(source)

    for source in (*(ROOT / "src" / "penstock").iterdir(), *(ROOT / room for room in ROOMS)):
        lay(source, source.name)
    return {"PYTHONPATH": str(place)}
