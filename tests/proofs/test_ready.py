# amaranth: UnusedElaboratable=no
"""No valid depends on its own ready within a cycle: by the netlists of whole devices, in every
module of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from harness.netlist import Netlist

from penstock.api import compile
from penstock.hdl.memory import AXI4, Arbiter, SdramController
from penstock.hdl.modules import ModuleLibrary, directed_ports
from penstock.hdl.qr.engine import FitEngine as Fits
from penstock.hdl.soc.soc import Soc
from penstock.host.sources import Table
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Bounds, Label, Method, Sums

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = FitPlan(
    n_max=6,
    target=Label.SLOT,
    sums=Sums.INCREMENTAL,
    bounds=Bounds.WIDENED,
    gram_lanes=12,
    bus_bytes=32,
    row_units=2,
    lanes=6,
    solvers=2,
    contexts=2,
    jobs=5,
)


def texts(component, library: ModuleLibrary | None = None) -> list[str]:
    top = rtlil.convert(component, name="top", ports=directed_ports(component), emit_src=False)
    return [*(library.texts if library else []), top]


def device(engine, library: ModuleLibrary, *, memory: str = "block RAM") -> list[str]:
    soc = Soc(
        engine,
        engine.register_map,
        library=library,
        memory_bytes=1 << 17,
        clock_hz=12_000_000,
        baud=1_000_000,
        memory=memory,
    )
    return texts(soc, library)


def kernel() -> list[str]:
    import numpy as np

    rng = np.random.default_rng(0)
    columns = {
        "id": np.arange(20, dtype=np.int32),
        "y": np.zeros(20, np.float32),
        "x": rng.normal(size=(20, 5)).astype(np.float32),
    }
    design = compile(
        EXAMPLES / "linear.py",
        "small",
        Table.from_columns(columns, "table", page_size=1024),
        "fixed:8,16",
    )
    return device(*design.hardware())


def fits(config: FitPlan) -> list[str]:
    library = ModuleLibrary()
    return device(Fits(config, library), library, memory="SDRAM")


DEVICES = {
    "a kernel, block RAM": kernel,
    "fits": lambda: fits(CONFIG),
    "fits by rotations": lambda: fits(
        replace(CONFIG, n_max=16, method=Method.GIVENS, lanes=2, vectors=2, solvers=1, contexts=3)
    ),
    "SDRAM": lambda: texts(SdramController(AXI4(data_bytes=4), clock_hz=100_000_000)),
    "an arbiter of three": lambda: texts(Arbiter([AXI4(data_bytes=4)] * 3)),
}


class Waits(wiring.Component):
    """Offers only to who is ready."""

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(2)), "o": Out(stream.Signature(2))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.o.valid.eq(self.i.valid & self.o.ready),
            self.o.payload.eq(self.i.payload),
            self.i.ready.eq(self.o.ready),
        ]
        return m


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name.startswith("fits") else [])
        for name in DEVICES
    ],
)
def test_no_valid_waits_for_its_ready(name: str) -> None:
    netlist = Netlist(DEVICES[name]())
    assert netlist.handshakes()
    assert not netlist.waiting()


def test_one_that_waits_is_found() -> None:
    outer = Module()
    outer.submodules.inner = inner = Waits()
    top = Waits()
    top.elaborate = lambda platform: outer
    outer.d.comb += [
        inner.i.payload.eq(top.i.payload),
        inner.i.valid.eq(top.i.valid),
        top.i.ready.eq(inner.i.ready),
        top.o.payload.eq(inner.o.payload),
        top.o.valid.eq(inner.o.valid),
        inner.o.ready.eq(top.o.ready),
    ]
    assert {valid for _, valid, _ in Netlist(texts(top)).waiting()} == {"o__valid"}
    assert len(Netlist(texts(top)).waiting()) == 2
