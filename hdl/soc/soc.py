"""A whole device, from the pins of its serial port inwards."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from ...models.link.device import Identity
from ...models.link.envelope import BUFFER, room
from ...models.link.ethernet import PEER, Station
from ...models.link.timing import divisor
from ...models.ring import places
from ..link.link import Link
from ..link.station import Ethernet
from ..memory.arbiter import Arbiter
from ..memory.axi import AXI4
from ..memory.blockram import BlockRam
from ..memory.spram import Spram
from ..modules import ModuleLibrary
from ..shell.engine_hardware import EngineHardware
from ..shell.shell import Shell

#: memories that are part of the device
_INSIDE = {"block RAM": BlockRam, "SPRAM": Spram}


class Soc(wiring.Component):
    """An engine in its shell with its memory, and a host on a serial line. One clock domain, `sync`, of `clock_hz`.

    With a station there is a second domain, `eth`.

    The engine's managers and the link share one memory; the engine's first manager finds it free whenever the link is at rest, so that a run's cycles
    are those of `models.memory.block_ram`, or `spram`, as long as the host asks for registers alone. With several managers the memory is shared in turn.

    * `engine`, `register_map`: as of `Shell`.
    * `library`: the modules that the engine instantiates by name; on a platform they are added to the build
      (`add_file`) by who builds, from `library.texts`.
    * `memory_bytes`: size of the memory, as the kind allows: a multiple of 4096, or 16384 bus words or a
      power of two times that.
    * `clock_hz`, `baud`: of the serial line; see `models.link.timing.divisor`. None: there are datagrams in
      place of it.
    * `station`: its addresses on Ethernet, where that carries the datagrams.
    * `memory`: what holds pages and results: "block RAM", "SPRAM" (of the iCE40 UltraPlus), or anything else
      that is outside: then there is a port for it.
    """

    def __init__(
        self,
        engine,
        register_map,
        *,
        library: ModuleLibrary | None = None,
        memory_bytes: int,
        clock_hz: int,
        baud: int | None,
        station: Station | None = None,
        memory: str = "block RAM",
    ):
        self.shell = Shell(engine, register_map)
        self.library = library
        self.kind = memory
        self.memory_bytes = memory_bytes
        self.divisor = divisor(clock_hz, baud) if baud is not None else None
        first = self.shell.ports[0]
        self.port = AXI4(
            address_width=first.address_width, data_bytes=first.data_bytes, id_width=first.id_width
        )
        self.station, self.clock_hz = station, clock_hz
        # a run is under way; for a lamp
        members = {"busy": Out(1)}
        if baud is None:
            may = room(clock_hz, first.data_bytes) if memory in _INSIDE else BUFFER
            self.identity = Identity(first.data_bytes, memory_bytes, clock_hz, ring=may)
        if station is not None:
            # as of `Ethernet`, in domain `eth`; `tick` as of `Link`
            members |= {
                "rxd": In(8),
                "rx_dv": In(1),
                "rx_er": In(1),
                "txd": Out(8),
                "tx_en": Out(1),
                "tick": In(1),
            }
        elif baud is None:
            # four bytes, above them how many count beside the first, and whether they are a
            # datagram's last; `tick` as of `Link`
            members |= {"rx_data": In(35), "rx_valid": In(1), "rx_ready": Out(1), "tick": In(1)}
            # a byte, and whether it is the last
            members |= {"tx_data": Out(9), "tx_valid": Out(1), "tx_ready": In(1)}
        else:
            self.identity = Identity(first.data_bytes, memory_bytes, clock_hz)
            members |= {"rx": In(1, init=1), "tx": Out(1, init=1)}
        if self.kind not in _INSIDE:
            members["memory"] = Out(self.port)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        shell = self.shell
        m.submodules.shell = shell
        m.submodules.link = link = self._link(m)
        m.submodules.arbiter = arbiter = Arbiter(
            [*shell.ports, self.port],
            copiers=getattr(shell.engine, "copiers", EngineHardware.copiers),
        )
        m.d.comb += self.busy.eq(shell.busy)
        for name, member in shell.control.members.items():
            outer, inner = getattr(link.axil, name), getattr(shell, f"s_axil_{name}")
            m.d.comb += inner.eq(outer) if member.flow is Out else outer.eq(inner)
        for k, port in enumerate(shell.ports):
            for name, member in port.members.items():
                outer, inner = getattr(arbiter, f"m{k}"), getattr(shell, f"m{k}_axi_{name}")
                m.d.comb += (
                    getattr(outer, name).eq(inner)
                    if member.flow is Out
                    else inner.eq(getattr(outer, name))
                )
        connect(m, link.bus, getattr(arbiter, f"m{len(shell.ports)}"))
        if self.kind in _INSIDE:
            m.submodules.memory = memory = _INSIDE[self.kind](self.port, self.memory_bytes)
            connect(m, arbiter.bus, memory.bus)
        else:
            connect(m, arbiter.bus, wiring.flipped(self.memory))
        return m

    def _link(self, m):
        """Return the link, with its pins."""
        peer = 0 if self.station is None else PEER
        link = Link(
            self.identity,
            registers=self.shell.control,
            memory=self.port,
            divisor=self.divisor,
            peer=peer,
            rings=places(self.shell.register_map),
        )
        if self.station is not None:
            self._ethernet(m, link, Ethernet(self.station))
            return link
        if self.divisor is not None:
            m.d.comb += [link.rx.eq(self.rx), self.tx.eq(link.tx)]
            return link
        m.d.comb += [
            link.i.payload.eq(self.rx_data),
            link.i.valid.eq(self.rx_valid),
            self.rx_ready.eq(link.i.ready),
            self.tx_data.eq(link.o.payload),
            self.tx_valid.eq(link.o.valid),
            link.o.ready.eq(self.tx_ready),
            link.tick.eq(self.tick),
        ]
        return link

    def _ethernet(self, m, link, ethernet):
        m.submodules.ethernet = ethernet
        count = Signal(range(self.clock_hz))
        m.d.comb += [
            *(getattr(ethernet, pin).eq(getattr(self, pin)) for pin in ("rxd", "rx_dv", "rx_er")),
            self.txd.eq(ethernet.txd),
            self.tx_en.eq(ethernet.tx_en),
            link.spoilt.eq(ethernet.spoilt),
            link.tick.eq(self.tick | (count == 0)),
        ]
        m.d.sync += count.eq(Mux(count == 0, self.clock_hz - 1, count - 1))
        connect(m, ethernet.o, link.i)
        connect(m, link.o, ethernet.i)
