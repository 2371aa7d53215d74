"""Ranks without a pass: whole blocks of rows move together, and their sums are kept."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.qr.config import Config
from ...models.qr.layout import shift_words, words
from ...models.qr.ranks import BLOCK_BITS, BLOCK_ROWS
from ..index import index
from .delta import moments_shape
from .records import record_shape

__all__ = ["Shift"]

#: bits of a number by which labels move
_MOVE = 25
#: bits of what c grows by: such a number times 2**23 rows of 255
_SUM = 56


class Shift(wiring.Component):
    """Adds up what a job's records change in the blocks' sums, while the job before is read; then the memo's words of these sums pass: new word = old word +
    change, and c grows by each block's move times its old sums.

    Golden: `models.qr.ranks`. Twin in cycles: `models.qr.blocks.Shift`. A word a cycle, first those of moves, then those of sums; without a memo none come, and
    the new words are the changes alone. A word accepted in cycle t gives the new one in t + 2. Records are taken at one a cycle, with no effect on others.

    Parameters
    ----------
    config
        `models.qr.Config` with `blocks`.

    Members
    -------
    record : In(record_shape(n_max)), valid : In(1)
        As `Delta` takes them, a job's `end` too.
    freed : In(1)
        What the oldest job's records change is not wanted any more.
    command : In(stream.Signature({columns, fresh}))
        The oldest job's words come next; `fresh`: there is no memo, and no words come. Its records have ended.
    i : In(stream.Signature(8 * bus_bytes))
    o : Out(8 * bus_bytes), o_valid : Out(1)
        New words of sums.
    done : Out(1), crowded : Out(1)
        2 cycles after the last word until the next command: all is known; a block has more than `BLOCK_ROWS` rows.
    chunk : In, moments : Out(moments_shape(bus_bytes))
        What is to be added to this word of c, one cycle later.
    """

    def __init__(self, config: Config, *, src_loc_at=0):
        self.config = config
        n, bus = config.n_max, config.bus_bytes
        self.each = 8 * bus // BLOCK_BITS
        self.pieces = words(n, self.each)
        self.chunks = words(8 * n, bus)
        super().__init__({
            "record": In(record_shape(n)), "valid": In(1), "freed": In(1),
            "command": In(stream.Signature(data.StructLayout({"columns": range(n + 1), "fresh": 1}))), "i": In(stream.Signature(8 * bus)),
            "o": Out(8 * bus), "o_valid": Out(1), "done": Out(1), "crowded": Out(1), "chunk": In(12), "moments": Out(moments_shape(bus))},
            src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        n, blocks, each, bus = self.config.n_max, self.config.blocks, self.each, self.config.bus_bytes
        reading, block, piece = Signal(), index(blocks, name="block"), index(self.pieces, name="piece")
        changes = self._changes(m, reading, block)

        # moves first
        per = bus // 4
        of_moves = shift_words(self.config)
        m.submodules.moves = moves = Memory(shape=unsigned(_MOVE * per), depth=of_moves, init=[])
        put, get = moves.write_port(), moves.read_port(domain="comb")
        active, fresh, of_sums, number = Signal(), Signal(), Signal(), index(of_moves, name="number")
        columns = Signal(range(n + 1))
        take, ends = Signal(), Signal()
        m.d.comb += [
            self.command.ready.eq(~active), self.i.ready.eq(active & ~fresh), take.eq(active & of_sums & (fresh | self.i.valid)),
            put.en.eq(active & ~of_sums & self.i.valid), put.addr.eq(number), put.data.eq(Cat(self.i.payload[32 * k:32 * k + _MOVE] for k in range(per))),
            get.addr.eq(block >> per.bit_length() - 1),
            ends.eq(piece == Array([max(words(k, each), 1) - 1 for k in range(n + 1)])[columns])]
        with m.If(put.en):
            m.d.sync += number.eq(number + 1)
            with m.If(number == of_moves - 1):
                m.d.sync += of_sums.eq(1)
        choices = Array([get.data.word_select(k, _MOVE).as_signed() for k in range(min(per, blocks))])
        move = choices[block[:(len(choices) - 1).bit_length()]] if len(choices) > 1 else choices[0]

        # the word, its changes and its block's move; then the new word, and what c grows by
        held, held_move, held_changes = Signal(8 * bus), Signal(signed(_MOVE)), Signal.like(changes)
        held_piece, some, last = Signal.like(piece), Signal(), Signal()
        m.d.sync += [some.eq(take), last.eq(take & ends & (block == blocks - 1)), self.done.eq((self.done | last) & ~(self.command.valid & self.command.ready))]
        with m.If(take):
            m.d.sync += [held.eq(Mux(fresh, 0, self.i.payload)), held_move.eq(Mux(fresh, 0, move)), held_changes.eq(changes), held_piece.eq(piece),
                         piece.eq(Mux(ends, 0, piece + 1))]
            with m.If(ends):
                m.d.sync += block.eq(block + 1)
                with m.If(block == blocks - 1):
                    m.d.sync += active.eq(0)
        numbers = [held_changes.rows[:BLOCK_BITS], *(held_changes.sums[j] for j in range(n - 1))]
        by_piece = Array([Cat(*numbers[k * each:(k + 1) * each], Const(0, BLOCK_BITS * each))[:BLOCK_BITS * each] for k in range(self.pieces)])[held_piece]
        old = [held.word_select(e, BLOCK_BITS).as_signed() for e in range(each)]
        new = Cat((value + by_piece.word_select(e, BLOCK_BITS).as_signed())[:BLOCK_BITS] for e, value in enumerate(old[:min(each, n)]))
        m.d.sync += [self.o_valid.eq(some), self.o.eq(new)]
        added, added_piece, grows = [Signal(signed(_MOVE + BLOCK_BITS), name=f"added{e}") for e in range(min(each, n))], Signal.like(piece), Signal()
        m.d.sync += [*(product.eq(held_move * value) for product, value in zip(added, old, strict=False)), added_piece.eq(held_piece), grows.eq(some)]
        sums = [Signal(signed(_SUM), name=f"sum{j}") for j in range(n)]
        with m.If(grows):
            for j, total in enumerate(sums):
                with m.If(added_piece == j // each):
                    m.d.sync += total.eq(total + added[j % each])
        rows = held_changes.rows.as_signed() + old[0]
        with m.If(some & (held_piece == 0) & ((rows > BLOCK_ROWS) | (rows < 0))):
            m.d.sync += self.crowded.eq(1)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [active.eq(1), fresh.eq(self.command.p.fresh), of_sums.eq(self.command.p.fresh), columns.eq(self.command.p.columns), number.eq(0),
                         block.eq(0), piece.eq(0), self.crowded.eq(0), *(total.eq(0) for total in sums)]

        width = bus // 8
        for place in range(width):
            with m.Switch(self.chunk):
                for number in range(self.chunks):
                    if number * width + place < n:
                        with m.Case(number):
                            m.d.sync += self.moments[place].eq(sums[number * width + place])
                with m.Default():
                    m.d.sync += self.moments[place].eq(0)
        return m

    def _changes(self, m, reading, block):
        """What records change, in two banks: return what they do in this block."""
        n, blocks, record = self.config.n_max, self.config.blocks, self.record
        shape = data.StructLayout({"rows": signed(_MOVE), "sums": data.ArrayLayout(signed(BLOCK_BITS), n - 1)})
        m.submodules.changes = changes = Memory(shape=unsigned(shape.size), depth=2 * blocks, init=[])
        write, own, out = changes.write_port(), changes.read_port(domain="comb"), changes.read_port(domain="comb")
        used, bank = Signal(2 * blocks), Signal()
        some, sign, a = Signal(), Signal(signed(2)), [Signal(signed(9), name=f"a{k}") for k in range(1, n)]
        bits = len(index(blocks)) if blocks > 1 else 0
        where = Signal(bits + 1)
        m.d.sync += [some.eq(self.valid & (record.sign != 0)), sign.eq(record.sign), where.eq(Cat(record.block[:bits], bank)),
                     *(x.eq(record.a[k + 1]) for k, x in enumerate(a))]
        with m.If(self.valid & record.end):
            m.d.sync += bank.eq(~bank)
        with m.If(self.freed):
            m.d.sync += [reading.eq(~reading), used.word_select(reading, blocks).eq(0)]
        before, after = Signal(shape), Signal(shape)
        m.d.comb += [
            own.addr.eq(where), write.addr.eq(where), write.en.eq(some), write.data.eq(after.as_value()),
            before.as_value().eq(Mux(used.bit_select(where, 1), own.data, 0)), after.rows.eq(before.rows + sign),
            *(after.sums[k].eq(before.sums[k] + Mux(sign < 0, -x, x)) for k, x in enumerate(a))]
        with m.If(some):
            m.d.sync += used.bit_select(where, 1).eq(1)
        found, here = Signal(shape), Signal(bits + 1)
        m.d.comb += [here.eq(Cat(block[:bits], reading)), out.addr.eq(here), found.as_value().eq(Mux(used.bit_select(here, 1), out.data, 0))]
        return found
