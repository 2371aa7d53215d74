"""Cells that compute the same are made one, and those that change nothing go: a sum with 0, a shift by a constant, a choice that is made.

Only wires without a name are touched: what has one in the source is computed as it stands there.
"""

from collections import Counter
from collections.abc import Callable

from .expressions import UNARY, constant_bits, part
from .narrow import values
from .rtlil import Assignment, Bits, Cell, Chunk, Module, Switch

_PURE = {
    *UNARY, "$add", "$sub", "$mul", "$and", "$or", "$xor", "$eq", "$ne", "$lt", "$le", "$gt", "$ge",
    "$mux", "$shl", "$shr", "$sshr", "$shift", "$divfloor", "$modfloor",
}  # fmt: skip


def share(module: Module, is_output: Callable[[Cell, str], bool]) -> None:
    """Rewrite a module's cells; what its wires with names hold stays the same."""
    same: dict[str, Bits] = {}
    changed = True
    while changed:
        changed = False
        outputs: dict[tuple[object, ...], Bits] = {}
        kept = []
        for cell in module.cells:
            for port, bits in cell.ports.items():
                if not is_output(cell, port):
                    cell.ports[port] = _resolved(bits, same)
            output = cell.ports.get("Y", ())
            if cell.kind not in _PURE or len(output) != 1 or not _whole(module, output[0]):
                kept.append(cell)
                continue
            signs = (cell.parameters.get("A_SIGNED"), cell.parameters.get("B_SIGNED"))
            inputs = tuple(cell.ports.get(port) for port in "ABS")
            key = (cell.kind, output[0].width, *signs, *inputs)
            twin = _simpler(cell, output[0].width)
            twin = outputs.get(key) if twin is None else twin
            if twin is None or output[0].wire in (chunk.wire for chunk in twin):
                outputs.setdefault(key, output)
                kept.append(cell)
            else:
                same[output[0].wire] = twin
                changed = True
        module.cells = kept
    for process in module.processes:
        _rewrite(process.body, lambda bits: _resolved(bits, same))
    module.connections = [Assignment(to, _resolved(of, same)) for to, of in module.connections]
    _drop_unused(module, is_output)


def name_results(module: Module, is_output: Callable[[Cell, str], bool]) -> None:
    """What is computed for a wire with a name is computed in that wire."""
    targets = {chunk.wire for connected in module.connections for chunk in connected.target}
    for process in module.processes:
        targets |= {
            c.wire for item in process.body if isinstance(item, Assignment) for c in item.target
        }
    for cell in module.cells:
        for port, bits in cell.ports.items():
            targets |= {chunk.wire for chunk in bits if is_output(cell, port)}
    computed = set()
    for cell in module.cells:
        for port, bits in cell.ports.items():
            if len(bits) == 1 and _whole(module, bits[0]):
                # what an instance has and nothing else drives is its output
                outside = cell.kind.startswith("\\") and bits[0].wire not in targets
                if outside or (cell.kind in _PURE and is_output(cell, port)):
                    computed.add(bits[0].wire)
    names: dict[str, str] = {}
    kept = []
    for connected in module.connections:
        to, of = connected
        if (
            (len(to), len(of)) == (1, 1)
            and of[0].wire in computed
            and of[0].wire not in names
            and _whole(module, of[0])
            and to[0].wire.startswith("\\")
            and to[0].width == module.wires[to[0].wire].width
        ):
            names[of[0].wire] = to[0].wire
        else:
            kept.append(connected)

    def named(bits: Bits) -> Bits:
        return tuple(chunk._replace(wire=names.get(chunk.wire, chunk.wire)) for chunk in bits)

    module.connections = [Assignment(to, named(of)) for to, of in kept]
    for cell in module.cells:
        cell.ports = {port: named(bits) for port, bits in cell.ports.items()}
    for process in module.processes:
        _rewrite(process.body, named)


def _whole(module: Module, chunk: Chunk) -> bool:
    return chunk.wire.startswith("$") and chunk.width == module.wires[chunk.wire].width


def _rewrite(body: list[Assignment | Switch], change: Callable[[Bits], Bits]) -> None:
    for n, item in enumerate(body):
        if isinstance(item, Assignment):
            body[n] = Assignment(item.target, change(item.value))
        else:
            item.on = change(item.on)
            for _, inside in item.cases:
                _rewrite(inside, change)


def _resolved(bits: Bits, same: dict[str, Bits]) -> Bits:
    """Return a value without the wires that went, neighbouring bits in one chunk."""
    chunks: list[Chunk] = []
    todo = list(reversed(bits))
    while todo:
        chunk = todo.pop()
        if chunk.wire in same:
            todo += reversed(part(same[chunk.wire], chunk.low, chunk.width))
            continue
        last = chunks[-1] if chunks else None
        if last and last.wire == chunk.wire and (not chunk.wire or _follows(last, chunk)):
            text = chunk.value + last.value
            chunks[-1] = Chunk(chunk.wire, last.low, last.width + chunk.width, text)
        else:
            chunks.append(chunk)
    return tuple(chunks)


def _follows(last: Chunk, chunk: Chunk) -> bool:
    return chunk.low == last.low + last.width


def _drop_unused(module: Module, is_output: Callable[[Cell, str], bool]) -> None:
    uses = Counter(chunk.wire for bits in values(module, is_output) for chunk in bits)
    unused = [c for c in module.cells if _is_unused(module, c, uses)]
    gone: set[int] = set()
    drivers = {c.ports["Y"][0].wire: c for c in module.cells if c.kind in _PURE and c.ports["Y"]}
    while unused:
        cell = unused.pop()
        gone.add(id(cell))
        for port, bits in cell.ports.items():
            for chunk in () if port == "Y" else bits:
                uses[chunk.wire] -= 1
                driver = drivers.get(chunk.wire)
                if driver and id(driver) not in gone and _is_unused(module, driver, uses):
                    unused.append(driver)
    module.cells = [cell for cell in module.cells if id(cell) not in gone]


def _is_unused(module: Module, cell: Cell, uses: Counter[str]) -> bool:
    output = cell.ports.get("Y", ())
    return (
        cell.kind in _PURE
        and len(output) == 1
        and _whole(module, output[0])
        and not uses[output[0].wire]
    )


# what changes nothing


def _zeros(width: int) -> Bits:
    return (Chunk("", 0, width, "0" * width),) if width > 0 else ()


def _extended(bits: Bits, signed: bool, width: int) -> Bits | None:
    """Return a value in so many bits, None where its sign would be repeated."""
    more = width - sum(chunk.width for chunk in bits)
    if more <= 0:
        return part(bits, 0, width)
    if not signed or not bits:
        return (*bits, *_zeros(more))
    top = part(bits, width - more - 1, 1)[0]
    return None if top.wire else (*bits, Chunk("", 0, more, top.value * more))


def _simpler(cell: Cell, width: int) -> Bits | None:
    """Return what a cell gives where that is a choice of its operands' bits, else None."""
    a, b = cell.ports.get("A", ()), cell.ports.get("B", ())
    signed = cell.parameters.get("A_SIGNED", "0").rpartition("'")[2].lstrip("0") != ""
    if cell.kind == "$mux":
        chosen = constant_bits(cell.ports["S"])
        if chosen not in ("0", "1") and a != b:
            return None
        return _extended(b if chosen == "1" else a, False, width)
    if cell.kind in ("$reduce_or", "$reduce_bool", "$reduce_and", "$reduce_xor"):
        return a if width == 1 and sum(chunk.width for chunk in a) == 1 else None
    left, right = constant_bits(a), constant_bits(b)
    if cell.kind in ("$add", "$sub", "$or", "$xor"):
        if right is not None and "1" not in right:
            return _extended(a, signed, width)
        if left is not None and "1" not in left and cell.kind != "$sub":
            return _extended(b, signed, width)
    if cell.kind == "$and" and any(x is not None and "1" not in x for x in (left, right)):
        return None if signed else _zeros(width)
    if cell.kind in ("$shl", "$shr", "$sshr") and right is not None and not set(right) - {*"01"}:
        return _shifted(cell, a, signed, int(right or "0", 2), width)
    return None


def _shifted(cell: Cell, a: Bits, signed: bool, by: int, width: int) -> Bits | None:
    if cell.kind == "$shl":
        wide = _extended(a, signed, width)
        return None if wide is None else part((*_zeros(by), *wide), 0, width)
    have = sum(chunk.width for chunk in a)
    if by + width <= have:
        return part(a, by, width)
    if signed:
        return None
    kept = part(a, by, width)
    return (*kept, *_zeros(width - sum(chunk.width for chunk in kept)))
