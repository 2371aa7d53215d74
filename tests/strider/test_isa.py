"""Words, text and back."""

import numpy as np
import pytest

from penstock.models.strider.isa import (
    Instruction,
    Op,
    assemble,
    decode,
    disassemble,
    encode,
)

EXAMPLE = """
readB  8196, 3, a3
bentr  5
run    float4, D+4, 1, @3.6, a0         ; the label
arr    float4, D+8, 54, a2
run    float4, A+0, 54, @0.0, a0, bexit

extrBi a0
att    int4, 1, @0.0, a0
att    float4, 1, @3.6, a1, use, skip
cln    int2, P+0, 3, a5, test
var    int8, a7, test
ins    0x3f800000, @1.2, a2
bexit
"""


def test_example():
    program = assemble(EXAMPLE)
    assert [Op(i.op).name for i in program] == [
        "READB",
        "BENTR",
        "RUN",
        "ARR",
        "RUN",
        "EXTRBI",
        "ATT",
        "ATT",
        "CLN",
        "VAR",
        "INS",
        "BEXIT",
    ]
    assert program[0] == Instruction(Op.READB, offset=8196, count=3, attr=3)
    assert program[7] == Instruction(Op.ATT, type=4, count=1, beat=3, lane=6, attr=1, use=1, flag=1)
    assert program[10].value == 0x3F80_0000
    assert assemble(disassemble(program)) == program
    assert decode(encode(program)) == program


def test_any_word_survives_text():
    rng = np.random.default_rng(3)
    image = rng.integers(0, 1 << 32, 3 * 300, dtype=np.uint64).astype(np.uint32)
    image[2::3] &= 0x00FF_FFFF
    program = decode(image)
    assert assemble(disassemble(program)) == program


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "jump 3",
            "line 1: unknown instruction 'jump'; known are readB, bentr, bexit, run, cln, arr, att, var, extrBi, ins",
        ),
        ("bentr 5\nrun float4, D+4", "line 2: run takes 5 operands, not 2"),
        ("var int4, a0, bexit, twice", "line 1: var has no flag 'twice'"),
        (
            "bentr 70000",
            "line 1: field offset of a Strider instruction has 16 bits; 70000 does not fit",
        ),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(ValueError) as caught:
        assemble(text)
    assert str(caught.value) == message


def test_bad_image():
    with pytest.raises(
        ValueError, match=r"^a Strider program has 3 words an instruction; 4 words are no program$"
    ):
        decode(np.zeros(4, np.uint32))
