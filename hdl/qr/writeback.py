"""A job's result and its new memo, written in one piece behind each other."""

from enum import IntEnum
from itertools import pairwise

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.job import Label, Method
from ...models.qr.layout import (
    HEAD_BYTES,
    SEGMENT_BYTES,
    Size,
    factor_words,
    head_words,
    memo_words,
    result_words,
    sums_words,
    words,
)
from ...models.qr.memo_image import MAGIC
from ...models.qr.shell import ADDRESS_BITS
from ..index import index, index_range
from ..memory.reader import command_shape
from .barrel import shifted_left
from .bounds import outcome_shape
from .givens import factor_shape

__all__ = ["WriteBack"]


class Part(IntEnum):
    """What is written, in this order."""

    RESULT = 0
    HEAD = 1
    SUMS = 2
    FACTOR = 3
    WEIGHTS = 4
    SEGMENT = 5


class WriteBack(wiring.Component):
    """Keeps the new sums of all jobs under way, and writes what is published: golden `models.qr.image.pack_result` and, behind it, `pack_memo`.

    A job taken in cycle t gives its command in t + 1 and its words from t + 2 on, one a cycle; the next one is taken in the cycle after its last word's
    transfer at the earliest. After an error just the result's first `HEAD_BYTES` are written: group and code.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

    Members
    -------
    sums : In(stream), sums_job : In
        As `Core`'s `words`; always taken.
    factor : In(stream)
        As `Core`'s; always taken (method `givens` alone).
    i : In(stream.Signature(outcome_shape(n_max))), slot : In
        Outcomes, and the job's number among those under way.
    command : Out(stream.Signature(command_shape(ADDRESS_BITS, 24))), o : Out(stream.Signature(8 * bus_bytes))
        To a `BurstWriter`.
    ended : Out(1)
        A job's last word is transferred.
    """

    def __init__(self, config: FitPlan):
        self.config = config
        n, bus = config.n_max, 8 * config.bus_bytes
        super().__init__(
            {
                "factor": In(stream.Signature(factor_shape(config))),
                "sums_job": In(index_range(config.jobs)),
                "sums": In(
                    stream.Signature(data.StructLayout({"data": bus, "gram": 1, "last": 1}))
                ),
                "i": In(stream.Signature(outcome_shape(n))),
                "slot": In(index_range(config.jobs)),
                "command": Out(stream.Signature(command_shape(ADDRESS_BITS, 24))),
                "o": Out(stream.Signature(bus)),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.anchored = self.config.incremental
        self.givens = self.config.method is Method.GIVENS
        self.shift = self.config.bus_bytes.bit_length() - 1
        self.sizes = [Size(max(k, 1), 0) for k in range(self.config.n_max + 1)]
        self.of_sums = lambda size: sum(sums_words(size, self.config))
        self._store(m)
        self._job(m)

        self._order(m)

        parts = self._parts(m, self.job, self.columns)
        factor = self._factors(m, self.job_slot, self.place, self.advance) if self.givens else None
        with m.Switch(self.part1):
            for name, value in parts.items():
                with m.Case(name):
                    m.d.comb += self.o.payload.eq(self._pick(value, self.place1))
            with m.Case(Part.SUMS):
                m.d.comb += self.o.payload.eq(self.get.data)
            if self.givens:
                with m.Case(Part.FACTOR):
                    m.d.comb += self.o.payload.eq(factor)
        return m

    def _store(self, m):
        """Words of sums are kept until the job is known to be good."""
        self.depth = self.of_sums(self.sizes[self.config.n_max])
        m.submodules.store = store = Memory(
            shape=8 * self.config.bus_bytes, depth=self.depth * self.config.jobs, init=[]
        )
        put, self.get = store.write_port(), store.read_port()
        number = index(self.depth, name="number")
        m.d.comb += [
            self.sums.ready.eq(1),
            put.en.eq(self.sums.valid),
            put.addr.eq(self.sums_job * self.depth + number),
            put.data.eq(self.sums.p.data),
        ]
        with m.If(self.sums.valid):
            m.d.sync += number.eq(Mux(self.sums.p.last, 0, number + 1))

    def _job(self, m):
        """The job whose result is written."""
        self.job = Signal(outcome_shape(self.config.n_max), reset_less=True)
        self.job_slot = Signal.like(self.slot)
        self.active = Signal()
        self.asks = Signal()
        self.columns = Signal(range(self.config.n_max + 1))
        m.d.comb += self.columns.eq(self.job.kept.length + 1)
        self.table = lambda count: Array([count(size) for size in self.sizes])[self.columns]
        m.d.comb += [
            self.i.ready.eq(~self.active),
            self.command.valid.eq(self.asks),
            self.command.p.address.eq(
                Cat(Const(0, self.shift), self.job.kept.result[self.shift :])
            ),
            self.command.p.beats.eq(
                Mux(
                    self.job.code != 0,
                    words(HEAD_BYTES, self.config.bus_bytes),
                    self.table(
                        lambda size: result_words(size, self.config) + memo_words(size, self.config)
                    ),
                )
            ),
        ]

    def _order(self, m):
        """Which word comes next, and the one that is offered."""
        part, final = Signal(range(len(Part))), Signal()
        self.place = index(
            max(
                self.depth,
                factor_words(self.sizes[self.config.n_max], self.config),
                words(32 * self.config.n_max + HEAD_BYTES + SEGMENT_BYTES, self.config.bus_bytes),
            )
        )
        some = Signal()
        valid = Signal()
        last = Signal()
        self.advance = Signal()
        self.part1, self.place1 = Signal.like(part), Signal.like(self.place)
        m.d.comb += [
            self.advance.eq(~valid | self.o.ready),
            self.o.valid.eq(valid),
            self.ended.eq(valid & self.o.ready & last),
            self.get.en.eq(self.advance),
            self.get.addr.eq(self.job_slot * self.depth + self.place),
        ]
        counts = {
            Part.RESULT: Mux(
                self.job.code != 0,
                words(HEAD_BYTES, self.config.bus_bytes),
                self.table(lambda size: result_words(size, self.config)),
            ),
            Part.HEAD: self.table(lambda size: head_words(size, self.config)),
            Part.SUMS: self.table(self.of_sums),
        }
        if self.givens:
            counts[Part.FACTOR] = self.table(lambda size: factor_words(size, self.config))
        if self.anchored:
            counts |= {
                Part.WEIGHTS: self.table(
                    lambda size: words(4 * size.columns, self.config.bus_bytes)
                ),
                Part.SEGMENT: self.table(
                    lambda size: words(
                        SEGMENT_BYTES + 2 * (size.columns - 1), self.config.bus_bytes
                    )
                ),
            }
        order = list(counts)
        ends = order[-1]
        count = Signal(range(max(self.depth, 1 << len(self.place)) + 1))
        with m.Switch(part):
            for name, value in counts.items():
                with m.Case(name):
                    m.d.comb += count.eq(value)
        part_ends = Signal()
        m.d.comb += [
            part_ends.eq(self.place == count - 1),
            final.eq(part_ends & ((part == ends) | (self.job.code != 0))),
        ]
        with m.If(self.advance):
            m.d.sync += [
                valid.eq(some),
                last.eq(final),
                self.part1.eq(part),
                self.place1.eq(self.place),
            ]
            with m.If(some):
                m.d.sync += [self.place.eq(Mux(part_ends, 0, self.place + 1)), some.eq(~final)]
                with m.If(part_ends):
                    with m.Switch(part):
                        for name, following in pairwise(order):
                            with m.Case(name):
                                m.d.sync += part.eq(following)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += self.asks.eq(0)
        with m.If(self.ended):
            m.d.sync += self.active.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                self.job.eq(self.i.payload),
                self.job_slot.eq(self.slot),
                self.active.eq(1),
                self.asks.eq(1),
                part.eq(Part.RESULT),
                self.place.eq(0),
                some.eq(1),
            ]

    def _factors(self, m, slot, place, advance):
        """Keeps new factors; returns the word that was asked for in the cycle before."""
        config = self.config
        depth, number = (
            factor_words(Size(config.n_max, 0), config),
            Signal.like(place, name="factor_number"),
        )
        m.submodules.factors = factors = Memory(
            shape=8 * config.bus_bytes, depth=depth * config.jobs, init=[]
        )
        put, get = factors.write_port(), factors.read_port()
        m.d.comb += [
            put.en.eq(self.factor.valid),
            put.addr.eq(self.factor.p.job * depth + number),
            put.data.eq(self.factor.p.data),
            self.factor.ready.eq(1),
            get.en.eq(advance),
            get.addr.eq(slot * depth + place),
        ]
        with m.If(self.factor.valid):
            m.d.sync += number.eq(Mux(self.factor.p.last, 0, number + 1))
        return get.data

    def _pick(self, value, place):
        bus = 8 * self.config.bus_bytes
        count = -(-len(value) // bus)
        return Array([value[bus * k : bus * (k + 1)] for k in range(count)])[place]

    def _parts(self, m, job, columns):
        """The bytes of the parts that are not in a memory."""
        config, n = self.config, self.config.n_max
        kept, failed = job.kept, job.code != 0
        some = lambda value: value & ~failed.replicate(len(value))
        mask = Signal(64)
        weights = Signal(32 * n)
        offsets = Signal(8 * (n - 1))
        m.d.comb += [mask.eq(job.mask), weights.eq(job.weights), offsets.eq(job.offsets)]
        result = Cat(
            kept.group,
            job.code,
            Const(0, 24),
            some(Cat(job.err_min, job.err_max, job.rescanned, Const(0, 63), mask, weights)),
        )
        head = Cat(
            Const(MAGIC, 32),
            Const(list(Method).index(config.method), 8),
            Const(list(Label).index(config.target), 8),
            kept.length,
            Const(config.incremental, 8),
            kept.prefix,
            Const(0, 16),
            Mux(kept.full, 0, kept.epoch + 1)[:32],
            kept.rows,
            job.live,
            Const(0, 64),
            offsets,
        )
        anchor = job.anchor
        low, high = Signal(8 * (n - 1)), Signal(8 * (n - 1))
        for j in range(n - 1):
            with m.If(j < job.kept.length):
                m.d.comb += [
                    low.word_select(j, 8).eq(anchor.segment.low[j]),
                    high.word_select(j, 8).eq(anchor.segment.high[j]),
                ]
        box = Signal(16 * (n - 1))
        m.d.comb += box.eq(low | shifted_left(m, high, job.kept.length, 8, len(box)))
        segment = Cat(
            Const(0, 32),
            anchor.segment.err_min,
            anchor.segment.err_max,
            Const(0, 64),
            anchor.segment.least,
            box,
        )
        old = Signal(32 * n)
        m.d.comb += old.eq(anchor.weights)
        return {
            Part.RESULT: result,
            Part.HEAD: head,
            **({Part.WEIGHTS: old, Part.SEGMENT: segment} if config.incremental else {}),
        }
