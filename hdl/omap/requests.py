"""Requests of sessions: fetched when they have arrived, opened by cipher cores that take turns, and
judged in their order. Specification: `models.omap.boundary`."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.boundary import Frames
from ...models.omap.config import BLOCK
from ...models.omap.messages import Status
from ...models.omap.sessions import ALLOWED, ROLES, Asked, Denied
from ..memory import AXI4, BurstReader
from ..stream.passing import fields
from .envelopes import FrameOpener, opened_layout, ruled_layout
from .layout import head_layout


def judge_members(config):
    """The ports between requests and what judges records, seen from the requests."""
    return {
        "records": In(1),
        "file_key": In(256),
        "opened": Out(opened_layout(config, state=True)),
        "judging": Out(1),
        "receipt": Out(1),
        "told": In(8),
        "makes": In(2),
        "status": In(3),
    }


class Requests(wiring.Component):
    """Fetches `count` frames, as many as the window has room for at once. A request is handed on when its
    tag, its number and its role have been looked at; one that is refused is handed on as an operation
    that changes nothing. No frame stops anything.

    * `slots`: of the table of sessions.
    * `state`: a run may be one of records, which `hdl.omap.past` judges.
    """

    def __init__(self, config, *, slots, state=False):
        self.config, self.slots, self.frames = config, slots, Frames.of(config)
        self.state = state
        super().__init__(
            {
                "start": In(1),
                "active": In(1),
                # of the run
                "address": In(40),
                "interval": In(32),
                "count": In(32),
                # how many requests of the run have been answered: their texts are no longer read
                "retired": In(33),
                "head": Out(stream.Signature(head_layout(config))),
                # what is known of answers, with each head; always taken
                "ruled": Out(stream.Signature(ruled_layout())),
                # read port of the texts in the window, a row of a merge; data in the next cycle
                "slot": In(range(config.window)),
                "row": In(range(max(config.slot_rows, 2))),
                "data": Out(128 * config.merge_blocks),
                # of the table (`sessions.SessionTable`), down to `used`
                "look_slot": Out(range(slots)),
                "receive": In(256),
                "judge_slot": Out(range(slots)),
                "live": In(1),
                "role": In(2),
                "received": In(64),
                "used": Out(1),
                # of `past.Past`
                **(judge_members(config) if state else {}),
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
        self._ask(m, reader.i)
        self._judge(m, self._open(m, reader.o))
        return m

    def _ask(self, m, commands):
        """Ask for a frame when it has arrived."""
        asked, clock, due = Signal(33), Signal(64), Signal(64)
        address, ready = Signal(40), Signal()
        with m.If(self.start):
            m.d.sync += [asked.eq(0), clock.eq(0), due.eq(0), address.eq(self.address)]
        with m.Else():
            m.d.sync += clock.eq(clock + 1)
        with m.If(ready & commands.ready):
            m.d.sync += [
                asked.eq(asked + 1),
                due.eq(due + self.interval),
                address.eq(address + self.frames.size),
            ]
        m.d.comb += [
            ready.eq(
                self.active
                & (asked != self.count)
                & (clock >= due)
                & (asked - self.retired < self.config.window)
            ),
            commands.valid.eq(ready),
            commands.p.address.eq(address),
            commands.p.beats.eq(self.frames.beats),
        ]

    def _open(self, m, words):
        """Frames to the cores in turn, each with the key of its slot a cycle behind its first word.
        Returns the cores."""
        config, frames = self.config, self.frames
        cores = config.cores.request_openers
        bits = (cores - 1).bit_length()
        words_of = lambda blocks: -(-(2 + blocks) * BLOCK // frames.bus_bytes)
        needed, key = Signal(range(frames.beats + 1)), Signal(256)
        m.d.comb += [needed.eq(words_of(frames.request_blocks)), key.eq(self.receive)]
        if self.state:
            with m.If(self.records):
                m.d.comb += [needed.eq(words_of(frames.answer_blocks)), key.eq(self.file_key)]
        word, core = Signal(range(frames.beats + 1)), Signal(range(max(cores, 2)))
        with m.If(words.valid):
            m.d.sync += word.eq(Mux(words.p.last, 0, word + 1))
            with m.If(words.p.last):
                m.d.sync += core.eq(_next(core, cores))
        looked, to = Signal(), Signal.like(core)
        slot, number = Signal(16), Signal(64)
        payload = words.p.data
        m.d.comb += self.look_slot.eq(payload[:16])
        m.d.sync += [looked.eq(words.valid & (word == 0)), to.eq(core)]
        m.d.sync += [slot.eq(payload[:16]), number.eq(payload[64:128])]
        shape = {"slots": config.window // cores, "state": self.state}
        openers = [FrameOpener(config, **shape) for _ in range(cores)]
        for k, opener in enumerate(openers):
            m.submodules[f"opener{k}"] = opener
            m.d.comb += [
                opener.i.valid.eq(looked & (to == k)),
                opener.i.p.key.eq(key),
                opener.i.p.slot.eq(slot),
                opener.i.p.number.eq(number),
                opener.i_data.valid.eq(words.valid & (core == k) & (word < needed)),
                opener.i_data.payload.eq(payload),
                opener.slot.eq(self.slot >> bits),
                opener.row.eq(self.row),
            ]
            if self.state:
                m.d.comb += opener.records.eq(self.records)
        read = Signal(range(max(cores, 2)))
        m.d.sync += read.eq(self.slot[:bits])
        m.d.comb += self.data.eq(Array(opener.data for opener in openers)[read])
        return openers

    def _judge(self, m, openers):
        """What becomes of each request, in their order: the table is asked, then the request is taken
        or refused, then it is offered."""
        cores = len(openers)
        turn = Signal(range(max(cores, 2)))
        head, valid = Signal(opened_layout(self.config, self.state)), Signal()
        m.d.comb += [
            head.eq(Array(opener.o.payload.as_value() for opener in openers)[turn]),
            valid.eq(Array(opener.o.valid for opener in openers)[turn]),
            self.judge_slot.eq(head.slot),
        ]
        denied, judging = Signal(8), Signal()
        masks = [sum(1 << operation for operation in ALLOWED[role]) for role in ROLES]
        mask = Array(Const(mask, 8) for mask in [*masks, 0])[self.role]
        allowed = mask.bit_select(head.operation[:3], 1) & ~head.operation[3:].any()
        with m.If(~self.live | (head.slot >= self.slots)):
            m.d.comb += denied.eq(Denied.SESSION)
        with m.Elif(~head.fits):
            m.d.comb += denied.eq(Denied.TAG)
        with m.Elif(head.number != self.received):
            m.d.comb += denied.eq(Denied.NUMBER)
        accept, ruling = denied == 0, Signal(ruled_layout())
        operation, key, used = Signal(8), Signal.like(head.key, name="key"), Signal()
        m.d.comb += [
            used.eq(accept),
            operation.eq(Mux(accept & allowed, head.operation, 0)),
            key.eq(Mux(accept, head.key, 0)),
            *fields(ruling, slot=head.slot, number=head.number, denied=denied, given=~allowed),
            *fields(ruling, status=Status.REFUSED),
            self.used.eq(judging & used),
            self.ruled.valid.eq(self.head.valid & self.head.ready),
            *(opener.o.ready.eq(judging & (turn == k)) for k, opener in enumerate(openers)),
        ]
        if self.state:
            receipt = accept & allowed & (head.operation == Asked.RECEIPT)
            m.d.comb += [self.opened.eq(head), self.judging.eq(judging), self.receipt.eq(receipt)]
            with m.If(self.records):
                m.d.comb += [used.eq(0), operation.eq(self.makes), key.eq(head.key)]
                m.d.comb += ruling.denied.eq(self.told)
            with m.Elif(receipt):
                m.d.comb += [ruling.given.eq(1), ruling.status.eq(self.status)]
        with m.FSM():
            with m.State("LOOK"), m.If(valid):
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.comb += judging.eq(1)
                m.d.sync += [
                    turn.eq(_next(turn, cores)),
                    self.head.p.key.eq(key),
                    self.head.p.operation.eq(operation),
                    self.ruled.payload.eq(ruling),
                ]
                m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.head.valid.eq(1)
                with m.If(self.head.ready):
                    m.next = "LOOK"


def _next(turn, cores):
    """The core behind this one."""
    return Mux(turn == cores - 1, 0, turn + 1)
