"""Values and cells of RTLIL as expressions of Verilog whose width is exactly theirs, whatever stands around them.

All operands are extended to the width of the operation here, so no expression depends on Verilog's rules of
extension (IEEE 1364-2005, 5.4), and no tool has a width to complain about.
"""

from collections.abc import Callable, Iterator
from itertools import groupby

from .rtlil import Bits, Cell, Chunk

#: returns how a chunk of a wire is written
Refer = Callable[[Chunk], str]

UNARY = {
    "$not": "~",
    "$neg": "-",
    "$reduce_or": "|",
    "$reduce_bool": "|",
    "$reduce_and": "&",
    "$reduce_xor": "^",
}
_BINARY = {"$add": "+", "$sub": "-", "$mul": "*", "$and": "&", "$or": "|", "$xor": "^"}
_COMPARED = {"$eq": "==", "$ne": "!=", "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">="}
_DIVIDED = {"$divfloor": "/", "$modfloor": "%"}


def constant(bits: str) -> str:
    """Return a constant, the highest bit first in `bits`."""
    if set(bits) - {"0", "1"}:
        return f"{len(bits)}'b{bits}"
    if len(bits) <= 4:
        return f"{len(bits)}'d{int(bits, 2)}"
    return f"{len(bits)}'h{int(bits, 2):0{-(-len(bits) // 4)}x}"


def bare(text: str) -> str:
    """Return an expression without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def value(bits: Bits, refer: Refer) -> str:
    parts: list[str] = []
    known = ""
    for chunk in (*bits, Chunk("end", 0, 0)):
        if not chunk.wire:
            known = chunk.value + known
            continue
        if known:
            parts.append(constant(known))
            known = ""
        if chunk.width:
            parts.append(refer(chunk))
    if len(parts) == 1:
        return parts[0]
    return f"{{{', '.join(_runs_of(parts[::-1]))}}}"


def _runs_of(parts: list[str]) -> Iterator[str]:
    """Yield parts; what stands there three times or more is repeated."""
    for text, run in groupby(parts):
        count = len(list(run))
        yield from [f"{{{count}{{{text}}}}}"] if count > 2 else [text] * count


def part(bits: Bits, low: int, width: int) -> Bits:
    """Return `width` bits of a value from bit `low` on."""
    chunks, at = [], 0
    for chunk in bits:
        first, last = max(low - at, 0), min(low + width - at, chunk.width)
        if first < last:
            kept = last - first
            text = chunk.value[chunk.width - last : chunk.width - first]
            chunks.append(Chunk(chunk.wire, chunk.low + first if chunk.wire else 0, kept, text))
        at += chunk.width
    return tuple(chunks)


def _width(bits: Bits) -> int:
    return sum(chunk.width for chunk in bits)


def extended(bits: Bits, signed: bool, width: int, refer: Refer) -> str:
    """Return a value with the bits that it lacks for a width."""
    more = width - _width(bits)
    if more <= 0:
        return value(part(bits, 0, width), refer)
    if not signed or not bits:
        return value((*bits, Chunk("", 0, more, "0" * more)), refer)
    top = value(part(bits, _width(bits) - 1, 1), refer)
    if not bits[-1].wire:
        return value((*bits, Chunk("", 0, more, bits[-1].value[0] * more)), refer)
    return f"{{{{{more}{{{top}}}}}, {value(bits, refer)}}}"


def operation(cell: Cell, refer: Refer) -> str:
    """Return what a cell without state computes. Raises KeyError for a cell that is none."""
    kind, ports = cell.kind, cell.ports
    if kind == "$mux":
        width = _width(ports["Y"])
        chosen, other = (extended(ports[name], False, width, refer) for name in "BA")
        return f"{value(ports['S'], refer)} ? {chosen} : {other}"
    a, width = ports["A"], _width(ports["Y"])
    a_signed = _flag(cell, "A_SIGNED")
    if kind.startswith("$reduce") and not _width(a):  # of no bits, all are 1 and none is
        return constant(("1" if kind == "$reduce_and" else "0").zfill(width))
    if kind.startswith("$reduce") and len(a) == 1 and a[0].width == 1 and width == 1:
        return value(a, refer)
    if kind in UNARY:
        wide = extended(a, a_signed, width if kind in ("$not", "$neg") else _width(a), refer)
        return f"{UNARY[kind]}{wide}"
    b = ports["B"]
    if kind in _BINARY:
        both = (extended(x, a_signed, width, refer) for x in (a, b))
        return f" {_BINARY[kind]} ".join(both)
    if kind in _COMPARED:
        return _comparison(cell, a, b, a_signed, refer)
    if kind in _DIVIDED and not a_signed:
        longest = max(_width(a), _width(b), width)
        return f" {_DIVIDED[kind]} ".join(extended(x, False, longest, refer) for x in (a, b))
    amount = value(b, refer) if b else "1'd0"
    if kind == "$shl":
        return f"{extended(a, a_signed, width, refer)} << {amount}"
    if kind in ("$shr", "$shift"):  # what moves in is 0, also behind a sign
        return f"{extended(a, a_signed, max(width, _width(a)), refer)} >> {amount}"
    if kind == "$sshr":
        return f"$signed({extended(a, True, max(width, _width(a)), refer)}) >>> {amount}"
    raise KeyError(kind)


def lengthened(cell: Cell) -> Bits:
    """Return the bits that an operation repeats in front of its operands: they have to have names."""
    if not _flag(cell, "A_SIGNED"):
        return ()
    operands = [cell.ports[name] for name in ("AB" if _flag(cell, "B_SIGNED") else "A")]
    width = max(map(_width, (*operands, *(() if cell.kind in _COMPARED else (cell.ports["Y"],)))))
    return tuple(x[-1] for x in operands if x and _width(x) < width)


def _flag(cell: Cell, name: str) -> bool:
    return cell.parameters.get(name, "0").rpartition("'")[2].lstrip("0") != ""


def _comparison(cell: Cell, a: Bits, b: Bits, signed: bool, refer: Refer) -> str:
    """Return a comparison; one that has only one answer is that answer."""
    width = max(_width(a), _width(b), 1)
    kind = cell.kind
    if not signed and kind in ("$lt", "$ge", "$gt", "$le"):
        first, second = constant_bits(a), constant_bits(b)
        # nothing is below 0, and nothing above all ones
        if (not b or second == "0" * len(second or "x")) and kind in ("$lt", "$ge"):
            return "1'd0" if kind == "$lt" else "1'd1"
        if second == "1" * width and kind in ("$gt", "$le"):
            return "1'd0" if kind == "$gt" else "1'd1"
        if (not a or first == "0" * len(first or "x")) and kind in ("$gt", "$le"):
            return "1'd0" if kind == "$gt" else "1'd1"
        if first == "1" * width and kind in ("$lt", "$ge"):
            return "1'd0" if kind == "$lt" else "1'd1"
    both = [extended(x, signed, width, refer) for x in (a, b)]
    if signed and kind not in ("$eq", "$ne"):
        both = [f"$signed({x})" for x in both]
    return f" {_COMPARED[kind]} ".join(both)


def constant_bits(bits: Bits) -> str | None:
    """Return a value's bits where all are constants, the highest first."""
    return None if any(chunk.wire for chunk in bits) else "".join(c.value for c in reversed(bits))


def matches(on: Bits, pattern: str, refer: Refer) -> str | None:
    """Return the condition that a value is of a pattern, "" where it always is, None where never."""
    terms: list[str] = []
    at = 0
    for chunk in on:
        wanted = pattern[len(pattern) - at - chunk.width : len(pattern) - at]
        at += chunk.width
        if not chunk.wire:
            if any(w not in ("-", have) for w, have in zip(wanted, chunk.value, strict=True)):
                return None
            continue
        if chunk.width == 1:
            if wanted != "-":
                terms.append(refer(chunk) if wanted == "1" else f"!{refer(chunk)}")
            continue
        terms += _runs(chunk, wanted, refer)
    return " && ".join(reversed(terms))


def _runs(chunk: Chunk, wanted: str, refer: Refer) -> list[str]:
    """Return the conditions of those bits of a chunk that a pattern asks for."""
    terms, low = [], 0
    bits = wanted[::-1]
    while low < len(bits):
        high = low
        while high < len(bits) and (bits[high] != "-") == (bits[low] != "-"):
            high += 1
        if bits[low] != "-":
            piece = refer(Chunk(chunk.wire, chunk.low + low, high - low))
            terms.append(f"{piece} == {constant(bits[low:high][::-1])}")
        low = high
    return terms
