"""X25519 (RFC 7748), and the program that hardware computes it with: its order and its cycles.

The hardware has one unit for the field of 2^255 - 19. Elements are 15 limbs of 17 bits. Between
instructions a limb is below `LIMB_MOST`, so sums and products fit; only `FREEZE` makes them exact.
The program has no branch that depends on data: the scalar's bit only chooses between registers.
"""

from enum import IntEnum
from typing import NamedTuple

PRIME = 2**255 - 19
#: steps of the ladder
BITS = 255
#: the base point's coordinate
BASE = (9).to_bytes(32, "little")
_A24 = 121_665


def clamped(scalar: bytes) -> int:
    """Return the number that 32 bytes are taken for (RFC 7748, 5)."""
    return int.from_bytes(scalar, "little") & ~7 & (1 << 255) - 1 | 1 << 254


def _product(scalar: int, point: int) -> int:
    x, z, swap = 1, 0, 0
    x_more, z_more = point, 1
    for at in range(BITS - 1, -1, -1):
        bit = scalar >> at & 1
        if swap ^ bit:
            x, x_more = x_more, x
            z, z_more = z_more, z
        swap = bit
        add, subtract = x + z, x - z
        squared, less = add * add % PRIME, subtract * subtract % PRIME
        first, second = (x_more - z_more) * add % PRIME, (x_more + z_more) * subtract % PRIME
        difference = squared - less
        x_more = (first + second) ** 2 % PRIME
        z_more = point * (first - second) ** 2 % PRIME
        x = squared * less % PRIME
        z = difference * (squared + _A24 * difference) % PRIME
    if swap:
        x, z = x_more, z_more
    return x * pow(z, PRIME - 2, PRIME) % PRIME


def x25519(scalar: bytes, point: bytes) -> bytes | None:
    """Return the product's coordinate, 32 bytes; None where it is zero: the point has small order,
    and whoever sent it knows the secret (RFC 7748, 6.1).

    Raises ValueError for another length than 32.
    """
    if len(scalar) != 32 or len(point) != 32:
        raise ValueError(f"scalar and point have 32 bytes, not {len(scalar)} and {len(point)}")
    value = int.from_bytes(point, "little") & (1 << 255) - 1
    result = _product(clamped(scalar), value % PRIME)
    return result.to_bytes(32, "little") if result else None


def public_key(scalar: bytes) -> bytes:
    """Return a secret scalar's public key. Raises ValueError for another length than 32."""
    key = x25519(scalar, BASE)
    assert key is not None  # the base point has a prime order
    return key


LIMBS, LIMB_BITS = 15, 17
#: no limb is above it between instructions
LIMB_MOST = (1 << LIMB_BITS) + 56
#: bits of a limb while sums of products are made
ACCUMULATOR_BITS = 35


class Op(IntEnum):
    """What an instruction does with elements a and b. SET: constant number b of `CONSTANTS`. REDUCE
    and FREEZE, one after the other, give the one number below `PRIME`."""

    SET = 0
    ADD = 1
    SUBTRACT = 2
    MULTIPLY = 3
    REDUCE = 4
    FREEZE = 5


CONSTANTS = (0, 1, _A24)
#: how often an operation moves the limbs' carries up. Carries that ripple through all limbs, and
#: once more from the top to the bottom, take 2 × `LIMBS` passes.
PASSES = {
    Op.SET: 1,
    Op.ADD: 1,
    Op.SUBTRACT: 1,
    Op.MULTIPLY: 2,
    Op.REDUCE: 2 * LIMBS,
    Op.FREEZE: LIMBS,
}
#: added to a register's number: its lowest bit is turned by the scalar's bit
FOLLOWS = 16


class Instruction(NamedTuple):
    """`to` becomes the operation of `a` and `b`."""

    op: Op
    to: int
    a: int = 0
    b: int = 0
    times: int = 1  #: how often it is done
    body: bool = False  #: it belongs to the ladder's body, which runs `BITS` times


# registers: two points of the ladder, of which the second one has odd numbers
_X, _X_MORE = 0, 1
_Z, _Z_MORE = 2, 3
POINT, _FACTOR = 4, 5
_A, _B, _C = 6, 7, 8
_D, _E = 9, 10
#: where the result is, once the program has ended
RESULT = _A


def _body() -> tuple[Instruction, ...]:
    x, x_more = FOLLOWS + _X, FOLLOWS + _X_MORE
    z, z_more = FOLLOWS + _Z, FOLLOWS + _Z_MORE
    add, sub, mul = Op.ADD, Op.SUBTRACT, Op.MULTIPLY
    steps = (
        (add, _A, x, z),
        (sub, _B, x, z),
        (add, _C, x_more, z_more),
        (sub, _D, x_more, z_more),
        (mul, _D, _D, _A),
        (mul, _C, _C, _B),
        (mul, _A, _A, _A),
        (mul, _B, _B, _B),
        (sub, _E, _A, _B),
        (mul, x, _A, _B),
        (add, x_more, _D, _C),
        (mul, x_more, x_more, x_more),
        (sub, _D, _D, _C),
        (mul, _D, _D, _D),
        (mul, z_more, POINT, _D),
        (mul, _B, _FACTOR, _E),
        (add, _B, _A, _B),
        (mul, z, _E, _B),
    )
    return tuple(Instruction(*step, body=True) for step in steps)


def _inverse() -> tuple[Instruction, ...]:
    """`_A` becomes the inverse of `_Z`, its power 2^255 - 21 (254 squarings, 11 products)."""

    def product(to: int, a: int, b: int) -> Instruction:
        return Instruction(Op.MULTIPLY, to, a, b)

    def squared(to: int, a: int, times: int) -> tuple[Instruction, ...]:
        more = Instruction(Op.MULTIPLY, to, to, to, times - 1)
        return (product(to, a, a), more) if times > 1 else (product(to, a, a),)

    return (
        *squared(_A, _Z, 1),
        *squared(_B, _A, 2),
        product(_B, _Z, _B),  # 9
        product(_A, _A, _B),  # 11
        *squared(_C, _A, 1),
        product(_B, _B, _C),  # 2^5 - 1
        *squared(_C, _B, 5),
        product(_B, _C, _B),  # 2^10 - 1
        *squared(_C, _B, 10),
        product(_C, _C, _B),  # 2^20 - 1
        *squared(_D, _C, 20),
        product(_C, _D, _C),  # 2^40 - 1
        *squared(_C, _C, 10),
        product(_B, _C, _B),  # 2^50 - 1
        *squared(_C, _B, 50),
        product(_C, _C, _B),  # 2^100 - 1
        *squared(_D, _C, 100),
        product(_C, _D, _C),  # 2^200 - 1
        *squared(_C, _C, 50),
        product(_B, _C, _B),  # 2^250 - 1
        *squared(_B, _B, 5),
        product(_A, _B, _A),
    )


#: `POINT` holds the point's coordinate when it begins
PROGRAM = (
    Instruction(Op.SET, _X, b=1),
    Instruction(Op.SET, _Z, b=0),
    Instruction(Op.SET, _Z_MORE, b=1),
    Instruction(Op.MULTIPLY, _X_MORE, POINT, _Z_MORE),
    Instruction(Op.SET, _FACTOR, b=2),
    *_body(),
    *_inverse(),
    Instruction(Op.MULTIPLY, _A, _X, _A),
    Instruction(Op.REDUCE, _A, _A),
    Instruction(Op.FREEZE, _A, _A),
)


def cycles_of(op: Op) -> int:
    """Return the cycles of an instruction: both operands are read one after the other, limbs are
    added or rows of products summed, carries move, and the result is written."""
    rows = LIMBS + 1 if op is Op.MULTIPLY else 1
    return 2 + rows + PASSES[op] + 1


#: cycles of a multiplication, from its start until its result is there: the same for every scalar
#: and every point
CYCLES = 1 + sum(cycles_of(step.op) * step.times * (BITS if step.body else 1) for step in PROGRAM)
