"""The AXI4-Lite subordinate in front of the registers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.shell import CONTROL, IDENTITY, VERSION, Control, Interrupt
from ..memory.axi import AXI4Lite, Response


class ControlRegisters(wiring.Component):
    """The register map on AXI4-Lite.

    One write and one read at a time; AW and W in any order; byte strobes are obeyed. The low two address bits are ignored.
    Unmapped words answer DECERR. A write to a read-only register, or to an engine register that is not `live` while a run is busy,
    changes nothing and answers SLVERR.

    Each register's value is judged by the map's rules. Bits beyond its width are not stored, but make it illegal until its last word is
    written whole. `control` is written five cycles behind an engine register at the earliest: what was written then has been judged.

    * `register_map`: `models.shell.RegisterMap`.
    """

    def __init__(self, register_map):
        self.register_map = register_map
        constants = ("identity", "version", "design")
        self.live = [
            r for r in register_map.registers if r.access == "ro" and r.name not in constants
        ]
        members = {
            "axil": In(AXI4Lite(address_width=register_map.address_width)),
            # one-cycle pulses
            "start": Out(1),
            "reset": Out(1),
            "busy": In(1),
            "dead": In(1),  # the engine's registers stay as they are, as its run does
            # what the registers without storage here read as: one member for each read-only
            # register but the constants
            "values": In(data.StructLayout({r.name: r.bits for r in self.live})),
            "illegal": Out(1),  # the value of a register is not legal
            "place": Out(register_map.address_width),  # the first such register's offset
            "watchdog": Out(32),
            "ended": In(1),  # a pulse: sets the pending interrupt
            "irq": Out(1),
        }
        if register_map.engine:
            # values of the engine's registers
            members["registers"] = Out(
                data.StructLayout({r.name: r.bits for r in register_map.engine})
            )
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        self.enable = Signal()
        self.pending = Signal()
        m.d.comb += self.irq.eq(self.enable & self.pending)

        self._write_channel(m)
        self._write_registers(m)

        self._judge(m)
        self._reads(m)
        return m

    def _write_channel(self, m):
        """An address is held until its data is there."""
        self.address = Signal(self.register_map.address_width)
        addressed = Signal()
        self.write, self.changed = Signal(), Signal()
        judging = Signal(4, init=15)  # a bit for each stage of `_judge`
        control = self.address[2:] == self.register_map["control"].offset // 4
        self.word, self.strobe = self.axil.wdata, self.axil.wstrb
        m.d.sync += judging.eq(Cat(self.changed, judging))
        m.d.comb += [
            self.axil.awready.eq(~addressed),
            self.axil.wready.eq(addressed & ~self.axil.bvalid & ~(control & judging.any())),
            self.write.eq(self.axil.wvalid & self.axil.wready),
        ]
        with m.If(self.axil.awvalid & self.axil.awready):
            m.d.sync += [self.address.eq(self.axil.awaddr), addressed.eq(1)]
        with m.If(self.axil.bvalid & self.axil.bready):
            m.d.sync += self.axil.bvalid.eq(0)
        with m.If(self.write):
            m.d.sync += [addressed.eq(0), self.axil.bvalid.eq(1)]

    def _write_registers(self, m):
        """What is written where."""
        # ones that are written, for bits that act on them: all lie in the lowest byte
        ones = Mux(self.strobe[0], self.word[:8], 0)
        engine = {r.name: r for r in self.register_map.engine}
        self.storage = {"watchdog": self.watchdog} | {
            name: Signal(r.bits, init=r.reset, name=f"register_{name}")
            for name, r in engine.items()
        }
        self.beyond = {n: Signal(name=f"beyond_{n}") for n, r in engine.items() if r.bits % 32}
        m.d.comb += [self.registers[name].eq(self.storage[name]) for name in engine]
        with m.If(self.ended):
            m.d.sync += self.pending.eq(1)
        with m.If(self.write):
            with m.Switch(self._place(self.address)):
                for register in self.register_map.registers:
                    for half in range(register.bits // 32):
                        with m.Case(register.offset // 4 + half):
                            if register.access == "ro":
                                m.d.sync += self.axil.bresp.eq(Response.SLVERR.value)
                                continue
                            m.d.sync += self.axil.bresp.eq(Response.OKAY.value)
                            if register.name == "control":
                                m.d.comb += [
                                    self.start.eq((ones & Control.START != 0) & ~self.busy),
                                    self.reset.eq(ones & Control.RESET != 0),
                                ]
                            elif register.name == "interrupt":
                                with m.If(self.strobe[0]):
                                    m.d.sync += self.enable.eq((self.word & Interrupt.ENABLE) != 0)
                                with m.If(ones & Interrupt.PENDING != 0):
                                    m.d.sync += self.pending.eq(self.ended)
                            else:
                                target = self.storage[register.name][32 * half : 32 * half + 32]
                                entry = engine.get(register.name)
                                held = self.busy & (entry is not None and not entry.live)
                                with m.If(held):
                                    m.d.sync += self.axil.bresp.eq(Response.SLVERR.value)
                                with m.Elif(~(self.dead & (entry is not None))):
                                    m.d.comb += self.changed.eq(entry is not None)
                                    for lane in range(-(-len(target) // 8)):
                                        with m.If(self.strobe[lane]):
                                            m.d.sync += target[8 * lane : 8 * lane + 8].eq(
                                                self.word.word_select(lane, 8)
                                            )
                                    if len(target) < 32:
                                        mask = Cat(bit.replicate(8) for bit in self.strobe)
                                        lost = (self.word & mask)[len(target) :].any()
                                        beyond = self.beyond[register.name]
                                        kept = beyond & ~self.strobe.all()
                                        m.d.sync += beyond.eq(lost | kept)
                with m.Default():
                    m.d.sync += self.axil.bresp.eq(Response.DECERR.value)

    def _judge(self, m):
        """Whether a run may start with what is stored, in four stages: how many bytes there are, where they end, whose value is not
        legal, the first of those."""
        engine = self.register_map.engine
        wrong = Signal(len(engine))
        ends = {r.name: self._end(m, r) for r in engine if r.rule.size or r.rule.each}
        m.d.sync += self.illegal.eq(wrong.any())
        for k, register in reversed(list(enumerate(engine))):
            name, rule, value = register.name, register.rule, self.storage[register.name]
            end = {n: ends[n] if n in ends else self.storage[n] for n in (name, *rule.apart)}
            low = value[: rule.multiple.bit_length() - 1]
            faults = [self.beyond.get(name, Const(0)), low.any(), value < rule.least]
            faults += [value > register.most, end[name][register.bits :].any()]
            faults += [(self.storage[n] < end[name]) & (value < end[n]) for n in rule.apart]
            m.d.sync += wrong[k].eq(Cat(faults).any())
            with m.If(wrong[k]):
                m.d.sync += self.place.eq(self.register_map[name].offset)

    def _end(self, m, register):
        """Where an address's bytes end, two cycles late."""
        rule, size = register.rule, Const(register.rule.size)
        if rule.each:
            extent = sum((self.storage[name] * each for name, each in rule.each), size)
            size = Signal(extent.shape(), name=f"size_{register.name}")
            m.d.sync += size.eq(extent)
        total = self.storage[register.name] + size
        end = Signal(total.shape(), name=f"end_{register.name}")
        m.d.sync += end.eq(total)
        return end

    def _reads(self, m):
        """Address in one cycle, data in the next."""
        place = Signal(self.register_map.address_width)
        reading = Signal()
        m.d.comb += self.axil.arready.eq(~reading & ~self.axil.rvalid)
        with m.If(self.axil.arvalid & self.axil.arready):
            m.d.sync += [place.eq(self.axil.araddr), reading.eq(1)]
        with m.If(self.axil.rvalid & self.axil.rready):
            m.d.sync += self.axil.rvalid.eq(0)
        sources = {
            "identity": Const(IDENTITY, 32),
            "version": Const(VERSION, 32),
            "design": Const(self.register_map.design, 32),
            "control": Const(0, 32),
            "interrupt": Cat(self.enable, self.pending),
        }
        sources |= self.storage | {r.name: self.values[r.name] for r in self.live}
        with m.If(reading):
            m.d.sync += [
                reading.eq(0),
                self.axil.rvalid.eq(1),
                self.axil.rdata.eq(0),
                self.axil.rresp.eq(Response.OKAY.value),
            ]
            with m.Switch(self._place(place)):
                for register in self.register_map.registers:
                    for half in range(register.bits // 32):
                        with m.Case(register.offset // 4 + half):
                            m.d.sync += self.axil.rdata.eq(
                                sources[register.name][32 * half : 32 * half + 32]
                            )
                with m.Default():
                    m.d.sync += self.axil.rresp.eq(Response.DECERR.value)

    def _place(self, address):
        """The number of the word at an address, in few bits: all that lie behind the map have one that no register has."""
        last = self.register_map.registers[-1]
        bits = ((last.offset + last.bits // 8) // 4).bit_length()
        return (
            Mux(address[2 + bits :].any(), (1 << bits) - 1, address[2 : 2 + bits])
            if len(address) > 2 + bits
            else address[2:]
        )


assert all(r.access == "ro" or r.name in ("control", "interrupt", "watchdog") for r in CONTROL), (
    "a register without hardware"
)
