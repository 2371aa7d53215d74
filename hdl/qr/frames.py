"""What blocks of rows have moved since the last pass, brought up to date with a job's moves."""

from amaranth.hdl import Array, Cat, Module, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.layout import frame_words, shift_words
from ...models.qr.ranks import MOVE_BITS, TREND_BITS
from ..index import index

__all__ = ["TREND", "Frames"]

#: bits of the trend
TREND = TREND_BITS + 2


class Frames(wiring.Component):
    """Takes a job's words of what blocks have moved before, then those of its moves and trend; says of any block how far it has moved then.

    Golden: `models.qr.ranks.frames`. A word a cycle; what it says is there one cycle later.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan` with `blocks`.
    units
        Of how many neighbouring blocks it is asked at once.

    Members
    -------
    start : In(1), into : In(1)
        The next job's words come from the next cycle on, into this bank: one of two, in which what it says stays.
    i : In(8 * bus_bytes), valid : In(1)
    ends : Out(1)
        The word that is there is the last one.
    o : Out(8 * bus_bytes), o_valid : Out(1)
        In the cycle of a word of moves: the word of what blocks have moved then.
    block : In, of : In(1), move, moved : Out(ArrayLayout(signed(MOVE_BITS), units))
        The moves of block · units and those behind it, and what they have moved now, in this bank, in the same cycle.
    trend : Out(signed(TREND))
    over : Out(1)
        Some block has moved further than its number's bits say.
    """

    def __init__(self, config: FitPlan, units: int = 1):
        self.config, self.units = config, units
        bus, asked = 8 * config.bus_bytes, data.ArrayLayout(signed(MOVE_BITS), units)
        super().__init__(
            {
                "start": In(1),
                "into": In(1),
                "of": In(1),
                "i": In(bus),
                "valid": In(1),
                "ends": Out(1),
                "o": Out(bus),
                "o_valid": Out(1),
                "block": In(8),
                "move": Out(asked),
                "moved": Out(asked),
                "trend": Out(signed(TREND)),
                "over": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        blocks, bus = self.config.blocks, 8 * self.config.bus_bytes
        of_frames = frame_words(self.config)
        of_moves = shift_words(self.config)
        per = bus // MOVE_BITS
        lanes = min(per, blocks)
        width = MOVE_BITS * lanes
        number, second = index(of_moves, name="number"), Signal()
        m.submodules.frames = frames = Memory(shape=unsigned(width), depth=2 * of_frames, init=[])
        m.submodules.moves = moves = Memory(shape=unsigned(width), depth=2 * of_frames, init=[])
        put, put_move = frames.write_port(), moves.write_port()
        before, get, get_move = (
            memory.read_port(domain="comb") for memory in (frames, frames, moves)
        )
        old, move = (
            [word.word_select(k, MOVE_BITS).as_signed() for k in range(lanes)]
            for word in (before.data, self.i)
        )
        wide = [a + b for a, b in zip(old, move, strict=True)]
        now = Cat(total[:MOVE_BITS] for total in wide)
        some, places = Signal(), (of_frames - 1).bit_length()
        m.d.comb += [
            some.eq(self.valid & (number < of_frames)),
            self.o_valid.eq(some & second),
            self.o.eq(now),
            self.ends.eq(second & (number == of_moves - 1)),
            *(port.addr.eq(Cat(number[:places], self.into)) for port in (before, put, put_move)),
            put.en.eq(some),
            put_move.en.eq(self.o_valid),
            put_move.data.eq(self.i[:width]),
            put.data.eq(self.i[:width]),
        ]
        with m.If(second):
            m.d.comb += put.data.eq(now)
        with m.If(self.valid):
            m.d.sync += number.eq(number + 1)
            with m.If(~second & (number == of_frames - 1)):
                m.d.sync += [number.eq(0), second.eq(1)]
            with m.If(second & (number == 2 * blocks // (bus // 8))):
                m.d.sync += self.trend.eq(self.i[MOVE_BITS * blocks % bus :][:TREND])
            with m.If(
                self.o_valid & Cat(total[MOVE_BITS] != total[MOVE_BITS - 1] for total in wide).any()
            ):
                m.d.sync += self.over.eq(1)
        with m.If(self.start):
            m.d.sync += [number.eq(0), second.eq(0), self.over.eq(0)]

        groups = lanes // self.units
        bits = (groups - 1).bit_length()
        for port, out in ((get, self.moved), (get_move, self.move)):
            m.d.comb += port.addr.eq(Cat((self.block >> bits)[:places], self.of))
            choices = Array(
                [port.data.word_select(k, MOVE_BITS * self.units) for k in range(groups)]
            )
            m.d.comb += out.as_value().eq(choices[self.block[:bits]] if bits else choices[0])
        return m
