"""A group's rows in their places: requests for their words, rows of passes, and all of them as records: of a full job, or where ranks have changed."""

from types import SimpleNamespace

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.shell import ADDRESS_BITS, FitError
from ..arith.shift import shifted_right
from ..index import index
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


class Rows:
    """Adds to a module the rows of a pass, from bus words as `models.qr.image.pack_rows` lays them out: strides of a power of two, beside them a bit a place.

    A word of rows accepted in cycle t is offered from cycle t + 2 on, `row_units` rows (as many as a word has, if those are fewer) a cycle. Words follow
    each other without a gap. Labels are places.

    Parameters
    ----------
    name
        Of the buffer behind it.
    units
        Rows a cycle.
    offsets : ArrayLayout(8, n_max - 1)
        Constant from the command to the pass's last rows.
    sources : stream.Signature(8 * bus_bytes)
        Words of bits, and of rows. Both must come: a word of bits is needed before the first rows that it is of.
    """

    def __init__(self, m: Module, config: FitPlan, name: str, units: int, offsets, sources):
        self.config, self.units, self.offsets = config, units, offsets
        n, bus, asked = config.n_max, config.bus_bytes, {"length": range(config.n_max), "span": 32}
        # the window's length, and how many places there are, ≥ 1; accepted when the last rows of
        # the pass before have left for the output's buffer
        self.command = stream.Signature(data.StructLayout(asked)).create(path=(name,))
        self.choices = strides(bus)
        m.submodules[name] = self.out = Buffer(rows_shape(n, units))
        self.o = self.out.o
        self.active, self.go = Signal(), Signal()
        self.length, self.choice = Signal(range(n), reset_less=True), index(len(self.choices))
        self.left, self.label = Signal(32, reset_less=True), Signal(31, reset_less=True)
        self.count = Signal(range(self.units + 1))
        # rows of a word, and of a cycle
        self.holds, self.each = Signal(range(bus + 1)), Signal(range(self.units + 1))
        # asked of what is left a cycle ahead: whether any, whether no more than the rows of a cycle
        self.some, self.last = Signal(), Signal()
        self.words_held, self.bits_held = (
            SimpleNamespace(
                stream=source,
                word=Signal(8 * bus, name=f"{name}_word", reset_less=True),
                left=Signal(range(most + 1), name=f"{name}_left"),
                some=Signal(name=f"some_{name}"),
                last=Signal(name=f"last_{name}"),
            )
            for name, source, most in (("words", sources[1], bus), ("bits", sources[0], 8 * bus))
        )
        self._advance(m)
        self._judge(m)
        self._begin(m)

    def _advance(self, m):
        """Rows and bits leave their words; new words come."""
        bus, rest = self.config.bus_bytes, Signal(8 * self.config.bus_bytes)
        with m.Switch(self.choice):
            for k, stride in enumerate(self.choices):
                each = min(self.units, bus // stride)
                with m.Case(k):
                    m.d.comb += [
                        self.holds.eq(bus // stride),
                        self.each.eq(each),
                        rest.eq(self.words_held.word[8 * stride * each :]),
                    ]
        m.d.comb += [
            self.count.eq(Mux(self.left < self.each, self.left, self.each)),
            self.out.i.valid.eq(self.active & self.words_held.some & self.bits_held.some),
            self.go.eq(self.out.i.valid & self.out.i.ready),
            self.command.ready.eq(~self.active),
            self.out.i.p.last.eq(self.last),
        ]
        ahead = Mux(self.go, self.each << 1, self.each)
        m.d.sync += self.last.eq(self.left <= ahead)
        with m.If(self.go):
            m.d.sync += [
                self.label.eq(self.label + self.each),
                self.left.eq(self.left - self.count),
                self.some.eq(~self.last),
            ]
            with m.If(self.last):
                m.d.sync += self.active.eq(0)
        bits_rest = shifted_right(m, self.bits_held.word, self.each)
        for held, behind, full, ends_at_once in (
            (self.words_held, rest, self.holds, self.holds <= self.each),
            (self.bits_held, bits_rest, 8 * bus, 0),
        ):
            ends = held.last | self.last
            more = Mux(self.go, ~self.last, self.some)
            m.d.comb += held.stream.ready.eq(self.active & (~held.some | (self.go & ends)) & more)
            m.d.sync += held.last.eq(held.left <= ahead)
            with m.If(self.go):
                m.d.sync += [
                    held.word.eq(behind),
                    held.left.eq(Mux(ends, 0, held.left - self.each)),
                    held.some.eq(~ends),
                ]
            with m.If(held.stream.valid & held.stream.ready):
                values = {"word": held.stream.payload, "left": full, "last": ends_at_once}
                m.d.sync += fields(held, **values, some=1)

    def _judge(self, m):
        """Which places hold rows, their labels and their order."""
        n, bus = self.config.n_max, self.config.bus_bytes
        previous = Signal(8 * (n - 1), reset_less=True)
        self.any_row, self.wrong = Signal(), Signal()
        before, any_before = previous, self.any_row
        disorder = self.wrong
        for k in range(self.units):
            row = self.out.i.p.rows[k]
            raw = Signal(8 * (n - 1), name=f"raw{k}")
            with m.Switch(self.choice):
                for choice, stride in enumerate(self.choices):
                    with m.Case(choice):
                        here = self.words_held.word[8 * stride * k : 8 * stride * (k + 1)]
                        m.d.comb += raw.eq(here if stride * (k + 1) <= bus else 0)
            use = Signal(name=f"use{k}")
            m.d.comb += [
                use.eq((k < self.count) & self.bits_held.word[k]),
                row.use.eq(use),
                row.label.eq(self.label + k),
                row.a[0].eq(1),
            ]
            for j in range(n - 1):
                with m.If(j < self.length):
                    value = raw.word_select(j, 8)
                    m.d.comb += [row.row[j].eq(value), row.a[1 + j].eq(value - self.offsets[j])]
            number = Signal(8 * (n - 1), name=f"number{k}")
            m.d.comb += number.eq(Cat(*reversed([row.row[j] for j in range(n - 1)])))
            disorder = disorder | (use & any_before & (number < before))
            before, any_before = Mux(use, number, before), any_before | use
        m.d.comb += self.out.i.p.disorder.eq(disorder)
        with m.If(self.go):
            m.d.sync += [previous.eq(before), self.any_row.eq(any_before), self.wrong.eq(disorder)]

    def _begin(self, m):
        empty = (self.any_row, self.wrong, self.label, self.words_held.some, self.bits_held.some)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                *fields(self, active=1, some=1, length=self.command.p.length),
                self.left.eq(self.command.p.span),
                self.choice.eq(stride_choice(self.command.p.length, self.config.bus_bytes)),
                *(flag.eq(0) for flag in empty),
            ]


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

    Parameters
    ----------
    job, begins
        A pass over the rows of this descriptor's job begins, for which `ready` has to be high.
    offsets
        As of `Rows`.
    intake
        Words of `bits` and of `rows`.
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
