"""A group's rows in their places: requests for their words, rows of passes, and all of them as records: of a full job, or where ranks have changed."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.shell import ADDRESS_BITS, FitError
from ..arith.shift import shifted_right
from ..index import index, index_range
from ..named import named
from ..stream.passing import fields
from ..stream.queue import Buffer
from .descriptor import first_code
from .dot import row_shape
from .records import record_shape


def rows_shape(n_max, row_units):
    """Rows of neighbouring places; `last`: the pass ends with them, `disorder`: a row was less than the one before it, here or earlier in the pass."""
    return data.StructLayout(
        {"rows": data.ArrayLayout(row_shape(n_max), row_units), "last": 1, "disorder": 1}
    )


@dataclass(frozen=True)
class _Places:
    """Of a pass the places whose rows are next."""

    active: Signal
    length: Signal  # the window's
    choice: Signal  # which of `strides` the rows take
    holds: Signal  # rows of a word
    each: Signal  # rows of a cycle
    count: Signal  # of these so many are the pass's
    label: Signal  # of the first one
    left: Signal  # places that have not gone
    some: Signal  # there are such
    last: Signal  # no more than go in a cycle
    go: Signal  # rows go


@dataclass(frozen=True)
class _Held:
    """A word that comes, and is used up from its low end."""

    i: Any
    word: Signal
    left: Signal  # rows
    some: Signal  # there are such
    last: Signal  # no more than go in a cycle


class Rows:
    """Adds to a module the rows of a pass, from bus words as `models.qr.image.pack_rows` lays them out: strides of a power of two, beside them a bit a place.

    A word of rows accepted in cycle t is offered from cycle t + 2 on, `row_units` rows (as many as a word has, if those are fewer) a cycle. Words follow
    each other without a gap. Labels are places.

    * `name`: of the buffer behind it.
    * `units`: rows a cycle.
    * `offsets` (`ArrayLayout(8, n_max - 1)`): constant from the command to the pass's last rows.
    * `sources` (`stream.Signature(8 * bus_bytes)`): words of bits, and of rows. Both must come: a word of
      bits is needed before the first rows that it is of.
    """

    def __init__(self, m: Module, config: FitPlan, name: str, units: int, offsets, sources):
        n, bus, asked = config.n_max, config.bus_bytes, {"length": range(config.n_max), "span": 32}
        # the window's length, and how many places there are, ≥ 1; accepted when the last rows of
        # the pass before have left for the output's buffer
        self.command = command = stream.Signature(data.StructLayout(asked)).create(path=(name,))
        m.submodules[name] = out = Buffer(rows_shape(n, units))
        self.o = out.o
        no_reset = {"length": range(n), "left": 32, "label": 31}
        places = named(
            _Places,
            **{x: Signal(shape, name=x, reset_less=True) for x, shape in no_reset.items()},
            choice=index_range(len(strides(bus))),
            holds=range(bus + 1),
            each=range(units + 1),
            count=range(units + 1),
        )
        bits, words = (
            _Held(
                i=source,
                word=Signal(8 * bus, name=f"{name}_word", reset_less=True),
                left=Signal(range(most + 1), name=f"{name}_left"),
                some=Signal(name=f"some_{name}"),
                last=Signal(name=f"last_{name}"),
            )
            for name, source, most in zip(("bits", "words"), sources, (8 * bus, bus), strict=True)
        )
        m.d.comb += [
            out.i.valid.eq(places.active & words.some & bits.some),
            places.go.eq(out.i.valid & out.i.ready),
            command.ready.eq(~places.active),
        ]
        _advance(m, places)
        rest = _rest(m, places, words.word, units)
        _use_up(m, places, words, rest, places.holds, places.holds <= places.each)
        _use_up(m, places, bits, shifted_right(m, bits.word, places.each), 8 * bus, 0)
        begins = command.valid & command.ready
        _give_rows(m, places, (words.word, bits.word), offsets, out.i.p, begins)
        with m.If(begins):
            m.d.sync += [
                *fields(places, active=1, some=1, label=0, length=command.p.length),
                places.left.eq(command.p.span),
                places.choice.eq(stride_choice(command.p.length, bus)),
                *(held.some.eq(0) for held in (words, bits)),
            ]


def _ahead(places):
    """In the next cycle no more than `each` are left, if no more than this are left now."""
    return Mux(places.go, places.each << 1, places.each)


def _advance(m, places):
    """Rows leave."""
    m.d.comb += places.count.eq(Mux(places.left < places.each, places.left, places.each))
    m.d.sync += places.last.eq(places.left <= _ahead(places))
    with m.If(places.go):
        m.d.sync += fields(
            places,
            label=places.label + places.each,
            left=places.left - places.count,
            some=~places.last,
        )
        with m.If(places.last):
            m.d.sync += places.active.eq(0)


def _rest(m, places, word, units):
    """Rows of a word and of a cycle, by their stride; return what is left of the word behind the latter."""
    rest, bus = Signal(len(word)), len(word) // 8
    with m.Switch(places.choice):
        for k, stride in enumerate(strides(bus)):
            each = min(units, bus // stride)
            with m.Case(k):
                m.d.comb += fields(places, holds=bus // stride, each=each)
                m.d.comb += rest.eq(word[8 * stride * each :])
    return rest


def _use_up(m, places, held, behind, full, ends_at_once):
    """Rows leave a word, and the next one comes with the last of them. `behind`: what stays of the word, `full`: rows of a new one, `ends_at_once`: they
    are no more than leave in a cycle."""
    ends, more = held.last | places.last, Mux(places.go, ~places.last, places.some)
    m.d.comb += held.i.ready.eq(places.active & (~held.some | (places.go & ends)) & more)
    m.d.sync += held.last.eq(held.left <= _ahead(places))
    with m.If(places.go):
        left = Mux(ends, 0, held.left - places.each)
        m.d.sync += fields(held, word=behind, left=left, some=~ends)
    with m.If(held.i.valid & held.i.ready):
        m.d.sync += fields(held, word=held.i.payload, left=full, last=ends_at_once, some=1)


def _give_rows(m, places, words, offsets, o, begins):
    """Which places hold rows, their labels and their order. `words`: of rows, of bits."""
    word, bits = words
    n, bus = len(offsets) + 1, len(word) // 8
    # the last row, whether there has been one, whether one was out of order
    previous, any_row, wrong = Signal(8 * (n - 1), reset_less=True), Signal(), Signal()
    before, any_before, disorder = previous, any_row, wrong
    for k, row in enumerate(o.rows):
        raw, use = Signal(8 * (n - 1), name=f"raw{k}"), Signal(name=f"use{k}")
        with m.Switch(places.choice):
            for choice, stride in enumerate(strides(bus)):
                with m.Case(choice):
                    here = word[8 * stride * k : 8 * stride * (k + 1)]
                    m.d.comb += raw.eq(here if stride * (k + 1) <= bus else 0)
        m.d.comb += [
            use.eq((k < places.count) & bits[k]),
            *fields(row, use=use, label=places.label + k),
            row.a[0].eq(1),
        ]
        for j in range(n - 1):
            with m.If(j < places.length):
                value = raw.word_select(j, 8)
                m.d.comb += [row.row[j].eq(value), row.a[1 + j].eq(value - offsets[j])]
        number = Signal(8 * (n - 1), name=f"number{k}")
        m.d.comb += number.eq(Cat(*reversed([row.row[j] for j in range(n - 1)])))
        disorder = disorder | (use & any_before & (number < before))
        before, any_before = Mux(use, number, before), any_before | use
    m.d.comb += [o.last.eq(places.last), o.disorder.eq(disorder)]
    with m.If(places.go):
        m.d.sync += [previous.eq(before), any_row.eq(any_before), wrong.eq(disorder)]
    with m.If(begins):
        m.d.sync += [any_row.eq(0), wrong.eq(0)]


def strides(bus_bytes):
    """The strides of rows that a bus word holds: `models.qr.layout.row_stride`."""
    return [1 << k for k in range(2, 7) if 1 << k <= bus_bytes]


def stride_choice(length, bus_bytes):
    """Which of `strides` rows of this length take."""
    return sum((length > stride for stride in strides(bus_bytes)[:-1]), 0)


def pass_shape(n_max):
    """A group's rows: where they lie, how many places there are (≥ 1), the window's length."""
    return data.StructLayout({"address": ADDRESS_BITS, "span": 32, "length": range(n_max)})


class RowRequests:
    """Adds the requests of one pass after the other to a module: of each block of 8 · bus_bytes places the word of bits, then the words of rows.

    Rows lie as `models.qr.image.pack_rows` has them, the bits behind all of them. A pass accepted in cycle t offers its first request in t + 1; the next pass
    is accepted when the last request has been taken. Golden: `models.qr.layout.pass_requests`.
    """

    def __init__(self, m: Module, config: FitPlan, name: str):
        asked = data.StructLayout({"address": ADDRESS_BITS, "beats": 24, "bits": 1, "last": 1})
        self.i = stream.Signature(pass_shape(config.n_max)).create(path=(name, "i"))
        self.o = stream.Signature(asked).create(path=(name, "o"))
        bus = config.bus_bytes
        shift, block = bus.bit_length() - 1, 8 * bus
        choices = strides(bus)
        active, of_rows = Signal(), Signal()
        # in bus words
        bits_at = Signal(ADDRESS_BITS - shift, reset_less=True)
        rows_at = Signal(ADDRESS_BITS - shift, reset_less=True)
        left = Signal(32, reset_less=True)
        here = Signal(range(block + 1))
        choice = index(len(choices), name="choice")
        words = lambda places, each: (places + (each - 1)) >> each.bit_length() - 1
        span = Array([words(self.i.p.span, bus // stride) for stride in choices])
        beats = Array([words(here, bus // stride) for stride in choices])
        block_bytes = Array([8 * stride for stride in choices])
        m.d.comb += [
            self.i.ready.eq(~active),
            self.o.valid.eq(active),
            here.eq(Mux(left < block, left, block)),
            *fields(self.o.p, bits=~of_rows, last=of_rows & (left <= block)),
            self.o.p.beats.eq(Mux(of_rows, beats[choice], 1)),
            self.o.p.address.eq(Mux(of_rows, rows_at, bits_at) << shift),
        ]
        with m.If(self.i.valid & self.i.ready):
            first = self.i.p.address >> shift
            kind = stride_choice(self.i.p.length, bus)
            m.d.sync += [
                active.eq(1),
                of_rows.eq(0),
                rows_at.eq(first),
                bits_at.eq(first + span[kind]),
                left.eq(self.i.p.span),
                choice.eq(kind),
            ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += of_rows.eq(~of_rows)
            with m.If(of_rows):
                m.d.sync += [rows_at.eq(rows_at + block_bytes[choice]), left.eq(left - here)]
                with m.If(left <= block):
                    m.d.sync += active.eq(0)
            with m.Else():
                m.d.sync += bits_at.eq(bits_at + 1)


class FullScan:
    """Adds a pass over all rows to a module: a place a cycle; then an item with `end`, whose `code` is QR_DESCRIPTOR where a full
    job's rows were not as many as it says, QR_ORDER where rows were out of order. Each row adds
    its label times itself to c, in a full job it comes as well. Label `slot`: a place without a row changes nothing.

    Times as those of `Rows` with one row a cycle; the `end` follows the last place at once. A group without places gives the `end` in the cycle after
    `begins`. Golden: `models.qr.golden.sum_all_rows`.

    * `job`, `begins`: a pass over the rows of this descriptor's job begins, for which `ready` has to be high.
    * `offsets`: as of `Rows`.
    * `intake`: words of `bits` and of `rows`.
    """

    def __init__(self, m: Module, config: FitPlan, job, begins, offsets, intake):
        rows = Rows(m, config, "full_scan", 1, offsets, (intake.bits, intake.rows))
        self.ready = Signal()  # a pass begins when the one before it has ended
        self.o = stream.Signature(record_shape(config.n_max)).create(path=("scanned",))
        active, ends = Signal(), Signal()
        wrong, full, missing = Signal(), Signal(), Signal(24)
        some, record, row = job.span != 0, self.o.p, rows.o.p.rows[0]
        m.d.comb += [
            *fields(rows.command.p, length=job.length, span=job.span),
            self.ready.eq(~active & rows.command.ready),
            rows.command.valid.eq(begins & ~active & some),
            self.o.valid.eq(ends | rows.o.valid),
            rows.o.ready.eq(self.o.ready & ~ends),
        ]
        with m.If(ends):
            miscounted = full & (missing != 0), FitError.QR_DESCRIPTOR.value
            code = first_code((miscounted, (wrong, FitError.QR_ORDER.value)))
            m.d.comb += [record.end.eq(1), record.code.eq(code)]
        with m.Else():
            m.d.comb += [
                record.value.eq(Mux(row.use, row.label, 0)),
                record.sign.eq(row.use & full),
                *(record[name].eq(row[name]) for name in ("label", "a", "row")),
            ]
        with m.If(rows.o.valid & rows.o.ready):
            m.d.sync += [
                ends.eq(rows.o.p.last),
                wrong.eq(rows.o.p.disorder),
                missing.eq(missing - row.use),
            ]
        with m.If(ends & self.o.ready):
            m.d.sync += [ends.eq(0), active.eq(0)]
        with m.If(begins):
            m.d.sync += [
                active.eq(1),
                ends.eq(~some),
                wrong.eq(0),
                full.eq(job.flags[0]),
                missing.eq(job.rows),
            ]
