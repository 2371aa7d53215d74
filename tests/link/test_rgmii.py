"""A whole device from its RGMII pins inwards, between partners that we did not write: see cocotb_rgmii.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.hdl.shell import to_verilog
from penstock.hdl.soc import Soc
from testbench.frames import STATION
from testbench.rgmii import CELLS, AtPins
from testbench.toy import CopyEngine

#: The PHY delays its transmit clock by 2 ns, as RGMII 2.0 has it (`phy_clk`).
PHY = """
module board(input clk, rx_clk, input [3:0] rx_data, input rx_ctrl, output [3:0] tx_data, output tx_ctrl, output reg phy_clk);
  wire tx_clk;
  penstock it(.clk(clk), .rst(1'b0), .rx_clk(rx_clk), .rx_data(rx_data), .rx_ctrl(rx_ctrl),
    .tx_clk(tx_clk), .tx_data(tx_data), .tx_ctrl(tx_ctrl));
  always @(tx_clk) phy_clk <= #2 tx_clk;
endmodule
"""


def test_at_the_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cocotbext.eth")
    from cocotb_tools.runner import get_results, get_runner

    engine = CopyEngine(address_width=20)
    soc = Soc(
        engine,
        engine.register_map,
        memory_bytes=4096,
        clock_hz=62_500_000,
        baud=None,
        station=STATION,
    )
    (tmp_path / "board.v").write_text(CELLS + PHY + to_verilog(AtPins(soc)))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # where the simulator finds Python
    runner, log = get_runner("icarus"), tmp_path / "log"
    shared = {"hdl_toplevel": "board", "build_dir": tmp_path / "build"}
    runner.build(sources=[tmp_path / "board.v"], timescale=("1ns", "1ps"), log_file=log, **shared)
    results = tmp_path / "results.xml"
    runner.test(
        test_module="cocotb_rgmii",
        test_dir=tmp_path,
        results_xml=str(results),
        log_file=log,
        extra_env={"COCOTB_ANSI_OUTPUT": "0"},
        **shared,
    )
    assert get_results(results) == (3, 0), log.read_text()[-8000:]
