"""One memory port in front of several channels."""

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.dealt import CHUNK_BITS
from ..stream.queue import Queue


class Dealt(wiring.Component):
    """Deals chunks of 4 KiB over channels, and gives read data and answers back in the order of their commands: a quicker channel keeps its own until then.

    Chunk n lies in channel n modulo their number, after the earlier chunks of that channel (`models.memory.dealt.Deal`).
    Whatever passes is passed on in the same cycle. W passes in the cycles after its AW's first offer.

    * `signature`: of the ports, which read, write, or both.
    * `channels`: a power of two, ≥ 2.
    * `opened`: bursts of each direction that may be begun and not ended.
    """

    def __init__(self, signature, channels, opened):
        if channels < 2 or channels & (channels - 1):
            raise ValueError(f"channels must be a power of two, 2 or more, not {channels!r}")
        self.port, self.channels, self.opened = signature, channels, opened
        self.bits = (channels - 1).bit_length()
        buses = {f"bus{k}": Out(signature) for k in range(channels)}
        super().__init__({"master": In(signature), **buses})

    def elaborate(self, platform):
        m = Module()
        self.buses = [getattr(self, f"bus{k}") for k in range(self.channels)]
        if self.port.read:
            m.submodules.reads = reads = Queue(self.bits, self.opened)
            self._command(m, "ar", reads)
            self._back(m, "r", ("id", "data", "resp", "last"), reads, self.master.rlast)
        if self.port.write:
            m.submodules.words = words = Queue(self.bits, self.opened)
            m.submodules.writes = writes = Queue(self.bits, self.opened)
            self._command(m, "aw", words, writes)
            self._words(m, words)
            self._back(m, "b", ("id", "resp"), writes, 1)
        return m

    def _command(self, m, channel, *orders):
        """A command to the channel that its address names, noted in its order when it is first offered."""
        master = self.master
        address = getattr(master, f"{channel}addr")
        number = Signal(self.bits, name=f"{channel}_channel")
        room, offered = Signal(name=f"{channel}_room"), Signal(name=f"{channel}_offered")
        held = Signal(name=f"{channel}_held")  # offered and not taken: noted already
        ready = Array(getattr(bus, f"{channel}ready") for bus in self.buses)[number]
        m.d.comb += [
            number.eq(address[CHUNK_BITS:]),
            room.eq(held | Cat(order.i.ready for order in orders).all()),
            getattr(master, f"{channel}ready").eq(ready & room),
            offered.eq(getattr(master, f"{channel}valid") & room),
        ]
        m.d.sync += held.eq(offered & ~ready)
        for order in orders:
            m.d.comb += [order.i.valid.eq(offered & ~held), order.i.payload.eq(number)]
        for k, bus in enumerate(self.buses):
            m.d.comb += getattr(bus, f"{channel}valid").eq(offered & (number == k))
            local = Cat(address[:CHUNK_BITS], address[CHUNK_BITS + self.bits :])
            m.d.comb += getattr(bus, f"{channel}addr").eq(local)
            for name in ("id", "len", "size", "burst"):
                m.d.comb += getattr(bus, channel + name).eq(getattr(master, channel + name))

    def _words(self, m, order):
        """Words to the channel of the oldest burst that has not had all of them."""
        master = self.master
        ready = Array(bus.wready for bus in self.buses)[order.o.payload]
        m.d.comb += [
            master.wready.eq(ready & order.o.valid),
            order.o.ready.eq(master.wvalid & ready & master.wlast),
        ]
        for k, bus in enumerate(self.buses):
            m.d.comb += bus.wvalid.eq(master.wvalid & order.o.valid & (order.o.payload == k))
            for name in ("data", "strb", "last"):
                m.d.comb += getattr(bus, f"w{name}").eq(getattr(master, f"w{name}"))

    def _back(self, m, channel, names, order, last):
        """What comes back, from the channel of the oldest burst."""
        master = self.master
        valid, ready = getattr(master, f"{channel}valid"), getattr(master, f"{channel}ready")
        theirs = Array(getattr(bus, f"{channel}valid") for bus in self.buses)
        m.d.comb += [
            valid.eq(theirs[order.o.payload] & order.o.valid),
            order.o.ready.eq(valid & ready & last),
        ]
        for k, bus in enumerate(self.buses):
            turn = order.o.valid & (order.o.payload == k)
            m.d.comb += getattr(bus, f"{channel}ready").eq(ready & turn)
        for name in names:
            values = Array(getattr(bus, channel + name) for bus in self.buses)
            m.d.comb += getattr(master, channel + name).eq(values[order.o.payload])
