"""Units that compute integers, against Python's own, and scikit-learn's hash."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

from penstock.hdl.analytics.integers import Integers
from penstock.models.numerics.formats import Format, parse_format
from penstock.models.rows.units import integer_unit, width_of
from testbench.pysim import simulate

FIXED = parse_format("fixed:8,16")
MEANINGS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
COMPARED = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def results(name: str, *columns: Any, format: Format = FIXED) -> list[int]:
    """What the unit of this name gives for operands one after the other, one each cycle."""
    unit = integer_unit(name)
    assert unit is not None
    component, found = Integers(unit, format), list[int]()

    async def bench(ctx: Any) -> None:
        for cycle in range(len(columns[0]) + unit.latency):
            for port, column in zip("ab", columns, strict=False):
                signal = getattr(component, port)
                value = int(column[min(cycle, len(column) - 1)])
                ctx.set(signal, value & (1 << len(signal)) - 1)
            if cycle >= unit.latency:
                found.append(ctx.get(component.o))
            await ctx.tick()

    simulate(component, bench)
    return found


def drawn(rng: np.random.Generator) -> tuple[int, int]:
    low = -int(rng.integers(0, 1 << rng.integers(1, 32))) if rng.random() < 0.5 else 0
    return low, low + int(rng.integers(1, 1 << rng.integers(1, 33)))


def values(rng: np.random.Generator, span: tuple[int, int]) -> list[int]:
    return [*span, *rng.integers(span[0], span[1] + 1, 14).tolist()]


@pytest.mark.parametrize("symbol", MEANINGS)
def test_arithmetic(symbol: str) -> None:
    """By constants, a power of two among them, and of two operands; the least and the greatest operands are tried."""
    rng, meaning = np.random.default_rng(ord(symbol[0])), MEANINGS[symbol]
    divides = symbol in ("//", "%")
    for case in range(24):
        spans = [drawn(rng), drawn(rng)]
        side = 1 if divides else int(rng.integers(-1, 2))
        constant = 1 << int(rng.integers(0, 20)) if case % 3 == 0 else int(rng.integers(1, 99_999))
        if side >= 0:
            spans[side] = constant, constant
        columns = [values(rng, span) for span in spans]
        expected = [meaning(a, b) for a, b in zip(*columns, strict=True)]
        ends = [meaning(a, b) for a in spans[0] for b in spans[1]]
        width = width_of((0, constant - 1) if symbol == "%" else (min(ends), max(ends)))
        widths = " ".join(str(width_of(span)) for n, span in enumerate(spans) if n != side)
        name = f"integer {symbol} {abs(width)} {side} {constant} {spans[0][0]} {widths}"
        given = [column for n, column in enumerate(columns) if n != side]
        assert results(name, *given) == [e & (1 << abs(width)) - 1 for e in expected], name


@pytest.mark.parametrize("low", [-1, -2, -5])
def test_a_negative_dividend_of_fewer_bits_than_the_divisor(low: int) -> None:
    column = list(range(low, 2))
    for divisor in (8, 1024):
        for symbol, width in (("//", 1), ("%", divisor.bit_length() - 1)):
            name = f"integer {symbol} {width} 1 {divisor} {low} {width_of((low, 1))}"
            expected = [MEANINGS[symbol](v, divisor) & (1 << width) - 1 for v in column]
            assert results(name, column) == expected, name


@pytest.mark.parametrize("size", [4, 8])
def test_hash(size: int) -> None:
    for span in ((0, 70_000), (-(2**31), 2**31 - 1)):
        column = values(np.random.default_rng(size), span)
        told = [v.to_bytes(size, "little", signed=True) for v in column]
        expected = [int(murmurhash3_32(v, 7)) & 0xFFFFFFFF for v in told]
        assert results(f"hash 7 {size} {width_of(span)}", column) == expected


@pytest.mark.parametrize("symbol", COMPARED)
def test_comparisons(symbol: str) -> None:
    """Of two, and with a constant on either side."""
    for side, spans in ((-1, [(-9, 7), (0, 9)]), (0, [(4, 4), (-3, 9)]), (1, [(0, 9), (4, 4)])):
        low, high = (list(range(a, b + 1)) for a, b in spans)
        columns = list(zip(*((a, b) for a in low for b in high), strict=True))
        expected = [COMPARED[symbol](a, b) << 16 for a, b in zip(*columns, strict=True)]
        widths = " ".join(str(width_of(span)) for n, span in enumerate(spans) if n != side)
        given = [column for n, column in enumerate(columns) if n != side]
        assert results(f"integer {symbol} 0 {side} 4 {spans[0][0]} {widths}", *given) == expected


@pytest.mark.parametrize("name", ["fixed:8,16", "fixed:9,0", "float32", "bfloat16", "float:5,10"])
def test_codes_of_integers(name: str) -> None:
    format = parse_format(name)
    for span in ((-128, 127), (0, 127), (0, 1)):
        column = np.arange(span[0], span[1] + 1)
        codes = format.encode(column.astype(np.float64)).astype(np.int64)
        expected = (codes & (1 << format.width) - 1).tolist()
        assert results(f"number {width_of(span)}", column.tolist(), format=format) == expected


@pytest.mark.parametrize("name", ["fixed:8,16", "fixed:5,0", "float32", "bfloat16"])
def test_integers_of_codes(name: str) -> None:
    format = parse_format(name)
    codes = format.encode(np.arange(16.0))
    assert results("integer 4", codes, format=format) == list(range(16))
