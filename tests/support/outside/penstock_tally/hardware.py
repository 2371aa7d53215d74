"""The engine in hardware."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from penstock.hdl.memory import AXI4, BurstReader, BurstWriter, shared_by
from penstock.hdl.shell import engine_members
from penstock.models.errors import ErrorCode

from .spec import BUS, TallyError, register_map

__all__ = ["TallyEngine"]


class TallyEngine(wiring.Component):
    """Reads `words` words from `source` on port 0, a word a cycle, and writes gain times their sum
    to `target` on port 1."""

    def __init__(self, gain: int, design: int) -> None:
        self.gain, self.register_map = gain, register_map(design)
        ports = [AXI4(data_bytes=BUS, write=False), AXI4(data_bytes=BUS, read=False)]
        super().__init__(engine_members(self.register_map, ports))

    def elaborate(self, platform: Any) -> Module:
        m, registers = Module(), self.registers
        m.submodules.reader = reader = BurstReader(bus_bytes=BUS)
        m.submodules.writer = writer = BurstWriter(bus_bytes=BUS)
        shared_by(m, self.m0, reader.bus)
        shared_by(m, self.m1, writer.bus)
        for part, address, beats, name in (
            (reader, registers.source, registers.words, "read"),
            (writer, registers.target, 1, "write"),
        ):
            ask = Signal(name=f"ask_{name}")
            m.d.comb += [
                part.i.valid.eq(ask),
                part.i.p.address.eq(address),
                part.i.p.beats.eq(beats),
            ]
            with m.If(self.start):
                m.d.sync += ask.eq(1)
            with m.Elif(part.i.ready):
                m.d.sync += ask.eq(0)
        total, left, busy, full = Signal(64), Signal(24), Signal(), Signal()
        taken, forbidden = Signal(), Signal()
        m.d.comb += [
            reader.o.ready.eq(1),
            taken.eq(reader.o.valid & busy),
            writer.i_data.payload.eq(total),
            writer.i_data.valid.eq(full),
            self.counters.summed.eq(taken),
            self.error.eq(busy & (forbidden | reader.error | writer.error)),
            self.report.code.eq(TallyError.TALLY_FORBIDDEN.value),
            self.report.block.eq(registers.words - left - 1),
        ]
        with m.If(reader.error):
            m.d.comb += [self.report.code.eq(ErrorCode.BUS_READ.value), self.report.block.eq(0)]
        with m.Elif(writer.error):
            m.d.comb += [self.report.code.eq(ErrorCode.BUS_WRITE.value), self.report.block.eq(0)]
        with m.If(self.start):
            m.d.sync += [busy.eq(1), total.eq(0), left.eq(registers.words), forbidden.eq(0)]
        with m.Elif(self.done | self.error):
            m.d.sync += busy.eq(0)
        with m.If(taken):
            m.d.sync += [
                total.eq(total + self.gain * reader.o.p.data),
                left.eq(left - 1),
                forbidden.eq(reader.o.p.data.all()),
            ]
            with m.If(left == 1):
                m.d.sync += full.eq(~reader.o.p.data.all())
        with m.If(full & writer.i_data.ready):
            m.d.sync += full.eq(0)
        written = Signal()
        with m.If(self.start):
            m.d.sync += written.eq(0)
        with m.Elif(full & writer.i_data.ready):
            m.d.sync += written.eq(1)
        m.d.comb += self.done.eq(busy & written & Cat(writer.idle).all() & ~self.error)
        return m
