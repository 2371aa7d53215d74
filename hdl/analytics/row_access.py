"""Rows of models that lie in the core, as integers of a tuple name them."""

from collections.abc import Mapping, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

from ...models.analytics.config import AnalyticsPlan
from ..index import index
from .control import Loops
from .datapath import Control
from .store import Store
from .thread import ThreadPorts


def _in_memory(plan: AnalyticsPlan) -> list[int]:
    """Return the buffers of models in memory, in the order of their tables."""
    numbers = {b.name: n for n, b in enumerate(plan.buffers) if b.kind == "model"}
    return [numbers[name] for table in plan.rows.tables for name in table.models]


def row_members(plan: AnalyticsPlan) -> dict[str, Member]:
    """Return what a core has for whoever fills its lines and reads them.

    `row_busy`: models whose rows are changed in this cycle. `row_…`: a line's beat that is written,
    for each model, in the tables' order. `row_read…`: one that is read; each model's comes a cycle
    later.
    """
    if plan.row_unit is None:
        return {}
    # models whose rows are changed in this cycle
    members: dict[str, Member] = {"row_busy": Out(len(_in_memory(plan)))}
    # a line's beat that is written, and one that is read
    for way in ("row", "row_read"):
        members |= {f"{way}_line": In(plan.row_unit.line_bits), f"{way}_beat": In(16)}
    for k, n in enumerate(_in_memory(plan)):
        width = plan.buffers[n].width(plan.lanes) * plan.format.width
        # for each model (in the tables' order); what is read comes a cycle after its address
        members |= {f"row_write{k}": In(1), f"row_data{k}": In(width), f"row_read{k}": Out(width)}
    return members


def row_ports(
    core: wiring.Component,
    m: Module,
    plan: AnalyticsPlan,
    stores: Mapping[int, Store],
    control: Control,
) -> None:
    """Let lines be filled and read from outside, in cycles in which `control` writes none of the model."""
    for k, n in enumerate(_in_memory(plan)):
        store, beats = stores[n], plan.buffers[n].row_beats(plan.lanes)
        shifts = [bit for bit in range(beats.bit_length()) if beats >> bit & 1]
        at = []
        for way in ("row", "row_read"):
            line, beat = getattr(core, f"{way}_line"), getattr(core, f"{way}_beat")
            at.append(index(store.depth, name=f"{way}_address{k}"))
            m.d.comb += at[-1].eq(sum([line << bit for bit in shifts], Const(0)) + beat)
        writes = [
            control.write[o].enable
            for o, op in enumerate(plan.ops)
            if op.changes_rows and op.dest == n
        ]
        m.d.comb += core.row_busy[k].eq(Cat(writes).any())
        store.write(getattr(core, f"row_write{k}"), at[0], getattr(core, f"row_data{k}"))
        m.d.comb += getattr(core, f"row_read{k}").eq(store.read(at[1]))


class RowAccess:
    """Where operations on rows find them, and what they change them by, of a plan with one thread.

    The integer is there a cycle after its address; so is the row's address, and the row itself a cycle later.
    """

    def __init__(
        self,
        m: Module,
        plan: AnalyticsPlan,
        loops: Sequence[Loops],
        stores: Mapping[int, Store],
        hold: Value,
    ):
        self.m, self.plan = m, plan
        self.loops, self.stores = loops, stores
        self.hold = hold
        ports = ThreadPorts(plan)
        # by operation and number: operands that lie in the thread, in the cycle after their address
        self.exported = {
            (n, k): Signal(ports.operand_width(n, k), name=f"{plan.ops[n].name}_export{k}")
            for n, k in ports.exports
        }
        self._addresses: dict[int, Signal] = {}

    def address(self, n: int) -> Signal:
        """Return the address of operation n's beats in its table, a cycle after the integer's."""
        if n not in self._addresses:
            op = self.plan.ops[n]
            table = self.plan.buffers[op.operands[0].buffer]
            beats = table.row_beats(self.plan.lanes)
            beat, late = (index(beats, name=f"{op.name}_{name}") for name in ("beat", "late_beat"))
            address = index(table.beats(self.plan.lanes), name=f"{op.name}_row")
            row = self._row(n)
            # shifts and sums: a product would take a multiplier block
            parts = [row << bit for bit in range(beats.bit_length()) if beats >> bit & 1]
            self.m.d.comb += [
                beat.eq(self.loops[n].addresses[0]),
                address.eq(sum(parts, Const(0)) + late),
            ]
            self.step(n, late, beat)
            self._addresses[n] = address
        return self._addresses[n]

    def _row(self, n: int) -> Value:
        """Return which row it is: the integer, behind the rows of the columns before its own."""
        row, op = self.exported[n, 1], self.plan.ops[n]
        begins = self.plan.begins(op.operands[1].buffer)
        if not any(begins):
            return row
        place, begin = self.loops[n].count[op.operands[1].col], index(max(begins) + 1)
        late = Signal.like(begin, name=f"{op.name}_begin")
        with self.m.Switch(place):
            for k, value in enumerate(begins):
                with self.m.Case(k):
                    self.m.d.comb += begin.eq(value)
        self.step(n, late, begin)
        return row + late

    def step(self, n: int, late: Signal, value: Value) -> None:
        """Let `late` be what `value` was a cycle before, as operation n goes: changes stay where they are held."""
        hold = self.hold if self.plan.ops[n].changes_rows else Const(0)
        with self.m.If(~hold):
            self.m.d.sync += late.eq(value)

    def row(self, n: int) -> Value:
        """Return the beat of operation n's row, a cycle after its address.

        A change has what is written in that cycle and in the one of the address: so the next change of a row may begin sooner.
        """
        op = self.plan.ops[n]
        store, address = self.stores[op.operands[0].buffer], self.address(n)
        beat = store.read(address)
        if not op.changes_rows:
            return beat
        m, late = self.m, Signal.like(address, name=f"{op.name}_late_row")
        held = [
            (Signal.like(signal, name=f"{op.name}_held{k}"), signal)
            for k, signal in enumerate((store.write_enable, store.write_address, store.write_data))
        ]
        m.d.sync += [late.eq(address), *(before.eq(signal) for before, signal in held)]
        for enable, place, data in zip(*held, strict=True):
            beat = Mux(enable.any() & (place == late), data, beat)
        return beat

    def late(self, n: int, value: Value) -> Signal:
        """Return what operation n changes its row by, in the cycle in which the row is there."""
        late = Signal(len(value), name=f"{self.plan.ops[n].name}_by")
        self.m.d.sync += late.eq(value)
        return late
