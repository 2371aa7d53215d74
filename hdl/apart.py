"""What synthesis is told of memories: that readers and writers never meet, and which kind of block they become."""

import re
from collections.abc import Mapping

#: attributes of a memory with clocked read ports of which no word that counts is read in the cycle in which it is written
APART = {"penstock_apart": 1}

_MEMORY = re.compile(r"\s+memory width \d+ size \d+ (\S+)")
_SIZED = re.compile(r"^( *)memory width (\d+) size (\d+) ", re.MULTILINE)
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
        elif match := _MEMORY.fullmatch(line):
            if mark:
                marked.add(match[1])
            mark = False
        elif line.lstrip().startswith("parameter \\MEMID"):
            chosen = line.split('"')[1].replace("\\\\", "\\") in marked
        elif chosen and (match := _PARAMETER.fullmatch(line)):
            lines[number] = match[1] + re.sub("0", "1", line[match.end(1) :])
    return "\n".join(lines) + "\n"


def with_styles(rtlil: str, styles: Mapping[tuple[int, int], str]) -> str:
    """Return RTLIL in which memories of each (depth, width) carry the attribute `ram_style` that a plan decided (`models.mapping.ram_styles`)."""
    if not styles:
        return rtlil

    def styled(match: re.Match[str]) -> str:
        style = styles.get((int(match[3]), int(match[2])))
        return f'{match[1]}attribute \\ram_style "{style}"\n{match[0]}' if style else match[0]

    return _SIZED.sub(styled, rtlil)
