"""Loop counters of one operation: which beat of which operand is fetched in each cycle, and where results go."""

from amaranth.hdl import Const, Module, Mux, Signal, Value

from ...models.analytics.config import AnalyticsPlan, Op, Operand
from ..index import index


class Delay:
    """Delays one-bit signals; taps of one signal share their registers."""

    def __init__(self, m: Module):
        self.m = m
        self._taps: dict[int, list[Signal]] = {}

    def __call__(self, signal: Signal, cycles: int, init: int = 0) -> Signal:
        taps = self._taps.setdefault(id(signal), [signal])
        while len(taps) <= cycles:
            late = Signal.like(signal, name=f"{signal.name}_d{len(taps)}", init=init)
            self.m.d.sync += late.eq(taps[-1])
            taps.append(late)
        return taps[cycles]


class Loops:
    """The loops (i, c, j) of `op`, j innermost, started by `go` and walking one beat a cycle from that very cycle on, but for cycles of `hold`, in which
    `go` stays.
    """

    def __init__(self, m: Module, op: Op, plan: AnalyticsPlan, go: Value, name: str, hold: Value):
        self.m, self.op = m, op
        self.plan, self.name = plan, name
        busy = Signal(name=f"{name}_busy")
        self.active = Signal(name=f"{name}_active")  # a beat's address is presented
        self.done = Signal(name=f"{name}_done")  # it is the last one
        self.complete = Signal(name=f"{name}_complete")  # it ends one result
        m.d.comb += self.active.eq((go | busy) & ~hold)
        self.step: dict[str, Value] = {}
        self.count: dict[str, Value] = {}  # where each loop is
        self.last: dict[str, Value] = {}
        carry: Value = self.active
        for loop, extent in (("j", op.extents[2]), ("c", op.extents[1]), ("i", op.extents[0])):
            self.step[loop] = carry
            if extent == 1:
                self.last[loop] = Const(1)
                self.count[loop] = Const(0)
            else:
                self.count[loop] = count = index(extent, name=f"{name}_{loop}")
                last = Signal(name=f"{name}_{loop}_last")
                m.d.comb += last.eq(count == extent - 1)
                with m.If(carry):
                    m.d.sync += count.eq(Mux(last, 0, count + 1))
                self.last[loop] = last
            carry = carry & self.last[loop]
        m.d.comb += [self.done.eq(carry), self.complete.eq(self.active & self.last["j"])]
        if op.beats > 1:
            with m.If(self.active):
                m.d.sync += busy.eq(~self.done)
        walks = [self._walk(n, operand) for n, operand in enumerate(op.operands)]
        # one per operand, the lane None where the operand is read by beats
        self.addresses = [address for address, _ in walks]
        self.lanes = [lane for _, lane in walks]
        inner = "j" if op.lane_reduce else "c"
        self.last_col = self.last[inner]  # the beat is the last of its row

    def _walk(self, number: int, operand: Operand) -> tuple[Value, Value | None]:
        m, lanes = self.m, self.plan.lanes
        buffer = self.plan.buffers[operand.buffer]
        beats, row_beats = buffer.beats(lanes), buffer.row_beats(lanes)
        extents = dict(zip("icj", self.op.extents, strict=True))
        name = f"{self.name}_{number}"
        address: Value = slot_base(m, buffer.slots, beats, self.done, f"{name}_slot")
        if operand.row and buffer.rows > 1:
            row = index((buffer.rows - 1) * row_beats + 1, name=f"{name}_row")
            with m.If(self.step[operand.row]):
                m.d.sync += row.eq(Mux(self.last[operand.row], 0, row + row_beats))
            address = address + row
        lane = None
        if operand.col and operand.element:
            size = extents[operand.col]
            lane = index(min(size, lanes), name=f"{name}_lane")
            beat = index(-(-size // lanes), name=f"{name}_beat")
            with m.If(self.step[operand.col]):
                if size > lanes:
                    with m.If(lane == lanes - 1):
                        m.d.sync += [lane.eq(0), beat.eq(beat + 1)]
                    with m.Else():
                        m.d.sync += lane.eq(lane + 1)
                else:
                    m.d.sync += lane.eq(lane + 1)
                with m.If(self.last[operand.col]):
                    m.d.sync += [lane.eq(0), beat.eq(0)]
            address = address + beat
        elif operand.col and row_beats > 1:
            beat = index(row_beats, name=f"{name}_beat")
            with m.If(self.step[operand.col]):
                m.d.sync += beat.eq(Mux(self.last[operand.col], 0, beat + 1))
            address = address + beat
        return address, lane


def slot_base(m: Module, slots: int, beats: int, advance: Value, name: str) -> Value:
    """Return the first beat of the current slot; `advance` moves on to the next one, round robin."""
    if slots == 1:
        return Const(0, 1)
    base = index((slots - 1) * beats + 1, name=name)
    with m.If(advance):
        m.d.sync += base.eq(Mux(base == (slots - 1) * beats, 0, base + beats))
    return base


class Destination:
    """Where the results of `op` are written: `address` and (for single elements) `lane`, stepped by `enable`, one per result in order."""

    def __init__(self, m: Module, op: Op, plan: AnalyticsPlan, enable: Signal, name: str):
        lanes = plan.lanes
        buffer = plan.buffers[op.dest]
        self.enable = enable
        self.lane: Signal | None = None
        cols = buffer.cols
        done = Signal(name=f"{name}_done")
        if not op.element_dest:
            beats = buffer.beats(lanes)
            beat = index(beats, name=f"{name}_beat")
            m.d.comb += done.eq(enable & (beat == beats - 1))
            with m.If(enable):
                m.d.sync += beat.eq(Mux(beat == beats - 1, 0, beat + 1))
        else:
            beats = buffer.beats(lanes)
            beat = index(beats, name=f"{name}_beat")
            col = index(cols, name=f"{name}_col")
            last_col = col == cols - 1
            self.lane = index(min(cols, lanes), name=f"{name}_lane")
            m.d.comb += done.eq(enable & last_col & (beat == beats - 1))
            with m.If(enable):
                m.d.sync += [col.eq(Mux(last_col, 0, col + 1)), self.lane.eq(self.lane + 1)]
                with m.If(last_col | (self.lane == lanes - 1)):
                    m.d.sync += [self.lane.eq(0), beat.eq(Mux(beat == beats - 1, 0, beat + 1))]
        self.done = done
        self.address = slot_base(m, buffer.slots, beats, done, f"{name}_slot") + beat
