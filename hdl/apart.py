"""Memories whose readers and writers never meet: what they may do without where a block RAM has no answer to that."""

from __future__ import annotations

import re

__all__ = ["APART", "without_collisions"]

#: attributes of a memory with clocked read ports of which no word that counts is read in the cycle in which it is written
APART = {"penstock_apart": 1}

_MEMORY = re.compile(r"\s+memory width \d+ size \d+ (\S+)")
_PARAMETER = re.compile(r"(\s+parameter \\COLLISION_X_MASK \d+\')[01]+")


def without_collisions(rtlil: str) -> str:
    """Return RTLIL in which synthesis need not care what the read ports of memories marked `APART` give for a word that is just being written.

    Amaranth promises the old word there; parts whose block RAMs do not (iCE40) pay for it with registers and comparators.
    """
    lines = rtlil.splitlines()
    marked: set[str] = set()
    mark = chosen = False
    for number, line in enumerate(lines):
        if line.startswith("module "):
            marked, mark = set(), False
        elif "attribute \\penstock_apart" in line:
            mark = True
        elif found := _MEMORY.fullmatch(line):
            if mark:
                marked.add(found[1])
            mark = False
        elif line.lstrip().startswith("parameter \\MEMID"):
            chosen = line.split('"')[1].replace("\\\\", "\\") in marked
        elif chosen and (found := _PARAMETER.fullmatch(line)):
            lines[number] = found[1] + re.sub("0", "1", line[found.end(1) :])
    return "\n".join(lines) + "\n"
