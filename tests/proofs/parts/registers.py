# amaranth: UnusedElaboratable=no
"""ControlRegisters: what is written where, what is read, what is refused, all as the register map says."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockDomain, Const, DomainRenamer, Module, Mux, ResetInserter, Signal
from harness import Bench, Defect, Proof
from harness.payloads import channels, given

from penstock.hdl.shell import ControlRegisters
from penstock.hdl.shell.engine import restarted
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
        EngineRegister(
            "wide", 40, reset=5 << 32 | 3, legal=Legal(least=8, most=3 << 38, multiple=4)
        ),
        *(EngineRegister(f"small_{k}", 1, legal=Legal(most=k % 2)) for k in range(12)),
        EngineRegister("near", 4, legal=Legal(stride=3, count="small_11", apart=("far",))),
        EngineRegister("far", 4, legal=Legal(stride=2)),
    ],
    design=0xD5160,
)


class _Book:
    """What the map says of the registers: `kept` are those that are written, `read` is what each word
    reads as; of the word written now whether it is `mapped` and `refused`.
    """

    def __init__(self, b: Bench, dut, written, place) -> None:
        axil, self.control = dut.axil, {}
        engine = {r.name: r for r in MAP.engine}
        self.kept = {
            name: Signal(r.bits, init=r.reset, name=f"is_{name}") for name, r in engine.items()
        }
        self.beyond = {name: Signal(name=f"more_{name}") for name in engine}
        self.kept["watchdog"] = Signal(32, name="is_watchdog")
        self.enable, self.pending = Signal(name="on"), Signal(name="due")
        constants = {"identity": IDENTITY, "version": VERSION, "design": MAP.design, "control": 0}
        self.changed = Const(0)
        self.mapped, self.refused, self.read = Const(0), Const(0), {}
        for register in MAP.registers:
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
        """Return where the first register lies whose value is not legal, 0 for none."""
        wide, near, far = (self.kept[name] for name in ("wide", "near", "far"))
        end = near + 3 * self.kept["small_11"]
        fine = {f"small_{k}": (k % 2 == 1) | ~self.kept[f"small_{k}"] for k in range(12)}
        fine["wide"] = (wide >= 8) & (wide <= 3 << 38) & (wide[:2] == 0)
        fine["near"] = (end < 16) & ((end <= far) | (far + 2 <= near))
        fine["far"] = far + 2 < 16
        place = Const(0, 12)
        for r in reversed(MAP.engine):
            legal = fine[r.name] & ~self.beyond[r.name]
            place = Mux(legal, place, MAP[r.name].offset)
        return place


def registers() -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = ControlRegisters(MAP)
    axil, port = dut.axil, dut.signature.members["axil"].signature.flip()
    given(b, axil, "host", manager=True, signature=port)
    sides = channels(axil, port)
    b.d.comb += [getattr(dut, name).eq(b.free(name)) for name in ("busy", "dead", "ended")]
    b.d.comb += [dut.values[r.name].eq(b.free(r.name, r.bits)) for r in dut.live]
    for name in ("aw", "w", "ar"):
        side = sides[name]
        b.steady(b.assume, f"host.{name.upper()} (given)", side.valid, side.ready, side.payload)
    to, addressed, owed = Signal(len(axil.awaddr)), Signal(), Signal()
    written, recent = Signal(), Signal(4, init=15)
    to_control = to >> 2 == MAP["control"].offset // 4
    b.d.comb += written.eq(sides["w"].moves)
    with b.m.If(sides["aw"].moves):
        b.d.sync += [to.eq(axil.awaddr), addressed.eq(1)]
    with b.m.Elif(written):
        b.d.sync += addressed.eq(0)
    b.d.sync += owed.eq(written | (owed & ~axil.bready))
    book = _Book(b, dut, written, to >> 2)
    b.d.sync += recent.eq(Cat(book.changed, recent))
    answer = Signal(2)
    with b.m.If(written):
        b.d.sync += answer.eq(Mux(book.mapped, Mux(book.refused, 2, 0), 3))
    begins, place = book.control["control"], book.judged()
    for text, holds in {
        "an address is taken while none waits for its data": axil.awready == ~addressed,
        "data are taken behind their address, when the write before is answered; those of `control` when "
        "it is judged": axil.wready == (addressed & ~owed & ~(to_control & recent.any())),
        "where `control` is written, what was written before is judged": ~(written & to_control)
        | ((dut.illegal == (place != 0)) & (~dut.illegal | (dut.place == place))),
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
    b.cover("all is legal", begins & (place == 0))
    b.cover("the last register is not", begins & (place == MAP["far"].offset))
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
        "the interrupt; one of 40 bits; values that are not legal",
        registers,
        Defect(
            _REGISTERS,
            "held = self.busy & (own is not None and not own.live)",
            "held = self.busy & (own is not None and not own.live) & (half == 0)",
        ),
        covers=16,
    ),
    Proof(
        "hdl.shell.engine.restarted",
        "a body is reset a cycle after its domain is, by the shell or at power-up",
        again,
        Defect("hdl.shell.engine", 'ResetSignal("sync") | fresh', 'ResetSignal("sync")'),
    ),
]
