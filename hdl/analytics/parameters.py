"""Access to run constants, and to models that do not go beat by beat, one code at a time: how they are loaded before a run and read after it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring

from ...models.analytics.config import AnalyticsPlan
from ..index import index
from .store import Store


class ParameterAccess:
    """Walks the run constants, then the models, in plan order, row by row; `core`'s `parameter_…` ports move it, write and read."""

    def __init__(
        self, core: wiring.Component, m: Module, plan: AnalyticsPlan, stores: dict[int, Store]
    ):
        order = [*plan.roles.runs, *(() if plan.by_rows else plan.roles.models)]
        if not order:  # of a score that is made of inputs alone
            return
        lanes = plan.lanes
        which = index(len(order), name="parameter_buffer")
        row, col = (
            index(max(getattr(plan.buffers[n], axis) for n in order), name=f"parameter_{axis}")
            for axis in ("rows", "cols")
        )
        beat = index(max(plan.buffers[n].beats(lanes) for n in order), name="parameter_beat")
        lane = index(lanes, name="parameter_lane")
        last_row, last_col = Signal(name="parameter_last_row"), Signal(name="parameter_last_col")
        with m.Switch(which):
            for k, n in enumerate(order):
                with m.Case(k):
                    m.d.comb += [
                        last_row.eq(row == plan.buffers[n].rows - 1),
                        last_col.eq(col == plan.buffers[n].cols - 1),
                    ]
        with m.If(core.parameter_step):
            m.d.sync += [col.eq(Mux(last_col, 0, col + 1)), lane.eq(lane + 1)]
            with m.If(last_col | (lane == lanes - 1)):
                m.d.sync += [lane.eq(0), beat.eq(beat + 1)]
            with m.If(last_col):
                m.d.sync += row.eq(row + 1)
                with m.If(last_row):
                    m.d.sync += [row.eq(0), beat.eq(0), which.eq(which + 1)]
        with m.If(core.parameter_restart | core.parameter_models):
            m.d.sync += [
                row.eq(0),
                col.eq(0),
                beat.eq(0),
                lane.eq(0),
                which.eq(Mux(core.parameter_models, len(plan.roles.runs), 0)),
            ]
        late_which, late_lane = Signal.like(which), Signal.like(lane)
        m.d.sync += [late_which.eq(which), late_lane.eq(lane)]
        for k, n in enumerate(order):
            store = stores[n]
            store.write(core.parameter_write & (which == k), beat, core.parameter_data, lane=lane)
            if n in plan.roles.models and plan.learns:
                code = store.code(store.read(beat), late_lane)
                with m.If(late_which == k):
                    m.d.comb += core.parameter_code.eq(code)
