"""What the changes of a refit add to c = Aᵀb and to AᵀA, exact integers in two banks, and the memo's words plus that. Sums of fits over tables are
`table_sums`."""

from dataclasses import dataclass

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory

from ...models.qr.config import FitPlan
from ...models.qr.layout import ENTRY_BYTES, entries, entry_counts, words
from ..index import index
from ..named import named
from ..stream.passing import fields
from .records import record_shape

#: bits of an entry of AᵀA
_GRAM = 8 * ENTRY_BYTES


@dataclass(frozen=True)
class _Banks:
    """Two banks of sums: the sums of one job grow in one, while those of the job before are read in the other."""

    growing: Signal  # the number of the bank
    reading: Signal
    full: Signal  # by bank: its sums wait to be read
    closing: Signal  # a job's end has been accepted: its sums settle
    closed: Signal  # they have settled with this cycle: the bank changes
    clear: Signal  # sums begin anew with the next cycle
    fresh: Signal  # no record for AᵀA has come of the job whose sums grow
    none: Signal  # the job whose sums are read had no record for AᵀA


@dataclass(frozen=True)
class _Operands:
    """Of products: c grows by `value` · a, AᵀA by `sign` · a aᵀ."""

    a: list[Signal]
    value: Signal  # 0 but in a record's last cycle
    sign: Signal
    some: Signal  # for AᵀA
    slot: Signal  # each lane's product is for this one of its entries
    first: Signal  # the entry's sum begins with it


class NormalEquationAccumulator:
    """Adds to the engine's module what adds up records of one job after the other; while one job's sums are read, the next job's grow in the other bank.

    Golden: differences of `models.qr.golden.update_sums` to the memo. A record whose `sign` is not 0 takes
    ceil(entries of AᵀA / gram_lanes) cycles, any other one, and a job's end, 1 cycle (`models.qr.cycles.Work.sums_cycles`, and one).
    The sums are there 3 cycles after the job's end was accepted; in two of them nothing is accepted.

    Lane p has one multiplier of 9 × 9 bits, and holds the entries p, p + gram_lanes, … (`models.qr.layout.entries`) in a memory of its own; in registers, as
    the sums of c are, where each lane has one entry.

    * `config`: `models.qr.config.FitPlan` that is `built`.
    * `columns`: of the model whose records come: constant while they do.
    """

    def __init__(self, m: Module, config: FitPlan, columns):
        n, bus = config.n_max, config.bus_bytes
        places, self.each = entries(config.method, n), bus // ENTRY_BYTES
        self.chunks = -(-len(places) // self.each)
        self.i = stream.Signature(record_shape(n)).create(path=("added",))
        # offered while a finished job's sums can be read: the code of its records. Taking it frees
        # the bank.
        self.done = stream.Signature(8).create(path=("summed",))
        self.chunk = index(self.chunks, name="chunk")  # which bus word's sums are wanted
        # what is to be added to this word of c and of AᵀA, one cycle later; entries beyond n_max
        # columns are anything
        self.right_hand_side = Signal(data.ArrayLayout(signed(64), bus // 8))
        self.entries = Signal(data.ArrayLayout(signed(_GRAM), self.each))
        lanes = min(config.gram_lanes, len(places))
        last = Array([max(-(-k // lanes) - 1, 0) for k in entry_counts(config)])[columns]
        # what sums are before the first job is anything
        ones = {name: Signal(init=1, name=name) for name in ("clear", "fresh")}
        banks = named(_Banks, full=2, **ones)
        operands = _accept(m, self.i, banks, -(-len(places) // lanes), last)
        _close(m, self.i, self.done, banks)
        products = (x * operands.value for x in operands.a)
        of_c = [_sum(m, banks, f"{k}", product, 64) for k, product in enumerate(products)]
        _give(m, self.chunk, self.right_hand_side, of_c)
        if lanes == len(places):
            of_gram = _registers(m, banks, operands, places)
        else:
            first = Array([k * self.each // lanes for k in range(self.chunks)])[self.chunk]
            of_gram = _memories(m, banks, operands, places, lanes, first)
        _give(m, self.chunk, self.entries, of_gram)


def _accept(m, i, banks, slots, last_slot):
    """A record stays at the input while the lanes take its products, slot after slot: operands are there a cycle later, products in the next, then sums."""
    slot = index(slots, name="slot")
    go, taken = Signal(), Signal()
    final = (i.p.sign == 0) | (slot == last_slot)
    room = ~banks.full.bit_select(banks.growing, 1) & ~banks.closing
    m.d.comb += [i.ready.eq(final & room), go.eq(i.valid & room), taken.eq(i.valid & i.ready)]
    with m.If(go):
        m.d.sync += slot.eq(Mux(final, 0, slot + 1))
    a = [Signal(signed(9), name=f"a{k}", reset_less=True) for k in range(len(i.p.a))]
    operands = named(_Operands, a=a, value=signed(32), sign=signed(2), slot=slot.shape())
    m.d.sync += [
        *fields(operands, some=go & (i.p.sign != 0), slot=slot, sign=i.p.sign, first=banks.fresh),
        operands.value.eq(Mux(taken, i.p.value, 0)),
        *(x.eq(i.p.a[k]) for k, x in enumerate(operands.a)),
    ]
    with m.If(taken & ((i.p.sign != 0) | i.p.end)):
        m.d.sync += banks.fresh.eq(i.p.end)
    return operands


def _close(m, i, done, banks):
    """A job's end closes its bank, and is offered with its code; when that is taken, the other bank is the next to be read."""
    ends, closed = i.valid & i.ready & i.p.end, Signal()  # the end's operands are there
    m.d.sync += [closed.eq(ends), banks.closed.eq(closed), banks.clear.eq(closed)]
    of_bank = data.StructLayout({"code": 8, "none": 1})
    settled = Signal(data.ArrayLayout(of_bank, 2), reset_less=True)
    with m.If(ends):
        m.d.sync += banks.closing.eq(1)
        m.d.sync += fields(settled[banks.growing], code=i.p.code, none=banks.fresh)
    with m.If(banks.closed):
        m.d.sync += banks.full.bit_select(banks.growing, 1).eq(1)
        m.d.sync += fields(banks, growing=~banks.growing, closing=0)
    with m.If(done.valid & done.ready):
        m.d.sync += banks.full.bit_select(banks.reading, 1).eq(0)
        m.d.sync += banks.reading.eq(~banks.reading)
    m.d.comb += [
        done.valid.eq(banks.full.bit_select(banks.reading, 1)),
        done.payload.eq(settled[banks.reading].code),
        banks.none.eq(settled[banks.reading].none),
    ]


def _registers(m, banks, operands, places):
    """Return the entries' sums where each entry has a lane."""
    factors = [Signal(signed(9), name=f"factor{k}") for k in range(len(operands.a))]
    for factor, x in zip(factors, operands.a, strict=True):
        m.d.comb += factor.eq(Mux(operands.some, _signed(x, operands.sign), 0))
    return [
        _sum(m, banks, f"{k}_{i}_{j}", factors[i] * operands.a[j], _GRAM)
        for k, (i, j) in enumerate(places)
    ]


def _signed(x, sign):
    # a product by 1 or -1 would take a multiplier of its own; bytes less offsets are above -256
    return Mux(sign < 0, -x, x)


def _sum(m, banks, name, product, width):
    """Products added up, one a cycle, until the job is closed; return the sum of the job whose sums are read."""
    now = Signal(product.shape(), name=f"product{name}")
    late = Signal(product.shape(), name=f"late{name}", reset_less=True)
    held = Signal(signed(width), name=f"sum{name}", reset_less=True)
    new = Signal(signed(width), name=f"new{name}")
    kept = [Signal(signed(width), name=f"kept{name}_{b}", reset_less=True) for b in range(2)]
    m.d.comb += [now.eq(product), new.eq(held + late)]
    m.d.sync += [late.eq(now), held.eq(Mux(banks.clear, 0, new))]
    for b in range(2):
        with m.If(banks.closed & (banks.growing == b)):
            m.d.sync += kept[b].eq(new)
    return Mux(banks.reading, kept[1], kept[0])


def _memories(m, banks, operands, places, lanes, read_slot):
    """Return the entries' sums where lanes have several, in memories of their own; of each lane the one in its `read_slot`."""
    add, first = Signal(), Signal()
    slot, read = Signal.like(operands.slot), Signal.like(operands.slot)
    m.d.comb += read.eq(read_slot)
    m.d.sync += [add.eq(operands.some), slot.eq(operands.slot), first.eq(operands.first)]
    sums = []
    for p in range(lanes):
        left, right = Signal(signed(9), name=f"left{p}"), Signal(signed(9), name=f"right{p}")
        with m.Switch(operands.slot):
            for s, (i, j) in enumerate(places[p::lanes]):
                with m.Case(s):
                    m.d.comb += [left.eq(operands.a[i]), right.eq(operands.a[j])]
        product = Signal(signed(18), name=f"gram_product{p}", reset_less=True)
        factor = Signal(signed(9), name=f"factor{p}")
        m.d.comb += factor.eq(_signed(left, operands.sign))
        m.d.sync += product.eq(factor * right)
        m.submodules[f"lane{p}"] = memory = Memory(
            shape=signed(_GRAM), depth=2 << len(slot), init=[]
        )
        write = memory.write_port()
        feedback, out = (memory.read_port(domain="comb") for _ in range(2))
        m.d.comb += [
            feedback.addr.eq(Cat(slot, banks.growing)),
            out.addr.eq(Cat(read, banks.reading)),
            *fields(write, addr=Cat(slot, banks.growing), en=add),
            write.data.eq(Mux(first, 0, feedback.data) + product),
        ]
        sums.append(Mux(banks.none, 0, out.data))
    return [sums[k % lanes] for k in range(len(places))]


def _give(m, chunk, port, sums):
    """The sums of bus word `chunk`."""
    out = Signal(port.shape(), reset_less=True)
    m.d.comb += port.eq(out)
    for place, lane in enumerate(out):
        with m.Switch(chunk):
            for number, k in enumerate(range(place, len(sums), len(port))):
                with m.Case(number):
                    m.d.sync += lane.eq(sums[k])
            with m.Default():
                m.d.sync += lane.eq(0)


@dataclass(frozen=True)
class _Word:
    """A word of the memo, while its sums are read."""

    valid: Signal
    data: Signal  # 0 where nothing comes from the memo
    number: Signal  # in its part
    gram: Signal  # it is of AᵀA, else of c
    last: Signal  # of its job


class Merge:
    """Adds to the engine's module what adds a `NormalEquationAccumulator`'s sums to the words of a memo's parts c and AᵀA, in the layout of
    `models.qr.image.pack_memo`; without a memo to none.

    A word accepted in cycle t is offered in cycle t + 2; one word a cycle. A job of w words (8 bytes a column, entries of AᵀA, each part
    in whole words) occupies it w + 1 cycles, the command included;
    the next command comes when the last word is taken. No combinational path from `o.ready` to anything but `i.ready`, `chunk` and `command.ready`.

    Golden: `models.qr.image.pack_memo` of the job's new memo.

    * `accumulator`: the `NormalEquationAccumulator`, whose bank may be given back when a job's last word is
      taken.
    """

    def __init__(self, m: Module, config: FitPlan, accumulator):
        n, bus, chunk = config.n_max, config.bus_bytes, accumulator.chunk
        asked = data.StructLayout({"columns": range(n + 1), "fresh": 1})
        word = data.StructLayout({"data": 8 * bus, "gram": 1, "last": 1})
        # a job whose sums the accumulator offers; `fresh`: there is no memo, and no words come
        self.command = stream.Signature(asked).create(path=("merged_job",))
        # words of c (not where it comes from a pass), then of AᵀA
        self.i = stream.Signature(8 * bus).create(path=("merged_word",))
        # new words; `gram`: of AᵀA, `last`: the job's last one
        self.o = stream.Signature(word).create(path=("new_word",))
        number, advance, out = Signal.like(chunk), Signal(), Signal(8 * bus, reset_less=True)
        columns, held = _take_words(m, config, self.command, self.i, number, advance)
        m.d.comb += [
            advance.eq(~self.o.valid | self.o.ready),
            chunk.eq(Mux(advance, number, held.number)),
            self.o.p.data.eq(out),
        ]
        of_c, of_gram = _added(m, config, columns, held, accumulator)
        with m.If(advance):
            m.d.sync += [self.o.valid.eq(held.valid), out.eq(Mux(held.gram, of_gram, of_c))]
            m.d.sync += fields(self.o.p, gram=held.gram, last=held.last & held.valid)


def _take_words(m, config, command, i, number, advance):
    """A word is taken when it may `advance`; return the job's columns, and the word of the cycle before. `number`: of the word in its part."""
    bus, counts = config.bus_bytes, entry_counts(config)
    active, fresh, gram = Signal(), Signal(), Signal()
    take, final = Signal(), Signal()
    anew = Signal()  # the new word is the accumulator's sum alone
    columns = Signal(range(config.n_max + 1))
    of_c = [max(words(8 * k, bus), 1) - 1 for k in range(config.n_max + 1)]
    of_gram = [max(words(count, bus // ENTRY_BYTES), 1) - 1 for count in counts]
    m.d.comb += [
        final.eq(number == Mux(gram, Array(of_gram)[columns], Array(of_c)[columns])),
        anew.eq(fresh | (0 if config.incremental else ~gram)),
        i.ready.eq(active & ~anew & advance),
        take.eq(active & (anew | i.valid) & advance),
        command.ready.eq(~active),
    ]
    with m.If(command.valid & command.ready):
        m.d.sync += [columns.eq(command.p.columns), fresh.eq(command.p.fresh)]
        m.d.sync += [active.eq(1), gram.eq(0), number.eq(0)]
    with m.If(take):
        m.d.sync += [number.eq(Mux(final, 0, number + 1)), gram.eq(gram ^ final)]
        with m.If(final & gram):
            m.d.sync += active.eq(0)
    held = named(_Word, data=Signal(8 * bus, name="held", reset_less=True), number=number.shape())
    with m.If(advance):
        m.d.sync += fields(held, valid=take, data=Mux(anew, 0, i.payload), number=number, gram=gram)
        m.d.sync += held.last.eq(final & gram)
    return columns, held


def _added(m, config, columns, held, accumulator):
    """Return the sums of old and new, as if the word were of c, and as if it were of AᵀA."""
    per_word, each = config.bus_bytes // 8, config.bus_bytes // ENTRY_BYTES
    # places behind the last entry stay 0
    beyond = Signal(range(-2 * each, 2 * config.n_max * config.n_max + 2))
    first = Signal(range(config.n_max + 1))  # columns of c before this word
    m.d.comb += beyond.eq(Array(entry_counts(config))[columns] - held.number * each)
    m.d.comb += first.eq(held.number * per_word)

    def added(here, place, bits, change):
        old = held.data.word_select(place, bits).as_signed()
        return Mux(here, (old + change[place])[:bits], 0)[:bits]

    of_c, of_gram = accumulator.right_hand_side, accumulator.entries
    sums = [added(first + k < columns, k, 64, of_c) for k in range(per_word)]
    return Cat(sums), Cat(added(k < beyond, k, _GRAM, of_gram) for k in range(each))
