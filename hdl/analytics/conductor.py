"""The conductor: starts groups, closes batches and epochs, and keeps the distances that the static schedule asks for."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.shell import count_bits
from ..index import index


class Conductor(wiring.Component):
    """Decides in which cycle what happens; `models.analytics.cycles` follows it event by event.

    Let S be the latest group start and B the latest batch close. A group starts in the first cycle t in which every port has a complete group or has ended
    its epoch, one port at least has a group, and t - S is a multiple of `interval` or at least `drain`, or, for the first of its batch, t - B >= `batch`,
    and `change` more for each further group of the batch before.
    A batch closes with the start of its last group; or, where the epoch turns out to be over only afterwards, in the cycle in which
    every port has ended and none has a group.
    """

    def __init__(self, plan: AnalyticsPlan):
        self.plan = plan
        ports = plan.ports
        super().__init__(
            {
                "begin": In(1),  # training may begin in the next cycle
                # from the loaders
                "available": In(ports),
                "ended": In(ports),
                "final": In(ports),
                "epochs": In(count_bits(plan)),
                "flag": In(1),  # the core's convergence flag
                "halt": In(1),  # start nothing more
                "hold": In(1),  # changes of rows wait for others
                "start": Out(1),  # a group starts
                "first": Out(1),  # it is the first of its batch
                # to the core
                "batch_start": Out(1),
                "epoch_start": Out(1),
                "advance": Out(1),  # the epoch is over: the loaders may begin the next
                "starved": Out(1),  # a group could start if tuples were there
                # training is over and the models are in place: high for one cycle
                "finish": Out(1),
                "stop": Out(1),  # no more pages are needed
                "converged": Out(1),  # the test ended the run: high with the cycle of the decision
                "settled": Out(1),  # what the closed batches changed is in place
                # what the closed batches before the last one changed is in place
                "settled_before": Out(1),
                # there is room for the scores of a group
                **({} if plan.learns else {"room": In(1)}),
            }
        )

    def elaborate(self, platform):
        m = self.m = Module()
        self.since_start = self._since(self.start, self.plan.schedule.drain, "since_start")
        self.since_batch = self._since(
            self.batch_start,
            max(self.plan.schedule.batch, self.plan.schedule.settle),
            "since_batch",
            self._changing(),
        )
        # a batch begins `batch` cycles behind the close of the one before, at least
        late = self.plan.schedule.settle - self.plan.schedule.batch
        m.d.comb += self.settled_before.eq(1)
        if self.plan.rows.tables and late > 0:
            since = self._since(self.batch_start, late, "since_close")
            m.d.comb += self.settled_before.eq(since == late)
        self.phase = index(self.plan.schedule.interval)  # (t - S) modulo interval
        m.d.sync += self.phase.eq(
            Mux(
                self.start,
                1 % self.plan.schedule.interval,
                Mux(self.phase == self.plan.schedule.interval - 1, 0, self.phase + 1),
            )
        )

        self._batches(m)
        self._epochs(m)
        return m

    def _batches(self, m):
        """When a batch may start and when it closes."""
        first = Signal(init=1)
        self.trained = Signal()
        self.epoch = Signal.like(self.epochs)
        self.running = Signal()
        may_start = Signal()
        closes = Signal()
        empty_end = Signal()
        everyone = (self.available | self.ended).all()
        m.d.comb += [
            self.first.eq(first),
            may_start.eq(
                self.running
                & Mux(
                    first,
                    self.since_batch >= self.plan.schedule.batch,
                    (self.phase == 0) | (self.since_start == self.plan.schedule.drain),
                )
                & (1 if self.plan.learns else self.room)
            ),
            self.start.eq(may_start & everyone & self.available.any()),
            self.starved.eq(may_start & ~everyone),
            closes.eq(self.start & (self.final.all() | self._batch_full())),
            empty_end.eq(self.running & self.ended.all() & ~self.available.any()),
            self.batch_start.eq(closes | (empty_end & ~first)),
            self.advance.eq((self.start & self.final.all()) | empty_end),
        ]
        with m.If(self.batch_start):
            m.d.sync += first.eq(1)
        with m.Elif(self.start):
            m.d.sync += first.eq(0)

    def _epochs(self, m):
        """When an epoch ends, and what follows it."""
        settled = self.settled
        last_epoch = Signal()
        m.d.comb += [
            settled.eq(self.since_batch >= self.plan.schedule.settle),
            last_epoch.eq(self.epoch + 1 >= self.epochs),
        ]
        deciding = index(self.plan.schedule.decide + 1)
        with m.FSM() as fsm:
            m.d.comb += [
                self.running.eq(fsm.ongoing("RUN") & ~self.halt),
                self.stop.eq(fsm.ongoing("FINISH") | fsm.ongoing("OVER")),
            ]
            with m.State("BOOT"), m.If(self.begin):
                m.next = "RUN"
            with m.State("RUN"):
                with m.If(self.start):
                    m.d.sync += self.trained.eq(1)
                with m.If(self.advance):
                    m.d.sync += [self.epoch.eq(self.epoch + 1), self.trained.eq(0)]
                    with m.If(
                        (self.trained | self.start) if self.plan.roles.until is not None else 0
                    ):
                        m.next = "SETTLE"
                        m.d.sync += self.epoch.eq(self.epoch)
                    with m.Elif(last_epoch):
                        m.next = "FINISH"
            with m.State("SETTLE"), m.If(settled):
                m.d.comb += self.epoch_start.eq(1)
                m.d.sync += deciding.eq(0)
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.sync += deciding.eq(deciding + 1)
                with m.If(deciding == self.plan.schedule.decide):
                    m.d.sync += self.epoch.eq(self.epoch + 1)
                    m.d.comb += self.converged.eq(self.flag)
                    m.next = "RUN"
                    with m.If(self.flag | last_epoch):
                        m.next = "FINISH"
            with m.State("FINISH"), m.If(settled):
                m.d.comb += self.finish.eq(~self.halt)
                m.next = "OVER"
            with m.State("OVER"):
                pass

    def _changing(self) -> Value:
        """Whether changes of a batch that waited for its end are still to begin, beside those of one group."""
        m, change = self.m, self.plan.schedule.change
        if not change:
            return Const(0)
        left = index(change * (self.plan.merge_count - 1) + 1, name="change_cycles")
        with m.If(self.start & ~self.first):
            m.d.sync += left.eq(left + change)
        with m.Elif(self.first & (left != 0) & ~self.hold):  # the batch is closed
            m.d.sync += left.eq(left - 1)
        return (self.first & (left != 0)) | self.hold

    def _since(self, event: Signal, limit: int, name: str, hold: Value | int = 0) -> Signal:
        """Count cycles since an event, up to `limit`, but for those of `hold`; before the first event the limit is reached."""
        count = index(limit + 1, init=limit, name=name)
        with self.m.If(event):
            self.m.d.sync += count.eq(min(1, limit))
        with self.m.Elif((count != limit) & ~Value.cast(hold)):
            self.m.d.sync += count.eq(count + 1)
        return count

    def _batch_full(self) -> Value:
        """Whether the group that starts now is the last of a full batch."""
        m, plan = self.m, self.plan
        if not plan.merge_count:
            return Const(0)
        groups = -(-plan.merge_count // plan.threads)
        count = index(groups, name="batch_groups")
        with m.If(self.batch_start):
            m.d.sync += count.eq(0)
        with m.Elif(self.start):
            m.d.sync += count.eq(count + 1)
        return count == groups - 1
