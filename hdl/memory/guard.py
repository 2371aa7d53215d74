"""A gate at a memory port: brings the bus to rest, whatever state the master behind it is in."""

from functools import reduce
from operator import and_, or_

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.bursts import Writer
from ..stream.queue import Queue
from .axi import AXI4
from .outstanding import none_left


class Guard(wiring.Component):
    """Passes a port through without delay; on `stop` it ends what is open and lets nothing new begin.

    With `stop` high no new AR or AW is let through (one that is already offered stays, as the protocol
    demands), read data are taken and dropped, responses are taken. Write bursts that were begun are
    completed with zeros, all strobes low; a beat that is already offered stays as it is until it is
    taken. `idle` then says that the bus is at rest; the master may be reset and `stop` lowered. The
    master must stay as it is, clocked and not reset, until then.

    W passes from the cycle after its AW was first offered on, whether that was taken or not (ARM IHI 0022,
    A3.3.1): a burst is begun as soon as its AW is offered.

    * `signature`: the port's.
    * `writes`: write bursts that may be open between AW's offer and the last W beat, as many as a
      BurstWriter's unless told otherwise.
    """

    def __init__(self, signature, *, writes=Writer.AHEAD):
        if not isinstance(signature, AXI4):
            raise TypeError(f"signature must be an AXI4 signature, not {signature!r}")
        self.port = signature
        self.writes = writes
        super().__init__(
            {
                "master": In(signature),
                "bus": Out(signature),
                "stop": In(1),
                "idle": Out(1),  # no transaction is open and none is offered
                # some channel transfers in this cycle. A burst's 257th word, which none has, does
                # not count, nor what comes where nothing is open.
                "active": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        rest: list[Value] = []
        active: list[Value] = []
        if self.port.read:
            self._reads(m, rest, active)
        if self.port.write:
            self._writes(m, rest, active)
        m.d.comb += [self.idle.eq(reduce(and_, rest)), self.active.eq(reduce(or_, active))]
        return m

    def _address(self, m, channel, room):
        """Gate an address channel; return its transfer, its first offer and whether it is at rest."""
        master, bus = self.master, self.bus
        for name in ("id", "addr", "len", "size", "burst"):
            m.d.comb += getattr(bus, channel + name).eq(getattr(master, channel + name))
        valid, ready = getattr(bus, channel + "valid"), getattr(bus, channel + "ready")
        held = Signal(name=f"{channel}_held")  # offered and not yet taken: must stay
        opened = Signal(name=f"{channel}_open")
        m.d.comb += [
            opened.eq((~self.stop & room) | held),
            valid.eq(getattr(master, channel + "valid") & opened),
            getattr(master, channel + "ready").eq(ready & opened),
        ]
        m.d.sync += held.eq(valid & ~ready)
        return valid & ready, valid & ~held, ~valid

    def _reads(self, m, rest, active):
        master, bus = self.master, self.bus
        begun, _, quiet = self._address(m, "ar", 1)
        ended, taken = Signal(), Signal()
        beats = Signal(9)  # of the burst that comes
        m.d.comb += [
            master.rid.eq(bus.rid),
            master.rdata.eq(bus.rdata),
            master.rresp.eq(bus.rresp),
            master.rlast.eq(bus.rlast),
            master.rvalid.eq(bus.rvalid & ~self.stop),
            bus.rready.eq(master.rready | self.stop),
            taken.eq(bus.rvalid & bus.rready),
            ended.eq(taken & bus.rlast),
        ]
        with m.If(taken):
            m.d.sync += beats.eq(Mux(bus.rlast, 0, beats + ~beats[8]))
        none = none_left(m, begun, ended, "reads")
        rest += [quiet, none]
        active += [begun, taken & ~none & ~beats[8]]

    def _writes(self, m, rest, active):
        master, bus = self.master, self.bus
        m.submodules.owed = owed = Queue(8, self.writes)
        begun, offered, quiet = self._address(m, "aw", owed.i.ready)
        moved = Signal()
        answered = Signal()
        passed = Signal(8)
        held = Signal(name="w_held")  # the master's beat was offered and not taken: must stay
        fill = Signal(name="w_fill")
        m.d.comb += [
            owed.i.payload.eq(bus.awlen),
            owed.i.valid.eq(offered),
            fill.eq(self.stop & ~held),
            bus.wdata.eq(Mux(fill, 0, master.wdata)),
            bus.wstrb.eq(Mux(fill, 0, master.wstrb)),
            bus.wlast.eq(Mux(fill, passed == owed.o.payload, master.wlast)),
            bus.wvalid.eq(owed.o.valid & (fill | master.wvalid)),
            master.wready.eq(bus.wready & owed.o.valid & ~fill),
            moved.eq(bus.wvalid & bus.wready),
            owed.o.ready.eq(moved & (passed == owed.o.payload)),
            master.bid.eq(bus.bid),
            master.bresp.eq(bus.bresp),
            master.bvalid.eq(bus.bvalid & ~self.stop),
            bus.bready.eq(master.bready | self.stop),
            answered.eq(bus.bvalid & bus.bready),
        ]
        # a beat of our own that is refused stays ours
        m.d.sync += held.eq(bus.wvalid & ~bus.wready & ~fill)
        with m.If(moved):
            m.d.sync += passed.eq(Mux(owed.o.ready, 0, passed + 1))
        none = none_left(m, begun, answered, "writes")
        rest += [quiet, none]
        active += [begun, moved, answered & ~none]
