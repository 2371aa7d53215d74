"""What drives and what uses the wires of a module that have no name in the source."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .decisions import segments
from .expressions import lengthened
from .narrow import values
from .rtlil import Assignment, Bits, Cell, Chunk, Module, Process, Switch

OUTPUTS = {"Y", "Q", "DATA"}
CLOCKED = ("$dff", "$adff")


def is_output(cell: Cell, port: str) -> bool:
    return cell.kind.startswith("$") and port in OUTPUTS and cell.kind != "$memwr_v2"


def enables(bits: Bits) -> Iterator[tuple[int, int, Chunk]]:
    """Yield the runs of bits with one enable: the lowest of them, how many, the enable."""
    singles = [
        Chunk(chunk.wire, chunk.low + k if chunk.wire else 0, 1, chunk.value[::-1][k : k + 1])
        for chunk in bits
        for k in range(chunk.width)
    ]
    low = 0
    for k in range(1, len(singles) + 1):
        if k == len(singles) or singles[k] != singles[low]:
            yield low, k - low, singles[low]
            low = k


@dataclass
class Net:
    """What drives a wire without a name, and where it is used."""

    driver: Cell | Process | None = None
    uses: int = 0
    cut: bool = False  # some of its bits are used alone
    users: list[str] = field(default_factory=list)  # wires that are made of it


class Uses:
    """Parameters: `called`: the wires that have names."""

    def __init__(self, module: Module, called: Collection[str]) -> None:
        self.module, self._called = module, called
        self.processes = {self._target(p): p for p in module.processes if p.body}
        self.nets = {name: Net() for name in module.wires if not name.startswith("\\")}
        self._look()

    @staticmethod
    def _target(process: Process) -> str:
        first = process.body[0]
        assert isinstance(first, Assignment)
        return first.target[0].wire

    def _look(self) -> None:
        """Find out what drives and what uses the wires without a name."""
        for cell in self.module.cells:
            for port, bits in cell.ports.items():
                if is_output(cell, port):
                    for chunk in bits:
                        if chunk.wire in self.nets:
                            self.nets[chunk.wire].driver = cell
                    continue
                self._use(bits, self._output(cell))
            if "A" in cell.ports:
                self._cut(lengthened(cell))
            if cell.kind == "$memwr_v2" and len(list(enables(cell.ports["EN"]))) > 1:
                self._cut(cell.ports["DATA"])
        for target, process in self.processes.items():
            if target in self.nets:
                self.nets[target].driver = process
            times = len(segments(process)) if not self.is_clocked(target) else 1
            self._use_body(process.body, target, times)
        for connected, bits in self.module.connections:
            if connected:
                self._use(bits, connected[0].wire)

    def _output(self, cell: Cell) -> str:
        for port, bits in cell.ports.items():
            if bits and is_output(cell, port):
                return bits[0].wire
        return cell.name

    def _use(self, bits: Bits, user: str, times: int = 1) -> None:
        for chunk in bits:
            net = self.nets.get(chunk.wire)
            if net is not None:
                net.uses += times
                net.users.append(user)
                net.cut |= chunk.width != self.module.wires[chunk.wire].width

    def _use_body(self, body: list[Assignment | Switch], target: str, times: int) -> None:
        for item in body:
            if isinstance(item, Assignment):
                self._use(item.value, target)
                if times > 1 and len(item.target) + len(item.value) > 2:
                    self._cut(item.value)
                continue
            at = 0
            for chunk in item.on:
                wanted = [
                    pattern[len(pattern) - at - chunk.width : len(pattern) - at]
                    for patterns, _ in item.cases
                    for pattern in patterns
                ]
                asked = sum(word.strip("-") != "" for word in wanted)
                self._use((chunk,), target, times * asked)
                if chunk.width > 1 and any(0 < word.count("-") < chunk.width for word in wanted):
                    self._cut((chunk,))
                at += chunk.width
            for _, inside in item.cases:
                self._use_body(inside, target, times)

    def _cut(self, bits: Bits) -> None:
        for chunk in bits:
            if chunk.wire in self.nets:
                self.nets[chunk.wire].cut = True

    def is_clocked(self, target: str) -> bool:
        """Whether a process only says what a register becomes."""
        return target in self.next

    @cached_property
    def next(self) -> dict[str, Cell]:
        """Registers by the wire without a name that says what they become."""
        counted = Counter(chunk.wire for bits in values(self.module, is_output) for chunk in bits)
        return {
            bits[0].wire: cell
            for cell in self.module.cells
            if cell.kind in CLOCKED
            and len(bits := cell.ports["D"]) == 1
            and bits[0].wire in self.processes
            and bits[0].wire not in self._called
            and counted[bits[0].wire] == 1
            and bits[0].width == self.module.wires[bits[0].wire].width
        }
