"""Responses are sealed and written, in their order."""

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.messages import response_nonce
from ..memory import AXI4
from .pages import WordDrain
from .sealing import Sealer

__all__ = ["Answers"]


class Answers(wiring.Component):
    """Seals each response in the next sealer, and writes them one behind another. A sealer begins when a
    place in it is taken, before the response is there: its nonce is known.

    Members
    -------
    start : In(1), number : In(64), base : In(40), key : In(128)
        A run begins: the number in the session of its first response, and where it is written.
    room : Out(1), taken : In(1)
        There is room for one more response; it is taken.
    put : In(1), block, data : In, given : In(1)
        The blocks of a response; this is the last one.
    answered : Out(33)
        Responses of the run that have left.
    idle, bus_error : Out(1)
    bus : Out(AXI4(read=False))
    """

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "number": In(64),
                "base": In(40),
                "key": In(128),
                "room": Out(1),
                "taken": In(1),
                "put": In(1),
                "block": In(range(max(config.message_blocks, 2))),
                "data": In(128),
                "given": In(1),
                "answered": Out(33),
                "idle": Out(1),
                "bus_error": Out(1),
                "bus": Out(AXI4(data_bytes=config.host_bus_bytes, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.drain = drain = WordDrain(config.host_bus_bytes, config.message_beats)
        wiring.connect(m, drain.bus, wiring.flipped(self.bus))
        # the sealers whose turn it is: to take a place, to be filled, and to be emptied
        next_, filled, source = (
            Signal(range(config.responders), name=name) for name in ("next", "filled", "source")
        )
        nonce, address = Signal(64), Signal(40)
        high = response_nonce(0) >> 64
        sealers = [self._sealer(m, k) for k in range(config.responders)]
        texts = []
        for k, sealer in enumerate(sealers):
            slot, there = Signal(name=f"slot{k}"), Signal(2, name=f"texts{k}")
            given, takes = self.given & (filled == k), self.taken & (next_ == k)
            m.d.comb += [
                sealer.put.eq(self.put & (filled == k)),
                sealer.slot.eq(slot),
                sealer.i.valid.eq(takes),
                sealer.i.p.nonce.eq(Cat(nonce, Const(high, 64))),
                sealer.o.ready.eq(drain.moved & (source == k)),
                sealer.taken.eq(drain.ended & (source == k)),
            ]
            m.d.sync += [
                there.eq(there + takes - sealer.ended),
                slot.eq(slot ^ given),
            ]
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
            m.d.sync += [address.eq(self.base), nonce.eq(self.number), self.answered.eq(0)]
        with m.Else():
            m.d.sync += nonce.eq(nonce + self.taken)
            with m.If(drain.ended):
                m.d.sync += [
                    address.eq(address + config.message_bytes),
                    self.answered.eq(self.answered + 1),
                ]
        return m

    def _sealer(self, m, k):
        """A sealer that sees the blocks of all responses."""
        config = self.config
        sealer = Sealer(
            bus_bytes=config.host_bus_bytes,
            chunks=1,
            blocks=config.message_blocks,
            rounds=config.rounds,
            early=True,
        )
        m.submodules[f"sealer{k}"] = sealer
        m.d.comb += [
            sealer.key.eq(self.key),
            sealer.row.eq(self.block),
            sealer.data.eq(self.data),
            sealer.i.p.used.eq(config.message_blocks),
        ]
        return sealer
