# amaranth: UnusedElaboratable=no
"""No valid depends on its own ready within a cycle: by netlist, in every module of whole devices,
for every component there is.
"""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from designs import DESIGNS, components, converted, elaborated, engine_names
from harness.netlist import Netlist
from parts import PROOFS

from penstock.engines.discovery import engines


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


def _part(one: type) -> str:
    """A component's name among the proofs'."""
    return f"{'.'.join(one.__module__.split('.')[1:3])}.{one.__qualname__}"


def test_no_valid_waits_for_its_ready() -> None:
    """In devices of every engine, and for every component of the packages that they use."""
    waiting, handshakes, seen = {}, {}, set()
    for name, make in DESIGNS.items():
        if name.removeprefix("bench of ") in map(_part, seen):  # it is in a device
            continue
        with elaborated() as met:
            texts = make()
        seen |= met
        if not texts:  # no handshake is in it
            continue
        netlist = Netlist(texts)
        handshakes[name] = len(netlist.handshakes())
        if found := netlist.waiting():
            waiting[name] = found
    assert not waiting
    assert min(n for name, n in handshakes.items() if name.startswith("kernel")) > 40
    missing = {
        package: sorted(one.__qualname__ for one in those - seen)
        for package, those in components().items()
        if those & seen  # of an engine that there is not yet nothing is met
    }
    assert not {package: names for package, names in missing.items() if names}, (
        "no design here has these: a kernel in tests/proofs/kernels, a proof, or an entry of COMPONENTS in "
        "tests/proofs/parts brings them in"
    )


def test_every_engine_has_a_kernel_here() -> None:
    assert engine_names() == set(engines()), "a small kernel of each engine in tests/proofs/kernels"


def test_every_shared_component_has_a_proof() -> None:
    """Those of streams, memory ports, shell, link and device; what is a part of another is proven with
    it.
    """
    inside = {
        "hdl.memory.SpramCell": "hdl.memory.Spram",
        "hdl.memory._Returns": "hdl.memory.SdramController",
        "hdl.link.Session": "hdl.link.Responder",
        "hdl.link.UartReceiver": "hdl.link.UartTransmitter",
        "hdl.link.Ethernet": "hdl.link.Reader",  # and the others that it joins
    }
    proven = {proof.part for proof in PROOFS}
    assert set(inside.values()) <= proven
    for package in ("hdl.stream", "hdl.memory", "hdl.shell", "hdl.link", "hdl.soc"):
        names = {f"{package}.{one.__qualname__}" for one in components()[f"penstock.{package}"]}
        assert names <= proven | inside.keys()


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
    with elaborated() as met:
        texts = converted(top)
    assert Waits in met
    assert {valid for _, valid, _ in Netlist(texts).waiting()} == {"o__valid"}
    assert len(Netlist(texts).waiting()) == 2
