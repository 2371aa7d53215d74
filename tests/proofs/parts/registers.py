# amaranth: UnusedElaboratable=no
"""ControlRegisters: what is written where, what is read, what is refused, all as the register map says."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockDomain, Const, DomainRenamer, Module, Mux, ResetInserter, Signal
from harness import Bench, Defect, Proof
from harness.payloads import channels, given

from penstock.hdl.shell import ControlRegisters
from penstock.hdl.shell.engine_hardware import restarted
from penstock.models.shell import (
    IDENTITY,
    VERSION,
    Control,
    EngineRegister,
    Interrupt,
    Legal,
    RegisterMap,
)

#: the last word's number is 31, so that those behind the map differ from it in a further bit alone
MAP = RegisterMap(
    [
        EngineRegister("wide", 40, reset=5 << 32 | 3),
        *(EngineRegister(f"small_{k}", 1) for k in range(14)),
    ],
    design=0xD5160,
)
#: every kind of rule
RULED = RegisterMap(
    [
        EngineRegister("range", 5, legal=Legal(least=5, most=20, multiple=4)),
        EngineRegister(
            "near", 4, legal=Legal(size=1, each=(("count", 3), ("more", 5)), apart=("far",))
        ),
        EngineRegister("count", 1),
        EngineRegister("far", 4, legal=Legal(size=2)),
        EngineRegister("more", 1),
    ]
)


class _Book:
    """What the map says of the registers: `kept` are those that are written, `read` is what each word
    reads as; of the word written now whether it is `mapped` and `refused`.
    """

    def __init__(self, b: Bench, dut, written, place) -> None:
        axil, self.control, known = dut.axil, {}, dut.register_map
        engine = {r.name: r for r in known.engine}
        self.kept = {
            name: Signal(r.bits, init=r.reset, name=f"is_{name}") for name, r in engine.items()
        }
        self.beyond = {name: Signal(name=f"more_{name}") for name in engine}
        self.kept["watchdog"] = Signal(32, name="is_watchdog")
        self.enable, self.pending = Signal(name="on"), Signal(name="due")
        constants = {"identity": IDENTITY, "version": VERSION, "design": known.design, "control": 0}
        self.changed = Const(0)
        self.mapped, self.refused, self.read = Const(0), Const(0), {}
        for register in known.registers:
            name = register.name
            value = Const(constants[name], 64) if name in constants else self.kept.get(name)
            if value is None:
                value = Cat(self.enable, self.pending) if name == "interrupt" else dut.values[name]
            value = Cat(value, Const(0, 64))
            refused = 1 if register.access == "ro" else dut.busy & (name in engine)
            for half in range(register.bits // 32):
                word, first = register.offset // 4 + half, 32 * half
                self.read[word] = value[first : first + 32]
                here = written & (place == word)
                self.mapped, self.refused = self.mapped | here, self.refused | (here & refused)
                if name in self.kept:
                    target = self.kept[name][first : first + 32]
                    frozen = dut.dead & (name in engine)
                    if name in engine:
                        self.changed |= here & ~refused & ~frozen
                    for lane in range(-(-len(target) // 8)):
                        with b.m.If(here & ~refused & ~frozen & axil.wstrb[lane]):
                            data = axil.wdata.word_select(lane, 8)
                            b.d.sync += target[8 * lane : 8 * lane + 8].eq(data)
                    if len(target) < 32:
                        taken = Cat(bit.replicate(8) for bit in axil.wstrb) & axil.wdata
                        lost = taken >> len(target) != 0
                        with b.m.If(here & ~refused & ~frozen & (lost | (axil.wstrb == 15))):
                            b.d.sync += self.beyond[name].eq(lost)
                elif register.access != "ro":
                    self.control[name] = here & axil.wstrb[0]
        to_interrupt = self.control["interrupt"]
        with b.m.If(to_interrupt):
            b.d.sync += self.enable.eq((axil.wdata & Interrupt.ENABLE) != 0)
        clears = to_interrupt & ((axil.wdata & Interrupt.PENDING) != 0)
        b.d.sync += self.pending.eq(dut.ended | (self.pending & ~clears))

    def judged(self):
        """Return where the first register lies of `RULED` whose value is not legal, 0 for none."""
        ranged, near, far = (self.kept[name] for name in ("range", "near", "far"))
        end = near + 1 + 3 * self.kept["count"] + 5 * self.kept["more"]
        fine = {
            "range": (ranged >= 5) & (ranged <= 20) & (ranged[:2] == 0),
            "near": (end < 16) & ((end <= far) | (far + 2 <= near)),
            "count": Const(1),
            "far": far + 2 < 16,
            "more": Const(1),
        }
        place = Const(0, 12)
        for name in ("more", "far", "count", "near", "range"):
            place = Mux(fine[name] & ~self.beyond[name], place, RULED[name].offset)
        return place


class _Written:
    """A host's writes to the registers of a map: the address that waits (`to`, `addressed`), whether one is `written`, its answer
    `owed`; `judging`: an engine register was written a little ago."""

    def __init__(self, b: Bench, known: RegisterMap) -> None:
        self.dut = dut = b.m.submodules.dut = ControlRegisters(known)
        axil, port = dut.axil, dut.signature.members["axil"].signature.flip()
        given(b, axil, "host", manager=True, signature=port)
        self.sides = sides = channels(axil, port)
        b.d.comb += [getattr(dut, name).eq(b.free(name)) for name in ("busy", "dead", "ended")]
        b.d.comb += [dut.values[r.name].eq(b.free(r.name, r.bits)) for r in dut.live]
        for name in ("aw", "w", "ar"):
            side = sides[name]
            b.steady(b.assume, f"host.{name.upper()} (given)", side.valid, side.ready, side.payload)
        self.to, self.addressed, self.owed = Signal(len(axil.awaddr)), Signal(), Signal()
        self.written, recent = Signal(), Signal(4, init=15)
        self.to_control = self.to >> 2 == known["control"].offset // 4
        b.d.comb += self.written.eq(sides["w"].moves)
        with b.m.If(sides["aw"].moves):
            b.d.sync += [self.to.eq(axil.awaddr), self.addressed.eq(1)]
        with b.m.Elif(self.written):
            b.d.sync += self.addressed.eq(0)
        b.d.sync += self.owed.eq(self.written | (self.owed & ~axil.bready))
        self.book = _Book(b, dut, self.written, self.to >> 2)
        b.d.sync += recent.eq(Cat(self.book.changed, recent))
        self.judging = recent.any()


def judgement() -> Bench:
    b = Bench()
    host = _Written(b, RULED)
    dut, place = host.dut, host.book.judged()
    begins = host.book.control["control"]
    b.check(
        "where `control` is written, what was written before is judged",
        ~(host.written & host.to_control)
        | ((dut.illegal == (place != 0)) & (~dut.illegal | (dut.place == place))),
    )
    b.cover("all is legal", begins & (place == 0))
    b.cover("the last register is not", begins & (place == RULED["far"].offset))
    return b


def registers() -> Bench:
    b = Bench()
    host = _Written(b, MAP)
    dut, axil, sides, book = host.dut, host.dut.axil, host.sides, host.book
    written, owed = host.written, host.owed
    answer = Signal(2)
    with b.m.If(written):
        b.d.sync += answer.eq(Mux(book.mapped, Mux(book.refused, 2, 0), 3))
    begins = book.control["control"]
    for text, holds in {
        "an address is taken while none waits for its data": axil.awready == ~host.addressed,
        "data are taken behind their address, when the write before is answered; those of `control` when "
        "it is judged": axil.wready == (host.addressed & ~owed & ~(host.to_control & host.judging)),
        "each write is answered": axil.bvalid == owed,
        "OKAY, SLVERR where it is refused, DECERR where nothing is": ~axil.bvalid
        | (axil.bresp == answer),
        "START, while no run is busy": dut.start
        == (begins & ((axil.wdata & Control.START) != 0) & ~dut.busy),
        "RESET": dut.reset == (begins & ((axil.wdata & Control.RESET) != 0)),
        "the interrupt": dut.irq == (book.enable & book.pending),
        "the watchdog": dut.watchdog == book.kept["watchdog"],
        **{f"`{r.name}`": dut.registers[r.name] == book.kept[r.name] for r in MAP.engine},
    }.items():
        b.check(text, holds)
    # a read sees the cycle after that of its address
    at, took, due = Signal(len(axil.araddr)), Signal(), Signal()
    data, found = Signal(32), Signal(2)
    with b.m.If(sides["ar"].moves):
        b.d.sync += at.eq(axil.araddr)
    b.d.sync += [took.eq(sides["ar"].moves), due.eq(took | (due & ~axil.rready))]
    with b.m.If(took):
        b.d.sync += [data.eq(0), found.eq(3)]
        for word, value in book.read.items():
            with b.m.If(at >> 2 == word):
                b.d.sync += [data.eq(value), found.eq(0)]
    b.check("an address is taken while no read is open", axil.arready == ~(took | due))
    b.check("each read is answered", axil.rvalid == due)
    b.check("what is read is there", ~due | (Cat(axil.rdata, axil.rresp) == Cat(data, found)))
    b.cover("a write is refused", axil.bvalid & (answer == 2))
    b.cover("nothing is there", axil.rvalid & (axil.rresp == 3))
    (wide,) = (r for r in MAP.registers if r.name == "wide")
    upper = wide.offset // 4 + 1
    b.cover("the upper half is read", due & (at >> 2 == upper) & (axil.rdata != 5))
    return b


def again() -> Bench:
    """A body that counts, in a domain with a reset of its own."""
    b, body, count = Bench(), Module(), Signal(3)
    body.d.sync += count.eq(count + 1)
    clear, reset = b.free("clear"), b.free("reset")
    domain = b.m.domains.own = ClockDomain("own")
    b.d.comb += [domain.clk.eq(b.clock.clk), domain.rst.eq(reset)]
    b.m.submodules.dut = DomainRenamer("own")(ResetInserter(clear)(restarted(body)))
    fresh = b.past(b.past(clear | reset, init=1)) | b.past(reset, init=1)
    b.check(
        "it is reset a cycle after the shell's reset, and counts else",
        count == Mux(fresh, 0, (b.past(count) + 1)[:3]),
    )
    b.cover("it is reset while it counts", b.past(count) == 5)
    return b


_REGISTERS = "hdl.shell.registers"

PROOFS = [
    Proof(
        "hdl.shell.ControlRegisters",
        "each register is written, kept, read and refused as the map says, byte by byte; START, RESET, "
        "the interrupt; one of 40 bits",
        registers,
        Defect(
            _REGISTERS,
            "held = self.busy & (entry is not None and not entry.live)",
            "held = self.busy & (entry is not None and not entry.live) & (half == 0)",
        ),
        covers=16,
    ),
    Proof(
        "hdl.shell.ControlRegisters",
        "where a run may start, all that was written has been judged by the map's rules: range, multiple, "
        "bytes behind an address, what lies apart, bits beyond a width",
        judgement,
        Defect(_REGISTERS, "beyond.eq(lost | kept)", "beyond.eq(lost)"),
        covers=20,
    ),
    Proof(
        "hdl.shell.engine_hardware.restarted",
        "a body is reset a cycle after its domain is, by the shell or at power-up",
        again,
        Defect("hdl.shell.engine_hardware", 'ResetSignal("sync") | fresh', 'ResetSignal("sync")'),
    ),
]
