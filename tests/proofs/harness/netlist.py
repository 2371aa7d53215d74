"""Which inputs of a module reach its outputs without a register, by the netlist, for every module
of a design.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .tools import yosys

__all__ = ["Netlist"]

#: cells whose outputs do not depend on their inputs within the cycle; memory_nordff has made
#: clocked read ports into others with a register
_REGISTERS = re.compile(r"\$.*(ff|sr|dlatch).*|\$memwr.*|\$meminit.*")


class Netlist:
    """The modules of a design as RTLIL.

    Parameters
    ----------
    texts
        RTLIL of modules; the last one's is the design's own.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            reads = []
            for number, text in enumerate(texts):
                (folder / f"{number}.il").write_text(text)
                reads.append(f"read_rtlil {number}.il")
            yosys(
                "\n".join(
                    [*reads, "proc -noopt", "memory_nordff", "opt_clean", "write_json top.json", ""]
                ),
                folder,
            )
            self.modules: dict[str, Any] = json.loads((folder / "top.json").read_text())["modules"]
        self._reaching: dict[str, dict[str, set[str]]] = {}

    def reaching(self, module: str) -> dict[str, set[str]]:
        """Return, for each output of a module, the inputs that reach it without a register; those
        of other modules inside likewise.
        """
        if module in self._reaching:
            return self._reaching[module]
        content = self.modules[module]
        before: dict[int, list[int]] = {}
        for cell in content["cells"].values():
            ports, directions = cell["connections"], cell["port_directions"]
            if cell["type"] in self.modules:
                inner = self.reaching(cell["type"])
                sources = {
                    port: [
                        bit
                        for name in inner[port]
                        for bit in ports.get(name, ())
                        if isinstance(bit, int)
                    ]
                    for port in ports
                    if directions[port] == "output"
                }
            elif _REGISTERS.fullmatch(cell["type"]):
                continue
            else:
                every = [
                    bit
                    for port, bits in ports.items()
                    if directions[port] == "input"
                    for bit in bits
                    if isinstance(bit, int)
                ]
                sources = {port: every for port in ports if directions[port] == "output"}
            for port, bits in sources.items():
                before |= {bit: bits for bit in ports[port] if isinstance(bit, int)}
        inputs = {
            bit: name
            for name, port in content["ports"].items()
            if port["direction"] == "input"
            for bit in port["bits"]
        }
        found = {}
        for name, port in content["ports"].items():
            if port["direction"] == "output":
                seen: set[int] = set()
                todo = [bit for bit in port["bits"] if isinstance(bit, int)]
                while todo:
                    bit = todo.pop()
                    if bit not in seen:
                        seen.add(bit)
                        todo += before.get(bit, ())
                found[name] = {inputs[bit] for bit in seen if bit in inputs}
        self._reaching[module] = found
        return found

    def handshakes(self) -> list[tuple[str, str, str]]:
        """Return (module, output valid, input ready) of all streams and AXI channels that leave a
        module.
        """
        found = []
        for module, content in self.modules.items():
            ports = content["ports"]
            for name, port in ports.items():
                # streams: o__valid, o__ready; channels: m0__arvalid, m0_axi_arready
                if port["direction"] == "output" and (
                    match := re.fullmatch(r"(.*?)valid((?:\$\d+)?)", name)
                ):
                    partners = [
                        other
                        for other in ports
                        if re.fullmatch(re.escape(match[1]) + r"ready(\$\d+)?", other)
                        and ports[other]["direction"] == "input"
                    ]
                    exact = match[1] + "ready" + match[2]
                    found += [
                        (module, name, other)
                        for other in ([exact] if exact in partners else partners)
                    ]
        return found

    def waiting(self) -> list[tuple[str, str, str]]:
        """Return those of `handshakes` whose valid depends on its own ready within the cycle."""
        return [
            (module, valid, ready)
            for module, valid, ready in self.handshakes()
            if ready in self.reaching(module)[valid]
        ]
