"""The golden arithmetic: against exact fractions, NumPy and ml_dtypes."""

import math
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from penstock.models.numerics.formats import (
    ARITY,
    Fixed,
    Float,
    bfloat16,
    float16,
    float32,
    parse_format,
)
from testbench.operands import mixed_codes, special_codes

FORMATS = [
    float32,
    bfloat16,
    float16,
    Float(4, 3),
    Float(2, 1),
    Fixed(8, 24),
    Fixed(8, 8),
    Fixed(4, 4),
    Fixed(1, 31),
    Fixed(32, 0),
    Fixed(1, 1),
]
ARITHMETIC = {"add": 2, "sub": 2, "mul": 2, "div": 2, "sqrt": 1}


def nearest_even(value: Fraction) -> int:
    return round(value)  # Python rounds a Fraction to even


def floor_log2(value: Fraction) -> int:
    power = value.numerator.bit_length() - value.denominator.bit_length()
    return power if value >= Fraction(2) ** power else power - 1


def float_value(format: Float, code: int) -> Fraction | float:
    """The number of a code straight from the definition; a float for −0, infinities and NaN."""
    sign, exponent, fraction = (
        code >> (format.width - 1),
        code >> format.fraction_bits & (1 << format.exponent_bits) - 1,
        None,
    )
    fraction = code & (1 << format.fraction_bits) - 1
    if exponent == (1 << format.exponent_bits) - 1:
        return math.nan if fraction else -math.inf if sign else math.inf
    if exponent == 0:
        return -0.0 if sign else Fraction(0)
    return (
        (-1) ** sign
        * (1 + Fraction(fraction, 1 << format.fraction_bits))
        * Fraction(2) ** (exponent - format.bias)
    )


def float_round(format: Float, value: Fraction) -> int:
    """A nonzero fraction to a code, straight from the definition."""
    sign, value = value < 0, abs(value)
    quantum = Fraction(2) ** (floor_log2(value) - format.fraction_bits)
    value = nearest_even(value / quantum) * quantum
    power = floor_log2(value)
    if power + format.bias < 1:
        magnitude = 0
    elif power > format.bias:
        magnitude = format.infinity
    else:
        magnitude = (
            int((value / Fraction(2) ** power - 1) * 2**format.fraction_bits)
            | power + format.bias << format.fraction_bits
        )
    return magnitude | sign << (format.width - 1)


def root(value: Fraction) -> Fraction:
    """A fraction with the same rounding as the square root: exact, or between the neighbours of a 100-bit number."""
    scaled = value * 4**400
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(whole) ** 2 == scaled
    return Fraction(whole if exact else whole + Fraction(1, 2)) / 2**400


def float_expected(format: Float, op: str, x: Fraction | float, y: Fraction | float) -> int:
    """IEEE's special cases, and else the exact fraction rounded once."""
    if (
        not (isinstance(x, float) or isinstance(y, float))
        and not (op == "div" and y == 0)
        and not (op == "sqrt" and x < 0)
    ):
        exact = (
            {"add": x + y, "sub": x - y, "mul": x * y}[op]
            if op in ("add", "sub", "mul")
            else x / y
            if op == "div"
            else root(x)
        )
        if exact:
            return float_round(format, exact)
        x, y = float(x), float(y)
    # a zero, infinity or NaN takes part, or the result is zero: float64 has the same cases
    x, y = (
        z
        if isinstance(z, float)
        else math.copysign(1.0 if z else 0.0, z)
        if op in ("mul", "div")
        else float(z)
        for z in (x, y)
    )
    with np.errstate(all="ignore"):
        ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}.get(op)
        result = float(ufunc(np.float64(x), np.float64(y)) if ufunc else np.sqrt(np.float64(x)))
    if math.isnan(result):
        return format.nan
    if math.isinf(result):
        return format.infinity | (format.sign_bit if result < 0 else 0)
    if result == 0:
        return format.sign_bit if math.copysign(1, result) < 0 else 0
    return float_round(format, Fraction(result))


def fixed_expected(format: Fixed, op: str, x: Fraction, y: Fraction) -> int:
    if op == "div" and y == 0:
        exact = Fraction(1 << 40) * ((x > 0) - (x < 0))
    elif op == "sqrt":
        exact = root(max(x, Fraction(0)))
    else:
        exact = x + y if op == "add" else x - y if op == "sub" else x * y if op == "mul" else x / y
    integer = nearest_even(exact * 2**format.fraction_bits)
    return (
        max(-1 << (format.width - 1), min((1 << (format.width - 1)) - 1, integer))
        & (1 << format.width) - 1
    )


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_against_exact_fractions(format, op):
    a, b = (x[-600:] for x in mixed_codes(format, 1500, 2, seed=1))
    special = special_codes(format)
    a, b = (
        np.concatenate([a, np.repeat(special, len(special))]),
        np.concatenate([b, np.tile(special, len(special))]),
    )
    got = format.op(op, *(a, b)[: ARITHMETIC[op]])
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if isinstance(format, Float):
            want = float_expected(format, op, float_value(format, x), float_value(format, y))
        else:
            scale = 1 << format.fraction_bits
            want = fixed_expected(
                format,
                op,
                *(Fraction(z - (z >> (format.width - 1) << format.width), scale) for z in (x, y)),
            )
        assert got[i] == want, (hex(x), hex(y), hex(got[i]), hex(want))


TWINS = {bfloat16: ml_dtypes.bfloat16, float16: np.float16, float32: np.float32}
UFUNCS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "abs": np.abs,
    "max": np.maximum,
    "min": np.minimum,
}


def check_against_twin(format: Float, op: str, *operands: np.ndarray) -> None:
    """Equal to an independent implementation, but for what is ours by definition: no subnormals, one NaN.

    Where the twin gives the smallest normal number it may have rounded up with the fewer bits of subnormals: fractions decide.
    """
    unsigned = np.dtype(f"u{format.container}")
    with np.errstate(all="ignore"):
        twins = [format.canonical(x).astype(unsigned).view(TWINS[format]) for x in operands]
        want = format.canonical(np.asarray(UFUNCS[op](*twins)).view(unsigned))
    got = format.op(op, *operands)
    if op in ("max", "min"):  # zeros of either sign are equal to NumPy
        want, got = (np.where(format.is_zero(x), 0, x) for x in (want, got))
    wrong = np.flatnonzero(want != got)
    edge = want & (format.sign_bit - 1) == 1 << format.fraction_bits
    assert (edge[wrong].all() and op in ("mul", "div")) or not len(wrong)
    for i in wrong[:300]:
        assert got[i] == float_expected(
            format, op, *(float_value(format, int(x[i])) for x in operands)
        )


@pytest.mark.parametrize("op", ["sqrt", "neg", "abs"])
@pytest.mark.parametrize("format", [bfloat16, float16], ids=str)
def test_unary_operations_on_every_code(format, op):
    check_against_twin(format, op, np.arange(1 << format.width))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "max", "min"])
@pytest.mark.parametrize("format", TWINS, ids=str)
def test_binary_operations_against_an_independent_implementation(format, op):
    check_against_twin(format, op, *mixed_codes(format, 1_000_000, 2, seed=2))


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_encode_decode(format):
    codes = mixed_codes(format, 20_000, 1, seed=4)[0]
    values = format.decode(codes)
    back = format.encode(values)
    assert np.array_equal(back, format.canonical(codes) if isinstance(format, Float) else codes)
    rng = np.random.default_rng(4)
    for x in (rng.normal(size=300) * 2.0 ** rng.integers(-140, 140, 300)).tolist():
        want = (
            float_round(format, Fraction(x))
            if isinstance(format, Float)
            else fixed_expected(format, "add", Fraction(x), Fraction(0))
        )
        assert format.const(x) == want
    for x in (math.inf, -math.inf, math.nan, 0.0, -0.0, 5e-324):
        value = float(format.decode(format.const(x)))
        if format.is_float:
            assert value == (0.0 if x == 5e-324 else x) or (math.isnan(x) and math.isnan(value))
        else:
            assert value == (
                format.max_value if x == math.inf else format.min_value if x == -math.inf else 0
            )


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_comparisons_and_choices(format):
    a, b, c = mixed_codes(format, 30_000, 3, seed=5)
    x, y = format.decode(a), format.decode(b)
    for op, flags in {"lt": x < y, "gt": x > y, "le": x <= y, "ge": x >= y}.items():
        assert np.array_equal(format.op(op, a, b), np.where(flags, format.one, 0))
    chosen = np.where(format.decode(c) != 0, a, b)
    assert np.array_equal(format.op("select", c, a, b), chosen)
    assert np.array_equal(format.op("pass", a), a)
    assert np.array_equal(format.op("mac", a, b, c), format.add(format.mul(a, b), c))
    for op, ufunc in {
        "max": np.maximum,
        "min": np.minimum,
        "abs": lambda x, y: np.abs(x),
        "neg": lambda x, y: -x,
    }.items():
        want = format.encode(ufunc(x, y))
        got = format.op(op, *(a, b)[: ARITY[op]])
        assert np.array_equal(got, want) or (
            format.is_float and np.array_equal(got % format.sign_bit, want % format.sign_bit)
        )
    if isinstance(format, Float):
        assert format.max(0, format.sign_bit) == format.max(format.sign_bit, 0) == 0
        assert format.min(0, format.sign_bit) == format.min(format.sign_bit, 0) == format.sign_bit
        assert (
            format.neg(0) == format.sign_bit
            and format.neg(format.nan) == format.neg(format.nan | format.sign_bit) == format.nan
        )


def test_saturations():
    f = Fixed(4, 4)
    assert f.saturated("add", [0x7F, 0x70, 0x80], [0x01, 0x0F, 0xFF]).tolist() == [
        True,
        False,
        True,
    ]
    assert (
        f.saturated("mul", f.const(3.0), f.const(2.6875)).item()
        and not f.saturated("mul", f.const(3.0), f.const(2.625)).item()
    )
    assert f.saturated("div", [0x10, 0xF0, 0], 0).tolist() == [True, True, False]
    assert f.div([0x10, 0xF0, 0], 0).tolist() == [0x7F, 0x80, 0]
    assert (
        f.saturated("neg", 0x80).item()
        and f.saturated("abs", 0x80).item()
        and not f.saturated("sqrt", 0x80).item()
    )
    assert f.saturated("mac", [0x40, 0x10], [0x40, 0x10], [0x80, 0x70]).tolist() == [True, True]
    with pytest.raises(ValueError, match=r"^lt has no saturating result$"):
        f.saturated("lt", 1, 2)


def test_properties():
    assert [
        parse_format(n).container
        for n in ("float32", "bfloat16", "fixed:4,4", "fixed:5,4", "fixed:9,8")
    ] == [4, 2, 1, 2, 4]
    assert parse_format("float:8,23") == float32 and parse_format("float:8,23").name == "float32"
    assert (float16.max_value, float16.one, float16.zero, float16.is_float) == (
        65504.0,
        0x3C00,
        0,
        True,
    )
    assert (Fixed(4, 4).min_value, Fixed(4, 4).max_value, Fixed(4, 4).one, Fixed(1, 7).one) == (
        -8.0,
        7.9375,
        16,
        127,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "float64",
            "'float64' is not a number format; write float32, bfloat16, float16 or fixed:I,F (as in fixed:8,24)",
        ),
        (
            "fixed:8",
            "'fixed:8' is not a number format; write float32, bfloat16, float16 or fixed:I,F (as in fixed:8,24)",
        ),
        (
            "fixed:0,8",
            "'fixed:0,8': a fixed-point format has at least 1 integer bit (its sign), not 0",
        ),
        ("fixed:20,24", "'fixed:20,24': a fixed-point format has 2 to 32 bits, not 44"),
        ("float:9,3", "'float:9,3': a float has 2 to 8 exponent bits, not 9"),
        ("float:5,0", "'float:5,0': a float has 1 to 23 fraction bits, not 0"),
    ],
)
def test_bad_format_names(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_format(text)


def test_unknown_operation():
    with pytest.raises(ValueError, match=r"^no operation 'pow'; there are add, sub, "):
        float32.op("pow", 1, 2)
    with pytest.raises(ValueError, match=r"^add takes 2 operands, not 3$"):
        float32.op("add", 1, 2, 3)
