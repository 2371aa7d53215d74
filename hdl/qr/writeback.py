"""A job's result and its new memo, written in one piece behind each other."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.descriptor import HEAD, head_fields
from ...models.qr.layout import HEAD_BYTES, Size, memo_parts, result_words, words
from ..arith.shift import shifted_left
from ..index import index
from ..ram import ram
from ..stream.passing import fields
from .bounds import outcome_shape
from .givens import factor_shape


class WriteBack:
    """Adds to the engine's module what keeps the new sums of all jobs under way, and writes what is published: golden `models.qr.image.pack_result` and,
    behind it, `pack_memo`.

    A job taken in cycle t gives its command in t + 1 and its words from t + 2 on, one a cycle; the next one is taken in the cycle after its last word's
    transfer at the earliest. After an error just the result's first `HEAD_BYTES` are written: group and code.

    * `writer`: `hdl.memory.writer.BurstWriter`.
    * `slot`: the number of the job whose outcome comes, among those under way.
    """

    def __init__(self, m: Module, config: FitPlan, writer, slot):
        # `ended`: a job's last word is transferred
        self.config, self.slot, self.ended = config, slot, Signal()
        self.command, self.o = writer.i, writer.i_data
        n, of_sums = config.n_max, {"data": 8 * config.bus_bytes, "gram": 1, "last": 1}
        # words of c and AᵀA of the new memos, as `Merge` gives them, and their job; always taken
        self.sums = stream.Signature(data.StructLayout(of_sums)).create(path=("sums",))
        # words of new factors; always taken (method `givens` alone)
        self.factor = stream.Signature(factor_shape(config)).create(path=("factor",))
        self.i = stream.Signature(outcome_shape(n)).create(path=("outcome",))  # outcomes
        self.sums_job = Signal.like(slot)
        self.sizes = [Size(max(k, 1), 0) for k in range(n + 1)]
        self.job, self.job_slot = Signal(outcome_shape(n), reset_less=True), Signal.like(self.slot)
        self.active, self.asks, self.advance = Signal(), Signal(), Signal()
        self.columns = Signal(range(n + 1))
        m.d.comb += self.columns.eq(self.job.kept.length + 1)
        # bus words of what is written, in this order, by columns
        self.words = [self._words(size) for size in self.sizes]
        self.order = [name for name, count in self.words[n].items() if count]
        self.place = index(max(self.words[n].values()))
        place1, part1 = self._order(m)
        kept = {"sums": self._kept(m, "sums", self.sums, self.sums_job)}
        if "factor" in self.order:
            job = self.factor.p.job
            kept["factor"] = self._kept(m, "factor", self.factor, job)
        parts = self._parts(m, self.job)
        with m.Switch(part1):
            for number, name in enumerate(self.order):
                with m.Case(number):
                    word = kept[name] if name in kept else self._pick(parts[name], place1)
                    m.d.comb += self.o.payload.eq(word)

    def _words(self, size):
        parts = memo_parts(size, self.config)
        sums = parts["c"] + parts.pop("gram")
        parts = {"sums" if name == "c" else name: count for name, count in parts.items()}
        return {"result": result_words(size, self.config), **parts, "sums": sums}

    def _kept(self, m, name, words, job):
        """Keep words until their job is known to be good; return the one that was asked for in the cycle before."""
        depth = self.words[-1][name]
        number = index(depth, name=f"{name}_number")
        bits, places = 8 * self.config.bus_bytes, depth * self.config.jobs
        put, get = ram(m, f"kept_{name}", bits, places)
        m.d.comb += [
            words.ready.eq(1),
            *fields(put, en=words.valid, addr=job * depth + number, data=words.p.data),
            *fields(get, en=self.advance, addr=self.job_slot * depth + self.place),
        ]
        with m.If(words.valid):
            m.d.sync += number.eq(Mux(words.p.last, 0, number + 1))
        return get.data

    def _order(self, m):
        """Which word comes next, and the one that is offered: its place in its part, and the part."""
        failed, last_part = self.job.code != 0, len(self.order) - 1
        head = words(HEAD_BYTES, self.config.bus_bytes)
        total = Array([sum(of.values()) for of in self.words])[self.columns]
        part = index(len(self.order), name="part")
        some, valid = Signal(), Signal()
        last, final = Signal(), Signal()
        part1, place1 = Signal.like(part), Signal.like(self.place)
        count = Signal(range(max(self.words[-1].values()) + 1))
        with m.Switch(part):
            for number, name in enumerate(self.order):
                with m.Case(number):
                    m.d.comb += count.eq(Array([of[name] for of in self.words])[self.columns])
        with m.If(failed):
            m.d.comb += count.eq(head)
        part_ends, address = self.place == count - 1, self.job.kept.result
        shift = self.config.bus_bytes.bit_length() - 1
        m.d.comb += [
            self.i.ready.eq(~self.active),
            self.command.valid.eq(self.asks),
            self.command.p.address.eq(Cat(Const(0, shift), address[shift:])),
            self.command.p.beats.eq(Mux(failed, head, total)),
            final.eq(part_ends & ((part == last_part) | failed)),
            self.advance.eq(~valid | self.o.ready),
            self.o.valid.eq(valid),
            self.ended.eq(valid & self.o.ready & last),
        ]
        with m.If(self.advance):
            m.d.sync += [valid.eq(some), last.eq(final), part1.eq(part), place1.eq(self.place)]
            with m.If(some):
                m.d.sync += [self.place.eq(Mux(part_ends, 0, self.place + 1)), some.eq(~final)]
                with m.If(part_ends & (part != last_part)):
                    m.d.sync += part.eq(part + 1)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += self.asks.eq(0)
        with m.If(self.ended):
            m.d.sync += self.active.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                self.job.eq(self.i.payload),
                self.job_slot.eq(self.slot),
                *(flag.eq(1) for flag in (self.active, self.asks, some)),
                part.eq(0),
                self.place.eq(0),
            ]
        return place1, part1

    def _pick(self, value, place):
        bus = 8 * self.config.bus_bytes
        count = -(-len(value) // bus)
        return Array([value[bus * k : bus * (k + 1)] for k in range(count)])[place]

    def _parts(self, m, job):
        """The bytes of the parts that are not in a memory."""
        config, n = self.config, self.config.n_max
        kept, failed = job.kept, job.code != 0
        some = lambda value: value & ~failed.replicate(len(value))
        mask, weights, offsets = Signal(64), Signal(32 * n), Signal(8 * (n - 1))
        m.d.comb += [mask.eq(job.mask), weights.eq(job.weights), offsets.eq(job.offsets)]
        fit = Cat(job.err_min, job.err_max, job.rescanned, Const(0, 63), mask, weights)
        result = Cat(kept.group, job.code, Const(0, 24), some(fit))
        epoch = Mux(kept.full, 0, kept.epoch + 1)[:32]
        state = {"length": kept.length, "prefix": kept.prefix, "epoch": epoch, "rows": kept.rows}
        known = {name: Const(value, 8 * HEAD[name]) for name, value in head_fields(config).items()}
        head = Cat(*({**state, **known}[name] for name in HEAD), offsets)
        anchor = job.anchor
        box = {name: Signal(8 * (n - 1), name=name) for name in ("low", "high")}
        for j in range(n - 1):
            with m.If(j < kept.length):
                for name, ends in box.items():
                    m.d.comb += ends.word_select(j, 8).eq(anchor.segment[name][j])
        both, old = Signal(16 * (n - 1)), Signal(32 * n)
        high = shifted_left(m, box["high"], kept.length, 8, len(both))
        m.d.comb += [both.eq(box["low"] | high), old.eq(anchor.weights)]
        numbers = (anchor.segment[name] for name in ("err_min", "err_max"))
        segment = Cat(Const(0, 32), *numbers, Const(0, 64), anchor.segment.least, both)
        return {"result": result, "head": head, "weights": old, "segment": segment}
