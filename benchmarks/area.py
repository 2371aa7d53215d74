"""Cells that Yosys makes of components: the cores of `hdl.crypto` on an ECP5, with their cycles, a unit's datapath of each format,
and what judging registers takes (docs/reference/registers.md).

The datapath takes a sub-chunk of 32 bytes each iteration: both products, the sum, rounding, the output's products and
their sum. Float16's is sixteen times that of a number, and the output's; MX8's is one, with stochastic
rounding and without. Registers, results and banks are not in it. Needs pyosys:  pip install pyosys
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Out
from common import Options, Section, main, markdown, versions

from penstock.hdl.crypto.ascon import Sponge
from penstock.hdl.crypto.gcm import Gcm
from penstock.hdl.crypto.handshake import Handshake
from penstock.hdl.crypto.sha256 import Hkdf, Hmac, Sha256
from penstock.hdl.crypto.x25519 import X25519
from penstock.hdl.pim.float16 import Float16Lane
from penstock.hdl.pim.mx import MxLane
from penstock.hdl.shell.registers import ControlRegisters
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.crypto import ascon, gcm, handshake, x25519
from penstock.models.crypto.sha256 import hash_cycles, hkdf_cycles, hmac_cycles
from penstock.models.shell import Legal, RegisterMap
from testbench.register_images import CASES, case
from testbench.yosys import yosys

_SCRIPTS = {"ecp5": "synth_ecp5 -nowidelut -top top", "generic": "synth -flatten -top top"}


def cells(component: Any, kind: str) -> Counter[str]:
    """Return the cells of a component by their type. `kind`: "ecp5" or "generic"."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "part.v").write_text(to_verilog(component, name="top"))
        yosys(f"read_verilog part.v; {_SCRIPTS[kind]}; tee -q -o stat.json stat -json", folder)
        found = json.loads((folder / "stat.json").read_text())
    return Counter(found["modules"]["\\top"]["num_cells_by_type"])


def luts(found: Counter[str]) -> int:
    """Return the look-up tables of an ECP5: a carry cell takes two, a cell of distributed memory four."""
    return found["LUT4"] + 2 * found["CCU2C"] + 4 * found["TRELLIS_DPR16X4"]


_PAYLOAD = 33
_SPONGE = sum(ascon.pace(1)) + 2 * ascon.pace(1).block
_NOISE = handshake.cycles(True, _PAYLOAD)
#: name, component, what it does, and in how many cycles
CORES: list[tuple[str, Callable[[], Any], str, int]] = [
    ("Ascon-AEAD128", lambda: Sponge(blocks=3, rounds=1, opening=True), "48 bytes", _SPONGE),
    ("AES-256-GCM", Gcm, "48 bytes", gcm.cycles(0, 48)),
    ("SHA-256", Sha256, "64 bytes", hash_cycles(64)),
    ("HMAC-SHA-256", Hmac, "32 bytes", hmac_cycles(32)),
    ("HKDF-SHA-256", Hkdf, "two blocks from 32 bytes", hkdf_cycles(32, 0, 2)),
    ("X25519", X25519, "a multiplication", x25519.CYCLES),
    (
        "Noise NK and NKpsk2",
        lambda: Handshake(payload=_PAYLOAD),
        "NKpsk2, all but Ascon in it",
        _NOISE,
    ),
]


def crypto(options: Options) -> str:
    rows = []
    for name, make, what, cycles in CORES[2:3] if options.quick else CORES:
        found = cells(make(), "ecp5")
        sizes = f"{luts(found):,} | {found['TRELLIS_FF']:,} | {found['MULT18X18D']}"
        rows.append(f"{name} | {sizes} | {what} | {cycles:,}")
    table = markdown("core | LUT4 | FF | MULT18X18D | work | cycles", rows)
    return f"{table}\n\nWith {versions('pyosys', 'amaranth')}."


class Number(Float16Lane):
    """One of the sixteen numbers: its product, its difference and its sum."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid = [self.i_valid]
        for _ in range(self.depth):
            valid.append(Signal())
            m.d.sync += valid[-1].eq(valid[-2])
        m.d.comb += self.o_code.eq(self._number(m, 0, valid, self.i_first))
        return m


class Output(Float16Lane):
    """The last four ranks alone: products with q and their sum."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parts = [slice(16 * n, 16 * (n + 1)) for n in range(16)]
        # scores take the sub-chunk as it was fetched
        self._output(m, [Mux(self.i_score, self.i_data[p], self.i_k[p]) for p in parts])
        return m


class Nearest(MxLane):
    """Rounded to nearest alone."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.lane = lane = MxLane(4)
        for name, member in self.signature.members.items():
            outer, inner = getattr(self, name), getattr(lane, name)
            fixed = name in ("i_stochastic", "i_random")
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(0 if fixed else outer)
        return m


#: for each format: numbers of a sub-chunk, and (how many, of what)
FORMATS: dict[str, tuple[int, list[tuple[int, Callable[[], Any]]]]] = {
    "float16": (16, [(16, Number), (1, Output)]),
    "MX8, to nearest": (32, [(1, lambda: Nearest(4))]),
    "MX8, stochastic": (32, [(1, lambda: MxLane(4))]),
}


def units(options: Options) -> str:
    rows = []
    for name, (numbers, parts) in [*FORMATS.items()][: 1 if options.quick else None]:
        ecp5, generic = Counter[str](), 0
        for count, make in parts[:1] if options.quick else parts:
            for cell, many in cells(make(), "ecp5").items():
                ecp5[cell] += count * many
            generic += count * sum(cells(make(), "generic").values())
        sizes = f"{luts(ecp5):,} | {ecp5['TRELLIS_FF']:,} | {ecp5['MULT18X18D']}"
        rows.append(f"{name} | {numbers} | {sizes} | {generic:,} | {generic / numbers:,.0f}")
    table = markdown("format | numbers | LUT4 | FF | DSP | generic cells | a number", rows)
    return f"{table}\n\nWith {versions('pyosys', 'amaranth')}."


def registers(options: Options) -> str:
    """Control registers as they are, and with any value legal; beside them what the plan says of the whole design on its target."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in [*CASES][: 1 if options.quick else None]:
            design = case(kind, Path(folder)).design
            known = design.registers
            free = [replace(register, legal=Legal()) for register in known.engine]
            held = known.counters, known.monitors, known.design
            lax = RegisterMap(
                free, *held, cycle_bits=known.cycle_bits, errors=known.errors, vault=known.vault
            )
            judges, stores = (cells(ControlRegisters(each), "ecp5") for each in (known, lax))
            lut, ff = (of(judges) - of(stores) for of in (luts, lambda found: found["TRELLIS_FF"]))
            rules = sum(r.legal != Legal() for r in known.engine)
            sizes = f"{len(known.engine)} | {rules} | {luts(judges):,} | {lut:,} | {ff:,}"
            target = design.target
            whole = design.resources_on(target)
            rows.append(
                f"{kind} | {sizes} | {whole.lut:,} on {target.name} | {lut / whole.lut:.1%}"
            )
    head = "design | registers | with rules | LUT4 | of these judge | FF that judge | LUT, estimated | share"
    return f"{markdown(head, rows)}\n\nWith {versions('pyosys', 'amaranth')}."


#: of these the page has figures by hand
ALONE = [Section("crypto-area", False, crypto), Section("pim-area", False, units)]
SECTIONS = [Section("register-area", False, registers)]

if __name__ == "__main__":
    main([*ALONE, *SECTIONS], __doc__)
