"""The Striders' instruction set: words, assembler and disassembler.

The mnemonics are those of DAnA (PVLDB 11(11), table 2) where the meaning fits; its 22-bit words with 6-bit fields cannot reach into a
page, so words have 96 bits here:

    bits    field
    0-3     op
    4-6     type: index into `FIXED_TYPES`
    7       bexit: last instruction of the tuple
    8-9     base: 0 P (running position), 1 D (start of the tuple's data), 2 A (start of the last array's elements)
    10      test: the instruction depends on attribute `attr` being present; `skip` of readB
    11      use: the value goes to the tuple buffer; `pass` of readB, `nan` of ins
    12      missing: an attribute past the tuple's `natts` is no NULL, an `ins` follows
    13      flag: `all` of readB, `skip` of att and arr
    14      keep: P stays where it is (run on base P, att); `saturate` of readB, `over` of ins
    16-31   count        (ins: the value's lower half)
    32-47   offset       (ins: the value's upper half)
    48-58   attr
    64-79   beat
    80-87   lane

Bits that no field names are zero. In a program image each word is three little-endian 32-bit words, lowest bits first.

A program for `id int4, y float4, x float4[54]`:

    readB  8196, 3, a3                                      ; 0
    bentr  5                                                ; 1
    run    float4, D+4, 1, @3.6, a0                         ; 2   y -> beat 3, lane 6
    arr    float4, D+8, 54, a2                              ; 3   check x's header
    run    float4, A+0, 54, @0.0, a0, bexit                 ; 4   x -> beat 0 on
    extrBi a0                                               ; 5   tuples with NULLs, or short of attributes
    att    int4, 1, @0.0, a0                                ; 6
    att    float4, 1, @3.6, a1, use                         ; 7
    arr    float4, P+0, 54, a2, test                        ; 8
    run    float4, A+0, 54, @0.0, a2, test, bexit           ; 9

Addresses count from a base: `P` the running position, `D` the start of the tuple's data, `A` the elements of the last array. One on base P or D is
rounded up to the type's alignment. `@b.l` is a flat position as beat and lane; values that follow go to the lanes that follow. `aN` is an attribute.
`test`: only if attribute N is present.

* `readB` version, need, columns, `all`, `saturate`, `skip`, `pass`: first word of a program: reads and checks the page header; sets the configuration
  registers: attributes that the dense part needs, columns of the schema, visibility, and the policy of values that do not fit (`saturate`: an
  overflow is no error; `skip`: a NaN leaves the tuple out; `pass`: it is delivered)
* `bentr` target: loop start, second word: takes the next tuple, judges its header, meanwhile fetches the line pointer and header after it. A tuple
  without bitmap and with `need` attributes goes on at the next instruction, another one at `target`. After the last line pointer: next page
* `bexit`: the tuple is complete, back to `bentr`. As the flag `bexit` of any other instruction it costs no cycle
* `run` type, address, count, @, aN, `test`, `keep`: delivers `count` values that lie side by side. On base P
  it moves P, unless `keep`
* `cln` type, address, count, aN, `test`: leaves out `count` values: sets P behind them. A type of another
  length than its alignment is left out as so many values of that alignment and so many bytes
* `arr` type, address, count, aN, `test`, `missing`, `skip`: checks an array's header; sets A and P. `test`: applies the NULL policy to attribute N
  first (`skip`: leave the tuple out; `missing`: past natts is no NULL)
* `att` type, count, @, aN, `use`, `missing`, `skip`, `keep`: walks `count` attributes of one type from N on, one a cycle, by null bitmap and natts;
  with `use` delivers them
* `var` type, aN, `test`: steps over a variable-length attribute (`type` gives its alignment)
* `extrBi` aN: loads the null bits of attributes N … N + 31 (N a multiple of 32)
* `ins` constant, @, aN, `over`, `nan`: delivers a constant if N ≥ natts; the flags say that it stands for a value that does not fit

An unknown opcode, an instruction where it does not belong, a type without a converter, and the program's end all give `PROGRAM`. After an `arr` at
least one `run` on base A comes before the next `arr`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ..heap.schema import TYPES

#: fixed-length types in the order of their codes in an instruction word
FIXED_TYPES = ("bool", "int2", "int4", "int8", "float4", "float8")

#: 32-bit words of one instruction
WORDS = 3

#: attributes whose null bits one `extrBi` fetches
BITMAP_GROUP = 32


class Op(IntEnum):
    """Opcodes. 0 and 11 to 15 are illegal: reaching one ends the run with `PROGRAM`."""

    READB = 1  #: read and check the page header, set the configuration registers
    BENTR = (
        2  #: loop start: judge the next tuple, enter it, fetch the line pointer and header after it
    )
    BEXIT = 3  #: loop exit: the tuple is complete
    RUN = 4  #: a run of values of one type to consecutive flat positions
    CLN = 5  #: leave out bytes
    ARR = 6  #: check an array's header
    ATT = 7  #: walk attributes of one type, one by one
    VAR = 8  #: step over a variable-length attribute
    EXTRBI = 9  #: extract 32 bits of the null bitmap
    INS = 10  #: insert a constant for a missing attribute


class Base(IntEnum):
    """What an instruction's offset counts from."""

    P = 0
    D = 1
    A = 2


_NAMES = {Op.READB: "readB", Op.EXTRBI: "extrBi"}
MNEMONICS = {op: _NAMES.get(op, op.name.lower()) for op in Op}
_BY_NAME = {name: op for op, name in MNEMONICS.items()}

#: field -> (first bit, bits)
FIELDS = {
    "op": (0, 4),
    "type": (4, 3),
    "bexit": (7, 1),
    "base": (8, 2),
    "test": (10, 1),
    "use": (11, 1),
    "missing": (12, 1),
    "flag": (13, 1),
    "keep": (14, 1),
    "count": (16, 16),
    "offset": (32, 16),
    "attr": (48, 11),
    "beat": (64, 16),
    "lane": (80, 8),
}


@dataclass(frozen=True)
class Instruction:
    """One instruction; the fields are those of the word. Raises ValueError where a field does not fit."""

    op: int
    type: int = 0
    bexit: int = 0
    base: int = 0
    test: int = 0
    use: int = 0
    missing: int = 0
    flag: int = 0
    keep: int = 0
    count: int = 0
    offset: int = 0
    attr: int = 0
    beat: int = 0
    lane: int = 0

    def __post_init__(self) -> None:
        for name, (_, bits) in FIELDS.items():
            if not 0 <= getattr(self, name) < 1 << bits:
                raise ValueError(
                    f"field {name} of a Strider instruction has {bits} bits; {getattr(self, name)} does not fit"
                )

    @property
    def value(self) -> int:
        """The constant of an `ins`."""
        return self.count | self.offset << 16


def encode(program: Iterable[Instruction]) -> NDArray[np.uint32]:
    """Return the program image, `WORDS` 32-bit words an instruction."""
    words: list[int] = []
    for instruction in program:
        word = sum(int(getattr(instruction, name)) << first for name, (first, _) in FIELDS.items())
        words += [word >> 32 * k & 0xFFFFFFFF for k in range(WORDS)]
    return np.array(words, dtype=np.uint32)


def decode(image: NDArray[np.uint32]) -> list[Instruction]:
    """Return the instructions of a program image, illegal opcodes included. Raises ValueError where its length is not a multiple of `WORDS`."""
    if len(image) % WORDS:
        raise ValueError(
            f"a Strider program has {WORDS} words an instruction; {len(image)} words are no program"
        )
    program = []
    for at in range(0, len(image), WORDS):
        word = sum(int(image[at + k]) << 32 * k for k in range(WORDS))
        program.append(
            Instruction(
                **{name: word >> first & (1 << bits) - 1 for name, (first, bits) in FIELDS.items()}
            )
        )
    return program


# -- text ------------------------------------------------------------------------------------------------------------------
#
# op operand, operand, … [; comment]. Operands by instruction, in order; flags are bare words and may be left out.

_TYPE, _PLACE = "type", "place"
_AT, _VALUE = "at", "value"
_OPERANDS: dict[Op, tuple[str, ...]] = {
    Op.READB: ("offset", "count", "attr"),
    Op.BENTR: ("offset",),
    Op.BEXIT: (),
    Op.RUN: (_TYPE, _PLACE, "count", _AT, "attr"),
    Op.CLN: (_TYPE, _PLACE, "count", "attr"),
    Op.ARR: (_TYPE, _PLACE, "count", "attr"),
    Op.ATT: (_TYPE, "count", _AT, "attr"),
    Op.VAR: (_TYPE, "attr"),
    Op.EXTRBI: ("attr",),
    Op.INS: (_VALUE, _AT, "attr"),
}
_FLAGS: dict[Op, dict[str, str]] = {
    Op.READB: {"all": "flag", "saturate": "keep", "skip": "test", "pass": "use"},
    Op.BENTR: {},
    Op.BEXIT: {},
    Op.RUN: {"test": "test", "keep": "keep"},
    Op.CLN: {"test": "test"},
    Op.ARR: {"test": "test", "missing": "missing", "skip": "flag"},
    Op.ATT: {"use": "use", "missing": "missing", "skip": "flag", "keep": "keep"},
    Op.VAR: {"test": "test"},
    Op.EXTRBI: {},
    Op.INS: {"over": "keep", "nan": "use"},
}


def _format(instruction: Instruction) -> str:
    op = Op(instruction.op)
    parts = []
    for operand in _OPERANDS[op]:
        if operand == _TYPE:
            parts.append(FIXED_TYPES[instruction.type])
        elif operand == _PLACE:
            parts.append(f"{Base(instruction.base).name}+{instruction.offset}")
        elif operand == _AT:
            parts.append(f"@{instruction.beat}.{instruction.lane}")
        elif operand == _VALUE:
            parts.append(f"{instruction.value:#x}")
        elif operand == "attr":
            parts.append(f"a{instruction.attr}")
        else:
            parts.append(str(getattr(instruction, operand)))
    parts += [word for word, name in _FLAGS[op].items() if getattr(instruction, name)]
    if instruction.bexit and op != Op.BEXIT:
        parts.append("bexit")
    return f"{MNEMONICS[op]:<7}{', '.join(parts)}".rstrip()


def disassemble(program: Iterable[Instruction]) -> str:
    """Return the program as text, an instruction a line with its index as a comment.

    Words that `assemble` cannot produce (illegal opcodes, fields that the instruction ignores) come as `.word` lines, so that
    assembling the text always gives the same image.
    """
    lines = []
    for index, instruction in enumerate(program):
        try:
            line = _format(instruction)
            if _parse(line) != instruction:
                raise ValueError
        except (ValueError, IndexError):
            image = encode([instruction])
            line = ".word  " + ", ".join(f"{int(word):#x}" for word in image)
        lines.append(f"{line:<56}; {index}")
    return "\n".join(lines) + "\n"


def _parse(line: str) -> Instruction:
    mnemonic, _, rest = line.strip().partition(" ")
    parts = [part.strip() for part in rest.split(",") if part.strip()]
    if mnemonic == ".word":
        return decode(np.array([int(part, 0) for part in parts], dtype=np.uint32))[0]
    if mnemonic not in _BY_NAME:
        raise ValueError(f"unknown instruction {mnemonic!r}; known are {', '.join(_BY_NAME)}")
    op = _BY_NAME[mnemonic]
    values: dict[str, int] = {"op": int(op)}
    operands = _OPERANDS[op]
    if len(parts) < len(operands):
        raise ValueError(f"{mnemonic} takes {len(operands)} operands, not {len(parts)}")
    for operand, part in zip(operands, parts, strict=False):
        if operand == _TYPE:
            values["type"] = FIXED_TYPES.index(part)
        elif operand == _PLACE:
            base, _, offset = part.partition("+")
            values |= {"base": Base[base].value, "offset": int(offset, 0)}
        elif operand == _AT:
            beat, _, lane = part.removeprefix("@").partition(".")
            values |= {"beat": int(beat), "lane": int(lane)}
        elif operand == _VALUE:
            values |= {"count": int(part, 0) & 0xFFFF, "offset": int(part, 0) >> 16}
        elif operand == "attr":
            values["attr"] = int(part.removeprefix("a"))
        else:
            values[operand] = int(part, 0)
    for word in parts[len(operands) :]:
        if word != "bexit" and word not in _FLAGS[op]:
            raise ValueError(f"{mnemonic} has no flag {word!r}")
        values[_FLAGS[op].get(word, "bexit")] = 1
    if op == Op.BEXIT:
        values["bexit"] = 1
    return Instruction(**values)


def assemble(text: str) -> list[Instruction]:
    """Return the instructions of a program text. Raises ValueError that names the line."""
    program = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition(";")[0].strip()
        if not line:
            continue
        try:
            program.append(_parse(line))
        except (ValueError, KeyError) as error:
            raise ValueError(f"line {number}: {error}") from None
    return program


def short_possible(element: str, count: int) -> bool:
    """Whether an array of `count` elements may have a 1-byte varlena header: then its length with that byte is at most 127."""
    return 21 + count * TYPES[element].length <= 127
