"""The softmax unit on the path of results, bit for bit as `models.pim.softmax`."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.numerics.floating import float16
from ...models.numerics.mx import BIAS
from ...models.pim.config import COLUMNS, TILE, PimConfig
from ...models.pim.softmax import FRACTION, GONE, LIMIT, ONE, POLYNOMIAL, TOTAL
from ..arith.pipeline import Pipeline
from ..stream import Queue
from .float16 import Float16Results
from .mx import MX8, MxResults, floored

#: of a score, and of the nearest power of two
_Y, _N = signed(LIMIT + 1), signed(LIMIT - FRACTION + 2)
_END = (1 << LIMIT) - 1


class SoftmaxUnit(wiring.Component):
    """Takes parts of scores, and makes a tile's weights behind its last part, one number a cycle.

    Time goes on in every cycle. The words of a slot are there `PimConfig.tile_cycles` cycles at most after its last part, or after those of the
    tile before.
    """

    def __init__(self, config: PimConfig) -> None:
        self.config = config
        self.mx = config.format == "mx8"
        self.results: Any = MxResults() if self.mx else Float16Results()
        self.slots = 2 * config.soft_items
        self._slot = data.StructLayout({"slot": (self.slots - 1).bit_length(), "keys": 6})
        super().__init__(
            {
                # 32 bytes of results with their place (`models.pim.program`)
                "take": In(1),
                "place": In(16),
                "data": In(256),
                "ends": In(1),  # a tile is whole with them
                "keys": In(6),  # of the tile, less 1
                "ask": In(1),  # the words of a slot are wanted now
                "word": In(16),  # the number of one of them
                "o_word": Out(256),  # the word, in the same cycle
                "o_early": Out(1),  # the words that are asked for are not there
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        at = self._course(m)
        self._scores(m, at, *self._number(m, at))
        self._weights(m, at)
        return m

    @property
    def _part_bits(self) -> int:
        return (self.config.soft_parts_wide - 1).bit_length()

    def _course(self, m: Module) -> SimpleNamespace:
        """Tiles in turn: the sums of their parts (`adding`), then the weights (`coding`), until the last word is written (`ended`)."""
        m.submodules.queue = queue = Queue(self._slot, self.slots)
        at = SimpleNamespace(
            tile=Signal(self._slot),
            key=Signal(6),
            part=Signal(range(max(2, self.config.soft_parts))),
            **{
                name: Signal(name=name)
                for name in ("begin", "adding", "coding", "ended", "settled")
            },
            queued=queue.i.p.slot,
            exponent=Signal(_N),
            outside=Signal(7),
        )
        shift = 1 + self._part_bits + self.config.result_reads - 1
        m.d.comb += [
            queue.i.valid.eq(self.take & self.ends),
            queue.i.p.slot.eq(self.place >> shift),
            queue.i.p.keys.eq(self.keys),
        ]
        last = at.part == self.config.soft_parts - 1
        with m.FSM():
            with m.State("idle"):
                m.d.comb += [queue.o.ready.eq(1), at.begin.eq(queue.o.valid)]
                m.d.sync += [at.tile.eq(queue.o.payload), at.key.eq(0), at.part.eq(0)]
                with m.If(at.begin):
                    m.next = "add"
            with m.State("add"):
                m.d.comb += at.adding.eq(1)
                m.d.sync += [at.part.eq(Mux(last, 0, at.part + 1)), at.key.eq(at.key + last)]
                with m.If(last & (at.key == TILE - 1)):
                    m.next = "settle"
            with m.State("settle"):  # the last sum is on its way
                m.d.sync += at.settled.eq(~at.settled)
                with m.If(at.settled):
                    m.next = "code"
            with m.State("code"):
                m.d.comb += at.coding.eq(1)
                m.d.sync += at.key.eq(at.key + 1)
                with m.If(at.key == TILE - 1):
                    m.next = "store"
            with m.State("store"), m.If(at.ended):
                m.next = "idle"
        return at

    def _number(self, m: Module, at: SimpleNamespace) -> tuple[Value, Value]:
        """The part of a score one cycle after its address, and whether it is beyond the range."""
        config, pipe = self.config, Pipeline(m)
        depth = 2 * self.slots * config.soft_parts_wide * config.result_reads
        m.submodules.parts = cells = memory.Memory(shape=256, depth=depth, init=[])
        read, write = cells.read_port(), cells.write_port()
        half = [] if self.mx else [at.key[4]]
        m.d.comb += [
            write.en.eq(self.take),
            write.addr.eq(self.place),
            write.data.eq(self.data),
            read.en.eq(at.adding),
            read.addr.eq(Cat(*half, at.part[: self._part_bits], at.key[5], at.tile.slot)),
        ]
        column = pipe.delay(at.key[:5], 1, "column")
        if self.mx:
            group = read.data.word_select(column[4], 128)
            value = group[16:].word_select(column[:4], 1 + MX8.magnitude_bits)
            magnitude, sign = value[:-1], value[-1]
            high = group[:8] - group[8:16].bit_select(column[1:4], 1)
            low, most = BIAS + MX8.magnitude_bits - 1 - FRACTION, LIMIT - 1
        else:
            value = read.data.word_select(column[:4], 16)
            high, sign = value[10:15], value[15]
            magnitude = Mux(high.any(), Cat(value[:10], 1), 0)[:11]
            low = float16.bias + 10 - FRACTION
            most = 2 * float16.bias - low
        # magnitude · 2^(high − low); powers above `most` are beyond the range
        right = pipe.wire(most + low - high, signed(11), name="right")
        number = Cat(Const(0, most), Mux(sign, -magnitude, magnitude)[: len(magnitude) + 1])
        placed = pipe.wire(number, signed(len(number)), name="placed")
        integer = floored(pipe, placed, Mux(right < 0, 0, right)[:9])
        far = (right < 0) & magnitude.any() | (integer > _END) | (integer < -_END)
        beyond = pipe.wire(far, name="beyond")
        return pipe.wire(Mux(beyond, Mux(sign, -_END, _END), integer), _Y, name="part"), beyond

    def _scores(self, m: Module, at: SimpleNamespace, value: Value, beyond: Value) -> None:
        """Sums of parts, kept; the tile's exponent, and how many scores lay beyond the range."""
        pipe = Pipeline(m)
        m.submodules.sums = cells = memory.Memory(shape=_Y, depth=TILE, init=[])
        read, write = cells.read_port(), cells.write_port()
        first = pipe.delay(at.part == 0, 1, "first")
        last = pipe.delay(at.adding & (at.part == self.config.soft_parts - 1), 1, "last")
        key = pipe.delay(at.key, 1, "place")
        before, gone = Signal(signed(LIMIT + 1 + self._part_bits)), Signal()
        total = pipe.wire(Mux(first, 0, before) + value, before.shape(), name="total")
        lost = pipe.wire(beyond | (gone & ~first), name="lost")
        m.d.sync += [before.eq(total), gone.eq(lost)]
        over, under = total > _END, total < -_END
        y = pipe.wire(Mux(over, _END, Mux(under, -_END, total)), _Y, name="y")
        n = pipe.wire(_rounded(y), _N, name="n")
        with m.If(at.begin):
            m.d.sync += [at.exponent.eq(-(1 << LIMIT - FRACTION)), at.outside.eq(0)]
        with m.Elif(last & (key <= at.tile.keys)):
            m.d.sync += at.outside.eq(at.outside + (lost | over | under))
            with m.If(n > at.exponent):
                m.d.sync += at.exponent.eq(n)
        m.d.comb += [
            write.en.eq(last),
            write.addr.eq(key),
            write.data.eq(y),
            read.en.eq(at.coding),
            read.addr.eq(at.key),
        ]
        at.y = read.data

    def _weights(self, m: Module, at: SimpleNamespace) -> None:
        """Powers of two beside the tile's exponent, coded as results are, and their total."""
        pipe, results, one = Pipeline(m), self.results, ONE[self.config.format]
        s = pipe.rank(
            valid=pipe.delay(at.coding, 1, "valid"),
            key=pipe.delay(at.key, 1, "key"),
            t=at.y[:FRACTION].as_signed(),
            below=at.exponent - _rounded(at.y),
        )
        value: Value = Const(POLYNOMIAL[-1], signed(18))
        for coefficient in POLYNOMIAL[-2::-1]:
            value = pipe.wire(coefficient + (value * s.t >> FRACTION), signed(18), name="m")
            s = pipe.rank(**(vars(s) | {"m": value}))
            value = s.m
        gone = pipe.wire((s.below >= GONE) | (s.key > at.tile.keys), name="gone")
        below = pipe.wire(Mux(gone, GONE, s.below)[:6], name="below")
        weight = pipe.wire(Mux(gone, 0, s.m)[:17], name="weight")
        total = Signal(32)
        with m.If(at.begin):
            m.d.sync += total.eq(0)
        with m.Elif(s.valid):
            m.d.sync += total.eq(total + (Cat(Const(0, TOTAL - FRACTION), weight) >> below))
        exponent = Mux(below > one, 0, one - below)[: len(results.i_exponent)]
        r = pipe.rank(weight=weight, exponent=exponent, valid=s.valid, key=s.key)
        m.submodules.results = results
        m.d.comb += [
            results.i_sum.eq(r.weight),
            results.i_exponent.eq(r.exponent),
            results.i_column.eq(r.key[:5]),
            results.i_valid.eq(r.valid),
        ]
        later = lambda bit, name: pipe.delay(bit, results.latency, name)
        complete = later(r.valid & (r.key[:5] == COLUMNS - 1), "complete")
        wide = lambda x: Cat(x, x[-1].replicate(64 - len(x)))
        tile_word = Cat(wide(at.exponent), total, Const(0, 32), at.outside)
        self._words(m, at, complete, later(r.key[5], "bank"), tile_word)

    def _words(
        self, m: Module, at: SimpleNamespace, complete: Value, bank: Value, tile_word: Value
    ) -> None:
        """The words of slots: each bank's weights when they are whole, and what is told of the tile behind them."""
        pipe, reads, each = Pipeline(m), self.config.result_reads, self.config.soft_words
        m.submodules.words = cells = memory.Memory(shape=256, depth=self.slots * each, init=[])
        read, write = cells.read_port(domain="comb"), cells.write_port()
        bits, valid = (each - 1).bit_length(), Signal(self.slots)
        second = pipe.delay(complete, 1, "second") & (reads == 2)
        number = Cat(second, Mux(second, pipe.delay(bank, 1, "bank"), bank)) if reads == 2 else bank
        code = self.results.o_code.word_select(second, 256) if reads == 2 else self.results.o_code
        m.d.comb += [
            at.ended.eq(pipe.delay(complete & bank, reads, "last")),
            write.en.eq(complete | second | at.ended),
            write.addr.eq(Cat(Mux(at.ended, 2 * reads, number)[:bits], at.tile.slot)),
            write.data.eq(Mux(at.ended, tile_word, code)),
            read.addr.eq(self.word),
            self.o_word.eq(read.data),
            self.o_early.eq(self.ask & ~valid.bit_select(self.word >> bits, 1)),
        ]
        with m.If(self.take & self.ends):
            m.d.sync += valid.bit_select(at.queued, 1).eq(0)
        with m.If(at.ended):
            m.d.sync += valid.bit_select(at.tile.slot, 1).eq(1)


def _rounded(y: Value) -> Value:
    """The nearest whole number of powers of two; what is left are the bits below, with a sign."""
    return y[FRACTION:].as_signed() + y[FRACTION - 1]
