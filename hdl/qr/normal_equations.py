"""What a job's changes add to c = Aᵀb and to AᵀA: exact integers, two banks; and the memo's words plus that."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory

from ...models.qr.config import FitPlan
from ...models.qr.layout import ENTRY_BYTES, entries, entry_counts, words
from ..index import index
from ..stream.passing import fields
from .records import record_shape

_GRAM = 8 * ENTRY_BYTES


class NormalEquationAccumulator:
    """Adds to the engine's module what adds up records of one job after the other; while one job's sums are read, the next job's grow in the other bank.

    Golden: differences of `models.qr.golden.update_sums` to the memo. A record whose `sign` is not 0 takes
    ceil(entries of AᵀA / gram_lanes) cycles, any other one, and a job's end, 1 cycle (`models.qr.cycles.Work.sums_cycles`, and one).
    The sums are there 3 cycles after the job's end was accepted; in two of them nothing is accepted.

    Lane p has one multiplier of 9 × 9 bits, and holds the entries p, p + gram_lanes, … (`models.qr.layout.entries`) in a memory of its own; in registers, as
    the sums of c are, where each lane has one entry.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan` that is `built`.
    columns
        Of the model whose records come: constant while they do.
    """

    def __init__(self, m: Module, config: FitPlan, columns):
        self.config, self.columns = config, columns
        n, bus = config.n_max, config.bus_bytes
        self.places, self.each = entries(config.method, n), bus // ENTRY_BYTES
        count = len(self.places)
        self.lanes = min(config.gram_lanes, count)
        self.slots = -(-count // self.lanes)
        self.chunks = -(-count // self.each)
        self.i = stream.Signature(record_shape(n)).create(path=("added",))
        # offered while a finished job's sums can be read: the code of its records. Taking it frees
        # the bank.
        self.done = stream.Signature(8).create(path=("summed",))
        self.chunk = index(self.chunks, name="chunk")  # which bus word's sums are wanted
        # what is to be added to this word of c and of AᵀA, one cycle later; entries beyond n_max
        # columns are anything
        self.right_hand_side = Signal(data.ArrayLayout(signed(64), bus // 8))
        self.entries = Signal(data.ArrayLayout(signed(_GRAM), self.each))
        self.bank, self.reading = Signal(), Signal()  # the one that grows, the one that is read
        self.full = Signal(2)  # banks whose sums wait to be read
        self._accept(m)
        self._close(m)
        of_c = [self._sum(m, f"{k}", x * self.value, 64) for k, x in enumerate(self.a)]
        self._give(m, self.right_hand_side, of_c)
        of_gram = self._registers(m) if self.slots == 1 else self._memories(m)
        self._give(m, self.entries, of_gram)

    def _accept(self, m):
        """A record stays at the input while the lanes take its products. Stage 1: operands; stage 2: products; then the sums."""
        self.slot, slots_of = index(self.slots, name="slot"), entry_counts(self.config)
        last_slot = Array([max(-(-count // self.lanes) - 1, 0) for count in slots_of])[self.columns]
        # a job's end has been accepted: its sums settle
        self.closing, self.go, self.taken = Signal(), Signal(), Signal()
        final = (self.i.p.sign == 0) | (self.slot == last_slot)
        room = ~self.full.bit_select(self.bank, 1) & ~self.closing
        m.d.comb += [
            self.i.ready.eq(final & room),
            self.go.eq(self.i.valid & room),
            self.taken.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self.go):
            m.d.sync += self.slot.eq(Mux(final, 0, self.slot + 1))
        self.a = [
            Signal(signed(9), name=f"a{k}", reset_less=True) for k in range(self.config.n_max)
        ]
        self.value, self.sign = Signal(signed(32)), Signal(signed(2))
        self.some, self.slot1, self.first_slots = Signal(), Signal.like(self.slot), Signal()
        self.fresh_gram = Signal(init=1)  # nothing of this job's AᵀA is in the bank yet
        m.d.sync += [
            *fields(self, some=self.go & (self.i.p.sign != 0), slot1=self.slot, sign=self.i.p.sign),
            self.value.eq(Mux(self.taken, self.i.p.value, 0)),
            self.first_slots.eq(self.fresh_gram),
            *(x.eq(self.i.p.a[k]) for k, x in enumerate(self.a)),
        ]
        with m.If(self.taken & ((self.i.p.sign != 0) | self.i.p.end)):
            m.d.sync += self.fresh_gram.eq(self.i.p.end)

    def _close(self, m):
        """A job's end closes its bank."""
        ends, closed = self.taken & self.i.p.end, Signal()  # the end's operands are in stage 1
        # sums begin anew: what they are before the first job is anything
        self.closed2, self.clear, self.zero_gram = Signal(), Signal(init=1), Signal()
        m.d.sync += [closed.eq(ends), self.closed2.eq(closed), self.clear.eq(closed)]
        settled = Signal(
            data.ArrayLayout(data.StructLayout({"code": 8, "none": 1}), 2), reset_less=True
        )
        with m.If(ends):
            mine = settled[self.bank]
            m.d.sync += self.closing.eq(1)
            m.d.sync += fields(mine, code=self.i.p.code, none=self.fresh_gram)
        with m.If(self.closed2):
            m.d.sync += self.full.bit_select(self.bank, 1).eq(1)
            m.d.sync += fields(self, bank=~self.bank, closing=0)
        with m.If(self.done.valid & self.done.ready):
            m.d.sync += self.full.bit_select(self.reading, 1).eq(0)
            m.d.sync += self.reading.eq(~self.reading)
        read = settled[self.reading]
        m.d.comb += [
            self.done.valid.eq(self.full.bit_select(self.reading, 1)),
            self.done.payload.eq(read.code),
            self.zero_gram.eq(read.none),  # the job had no record for AᵀA
        ]

    def _registers(self, m):
        """The entries where each has a lane."""
        factors = [Signal(signed(9), name=f"factor{k}") for k in range(len(self.a))]
        for factor, x in zip(factors, self.a, strict=True):
            m.d.comb += factor.eq(Mux(self.some, self._signed(x), 0))
        products = ((f"{i}_{j}", factors[i] * self.a[j]) for i, j in self.places)
        return [
            self._sum(m, f"{k}_{at}", product, _GRAM) for k, (at, product) in enumerate(products)
        ]

    def _signed(self, x):
        # a product by 1 or -1 would take a multiplier of its own; bytes less offsets are above -256
        return Mux(self.sign < 0, -x, x)

    def _sum(self, m, name, product, width):
        """Products added up, one a cycle, until the job is closed; return the sum of the job whose sums are read."""
        now = Signal(product.shape(), name=f"product{name}")
        late = Signal(product.shape(), name=f"late{name}", reset_less=True)
        held = Signal(signed(width), name=f"sum{name}", reset_less=True)
        new = Signal(signed(width), name=f"new{name}")
        kept = [Signal(signed(width), name=f"kept{name}_{b}", reset_less=True) for b in range(2)]
        m.d.comb += [now.eq(product), new.eq(held + late)]
        m.d.sync += [late.eq(now), held.eq(Mux(self.clear, 0, new))]
        for b in range(2):
            with m.If(self.closed2 & (self.bank == b)):
                m.d.sync += kept[b].eq(new)
        return Mux(self.reading, kept[1], kept[0])

    def _give(self, m, port, sums):
        """The sums of a bus word."""
        out = Signal(port.shape(), reset_less=True)
        m.d.comb += port.eq(out)
        for place, lane in enumerate(out):
            with m.Switch(self.chunk):
                for number, k in enumerate(range(place, len(sums), len(port))):
                    with m.Case(number):
                        m.d.sync += lane.eq(sums[k])
                with m.Default():
                    m.d.sync += lane.eq(0)

    def _memories(self, m):
        """The entries where lanes have several, in memories of their own."""
        add, slot, first = Signal(), Signal.like(self.slot), Signal()
        m.d.sync += [add.eq(self.some), slot.eq(self.slot1), first.eq(self.first_slots)]
        read_slot, lanes = Signal.like(self.slot), []
        with m.Switch(self.chunk):
            for number in range(self.chunks):
                with m.Case(number):
                    m.d.comb += read_slot.eq(number * self.each // self.lanes)
        for p in range(self.lanes):
            left, right = Signal(signed(9), name=f"left{p}"), Signal(signed(9), name=f"right{p}")
            with m.Switch(self.slot1):
                for s, (i, j) in enumerate(self.places[p :: self.lanes]):
                    with m.Case(s):
                        m.d.comb += [left.eq(self.a[i]), right.eq(self.a[j])]
            product = Signal(signed(18), name=f"gram_product{p}", reset_less=True)
            factor = Signal(signed(9), name=f"factor{p}")
            m.d.comb += factor.eq(self._signed(left))
            m.d.sync += product.eq(factor * right)
            m.submodules[f"lane{p}"] = memory = Memory(
                shape=signed(_GRAM), depth=2 << len(slot), init=[]
            )
            write = memory.write_port()
            feedback, out = (memory.read_port(domain="comb") for _ in range(2))
            m.d.comb += [
                feedback.addr.eq(Cat(slot, self.bank)),
                out.addr.eq(Cat(read_slot, self.reading)),
                *fields(write, addr=Cat(slot, self.bank), en=add),
                write.data.eq(Mux(first, 0, feedback.data) + product),
            ]
            lanes.append(Mux(self.zero_gram, 0, out.data))
        return [lanes[k % self.lanes] for k in range(len(self.places))]


class Merge:
    """Adds to the engine's module what adds a `NormalEquationAccumulator`'s sums to the words of a memo's parts c and AᵀA, in the layout of
    `models.qr.image.pack_memo`; without a memo to none.

    A word accepted in cycle t is offered in cycle t + 2; one word a cycle. A job of w words (8 bytes a column, entries of AᵀA, each part
    in whole words) occupies it w + 1 cycles, the command included;
    the next command comes when the last word is taken. No combinational path from `o.ready` to anything but `i.ready`, `chunk` and `command.ready`.

    Golden: `models.qr.image.pack_memo` of the job's new memo.

    Parameters
    ----------
    accumulator
        The `NormalEquationAccumulator`, whose bank may be given back when a job's last word is taken.
    """

    def __init__(self, m: Module, config: FitPlan, accumulator):
        self.config, self.accumulator, self.chunk = config, accumulator, accumulator.chunk
        n, bus, self.counts = config.n_max, config.bus_bytes, entry_counts(config)
        asked = data.StructLayout({"columns": range(n + 1), "fresh": 1})
        word = data.StructLayout({"data": 8 * bus, "gram": 1, "last": 1})
        # a job whose sums the accumulator offers; `fresh`: there is no memo, and no words come
        self.command = stream.Signature(asked).create(path=("merged_job",))
        # words of c (not where it comes from a pass), then of AᵀA
        self.i = stream.Signature(8 * bus).create(path=("merged_word",))
        # new words; `gram`: of AᵀA, `last`: the job's last one
        self.o = stream.Signature(word).create(path=("new_word",))
        self.each = bus // ENTRY_BYTES
        of_c = [max(words(8 * k, bus), 1) - 1 for k in range(n + 1)]
        of_gram = [max(words(count, self.each), 1) - 1 for count in self.counts]
        self.last_words = Array(of_c), Array(of_gram)
        self.active, self.fresh, self.gram = Signal(), Signal(), Signal()
        self.columns, self.number = Signal(range(n + 1)), Signal.like(self.chunk)
        self._words(m)
        self._add(m)

    def _words(self, m):
        """Words of the memo wait in stage 1."""
        bus = 8 * self.config.bus_bytes
        self.valid = Signal()
        self.advance = Signal()
        take = Signal()
        final = Signal()
        anew = Signal()  # the word is the accumulator's sum alone
        self.held, self.held_number = Signal(bus, reset_less=True), Signal.like(self.chunk)
        self.held_gram, self.held_last = Signal(), Signal()
        self.out = Signal(bus, reset_less=True)
        of_c, of_gram = (last[self.columns] for last in self.last_words)
        m.d.comb += [
            final.eq(self.number == Mux(self.gram, of_gram, of_c)),
            self.advance.eq(~self.o.valid | self.o.ready),
            anew.eq(self.fresh | (0 if self.config.incremental else ~self.gram)),
            self.i.ready.eq(self.active & ~anew & self.advance),
            take.eq(self.active & (anew | self.i.valid) & self.advance),
            self.command.ready.eq(~self.active),
            self.o.p.data.eq(self.out),
            self.chunk.eq(Mux(self.advance, self.number, self.held_number)),
        ]
        with m.If(self.command.valid & self.command.ready):
            asked = self.command.p
            m.d.sync += fields(self, active=1, columns=asked.columns, fresh=asked.fresh)
            m.d.sync += fields(self, gram=0, number=0)
        with m.If(take):
            m.d.sync += fields(self, number=Mux(final, 0, self.number + 1), gram=self.gram ^ final)
            with m.If(final & self.gram):
                m.d.sync += self.active.eq(0)
        with m.If(self.advance):
            m.d.sync += fields(self, valid=take, held=Mux(anew, 0, self.i.payload))
            m.d.sync += fields(self, held_number=self.number, held_gram=self.gram)
            m.d.sync += self.held_last.eq(final & self.gram)

    def _add(self, m):
        """Sums of this word, old and new."""
        per_word, width = self.config.bus_bytes // 8, 8 * ENTRY_BYTES
        # places behind the last entry stay 0
        beyond = Signal(range(-2 * self.each, 2 * self.config.n_max * self.config.n_max + 2))
        first = Signal(range(self.config.n_max + 1))  # columns of c before this word
        m.d.comb += beyond.eq(Array(self.counts)[self.columns] - self.held_number * self.each)
        m.d.comb += first.eq(self.held_number * per_word)

        def added(here, place, bits, change):
            old = self.held.word_select(place, bits).as_signed()
            return Mux(here, (old + change[place])[:bits], 0)[:bits]

        of_c, of_gram = self.accumulator.right_hand_side, self.accumulator.entries
        sums = [added(first + k < self.columns, k, 64, of_c) for k in range(per_word)]
        entries = [added(k < beyond, k, width, of_gram) for k in range(self.each)]
        with m.If(self.advance):
            m.d.sync += [
                self.o.valid.eq(self.valid),
                self.out.eq(Mux(self.held_gram, Cat(entries), Cat(sums))),
                self.o.p.gram.eq(self.held_gram),
                self.o.p.last.eq(self.held_last & self.valid),
            ]
