"""The recorded run of an export, read from its folder as another program would read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CHECK", "COMPARE", "CYCLES", "PUT", "SET", "WAIT", "Recorded", "Step"]

PUT, COMPARE, SET, CHECK, WAIT, CYCLES = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Step:
    """`kind`; `at`: a byte of memory `space`, or a register's offset; `value`: a register's; `data`: of PUT and COMPARE."""

    kind: int
    space: int
    at: int
    value: int
    data: bytes


class Recorded:
    """`manifest`, `registers` (offsets by name) and `steps` of an export in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
        self.ports = self.manifest["ports"]
        registers = self.manifest["register_map"]["registers"]
        self.registers = {register["name"]: register["offset"] for register in registers}

    @property
    def steps(self) -> Iterator[Step]:
        data = bytes.fromhex((self.folder / "tb/vectors/data.hex").read_text())
        for line in (self.folder / "tb/vectors/script.hex").read_text().splitlines():
            code, at, value = (int(word, 16) for word in line.partition(" // ")[0].split())
            kind, size = code & 0xFF, value if code & 0xFF in (PUT, COMPARE) else 0
            yield Step(kind, code >> 8, at, value, data[:size])
            data = data[size:]
