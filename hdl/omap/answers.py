"""Answers of sessions are sealed and written, in their order. Specification: `models.omap.boundary`."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.boundary import Frames
from ..memory import AXI4
from ..stream.queue import Queue
from .envelopes import FrameSealer, ruled_layout
from .pages import WordDrain

__all__ = ["Answers"]


class Answers(wiring.Component):
    """Seals each answer in the next sealer, and writes frames one behind another. A sealer begins when a
    place in it is taken, before the answer is there: key and number are known.

    Parameters
    ----------
    slots
        Of the table of sessions.

    Members
    -------
    start : In(1), serial : In(64), base : In(40)
        A run begins: how many operations were carried out before it, and where answers are written.
    ruled : In(stream of what is known of answers)
        For each one before its place is taken; there is room for those of the window.
    room : Out(1), taken : In(1)
        There is room for one more answer; it is taken, at most in every second cycle.
    put : In(1), block, data : In, given : In(1)
        The blocks of an answer; this is the last one.
    answered : Out(33)
        Answers of the run that have left.
    seal_slot, send
        Of the table (`sessions.SessionTable`).
    idle, bus_error : Out(1)
    bus : Out(AXI4(read=False))
    """

    def __init__(self, config, *, slots):
        self.config, self.frames = config, Frames.of(config)
        super().__init__(
            {
                "start": In(1),
                "serial": In(64),
                "base": In(40),
                "ruled": In(stream.Signature(ruled_layout())),
                "room": Out(1),
                "taken": In(1),
                "put": In(1),
                "block": In(range(max(config.message_blocks, 2))),
                "data": In(128),
                "given": In(1),
                "answered": Out(33),
                "seal_slot": Out(range(slots)),
                "send": In(256),
                "idle": Out(1),
                "bus_error": Out(1),
                "bus": Out(AXI4(data_bytes=config.host_bus_bytes, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, frames = self.config, self.frames
        m.submodules.drain = drain = WordDrain(config.host_bus_bytes, frames.beats)
        wiring.connect(m, drain.bus, wiring.flipped(self.bus))
        # the sealers whose turn it is: to take a place, to be filled, and to be emptied
        next_, filled, source = (
            Signal(range(config.responders), name=name) for name in ("next", "filled", "source")
        )
        sealers = [FrameSealer(config) for _ in range(config.responders)]
        address = Signal(40)
        for k, sealer in enumerate(sealers):
            m.submodules[f"sealer{k}"] = sealer
        self._give(m, sealers, next_)
        texts = []
        for k, sealer in enumerate(sealers):
            slot, there = Signal(name=f"slot{k}"), Signal(2, name=f"texts{k}")
            given, takes = self.given & (filled == k), self.taken & (next_ == k)
            m.d.comb += [
                sealer.put.eq(self.put & (filled == k)),
                sealer.slot.eq(slot),
                sealer.row.eq(self.block),
                sealer.data.eq(self.data),
                sealer.o.ready.eq(drain.moved & (source == k)),
                sealer.taken.eq(drain.ended & (source == k)),
            ]
            m.d.sync += [there.eq(there + takes - sealer.ended), slot.eq(slot ^ given)]
            texts.append(there)
        m.d.comb += [
            self.room.eq(Array(texts)[next_] != 2),
            drain.valid.eq(1),
            drain.coming.eq(Array(s.coming for s in sealers)[source]),
            drain.whole.eq(Array(s.whole for s in sealers)[source]),
            drain.word.eq(Array(s.o.payload for s in sealers)[source]),
            drain.address.eq(address),
            self.idle.eq(drain.idle),
            self.bus_error.eq(drain.error),
        ]
        m.d.sync += [
            next_.eq(next_ + self.taken),
            filled.eq(filled + self.given),
            source.eq(source + drain.ended),
        ]
        with m.If(self.start):
            m.d.sync += [address.eq(self.base), self.answered.eq(0)]
        with m.Elif(drain.ended):
            m.d.sync += [
                address.eq(address + frames.size),
                self.answered.eq(self.answered + 1),
            ]
        return m

    def _give(self, m, sealers, next_):
        """An answer whose place is taken goes to its sealer with its key, a cycle later."""
        m.submodules.ruled_queue = queue = Queue(ruled_layout(), self.config.window)
        wiring.connect(m, wiring.flipped(self.ruled), queue.i)
        serial, known = Signal(64), Signal(ruled_layout())
        given, to = Signal(), Signal.like(next_)
        m.d.comb += [queue.o.ready.eq(self.taken), self.seal_slot.eq(queue.o.p.slot)]
        m.d.sync += [given.eq(self.taken), to.eq(next_), known.eq(queue.o.payload)]
        with m.If(self.start):
            m.d.sync += serial.eq(self.serial)
        with m.Else():
            m.d.sync += serial.eq(serial + self.taken)
        for k, sealer in enumerate(sealers):
            m.d.comb += [
                sealer.i.valid.eq(given & (to == k)),
                sealer.i.p.key.eq(self.send),
                # that of the operation itself
                sealer.i.p.serial.eq(serial),
                *(
                    sealer.i.p[name].eq(known[name])
                    for name in ("slot", "number", "denied", "refused")
                ),
            ]
