"""One wide memory port over several narrow ones."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .axi import AXI4


class Joined(wiring.Component):
    """Gives each port its part of every word: port k has part k of all words, one behind the other, from its address 0 on.

    A command goes to every port, and is taken when all have it; so is a word that is written. A word that is read, and an answer, come when all
    ports have theirs, in the same cycle; an error of one is an error of all.

    * `signature`: of the wide port, which reads and writes.
    * `ports`: a power of two, ≥ 2.
    """

    def __init__(self, signature, ports):
        if ports < 2 or ports & (ports - 1):
            raise ValueError(f"ports must be a power of two, 2 or more, not {ports!r}")
        self.ports, self.bits = ports, (ports - 1).bit_length()
        narrow = AXI4(
            address_width=signature.address_width,
            data_bytes=signature.data_bytes // ports,
            id_width=signature.id_width,
        )
        buses = {f"bus{k}": Out(narrow) for k in range(ports)}
        super().__init__({"master": In(signature), **buses})

    def elaborate(self, platform):
        m = Module()
        self.buses = [getattr(self, f"bus{k}") for k in range(self.ports)]
        for channel in ("ar", "aw", "w"):
            self._to_all(m, channel)
        for channel, names in (("r", ("id", "last")), ("b", ("id",))):
            self._from_all(m, channel, names)
        for k, bus in enumerate(self.buses):
            for channel in ("ar", "aw"):
                m.d.comb += [
                    getattr(bus, channel + "addr").eq(
                        getattr(self.master, channel + "addr") >> self.bits
                    ),
                    getattr(bus, channel + "size").eq(
                        getattr(self.master, channel + "size") - self.bits
                    ),
                ]
                for name in ("id", "len", "burst"):
                    m.d.comb += getattr(bus, channel + name).eq(
                        getattr(self.master, channel + name)
                    )
            m.d.comb += [
                bus.wdata.eq(self.master.wdata.word_select(k, len(bus.wdata))),
                bus.wstrb.eq(self.master.wstrb.word_select(k, len(bus.wstrb))),
                bus.wlast.eq(self.master.wlast),
            ]
        m.d.comb += self.master.rdata.eq(Cat(bus.rdata for bus in self.buses))
        return m

    def _to_all(self, m, channel):
        """Offer to each port until it has taken it; it has gone when the last one has."""
        has = Signal(self.ports, name=f"{channel}_has")
        valid = getattr(self.master, f"{channel}valid")
        takes = Cat(getattr(bus, f"{channel}ready") for bus in self.buses) | has
        ready = getattr(self.master, f"{channel}ready")
        m.d.comb += ready.eq(takes.all())
        with m.If(valid):
            m.d.sync += has.eq(takes & ~ready.replicate(self.ports))
        for k, bus in enumerate(self.buses):
            m.d.comb += getattr(bus, f"{channel}valid").eq(valid & ~has[k])

    def _from_all(self, m, channel, names):
        """Take from all ports in the cycle in which the last one has something."""
        valid, ready = (
            getattr(self.master, f"{channel}valid"),
            getattr(self.master, f"{channel}ready"),
        )
        resp = 0
        m.d.comb += valid.eq(Cat(getattr(bus, f"{channel}valid") for bus in self.buses).all())
        for bus in self.buses:
            m.d.comb += getattr(bus, f"{channel}ready").eq(valid & ready)
            resp = resp | getattr(bus, f"{channel}resp")
        m.d.comb += getattr(self.master, f"{channel}resp").eq(resp)
        for name in names:
            m.d.comb += getattr(self.master, channel + name).eq(
                getattr(self.buses[0], channel + name)
            )
