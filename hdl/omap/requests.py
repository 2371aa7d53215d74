"""Sealed requests: fetched when they have arrived, and opened by cipher cores that take turns."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.config import BLOCK, KEY_BYTES
from ..memory import AXI4, BurstReader
from ..stream.queue import Queue
from .layout import head_layout
from .sealing import Opener

__all__ = ["Requests"]


class Requests(wiring.Component):
    """Fetches `count` requests, as many as the window has room for at once, and hands on their heads as
    soon as they are opened. Their tags are compared some cycles later, long before anything is done
    that can be seen.

    Members
    -------
    start : In(1)
    active : In(1)
    number : In(64)
        Of the run's first request in the session.
    address, interval, count : In
        Of the run.
    retired : In(33)
        How many requests of the run have been answered: their texts are no longer read.
    key : In(128)
    head : Out(stream of {operation, key})
    slot, row : In, data : Out
        Read port of the texts in the window, a row of a merge; data in the next cycle.
    refused : Out(1)
        A tag does not fit.
    bus_error : Out(1), bus : Out(AXI4(write=False))
    """

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "active": In(1),
                "number": In(64),
                "address": In(40),
                "interval": In(32),
                "count": In(32),
                "retired": In(33),
                "key": In(128),
                "head": Out(stream.Signature(head_layout())),
                "slot": In(range(config.window)),
                "row": In(range(max(config.slot_rows, 2))),
                "data": Out(128 * config.merge_blocks),
                "refused": Out(1),
                "bus_error": Out(1),
                "bus": Out(AXI4(data_bytes=config.host_bus_bytes, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.reader = reader = BurstReader(
            bus_bytes=config.host_bus_bytes, commands=config.window
        )
        wiring.connect(m, reader.bus, wiring.flipped(self.bus))
        m.d.comb += [reader.o.ready.eq(1), self.bus_error.eq(reader.error)]
        self._open(m, reader, *self._ask(m, reader.i))
        return m

    def _ask(self, m, commands):
        """Ask for a request when it has arrived. Returns when that is, and its number in the run."""
        config = self.config
        asked, clock, due = Signal(33), Signal(64), Signal(64)
        address = Signal(40)
        ready, sent = Signal(), Signal()
        with m.If(self.start):
            m.d.sync += [asked.eq(0), clock.eq(0), due.eq(0), address.eq(self.address)]
        with m.Else():
            m.d.sync += clock.eq(clock + 1)
        with m.If(sent):
            m.d.sync += [
                asked.eq(asked + 1),
                due.eq(due + self.interval),
                address.eq(address + config.message_bytes),
            ]
        m.d.comb += [
            ready.eq(
                self.active
                & (asked != self.count)
                & (clock >= due)
                & (asked - self.retired < config.window)
            ),
            sent.eq(ready & commands.ready),
            commands.valid.eq(ready),
            commands.p.address.eq(address),
            commands.p.beats.eq(config.message_beats),
        ]
        return sent, asked

    def _open(self, m, reader, sent, asked):
        config = self.config
        cores = config.request_openers
        turns = [self._turn(m, name) for name in ("given", "filled", "opened")]
        given, filled, opened = (turn for turn, _ in turns)
        heads, datas, refused = [], [], []
        bits = (cores - 1).bit_length()
        nonce = Cat((self.number + asked)[:64], Const(0, 64))
        for k in range(cores):
            opener, head = self._core(m, k)
            m.d.comb += [
                opener.i.valid.eq(sent & (given == k)),
                opener.i.p.nonce.eq(nonce),
                opener.key.eq(self.key),
                opener.i_data.valid.eq(reader.o.valid & (filled == k)),
                opener.i_data.payload.eq(reader.o.p.data),
                opener.slot.eq(self.slot >> bits),
                opener.row.eq(self.row),
                head.o.ready.eq(self.head.ready & (opened == k)),
            ]
            heads.append(head)
            datas.append(opener.data)
            refused.append(opener.ended & ~opener.fits)
        core = Signal(range(max(cores, 2)))
        m.d.sync += core.eq(self.slot[:bits])
        m.d.comb += [
            self.data.eq(Array(datas)[core]),
            self.head.valid.eq(Array(head.o.valid for head in heads)[opened]),
            self.head.payload.eq(Array(head.o.payload.as_value() for head in heads)[opened]),
        ]
        for condition in refused:
            with m.If(condition):
                m.d.comb += self.refused.eq(1)
        passes = (sent, reader.o.valid & reader.o.p.last, self.head.valid & self.head.ready)
        for (turn, following), passed in zip(turns, passes, strict=True):
            with m.If(passed):
                m.d.sync += turn.eq(following)

    def _turn(self, m, name):
        """Which core is next, and the one after it."""
        cores = self.config.request_openers
        turn = Signal(range(max(cores, 2)), name=name)
        return turn, Mux(turn == cores - 1, 0, turn + 1)

    def _core(self, m, number):
        """A core, and the heads of what it opened."""
        config = self.config
        opener = Opener(
            bus_bytes=config.host_bus_bytes,
            chunks=1,
            blocks=config.message_blocks,
            slots=config.window // config.request_openers,
            rounds=config.rounds,
            lanes=config.merge_blocks,
        )
        head = Queue(head_layout(), config.window // config.request_openers)
        m.submodules[f"opener{number}"], m.submodules[f"heads{number}"] = opener, head
        place = KEY_BYTES + config.value_bytes
        key = Signal(8 * KEY_BYTES, name=f"key{number}")
        with m.If(opener.put):
            with m.If(opener.put_block == 0):
                m.d.sync += key.eq(opener.put_data[: 8 * KEY_BYTES])
        # the operation is in the last block
        assert place // BLOCK == config.message_blocks - 1 > 0
        m.d.comb += [
            head.i.valid.eq(opener.near),
            head.i.p.key.eq(key),
            head.i.p.operation.eq(opener.put_data[8 * (place % BLOCK) :][:8]),
        ]
        return opener, head
