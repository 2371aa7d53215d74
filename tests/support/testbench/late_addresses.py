"""A legal manager whose write data come before their address: a design with a queue behind its write addresses."""

from __future__ import annotations

import re

__all__ = ["late_addresses"]

_PORT = re.compile(r"^\s*(input|output) (?:wire|reg) ((?:\[\d+:0\] )?)(\w+)", re.MULTILINE)


def late_addresses(verilog: str, top: str = "penstock", cycles: int = 9) -> str:
    """Return Verilog whose `top` offers each AW so many cycles after that of the text did; W goes on at once."""
    head = re.search(rf"^module {top} \((.*?)\);", verilog, re.MULTILINE | re.DOTALL)
    assert head is not None, f"no module {top}"
    ports = [match.groups() for match in _PORT.finditer(head[1])]
    names = {name for _, _, name in ports}
    managers = sorted(name[:-8] for name in names if name.endswith("_axi_awvalid"))
    clock, reset = ("clk", "rst") if "clk" in names else ("aclk", "!aresetn")
    lines = []
    links = {name: name for name in names}
    for port in managers:
        fields = [
            n for n in names if n.startswith(f"{port}_aw") and n[-5:] not in ("valid", "ready")
        ]
        links |= {name: f"in_{name}" for name in (*fields, f"{port}_awvalid", f"{port}_awready")}
        lines += [f"  wire in_{port}_awvalid;"]
        for direction, width, name in ports:
            if name in fields:
                assert direction == "output"
                lines += [f"  wire {width}in_{name};", f"  reg {width}held_{name} [0:15];"]
                lines += [f"  assign {name} = held_{name}[{port}_out[3:0]];"]
        lines += [
            f"  reg [63:0] {port}_at [0:15];",
            f"  reg [4:0] {port}_in = 0, {port}_out = 0;",
            f"  reg [63:0] {port}_now = 0;",
            f"  wire in_{port}_awready = {port}_in - {port}_out != 5'd16;",
            f"  assign {port}_awvalid = {port}_in != {port}_out && {port}_now >= {port}_at[{port}_out[3:0]];",
            f"  always @(posedge {clock}) begin",
            f"    {port}_now <= {port}_now + 1;",
            f"    if (in_{port}_awvalid && in_{port}_awready) begin",
            *(f"      held_{name}[{port}_in[3:0]] <= in_{name};" for name in fields),
            f"      {port}_at[{port}_in[3:0]] <= {port}_now + {cycles};",
            f"      {port}_in <= {port}_in + 1;",
            "    end",
            f"    if ({port}_awvalid && {port}_awready) {port}_out <= {port}_out + 1;",
            f"    if ({reset}) begin {port}_in <= 0; {port}_out <= 0; end",
            "  end",
        ]
    inner = re.sub(rf"^module {top} \(", f"module {top}_inner (", verilog, flags=re.MULTILINE)
    declared = ",\n".join(f"  {direction} wire {width}{name}" for direction, width, name in ports)
    connected = ", ".join(f".{name}({links[name]})" for _, _, name in ports)
    body = "\n".join(lines)
    return f"{inner}\nmodule {top} (\n{declared}\n);\n{body}\n  {top}_inner inner ({connected});\nendmodule\n"
