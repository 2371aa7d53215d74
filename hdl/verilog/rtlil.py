"""RTLIL as Amaranth's backend writes it, read into plain data (Yosys's manual, appendix "RTLIL text representation")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Chunk(NamedTuple):
    """Bits `low` to `low + width - 1` of a wire; of a constant, whose `wire` is "", the bits are in `value`,
    the highest first."""

    wire: str
    low: int
    width: int
    value: str = ""


#: a value: its chunks, the lowest bits first
Bits = tuple[Chunk, ...]
Attributes = dict[str, str]


@dataclass
class Wire:
    """`port`: "input" or "output", "" for none."""

    name: str
    width: int
    port: str
    attributes: Attributes


@dataclass
class Storage:
    name: str
    width: int
    depth: int
    attributes: Attributes


@dataclass
class Cell:
    """`parameters`: as they stand there, texts in their quotes."""

    kind: str
    name: str
    attributes: Attributes
    parameters: dict[str, str] = field(default_factory=dict)
    ports: dict[str, Bits] = field(default_factory=dict)


class Assignment(NamedTuple):
    target: Bits
    value: Bits


@dataclass
class Switch:
    """`cases`: patterns (none for the default), each with what it does."""

    on: Bits
    cases: list[tuple[tuple[str, ...], list[Assignment | Switch]]] = field(default_factory=list)


@dataclass
class Process:
    attributes: Attributes
    body: list[Assignment | Switch] = field(default_factory=list)


@dataclass
class Module:
    name: str
    attributes: Attributes
    wires: dict[str, Wire] = field(default_factory=dict)
    memories: dict[str, Storage] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    connections: list[Assignment] = field(default_factory=list)

    def width(self, bits: Bits) -> int:
        return sum(chunk.width for chunk in bits)


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_ESCAPE = re.compile(r"\\(.)")


class _Reader:
    """Reads lines; `wires` are those of the module that is being read, whose names stand for all their bits."""

    def __init__(self, text: str) -> None:
        self.lines: Iterator[list[str]] = (
            tokens
            for line in text.splitlines()
            if (tokens := _TOKEN.findall(line)) and not tokens[0].startswith("#")
        )
        self.wires: dict[str, Wire] = {}

    def bits(self, tokens: list[str]) -> Bits:
        """Return the one value that the tokens are."""
        bits, rest = self.value(tokens, 0)
        assert rest == len(tokens), tokens
        return bits

    def value(self, tokens: list[str], at: int) -> tuple[Bits, int]:
        """Return the value that begins at a token, and the place after it."""
        token = tokens[at]
        if token == "{}":
            return (), at + 1
        if token == "{":
            parts: list[Bits] = []
            at += 1
            while tokens[at] != "}":
                part, at = self.value(tokens, at)
                parts.append(part)
            return tuple(chunk for part in reversed(parts) for chunk in part), at + 1
        if token[0] in "\\$":
            low, width, at = 0, self.wires[token].width, at + 1
            if at < len(tokens) and tokens[at].startswith("["):
                high, _, last = tokens[at][1:-1].partition(":")
                low = int(last or high)
                width, at = int(high) - low + 1, at + 1
            return ((Chunk(token, low, width),) if width else ()), at
        width_text, _, value = token.partition("'")
        return ((Chunk("", 0, int(width_text), value),) if int(width_text) else ()), at + 1

    def body(self, ends: tuple[str, ...]) -> tuple[list[Assignment | Switch], list[str]]:
        """Return what stands before one of the words that end it, and the line with that word."""
        statements: list[Assignment | Switch] = []
        for tokens in self.lines:
            if tokens[0] in ends:
                return statements, tokens
            if tokens[0] == "assign":
                target, at = self.value(tokens, 1)
                statements.append(Assignment(target, self.value(tokens, at)[0]))
            elif tokens[0] == "switch":
                statements.append(self.switch(tokens))
        raise ValueError("RTLIL ends within a process")

    def switch(self, tokens: list[str]) -> Switch:
        switch = Switch(self.bits(tokens[1:]))
        line = next(self.lines)
        while line[0] == "case":
            patterns = tuple(token.rstrip(",").partition("'")[2] for token in line[1:])
            body, line = self.body(("case", "end"))
            switch.cases.append((patterns, body))
        return switch

    def cell(self, tokens: list[str], attributes: Attributes) -> Cell:
        cell = Cell(tokens[1], tokens[2], attributes)
        for line in self.lines:
            if line[0] == "end":
                return cell
            if line[0] == "parameter":
                text = _plain(line[-1]) if line[1] == "real" else line[-1]
                cell.parameters[line[-2].removeprefix("\\")] = text
            else:
                cell.ports[line[1].removeprefix("\\")] = self.bits(line[2:])
        raise ValueError("RTLIL ends within a cell")

    def module(self, name: str, attributes: Attributes) -> Module:
        module, marks = Module(name.removeprefix("\\"), attributes), Attributes()
        self.wires = module.wires
        for line in self.lines:
            kind = line[0]
            if kind == "attribute":
                marks[line[1].removeprefix("\\")] = _plain(line[2])
                continue
            if kind == "end":
                return module
            if kind == "wire":
                port = next((word for word in ("input", "output", "inout") if word in line), "")
                module.wires[line[-1]] = Wire(line[-1], int(line[2]), port, marks)
            elif kind == "memory":
                module.memories[line[-1]] = Storage(line[-1], int(line[2]), int(line[4]), marks)
            elif kind == "cell":
                module.cells.append(self.cell(line, marks))
            elif kind == "process":
                module.processes.append(Process(marks, self.body(("end",))[0]))
            elif kind == "connect":
                target, at = self.value(line, 1)
                module.connections.append(Assignment(target, self.value(line, at)[0]))
            marks = Attributes()
        raise ValueError("RTLIL ends within a module")


def _plain(text: str) -> str:
    """Return a constant as it stands there, a text without its quotes."""
    return _ESCAPE.sub(r"\1", text[1:-1]) if text.startswith('"') else text


def parse(text: str) -> Iterator[Module]:
    """Yield the modules of a text, in order."""
    reader, attributes = _Reader(text), Attributes()
    for line in reader.lines:
        if line[0] == "attribute":
            attributes[line[1].removeprefix("\\")] = _plain(line[2])
        elif line[0] == "module":
            yield reader.module(line[1], attributes)
            attributes = Attributes()
