"""Projects for a vendor's tools: Verilog, pins, and a Tcl script that makes the IP and the bitstream. Nothing here is placed by Penstock.

Pins: Digilent's Arty A7 reference manual; AMD UG917 (KCU105); AMD UG1468 and DS978 (Alveo U55C).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..models.target import Target

__all__ = ["FILES", "project"]

FILES = ("penstock.v", "top.v", "board.xdc", "build.tcl")


def project(board: Target, hardware: Callable[[], tuple[Any, Any]], ports: int) -> dict[str, bytes]:
    """Return the files of the board's project. `hardware`: makes the engine, not elaborated yet, and the library of its modules; `ports`: its memory ports.

    Raises LookupError for boards without one.
    """
    if board.name not in _MAKERS:
        raise LookupError(f"there is no project for {board.name}")
    top, pins, ip = _MAKERS[board.name](board, ports)
    engine = _soc(board, *hardware()) if board.link.kind == "uart" else _shell(*hardware())
    texts = {"penstock.v": engine, "top.v": top, "board.xdc": pins, "build.tcl": _script(board, ip)}
    return {name: texts[name].encode() for name in FILES}


def _soc(board: Target, engine: Any, library: Any) -> str:
    from ..hdl.shell.verilog import to_verilog
    from ..hdl.soc.soc import Soc

    soc = Soc(
        engine,
        engine.register_map,
        library=library,
        memory_bytes=board.memory.bytes,
        clock_hz=round(board.clock_mhz * 1e6),
        baud=board.link.baud,
    )
    return to_verilog(soc, library=library)


def _shell(engine: Any, library: Any) -> str:
    from ..hdl.shell.top import shelled

    return shelled(engine, library)


def _serial_top(clock: str, buffer: str) -> str:
    return f"""// The device: differential or single-ended clock, clocking wizard, SoC.
module top ({clock}, input wire uart_rx, output wire uart_tx);
  wire source, clk, locked;
{buffer}
  clock clock_i (.clk_in1(source), .clk_out1(clk), .locked(locked));
  reg [1:0] rx = 2'b11;
  reg [3:0] count = 0;
  always @(posedge clk) rx <= {{rx[0], uart_rx}};
  always @(posedge clk or negedge locked)
    if (!locked) count <= 0;
    else if (!(&count)) count <= count + 4'd1;
  penstock soc (.clk(clk), .rst(~(&count)), .rx(rx[1]), .tx(uart_tx));
endmodule
"""


def _wizard(source_mhz: float, clock_mhz: float) -> str:
    return f"""create_ip -name clk_wiz -vendor xilinx.com -library ip -module_name clock
set_property -dict [list CONFIG.PRIM_IN_FREQ {{{source_mhz:.3f}}} CONFIG.CLKOUT1_REQUESTED_OUT_FREQ {{{clock_mhz:.3f}}} \\
  CONFIG.PRIM_SOURCE {{Global_buffer}} CONFIG.USE_RESET {{false}} CONFIG.USE_LOCKED {{true}}] [get_ips clock]
generate_target all [get_ips clock]
"""


def _arty(board: Target, ports: int) -> tuple[str, str, str]:
    pins = """set_property -dict {PACKAGE_PIN E3 IOSTANDARD LVCMOS33} [get_ports clk100]
create_clock -period 10.000 [get_ports clk100]
set_property -dict {PACKAGE_PIN A9 IOSTANDARD LVCMOS33} [get_ports uart_rx]
set_property -dict {PACKAGE_PIN D10 IOSTANDARD LVCMOS33} [get_ports uart_tx]
set_property CFGBVS VCCO [current_design]
set_property CONFIG_VOLTAGE 3.3 [current_design]
"""
    return (
        _serial_top("input wire clk100", "  BUFG buffer_i (.I(clk100), .O(source));"),
        pins,
        _wizard(board.pins.oscillator_mhz, board.clock_mhz),
    )


def _kcu105(board: Target, ports: int) -> tuple[str, str, str]:
    pins = """set_property -dict {PACKAGE_PIN G10 IOSTANDARD LVDS} [get_ports clk125_p]
set_property -dict {PACKAGE_PIN F10 IOSTANDARD LVDS} [get_ports clk125_n]
create_clock -period 8.000 [get_ports clk125_p]
set_property -dict {PACKAGE_PIN G25 IOSTANDARD LVCMOS18} [get_ports uart_rx]
set_property -dict {PACKAGE_PIN K26 IOSTANDARD LVCMOS18} [get_ports uart_tx]
set_property CONFIG_VOLTAGE 1.8 [current_design]
"""
    buffer = "  wire single;\n  IBUFDS input_i (.I(clk125_p), .IB(clk125_n), .O(single));\n  BUFG buffer_i (.I(single), .O(source));"
    return (
        _serial_top("input wire clk125_p, input wire clk125_n", buffer),
        pins,
        _wizard(board.pins.oscillator_mhz, board.clock_mhz),
    )


def _nets(*nets: tuple[str, ...]) -> str:
    """Return calls that join pins of a block design, each net's source first."""
    return "\n".join(
        f"connect_bd_net {' '.join(f'[get_bd_pins {pin}]' for pin in net)}" for net in nets
    )


def _joins(*pairs: tuple[str, str]) -> str:
    return "\n".join(
        f"connect_bd_intf_net [get_bd_intf_pins {a}] [get_bd_intf_pins {b}]" for a, b in pairs
    )


def _u55c(board: Target, ports: int) -> tuple[str, str, str]:
    """The engine as an RTL module of a block design with XDMA and HBM, everything at the 250 MHz of XDMA. A memory port of the engine has a port of the HBM of
    its own; the host has the next one, or shares the last of all 32. Pins: AMD's XDC file of the board."""
    top = "// The top is the wrapper of the block design that build.tcl makes; the engine is the module penstock in penstock.v.\n"
    pins = """set_property PACKAGE_PIN AL15 [get_ports pcie_clock_clk_p]
set_property PACKAGE_PIN AL14 [get_ports pcie_clock_clk_n]
create_clock -period 10.000 [get_ports pcie_clock_clk_p]
set_property -dict {PACKAGE_PIN BF41 IOSTANDARD LVCMOS18} [get_ports pcie_reset_n]
set_property -dict {PACKAGE_PIN BK10 IOSTANDARD LVDS} [get_ports memory_clock_clk_p]
set_property -dict {PACKAGE_PIN BL10 IOSTANDARD LVDS} [get_ports memory_clock_clk_n]
create_clock -period 10.000 [get_ports memory_clock_clk_p]
set_property -dict {PACKAGE_PIN BE45 IOSTANDARD LVCMOS18} [get_ports hbm_cattrip]
set_property BITSTREAM.CONFIG.UNUSEDPIN Pullup [current_design]
"""
    used = min(ports + 1, 32)
    shared = ports == 32
    hbm = " ".join(
        f"CONFIG.USER_SAXI_{q:02d} {{{'true' if q < used else 'false'}}}" for q in range(32)
    )
    own = [(f"engine/m{q}_axi", f"hbm/SAXI_{q:02d}_8HI") for q in range(ports - shared)]
    host = [
        ("xdma/M_AXI", "host/S00_AXI"),
        *[("engine/m31_axi", "host/S01_AXI")] * shared,
        ("host/M00_AXI", f"hbm/SAXI_{used - 1:02d}_8HI"),
    ]
    clocked = (
        "engine/clk",
        "control/aclk",
        "host/aclk",
        "resets/slowest_sync_clk",
        *(f"hbm/AXI_{q:02d}_ACLK" for q in range(used)),
    )
    held = ("control/aresetn", "host/aresetn", *(f"hbm/AXI_{q:02d}_ARESET_N" for q in range(used)))
    buses = ":".join(["s_axil", *(f"m{q}_axi" for q in range(ports))])
    ip = f"""set_property board_part xilinx.com:au55c:part0:1.0 [current_project]
create_bd_design shell
create_bd_cell -type module -reference penstock engine
set_property CONFIG.ASSOCIATED_BUSIF {{{buses}}} [get_bd_pins engine/clk]
set_property CONFIG.POLARITY ACTIVE_HIGH [get_bd_pins engine/rst]
create_bd_cell -type ip -vlnv xilinx.com:ip:util_ds_buf pcie_buffer
set_property CONFIG.C_BUF_TYPE IBUFDSGTE [get_bd_cells pcie_buffer]
create_bd_cell -type ip -vlnv xilinx.com:ip:util_ds_buf memory_buffer
set_property CONFIG.C_BUF_TYPE IBUFDS [get_bd_cells memory_buffer]
create_bd_cell -type ip -vlnv xilinx.com:ip:xdma xdma
set_property -dict [list CONFIG.axilite_master_en {{true}} CONFIG.pl_link_cap_max_link_width {{X16}} CONFIG.pl_link_cap_max_link_speed {{8.0_GT/s}} \
  CONFIG.axi_data_width {{512_bit}} CONFIG.axisten_freq {{{board.clock_mhz:g}}}] [get_bd_cells xdma]
create_bd_cell -type ip -vlnv xilinx.com:ip:hbm hbm
set_property -dict [list CONFIG.USER_HBM_DENSITY {{16GB}} CONFIG.USER_CLK_SEL_LIST0 {{AXI_00_ACLK}} {
        hbm
    }] [get_bd_cells hbm]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control
set_property -dict [list CONFIG.NUM_SI {{1}} CONFIG.NUM_MI {{1}}] [get_bd_cells control]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect host
set_property -dict [list CONFIG.NUM_SI {{{1 + shared}}} CONFIG.NUM_MI {{1}}] [get_bd_cells host]
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset resets
create_bd_cell -type ip -vlnv xilinx.com:ip:util_vector_logic trip
set_property -dict [list CONFIG.C_OPERATION {{or}} CONFIG.C_SIZE {{1}}] [get_bd_cells trip]
{_joins(("xdma/M_AXI_LITE", "control/S00_AXI"), ("control/M00_AXI", "engine/s_axil"), *own, *host)}
make_bd_intf_pins_external -name pcie [get_bd_intf_pins xdma/pcie_mgt]
make_bd_intf_pins_external -name pcie_clock [get_bd_intf_pins pcie_buffer/CLK_IN_D]
make_bd_intf_pins_external -name memory_clock [get_bd_intf_pins memory_buffer/CLK_IN_D]
make_bd_pins_external -name pcie_reset_n [get_bd_pins xdma/sys_rst_n]
make_bd_pins_external -name hbm_cattrip [get_bd_pins trip/Res]
{
        _nets(
            ("pcie_buffer/IBUF_OUT", "xdma/sys_clk_gt"),
            ("pcie_buffer/IBUF_DS_ODIV2", "xdma/sys_clk"),
            (
                "memory_buffer/IBUF_OUT",
                "hbm/HBM_REF_CLK_0",
                "hbm/HBM_REF_CLK_1",
                "hbm/APB_0_PCLK",
                "hbm/APB_1_PCLK",
            ),
            ("xdma/axi_aclk", *clocked),
            ("xdma/axi_aresetn", "resets/ext_reset_in", "hbm/APB_0_PRESET_N", "hbm/APB_1_PRESET_N"),
            ("resets/peripheral_reset", "engine/rst"),
            ("resets/peripheral_aresetn", *held),
            ("hbm/DRAM_0_STAT_CATTRIP", "trip/Op1"),
            ("hbm/DRAM_1_STAT_CATTRIP", "trip/Op2"),
        )
    }
assign_bd_address
validate_bd_design
make_wrapper -files [get_files shell.bd] -top -import
set_property top shell_wrapper [current_fileset]
"""
    return top, pins, ip


_MAKERS = {"arty-a7-100t": _arty, "kcu105": _kcu105, "u55c": _u55c}


def _script(board: Target, ip: str) -> str:
    top = "" if board.name == "u55c" else "set_property top top [current_fileset]\n"
    return f"""# vivado -mode batch -source build.tcl : makes {board.name}/ and the bitstream. Not run by Penstock.
create_project {board.name} {board.name} -part {board.device.tool} -force
add_files [list penstock.v top.v]
add_files -fileset constrs_1 board.xdc
{ip}{top}update_compile_order -fileset sources_1
launch_runs impl_1 -to_step write_bitstream -jobs 2
wait_on_run impl_1
open_run impl_1
report_utilization -file utilization.txt
report_timing_summary -file timing.txt
"""
