# amaranth: UnusedElaboratable=no
"""Dealt: commands to the channel that their address names, data and answers in the order of the commands."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Mux, Signal
from harness import Bench, Defect, Proof
from harness.environment import Manager, ReadMemory, WriteMemory

from penstock.hdl.memory import AXI4, Dealt

_NAME = "hdl.memory.dealt"
_OPEN = 2


class _Order:
    """The channels of the bursts that are open, the oldest first: of a FIFO that the proof has of its own."""

    def __init__(self, b: Bench, name: str, begun, channel, ended) -> None:
        self.count = Signal(range(_OPEN + 1), name=f"{name}_count")
        first, second = Signal(name=f"{name}_first"), Signal(name=f"{name}_second")
        after = Signal.like(self.count, name=f"{name}_after")
        b.d.comb += after.eq(self.count - ended)
        b.d.sync += self.count.eq(after + begun)
        kept = Mux(ended, second, first)
        b.d.sync += [
            first.eq(Mux(begun & (after == 0), channel, kept)),
            second.eq(Mux(begun & (after == 1), channel, second)),
        ]
        self.first, self.second = first, second

    def of(self, channel) -> object:
        """How many of them are a channel's."""
        here = [(self.count > k) & (s == channel) for k, s in enumerate((self.first, self.second))]
        return here[0] + here[1]


def _dealt(b: Bench) -> tuple[Dealt, list, Manager]:
    port = AXI4(address_width=15, data_bytes=4)
    dut = b.m.submodules.dut = Dealt(port, 2, _OPEN)
    buses = [dut.bus0, dut.bus1]
    # bits 12 to 14 of an address in bytes are bits 10 to 12 in words; those below are 0
    return dut, buses, Manager(b, _Shifted(b, dut.master), address_bits=3, opened=_OPEN)


class _Shifted:
    """A port whose addresses in words are chunks."""

    def __init__(self, b: Bench, bus) -> None:
        self._bus, self.araddr, self.awaddr = bus, Signal(15), Signal(15)
        for name in ("araddr", "awaddr"):
            b.d.comb += getattr(bus, name).eq(Cat(Const(0, 12), getattr(self, name)[2:5]))

    def __getattr__(self, name: str) -> object:
        return getattr(self._bus, name)


def both() -> Bench:
    """A manager in front of two channels, which answer when they like."""
    b = Bench()
    dut, buses, manager = _dealt(b)
    channel_of = lambda address: address[12]
    master = dut.master
    reads = [ReadMemory(b, bus, f"reads{k}", opened=_OPEN) for k, bus in enumerate(buses)]
    writes = [WriteMemory(b, bus, f"writes{k}", opened=_OPEN) for k, bus in enumerate(buses)]
    for k, bus in enumerate(buses):
        b.d.comb += [bus.rdata.eq(k), bus.rresp.eq(k), bus.bresp.eq(k)]
    read = _Order(b, "read", manager.ar, channel_of(master.araddr), manager.r_last)
    written = _Order(b, "written", manager.aw, channel_of(master.awaddr), manager.b)
    owed = _Order(b, "owed", manager.offered, channel_of(master.awaddr), manager.w_last)
    manager.check_answers(b, master)
    b.check("R is of the oldest burst's channel", ~master.rvalid | (master.rdata[0] == read.first))
    b.check(
        "B is of the oldest burst's channel", ~master.bvalid | (master.bresp[0] == written.first)
    )
    for k, bus in enumerate(buses):
        for channel, name in (("ar", "AR"), ("aw", "AW")):
            valid, address = (getattr(bus, f"{channel}{what}") for what in ("valid", "addr"))
            given = getattr(master, f"{channel}addr")
            b.check(f"{name} {k} is its own", ~valid | (channel_of(given) == k))
            there = given[13:15] << 12
            b.check(f"{name} {k} lies behind those before it", ~valid | (address == there))
            b.steady(b.check, f"{name} {k}", valid, getattr(bus, f"{channel}ready"), address[12:14])
        b.check(
            f"W {k} is the oldest burst's", ~bus.wvalid | ((owed.count != 0) & (owed.first == k))
        )
        b.steady(b.check, f"W {k}", bus.wvalid, bus.wready, bus.wlast)
        b.check(f"no burst of channel {k} is lost", read.of(k) == reads[k].open)
        b.check(f"no write of channel {k} is lost", written.of(k) == writes[k].open)
    b.cover(
        "the second channel is ready first",
        buses[1].rvalid & ~buses[1].rready & reads[0].open.any(),
    )
    here = [bus.wvalid for bus in buses]
    b.check(
        "W passes as soon as its AW is offered",
        ~master.wvalid | (owed.count == 0) | Mux(owed.first, here[1], here[0]),
    )
    b.cover("both are written", writes[0].open.any() & writes[1].open.any())
    return b


PROOFS = [
    Proof(
        "hdl.memory.Dealt",
        "one manager, two channels: commands to the channel that their address names, R and B in the order "
        "of AR and AW, W to the oldest burst, none lost, all steady",
        both,
        (
            Defect(
                _NAME,
                "local = Cat(address[:CHUNK_BITS], address[CHUNK_BITS + self.bits :])",
                "local = address",
            ),
            Defect(
                _NAME,
                "turn = order.o.valid & (order.o.payload == k)",
                "turn = order.o.valid",
            ),
            Defect(
                _NAME, "order.o.ready.eq(valid & ready & last),", "order.o.ready.eq(valid & ready),"
            ),
            Defect(_NAME, "order.i.valid.eq(offered & ~held)", "order.i.valid.eq(offered & ready)"),
        ),
    ),
]
