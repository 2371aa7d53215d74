"""Formats as Amaranth shapes."""

import re

import pytest
from amaranth.hdl import Module, Print, Signal
from amaranth.sim import Simulator

from penstock.hdl.arith.shape import FormatShape
from penstock.models.numerics.formats import Fixed, bfloat16, float32

SHOWN = [
    (float32, -3.25, "-1.625000p+1"),
    (float32, 0.0, "0.000000p+0"),
    (float32, -0.0, "-0.000000p+0"),
    (float32, 1e-30, "1.267650p-100"),
    (float32, 1.0, "1.000000p+0"),
    (float32, float("nan"), "nan"),
    (float32, float("-inf"), "-inf"),
    (bfloat16, 0.1, "1.601562p-4"),
    (Fixed(8, 24), -3.25, "-3.250000"),
    (Fixed(8, 24), -128.0, "-128.000000"),
    (Fixed(4, 4), 0.0625, "0.062500"),
    (Fixed(16, 0), -7, "-7.000000"),
]


@pytest.mark.parametrize(
    ("number_format", "value", "text"), SHOWN, ids=[f"{f}={x}" for f, x, _ in SHOWN]
)
def test_number_is_shown_as_a_decimal(number_format, value, text, capsys):
    m = Module()
    signal = Signal(FormatShape(number_format), init=value)
    m.d.sync += Print(signal)
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.run_until(1.5e-6)
    assert capsys.readouterr().out.split("\n")[0] == text


def test_shape():
    shape = FormatShape(Fixed(8, 8))
    assert shape.const(1.5).value == 0x180 and shape.const(None).value == 0
    assert shape.from_bits(0xFF80) == -0.5
    assert len(Signal(shape).as_value()) == 16
    assert shape == FormatShape(Fixed(8, 8)) != FormatShape(Fixed(4, 12))
    assert repr(shape) == "FormatShape(fixed:8,8)"


def test_number_of_another_format_is_refused():
    with pytest.raises(
        TypeError,
        match=re.escape(
            "a number of FormatShape(float32) cannot be assigned to one of FormatShape(fixed:8,24)"
        ),
    ):
        Signal(FormatShape(Fixed(8, 24))).eq(Signal(FormatShape(float32)))


def test_wave_holds_the_text(tmp_path):
    m = Module()
    signal = Signal(FormatShape(float32), init=2.5, name="rate")
    m.d.sync += signal.eq(FormatShape(float32).const(-1.0))
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    with simulator.write_vcd(str(tmp_path / "wave.vcd")):
        simulator.run_until(3e-6)
    wave = (tmp_path / "wave.vcd").read_text()
    assert "s1.250000p+1 " in wave and "s-1.000000p+0 " in wave
