"""Counts the files that a kernel's way enters, and how often it changes packages: python scripts/entered.py KERNEL [DIM=SIZE...]

One line each for `compile` (Verilog apart), golden results and the model's cycles. A package is a folder with its
parent, as `dsl/core`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("src", "dsl", "hdl", "host", "models", "sim", "boards")


class Entered:
    """Files in the order of the first call into each, and changes of the package from one call to the next."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.changes = 0
        self._package: str | None = None
        self._places: dict[str, tuple[str, str] | None] = {}

    def _place(self, file: str) -> tuple[str, str] | None:
        """The file in the repository, and its package; None for others'."""
        path = Path(file)
        if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in ROOMS:
            return None
        path = path.relative_to(ROOT)
        return str(path), str(path.parent)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        file = frame.f_code.co_filename
        if file not in self._places:
            self._places[file] = self._place(file)
        if (place := self._places[file]) is None or frame.f_code.co_name == "<module>":
            return
        path, package = place
        self.files[path] = self.files.get(path, 0) + 1
        self.changes += package != self._package
        self._package = package


def entered(do: Callable[[], Any]) -> tuple[Any, Entered]:
    seen = Entered()
    sys.setprofile(seen)
    try:
        result = do()
    finally:
        sys.setprofile(None)
    return result, seen


def main(kernel: str, *sizes: str) -> None:
    import penstock as ps

    dims = {name: int(size) for name, _, size in (text.partition("=") for text in sizes)}
    compiled = lambda: ps.compile(kernel, dims=dims)
    compiled().run("random:rows=9", backend="model")  # what is imported late, is
    design, seen = entered(compiled)
    print(f"compile: {len(seen.files)} files, {seen.changes:,} changes of packages")
    for backend in ("golden", "model"):
        _, seen = entered(partial(design.run, "random:rows=9", backend=backend))
        print(f"{backend}: {len(seen.files)} files, {seen.changes:,} changes of packages")


if __name__ == "__main__":
    main(*sys.argv[1:])
