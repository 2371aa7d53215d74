# amaranth: UnusedElaboratable=no
"""What passes a part at once arrives with all its fields: arbiter, guard, shell, ports that are shared or
lent, a whole device. Fields are the signatures': none is listed here.
"""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from harness import Bench, Defect, Proof
from harness.payloads import channels, given, passes
from harness.substitute import replaced

from penstock.hdl.memory import AXI4, Arbiter
from penstock.hdl.memory.axi import lent_to, shared_by
from penstock.hdl.memory.guard import Guard
from penstock.hdl.shell import Shell, engine_members
from penstock.hdl.soc import Soc
from penstock.models.shell import Control, RegisterMap

PORT = AXI4(address_width=12, data_bytes=4, id_width=3)
READS = AXI4(address_width=12, data_bytes=4, id_width=3, write=False)
WRITES = AXI4(address_width=12, data_bytes=4, id_width=3, read=False)


def _between(b: Bench, managers: dict, bus, *, all_of_it=1) -> None:
    """Give anything to managers' sides, of these ports, and to the bus; check what passes."""
    for name, (side, port) in managers.items():
        given(b, side, name, manager=True, signature=port)
    given(b, bus, "bus", manager=False, signature=PORT)
    sides = {name: channels(side, port) for name, (side, port) in managers.items()}
    passes(b, sides, channels(bus, PORT), all_of_it=all_of_it)


def arbiter() -> Bench:
    b = Bench()
    ports = [PORT, READS, WRITES, PORT]
    dut = b.m.submodules.dut = Arbiter(ports)
    _between(b, {f"m{k}": (getattr(dut, f"m{k}"), port) for k, port in enumerate(ports)}, dut.bus)
    return b


def guard() -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = Guard(PORT, writes=2)
    b.d.comb += dut.stop.eq(b.free("stop"))
    _between(b, {"master": (dut.master, PORT)}, dut.bus, all_of_it=~dut.stop)
    return b


_LENT = {"manager": PORT, "reader": READS, "writer": WRITES, "first": READS, "second": WRITES}


class Lent(wiring.Component):
    """A port that is lent to a reader and to a writer, else a manager's; and one that both share."""

    def __init__(self) -> None:
        members = {name: In(port) for name, port in _LENT.items()}
        super().__init__(members | {"lent": In(2), "bus": Out(PORT), "shared": Out(PORT)})

    def elaborate(self, platform):
        m = Module()
        own = {name: wiring.flipped(getattr(self, name)) for name in ("manager", "first", "second")}
        guests = [(self.reader, self.lent[0]), (self.writer, self.lent[1])]
        lent_to(m, self.bus, own["manager"], *guests)
        shared_by(m, self.shared, own["first"], own["second"])
        return m


def ports() -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = Lent()
    b.d.comb += dut.lent.eq(b.free("lent", 2))
    sides = {name: channels(getattr(dut, name), port) for name, port in _LENT.items()}
    for name, port in _LENT.items():
        given(b, getattr(dut, name), name, manager=True, signature=port)
    for bus, names in ((dut.bus, list(_LENT)[:3]), (dut.shared, list(_LENT)[3:])):
        given(b, bus, "bus" if bus is dut.bus else "shared", manager=False, signature=PORT)
        # who does not have the port offers nothing
        passes(b, {name: sides[name] for name in names}, channels(bus, PORT))
    for name, lent in (("reader", dut.lent[0]), ("writer", dut.lent[1])):
        for channel, mine in sides[name].items():
            b.check(f"{name}: {channel.upper()} moves for it alone", ~mine.moves | lent)
    return b


class FreeEngine(wiring.Component):
    """An engine whose outputs somebody else drives; it never ends."""

    settling = 1

    def __init__(self, ports: list[AXI4]) -> None:
        self.register_map = RegisterMap()
        super().__init__(engine_members(self.register_map, ports))

    def elaborate(self, platform):
        return Module()


class _Flat:
    """Flat names as an interface."""

    def __init__(self, dut, prefix: str, port) -> None:
        for name in port.members:
            setattr(self, name, getattr(dut, f"{prefix}_{name}"))


def _goes_on(b: Bench, shell: Shell, host) -> Signal:
    """Whether nothing but `control` was written, and no RESET there: nothing stops the engine."""
    place = next(r.offset for r in shell.register_map.registers if r.name == "control")
    calm, before = Signal(), Signal(init=1)
    ends = (host.awvalid & (host.awaddr != place)) | (
        host.wvalid & host.wdata[Control.RESET.value >> 1]
    )
    b.d.comb += calm.eq(before & ~ends)
    b.d.sync += before.eq(calm)
    return calm


def shell() -> Bench:
    b = Bench()
    engine = FreeEngine([PORT, READS])
    dut = b.m.submodules.dut = Shell(engine, engine.register_map)
    host = _Flat(dut, "s_axil", dut.control)
    given(b, host, "host", manager=True, signature=dut.control)
    going = _goes_on(b, dut, host)
    for k, port in enumerate(engine_ports := [PORT, READS]):
        inner, outer = getattr(engine, f"m{k}"), _Flat(dut, f"m{k}_axi", port)
        given(b, inner, f"engine.m{k}", manager=True, signature=port)
        given(b, outer, f"m{k}", manager=False, signature=port)
        passes(b, {f"engine.m{k}": channels(inner, port)}, channels(outer, port), all_of_it=going)
    assert len(engine_ports) == len(dut.ports)
    return b


class _FreeLink(wiring.Component):
    """A link whose outputs somebody else drives."""

    def __init__(self, kind, *args, **shape) -> None:
        super().__init__(kind(*args, **shape).signature)

    def elaborate(self, platform):
        return Module()


def device() -> Bench:
    """A memory outside, an engine with two ports, a link: what each of them says and hears."""
    b = Bench()
    engine, links = FreeEngine([PORT, READS]), []

    def link(kind):
        return lambda *args, **shape: links.append(_FreeLink(kind, *args, **shape)) or links[-1]

    dut = Soc(
        engine,
        engine.register_map,
        memory_bytes=4096,
        clock_hz=1_000_000,
        baud=100_000,
        memory="outside",
    )
    with replaced({"hdl.soc.soc": {"Link": link}}):
        b.m.submodules.dut = dut.elaborate(None)
    dut._MustUse__used = True
    axil = channels(links[0].axil, dut.shell.control)
    given(b, links[0].axil, "link.axil", manager=True, signature=dut.shell.control)
    sides = {
        "engine.m0": (engine.m0, PORT),
        "engine.m1": (engine.m1, READS),
        "link": (links[0].bus, PORT),
    }
    _between(b, sides, dut.memory, all_of_it=0)
    host = _Flat(dut.shell, "s_axil", dut.shell.control)
    passes(b, {"link.axil": axil}, channels(host, dut.shell.control))
    b.check("the lamp and the line", (dut.busy == dut.shell.busy) & (dut.tx == links[0].tx))
    b.check("the line's other way", links[0].rx == dut.rx)
    return b


_AXI, _ARBITER, _GUARD = "hdl.memory.axi", "hdl.memory.arbiter", "hdl.memory.guard"
_ALL = "all fields of all channels arrive as they were, in both directions, whatever anybody does"

PROOFS = [
    Proof(
        "hdl.memory.Arbiter",
        f"{_ALL}; 4 managers, of which one reads alone and one writes alone",
        arbiter,
        (
            *(
                Defect(_ARBITER, old, new)
                for old, new in (
                    ('("aw", ("id", "addr", "len", "size", "burst"))', f'("aw", {fields})')
                    for fields in (
                        ("addr", "len", "size", "burst"),
                        ("id", "len", "size", "burst"),
                        ("id", "addr", "len", "burst"),
                        ("id", "addr", "len", "size"),
                    )
                )
            ),
            Defect(_ARBITER, '("w", ("data", "strb", "last"))', '("w", ("data", "last"))'),
        ),
    ),
    Proof(
        "hdl.memory.Guard",
        _ALL,
        guard,
        Defect(_GUARD, '("id", "addr", "len", "size", "burst")', '("id", "addr", "len", "size")'),
    ),
    Proof(
        "hdl.memory.axi.lent_to",
        f"and `shared_by`: {_ALL}; a port that is lent to a reader and a writer, one that both share",
        ports,
        Defect(_AXI, "inner = Mux(lent, guest, inner)", "inner = Mux(lent, inner, guest)"),
    ),
    Proof(
        "hdl.shell.Shell",
        f"{_ALL}, between an engine's two ports and the shell's",
        shell,
        Defect("hdl.shell.shell", "inner.eq(outer)", "inner.eq(0)"),
        covers=16,
    ),
    Proof(
        "hdl.soc.Soc",
        f"{_ALL}, between an engine and the memory, the link and the memory, the link and the shell",
        device,
        Defect(
            "hdl.soc.soc",
            "m.d.comb += inner.eq(outer) if member.flow is Out else outer.eq(inner)",
            "m.d.comb += inner.eq(outer) if member.flow is Out else outer.eq(0)",
        ),
        covers=16,
    ),
]
