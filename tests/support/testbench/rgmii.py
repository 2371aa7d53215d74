"""A device at a gigabit PHY's pins (`boards.rgmii`), and a PHY at them in Verilog, whose bytes are those of `sim.frames`."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import ClockDomain, IOPort, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.io import SimulationPort
from amaranth.lib.wiring import In, Out

from penstock.boards.rgmii import Rgmii
from penstock.hdl.soc import Soc
from penstock.models.link.ethernet import Station
from penstock.sim import board

__all__ = ["CELLS", "TICKS_HZ", "AtPins", "at_pins"]

#: Lattice FPGA-TN-02035: both edges are handed on together, with the clock's rising edge; the first bit out is that of the clock's high half
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
"""
#: ticks of `clk`, two to a cycle of the line
TICKS_HZ = 250_000_000
#: The PHY: bytes to nibbles on both edges of 125 MHz, each stable for 2 ns around its edge, and back, sampled 2 ns behind it (RGMII 2.0, with delay).
#: The device's clock has MHZ edges a thousand ticks, and none of the line's phase.
_PHY = """
module penstock(input clk, rst, input [8:0] rx_data, input rx_valid, output rx_ready, input tick,
                output reg [8:0] tx_data, output reg tx_valid, input tx_ready, output busy);
  reg line = 0, system = 0, valid = 0, rx_ctrl = 0, begun = 0, came = 0, held = 0;
  reg [10:0] phase = 0;
  reg [3:0] gap = 0, rx_nibble = 0, low = 0;
  reg [7:0] byte_in = 0, byte_out = 0, last = 0;
  wire [3:0] tx_nibble;
  wire tx_ctrl, tx_clk;
  assign rx_ready = line && gap == 0;
  always @(posedge clk) begin
    line <= ~line;
    phase <= phase + 11'dEDGES - (phase + 11'dEDGES >= 1000 ? 11'd1000 : 11'd0);
    if (phase + 11'dEDGES >= 1000) system <= ~system;
    tx_valid <= 0;
    if (line) begin
      byte_in <= rx_data[7:0];
      valid <= rx_valid && gap == 0;
      gap <= gap != 0 ? gap - 4'd1 : rx_valid && rx_data[8] ? 4'd12 : 4'd0;
    end else begin
      {tx_valid, tx_data} <= {held, ~came, last};
      {held, last} <= {came, byte_out};
    end
  end
  always @(negedge clk) begin
    rx_nibble <= line ? byte_in[7:4] : byte_in[3:0];
    rx_ctrl <= valid;
    if (tx_clk) {begun, low} <= {tx_ctrl, tx_nibble};
    else {came, byte_out} <= {begun, tx_nibble, low};
  end
  device it(.clk(system), .rst(rst), .rx_clk(line), .rx_data(rx_nibble), .rx_ctrl(rx_ctrl),
            .tx_clk(tx_clk), .tx_data(tx_nibble), .tx_ctrl(tx_ctrl));
  assign busy = 0;
endmodule
"""


class Pads:
    """A platform that has a PHY's pins."""

    def __init__(self, pins: AtPins) -> None:
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


class AtPins(wiring.Component):
    """A device behind the pins of `boards.rgmii`."""

    def __init__(self, soc: Soc) -> None:
        self.soc, self.library = soc, soc.library
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


def at_pins(
    engine: Any, library: Any, station: Station, *, memory_bytes: int, clock_hz: int
) -> str:
    """Return the Verilog of an engine's device behind a PHY's pins, and of the PHY, for `sim.frames.Frames`, whose cycles are ticks then."""
    made: dict[str, Any] = {"memory_bytes": memory_bytes, "clock_hz": clock_hz, "baud": None}
    inside = board.generate(engine, library, **made, station=station, around=AtPins)
    edges = 2 * clock_hz * 1000 // TICKS_HZ
    return CELLS + re.sub(r"\bpenstock\b", "device", inside) + _PHY.replace("EDGES", str(edges))
