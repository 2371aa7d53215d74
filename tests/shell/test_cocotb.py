"""The shell under cocotb with cocotbext-axi's partners: see cocotb_shell.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.hdl.shell import Shell, to_verilog
from penstock.sim.native.toolchain import design_ports
from testbench.toy import CopyEngine

pytest.importorskip("cocotbext.axi")


@pytest.mark.parametrize("ports", [pytest.param(1, marks=pytest.mark.long), 2])
def test_shell(ports):
    from testbench.cocotb.runner import run_cocotb

    engine = CopyEngine(bus_bytes=8, ports=ports)
    shell = Shell(engine, engine.register_map)
    source = to_verilog(shell)
    module = Path(__file__).with_name("cocotb_shell.py")
    assert (
        run_cocotb(source, module, ports=design_ports(shell), register_map=engine.register_map) == 6
    )
