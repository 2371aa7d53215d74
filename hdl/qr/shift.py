"""Ranks without a pass: whole blocks of rows move together, and their sums are kept."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.layout import blocks_together, frame_words, words
from ...models.qr.ranks import BLOCK_BITS, BLOCK_ROWS, MOVE_BITS, TREND_BITS
from ..index import index
from .frames import TREND, Frames
from .normal_equations import right_hand_side_shape
from .records import record_shape

__all__ = ["Shift", "trend_shape"]

#: bits of a count of rows
_ROWS = 25
#: bits of what c grows by: moves of so many bits times sums of all blocks
_SUM = 64
#: bits of what is left of moves without their trend: labels are below 2**14 where no block is crowded
_REST = MOVE_BITS + TREND_BITS + 4

#: `models.qr.ranks.Frames`, without the blocks
trend_shape = data.StructLayout(
    {"trend": signed(TREND), "low": signed(_REST), "high": signed(_REST)}
)


class Shift(wiring.Component):
    """Adds up what a job's records change in the blocks' sums, while the job before is read; then the memo's words of these sums pass: new word = old word +
    change, and c grows by each block's move times its old sums.

    Golden: `models.qr.ranks`. Twin in cycles: `models.qr.blocks.Shift`. A word a cycle: what blocks have moved, by how much they move now, their sums. The new
    words are what they have moved then, and the new sums; a word of sums accepted in cycle t gives the new one in t + 2. Without a memo no words come, and the
    new ones are zeros and the changes alone. Records are taken at one a cycle, with no effect on others.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan` with `blocks`.

    Members
    -------
    record : In(record_shape(n_max)), valid : In(1)
        As `NormalEquationAccumulator` takes them, a job's `end` too.
    freed : In(1)
        What the oldest job's records change is not wanted any more.
    command : In(stream.Signature({columns, fresh}))
        The oldest job's words come next; `fresh`: there is no memo, and no words come. Its records have ended.
    i : In(stream.Signature(8 * bus_bytes))
    o : Out(8 * bus_bytes), o_valid : Out(1)
        New words of what blocks have moved, then of their sums.
    done : Out(1), crowded : Out(1), trend : Out(trend_shape)
        5 cycles after the last word until the next command: all is known; a block has more than `BLOCK_ROWS` rows, or has moved too far; what the bounds
        want.
    chunk : In, right_hand_side : Out(right_hand_side_shape(bus_bytes))
        What is to be added to this word of c, one cycle later.
    """

    def __init__(self, config: FitPlan):
        self.config = config
        n, bus = config.n_max, config.bus_bytes
        self.each, self.together = 8 * bus // BLOCK_BITS, blocks_together(config)
        self.pieces = words(n, self.each)
        self.chunks = words(8 * n, bus)
        super().__init__(
            {
                "record": In(record_shape(n)),
                "valid": In(1),
                "freed": In(1),
                "command": In(
                    stream.Signature(data.StructLayout({"columns": range(n + 1), "fresh": 1}))
                ),
                "i": In(stream.Signature(8 * bus)),
                "o": Out(8 * bus),
                "o_valid": Out(1),
                "done": Out(1),
                "crowded": Out(1),
                "trend": Out(trend_shape),
                "chunk": In(12),
                "right_hand_side": Out(right_hand_side_shape(bus)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.units = range(self.together)
        self.blocks = self.config.blocks // self.together  # groups of blocks that share a word
        self.reading = Signal()
        self.block = index(self.blocks, name="block")
        self.piece = index(self.pieces, name="piece")
        self.changes = [self._changes(m, self.reading, self.block, unit) for unit in self.units]

        self._words(m)
        self._take_word(m)
        self._new_words(m)
        self._right_side(m)
        return m

    def _words(self, m):
        """Moves first; without a memo as many zeros as there are words."""
        m.submodules.frames = self.frames = Frames(self.config, self.together)
        of_frames = frame_words(self.config)
        self.active = Signal()
        self.fresh = Signal()
        self.of_sums = Signal()
        self.number = index(of_frames, name="number")
        self.columns = Signal(range(self.config.n_max + 1))
        self.take = Signal()
        self.ends = Signal()
        self.zeros = Signal()
        self.begins = Signal()
        m.d.comb += [
            self.command.ready.eq(~self.active),
            self.begins.eq(self.command.valid & self.command.ready),
            self.i.ready.eq(self.active & ~self.fresh),
            self.take.eq(self.active & self.of_sums & (self.fresh | self.i.valid)),
            self.zeros.eq(self.active & ~self.of_sums & self.fresh),
            self.frames.start.eq(self.begins),
            self.frames.i.eq(self.i.payload),
            self.frames.valid.eq(self.active & ~self.of_sums & self.i.valid & ~self.fresh),
            self.frames.block.eq(self.block),
            self.ends.eq(
                self.piece
                == Array([max(words(k, self.each), 1) - 1 for k in range(self.config.n_max + 1)])[
                    self.columns
                ]
            ),
        ]
        with m.If(self.frames.valid & self.frames.ends):
            m.d.sync += self.of_sums.eq(1)
        with m.If(self.zeros):
            m.d.sync += self.number.eq(self.number + 1)
            with m.If(self.number == of_frames - 1):
                m.d.sync += self.of_sums.eq(1)

    def _take_word(self, m):
        """The word, its changes and its block's move."""
        # the word, its changes and its block's move; then the new word, and what c grows by
        self.held = Signal(8 * self.config.bus_bytes)
        self.held_move = Signal.like(self.frames.move)
        self.held_moved = Signal.like(self.frames.moved)
        self.held_changes = [
            Signal(each.shape(), name=f"held_changes{unit}")
            for unit, each in enumerate(self.changes)
        ]
        self.held_piece = Signal.like(self.piece)
        self.some = Signal()
        last = Signal(4)
        m.d.sync += [
            self.some.eq(self.take),
            last.eq(Cat(self.take & self.ends & (self.block == self.blocks - 1), last)),
            self.done.eq((self.done | last[-1]) & ~self.begins),
        ]
        with m.If(self.take):
            m.d.sync += [
                self.held.eq(Mux(self.fresh, 0, self.i.payload)),
                self.held_move.as_value().eq(Mux(self.fresh, 0, self.frames.move.as_value())),
                self.held_moved.eq(self.frames.moved),
                *(mine.eq(now) for mine, now in zip(self.held_changes, self.changes, strict=True)),
                self.held_piece.eq(self.piece),
                self.piece.eq(Mux(self.ends, 0, self.piece + 1)),
            ]
            with m.If(self.ends):
                m.d.sync += self.block.eq(self.block + 1)
                with m.If(self.block == self.blocks - 1):
                    m.d.sync += self.active.eq(0)

    def _new_words(self, m):
        """The new word, and what c gets."""
        numbers = [
            entry
            for mine in self.held_changes
            for entry in (
                mine.rows[:BLOCK_BITS],
                *(mine.sums[j] for j in range(self.config.n_max - 1)),
            )
        ]
        by_piece = Array(
            [
                Cat(
                    *numbers[k * self.each : (k + 1) * self.each], Const(0, BLOCK_BITS * self.each)
                )[: BLOCK_BITS * self.each]
                for k in range(self.pieces)
            ]
        )[self.held_piece]
        old = [self.held.word_select(e, BLOCK_BITS).as_signed() for e in range(self.each)]
        new = Cat(
            (value + by_piece.word_select(e, BLOCK_BITS).as_signed())[:BLOCK_BITS]
            for e, value in enumerate(old[: min(self.each, self.config.n_max * self.together)])
        )
        m.d.sync += [
            self.o_valid.eq(self.some | self.zeros | self.frames.o_valid),
            self.o.eq(Mux(self.some, new, Mux(self.fresh, 0, self.frames.o))),
        ]
        added = [
            Signal(signed(MOVE_BITS + BLOCK_BITS + 2), name=f"added{e}")
            for e in range(min(self.each, self.config.n_max))
        ]
        added_piece = Signal.like(self.piece)
        grows = Signal()
        m.d.sync += [
            *(
                product.eq(
                    sum(
                        (
                            self.held_move[unit] * old[unit * self.config.n_max + e]
                            for unit in self.units
                        ),
                        Const(0, 1),
                    )
                )
                for e, product in enumerate(added)
            ),
            added_piece.eq(self.held_piece),
            grows.eq(self.some),
        ]
        self.sums = [Signal(signed(_SUM), name=f"sum{j}") for j in range(self.config.n_max)]
        with m.If(grows):
            for j, total in enumerate(self.sums):
                with m.If(added_piece == j // self.each):
                    m.d.sync += total.eq(total + added[j % self.each])
        rows = [
            mine.rows.as_signed() + old[unit * self.config.n_max]
            for unit, mine in enumerate(self.held_changes)
        ]
        with m.If(
            (
                self.some
                & (self.held_piece == 0)
                & Cat((count > BLOCK_ROWS) | (count < 0) for count in rows).any()
            )
            | self.frames.over
        ):
            m.d.sync += self.crowded.eq(1)
        with m.If(self.freed):
            m.d.sync += self.reading.eq(~self.reading)
        self._trend(
            m,
            self.frames.trend,
            self.some & (self.held_piece == 0),
            rows,
            self.held_moved,
            self.begins,
        )

    def _right_side(self, m):
        """What moves add to c."""
        with m.If(self.begins):
            m.d.sync += [
                self.active.eq(1),
                self.fresh.eq(self.command.p.fresh),
                self.of_sums.eq(0),
                self.columns.eq(self.command.p.columns),
                self.number.eq(0),
                self.block.eq(0),
                self.piece.eq(0),
                self.crowded.eq(0),
                *(total.eq(0) for total in self.sums),
            ]

        width = self.config.bus_bytes // 8
        for place in range(width):
            with m.Switch(self.chunk):
                for chunk in range(self.chunks):
                    if chunk * width + place < self.config.n_max:
                        with m.Case(chunk):
                            m.d.sync += self.right_hand_side[place].eq(
                                self.sums[chunk * width + place]
                            )
                with m.Default():
                    m.d.sync += self.right_hand_side[place].eq(0)

    def _trend(self, m, trend, some, rows, moved, begins):
        """Blocks as they pass, one after the other: what their moves are without the trend, of their first and their last row."""
        first = Signal(signed(_ROWS))
        begin = first
        low = self.trend.low
        high = self.trend.high
        any_yet = Signal()
        lowest = low
        highest = high
        found = any_yet
        for unit, now in enumerate(rows):
            place, count, shift = (
                Signal(signed(_ROWS), name=f"{name}{unit}") for name in ("place", "count", "shift")
            )
            valid = Signal(3, name=f"valid{unit}")
            m.d.sync += [
                valid.eq(Cat(some & (now > 0), valid)),
                place.eq(begin),
                count.eq(now),
                shift.eq(moved[unit]),
            ]
            begin = begin + now
            of_first, of_others, here, there = (
                Signal(signed(_REST + 8), name=f"{name}{unit}")
                for name in ("of_first", "of_others", "here", "there")
            )
            moved2 = Signal.like(shift, name=f"moved{unit}")
            m.d.sync += [
                of_first.eq(trend * (place - shift)),
                of_others.eq(trend * (count - 1)),
                moved2.eq(shift),
            ]
            left = (moved2 << TREND_BITS) - of_first
            m.d.sync += [here.eq(left), there.eq(left - of_others)]
            less, more = Mux(here < there, here, there), Mux(here < there, there, here)
            lowest = Mux(valid[2] & ~(found & (lowest < less)), less, lowest)
            highest = Mux(valid[2] & ~(found & (highest > more)), more, highest)
            found = found | valid[2]
        m.d.comb += self.trend.trend.eq(trend)
        with m.If(some):
            m.d.sync += first.eq(begin)
        m.d.sync += [any_yet.eq(found), low.eq(lowest), high.eq(highest)]
        with m.If(begins):
            m.d.sync += [first.eq(0), any_yet.eq(0), low.eq(0), high.eq(0)]

    def _changes(self, m, reading, block, unit):
        """What records change in blocks unit, unit + together, …, in two banks: return what they do in the one that is this word's."""
        n = self.config.n_max
        blocks = self.config.blocks // self.together
        record = self.record
        lane = (self.together - 1).bit_length()
        shape = data.StructLayout(
            {"rows": signed(_ROWS), "sums": data.ArrayLayout(signed(BLOCK_BITS), n - 1)}
        )
        m.submodules[f"changes{unit}"] = changes = Memory(
            shape=unsigned(shape.size), depth=2 * blocks, init=[]
        )
        write = changes.write_port()
        own = changes.read_port(domain="comb")
        out = changes.read_port(domain="comb")
        used, bank = Signal(2 * blocks, name=f"used{unit}"), Signal(name=f"bank{unit}")
        some = Signal()
        sign = Signal(signed(2))
        a = [Signal(signed(9), name=f"a{unit}_{k}") for k in range(1, n)]
        bits = len(index(blocks)) if blocks > 1 else 0
        where = Signal(bits + 1)
        mine = record.block[:lane] == unit if lane else Const(1, 1)
        m.d.sync += [
            some.eq(self.valid & (record.sign != 0) & mine),
            sign.eq(record.sign),
            where.eq(Cat(record.block[lane : lane + bits], bank)),
            *(x.eq(record.a[k + 1]) for k, x in enumerate(a)),
        ]
        with m.If(self.valid & record.end):
            m.d.sync += bank.eq(~bank)
        with m.If(self.freed):
            m.d.sync += used.word_select(reading, blocks).eq(0)
        before, after = Signal(shape), Signal(shape)
        m.d.comb += [
            own.addr.eq(where),
            write.addr.eq(where),
            write.en.eq(some),
            write.data.eq(after.as_value()),
            before.as_value().eq(Mux(used.bit_select(where, 1), own.data, 0)),
            after.rows.eq(before.rows + sign),
            *(after.sums[k].eq(before.sums[k] + Mux(sign < 0, -x, x)) for k, x in enumerate(a)),
        ]
        with m.If(some):
            m.d.sync += used.bit_select(where, 1).eq(1)
        found, here = Signal(shape), Signal(bits + 1)
        m.d.comb += [
            here.eq(Cat(block[:bits], reading)),
            out.addr.eq(here),
            found.as_value().eq(Mux(used.bit_select(here, 1), out.data, 0)),
        ]
        return found
