"""Hardware units equal the golden arithmetic, at the latency that the table states."""

import re

import numpy as np
import pytest
from amaranth.hdl import Module, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from penstock.hdl.arith.unit import operand_names, unit
from penstock.models.numerics.formats import ARITY, Format, parse_format
from penstock.models.numerics.functions import FUNCTIONS
from penstock.models.numerics.latency import cost, latency, multipliers
from testbench.operands import mixed_codes
from testbench.vectors import run_vectors

#: all operations but the functions, which `test_functions.py` has
OPS = [op for op in ARITY if op not in FUNCTIONS]
FORMATS = ["float32", "bfloat16", "float16", "fixed:8,24", "fixed:8,8", "fixed:4,4"]
ODD_FORMATS = [
    "float:2,1",
    "float:2,23",
    "float:8,1",
    "float:4,3",
    "float:5,12",
    "fixed:1,1",
    "fixed:2,0",
    "fixed:1,7",
    "fixed:16,0",
    "fixed:9,10",
    "fixed:5,14",
    "fixed:1,31",
    "fixed:32,0",
    "fixed:16,16",
]


class AllUnits(wiring.Component):
    """One unit of every operation on the same operands; one build tests them all."""

    def __init__(self, format: Format):
        self.format = format
        code = unsigned(format.width)
        super().__init__(
            {"a": In(code), "b": In(code), "c": In(code), **{f"o_{op}": Out(code) for op in OPS}}
        )

    def elaborate(self, platform):
        m = Module()
        for op in OPS:
            m.submodules[op] = component = unit(op, self.format)
            m.d.comb += [
                getattr(component, name).eq(getattr(self, name)) for name in operand_names(op)
            ]
            m.d.comb += getattr(self, f"o_{op}").eq(component.o)
        return m


def check(format: Format, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    operands = {"a": a, "b": b, "c": c}
    got = run_vectors(
        AllUnits(format),
        operands,
        [f"o_{op}" for op in OPS],
        {f"o_{op}": latency(op, format) for op in OPS},
    )
    for op in OPS:
        codes = [operands[name] for name in operand_names(op)]
        wrong = np.flatnonzero(got[f"o_{op}"] != format.op(op, *codes))
        assert not len(wrong), (
            f"{op} of {format}: {len(wrong)} wrong, first at {[hex(x[wrong[0]]) for x in codes]}"
        )


@pytest.mark.parametrize("name", FORMATS)
def test_units(name):
    format = parse_format(name)
    check(format, *mixed_codes(format, 100_000, 3, seed=11))


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_units_on_millions(name):
    format = parse_format(name)
    for seed in range(3):
        check(format, *mixed_codes(format, 1_000_000, 3, seed=100 + seed))
    # every pair of special codes and most triples come first above; here the specials of two operands meet random third ones
    a, b, c = mixed_codes(format, 200_000, 3, seed=200)
    check(format, a, b[::-1].copy(), c)


@pytest.mark.long
@pytest.mark.parametrize("name", ODD_FORMATS)
def test_units_of_odd_formats(name):
    format = parse_format(name)
    check(format, *mixed_codes(format, 300_000, 3, seed=12))


def test_every_pair_of_short_codes():
    format = parse_format("fixed:4,4")
    pairs = np.arange(1 << 16)
    check(format, pairs >> 8, pairs & 255, (pairs * 37) & 255)


def test_every_pair_of_short_float_codes():
    format = parse_format("float:4,3")
    pairs = np.arange(1 << 16)
    check(format, pairs >> 8, pairs & 255, (pairs * 37) & 255)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "fixed:8,8"])
def test_every_code(name):
    format = parse_format(name)
    codes = np.arange(1 << 16)
    check(format, codes, np.roll(codes, 1), np.roll(codes, 4321))


def test_unknown_unit():
    with pytest.raises(ValueError, match=r"^no unit for 'pow'$"):
        unit("pow", parse_format("float32"))


def test_costs():
    """The multipliers are what Yosys infers for an ECP5 (18×18); 24-bit significands fit the long side of a 27×18 one."""
    assert [cost("mul", parse_format(name)).dsp for name in FORMATS] == [4, 1, 1, 4, 1, 1]
    assert [cost("mac", parse_format(name), (27, 18)).dsp for name in FORMATS] == [2, 1, 1, 4, 1, 1]
    assert multipliers(18, signed=True) == 1 and multipliers(19, signed=True) == 4
    assert multipliers(18) == 1 and multipliers(19) == 4
    for op in OPS:
        assert (
            cost(op, parse_format("float32")).lut >= 0
            and cost(op, parse_format("fixed:8,24")).ff > 0
        )
    assert (2 * cost("add", parse_format("fixed:8,8"))).lut == 2 * cost(
        "add", parse_format("fixed:8,8")
    ).lut
    with pytest.raises(ValueError, match=re.escape("no unit for 'pow'; there are add, sub, mul, ")):
        latency("pow", parse_format("float32"))
