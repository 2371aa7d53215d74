"""Frames that open sessions, from the host's memory to the door and back. Specification:
`models.omap.boundary`."""

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.crypto.noise import FIRST_BYTES, second_bytes
from ...models.omap.boundary import Frames
from ...models.omap.config import BLOCK
from ...models.omap.sessions import WELCOME_BYTES
from ..memory import AXI4, BurstReader
from ..stream.passing import fields
from .pages import WordDrain


class OpeningFrames(wiring.Component):
    """Fetches one frame at the beginning of a run, and writes one answer at its end. Timing:
    `models.omap.session_stages.fetched`, `collected`.
    """

    def __init__(self, config):
        self.frames = Frames.of(config)
        size = config.host_bus_bytes
        super().__init__(
            {
                "take": In(1),  # fetch a frame
                "address": In(40),
                "taken": Out(1),  # it is there, and the door has begun, if it was idle
                # from now on no request is under way: write the answer, when it is ready, and let
                # its session take the slot
                "collect": In(1),
                "to": In(40),
                "told": Out(1),  # the answer is written
                # of the door (`door.Door`), down to `message`
                "start": Out(1),
                "slot": Out(16),
                "asked": Out(8),
                "first": Out(8 * FIRST_BYTES),
                "idle": In(1),
                "ready": In(1),
                "commit": Out(1),
                "told_slot": In(16),
                "refusal": In(8),
                "message": In(8 * second_bytes(WELCOME_BYTES)),
                "read_error": Out(1),
                "write_error": Out(1),
                "reads": Out(AXI4(data_bytes=size, write=False)),
                "writes": Out(AXI4(data_bytes=size, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        frames, bits = self.frames, 8 * self.frames.bus_bytes
        m.submodules.reader = reader = BurstReader(bus_bytes=frames.bus_bytes)
        m.submodules.drain = drain = WordDrain(frames.bus_bytes, frames.welcome_beats)
        wiring.connect(m, reader.bus, wiring.flipped(self.reads))
        wiring.connect(m, drain.bus, wiring.flipped(self.writes))
        frame = Signal(bits * frames.opening_beats, reset_less=True)
        header = Cat(self.told_slot, self.refusal, Const(0, 128 - 24))
        answer = Signal(bits * frames.welcome_beats)
        word = Signal(range(frames.welcome_beats + 1))
        m.d.comb += [
            *fields(self, slot=frame, asked=frame[16:], first=frame[8 * BLOCK :]),
            reader.i.p.address.eq(self.address),
            reader.i.p.beats.eq(frames.opening_beats),
            reader.o.ready.eq(1),
            answer.eq(Cat(header, self.message)),
            *fields(drain, coming=1, whole=1, address=self.to),
            drain.word.eq(
                Array(answer.word_select(k, bits) for k in range(frames.welcome_beats))[word]
            ),
            self.read_error.eq(reader.error),
            self.write_error.eq(drain.error),
        ]
        with m.If(reader.o.valid):
            m.d.sync += frame.eq(Cat(frame, reader.o.p.data)[bits:])
        with m.If(drain.moved):
            m.d.sync += word.eq(word + 1)
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.take):
                    m.next = "ASK"
                with m.Elif(self.collect & (self.ready | self.idle)):
                    m.d.comb += self.commit.eq(self.ready)
                    m.next = "SEND"
            with m.State("ASK"):
                m.d.comb += reader.i.valid.eq(1)
                with m.If(reader.i.ready):
                    m.next = "READ"
            with m.State("READ"), m.If(reader.o.valid & reader.o.p.last):
                m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += [self.start.eq(1), self.taken.eq(1)]
                m.next = "IDLE"
            with m.State("SEND"):
                m.d.comb += drain.valid.eq(1)
                with m.If(drain.begun):
                    m.next = "WRITE"
            with m.State("WRITE"), m.If(drain.ended):
                m.next = "END"
            with m.State("END"):
                m.d.comb += self.told.eq(drain.idle)
        return m
