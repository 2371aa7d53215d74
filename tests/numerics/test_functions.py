"""Functions on codes: against float64, against their exact properties, and hardware against golden."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from penstock.hdl.arith.functions import PipelineUnit, function_unit
from penstock.models.numerics import latency, tables
from penstock.models.numerics.formats import (
    ARITY,
    Fixed,
    Float,
    Format,
    bfloat16,
    float16,
    float32,
    parse_format,
)
from penstock.models.numerics.functions import FUNCTIONS, error_bound, evaluate, pipeline
from penstock.models.numerics.pipeline import Pipeline, bits_of
from testbench.vectors import run_vectors

REFERENCE = {
    "exp": np.exp,
    "log": np.log,
    "sigmoid": scipy.special.expit,
    "tanh": np.tanh,
    "gaussian": lambda x: np.exp(-x * x),
}
SMALL = [
    bfloat16,
    float16,
    Float(5, 2),
    Float(4, 3),
    Float(3, 12),
    Float(2, 6),
    Float(6, 9),
    Fixed(8, 8),
    Fixed(4, 12),
    Fixed(1, 15),
    Fixed(16, 0),
    Fixed(2, 6),
    Fixed(5, 3),
    Fixed(1, 1),
    Fixed(2, 0),
    Fixed(3, 9),
]
WIDE = [
    float32,
    Float(8, 17),
    Float(5, 20),
    Fixed(8, 24),
    Fixed(16, 16),
    Fixed(12, 20),
    Fixed(4, 28),
    Fixed(1, 31),
    Fixed(6, 18),
    Fixed(32, 0),
    Fixed(2, 16),
]
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "numerics.md"


def codes_of(format: Format, count: int, seed: int = 1) -> np.ndarray:
    """All codes of a small format; else random ones, numbers of usual sizes, and the neighbourhood of 0, 1 and the ends."""
    if format.width <= 16:
        return np.arange(1 << format.width)
    rng = np.random.default_rng(seed)
    top = 1 << format.width
    edges = [format.encode(x) for x in (0.0, 1.0, -1.0, 0.5, 2.0, 8.0, 16.0, 88.0, -88.0, 104.0)]
    near = (np.array([*edges, 0, top // 2, top - 1])[:, None] + np.arange(-50, 51)).reshape(
        -1
    ) % top
    numbers = [
        rng.normal(size=count // 4) * 6,
        rng.normal(size=count // 4) * 60,
        1 + rng.normal(size=count // 16) / 64,
    ]
    return np.concatenate([rng.integers(0, top, count // 2), *map(format.encode, numbers), near])


def assert_within_bound(op: str, format: Format, codes: np.ndarray) -> None:
    result = format.decode(pipeline(op, format).run(codes, check=True))
    bound = error_bound(op, format)
    with np.errstate(all="ignore"):
        exact = REFERENCE[op](format.decode(codes))
        nan = np.isnan(exact)
        if isinstance(format, Float):
            beyond = (
                np.abs(exact) > format.max_value
            )  # infinity or, within the bound, the largest number
            ulp = 2.0 ** (np.floor(np.log2(np.abs(exact))) - format.fraction_bits)
            allowed = np.fmax(bound.ulp * ulp, bound.absolute)
            assert np.array_equal(np.isnan(result), nan)
            assert np.all(np.sign(result[beyond]) == np.sign(exact[beyond]))
            assert np.all(
                np.abs(result[beyond]) >= format.max_value * (1 - 2.0 ** (1 - format.fraction_bits))
            )
            finite = ~beyond & ~nan
        else:
            exact = np.clip(np.where(nan, 0, exact), format.min_value, format.max_value)
            allowed = np.full(exact.shape, bound.absolute)
            finite = np.ones(exact.shape, bool)
        error = np.abs(result - exact)
    worst = np.argmax(np.where(finite, error / allowed, 0))
    assert np.all(error[finite] <= allowed[finite]), (
        f"{op}({format.decode(codes[worst])}) in {format}: {result[worst]}, exactly {exact[worst]}, allowed {allowed[worst]}"
    )


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("format", SMALL + WIDE, ids=str)
def test_error_bound(op: str, format: Format) -> None:
    codes = codes_of(format, 40_000)
    assert_within_bound(op, format, codes)
    results = evaluate(op, codes, format)
    assert np.array_equal(results, pipeline(op, format).run(codes, check=True))
    few = np.random.default_rng(7).integers(0, codes.size, 30)
    assert np.array_equal(results[few], pipeline(op, format).run(codes[few]))


@pytest.mark.long
@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("format", [*WIDE, *(Fixed(i, 32 - i) for i in range(1, 33))], ids=str)
def test_error_bound_dense(op: str, format: Format) -> None:
    assert_within_bound(op, format, codes_of(format, 1_000_000, seed=2))


@pytest.mark.long
@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_bound_in_every_format_of_up_to_14_bits(op: str) -> None:
    for width in range(2, 15):
        for i in range(1, width + 1):
            assert_within_bound(op, Fixed(i, width - i), np.arange(1 << width))
        for e in range(2, min(9, width - 1)):
            assert_within_bound(op, Float(e, width - 1 - e), np.arange(1 << width))


@pytest.mark.parametrize("format", [float32, bfloat16, float16, Float(4, 3)], ids=str)
def test_float_special_values(format: Float) -> None:
    minus = format.sign_bit
    one, inf, nan = format.one, format.infinity, format.nan
    zeros = [0, minus, 1, minus | 1]  # the last two are subnormal
    assert evaluate("exp", [*zeros, inf, minus | inf, nan, nan | 1], format).tolist() == [
        one
    ] * 4 + [inf, 0, nan, nan]
    assert evaluate("log", [*zeros, inf, one], format).tolist() == [minus | inf] * 4 + [inf, 0]
    assert (
        evaluate("log", [minus | one, minus | inf, nan, minus | nan], format).tolist() == [nan] * 4
    )
    assert evaluate("sigmoid", [*zeros, inf, minus | inf, nan], format).tolist() == [
        format.const(0.5)
    ] * 4 + [one, 0, nan]
    assert evaluate("tanh", [*zeros, inf, minus | inf], format).tolist() == [
        0,
        minus,
        0,
        minus,
        one,
        minus | one,
    ]
    assert evaluate("tanh", [minus | nan], format).tolist() == [nan]
    assert evaluate("gaussian", [*zeros, inf, minus | inf, nan], format).tolist() == [one] * 4 + [
        0,
        0,
        nan,
    ]


@pytest.mark.parametrize(
    "format", [Fixed(8, 24), Fixed(16, 16), Fixed(8, 8), Fixed(4, 4), Fixed(2, 14)], ids=str
)
def test_fixed_special_values(format: Fixed) -> None:
    top = format.top
    assert evaluate("exp", [0, top, top + 1], format).tolist() == [
        format.one,
        format.const(np.exp(min(format.max_value, 50.0))),
        format.const(np.exp(format.min_value)),
    ]
    assert evaluate("log", [format.one, 0, top + 1, 2 * top + 1], format).tolist() == [
        0,
        top + 1,
        0,
        0,
    ]
    assert evaluate("sigmoid", [0], format).tolist() == [format.const(0.5)]
    assert evaluate("tanh", [0], format).tolist() == [0]
    assert evaluate("gaussian", [0], format).tolist() == [format.one]


@pytest.mark.parametrize("format", [*SMALL, float32, Fixed(8, 24), Fixed(16, 16)], ids=str)
def test_symmetry_and_range(format: Format) -> None:
    codes = codes_of(format, 20_000)
    values = format.decode(codes)
    positive = codes[values > 0]
    negative = format.neg(positive)
    assert np.array_equal(
        evaluate("tanh", negative, format), format.neg(evaluate("tanh", positive, format))
    )
    assert np.array_equal(
        evaluate("gaussian", negative, format), evaluate("gaussian", positive, format)
    )
    valid = codes[~np.isnan(values)]
    for op, low in (("sigmoid", 0), ("gaussian", 0), ("tanh", -1)):
        result = format.decode(evaluate(op, valid, format))
        assert result.min() >= low and result.max() <= 1
    assert format.decode(evaluate("exp", valid, format)).min() >= 0


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize(
    "format", [bfloat16, float16, Fixed(8, 8), Fixed(4, 12), Fixed(1, 15)], ids=str
)
def test_monotone(op: str, format: Format) -> None:
    """Results never step back in Fixed, and by no more than the unit of the internal results in Float."""
    codes = np.arange(1 << format.width)
    values = format.decode(codes)
    keep = np.isfinite(values) & (
        (values > 0) if op == "log" else (values >= 0) if op == "gaussian" else True
    )
    codes = codes[keep][np.argsort(values[keep], kind="stable")]
    result = format.decode(evaluate(op, codes, format))
    steps = np.diff(result[np.isfinite(result)])
    unit = 2.0 ** -(format.fraction_bits + 6) if isinstance(format, Float) else 0
    assert np.all((-steps if op == "gaussian" else steps) >= -unit)


def test_shapes_and_names() -> None:
    assert evaluate("exp", 0, float32).shape == ()
    assert evaluate("exp", np.zeros((2, 3), np.int64), Fixed(8, 24)).shape == (2, 3)
    assert evaluate("tanh", np.zeros(0, np.int64), float32).shape == (0,)
    assert float32.op("sigmoid", [0]).tolist() == [float32.const(0.5)]
    with pytest.raises(
        ValueError, match=r"^no function 'sin'; there are exp, log, sigmoid, tanh, gaussian$"
    ):
        evaluate("sin", 0, float32)
    with pytest.raises(
        ValueError, match=r"^no function 'sin'; there are exp, log, sigmoid, tanh, gaussian$"
    ):
        error_bound("sin", float32)


def test_latency_and_tables_are_modest() -> None:
    for op in FUNCTIONS:
        assert latency.latency(op, float32) == pipeline(op, float32).latency <= 10
        assert latency.latency(op, bfloat16) <= 8
        for format in [*SMALL, *WIDE]:
            p = pipeline(op, format)
            assert p.latency <= 14
            assert all(table.depth <= 2048 for table in p.tables)
            assert sum(table.depth * sum(table.widths) for table in p.tables) <= 90_000
            assert latency.cost(op, format).lut > 0


def test_latencies_in_the_documentation() -> None:
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    start = next(k for k, line in enumerate(rows) if line.startswith("| operation |"))
    formats = [parse_format(name.strip(" `")) for name in rows[start].split("|")[2:-1]]
    documented = {}
    for line in itertools.takewhile(
        lambda line: line.startswith(("| `", "| ---")), rows[start + 1 :]
    ):
        names, *cycles = line.split("|")[1:-1]
        documented |= {name: [int(c) for c in cycles] for name in re.findall(r"`(\w+)`", names)}
    assert documented == {op: [latency.latency(op, format) for format in formats] for op in ARITY}


def test_coefficients_do_not_change() -> None:
    """The tables are part of the specification: these numbers must come out on every machine."""
    assert tables.uniform("exp2", 4, 2, 2, 16) == (
        (0, 12402, 27149, 44685),
        (11331, 13465, 16012, 19042),
        (1067, 1277, 1518, 1805),
    )
    assert tables.octaves("tanh", -1, 1, 1, 1, 8) == ((238, 327), (89, 65))
    assert tables.constant(tables.LN2, 40) == round(0.6931471805599453 * 2**40)
    with pytest.raises(ValueError, match=r"^no table of tanh within 1024 entries gives 60 bits$"):
        tables.smallest_degree("tanh", 60, 50)


def test_pipeline_checks_its_bounds() -> None:
    p = Pipeline(4)
    p.output = (p.input + 1).within(0, 15)
    assert p.run(np.arange(15), check=True).tolist() == list(range(1, 16))
    with pytest.raises(AssertionError, match=r"^wire 3 \(within\) leaves 1 … 15$"):
        p.run(np.arange(16), check=True)
    with pytest.raises(ValueError, match=r"^a wire of 0 to \d+ does not fit 63 bits$"):
        _ = p.input << 60
    assert [bits_of(*x) for x in ((0, 0), (0, 1), (-1, 0), (-2, 1), (-3, 0), (0, 255))] == [
        0,
        1,
        1,
        2,
        3,
        8,
    ]


@pytest.mark.parametrize("bits", [(5, 5), (18, 17), (24, 34), (31, 31), (29, 33)])
@pytest.mark.parametrize("negative", [False, True])
def test_partial_products(bits: tuple[int, int], negative: bool) -> None:
    """Exact without a shift; with one, low by less than a unit for each part that is kept or left out."""
    rng = np.random.default_rng(sum(bits))
    for shift in (0, 7, 20):
        p = Pipeline(sum(bits))
        a, b = p.input.low(bits[0]), p.input >> bits[0]
        a = a.signed(bits[0]) if negative else a
        if a.hi * b.hi >= 1 << 61 and shift == 0:
            continue
        parts = p.product(a, b, shift)
        assert all(
            factor.width <= 18 for wire in p.wires if wire.kind == "mul" for factor in wire.args
        )
        p.output = (p.total(parts) + (1 << 61)).low(62)
        codes = rng.integers(0, 1 << sum(bits), 1000)
        x, y = codes & ((1 << bits[0]) - 1), codes >> bits[0]
        x = np.where(negative & (x >> (bits[0] - 1) == 1), x - (1 << bits[0]), x)
        exact = np.array([(int(u) * int(v)) >> shift for u, v in zip(x, y, strict=True)])
        below = exact - (p.run(codes, check=True) - (1 << 61))
        assert below.min() >= -1 and below.max() <= (9 if shift else 0)


class Bundle(wiring.Component):
    """All functions of several formats on one operand: outputs o0, o1, …"""

    def __init__(self, units: list[PipelineUnit]) -> None:
        width = max(len(unit.a) for unit in units)
        super().__init__(
            {"a": In(width), **{f"o{k}": Out(len(unit.o)) for k, unit in enumerate(units)}}
        )
        self._units = units

    def elaborate(self, platform) -> Module:
        m = Module()
        for k, unit in enumerate(self._units):
            m.submodules[f"unit{k}"] = unit
            m.d.comb += [unit.a.eq(self.a[: len(unit.a)]), getattr(self, f"o{k}").eq(unit.o)]
        return m


def assert_hardware_equals_golden(formats: list[Format], codes: np.ndarray) -> None:
    cases = [(op, format) for format in formats for op in FUNCTIONS]
    units = [function_unit(*case) for case in cases]
    names = [f"o{k}" for k in range(len(units))]
    depths = {name: latency.latency(*case) for name, case in zip(names, cases, strict=True)}
    results = run_vectors(Bundle(units), {"a": codes}, names, depths)
    for name, (op, format) in zip(names, cases, strict=True):
        golden = evaluate(op, codes & ((1 << format.width) - 1), format)
        assert np.array_equal(results[name], golden), f"{op} {format}"


@pytest.mark.parametrize(
    "formats",
    [
        [bfloat16, float16, Fixed(8, 8)],
        [Float(4, 3), Float(2, 6), Fixed(1, 11), Fixed(2, 0), Fixed(5, 3)],
    ],
    ids=["usual", "odd"],
)
def test_hardware_exhaustively(formats: list[Format]) -> None:
    assert_hardware_equals_golden(formats, np.arange(1 << max(format.width for format in formats)))


@pytest.mark.parametrize("format", [float32, Fixed(8, 24)], ids=str)
def test_hardware_of_32_bits(format: Format) -> None:
    assert_hardware_equals_golden([format], codes_of(format, 50_000, seed=3))


@pytest.mark.long
@pytest.mark.parametrize("format", [f for f in WIDE if f.width > 16], ids=str)
def test_hardware_of_many_formats(format: Format) -> None:
    assert_hardware_equals_golden([format], codes_of(format, 1_200_000, seed=4))


@pytest.mark.long
def test_hardware_of_small_formats() -> None:
    assert_hardware_equals_golden([f for f in SMALL if f.width <= 16], np.arange(1 << 16))
