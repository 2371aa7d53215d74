"""Designs in Verilog with something around them that changes when their write channels move."""

from __future__ import annotations

import re

__all__ = ["late_addresses", "words_after_awready"]

_PORT = re.compile(r"^\s*(input|output) (?:wire |reg )?((?:\[\d+:0\] )?)(\w+)", re.MULTILINE)


class _Wrapped:
    """A module whose ports are named again, so that some may be led through other signals."""

    def __init__(self, verilog: str, top: str) -> None:
        head = re.search(rf"^module {top} \((.*?)^\);", verilog, re.MULTILINE | re.DOTALL)
        assert head is not None, f"no module {top}"
        self.top = top
        self.ports = [match.groups() for match in _PORT.finditer(head[1])]
        self.inner = re.sub(
            rf"^module {top} \(", f"module {top}_inner (", verilog, flags=re.MULTILINE
        )
        names = {name for _, _, name in self.ports}
        self.managers = sorted(name[:-8] for name in names if name.endswith("_axi_awvalid"))
        assert self.managers
        self.clock, self.reset = ("clk", "rst") if "clk" in names else ("aclk", "!aresetn")
        self.links = {name: name for name in names}
        self.lines: list[str] = []

    def led(self, name: str) -> str:
        """Return the signal that stands for a port inside, of its width."""
        [width] = [width for _, width, port in self.ports if port == name]
        self.links[name] = f"in_{name}"
        self.lines.append(f"  wire {width}in_{name};")
        return f"in_{name}"

    def __str__(self) -> str:
        ports = ",\n".join(f"  {way} wire {width}{name}" for way, width, name in self.ports)
        links = ", ".join(f".{name}({self.links[name]})" for _, _, name in self.ports)
        body = "\n".join(self.lines)
        return (
            f"{self.inner}\n`default_nettype wire\nmodule {self.top} (\n{ports}\n);\n{body}\n"
            f"  {self.top}_inner inner ({links});\nendmodule\n"
        )


def late_addresses(verilog: str, top: str = "penstock", cycles: int = 9) -> str:
    """Return Verilog whose `top` offers each AW so many cycles after that of the text did; W goes on
    at once. That is a legal manager."""
    wrapped = _Wrapped(verilog, top)
    for port in wrapped.managers:
        fields = [
            name
            for _, _, name in wrapped.ports
            if name.startswith(f"{port}_aw") and name[-5:] not in ("valid", "ready")
        ]
        valid, ready = (wrapped.led(f"{port}_aw{name}") for name in ("valid", "ready"))
        held = []
        for name in fields:
            inside = wrapped.led(name)
            [width] = [width for _, width, field in wrapped.ports if field == name]
            wrapped.lines += [f"  reg {width}held_{name} [0:15];"]
            wrapped.lines += [f"  assign {name} = held_{name}[{port}_out[3:0]];"]
            held.append(f"      held_{name}[{port}_in[3:0]] <= {inside};")
        wrapped.lines += [
            f"  reg [63:0] {port}_at [0:15];",
            f"  reg [4:0] {port}_in = 0, {port}_out = 0;",
            f"  reg [63:0] {port}_now = 0;",
            f"  wire [4:0] {port}_held = {port}_in - {port}_out;",
            f"  assign {ready} = {port}_held != 5'd16;",
            f"  assign {port}_awvalid = {port}_held != 0 && {port}_now >= {port}_at[{port}_out[3:0]];",
            f"  always @(posedge {wrapped.clock}) begin",
            f"    {port}_now <= {port}_now + 1;",
            f"    if ({valid} && {ready}) begin",
            *held,
            f"      {port}_at[{port}_in[3:0]] <= {port}_now + {cycles};",
            f"      {port}_in <= {port}_in + 1;",
            "    end",
            f"    if ({port}_awvalid && {port}_awready) {port}_out <= {port}_out + 1;",
            f"    if ({wrapped.reset}) begin {port}_in <= 0; {port}_out <= 0; end",
            "  end",
        ]
    return str(wrapped)


def words_after_awready(verilog: str, top: str = "penstock") -> str:
    """Return Verilog whose `top` offers a burst's words only once its address was taken. AXI4 forbids
    that (A3.3.1): it is a planted defect."""
    wrapped = _Wrapped(verilog, top)
    for port in wrapped.managers:
        valid, ready = wrapped.led(f"{port}_wvalid"), wrapped.led(f"{port}_wready")
        wrapped.lines += [
            f"  reg [7:0] {port}_open = 0;",
            f"  wire {port}_goes = {port}_open != 0;",
            f"  assign {port}_wvalid = {valid} && {port}_goes;",
            f"  assign {ready} = {port}_wready && {port}_goes;",
            f"  always @(posedge {wrapped.clock})",
            f"    if ({wrapped.reset}) {port}_open <= 0;",
            f"    else {port}_open <= {port}_open + ({port}_awvalid && {port}_awready)",
            f"      - ({port}_wvalid && {port}_wready && {port}_wlast);",
        ]
    return str(wrapped)
