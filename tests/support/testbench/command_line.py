"""A folder with a kernel and some data, good and bad, for tests of commands."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["KERNEL", "fill"]

KERNEL = """import penstock as ps

@ps.kernel(epochs=2)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)
"""


def fill(folder: Path) -> None:
    """Write the files into a folder."""
    (folder / "k.py").write_text(KERNEL)
    (folder / "folder").mkdir()
    (folder / "table.csv").write_text("y,a,b\n1,2,3\n0,3,4\n1,5,6\n")
    (folder / "nulls.csv").write_text("y,a,b\n1,2,3\n0,3,4\n,5,6\n")
    (folder / "empty.csv").write_text("")
    (folder / "utf16.csv").write_text("y,a\n1,2\n", encoding="utf-16")
    (folder / "junk.npz").write_bytes(bytes(range(256)))
    (folder / "junk.heap").write_bytes(bytes(range(256)))
    (folder / "schema.json").write_text(json.dumps({"columns": [{"name": "y", "type": "float4"}]}))
