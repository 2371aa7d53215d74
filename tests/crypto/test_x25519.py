"""X25519: RFC 7748's answers, another library's, and the hardware's bits and cycles."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from penstock.hdl.crypto.x25519 import X25519, Field
from penstock.models.crypto.x25519 import (
    ACCUMULATOR_BITS,
    BASE,
    CYCLES,
    LIMB_BITS,
    LIMB_MOST,
    LIMBS,
    PASSES,
    POINT,
    PRIME,
    Op,
    cycles_of,
    public_key,
    x25519,
)
from testbench.pysim import simulate
from testbench.started import run_started

#: RFC 7748, 5.2: scalar, point, product
_ANSWERS = (
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
)
#: coordinates of points whose order divides 8, and others that are one of them modulo the prime
_SMALL = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    PRIME - 1,
    PRIME,
    PRIME + 1,
)


def _peer(scalar: bytes, point: bytes) -> bytes | None:
    """What `cryptography` says; it refuses a product that is zero."""
    try:
        return X25519PrivateKey.from_private_bytes(scalar).exchange(
            X25519PublicKey.from_public_bytes(point)
        )
    except ValueError:
        return None


def _pairs(count: int, seed: int = 0) -> list[tuple[bytes, bytes]]:
    """Random ones, and among them the points that need care."""
    draw = random.Random(seed)
    edges = [*_SMALL, PRIME + 18, 2, PRIME - 2, (1 << 256) - 1, 1 << 255, PRIME + (1 << 255)]
    points = [number.to_bytes(32, "little") for number in edges[: max(count - 4, 3)]]
    points += [draw.randbytes(32) for _ in range(count - len(points))]
    draw.shuffle(points)
    few = (bytes(32), b"\xff" * 32)
    return [(few[k] if k < 2 else draw.randbytes(32), point) for k, point in enumerate(points)]


@pytest.mark.parametrize("scalar, point, product", _ANSWERS)
def test_published_answers(scalar, point, product):
    made = x25519(bytes.fromhex(scalar), bytes.fromhex(point))
    assert made is not None and made.hex() == product


@pytest.mark.parametrize(
    "times, answer",
    [
        (1, "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"),
        pytest.param(
            1000,
            "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51",
            marks=pytest.mark.long,
        ),
    ],
)
def test_published_iterations(times, answer):
    scalar = point = BASE
    for _ in range(times):
        made = x25519(scalar, point)
        assert made is not None
        scalar, point = made, scalar
    assert scalar.hex() == answer


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_products_are_those_of_cryptography(count):
    refused = 0
    for scalar, point in _pairs(count):
        made = x25519(scalar, point)
        assert made == _peer(scalar, point)
        refused += made is None
    assert refused >= len(_SMALL)


def test_lengths_are_checked():
    with pytest.raises(ValueError, match="32 bytes, not 31 and 32"):
        x25519(bytes(31), BASE)


def test_no_limb_is_too_wide():
    """Worst cases of all instructions, from limbs of `LIMB_MOST`: none comes out above it."""

    def passed(limbs: list[int]) -> list[int]:
        assert max(limbs) < 1 << ACCUMULATOR_BITS
        low, carries = (1 << LIMB_BITS) - 1, [limb >> LIMB_BITS for limb in limbs]
        return [
            min(limb, low) + (carries[k - 1] if k else 19 * carries[-1])
            for k, limb in enumerate(limbs)
        ]

    most = [LIMB_MOST] * LIMBS
    product = [LIMB_MOST**2] * LIMBS
    sums = product
    for _ in range(LIMBS - 1):
        moved = passed(sums)
        sums = [(moved[k - 1] if k else 19 * moved[-1]) + product[k] for k in range(LIMBS)]
    twice = 2 * ((1 << LIMB_BITS) - 1)
    assert LIMB_MOST <= 2 * ((1 << LIMB_BITS) - 19)  # what is subtracted leaves none below zero
    begun = {
        Op.ADD: [2 * limb for limb in most],
        Op.SUBTRACT: [limb + twice for limb in most],
        Op.MULTIPLY: sums,
    }
    for op, limbs in begun.items():
        for _ in range(PASSES[op]):
            limbs = passed(limbs)
        assert max(limbs) <= LIMB_MOST < 1 << LIMB_BITS + 1


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_field_is_that_of_integers(seed):
    """Random instructions on 16 registers, and the numbers at the ends of the field: each is its
    meaning modulo the prime, in its cycles; those frozen are below it."""
    field, draw = Field(), random.Random(seed)
    edges = [0, 1, 18, 19, PRIME - 1, PRIME, PRIME + 1, PRIME + 18, PRIME - 20]

    async def instruction(ctx, op: Op, to: int, a: int, b: int) -> int:
        for port, value in ((field.op, op), (field.to, to), (field.a, a), (field.b, b)):
            ctx.set(port, value)
        ctx.set(field.start, 1)
        await ctx.tick()
        ctx.set(field.start, 0)
        cycles = 1
        while not ctx.get(field.ends):
            await ctx.tick()
            cycles += 1
        limbs = [ctx.get(limb) for limb in field.value]
        assert cycles == cycles_of(op) and max(limbs) <= LIMB_MOST
        await ctx.tick()
        return sum(limb << LIMB_BITS * k for k, limb in enumerate(limbs))

    async def bench(ctx):
        known: dict[int, int] = {}
        for number in [*edges, *(draw.getrandbits(255) for _ in range(6))]:
            ctx.set(field.point, number)
            ctx.set(field.put, 1)
            await ctx.tick()
            ctx.set(field.put, 0)
            known[POINT] = number
            other = draw.choice([0, 1, 2])
            constant = await instruction(ctx, Op.SET, 1, 0, other)
            assert constant == (0, 1, 121665)[other]
            known[1] = constant
            for _ in range(12):
                op = draw.choice([Op.ADD, Op.SUBTRACT, Op.MULTIPLY])
                to = draw.choice([k for k in range(16) if k != POINT])
                a, b = draw.choice(list(known)), draw.choice(list(known))
                made = await instruction(ctx, op, to, a, b)
                x, y = known[a], known[b]
                meant = {Op.ADD: x + y, Op.SUBTRACT: x - y, Op.MULTIPLY: x * y}[op]
                assert (made - meant) % PRIME == 0
                known[to] = made
            for register in (POINT, to):
                reduced = await instruction(ctx, Op.REDUCE, 2, register, 0)
                assert (reduced - known[register] - 19) % PRIME == 0
                known[3] = await instruction(ctx, Op.FREEZE, 3, 2, 0)
                assert known[3] == known[register] % PRIME
                known[2] = reduced

    simulate(field, bench)


@pytest.mark.parametrize("count", [8, pytest.param(60, marks=pytest.mark.long)])
def test_hardware_is_golden_in_the_same_cycles_for_all(count):
    pairs = _pairs(count, seed=1)
    pairs[0] = (pairs[0][0], BASE)
    inputs = [
        {"scalar": int.from_bytes(scalar, "little"), "point": int.from_bytes(point, "little")}
        for scalar, point in pairs
    ]
    found = run_started(X25519(), inputs, ("result", "refused"), limit=2 * CYCLES)
    for (scalar, point), (cycles, result, refused) in zip(pairs, found, strict=True):
        made = x25519(scalar, point)
        assert (result, bool(refused)) == (
            int.from_bytes(made or bytes(32), "little"),
            made is None,
        )
        assert cycles == CYCLES
    assert public_key(pairs[0][0]) == found[0][1].to_bytes(32, "little")
    assert CYCLES <= 100_000
