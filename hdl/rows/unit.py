"""From tuples whose indices name rows to tuples whose indices name lines that hold them."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import MISSES, RowUnitConfig
from ..memory.axi import shared_by
from ..stream.passing import passed_on
from ..stream.queue import Queue
from .gate import Gate, tuple_layout
from .lookup import LookUp, miss_layout
from .mover import Mover, moving_members


class RowUnit(wiring.Component):
    """Replaces each index of a tuple by the number of the line that holds its row, which is fetched where none does. Its cycles are
    `models.rows.unit_cycles`, its rules `models.rows.unit`.

    The lines are the engine's: the unit reads and writes beats of them, of none that the engine may still change.

    * `config`: tables and places.
    * `address_width`, `beats_width`: bits of addresses, and of a burst command's length.
    """

    def __init__(self, config: RowUnitConfig, *, address_width: int, beats_width: int):
        self.config = config
        self.address_width, self.beats_width = address_width, beats_width
        beats = stream.Signature(tuple_layout(config.lanes, config.width))
        super().__init__(
            {
                "i": In(beats),
                "o": Out(beats),
                "stop": In(1),  # take no more tuples
                "flush": In(1),  # write back what changed (one cycle, not before `stop`)
                "done": Out(1),  # high for one cycle when all is written back and answered
                # each for one cycle a row
                "lookup": Out(1),
                "hit": Out(1),
                **moving_members(config, address_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        sizes = {"address_width": self.address_width, "beats_width": self.beats_width}
        m.submodules.gate = gate = Gate(config)
        m.submodules.lookup = lookup = LookUp(config)
        m.submodules.misses = misses = Queue(miss_layout(config), MISSES)
        m.submodules.mover = mover = Mover(config, **sizes)
        sweeping = Signal()
        with m.If(self.flush):
            m.d.sync += sweeping.eq(1)
        over = Signal()
        m.d.comb += [
            *passed_on(self.i, gate.i),
            *passed_on(gate.o_rows, lookup.i),
            *passed_on(lookup.o_lines, gate.i_lines),
            *passed_on(gate.o, self.o),
            *passed_on(lookup.o, misses.i),
            *passed_on(misses.o, mover.i),
            gate.stop.eq(self.stop),
            gate.fetched.eq(mover.fetched),
            lookup.sweep.eq(sweeping),
            self.lookup.eq(lookup.lookup),
            self.hit.eq(lookup.hit),
            self.done.eq(lookup.swept & ~misses.o.valid & mover.idle & ~over),
        ]
        with m.If(self.done):
            m.d.sync += over.eq(1)
        shared_by(m, self.bus, mover.bus)
        for name, member in moving_members(config, self.address_width).items():
            mine, other = getattr(self, name), getattr(mover, name)
            if name != "bus":
                m.d.comb += mine.eq(other) if member.flow is Out else other.eq(mine)
        return m
