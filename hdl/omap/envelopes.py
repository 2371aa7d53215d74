"""Requests and answers of sessions between frames in bus words and plaintext in block RAM: AES-256-GCM,
each text under its session's key. Frames: `models.omap.boundary`."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.boundary import Frames
from ...models.omap.config import BLOCK
from ..crypto.gcm import Gcm
from ..stream.passing import fields
from ..stream.queue import Queue
from .sealing import Rows


def asked_layout():
    """A request that comes: the key of its slot, and what its header says."""
    return data.StructLayout({"key": 256, "slot": 16, "number": 64})


def opened_layout(config, state=False):
    """A request that was opened. `fits`: its tag does. With `state` it may be a record: `since`, and the
    value's first bytes, `name`, which an incarnation has in a receipt."""
    members = {"slot": 16, "number": 64, "fits": 1, "key": 8 * config.key_bytes, "operation": 8}
    return data.StructLayout(members | ({"name": 128, "since": 64} if state else {}))


def ruled_layout():
    """What is known of an answer before it is there. `denied`: what the host is told, a
    `models.omap.sessions.Denied`, a `models.omap.state.Told`, or 0; `given`: the client is told `status`,
    whatever the map says."""
    return data.StructLayout({"slot": 16, "number": 64, "denied": 8, "given": 1, "status": 3})


def sealed_layout():
    """What is known of a text that is sealed before it is there. `serial`: its last 8 bytes."""
    return data.StructLayout({**ruled_layout().members, "key": 256, "serial": 64})


def _nonce(number):
    """The nonce of a session's message of this number (Noise, 12.4)."""
    return Cat(Const(0, 32), *(number.word_select(7 - k, 8) for k in range(8)))


class FrameOpener(wiring.Component):
    """Decrypts requests, one after another, into RAM, `config.merge_blocks` blocks beside one another in a row. Request number k (from 0)
    goes to slot k modulo `slots`. Whoever gives requests sees to it that no more than `slots` are given and not consumed: room is never missing.

    Timing: `models.omap.session_stages.Requests`.

    Parameters: `state`: requests may also be records of a saved state (`models.omap.state`), which are as long as answers.
    """

    def __init__(self, config, *, slots, state=False):
        self.frames, self.slots, self.state = Frames.of(config), slots, state
        blocks = self.frames.request_blocks
        self.rows = Rows(blocks, blocks, config.merge_blocks)
        super().__init__(
            {
                "i": In(stream.Signature(asked_layout())),  # requests that come
                # bus words of frames up to the one with the tag, and none after it. A frame's first
                # word comes before its request on `i`: the core takes the header's block as it starts,
                # without looking whether it is there.
                "i_data": In(stream.Signature(8 * config.host_bus_bytes)),
                # requests that were opened
                "o": Out(stream.Signature(opened_layout(config, state))),
                # high while what comes are records, not requests
                **({"records": In(1)} if state else {}),
                # read port: data in the next cycle
                "slot": In(range(max(slots, 2))),
                "row": In(range(max(self.rows.count, 2))),
                "data": Out(128 * config.merge_blocks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        frames = self.frames
        per_word = frames.bus_bytes // BLOCK
        m.submodules.texts = texts = Queue(asked_layout(), self.slots)
        m.submodules.words = words = Queue(8 * frames.bus_bytes, self.slots * frames.beats)
        m.submodules.opened = opened = Queue(self.o.payload.shape(), self.slots)
        m.submodules.core = self.core = core = Gcm()
        wiring.connect(m, wiring.flipped(self.i), texts.i)
        wiring.connect(m, wiring.flipped(self.i_data), words.i)
        wiring.connect(m, opened.o, wiring.flipped(self.o))
        lane, consume, final = Signal(range(max(per_word, 2))), Signal(), Signal()
        m.d.comb += [
            *fields(core, start=core.idle & texts.o.valid, opening=1, key=texts.o.p.key),
            *fields(core, nonce=_nonce(texts.o.p.number)),
            core.size.eq(Mux(self.records, frames.answer_bytes, frames.request_bytes))
            if self.state
            else core.size.eq(frames.request_bytes),
            core.valid.eq(words.o.valid),
            core.block.eq(
                Array(words.o.payload.word_select(k, 128) for k in range(per_word))[lane]
            ),
            core.tag_taken.eq(words.o.valid),
            final.eq(core.tag_valid & words.o.valid),
            # the first block is the header: it is passed over as the core starts
            consume.eq(core.start | core.taken | final),
            words.o.ready.eq(consume & ((lane == per_word - 1) | final)),
            texts.o.ready.eq(final),
        ]
        with m.If(consume):
            m.d.sync += lane.eq(Mux((lane == per_word - 1) | final, 0, lane + 1))
        block, asked = Signal(range(frames.answer_blocks + 1)), Signal()
        with m.If(core.taken | final):
            m.d.sync += block.eq(Mux(final, 0, block + 1))
        # of a record a last block may hold `since` alone
        m.d.comb += asked.eq(core.taken & (block < frames.request_blocks))
        self._keep(m, asked, final)
        self._tell(m, texts.o.p, final, opened.i, asked, block)
        return m

    def _keep(self, m, asked, final):
        rows = self.rows
        m.submodules.storage = storage = memory.Memory(
            shape=128 * rows.lanes, depth=max(self.slots, 2) * rows.room, init=[]
        )
        read, write = storage.read_port(), storage.write_port(granularity=128)
        row, into, _ = rows.walk(m, "put", asked)
        slot = Signal.like(self.slot)
        with m.If(final):
            m.d.sync += slot.eq(Mux(slot == self.slots - 1, 0, slot + 1))
        m.d.comb += [
            read.addr.eq(Cat(self.row, self.slot)),
            self.data.eq(read.data),
            write.en.eq(asked << into),
            write.data.eq(self.core.result.replicate(rows.lanes)),
            write.addr.eq(Cat(row, slot)),
        ]

    def _tell(self, m, text, final, o, asked, block):
        """The key is in the first block, the operation in the last one of a request."""
        core, place = self.core, self.frames.key_bytes + self.frames.value_bytes
        assert place // BLOCK == self.frames.request_blocks - 1 > 0
        key, operation = Signal.like(o.p.key, name="key"), Signal(8)
        with m.If(asked):
            m.d.sync += operation.eq(core.result[8 * (place % BLOCK) :][:8])
            with m.If(block == 0):
                m.d.sync += key.eq(core.result[: len(key)])
        m.d.comb += [
            o.valid.eq(final),
            o.p.slot.eq(text.slot),
            o.p.number.eq(text.number),
            # the last number is reserved
            o.p.fits.eq((core.tag == core.block) & ~text.number.all()),
            o.p.key.eq(key),
            o.p.operation.eq(operation),
        ]
        if self.state:
            self._tell_state(m, o, block)

    def _tell_state(self, m, o, block):
        """`since` ends in the last block of a record."""
        first, last = Signal(256), Signal(256)
        with m.If(self.core.taken):
            m.d.sync += last.eq(Cat(last[128:], self.core.result))
            with m.If(block < 2):
                m.d.sync += first.eq(Cat(first[128:], self.core.result))
        name = 8 * min(self.frames.value_bytes, 16)
        end = 8 * (self.frames.answer_bytes - BLOCK * (self.frames.answer_blocks - 2))
        m.d.comb += [o.p.name.eq(first[len(o.p.key) :][:name]), o.p.since.eq(last[end - 64 : end])]


class FrameSealer(wiring.Component):
    """Seals answers from RAM into frames. RAM has two slots, as has the queue of words: text number k
    lies in slot k modulo 2. A text is given before its blocks, and each is sealed as soon as it is
    there. What answers no request of a session is a header alone.

    Timing: `models.omap.session_stages.Answers`.
    """

    def __init__(self, config):
        self.frames = Frames.of(config)
        self.written = config.message_blocks
        self.shape = sealed_layout()
        super().__init__(
            {
                # write port of RAM: key, value and status
                "put": In(1),
                "slot": In(1),
                "row": In(range(self.written)),
                "data": In(128),
                # answers that come, with their key and serial
                "i": In(stream.Signature(self.shape)),
                "ended": Out(1),  # a text is sealed: one more may be given, of two
                "o": Out(stream.Signature(8 * config.host_bus_bytes)),
                # as of `sealing.Sealer`
                "coming": Out(1),
                "whole": Out(1),
                "taken": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        frames = self.frames
        m.submodules.texts = texts = Queue(self.shape, 2)
        m.submodules.words = words = Queue(8 * frames.bus_bytes, 2 * frames.beats)
        m.submodules.core = core = Gcm()
        wiring.connect(m, wiring.flipped(self.i), texts.i)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        text, slot, final = texts.o.p, Signal(), Signal()
        block, valid = self._block(m, core, text, slot, final)
        full, done = Signal(2), Signal(2)
        hidden = text.denied != 0
        m.d.comb += [
            core.start.eq(core.idle & texts.o.valid & (full != 2)),
            core.key.eq(text.key),
            core.nonce.eq(_nonce(text.number)),
            core.size.eq(frames.answer_bytes),
            core.valid.eq(valid),
            core.block.eq(block),
            core.tag_taken.eq(1),
            final.eq(core.tag_valid),
            texts.o.ready.eq(final),
            *fields(self, ended=final, whole=done != 0, coming=full != 0),
        ]
        m.d.sync += [
            slot.eq(slot ^ final),
            full.eq(full + core.start - self.taken),
            done.eq(done + final - self.taken),
        ]
        header = Cat(text.slot, text.denied, Const(0, 40), text.number)
        sealed = Mux(hidden, 0, Mux(final, core.tag, core.result))
        out = Mux(core.start, header, sealed)
        self._pack(m, words, core.start | core.taken | final, out, final)
        return m

    def _block(self, m, core, text, slot, final):
        """The next block of the text in `slot`, and whether it is there: what was put, and the serial."""
        written, blocks = self.written, self.frames.answer_blocks
        rows = Rows(blocks, blocks, 1)
        m.submodules.storage = storage = memory.Memory(shape=128, depth=2 * rows.room, init=[])
        write = storage.write_port()
        read = storage.read_port(transparent_for=(write,))
        row, _, following = rows.walk(m, "at", core.taken)
        counts = [Signal(range(written + 1), name=f"rows{k}") for k in range(2)]
        for k, count in enumerate(counts):
            with m.If(final & (slot == k)):
                m.d.sync += count.eq(0)
            with m.If(self.put & (self.slot == k)):
                m.d.sync += count.eq(self.row + 1)
        here = Array(counts)[slot]
        shift = Const(0, (row.shape().width - len(self.row)))
        m.d.comb += [
            *fields(write, en=self.put, addr=Cat(self.row, shift, self.slot), data=self.data),
            read.addr.eq(Cat(following, slot ^ final)),
        ]
        at = (self.frames.key_bytes + self.frames.value_bytes) % BLOCK  # of the status
        tail = Cat(Const(0, 8 * (at + 1)), text.serial)
        pieces = {written - 1: tail[:128], written: tail[128:]}
        block = Signal(128)
        m.d.comb += block.eq(Mux(row < written, read.data, 0) | self._piece(row, pieces))
        with m.If((row == written - 1) & text.given):
            m.d.comb += block[8 * at : 8 * at + 8].eq(text.status)
        # the block after those that are put is there with the last of them
        return block, (row < here) | (here == written)

    @staticmethod
    def _piece(row, pieces):
        value = Const(0, 128)
        for k, piece in pieces.items():
            value = value | Mux(row == k, piece, 0)
        return value

    def _pack(self, m, words, emit, block, final):
        """Blocks into bus words."""
        lanes = self.frames.bus_bytes // BLOCK
        lane = Signal(range(max(lanes, 2)))
        held, word = Signal(128 * max(lanes - 1, 1)), Signal(128 * lanes)
        with m.Switch(lane):
            for k in range(lanes):
                with m.Case(k):
                    m.d.comb += word.eq(Cat(held[: 128 * k], block))
        last = (lane == lanes - 1) | final
        m.d.comb += [words.i.payload.eq(word), words.i.valid.eq(emit & last)]
        with m.If(emit):
            m.d.sync += [lane.eq(Mux(last, 0, lane + 1)), held.eq(word)]
