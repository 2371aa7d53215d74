"""Pages between ciphertext on a bus and plaintext in block RAM."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..crypto.ascon import Sponge
from ..stream.passing import fields
from ..stream.queue import Queue


def _nonces(m, nonce, chunk):
    """The nonce of a chunk: its number lies in bits 96 to 103."""
    return Cat(nonce[:96], chunk, nonce[96 + len(chunk) :])


class Rows:
    """Where blocks of a text lie in RAM: `lanes` blocks of an item beside one another in a row, the
    items, of `parts` blocks each, one behind another. The last row of an item may have lanes that
    hold nothing."""

    def __init__(self, blocks, parts, lanes):
        self.blocks, self.parts, self.lanes = blocks, parts, lanes
        self.count = blocks // parts * -(-parts // lanes)
        self.room = 1 << (max(self.count, 2) - 1).bit_length()

    def walk(self, m, name, moves):
        """Return the row and the lane of a block, and those of the next cycle. In each cycle in which
        `moves` is high the next block follows, the first one behind the last."""
        row = Signal(range(max(self.count, 2)), name=f"{name}_row")
        part = Signal(range(max(self.parts, 2)), name=f"{name}_part")
        lane = part[: (self.lanes - 1).bit_length()]
        following, next_part = Signal.like(row), Signal.like(part)
        row_ends, last = part == self.parts - 1, row == self.count - 1
        m.d.comb += [following.eq(row), next_part.eq(part)]
        with m.If(moves):
            m.d.comb += next_part.eq(Mux(row_ends, 0, part + 1))
            with m.If(row_ends | (lane == self.lanes - 1)):
                m.d.comb += following.eq(Mux(row_ends & last, 0, row + 1))
        m.d.sync += [row.eq(following), part.eq(next_part)]
        return row, lane, following


class Opener(wiring.Component):
    """Opens texts of `chunks` × `blocks` blocks, each chunk with its tag behind it, into RAM: a row
    has `lanes` blocks of an item of `parts` blocks.

    The ciphertext comes in bus words; a word that the text does not fill ends with zeros, which are
    looked at as tags are. Text
    number k goes to slot k modulo `slots`. Whoever gives texts sees to it that the slot is free, and
    that no more than `slots` are given and not consumed: so room for words is never missing.

    Timing: see `models.omap.stages.opened`.
    """

    def __init__(self, *, bus_bytes, chunks, blocks, slots, rounds, parts=None, lanes=1, ahead=0):
        self.ahead = ahead
        self.rows = Rows(chunks * blocks, parts or chunks * blocks, lanes)
        self.bus_bytes, self.chunks, self.blocks = bus_bytes, chunks, blocks
        self.slots, self.rounds = slots, rounds
        self.lanes = bus_bytes // 16
        self.beats = -(-chunks * (blocks + 1) // self.lanes)
        super().__init__(
            {
                "key": In(128),
                # a text to come; `blank`: whatever its bytes, it is taken
                "i": In(stream.Signature(data.StructLayout({"nonce": 128, "blank": 1}))),
                "i_data": In(stream.Signature(8 * bus_bytes)),
                # high in the first cycle in which a block is opened and at most `ahead` blocks are
                # left, whose words are there: they are opened `pace.block` cycles apart from now on
                "nears": Out(1),
                # high in the cycle in which the last tag is compared, as is `fits`
                "ended": Out(1),
                "fits": Out(1),
                # read port: data in the next cycle
                "slot": In(range(max(slots, 2))),
                "row": In(range(max(self.rows.count, 2))),
                "data": Out(128 * lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.texts = texts = Queue(self.i.p.shape(), self.slots)
        m.submodules.words = words = Queue(8 * self.bus_bytes, self.slots * self.beats)
        m.submodules.core = core = Sponge(blocks=self.blocks, rounds=self.rounds, opening=True)
        rows = self.rows
        m.submodules.storage = storage = memory.Memory(
            shape=128 * rows.lanes, depth=max(self.slots, 2) * rows.room, init=[]
        )
        read, write = storage.read_port(), storage.write_port(granularity=128)
        row, into, _ = rows.walk(m, "put", core.taken)
        wiring.connect(m, wiring.flipped(self.i), texts.i)
        wiring.connect(m, wiring.flipped(self.i_data), words.i)
        lane = Signal(range(max(self.lanes, 2)))
        chunk = Signal(range(max(self.chunks, 2)))
        slot = Signal.like(self.slot)
        consume, final = Signal(), Signal()
        m.d.comb += [
            read.addr.eq(Cat(self.row, self.slot)),
            self.data.eq(read.data),
            core.key.eq(self.key),
            core.nonce.eq(_nonces(m, texts.o.p.nonce, chunk)),
            core.start.eq(core.idle & texts.o.valid),
            core.block.eq(
                Array(words.o.payload.word_select(k, 128) for k in range(self.lanes))[lane]
            ),
            core.valid.eq(words.o.valid),
            core.tag_taken.eq(words.o.valid),
            consume.eq(core.taken | (core.tag_valid & words.o.valid)),
            final.eq(core.tag_valid & words.o.valid & (chunk == self.chunks - 1)),
            words.o.ready.eq(consume & ((lane == self.lanes - 1) | final)),
            texts.o.ready.eq(final),
            write.en.eq(core.taken << into),
            write.data.eq(core.result.replicate(rows.lanes)),
            write.addr.eq(Cat(row, slot)),
        ]
        self._judge(m, texts, core, words, final, chunk)
        self._near(m, core.taken, lane, words.level, chunk == self.chunks - 1)
        with m.If(consume):
            m.d.sync += lane.eq(Mux((lane == self.lanes - 1) | final, 0, lane + 1))
        with m.If(final):
            m.d.sync += slot.eq(Mux(slot == self.slots - 1, 0, slot + 1))
        return m

    def _near(self, m, taken, lane, level, last):
        """`nears`, of the last chunk."""
        left, done = Signal(range(self.blocks), init=self.blocks - 1), Signal()
        m.d.comb += self.nears.eq(
            taken & last & ~done & (left <= self.ahead) & (level * self.lanes > lane + left)
        )
        with m.If(taken):
            m.d.sync += [
                left.eq(Mux(left == 0, self.blocks - 1, left - 1)),
                done.eq((done | self.nears) & (left != 0)),
            ]

    def _judge(self, m, texts, core, words, final, chunk):
        """Whether all tags of a text fit, and zeros follow."""
        used = (self.chunks * (self.blocks + 1) - 1) % self.lanes + 1  # blocks of the last word
        padding = words.o.payload[128 * used :]
        good = Signal(init=1)
        fits = Signal()
        m.d.comb += [
            fits.eq(good & (core.tag == core.block) & ~(final & padding.any())),
            self.ended.eq(final),
            self.fits.eq(fits | texts.o.p.blank),
        ]
        with m.If(core.tag_valid & words.o.valid):
            m.d.sync += [chunk.eq(Mux(final, 0, chunk + 1)), good.eq(fits | final)]


class Sealer(wiring.Component):
    """Seals texts from RAM into bus words. RAM has two slots, as has the queue of words: text number
    k lies in slot k modulo 2. A row of RAM has `lanes` blocks of an item of `parts` blocks.

    Timing: see `models.omap.stages.sealed`.
    """

    def __init__(self, *, bus_bytes, chunks, blocks, rounds, parts=None, lanes=1):
        self.rows = rows = Rows(chunks * blocks, parts or chunks * blocks, lanes)
        self.bus_bytes, self.chunks, self.blocks = bus_bytes, chunks, blocks
        self.rounds = rounds
        self.lanes = bus_bytes // 16
        self.beats = -(-chunks * (blocks + 1) // self.lanes)
        super().__init__(
            {
                "key": In(128),
                # write port of RAM
                "put": In(1),
                "slot": In(1),
                "row": In(range(max(rows.count, 2))),
                "data": In(128 * lanes),
                # a text is there; its rows from `used` on are zeros
                "i": In(
                    stream.Signature(
                        data.StructLayout({"nonce": 128, "used": range(rows.count + 1)})
                    )
                ),
                # the last tag of a text is there: one more may be written to RAM and given, of two
                "ended": Out(1),
                "o": Out(stream.Signature(8 * bus_bytes)),
                "coming": Out(1),  # the next text is being sealed, or is there
                "whole": Out(1),  # it is in the queue of words whole
                "taken": In(1),  # high in the cycle in which the last word of a text leaves
            }
        )

    def elaborate(self, platform):
        m = Module()
        rows = self.rows
        m.submodules.texts = texts = Queue(self.i.p.shape(), 2)
        m.submodules.words = words = Queue(8 * self.bus_bytes, 2 * self.beats)
        m.submodules.core = core = Sponge(blocks=self.blocks, rounds=self.rounds, opening=False)
        m.submodules.storage = storage = memory.Memory(
            shape=128 * rows.lanes, depth=2 * rows.room, init=[]
        )
        write = storage.write_port()
        read = storage.read_port()
        wiring.connect(m, wiring.flipped(self.i), texts.i)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        slot, next_slot = Signal(), Signal()
        row, source, following = rows.walk(m, "at", core.taken)
        lane = Signal(range(max(self.lanes, 2)))
        chunk = Signal(range(max(self.chunks, 2)))
        full, begun = Signal(2), Signal()
        tagged, final, emit = Signal(), Signal(), Signal()
        block = Signal(128)
        m.d.comb += [
            *fields(write, en=self.put, addr=Cat(self.row, self.slot), data=self.data),
            next_slot.eq(slot ^ final),
            read.addr.eq(Cat(following, next_slot)),
            core.key.eq(self.key),
            core.nonce.eq(_nonces(m, texts.o.p.nonce, chunk)),
            core.start.eq(core.idle & texts.o.valid & (begun | (full != 2))),
            core.valid.eq(1),
            core.block.eq(Mux(row < texts.o.p.used, read.data.word_select(source, 128), 0)),
            tagged.eq(core.tag_valid),
            core.tag_taken.eq(1),
            final.eq(tagged & (chunk == self.chunks - 1)),
            emit.eq(core.taken | tagged),
            block.eq(Mux(tagged, core.tag, core.result)),
            texts.o.ready.eq(final),
            self.ended.eq(final),
        ]
        m.d.sync += slot.eq(next_slot)
        with m.If(core.start):
            m.d.sync += begun.eq(1)
        with m.If(final):
            m.d.sync += begun.eq(0)
        with m.If(tagged):
            m.d.sync += chunk.eq(Mux(final, 0, chunk + 1))
        self._count(m, full, core.start & ~begun, final)
        self._pack(m, words, lane, emit, block, final)
        return m

    def _count(self, m, full, begins, final):
        """How many texts are in the queue of words."""
        # `full` counts texts whose words lie in the queue or are being made
        m.d.sync += full.eq(full + (begins) - self.taken)
        texts = Signal(2)
        m.d.sync += texts.eq(texts + final - self.taken)
        m.d.comb += [self.whole.eq(texts != 0), self.coming.eq(full != 0)]

    def _pack(self, m, words, lane, emit, block, final):
        """Blocks into bus words."""
        held = Signal(128 * max(self.lanes - 1, 1))
        word = Signal(8 * self.bus_bytes)
        with m.Switch(lane):
            for k in range(self.lanes):
                with m.Case(k):
                    m.d.comb += word.eq(Cat(held[: 128 * k], block))
        m.d.comb += [
            words.i.payload.eq(word),
            words.i.valid.eq(emit & ((lane == self.lanes - 1) | final)),
        ]
        with m.If(emit):
            m.d.sync += [
                lane.eq(Mux((lane == self.lanes - 1) | final, 0, lane + 1)),
                held.eq(word),
            ]
