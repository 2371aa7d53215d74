"""Texts that are sealed and written, in their order: answers of sessions, and records of a log.
Specification: `models.omap.boundary`, `models.omap.state`."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.boundary import Frames
from ...models.omap.state import What
from ..memory import AXI4
from ..stream.passing import fields
from ..stream.queue import Queue
from .envelopes import FrameSealer, ruled_layout, sealed_layout
from .pages import WordDrain


def _text_members(config):
    """Ports of texts that come one after another."""
    return {
        "start": In(1),  # a run begins
        "base": In(40),  # where frames are written
        "room": Out(1),  # there is room for one more text
        "taken": In(1),  # it is taken, at most in every second cycle
        # the blocks of a text
        "put": In(1),
        "block": In(range(max(config.message_blocks, 2))),
        "data": In(128),
        "given": In(1),  # this block is the last one
        "answered": Out(33),  # texts of the run that have left
        "idle": Out(1),
        "bus_error": Out(1),
        "bus": Out(AXI4(data_bytes=config.host_bus_bytes, read=False)),
    }


class FrameRow(wiring.Component):
    """Seals each text in the next sealer, and writes frames one behind another. A sealer begins when a
    place in it is taken, before the text is there: key and number are known.
    """

    def __init__(self, config):
        self.config, self.frames = config, Frames.of(config)
        # `i`: what is known of a text, in the cycle behind `taken`
        super().__init__({**_text_members(config), "i": In(sealed_layout())})

    def elaborate(self, platform):
        m = Module()
        config, frames = self.config, self.frames
        m.submodules.drain = drain = WordDrain(config.host_bus_bytes, frames.beats)
        wiring.connect(m, drain.bus, wiring.flipped(self.bus))
        # the sealers whose turn it is: to take a place, to be filled, and to be emptied
        next_, filled, source = (
            Signal(range(config.cores.responders), name=name)
            for name in ("next", "filled", "source")
        )
        sealers = [FrameSealer(config) for _ in range(config.cores.responders)]
        address, taken, to = Signal(40), Signal(), Signal.like(next_)
        m.d.sync += [taken.eq(self.taken), to.eq(next_)]
        texts = []
        for k, sealer in enumerate(sealers):
            m.submodules[f"sealer{k}"] = sealer
            slot, count = Signal(name=f"slot{k}"), Signal(2, name=f"texts{k}")
            gives, takes = self.given & (filled == k), self.taken & (next_ == k)
            m.d.comb += [
                sealer.i.valid.eq(taken & (to == k)),
                sealer.i.payload.eq(self.i),
                *fields(sealer, put=self.put & (filled == k), slot=slot, row=self.block),
                *fields(sealer, data=self.data),
                sealer.o.ready.eq(drain.moved & (source == k)),
                sealer.taken.eq(drain.ended & (source == k)),
            ]
            m.d.sync += [count.eq(count + takes - sealer.ended), slot.eq(slot ^ gives)]
            texts.append(count)
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


def _lend(m, row, texts, but=()):
    """A row's ports of texts as one's own, without those of `but`."""
    for name, member in texts.signature.members.items():
        if name in but:
            continue
        if name == "bus":
            wiring.connect(m, row.bus, wiring.flipped(texts.bus))
        elif name in row.signature.members:
            ours, theirs = getattr(texts, name), getattr(row, name)
            m.d.comb += theirs.eq(ours) if member.flow is In else ours.eq(theirs)


class Answers(wiring.Component):
    """Answers of sessions, in a `FrameRow`.

    * `slots`: of the table of sessions.
    """

    def __init__(self, config, *, slots):
        self.config = config
        super().__init__(
            {
                **_text_members(config),
                "serial": In(64),  # when a run begins: that of the operation before it
                # what is known of each answer, before its place is taken; there is room for those
                # of the window
                "ruled": In(stream.Signature(ruled_layout())),
                # something is known of an answer whose key is not: no session may take a slot
                "pending": Out(1),
                # of the table (`sessions.SessionTable`)
                "seal_slot": Out(range(slots)),
                "send": In(256),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.row = row = FrameRow(self.config)
        _lend(m, row, self, ("room",))
        m.submodules.ruled_queue = queue = Queue(ruled_layout(), self.config.window)
        wiring.connect(m, wiring.flipped(self.ruled), queue.i)
        serial, known = Signal(64), Signal(ruled_layout())
        m.d.comb += [
            self.pending.eq(queue.o.valid),
            # an operation is known long before its answer: this never waits
            self.room.eq(row.room & queue.o.valid),
            queue.o.ready.eq(self.taken),
            self.seal_slot.eq(queue.o.p.slot),
        ]
        m.d.sync += known.eq(queue.o.payload)
        with m.If(self.start):
            m.d.sync += serial.eq(self.serial)
        with m.Else():
            m.d.sync += serial.eq(serial + self.taken)
        m.d.comb += [
            row.i.key.eq(self.send),
            # that of the operation itself
            row.i.serial.eq(serial),
            *(row.i[name].eq(known[name]) for name in ruled_layout().members),
        ]
        return m


class Log(wiring.Component):
    """Records of a log or a snapshot, in a `FrameRow`. Their numbers stay over resets: their key does."""

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                **_text_members(config),
                "key": In(256),  # of the file
                "since": In(64),  # of the run
                "fresh": In(1),  # from the next cycle on the key is another one
                "ends": In(1),  # with `taken`: the record ends a snapshot
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.row = row = FrameRow(self.config)
        _lend(m, row, self)
        number, ends = Signal(64, reset_less=True), Signal()
        m.d.sync += [number.eq(Mux(self.fresh, 0, number + self.taken)), ends.eq(self.ends)]
        m.d.comb += fields(row.i, key=self.key, number=number, serial=self.since, given=ends)
        m.d.comb += fields(row.i, status=What.END)
        return m
