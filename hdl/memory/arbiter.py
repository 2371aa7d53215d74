"""Several managers on one memory port."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .axi import AXI4

_READ = (("ar", ("id", "addr", "len", "size", "burst")), ("r", ("id", "data", "resp", "last")))
_WRITE = (
    ("aw", ("id", "addr", "len", "size", "burst")),
    ("w", ("data", "strb", "last")),
    ("b", ("id", "resp")),
)


class Arbiter(wiring.Component):
    """Gives a memory port to one of several managers at a time, for reads and writes separately.

    While no other manager asks, the one that has the port sees it as if it were alone, without a cycle of delay. When another asks, no further
    burst of the first one passes from the next cycle on; when its bursts are answered, the next one in turn that asks has the port, for a burst at
    least. An idle port goes back to manager 0, which therefore finds it free at once: beside managers that are at rest, its timing is the memory's own.

    W passes from the cycle after its AW was first offered on the bus on.

    A manager must take what it asked to read without waiting for others, and announce a write (AW)
    only when it can give its data without waiting for others. One that copies through a buffer
    smaller than a burst does neither. Beside managers that keep the rule it comes to its end all the
    same; two of them can wait for each other for ever, the one with the reads, the other with the
    writes.

    * `ports`: AXI4 signatures of the managers, in order, of equal widths.
    * `copiers`: numbers of the managers that break this rule: at most one.

    Raises ValueError where widths differ, or for two copiers, which it names.
    """

    def __init__(self, ports, *, copiers=()):
        self.ports = list(ports)
        names = [f"m{k}" for k in sorted(copiers)]
        if len(names) > 1:
            raise ValueError(
                f"managers {' and '.join(names[:2])} both copy without room for a burst: "
                "behind one arbiter they can wait for each other for ever"
            )
        if len({(p.address_width, p.data_bytes, p.id_width) for p in self.ports}) != 1:
            raise ValueError("the managers of a memory port must have the same widths")
        first = self.ports[0]
        self.port = AXI4(
            address_width=first.address_width, data_bytes=first.data_bytes, id_width=first.id_width
        )
        super().__init__(
            {f"m{k}": In(port) for k, port in enumerate(self.ports)} | {"bus": Out(self.port)}
        )

    def elaborate(self, platform):
        m = Module()
        self._direction(m, "ar", _READ, "r", [k for k, port in enumerate(self.ports) if port.read])
        self._direction(
            m, "aw", _WRITE, "b", [k for k, port in enumerate(self.ports) if port.write]
        )
        return m

    def _direction(self, m, address, channels, last, numbers):
        """One direction's channels, from and to the manager whose turn it is."""
        managers = [getattr(self, f"m{k}") for k in numbers]
        if not managers:
            return
        owner, passes, offered = self._owner(m, address, last, managers)
        owes = self._owes(m, offered) if address == "aw" else 0
        with m.Switch(owner):
            for k, manager in enumerate(managers):
                with m.Case(k):
                    for channel, names in channels:
                        opens = {address: passes, "w": owes}.get(channel, 1)
                        self._lend(m, manager, channel, names, opens)
        for channel, names in channels:
            # everyone sees the answers' payloads; only the owner's are valid
            if channel in ("r", "b"):
                for manager in managers:
                    m.d.comb += [
                        getattr(manager, channel + name).eq(getattr(self.bus, channel + name))
                        for name in names
                    ]

    def _owner(self, m, address, last, managers):
        """Return whose turn it is, whether its next burst may pass, and whether one is first offered."""
        bus, count = self.bus, len(managers)
        valid, ready = getattr(bus, f"{address}valid"), getattr(bus, f"{address}ready")
        owner = Signal(range(count), name=f"{address}_owner")
        opened = Signal(8, name=f"{address}_open")  # bursts of the owner that are not answered
        begun, ended = Signal(name=f"{address}_begun"), Signal(name=f"{address}_ended")
        others, asked = Signal(name=f"{address}_others"), Signal(name=f"{address}_asked")
        passes, asks = Signal(name=f"{address}_pass"), Signal(count, name=f"{address}_asks")
        final = bus.rlast if last == "r" else 1
        held = Signal(name=f"{address}_held")  # offered on the bus and not taken: must stay
        fresh = Signal(name=f"{address}_fresh")  # the owner was just chosen, and has a burst free
        m.d.comb += [
            asks.eq(Cat(getattr(manager, f"{address}valid") for manager in managers)),
            others.eq((asks & ~(1 << owner)).any()),
            passes.eq((~asked | held | fresh) & (opened != 0xFF)),
            begun.eq(valid & ready),
            ended.eq(getattr(bus, f"{last}valid") & getattr(bus, f"{last}ready") & final),
        ]
        m.d.sync += [
            asked.eq(others),
            opened.eq(opened + begun - ended),
            held.eq(valid & ~ready),
        ]
        with m.If(begun):
            m.d.sync += fresh.eq(0)
        with m.If((opened == 0) & ~valid):
            with m.If(others):
                m.d.sync += fresh.eq(1)
                with m.Switch(owner):
                    for k in range(count):
                        # the next in turn: later assignments win, so the nearest comes last
                        with m.Case(k):
                            for distance in range(count - 1, 0, -1):
                                with m.If(asks[(k + distance) % count]):
                                    m.d.sync += owner.eq((k + distance) % count)
            with m.Elif(asks == 0):
                m.d.sync += owner.eq(0)
        return owner, passes, valid & ~held

    def _owes(self, m, offered):
        """Return whether a burst lacks data that was offered on the bus: a manager that waits for it may have given some."""
        bus, owed = self.bus, Signal(8, name="w_owed")
        m.d.sync += owed.eq(owed + offered - (bus.wvalid & bus.wready & bus.wlast))
        return owed != 0

    def _lend(self, m, manager, channel, names, opens):
        """A channel to one manager; nothing passes but while `opens` is high."""
        to_bus = channel in ("ar", "aw", "w")
        source, sink = (manager, self.bus) if to_bus else (self.bus, manager)
        m.d.comb += [
            getattr(sink, f"{channel}valid").eq(getattr(source, f"{channel}valid") & opens),
            getattr(source, f"{channel}ready").eq(getattr(sink, f"{channel}ready") & opens),
        ]
        if to_bus:
            m.d.comb += [
                getattr(sink, channel + name).eq(getattr(source, channel + name)) for name in names
            ]
