"""How scores leave: from the threads' results, one code a cycle, by words and bursts into memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.shell import address_bits, result_beats_bits, score_room
from ..index import index
from ..memory.splitter import command_shape
from ..stream.queue import Queue


class ScoreWriter(wiring.Component):
    """Writes the scores of all tuples in row order; `models.analytics.score_cycles` has its cycles.

    The scores of a group come all at once in cycle t (`valid`) and go into words one a cycle from t + 1 on; groups lie at least as many cycles apart. A word
    that is full waits in a queue from the next cycle on. A burst of `ScoreRoom.burst` words is asked for when all of them wait there, and the
    rest after `finish`.
    """

    def __init__(self, plan: AnalyticsPlan):
        self.plan, self.size = plan, score_room(plan)
        threads, width = plan.threads, plan.format.width
        super().__init__(
            {
                "address": In(address_bits(plan)),  # where the first score goes, aligned to a burst
                "start": In(1),  # a group starts
                "count": In(range(threads + 1)),  # its tuples
                "room": Out(1),  # the queue has room for the scores of a group that starts now
                # the scores of a group: which threads have one, and the scores side by side
                "valid": In(1),
                "mask": In(threads),
                "codes": In(threads * width),
                "finish": In(1),  # no group starts any more
                # to a `BurstWriter`: commands and bus words
                "o_command": Out(
                    stream.Signature(command_shape(address_bits(plan), result_beats_bits(plan)))
                ),
                "o": Out(stream.Signature(8 * plan.bus_bytes)),
                "idle": In(1),  # the writer is through with everything
                "done": Out(1),  # high when all is written and answered
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, size = self.plan, self.size
        self.per_word = plan.bus_bytes // plan.format.container
        self.code, self.gives = Signal(plan.format.width), Signal()
        self.closing = Signal()  # a word that is not full goes, too
        m.submodules.queue = self.queue = Queue(8 * plan.bus_bytes, size.words)
        m.d.comb += [
            self.o.payload.eq(self.queue.o.payload),
            self.o.valid.eq(self.queue.o.valid),
            self.queue.o.ready.eq(self.o.ready),
        ]
        self._serial(m)
        place = self._words(m)
        self._credit(m)
        self._bursts(m, place)
        return m

    def _serial(self, m):
        """Hold a group's scores and give one a cycle."""
        held, left = Signal.like(self.codes), Signal(self.plan.threads)
        m.d.comb += [self.code.eq(held[: self.plan.format.width]), self.gives.eq(left[0])]
        with m.If(self.valid):
            m.d.sync += [held.eq(self.codes), left.eq(self.mask)]
        with m.Else():
            m.d.sync += [held.eq(held >> self.plan.format.width), left.eq(left >> 1)]

    def _words(self, m):
        """Put codes into words; return the place of the next one."""
        place, full = index(self.per_word, name="place"), Signal()
        word = Signal(8 * self.plan.bus_bytes)
        m.d.sync += full.eq(self.closing)
        with m.If(self.gives):
            m.d.sync += [
                word.word_select(place, 8 * self.plan.format.container).eq(self.code),
                place.eq(Mux(place == self.per_word - 1, 0, place + 1)),
                full.eq(place == self.per_word - 1),
            ]
        m.d.comb += [self.queue.i.payload.eq(word), self.queue.i.valid.eq(full)]
        return place

    def _credit(self, m):
        """Count the scores that are under way: from a group's start to the word's way out of the queue."""
        most = self.size.codes
        waiting = Signal(range(most + 1))
        sent = self.o.valid & self.o.ready
        m.d.comb += self.room.eq(waiting <= most - self.plan.threads)
        m.d.sync += waiting.eq(
            waiting + Mux(self.start, self.count, 0) - Mux(sent, self.per_word, 0)
        )
        self.owed = Signal(range(most + 1))  # scores that are in no word yet
        m.d.sync += self.owed.eq(self.owed + Mux(self.start, self.count, 0) - self.gives)

    def _bursts(self, m, place):
        burst, beats = self.size.burst, self.o_command.p.beats
        words = Signal(range(self.size.words + 1))  # in the queue, and not asked for
        at = Signal.like(self.address)
        tail, asked = Signal(), Signal()
        m.d.comb += [
            asked.eq(self.o_command.valid & self.o_command.ready),
            self.o_command.valid.eq((words >= burst) | (tail & (words != 0))),
            beats.eq(Mux(words >= burst, burst, words)),
            self.o_command.p.address.eq(self.address + at),
        ]
        m.d.sync += words.eq(words + self.queue.i.valid - Mux(asked, beats, 0))
        with m.If(asked):
            m.d.sync += at.eq(at + burst * self.plan.bus_bytes)
        with m.FSM() as fsm:
            m.d.comb += tail.eq(fsm.ongoing("TAIL"))
            with m.State("SCORE"), m.If(self.finish):
                m.next = "CLOSE"
            with m.State("CLOSE"), m.If(self.owed == 0):
                m.d.comb += self.closing.eq(place != 0)
                m.next = "COUNT"
            with m.State("COUNT"):
                m.next = "TAIL"
            with m.State("TAIL"), m.If(words == 0):
                m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += self.done.eq(self.idle)
