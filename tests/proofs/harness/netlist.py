"""Which inputs a component's outputs depend on within a cycle, by its netlist."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from penstock.hdl.modules import directed_ports

from .tools import yosys

__all__ = ["dependences"]


def dependences(component, library=None) -> dict[str, set[str]]:
    """Return, for each output, the inputs that reach it without a register; members of interfaces are joined by two underscores.

    `library`: the modules that the component instantiates by name.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = rtlil.convert(component, name="top", ports=directed_ports(component), emit_src=False)
        files = [*(library.texts if library else []), text]
        for number, part in enumerate(files):
            (folder / f"{number}.il").write_text(part)
        yosys("".join(f"read_rtlil {number}.il\n" for number in range(len(files)))
              + "hierarchy -top top\nproc\nflatten\nmemory_nordff\nopt_clean\nwrite_json top.json\n", folder)
        top: dict[str, Any] = json.loads((folder / "top.json").read_text())["modules"]["top"]
    before: dict[int, list[int]] = {}
    for cell in top["cells"].values():
        kind = cell["type"]
        # after memory_nordff a clocked read port is a combinational one with a flip-flop
        registers = "ff" in kind or kind.startswith(("$memwr", "$meminit"))
        ports = cell["connections"]
        sources = [] if registers else [bit for port, bits in ports.items() if cell["port_directions"][port] == "input" for bit in bits if isinstance(bit, int)]
        for port, bits in ports.items():
            if cell["port_directions"][port] == "output":
                before |= {bit: sources for bit in bits if isinstance(bit, int)}
    inputs = {bit: name for name, port in top["ports"].items() if port["direction"] == "input" for bit in port["bits"]}
    found = {}
    for name, port in top["ports"].items():
        if port["direction"] == "output":
            seen: set[int] = set()
            todo = [bit for bit in port["bits"] if isinstance(bit, int)]
            while todo:
                bit = todo.pop()
                if bit not in seen:
                    seen.add(bit)
                    todo += before.get(bit, [])
            found[name] = {inputs[bit] for bit in seen if bit in inputs} - {"clk", "rst"}
    return found
