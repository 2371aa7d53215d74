"""Results of which only the low bits are used, computed in as many bits: the others of a sum that wraps around are nobody's."""

from collections.abc import Callable, Iterator

from .expressions import part
from .rtlil import Assignment, Bits, Cell, Chunk, Module, Switch

#: operations whose low bits depend on no higher bits of their operands
_LOW = {"$add", "$sub", "$mul", "$and", "$or", "$xor", "$not", "$neg", "$mux", "$shl"}


def values(module: Module, is_output: Callable[[Cell, str], bool]) -> Iterator[Bits]:
    """Yield all that is used somewhere in a module."""
    for cell in module.cells:
        for port, bits in cell.ports.items():
            if not is_output(cell, port):
                yield bits
    for process in module.processes:
        yield from _of(process.body)
    for _, bits in module.connections:
        yield bits


def _of(body: list[Assignment | Switch]) -> Iterator[Bits]:
    for item in body:
        if isinstance(item, Assignment):
            yield item.value
        else:
            yield item.on
            for _, inside in item.cases:
                yield from _of(inside)


def narrow(module: Module, is_output: Callable[[Cell, str], bool]) -> None:
    """Make those wires without a name narrower whose upper bits are not used."""
    drivers = {
        cell.ports["Y"][0].wire: cell
        for cell in module.cells
        if cell.kind in _LOW and cell.ports["Y"] and cell.ports["Y"][0].wire.startswith("$")
    }
    while True:
        ends = dict.fromkeys(drivers, 0)
        for bits in values(module, is_output):
            for chunk in bits:
                if chunk.wire in ends:
                    ends[chunk.wire] = max(ends[chunk.wire], chunk.low + chunk.width)
        changed = False
        for wire, end in ends.items():
            if 0 < end < module.wires[wire].width:
                module.wires[wire].width = end
                _shorten(drivers[wire], end)
                changed = True
        if not changed:
            return


def _shorten(cell: Cell, width: int) -> None:
    output = cell.ports["Y"][0]
    cell.ports["Y"] = (Chunk(output.wire, 0, width),)
    for name in "A" if cell.kind == "$shl" else "AB":
        if name in cell.ports:
            cell.ports[name] = part(cell.ports[name], 0, width)
