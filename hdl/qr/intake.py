"""What the words that come are: dealt to their places, heads checked, what is of no use thrown away."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.descriptor import head_faults
from ...models.qr.layout import DESCRIPTOR_BYTES, HEAD_BYTES, SEGMENT_BYTES, words
from ...models.qr.requests import Route
from ...models.qr.stages import INTAKE
from ..index import index, index_range
from .barrel import shifted_right
from .control import Control
from .core import core_command_shape
from .descriptor import checked, descriptor_shape, head_shape
from .dot import segment_shape
from .fetch import ROUTE_BITS, body_shape
from .records import COUNTS

__all__ = ["Intake", "anchor_shape", "head_kept_shape", "word_shape"]


def word_shape(bus_bytes):
    """A word that was read, `last` of its request, and what was asked for."""
    return data.StructLayout({"data": 8 * bus_bytes, "last": 1, "route": ROUTE_BITS, "final": 1})


def head_kept_shape(n_max):
    """What the end of a job must know of its memo's head; `code`: `models.errors.ErrorCode`."""
    return data.StructLayout({"code": 8, "offsets": data.ArrayLayout(8, n_max - 1)})


def anchor_shape(n_max):
    """An anchor of one segment."""
    return data.StructLayout(
        {"weights": data.ArrayLayout(32, n_max), "segment": segment_shape(n_max)}
    )


class Intake(wiring.Component):
    """Takes words in the order of their requests. A head is checked in the two cycles after its last word, in which no other word of its job is taken. Words
    of a job with a wrong head are thrown away; any other job is given to the core when its offsets and anchor have come.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

    Members
    -------
    i : In(stream.Signature(word_shape(bus_bytes)))
    body : In(stream.Signature(body_shape(config)))
        The jobs that the words are of.
    descriptor_valid : Out(1), descriptor : Out(descriptor_shape)
    head_valid : Out(1), head : Out(head_kept_shape(n_max))
        A head has been checked.
    anchor_valid : Out(1), anchor : Out(anchor_shape(n_max))
        An anchor has come; +0 and 0 beyond the model's columns. It stays until the job has been given on.
    slot : Out
        The job that `head` and `anchor` are of.
    command : Out(stream.Signature(core_command_shape(n_max, jobs, solvers)))
    changes, sums, bits, rows, pass_bits, pass_rows, factor : Out(stream.Signature(8 * bus_bytes))
    """

    def __init__(self, config: FitPlan):
        self.config = config
        n, bus = config.n_max, config.bus_bytes
        words_out = {
            name: Out(stream.Signature(8 * bus))
            for name in ("changes", "sums", "bits", "rows", "pass_bits", "pass_rows", "factor")
        }
        super().__init__(
            {
                "i": In(stream.Signature(word_shape(bus))),
                "body": In(stream.Signature(body_shape(config))),
                "descriptor_valid": Out(1),
                "descriptor": Out(descriptor_shape),
                "head_valid": Out(1),
                "head": Out(head_kept_shape(n)),
                "anchor_valid": Out(1),
                "anchor": Out(anchor_shape(n)),
                "slot": Out(index_range(config.jobs)),
                "command": Out(
                    stream.Signature(core_command_shape(n, config.jobs, config.solvers))
                ),
                **words_out,
            }
        )

    def _collect(self, m, name, size, take):
        """Words of a part of `size` bytes, one below the other; return them all, the one that comes in its place, and the count's reset."""
        bus = self.config.bus_bytes
        count = words(size, bus)
        held, number = (
            Signal(8 * bus * count, name=f"{name}_words", reset_less=True),
            index(count, name=f"{name}_number"),
        )
        now = Signal(len(held), name=f"{name}_now")
        m.d.comb += now.eq(held)
        for k in range(count):
            with m.If(take & (number == k)):
                m.d.comb += now.word_select(k, 8 * bus).eq(self.i.p.data)
        with m.If(take):
            m.d.sync += [held.eq(now), number.eq(Mux(self.i.p.last, 0, number + 1))]
        return now, held

    def elaborate(self, platform):
        m = Module()
        config, self.n = self.config, self.config.n_max
        self.anchored = config.incremental
        self.taken, self.route = Signal(), self.i.p.route
        self.of_head, of_anchor = self.route == Route.HEAD, self.route == Route.ANCHOR
        self.pending, self.bad = Signal(), Signal()
        m.d.comb += self.taken.eq(self.i.valid & self.i.ready)

        self._head(m)
        self._command(m)
        for each in self.streams.values():
            m.d.comb += each.payload.eq(self.i.p.data)
        self._words(m)
        if self.anchored:
            self._anchor(m, self.taken & of_anchor, self.bad, self.pending)
        return m

    def _head(self, m):
        """Descriptor and head."""
        descriptor, _ = self._collect(
            m, "descriptor", DESCRIPTOR_BYTES, self.taken & (self.route == Route.DESCRIPTOR)
        )
        m.d.comb += [
            self.descriptor.as_value().eq(descriptor),
            self.descriptor_valid.eq(self.taken & (self.route == Route.DESCRIPTOR) & self.i.p.last),
        ]
        _, head_words = self._collect(m, "head", HEAD_BYTES + self.n - 1, self.taken & self.of_head)
        head = Signal(head_shape)
        m.d.comb += [
            head.eq(head_words[: 8 * HEAD_BYTES]),
            self.head.code.eq(checked(m, head_faults(head, self.body.p.descriptor, self.config))),
            self.slot.eq(self.body.p.slot),
        ]
        for j in range(self.n - 1):
            with m.If(j < self.body.p.descriptor.length):
                m.d.comb += self.head.offsets[j].eq(head_words[8 * HEAD_BYTES :].word_select(j, 8))

    def _command(self, m):
        """The job's command to those who take its words."""
        m.d.comb += [
            self.command.valid.eq(self.pending),
            self.command.p.length.eq(self.body.p.descriptor.length),
            self.command.p.full.eq(self.body.p.descriptor.flags[0]),
            self.command.p.job.eq(self.body.p.slot),
            self.command.p.solver.eq(self.body.p.solver),
            self.command.p.offsets.eq(self.head.offsets),
            *(
                self.command.p[name].eq(self.body.p.descriptor[name])
                for name in ("rows", "span", *COUNTS)
            ),
        ]
        with m.If(self.pending & self.command.ready):
            m.d.sync += self.pending.eq(0)

        self.streams = {
            Route.CHANGES: self.changes,
            Route.SUMS: self.sums,
            Route.BITS: self.bits,
            Route.ROWS: self.rows,
            Route.PASS_BITS: self.pass_bits,
            Route.PASS_ROWS: self.pass_rows,
            Route.FACTOR: self.factor,
        }

    def _words(self, m):
        """Each word waits for its taker."""
        in_head, in_body = Signal(), Signal()
        with m.Switch(self.route):
            with m.Case(Route.DESCRIPTOR):
                m.d.comb += self.i.ready.eq(1)
            with m.Case(Route.HEAD):
                m.d.comb += self.i.ready.eq(in_head)
            with m.Case(Route.ANCHOR):
                m.d.comb += self.i.ready.eq(in_body)
            for name, taker in self.streams.items():
                passes = name in (Route.PASS_BITS, Route.PASS_ROWS)
                here, away = (Const(1), Const(0)) if passes else (in_body, self.bad)
                with m.Case(name):
                    m.d.comb += [
                        taker.valid.eq(self.i.valid & here & ~away),
                        self.i.ready.eq(here & (taker.ready | away)),
                    ]

        final, good = Signal(), self.head.code == 0  # final: no body follows the head
        ends = self.taken & self.i.p.last
        conditions = {
            "head_ends": ends & self.of_head,
            "final": final,
            "body_ends": ends & self.i.p.final,
            "held": self.pending & ~self.command.ready,
            "given": ~self.pending,
        }
        control = Control(m, INTAKE, conditions)
        m.d.comb += [
            in_head.eq(control.now["HEAD"]),
            in_body.eq(control.now["BODY"]),
            self.head_valid.eq(control.now["VERDICT"]),
            self.body.ready.eq(control.goes["HEAD"]),
        ]
        with m.If(control.goes["CHECK"]):
            m.d.sync += final.eq(self.i.p.final)
        with m.If(control.now["VERDICT"]):
            anchored = ~self.body.p.descriptor.flags[0] & self.anchored
            m.d.sync += [self.bad.eq(~good), self.pending.eq(good & ~anchored)]

    def _anchor(self, m, take, bad, pending):
        n, bus = self.config.n_max, self.config.bus_bytes
        length = self.body.p.descriptor.length
        # two parts in whole words, one behind the other: where the second begins depends on the columns
        counts = [words(4 * k, bus) for k in range(n + 1)]
        number = index(counts[n] + words(SEGMENT_BYTES + 2 * (n - 1), bus), name="anchor_number")
        behind = Signal(range(counts[n] + 1))
        with m.Switch(length):
            for k in range(1, n + 1):
                with m.Case(k - 1):
                    m.d.comb += behind.eq(counts[k])
        weights, segment = (
            Signal(32 * n, reset_less=True),
            Signal(8 * (SEGMENT_BYTES + 2 * (n - 1)), reset_less=True),
        )
        done = Signal()
        m.d.sync += done.eq(0)
        with m.If(take):
            m.d.sync += [
                number.eq(Mux(self.i.p.last, 0, number + 1)),
                done.eq(self.i.p.last & ~bad),
            ]
            for part, first in ((weights, 0), (segment, behind)):
                for k in range(words(len(part) // 8, bus)):
                    with m.If(number == first + k):
                        m.d.sync += part[8 * bus * k : 8 * bus * (k + 1)].eq(self.i.p.data)
            with m.If(self.i.p.last & ~bad):
                m.d.sync += pending.eq(1)
        anchor = self.anchor
        boxes = segment[8 * SEGMENT_BYTES :]
        high = Signal(8 * (n - 1))
        m.d.comb += [
            self.anchor_valid.eq(done),
            high.eq(shifted_right(m, boxes, length, 8)),
            anchor.weights[0].eq(weights[:32]),
            *(
                anchor.segment[name].eq(segment[at : at + 32])
                for name, at in (("err_min", 32), ("err_max", 64), ("least", 160))
            ),
        ]
        for j in range(n - 1):
            with m.If(j < length):
                m.d.comb += [
                    anchor.weights[j + 1].eq(weights.word_select(j + 1, 32)),
                    anchor.segment.low[j].eq(boxes.word_select(j, 8)),
                    anchor.segment.high[j].eq(high.word_select(j, 8)),
                ]
