"""What the words that come are: dealt to their places, heads checked, what is of no use thrown away."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.descriptor import head_faults
from ...models.qr.layout import DESCRIPTOR_BYTES, HEAD_BYTES, SEGMENT_BYTES, words
from ...models.qr.requests import Route
from ...models.qr.stages import INTAKE
from ..arith.shift import shifted_right
from ..index import index
from .control import Control
from .descriptor import checked, descriptor_shape, head_shape
from .dot import segment_shape
from .fetch import body_shape

#: kinds of words (`Route`) that go on to other units, each through a stream of that name
_STREAMS = ("changes", "sums", "bits", "rows", "pass_bits", "pass_rows", "factor")


def head_kept_shape(n_max):
    """What the end of a job must know of its memo's head; `code`: `models.errors.ErrorCode`."""
    return data.StructLayout({"code": 8, "offsets": data.ArrayLayout(8, n_max - 1)})


def anchor_shape(n_max):
    """An anchor of one segment."""
    return data.StructLayout(
        {"weights": data.ArrayLayout(32, n_max), "segment": segment_shape(n_max)}
    )


class Intake:
    """Sorts bus words by what was asked for, in that order, and hands them to the units that take them; it adds its logic to the engine's module.

    `models.qr.layout` says what descriptor, memo, head and anchor are. A job's head is checked in the two cycles after its last word, in which no other
    word of that job is taken. Words of a job with a wrong head are thrown away; any other job is given to the core once its head and, if it has one, its
    anchor have come.

    * `reader`: `hdl.memory.reader.BurstReader`.
    * `routes` (`stream.Signature({route, final})`): what was asked for: an item a request, `final`: the last
      one of its job's body.
    """

    def __init__(self, m: Module, config: FitPlan, reader, routes):
        self.config, self.i, self.asked = config, reader.o, routes.p
        n, of_words = config.n_max, stream.Signature(8 * config.bus_bytes)
        # takes the jobs that the words are of
        self.body = stream.Signature(body_shape(config)).create(path=("body",))
        self.descriptor, self.descriptor_valid = Signal(descriptor_shape), Signal()
        # a head has been checked
        self.head, self.head_valid = Signal(head_kept_shape(n)), Signal()
        # an anchor has come; it stays until the job has been given on. Beyond the model's columns it
        # is 0.
        self.anchor, self.anchor_valid = Signal(anchor_shape(n)), Signal()
        # `pending`: a job waits for the core; `begins`: the core takes it in this cycle
        self.pending, self.begins = Signal(), Signal()
        # `slot`: the job that `head` and `anchor` are of
        self.slot, self.bad = self.body.p.slot, Signal()
        for name in _STREAMS:
            setattr(self, name, of_words.create(path=(name,)))
        self.anchored = config.incremental
        self.taken, self.route = self.i.valid & self.i.ready, self.asked.route
        self.of_head, of_anchor = self.route == Route.HEAD, self.route == Route.ANCHOR
        m.d.comb += routes.ready.eq(self.taken & self.i.p.last)
        self._head(m)
        with m.If(self.begins):
            m.d.sync += self.pending.eq(0)
        self._words(m)
        if self.anchored:
            self._anchor(m, self.taken & of_anchor, self.bad, self.pending)

    def _collect(self, m, name, size, take):
        """Collect the words of a part of `size` bytes, the first one lowest; `take`: one of them comes.

        Return all of them with the one that comes in this cycle, and as registers hold them, a cycle later.
        """
        bus = self.config.bus_bytes
        count = words(size, bus)
        held = Signal(8 * bus * count, name=f"{name}_words", reset_less=True)
        number = index(count, name=f"{name}_number")
        now = Signal(len(held), name=f"{name}_now")
        m.d.comb += now.eq(held)
        for k in range(count):
            with m.If(take & (number == k)):
                m.d.comb += now.word_select(k, 8 * bus).eq(self.i.p.data)
        with m.If(take):
            m.d.sync += [held.eq(now), number.eq(Mux(self.i.p.last, 0, number + 1))]
        return now, held

    def _head(self, m):
        descriptor, _ = self._collect(
            m, "descriptor", DESCRIPTOR_BYTES, self.taken & (self.route == Route.DESCRIPTOR)
        )
        m.d.comb += [
            self.descriptor.as_value().eq(descriptor),
            self.descriptor_valid.eq(self.taken & (self.route == Route.DESCRIPTOR) & self.i.p.last),
        ]
        _, head_words = self._collect(
            m, "head", HEAD_BYTES + self.config.n_max - 1, self.taken & self.of_head
        )
        head = Signal(head_shape)
        m.d.comb += [
            head.eq(head_words[: 8 * HEAD_BYTES]),
            self.head.code.eq(checked(m, head_faults(head, self.body.p.descriptor, self.config))),
        ]
        for j in range(self.config.n_max - 1):
            with m.If(j < self.body.p.descriptor.length):
                m.d.comb += self.head.offsets[j].eq(head_words[8 * HEAD_BYTES :].word_select(j, 8))

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
            for name in _STREAMS:
                taker = getattr(self, name)
                # a pass is of a job whose head was found good before: its words are taken at any time
                here, away = (Const(1), Const(0)) if "pass" in name else (in_body, self.bad)
                m.d.comb += taker.payload.eq(self.i.p.data)
                with m.Case(Route[name.upper()]):
                    m.d.comb += taker.valid.eq(self.i.valid & here & ~away)
                    m.d.comb += self.i.ready.eq(here & (taker.ready | away))

        final, good = Signal(), self.head.code == 0  # final: no body follows the head
        ends = self.taken & self.i.p.last
        conditions = {
            "head_ends": ends & self.of_head,
            "final": final,
            "body_ends": ends & self.asked.final,
            "held": self.pending & ~self.begins,
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
            m.d.sync += final.eq(self.asked.final)
        with m.If(control.now["VERDICT"]):
            # a full job has no anchor to wait for
            has_anchor = ~self.body.p.descriptor.flags[0] & self.anchored
            m.d.sync += [self.bad.eq(~good), self.pending.eq(good & ~has_anchor)]

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
        weights = Signal(32 * n, reset_less=True)
        segment = Signal(8 * (SEGMENT_BYTES + 2 * (n - 1)), reset_less=True)
        done = Signal()
        m.d.sync += done.eq(0)
        with m.If(take):
            m.d.sync += number.eq(Mux(self.i.p.last, 0, number + 1))
            m.d.sync += done.eq(self.i.p.last & ~bad)
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
