"""The memories that a design's hardware has, read off its netlist: what the lists of `penstock.models` are held against."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from amaranth.hdl import Fragment

from penstock.hdl.alike import Alike
from penstock.hdl.modules import directed_ports
from penstock.hdl.shell.shell import Shell
from penstock.models.mapping import Storage

__all__ = ["emptied", "filled", "memories_of", "memories_of_rtlil"]

_MODULE = re.compile(r"^module \\(\S+)\n(.*?)^end", re.MULTILINE | re.DOTALL)
_MEMORY = re.compile(
    r"((?:^  attribute .*\n)*)^  memory width (\d+) size (\d+) (\S+)$", re.MULTILINE
)
_CELL = re.compile(r"^  cell (\S+) \S+\n(.*?)^  end", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^    (?:parameter|connect)(?: signed)? \\(\S+) (.*)$", re.MULTILINE)
_EMPTY = re.compile(
    r"^  reg (?:\[(\d+):0\] )?(\S+) +\[(\d+):0\];\n"
    r"  initial begin.*\n(?:    integer .+\n)?(?:    .+ = \d+'h0+;\n)+  end\n",
    re.MULTILINE,
)


def filled(verilog: str, memories: Iterable[tuple[int, Storage]]) -> str:
    """Return Verilog in which those of the memories that may become UltraRAM, which has no initial content, begin with random words."""
    rng = random.Random(1)
    shapes = {m.shape for _, m in memories if m.clocked and m.granules and m.readers == 1}

    def draw(found: re.Match[str]) -> str:
        width, depth = int(found[1] or 0) + 1, int(found[3]) + 1
        if (depth, width) not in shapes:
            return found[0]
        words = (f"{width}'h{rng.getrandbits(width):x}" for _ in range(depth))
        rows = (f"    {found[2]}[{row}] = {word};" for row, word in enumerate(words))
        return "\n".join([found[0].partition("\n")[0], "  initial begin", *rows, "  end", ""])

    return _EMPTY.sub(draw, verilog)


def emptied(verilog: str) -> str:
    """Return Verilog in which memories that begin with zeros have no initial content."""
    return _EMPTY.sub(lambda found: found[0].partition("\n")[0] + "\n", verilog)


def memories_of(design: Any) -> Counter[Storage]:
    """Return how often a design, in its shell, has each memory."""
    engine, library = design.hardware()
    shell = Shell(engine, engine.register_map)
    fragment = Fragment.get(shell, None)
    own = Alike().converted(fragment, "top", directed_ports(shell))
    return memories_of_rtlil("\n".join([*library.texts, *own]), "top")


def memories_of_rtlil(text: str, top: str) -> Counter[Storage]:
    modules = {found[1]: found[2] for found in _MODULE.finditer(text)}

    @cache
    def of(name: str) -> Counter[Storage]:
        body, found = modules[name], Counter[Storage]()
        ports: dict[str, list[tuple[bool, dict[str, str]]]] = {}
        for cell in _CELL.finditer(body):
            items = dict(_ITEM.findall(cell[2]))
            if cell[1] in ("$memrd_v2", "$memwr_v2"):
                ports.setdefault(items["MEMID"].strip('"').replace("\\\\", "\\"), []).append(
                    (cell[1] == "$memwr_v2", items)
                )
            elif cell[1].removeprefix("\\") in modules:
                found += of(cell[1].removeprefix("\\"))
        for attributes, width, depth, memid in _MEMORY.findall(body):
            own = ports.get(memid, ())
            found[_storage(int(width), int(depth), attributes, own)] += 1
        return found

    return of(top)


def _storage(width: int, depth: int, attributes: str, ports: Any) -> Storage:
    reads = [items for writes, items in ports if not writes]
    enables = [items["EN"] for writes, items in ports if writes]
    assert len(enables) < 2
    return Storage(
        width,
        depth,
        len(reads),
        max((_granules(text, width) for text in enables), default=0),
        all(items["CLK_ENABLE"].endswith("1") for items in reads),
        any("1" in items["TRANSPARENCY_MASK"].partition("'")[2] for items in reads),
        "penstock_apart" in attributes,
    )


def _granules(text: str, width: int) -> int:
    """Return how many write enables there are in `{ \\a \\b [1] … }`."""
    if not text.startswith("{"):
        return 1 if width == 1 or "[" in text else width
    bits = set()
    for name, high, low in re.findall(r"([\\$]\S+)(?: \[(\d+)(?::(\d+))?\])?", text):
        bits |= {(name, bit) for bit in range(int(low or high or 0), int(high or 0) + 1)}
    return len(bits)
