"""hdl/shell/verilog.py: the same text twice, the names that Verilog users expect, plain identifiers; the shell's own checks."""

from __future__ import annotations

import re

import pytest

from penstock.hdl.memory import AXI4
from penstock.hdl.shell import Shell, to_verilog
from penstock.models.shell import RegisterMap
from testbench.toy import CopyEngine


def make():
    engine = CopyEngine(bus_bytes=8, ports=2)
    return to_verilog(Shell(engine, engine.register_map))


def test_text():
    text = make()
    assert text == make()
    head = text[text.index("module penstock (") :]
    ports = set(re.findall(r"(\w+),?\n", head[head.index("(") + 2 : head.index(")")]))
    expected = {"clk", "rst", "irq"} | {
        f"m{k}_axi_{name}" for k in range(2) for name in AXI4(data_bytes=8).members
    }
    assert expected <= ports
    assert all(name in expected or name.startswith("s_axil_") for name in ports)
    assert "src" not in re.findall(r"\(\* (\w+)", text)
    # nothing that needs an escape, and no block that a simulator may not run at time zero
    assert "\\" not in text and "$" not in text and "always @*" not in text


def test_engine_must_fit_its_map():
    engine = CopyEngine(bus_bytes=8, ports=1)
    to_verilog(engine)  # used: Amaranth warns of components that never are
    with pytest.raises(
        TypeError,
        match=r"^the engine's members do not fit its register map: counters, monitors, registers$",
    ):
        Shell(engine, RegisterMap())
