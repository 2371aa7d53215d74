"""From exact sums to the rows that a solver loads: rounded to float32 once, the right side about the labels' mean."""

from dataclasses import dataclass

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.job import Method
from ...models.qr.layout import ENTRY_BYTES, entries, entry_counts
from ...models.qr.schedule import CONVERT, DIV, FLOOR
from ..arith.pipeline import Pipeline
from ..index import index
from ..modules import Parts
from ..stream.passing import fields
from ..stream.queue import Queue
from .gearbox import Gearbox
from .numbers import Floor, as_float32, operation
from .solver import load_shape

#: bits of an entry of AᵀA
_WIDTH = 8 * ENTRY_BYTES
#: words of entries on their way through the converters, and in the queue behind these; twice the latency, so that a word may come every cycle
_DEPTH = 2 * CONVERT


@dataclass(frozen=True)
class _Job:
    """The job whose words come."""

    begins: Value  # in the next cycle
    active: Signal
    columns: Signal
    number: Signal


@dataclass(frozen=True)
class _Words:
    """What has come of a job's words."""

    first: Value  # the first word of entries comes
    entries: list[Value]  # a word's as float32, `CONVERT` cycles after it
    c: list[Signal]
    sums: list[Signal]  # of each column: the entries (0, k)
    all_in: Signal


class Loader:
    """Adds to the engine's module what takes a job's words of c and AᵀA as they go into the new memo, and gives its rows.

    Golden: `models.qr.golden.right_side`, and entries rounded as `models.qr.factor.eliminate` does. h = trunc(c_0 / rows) is computed while the rows pass; the
    right side comes `MIDDLE` + columns cycles after the last word at the latest.

    * `i` (`stream.Signature({data, gram, last})`): as `Merge` gives them.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, i):
        n, jobs, pipe = config.n_max, config.jobs, Pipeline(m)
        asked = data.StructLayout({"columns": range(n + 1), "job": range(max(jobs, 2))})
        # the job whose words come next; accepted when the right side of the one before has been
        # taken
        self.command = command = stream.Signature(asked).create(path=("load_command",))
        self.o = stream.Signature(load_shape(n, jobs)).create(path=("load_row",))
        m.submodules.load_queue = queue = Queue(32 * (config.bus_bytes // ENTRY_BYTES), _DEPTH)
        columns, active = Signal(range(n + 1)), Signal()
        rows = Gearbox(m, "load", queue.o, n, count_bits=len(columns))
        givens, counts = config.method is Method.GIVENS, entry_counts(config)
        begins = pipe.wire(command.valid & command.ready, name="begins")
        job = _Job(begins, active, columns, Signal.like(command.p.job, name="job"))
        m.d.comb += [
            command.ready.eq(~active & rows.command.ready),
            rows.command.valid.eq(command.valid & ~active),
            *fields(rows.command.p, size=2 if givens else 1, grow=not givens),
            rows.command.p.count.eq(command.p.columns),
            rows.command.p.units.eq(Array(counts)[command.p.columns]),
        ]
        words = _take_words(pipe, config, parts, i, job, queue)
        # one converter: c_0 while the mean is not known, then the right side
        integer = Signal(signed(64), name="right_side")
        code = as_float32(parts, m, "side", integer)
        h, known = _mean(pipe, parts, job, words, code)
        number = _right_side(pipe, job, words, h, known)
        m.d.comb += integer.eq(Mux(known, number.value, words.c[0]))
        side, full = _collect(pipe, job, number, code, n)
        m.d.comb += self.o.p.h.eq(as_float32(parts, m, "h", h))
        _give_rows(m, job, rows.o, self.o, side, full)
        with m.If(job.begins):
            m.d.sync += fields(job, active=1, columns=command.p.columns, number=command.p.job)


def _take_words(pipe, config, parts, i, job, queue):
    """Words come; entries pass the converters into the queue, which has room for all that are on their way."""
    m, n, word = pipe.m, config.n_max, i.p.data
    each, per_word = config.bus_bytes // ENTRY_BYTES, config.bus_bytes // 8
    under_way, taken, all_in = Signal(range(_DEPTH + 1)), Signal(), Signal()
    # of a part, its words
    number = index(max(-(-entry_counts(config)[-1] // each), -(-n // per_word)) + 1, name="number")
    entries_come, arrived = Signal(), Signal()
    m.d.comb += [
        i.ready.eq(job.active & ~all_in & (under_way != _DEPTH)),
        taken.eq(i.valid & i.ready),
        entries_come.eq(taken & i.p.gram),
        arrived.eq(queue.o.valid & queue.o.ready),
    ]
    m.d.sync += under_way.eq(under_way + entries_come - arrived)
    integers = [word.word_select(k, _WIDTH).as_signed() for k in range(each)]
    floats = [as_float32(parts, m, f"entry{k}", x) for k, x in enumerate(integers)]
    m.d.comb += [
        queue.i.valid.eq(pipe.delay(entries_come, CONVERT, name="entries_come")),
        queue.i.payload.eq(Cat(floats)),
    ]
    c, sums = (
        [Signal(signed(bits), name=f"{name}{k}", reset_less=True) for k in range(n)]
        for name, bits in (("c", 64), ("sum", 32))
    )
    places = entries(config.method, n)
    with m.If(taken):
        of_c = ~i.p.gram
        end = of_c & ((number + 1) * per_word >= job.columns)
        m.d.sync += [number.eq(Mux(end, 0, number + 1)), all_in.eq(i.p.last)]
        for k in range(n):
            at = places.index((0, k))
            with m.If(i.p.gram & (number == at // each)):
                m.d.sync += sums[k].eq(word.word_select(at % each, _WIDTH))
            with m.If(of_c & (number == k // per_word)):
                m.d.sync += c[k].eq(word.word_select(k % per_word, 64))
    with m.If(job.begins):
        m.d.sync += [number.eq(0), all_in.eq(0)]
    return _Words(entries_come & (number == 0), floats, c, sums, all_in)


def _mean(pipe, parts, job, words, total):
    """Return h and whether it is known. The first entry is the number of rows; `total`: of labels, as float32, `CONVERT` cycles behind c_0."""
    m = pipe.m
    first = pipe.delay(words.first, 1, name="first")
    count = pipe.delay(words.entries[0], 1, name="count")
    quotient = operation(parts, m, "mean", "div", total, count)
    middle = parts.instance(m, "mean_floor", "qr_floor", Floor, a=quotient)["label"]
    h, known = Signal(31, reset_less=True), Signal()
    with m.If(pipe.delay(first, CONVERT + DIV + FLOOR, name="first_h")):
        m.d.sync += [h.eq(middle), known.eq(1)]
    with m.If(job.begins):
        m.d.sync += known.eq(0)
    return h, known


def _right_side(pipe, job, words, h, known):
    """c - h · sums, one column a cycle, exact. Return the `value`, its column's `place`, and whether there is one (`going`)."""
    m, place, going = pipe.m, Signal.like(job.columns), Signal()
    m.d.comb += going.eq(job.active & words.all_in & known & (place != job.columns))
    with m.If(going):
        m.d.sync += place.eq(place + 1)
    with m.If(job.begins):
        m.d.sync += place.eq(0)
    c, total = (Array(of)[place] for of in (words.c, words.sums))
    s = pipe.rank(going=going, place=place, c=c, sum=total)
    s = pipe.rank(going=s.going, place=s.place, c=s.c, product=h * s.sum)
    return pipe.rank(going=s.going, place=s.place, value=(s.c - s.product)[:64].as_signed())


def _collect(pipe, job, number, code, n):
    """Return the right side as float32, `code` after `code`, and whether all of it is there."""
    m, full = pipe.m, Signal()
    side = [Signal(32, name=f"side{k}", reset_less=True) for k in range(n)]
    where = pipe.delay(number.place, CONVERT, name="where")
    with m.If(pipe.delay(number.going, CONVERT, name="comes")):
        m.d.sync += full.eq(where == job.columns - 1)
        for k in range(n):
            with m.If(where == k):
                m.d.sync += side[k].eq(code)
    with m.If(job.begins):
        m.d.sync += [register.eq(0) for register in (full, *side)]
    return side, full


def _give_rows(m, job, rows, o, side, full):
    """Rows, the right side last."""
    row, last = Signal.like(job.columns), Signal()
    m.d.comb += [
        last.eq(rows.p.end),
        o.valid.eq(rows.valid & (~last | full)),
        rows.ready.eq(o.ready & (~last | full)),
        *fields(o.p, columns=job.columns, row=row, side=last, job=job.number),
    ]
    for k, value in enumerate(side):
        m.d.comb += o.p.values[k].eq(Mux(last, value, rows.p.data.word_select(k, 32)))
    with m.If(o.valid & o.ready):
        m.d.sync += row.eq(row + 1)
        with m.If(last):
            m.d.sync += job.active.eq(0)
    with m.If(job.begins):
        m.d.sync += row.eq(0)
