# amaranth: UnusedElaboratable=no
"""Joined: every port has each command and word once, what comes back comes of all at once."""

from __future__ import annotations

from amaranth.hdl import Cat
from harness import Bench, Defect, Proof
from harness.environment import Manager, ReadMemory, WriteMemory

from penstock.hdl.memory import AXI4, Joined

_NAME = "hdl.memory.joined"
_OPEN = 2


def both() -> Bench:
    """A manager in front of two ports, which answer when they like."""
    b = Bench()
    dut = b.m.submodules.dut = Joined(AXI4(address_width=15, data_bytes=8), 2)
    master, buses = dut.master, [dut.bus0, dut.bus1]
    manager = Manager(b, master, address_bits=3, opened=_OPEN)
    reads = [ReadMemory(b, bus, f"reads{k}", opened=_OPEN + 1) for k, bus in enumerate(buses)]
    writes = [WriteMemory(b, bus, f"writes{k}", opened=_OPEN + 1) for k, bus in enumerate(buses)]
    for k, bus in enumerate(buses):
        b.d.comb += [bus.rdata.eq(1 + k), bus.rresp.eq(2 * k), bus.bresp.eq(2 * k)]
    manager.check_answers(b, master)
    b.check(
        "a word has each port's part",
        ~master.rvalid | (master.rdata == Cat(buses[0].rdata, buses[1].rdata)),
    )
    b.check("an error of one is one of all", ~master.rvalid | (master.rresp == 2))
    b.check("an answer's too", ~master.bvalid | (master.bresp == 2))
    for k, bus in enumerate(buses):
        for channel, name in (("ar", "AR"), ("aw", "AW")):
            valid, address = (getattr(bus, f"{channel}{what}") for what in ("valid", "addr"))
            there = getattr(master, f"{channel}addr") >> 1
            b.check(f"{name} {k} is half of the address", ~valid | (address == there))
            b.steady(b.check, f"{name} {k}", valid, getattr(bus, f"{channel}ready"), address)
        b.steady(b.check, f"W {k}", bus.wvalid, bus.wready, bus.wlast)
    b.cover("one port is ready before the other", buses[0].rvalid & ~buses[1].rvalid)
    b.cover("both are written", writes[0].open.any() & writes[1].open.any())
    del reads
    return b


PROOFS = [
    Proof(
        "hdl.memory.Joined",
        "one manager, two ports: each has half of the address, and every command and word once; R and B of both at "
        "once, with the errors of either, none lost, all steady",
        both,
        (
            Defect(_NAME, "valid & ~has[k]", "valid"),
            Defect(
                _NAME,
                'getattr(bus, f"{channel}ready").eq(valid & ready)',
                'getattr(bus, f"{channel}ready").eq(ready)',
            ),
        ),
    ),
]
