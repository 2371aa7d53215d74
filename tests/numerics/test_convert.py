"""Conversion of PostgreSQL values: golden against exact fractions, hardware against golden."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from penstock.hdl.arith.convert import PgConverter, pg_converter
from penstock.models.numerics.convert import (
    PG_BITS,
    convert,
    from_pg,
    in_order,
    may_be_unfit,
    numbers_of,
    unfit,
)
from penstock.models.numerics.formats import Fixed, Float, bfloat16, float16, float32, parse_format
from penstock.models.numerics.latency import convert_cost, convert_latency
from penstock.models.numerics.limbs import Limbs
from penstock.models.numerics.policy import Unfit
from testbench.vectors import run_vectors

FORMATS = ["float32", "bfloat16", "float16", "fixed:8,24", "fixed:8,8", "fixed:4,4"]
SETS = [
    tuple(PG_BITS),
    ("float4",),
    ("float8",),
    ("bool", "float4", "float8"),
    ("int2", "int4"),
    ("bool",),
    ("float4", "int8"),
]
NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    1e-310,
    2.0**-126,
    2.0**-126 * (1 - 2.0**-25),
    2.0**-126 * (1 - 2.0**-24),
    2.0**-126 * (1 - 2.0**-9),
    3.4028235677973366e38,
    3.4028234663852886e38,
    65504.0,
    65520.0,
    65519.99,
    -128.0,
    127.99999999,
    -8.0,
    7.97,
    2.0**-25,
    3 * 2.0**-26,
    1 + 2.0**-24,
    1 + 2.0**-24 + 2.0**-52,
    1e300,
]


def raw_values(count: int, seed: int) -> np.ndarray:
    """64-bit patterns that are interesting as some type: uniform, short integers, floats near 1 and at the edges, few bits, special."""
    rng = np.random.default_rng(seed)
    uniform = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    short = uniform >> rng.integers(0, 64, count).astype(np.uint64)
    integers = np.where(rng.random(count) < 0.5, short, ~short)
    cut = ~((np.uint64(1) << rng.integers(0, 52, count).astype(np.uint64)) - np.uint64(1))
    spread = np.where(
        rng.random(count) < 0.5, rng.integers(-40, 40, count), rng.integers(-160, 160, count)
    )
    doubles = uniform & np.uint64(0x800F_FFFF_FFFF_FFFF) | (1023 + spread).astype(
        np.uint64
    ) << np.uint64(52)
    singles = uniform & np.uint64(0xFFFF_FFFF_807F_FFFF) | (127 + spread).clip(0, 255).astype(
        np.uint64
    ) << np.uint64(23)
    with np.errstate(over="ignore"):
        numbers = np.array(NUMBERS)
        narrow = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    edges = np.array(
        [1 << 63, (1 << 63) - 1, 1 << 31, 0x7FC0_0000, 0x7F80_0001, 0xFF80_0001], np.uint64
    )
    special = np.concatenate([numbers.view(np.uint64), narrow, edges])
    kind = rng.integers(0, 8, count)
    mixed = np.select(
        [kind < 1, kind < 3, kind < 4, kind < 5, kind < 6, kind < 7],
        [uniform, integers, doubles, doubles & cut, singles, singles & cut],
        special[rng.integers(0, len(special), count)],
    )
    mixed[: len(special)] = special
    return mixed


def value_of(pgtype: str, raw: int) -> Fraction | float:
    bits = PG_BITS[pgtype]
    raw &= (1 << bits) - 1
    if pgtype == "bool":
        return Fraction(raw != 0)
    if pgtype.startswith("int"):
        return Fraction(raw - (raw >> (bits - 1) << bits))
    exponent_bits, fraction_bits = {"float4": (8, 23), "float8": (11, 52)}[pgtype]
    exponent, fraction = (
        raw >> fraction_bits & (1 << exponent_bits) - 1,
        raw & (1 << fraction_bits) - 1,
    )
    sign = -1 if raw >> (bits - 1) else 1
    if exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * 0.0
    return (
        sign
        * (1 + Fraction(fraction, 1 << fraction_bits))
        * Fraction(2) ** (exponent - (1 << (exponent_bits - 1)) + 1)
    )


def expected(format: Float | Fixed, value: Fraction | float) -> int:
    if isinstance(format, Fixed):
        if isinstance(value, float):
            return (
                0 if math.isnan(value) or not value else format.top if value > 0 else format.top + 1
            )
        integer = round(value * 2**format.fraction_bits)
        return (
            max(-1 << (format.width - 1), min((1 << (format.width - 1)) - 1, integer))
            & (1 << format.width) - 1
        )
    if isinstance(value, float):
        sign = format.sign_bit if math.copysign(1, value) < 0 else 0
        return format.nan if math.isnan(value) else sign | (format.infinity if value else 0)
    if not value:
        return 0
    sign, value = format.sign_bit if value < 0 else 0, abs(value)
    power = value.numerator.bit_length() - value.denominator.bit_length()
    power -= value < Fraction(2) ** power
    significand = round(value / Fraction(2) ** (power - format.fraction_bits))
    if significand >> (format.fraction_bits + 1):
        power, significand = power + 1, significand >> 1
    if power < 1 - format.bias:
        return sign
    if power > format.bias:
        return sign | format.infinity
    return (
        sign
        | significand - (1 << format.fraction_bits)
        | power + format.bias << format.fraction_bits
    )


def fits(format: Float | Fixed, value: Fraction | float) -> Unfit:
    """How a number fits, from exact fractions."""
    if isinstance(value, float):
        if math.isnan(value) or (math.isinf(value) and isinstance(format, Float)):
            return Unfit.NAN
        return Unfit.OVERFLOW if math.isinf(value) else Unfit.FITS
    if isinstance(format, Fixed):
        integer = round(value * 2**format.fraction_bits)
        return Unfit.FITS if -format.top - 1 <= integer <= format.top else Unfit.OVERFLOW
    infinite = value and expected(format, value) & ~format.sign_bit == format.infinity
    return Unfit.OVERFLOW if infinite else Unfit.FITS


@pytest.mark.parametrize("pgtype", PG_BITS)
@pytest.mark.parametrize("name", [*FORMATS, "fixed:1,31", "fixed:32,0", "fixed:16,0", "float:2,1"])
def test_golden_knows_what_fits(name, pgtype):
    format = parse_format(name)
    ends = [format.max_value, format.min_value]
    ends += [np.nextafter(sign * e, s * np.inf) for e in ends for sign in (1, -1) for s in (1, -1)]
    half = [format.max_value + 2.0**k for k in range(-33, 30)]
    with np.errstate(all="ignore"):
        if pgtype == "float8":
            edges = np.array([*ends, *half]).view(np.uint64)
        elif pgtype == "float4":
            edges = np.array([*ends, *half], np.float32).view(np.uint32).astype(np.uint64)
        else:
            inside = [v for v in (*ends, *half) if abs(v) < 2**62]
            edges = np.array([round(v) for v in inside], np.int64).view(np.uint64)
    raw = np.concatenate([raw_values(800, seed=26), edges])
    found = unfit(pgtype, raw, format)
    wanted = [fits(format, value_of(pgtype, bits)) for bits in raw.tolist()]
    assert found.tolist() == wanted
    seen = may_be_unfit(pgtype, format)
    assert all(
        may or kind not in wanted
        for may, kind in zip(seen, (Unfit.OVERFLOW, Unfit.NAN), strict=True)
    )


@pytest.mark.parametrize("pgtype", PG_BITS)
@pytest.mark.parametrize("name", [*FORMATS, "fixed:1,31", "fixed:32,0", "float:2,1"])
def test_golden_is_rounded_once(name, pgtype):
    format = parse_format(name)
    raw = raw_values(800, seed=21)
    got = from_pg(pgtype, raw, format)
    for bits, code in zip(raw.tolist(), got.tolist(), strict=True):
        assert code == expected(format, value_of(pgtype, bits)), (hex(bits), hex(code))


def check(name: str, pgtypes: tuple[str, ...], count: int, seed: int) -> None:
    format = parse_format(name)
    raw, order = raw_values(count, seed), in_order(pgtypes)
    choice = np.random.default_rng(seed).integers(0, len(order), count)
    want = np.select(
        [choice == index for index in range(len(order))],
        [from_pg(pgtype, raw, format) for pgtype in order],
    )
    inputs = {"i": raw, "type": choice} if len(order) > 1 else {"i": raw}
    flags = np.select(
        [choice == index for index in range(len(order))],
        [unfit(pgtype, raw, format) for pgtype in order],
    )
    outputs = run_vectors(
        pg_converter(pgtypes, format),
        inputs,
        ["o", "over", "nan"],
        convert_latency(pgtypes, format),
    )
    wrong = np.flatnonzero(flags != outputs["over"] + 2 * outputs["nan"])
    assert not len(wrong), (
        f"{len(wrong)} fit wrongly, first {order[choice[wrong[0]]]} {int(raw[wrong[0]]):#x}"
    )
    wrong = np.flatnonzero(want != outputs["o"])
    assert not len(wrong), (
        f"{len(wrong)} wrong, first {order[choice[wrong[0]]]} {int(raw[wrong[0]]):#x}"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_converter_of_all_types(name):
    check(name, SETS[0], 100_000, seed=23)


@pytest.mark.parametrize("pgtypes", SETS[1:3], ids="+".join)
@pytest.mark.parametrize("name", ["float32", "fixed:8,24"])
def test_converter_of_one_type(name, pgtypes):
    check(name, pgtypes, 100_000, seed=24)


@pytest.mark.long
@pytest.mark.parametrize("pgtypes", SETS, ids="+".join)
@pytest.mark.parametrize(
    "name",
    [*FORMATS, "fixed:1,31", "fixed:32,0", "fixed:2,0", "float:2,1", "float:2,23", "float:8,1"],
)
def test_converters_on_millions(name, pgtypes):
    check(name, pgtypes, 1_000_000, seed=25)


def limbs_of(pgtype: str, raw: int, shift: int, offset: int, limbs: int) -> tuple[int, Unfit]:
    """What `Limbs` make of a stored value, from exact fractions."""
    value = value_of(pgtype, raw)
    if isinstance(value, float) and not value:  # subnormals as well
        e, f = {"float4": (8, 23), "float8": (11, 52)}[pgtype]
        sign = -1 if raw >> (e + f) & 1 else 1
        value = sign * Fraction(raw & (1 << f) - 1) * Fraction(2) ** (2 - (1 << e - 1) - f)
    if isinstance(value, float):
        return 0, Unfit.NAN
    whole, top = round(value / Fraction(2) ** shift), 1 << 17 * limbs
    q = whole - offset
    if -top <= q < top and -(1 << 63) <= whole < 1 << 63:
        return q, Unfit.FITS
    return top - 1 if q > 0 else -top, Unfit.OVERFLOW


@pytest.mark.parametrize("pgtype", PG_BITS)
def test_limbs_are_nearest_integers(pgtype):
    raw, source = raw_values(3000, seed=31), np.random.default_rng(32)
    whole = not pgtype.startswith("float")
    shifts = np.where(
        source.random(3000) < 0.7,
        source.integers(-60, 70, 3000),
        source.integers(-1074, 1000, 3000),
    )
    shifts = np.abs(shifts) if whole else shifts
    values = [value_of(pgtype, int(r)) for r in raw]
    near = [
        0 if isinstance(v, float) else round(v / Fraction(2) ** int(s))
        for v, s in zip(values, shifts, strict=True)
    ]
    limbs = source.integers(1, 4, 3000)
    offsets = [
        max(-(1 << 63), min(n + int(d), (1 << 63) - 1))
        for n, d in zip(near, source.integers(-(1 << 18), 1 << 18, 3000), strict=True)
    ]
    fmt, places = Limbs(tuple(limbs.tolist())).of(shifts, offsets), np.arange(3000)
    codes, fits = from_pg(pgtype, raw, fmt, places), unfit(pgtype, raw, fmt, places)
    integers = fmt.to_integers(codes)
    for k in range(3000):
        wanted = limbs_of(
            pgtype,
            int(raw[k]) & (1 << PG_BITS[pgtype]) - 1,
            int(shifts[k]),
            offsets[k],
            int(limbs[k]),
        )
        assert (int(integers[k]), Unfit(int(fits[k]))) == wanted, (
            hex(raw[k]),
            shifts[k],
            offsets[k],
        )


@pytest.mark.parametrize(
    "pgtypes", [SETS[0], ("int2",), ("bool",), ("float8",), ("int8", "float4")], ids="+".join
)
def test_converter_of_limbs(pgtypes):
    """Golden's bits, with a unit of its own for each value."""
    count, source = 8_000, np.random.default_rng(33)
    order, raw = in_order(pgtypes), raw_values(8_000, seed=34)
    choice, limbs = source.integers(0, len(order), count), source.integers(1, 4, count)
    whole = np.array([not name.startswith("float") for name in order])[choice]
    shifts = np.where(
        source.random(count) < 0.8,
        source.integers(-60, 70, count),
        source.integers(-1074, 1000, count),
    )
    shifts = np.where(whole, np.abs(shifts), shifts)
    bare = Limbs(tuple(limbs.tolist()))
    offsets = np.zeros(count, dtype=np.int64)
    for n, name in enumerate(order):  # near the value, or anywhere
        at = np.flatnonzero(choice == n)
        numbers = numbers_of(name, raw[at])
        with np.errstate(all="ignore"):
            near = np.ldexp(
                np.where(np.isfinite(numbers), numbers, 0).astype(np.float64), -shifts[at]
            )
        near = np.clip(np.nan_to_num(near), -9e18, 9e18).astype(np.int64)
        offsets[at] = near + source.integers(-(1 << 18), 1 << 18, len(at))
    fmt = bare.of(shifts, offsets)
    want, fits = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    for n, name in enumerate(order):
        at = np.flatnonzero(choice == n)
        want[at], fits[at] = from_pg(name, raw[at], fmt, at), unfit(name, raw[at], fmt, at)
    converter = PgConverter(pgtypes, Limbs((1, 2, 3)))
    late = {"shift": shifts, "offset": offsets, "limbs": limbs}  # a cycle after the value
    inputs = {"i": raw, **({"type": choice} if len(order) > 1 else {})}
    inputs |= {name: np.concatenate([[0], values[:-1]]) for name, values in late.items()}
    inputs["limbs"][0] = 1
    found = run_vectors(converter, inputs, ["o", "over", "nan"], converter.latency)
    assert {Unfit.FITS, Unfit.OVERFLOW} <= set(map(Unfit, fits.tolist()))
    assert np.array_equal(found["o"][:-1], want[:-1])
    assert np.array_equal(found["over"][:-1] != 0, fits[:-1] == Unfit.OVERFLOW)
    assert np.array_equal(found["nan"][:-1] != 0, fits[:-1] == Unfit.NAN)


def test_converter_interface():
    converter = PgConverter({"float8", "int2", "bool"}, float32)
    assert (
        converter.pgtypes == ("bool", "int2", "float8")
        and converter.latency == 4
        and len(converter.type) == 2
    )
    assert not hasattr(PgConverter(["float4"], float32), "type")
    assert [
        convert_latency(s, f) for s in (("float4",), ("int8",)) for f in (float32, Fixed(8, 24))
    ] == [2, 3, 4, 1]
    assert convert_cost(["float4"], float32).lut < convert_cost(["int8"], float32).lut
    with pytest.raises(ValueError, match=r"^a converter needs at least one type$"):
        PgConverter([], float32)
    with pytest.raises(
        ValueError,
        match=f"^{re.escape('no conversion from the type ' + repr('text'))}; there are bool, int2, ",
    ):
        from_pg("text", 0, float32)


def test_convert_between_formats():
    codes = np.arange(1 << 16)
    assert np.array_equal(convert(codes, bfloat16, float32), float32.canonical(codes << 16))
    assert np.array_equal(
        convert(convert(codes, float16, float32), float32, float16), float16.canonical(codes)
    )
    fixed = Fixed(8, 8)
    assert np.array_equal(convert(convert(codes, fixed, float32), float32, fixed), codes)
    assert (
        convert(float32.const(1e9), float32, fixed) == fixed.top
        and convert(float32.nan, float32, fixed) == 0
    )
    assert (
        convert(Fixed(8, 24).const(0.001953125), Fixed(8, 24), fixed) == 0
        and convert(0x0180_0000, Fixed(8, 24), fixed) == 0x180
    )
