"""A whole device from its RGMII pins inwards, between partners that we did not write: see cocotb_rgmii.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from amaranth.hdl import ClockDomain, IOPort, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.io import SimulationPort
from amaranth.lib.wiring import In, Out

from penstock.boards.rgmii import Rgmii
from penstock.hdl.shell import to_verilog
from penstock.hdl.soc import Soc
from testbench.frames import STATION
from testbench.toy import CopyEngine

#: Lattice FPGA-TN-02035: both edges are handed on together, with the clock's rising edge; the first bit out is that of the clock's high half.
#: The PHY delays its transmit clock by 2 ns, as RGMII 2.0 has it (`phy_clk`).
CELLS = """`timescale 1ns / 1ps
module DELAYG(input A, output Z); parameter DEL_MODE = "", DEL_VALUE = 0; assign Z = A; endmodule
module IDDRX1F(input D, SCLK, RST, output reg Q0, Q1);
  reg rose, fell;
  always @(posedge SCLK) begin rose <= D; Q0 <= rose; Q1 <= fell; end
  always @(negedge SCLK) fell <= D;
endmodule
module ODDRX1F(input D0, D1, SCLK, RST, output Q);
  reg high, low;
  always @(posedge SCLK) begin high <= D0; low <= D1; end
  assign Q = SCLK ? high : low;
endmodule
module board(input clk, rx_clk, input [3:0] rx_data, input rx_ctrl, output [3:0] tx_data, output tx_ctrl, output reg phy_clk);
  wire tx_clk;
  penstock it(.clk(clk), .rst(1'b0), .rx_clk(rx_clk), .rx_data(rx_data), .rx_ctrl(rx_ctrl),
    .tx_clk(tx_clk), .tx_data(tx_data), .tx_ctrl(tx_ctrl));
  always @(tx_clk) phy_clk <= #2 tx_clk;
endmodule
"""


class Pads:
    """A platform that has a PHY's pins."""

    def __init__(self, pins: Board) -> None:
        names = ("rx_data", "rx_ctrl", "tx_clk", "tx_data", "tx_ctrl")
        both = {
            name: SimpleNamespace(i=getattr(pins, name), o=getattr(pins, name)) for name in names
        }
        none = SimpleNamespace(o=Signal(), oe=Signal())
        both["rx_clk"] = port = SimulationPort("i", 1)
        port.io = IOPort(1)  # what a platform's port has
        self.pads = SimpleNamespace(**both, rst=SimpleNamespace(o=Signal()), mdc=none, mdio=none)

    def request(self, name: str, number: int, dir: dict[str, str]) -> SimpleNamespace:
        return self.pads

    def add_clock_constraint(self, clock: IOPort, hertz: int) -> None:
        assert clock is self.pads.rx_clk.io and hertz == 125_000_000


class Board(wiring.Component):
    """A device behind the pins of `boards.rgmii`."""

    def __init__(self, soc: Soc) -> None:
        self.soc = soc
        came = {"rx_clk": In(1), "rx_data": In(4), "rx_ctrl": In(1)}
        super().__init__({**came, "tx_clk": Out(1), "tx_data": Out(4), "tx_ctrl": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.domains.eth = ClockDomain("eth", reset_less=True)
        rgmii = Rgmii("eth_rgmii", 0)
        pads = Pads(self)
        m.submodules.rgmii = rgmii.elaborate(pads)
        m.d.comb += pads.pads.rx_clk.i.eq(self.rx_clk)
        m.submodules.soc = soc = self.soc
        m.d.comb += [getattr(soc, pin).eq(getattr(rgmii, pin)) for pin in ("rxd", "rx_dv", "rx_er")]
        m.d.comb += [rgmii.txd.eq(soc.txd), rgmii.tx_en.eq(soc.tx_en)]
        return m


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
    (tmp_path / "board.v").write_text(CELLS + to_verilog(Board(soc)))
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
