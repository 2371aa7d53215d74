"""Kernels of fits over keys, and a table of keys, for tests of commands."""

from __future__ import annotations

from pathlib import Path

__all__ = ["SMALL", "fill", "written"]

KERNEL = """import penstock as ps

@ps.fit{options}
def f(key: ps.Key):
    return ps.least_squares(ps.window(key, {length}), target=ps.{label}(key))
"""
SMALL = """import penstock as ps

@ps.fit(method="gram", incremental=True)
def small(key: ps.Key):
    return ps.least_squares(ps.window(key, 3), target=ps.slot(key))
"""


def written(name: str = "f.py", *, options: str = "", length: int = 8, label: str = "slot") -> str:
    Path(name).write_text(KERNEL.format(options=options, length=length, label=label))
    return name


def fill(folder: Path) -> None:
    """Write a kernel and a table into a folder, which is the current one."""
    written()
    rows = "".join(f"{n},k{n * 7919 % 1009:04d}\n" for n in range(600))
    (folder / "keys.csv").write_text("id,url\n" + rows)
