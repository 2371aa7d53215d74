"""What is known of a Strider that runs one program only: which instructions it meets, and how large its numbers become."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..heap.schema import TYPES
from .config import FIXED_TYPES, PortConfig
from .isa import Instruction, Op, decode

__all__ = ["FIXED_COUNT_BITS", "FixedProgram"]

#: bits of a number of pages beside a built-in program
FIXED_COUNT_BITS = 20


@dataclass(frozen=True)
class FixedProgram:
    """`place_bits`: of an address within the page and whatever is added to it; `index_bits`: of a count of elements; `attribute_bits`: of an
    attribute's number; `always`, `ever`: bits that all, or some, instructions have set."""

    instructions: tuple[Instruction, ...]
    words: tuple[int, ...]
    place_bits: int
    index_bits: int
    attribute_bits: int
    always: int
    ever: int

    @classmethod
    def of(cls, config: PortConfig) -> FixedProgram:
        """Return what the program of `config` says. Raises ValueError for one that the hardware would refuse."""
        assert config.program is not None
        instructions = tuple(decode(np.array(config.program, dtype=np.uint32)))
        body = instructions[2:]
        if len(body) == 0 or instructions[0].op != Op.READB or instructions[1].op != Op.BENTR or any(i.op not in set(Op) for i in body):
            raise ValueError("a built-in program must be readB, bentr and instructions of tuples")
        words = tuple(sum(int(config.program[3 * n + k]) << 32 * k for k in range(3)) for n in range(len(instructions)))
        always, ever = words[0], 0
        for word in words:
            always, ever = always & word, ever | word
        # a base is at most the page's end, plus an array whose header is still being read, plus the reach of this instruction
        arrays = max((32 + i.count * TYPES[FIXED_TYPES[i.type]].length for i in body if i.op == Op.ARR), default=0)
        reach = max((i.offset + i.count * 8 + 64 for i in body if i.op != Op.INS), default=0)
        places = 20 if any(i.op == Op.VAR for i in body) else (config.page_size + arrays + reach).bit_length()
        most = max((max(i.count, 1) for i in body if i.op != Op.INS), default=1)
        attributes = max(instructions[0].count, max((i.attr + max(i.count, 1) for i in body if i.op not in (Op.INS, Op.RUN)), default=0),
                         max((i.attr for i in body), default=0) + 1, instructions[0].attr)
        return cls(instructions, words, min(places, 20), (most + config.bus_bytes).bit_length(), min(attributes.bit_length() + 1, 17), always, ever)

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
        return tuple(sorted({i.type for i in self.instructions[2:] if i.op not in (Op.EXTRBI, Op.BEXIT, Op.INS)}))

    @property
    def ops(self) -> frozenset[int]:
        return frozenset(i.op for i in self.instructions[2:])
