"""Arithmetic on groups of 16 numbers with shared microexponents, bit for bit as `models.numerics.mx`.

Each function takes a pipeline under construction (`hdl.arith.pipeline.Pipeline`) or plain values, and says how
many register ranks it adds.
"""

from dataclasses import dataclass
from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Mux, Value, signed

from ...models.numerics.mx import GROUP, LARGEST, RANDOM_BITS, SharedMicroexponents
from .pipeline import Pipeline


@dataclass
class Group:
    exponent: Value
    micro: list[Value]
    magnitude: list[Value]
    sign: list[Value]


def unpack(code: Value, format: SharedMicroexponents) -> Group:
    """Return the fields of a packed group."""
    wide = 1 + format.magnitude_bits
    numbers = [code[16 + wide * lane : 16 + wide * (lane + 1)] for lane in range(GROUP)]
    return Group(
        code[:8],
        [code[8 + pair] for pair in range(8)],
        [n[:-1] for n in numbers],
        [n[-1] for n in numbers],
    )


def pack(group: Group) -> Value:
    numbers = [Cat(m, s) for m, s in zip(group.magnitude, group.sign, strict=True)]
    return Cat(group.exponent, *group.micro, *numbers)


def product(a: Group, b: Group) -> tuple[list[Value], list[Value]]:
    """Return magnitudes, microexponents folded in, and signs of exact products. No rank.

    b's microexponents are folded into its magnitudes, so that a number which all lanes have is folded once.
    """
    magnitude, sign = [], []
    for lane in range(GROUP):
        bits = len(b.magnitude[lane]) + 1
        other = Mux(b.micro[lane // 2], b.magnitude[lane], b.magnitude[lane] << 1)[:bits]
        product = a.magnitude[lane] * other
        folded = Mux(a.micro[lane // 2], product, product << 1)
        magnitude.append(folded[: len(product) + 1])
        sign.append(a.sign[lane] ^ b.sign[lane])
    return magnitude, sign


def _any(values: list[Value]) -> Value:
    return Cat(*values).any()


def _aligned(
    pipe: Pipeline,
    low: int,
    magnitude: list[Value],
    sign: Value,
    exponent: Value,
    stochastic: Value,
) -> SimpleNamespace:
    """A group's numbers x0, x1, … with its leading one in bit `low` - 1, whether there is `some`, and its
    exponent. One rank."""
    width, joined = len(magnitude[0]), magnitude[0]
    for other in magnitude[1:]:
        joined = joined | other
    joined = pipe.wire(joined, name="joined")
    # the leading one: levels of a shifter, all numbers with the same amount
    values = [pipe.wire(m, name="m") for m in magnitude]
    zeros: list[Value] = []
    for level in reversed(range((width - 1).bit_length())):
        step = 1 << level
        none = pipe.wire(~joined[width - step :].any(), name="none")
        zeros.insert(0, none)
        joined = pipe.wire(Mux(none, joined << step, joined)[:width], name="joined")
        values = [pipe.wire(Mux(none, v << step, v)[:width], name="m") for v in values]
    cut = [v[width - low :] if width >= low else Cat(Const(0, low - width), v) for v in values]
    lead = (width - 1) - Cat(*zeros)
    return pipe.rank(
        **{f"x{lane}": x for lane, x in enumerate(cut)},
        sign=sign,
        some=joined.any(),
        exponent=(exponent + lead),
        stochastic=stochastic,
    )


def _carries(
    pipe: Pipeline, bits: int, x: list[Value], add: list[Value], stochastic: Value
) -> tuple[list[Value], list[Value]]:
    """Whether each number rounds up beyond its bits: at the group's exponent, and at the one below."""
    top, ones = bits + RANDOM_BITS, (1 << bits) - 1

    def full(value: Value, level: int) -> tuple[Value, Value]:
        """Whether a magnitude is all ones, and the bits below that count."""
        shift = top - level - (bits - 1)
        return value[shift:] == ones, value[shift - RANDOM_BITS : shift]

    over0, over1 = [], []
    for lane, value in enumerate(x):
        ones0, rest = full(value, 0)
        carried = pipe.wire(rest + add[lane], name="carried")
        over0.append(pipe.wire(ones0 & carried[RANDOM_BITS], name="over0"))
        ones1, rest = full(value, 1)
        over1.append(pipe.wire(ones1 & Mux(stochastic, rest.any(), rest[-1]), name="over1"))
    return over0, over1


def renormalise(
    pipe: Pipeline,
    format: SharedMicroexponents,
    magnitude: list[Value],
    sign: list[Value],
    exponent: Value,
    rounding: tuple[list[Value] | None, Value],
) -> tuple[Value, Value]:
    """Return the code of a group of integers, and whether it saturates. Two ranks.

    `exponent`: signed, the biased exponent of a group whose leading one is bit 0; `rounding`: 8 random bits for each
    number, as they are one rank later, and where they are used.
    """
    bits, (random, stochastic) = format.magnitude_bits, rounding
    low = bits + 1 + RANDOM_BITS
    s = _aligned(pipe, low, magnitude, Cat(*sign), exponent, stochastic)
    x = [getattr(s, f"x{lane}") for lane in range(GROUP)]
    top, half = low - 1, Const(1 << (RANDOM_BITS - 1), RANDOM_BITS)
    add = [
        half if random is None else pipe.wire(Mux(s.stochastic, random[lane], half), name="add")
        for lane in range(GROUP)
    ]
    over0, over1 = _carries(pipe, bits, x, add, s.stochastic)
    bump = pipe.wire(_any(over0), name="bump")
    biased = pipe.wire(s.exponent + bump, signed(len(s.exponent) + 1), name="biased")
    gone = pipe.wire(~s.some | (biased < 0), name="gone")
    saturated = ~gone & (biased > LARGEST)
    micros, magnitudes, signs = [], [], []
    for pair in range(GROUP // 2):
        lanes = (2 * pair, 2 * pair + 1)
        first = _any([x[lane][top] for lane in lanes])
        micro = pipe.wire(
            Mux(
                bump,
                ~_any([over0[lane] for lane in lanes]),
                ~(first | _any([over1[lane] for lane in lanes])),
            ),
            name="micro",
        )
        for lane in lanes:
            # the last place: one above that of the old exponent, at it, or one below
            place = top - (bits - 1)
            parts = [
                (x[lane] >> (place - level - RANDOM_BITS))[: bits + RANDOM_BITS]
                for level in (-1, 0, 1)
            ]
            coarse, even, fine = parts
            kept = Mux(bump, Mux(micro, even, coarse), Mux(micro, fine, even))
            up = pipe.wire(kept + add[lane], name="up")
            m = up[RANDOM_BITS : RANDOM_BITS + bits]
            m = pipe.wire(Mux(gone, 0, m)[:bits], name="m")
            magnitudes.append(m)
            signs.append(s.sign[lane] & m.any())
        micros.append(micro & ~gone)
    code = pack(
        Group(Mux(gone, 0, Mux(saturated, LARGEST, biased[:8]))[:8], micros, magnitudes, signs)
    )
    done = pipe.rank(code=code, saturated=saturated)
    return done.code, done.saturated
