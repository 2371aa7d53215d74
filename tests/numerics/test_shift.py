"""hdl/arith/shift: shifts and rotations of units, against Python's lists."""

from __future__ import annotations

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Const, Module, Signal
from amaranth.sim import Simulator

from penstock.hdl.arith.shift import rotated, shifted_left, shifted_right

UNITS, BITS = [3, 9, 1, 14, 7, 5, 12, 2, 11, 6, 8, 4], 4


def number(units: list[int]) -> int:
    return sum(unit << BITS * k for k, unit in enumerate(units))


@pytest.mark.parametrize("size", [1, 2, 3, 6, 8, 12])
def test_units(size: int) -> None:
    """Rings of powers of two and of others, as many units of them as one likes."""
    units, by = UNITS[:size], Signal(range(max(size, 2)))
    value = Const(number(units), BITS * size)
    m, outs = Module(), []
    for name, expression in (
        ("right", shifted_right(m, value, by, BITS)),
        ("left", shifted_left(m, value, by, BITS, BITS * size)),
        *((f"turn{count}", rotated(m, value, by, BITS, count)) for count in range(1, size + 1)),
    ):
        out = Signal(len(expression), name=name)
        m.d.comb += out.eq(expression)
        outs.append(out)

    async def bench(ctx):
        for k in range(size):
            ctx.set(by, k)
            await ctx.delay(1e-9)
            turned = units[k:] + units[:k]
            expected = [
                number(units[k:]),
                number([0] * k + units[: size - k]),
                *(number(turned[:count]) for count in range(1, size + 1)),
            ]
            assert [ctx.get(out) for out in outs] == expected

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_ranks_share_what_is_before_them() -> None:
    """Nine ranks: one expression, in which each names the one before it three times, would have 3⁹ of them."""
    m, ring, by, out = Module(), Signal(1 << 9), Signal(9), Signal(8)
    m.d.comb += out.eq(rotated(m, ring, by, 1, 8))
    assert rtlil.convert(m, ports=[ring, by, out]).count("cell $mux") == 9
