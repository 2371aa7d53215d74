"""What is known of a Strider that runs one program only: which instructions it meets, and how large its numbers become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..heap.page import TUPLE_BITMAP
from ..heap.schema import TYPES
from .isa import BITMAP_GROUP, FIELDS, FIXED_TYPES, Base, Instruction, Op, decode, short_possible

#: bytes of an array's header, the long kind
ARRAY_HEADER = 24
#: bits of a number of pages beside a built-in program
FIXED_COUNT_BITS = 20


class Port(Protocol):
    """What of a `config.PortConfig` its program is looked at with."""

    @property
    def page_size(self) -> int: ...
    @property
    def bus_bytes(self) -> int: ...
    @property
    def types(self) -> tuple[str, ...]: ...
    @property
    def program(self) -> tuple[int, ...] | None: ...

    def elements(self, pgtype: str) -> int: ...
    def windows(self, pgtype: str) -> int: ...


@dataclass(frozen=True)
class Form:
    """How an instruction's first address is formed."""

    first: int  #: what is added to its base
    mask: int  #: bits of the address that are cleared
    total: int  #: how many bytes further it reaches
    big: bool = True  #: an array's header cannot be short
    probe: bool = False  #: an array's place may not be aligned


@dataclass(frozen=True)
class FixedProgram:
    """A built-in program's body, and the bits that it needs."""

    instructions: tuple[Instruction, ...]
    place_bits: int  #: of an address within the page and whatever is added to it
    index_bits: int  #: of a count of elements
    attribute_bits: int  #: of an attribute's number
    bitmap_bits: int  #: of a group of null bits
    granule: int  #: what all windows' addresses are multiples of
    forms: tuple[Form, ...]  #: of the body
    #: the body as the hardware keeps it, a word of `width` bits an instruction
    words: tuple[int, ...]
    width: int
    #: by the name of a field, lowest bit first, which bit of the word a bit is (the same one for
    #: bits that are alike in all instructions), or `~value` of one that never changes
    fields: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, config: Port) -> FixedProgram:
        """Return what the program of `config` says. Raises ValueError for one that the hardware would refuse."""
        assert config.program is not None
        instructions = tuple(decode(np.array(config.program, dtype=np.uint32)))
        body = instructions[2:]
        if (
            len(body) == 0
            or instructions[0].op != Op.READB
            or instructions[1].op != Op.BENTR
            or any(i.op not in set(Op) for i in body)
        ):
            raise ValueError("a built-in program must be readB, bentr and instructions of tuples")
        # a base is at most the page's end, plus an array whose header is still being read, plus the reach of this instruction
        arrays = max(
            (32 + i.count * TYPES[FIXED_TYPES[i.type]].length for i in body if i.op == Op.ARR),
            default=0,
        )
        reach = max((i.offset + i.count * 8 + 64 for i in body if i.op != Op.INS), default=0)
        places = (config.page_size + arrays + reach).bit_length()
        most = max((max(i.count, 1) for i in body if i.op != Op.INS), default=1)
        attributes = max(
            instructions[0].count,
            max(
                (i.attr + max(i.count, 1) for i in body if i.op not in (Op.INS, Op.RUN, Op.CLN)),
                default=0,
            ),
            max((i.attr for i in body), default=0) + 1,
            instructions[0].attr,
        )
        tested = max(
            (
                i.attr % BITMAP_GROUP + max(i.count, 1)
                if i.op == Op.ATT
                else i.attr % BITMAP_GROUP + 1
                for i in body
                if i.op == Op.ATT or i.test
            ),
            default=1,
        )
        forms = _forms(body)
        words, width, fields = _image(config, body, forms)
        return cls(
            instructions,
            min(places, 20),
            (most + config.bus_bytes).bit_length(),
            min(attributes.bit_length() + 1, 17),
            min(tested, BITMAP_GROUP),
            _granule(body, forms, config.bus_bytes),
            forms,
            words,
            width,
            fields,
        )

    @property
    def body(self) -> tuple[Instruction, ...]:
        """All instructions of tuples."""
        return self.instructions[2:]

    @property
    def arrays(self) -> frozenset[tuple[int, int]]:
        """Type code and elements of the arrays."""
        return frozenset((i.type, i.count) for i in self.body if i.op == Op.ARR)

    @property
    def probes(self) -> bool:
        """Whether an array's place may not be aligned."""
        return any(form.probe for form in self.forms)

    @property
    def setup(self) -> Instruction:
        """The `readB`."""
        return self.instructions[0]

    @property
    def sparse(self) -> int:
        """Where `bentr` goes for tuples that are not dense."""
        return self.instructions[1].offset

    @property
    def types(self) -> tuple[int, ...]:
        """Type codes that its instructions name."""
        return tuple(
            sorted(
                {i.type for i in self.instructions[2:] if i.op not in (Op.EXTRBI, Op.BEXIT, Op.INS)}
            )
        )

    @property
    def ops(self) -> frozenset[int]:
        return frozenset(i.op for i in self.instructions[2:])


def _size(i: Instruction) -> int:
    return TYPES[FIXED_TYPES[i.type]].length


def _moved(i: Instruction) -> int:
    """What the running position is a multiple of after an instruction, at least; 8 where it leaves it alone."""
    if i.op == Op.VAR:
        return 1
    if i.op == Op.ARR:
        return 1 if short_possible(FIXED_TYPES[i.type], i.count) else _size(i)
    if i.op == Op.CLN and not i.count:
        return 8 if i.base == Base.P else _divisor(i.offset)
    moves = i.op in (Op.CLN, Op.ATT) or (i.op == Op.RUN and i.base == Base.P)
    return _size(i) if moves and not i.keep else 8


def _divisor(number: int) -> int:
    return min(8, number & -number) if number else 8


def _forms(body: tuple[Instruction, ...]) -> tuple[Form, ...]:
    place = min(
        (_moved(i) for i in body), default=8
    )  # what the running position is always a multiple of
    forms = []
    for i in body:
        if i.op in (Op.RUN, Op.CLN, Op.ATT):
            mask = 0 if i.base == Base.A else _size(i) - 1
            first = i.offset if i.op != Op.ATT else 0
            total = (i.count if i.op != Op.ATT else 1) * _size(i)
            if i.base == Base.A:
                first += ARRAY_HEADER
            elif i.base == Base.D or place > mask:  # rounded up here
                first, mask = first + mask & ~mask, 0
            else:
                first += mask
            forms.append(Form(first, mask, total))
        elif i.op == Op.ARR:
            aligned = (
                _divisor(i.offset)
                if i.base == Base.D
                else min(place, _divisor(i.offset))
                if i.base == Base.P
                else 1
            )
            first = i.offset + (ARRAY_HEADER if i.base == Base.A else 0)
            forms.append(
                Form(
                    first,
                    0,
                    ARRAY_HEADER + i.count * _size(i),
                    not short_possible(FIXED_TYPES[i.type], i.count),
                    aligned < _size(i),
                )
            )
        else:
            forms.append(Form(0, 0, 0))
    return tuple(forms)


def _granule(body: tuple[Instruction, ...], forms: tuple[Form, ...], bus_bytes: int) -> int:
    """What the addresses of all windows are multiples of. Headers and line pointers lie at multiples of 8 bytes or bus words, null bits at those of 4."""
    granule = min(4, bus_bytes)
    for i, form in zip(body, forms, strict=True):
        if i.op == Op.VAR or (i.op == Op.ARR and (form.probe or not form.big)):
            return 1
        if i.op == Op.RUN or (i.op == Op.ATT and i.use):
            granule = min(granule, _size(i))
    return granule


def _image(
    config: Port, body: tuple[Instruction, ...], forms: tuple[Form, ...]
) -> tuple[tuple[int, ...], int, dict[str, tuple[int, ...]]]:
    """Return the words, their width, and the fields."""
    ops = sorted({i.op for i in body})
    rows: list[dict[str, int]] = []
    for i, form in zip(body, forms, strict=True):
        name = FIXED_TYPES[i.type] if i.type < len(FIXED_TYPES) else FIXED_TYPES[0]
        size, windows = TYPES[name].length, config.windows(name)
        row = {
            field: int(getattr(i, field))
            for field in FIELDS
            if field not in ("op", "count", "offset")
        }
        row |= {
            "op": ops.index(i.op),
            "count": 0 if i.op == Op.INS else i.count,
            "value": i.value if i.op == Op.INS else 0,
        }
        row |= {
            "first": form.first,
            "mask": form.mask,
            "total": form.total,
            "stride": window_stride(config, name),
            "each": config.elements(name) if name in config.types else 1,
            "windows": windows - 1,
            "alignment": size - 1,
            "elements": i.count * size if i.op == Op.ARR else 0,
            "big": int(form.big),
            "bitmap": TUPLE_BITMAP // 4 * 4 + i.attr // BITMAP_GROUP * 4,
        }
        rows.append(row)
    columns: dict[int, int] = {}  # bits of one place over all instructions -> bit of the word
    fields: dict[str, tuple[int, ...]] = {}
    for field in rows[0]:
        bits = []
        for bit in range(
            max(2 if field == "base" else 1, max(row[field] for row in rows).bit_length())
        ):
            pattern = sum((row[field] >> bit & 1) << n for n, row in enumerate(rows))
            bits.append(
                ~(pattern & 1)
                if pattern in (0, (1 << len(rows)) - 1)
                else columns.setdefault(pattern, len(columns))
            )
        fields[field] = tuple(bits)
    return (
        tuple(
            sum((pattern >> n & 1) << at for pattern, at in columns.items())
            for n in range(len(rows))
        ),
        max(1, len(columns)),
        fields,
    )


def window_stride(config: Port, name: str) -> int:
    """Return the bytes from a window of a type's values to the next."""
    return (
        config.bus_bytes if config.windows(name) > 1 else config.elements(name) * TYPES[name].length
    )
