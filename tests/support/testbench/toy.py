"""A small engine that exercises all of the shell: it copies words through a queue and counts them.

Each of its ports copies `words` bus words from `source` to `target`, XORed with `key` in every 32 bits; port k works `k *
stride` bytes further on. The tests, the harness's benchmark and the cocotb bench use it; `cycles` is its exact cycle model.
"""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from penstock.hdl.memory import AXI4, BurstReader, BurstWriter
from penstock.hdl.shell import engine_members
from penstock.hdl.stream import Queue, observe
from penstock.models.errors import ErrorCode
from penstock.models.memory import FixedLatency, Reader, Writer
from penstock.models.shell import Counter, EngineRegister, Monitor, RegisterMap

__all__ = ["CopyEngine", "copy_cycles", "copy_map"]

#: words that wait between a port's reader and its writer
DEPTH = 6


def copy_map(ports: int = 1) -> RegisterMap:
    """The register map of a CopyEngine. `hold` ≠ 0 makes it hang: nothing is written."""
    return RegisterMap(
        [
            EngineRegister("source", 40),
            EngineRegister("target", 40),
            EngineRegister("stride", 40),
            EngineRegister("words", 24),
            EngineRegister("key", 32, reset=0xA5A5A5A5),
            EngineRegister("hold", 1),
        ],
        [Counter("words_copied", "words read on all ports", ports.bit_length())],
        [Monitor(f"queue{k}", DEPTH.bit_length()) for k in range(ports)],
        design=0xC0B1E5,
    )


class CopyEngine(wiring.Component):
    """See the module. `bus_bytes` and `address_width` of each port; `ports` of them; `register_map`: with more in it, which does nothing."""

    def __init__(self, *, bus_bytes=8, ports=1, address_width=40, register_map=None):
        self.bus_bytes = bus_bytes
        self.ports = ports
        self.register_map = register_map or copy_map(ports)
        super().__init__(
            engine_members(
                self.register_map, [AXI4(data_bytes=bus_bytes, address_width=address_width)] * ports
            )
        )

    def elaborate(self, platform):
        m = Module()
        registers = self.registers
        idle = []
        failed = []
        moved = []
        given = []
        m.d.comb += self.report.code.eq(ErrorCode.BUS_READ.value)
        for k in range(self.ports):
            m.submodules[f"reader{k}"] = reader = BurstReader(bus_bytes=self.bus_bytes)
            m.submodules[f"writer{k}"] = writer = BurstWriter(bus_bytes=self.bus_bytes)
            m.submodules[f"queue{k}"] = queue = Queue(8 * self.bus_bytes, DEPTH)
            bus = getattr(self, f"m{k}")
            for name, member in bus.signature.members.items():
                side = reader.bus if name[0] == "r" or name[:2] == "ar" else writer.bus
                inner, outer = getattr(side, name), getattr(bus, name)
                m.d.comb += outer.eq(inner) if member.flow is wiring.Out else inner.eq(outer)
            for part, base, name in (
                (reader, registers.source, "read"),
                (writer, registers.target, "write"),
            ):
                ask = Signal(name=f"{name}{k}")
                m.d.comb += [
                    part.i.valid.eq(ask),
                    part.i.p.address.eq(base + k * registers.stride),
                    part.i.p.beats.eq(registers.words),
                ]
                with m.If(self.start):
                    m.d.sync += ask.eq(1)
                with m.Elif(part.i.ready):
                    m.d.sync += ask.eq(0)
                given.append(~ask)
            m.d.comb += [
                queue.i.payload.eq(reader.o.p.data),
                queue.i.valid.eq(reader.o.valid),
                reader.o.ready.eq(queue.i.ready),
                writer.i_data.payload.eq(
                    queue.o.payload ^ registers.key.replicate(self.bus_bytes // 4)
                ),
                writer.i_data.valid.eq(queue.o.valid & ~registers.hold),
                queue.o.ready.eq(writer.i_data.ready & ~registers.hold),
            ]
            m.d.comb += observe(self.monitors[f"queue{k}"], queue.o, queue.level)
            idle.append(writer.idle)
            failed += [reader.error, writer.error]
            moved.append(reader.o.valid & reader.o.ready)
            with m.If(writer.error):
                m.d.comb += self.report.code.eq(ErrorCode.BUS_WRITE.value)
            with m.If(reader.error | writer.error):
                m.d.comb += self.report.block.eq(k)
        busy = Signal()
        m.d.comb += [
            self.counters.words_copied.eq(sum(moved)),
            self.error.eq(busy & Cat(failed).any()),
            self.done.eq(busy & Cat(given).all() & Cat(idle).all()),
        ]
        with m.If(self.start):
            m.d.sync += busy.eq(1)
        with m.Elif(self.done | self.error):
            m.d.sync += busy.eq(0)
        return m


def copy_cycles(
    memory: FixedLatency,
    *,
    bus_bytes: int,
    ports: int,
    source: int,
    target: int,
    stride: int,
    words: int,
) -> int:
    """The `cycles` of a run of CopyEngine."""
    end = 0
    for k in range(ports):
        reader, writer = Reader(memory, bus_bytes), Writer(memory, bus_bytes)
        reader.command(1, source + k * stride, words)
        popped: list[int] = []

        def offered(previous: int, reader: Reader = reader, popped: list[int] = popped) -> int:
            if previous >= 0:
                popped.append(previous)
            room = popped[-DEPTH] + 1 if len(popped) >= DEPTH else 0
            return reader.accept(room) + 1

        end = max(end, writer.write(1, target + k * stride, words, offered)[2])
    return end
