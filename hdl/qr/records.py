"""A job's changes: records cut from bus words, offsets taken away, order checked."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from ..stream.passing import passed_on
from ..stream.queue import Buffer
from .gearbox import Gearbox

__all__ = ["Records", "record_shape"]

#: bytes of a unit of the records' layout
_UNIT = 4


def record_shape(n_max):
    """One change, as the sums and the bounds take it.

    `value`, `sign`: what c and AᵀA grow by: value · a and sign · a aᵀ. `live`: the change of the number of live rows. `label`, `came`: the row's label now, and
    whether it is an inserted or moved live row (which the bounds look at). `a`: 1, bytes minus offsets,
    0 above the model's columns. `row`: the bytes, 0 above the window. `end`: no change, but the end of the job's; `code` then says what was wrong with them.
    """
    return data.StructLayout(
        {
            "value": signed(32),
            "sign": signed(2),
            "live": signed(2),
            "label": 31,
            "came": 1,
            "a": data.ArrayLayout(signed(9), n_max),
            "row": data.ArrayLayout(8, n_max - 1),
            "end": 1,
            "code": 8,
        }
    )


class Records(wiring.Component):
    """Changes of jobs, as `models.qr.image.pack_changes` lays them out; golden: `models.qr.image.unpack_changes`. Of target `rank`
    no change adds to c, which a pass over all rows gives, and labels are not looked at.

    A record is offered 2 cycles after the word that completes it was accepted; one a cycle, as long as records are no larger than a bus word. A job
    of k changes occupies it k + 3 cycles.

    `code` of the `end` item is the first of these that was met: QR_DESCRIPTOR (a buried row that is live), QR_ORDER (labels of the inserted, of the
    buried or of the moved rows not ascending, or inserted rows descending); else OK.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

    Members
    -------
    command : In(stream.Signature({length, inserted, buried, removed, moved}))
        The window's length and the numbers of records; the next one is accepted when the last record has left the cutter.
    offsets : In(ArrayLayout(8, n_max - 1))
        The group's offsets, constant from the command to the job's `end`.
    i : In(stream.Signature(8 * bus_bytes))
        Words of changes.
    o : Out(stream.Signature(record_shape(n_max)))
    """

    def __init__(self, config: FitPlan):
        self.config = config
        n = config.n_max
        counts = dict.fromkeys(("inserted", "buried", "removed", "moved"), 24)
        super().__init__(
            {
                "command": In(stream.Signature(data.StructLayout({"length": range(n), **counts}))),
                "offsets": In(data.ArrayLayout(8, n - 1)),
                "i": In(stream.Signature(8 * config.bus_bytes)),
                "o": Out(stream.Signature(record_shape(n))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        largest = 2 + -(-(self.config.n_max - 1) // _UNIT)
        m.submodules.cutter = self.cutter = Gearbox(
            word_units=self.config.bus_bytes // _UNIT,
            unit_bits=8 * _UNIT,
            chunk_units=largest,
            count_bits=26,
        )
        m.submodules.out = self.out = Buffer(record_shape(self.config.n_max))
        m.d.comb += [
            *passed_on(self.out.o, self.o),
            *passed_on(self.i, self.cutter.i),
            self.cutter.command.valid.eq(self.command.valid),
            self.command.ready.eq(self.cutter.command.ready),
            self.cutter.command.p.size.eq(2 + ((self.command.p.length + _UNIT - 1) >> 2)),
            self.cutter.command.p.count.eq(
                self.command.p.inserted
                + self.command.p.buried
                + self.command.p.removed
                + self.command.p.moved
            ),
            self.cutter.command.p.units.eq(
                self.cutter.command.p.size * self.cutter.command.p.count
            ),
        ]

        self._lists(m)
        self._record(m)

        self._order(m)
        return m

    def _lists(self, m):
        """Which list the record is of: the first one with records left."""
        self.length = Signal(range(self.config.n_max))
        self.left = {
            name: Signal(24, name=f"{name}_left")
            for name in ("inserted", "buried", "removed", "moved")
        }
        self.some = {name: Signal(name=f"some_{name}") for name in self.left}
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += self.length.eq(self.command.p.length)
            for name, count in self.left.items():
                m.d.sync += [
                    count.eq(self.command.p[name]),
                    self.some[name].eq(self.command.p[name] != 0),
                ]

        # which list the record is of: the first one with records left
        self.kind = {name: Signal(name=name) for name in self.left}
        before = 0
        for name in self.left:
            m.d.comb += self.kind[name].eq(self.some[name] & ~before)
            before = before | self.some[name]

    def _record(self, m):
        """What the record says."""
        self.record = self.out.i.p
        self.new, old = self.cutter.o.p.data[:31], self.cutter.o.p.data[32:63]
        self.new_live, old_live = self.cutter.o.p.data[31], self.cutter.o.p.data[63]
        self.row = [
            Mux(index < self.length, self.cutter.o.p.data[64 + 8 * index : 72 + 8 * index], 0)
            for index in range(self.config.n_max - 1)
        ]
        self.end = self.cutter.o.p.end
        m.d.comb += [
            self.out.i.valid.eq(self.cutter.o.valid),
            self.cutter.o.ready.eq(self.out.i.ready),
            self.record.end.eq(self.end),
            self.record.label.eq(self.new),
            self.record.a[0].eq(~self.end),
            self.record.came.eq((self.kind["inserted"] | self.kind["moved"]) & self.new_live),
        ]
        for index in range(self.config.n_max - 1):
            m.d.comb += self.record.row[index].eq(self.row[index])
            with m.If((index < self.length) & ~self.end):
                m.d.comb += self.record.a[1 + index].eq(self.row[index] - self.offsets[index])
        counts = self.config.incremental  # else c comes from a pass over all rows
        with m.If(self.kind["inserted"]):
            m.d.comb += [
                self.record.value.eq(self.new if counts else 0),
                self.record.sign.eq(1),
                self.record.live.eq(self.new_live),
            ]
        with m.Elif(self.kind["buried"]):
            m.d.comb += self.record.live.eq(-1)
        with m.Elif(self.kind["removed"]):
            m.d.comb += [
                self.record.value.eq(-old if counts else 0),
                self.record.sign.eq(-1),
                self.record.live.eq(Mux(old_live, -1, 0)),
            ]
        with m.Elif(self.kind["moved"]):
            m.d.comb += self.record.value.eq(self.new - old if counts else 0)

    def _order(self, m):
        """The order within a list, and the error where it is wrong."""
        # order within a list: labels against the last one's, and inserted rows as big-endian numbers
        last_label, last_row = (
            Signal(31, reset_less=True),
            Signal(8 * (self.config.n_max - 1), reset_less=True),
        )
        first, wrong = Signal(), Signal(8)
        number = Cat(*reversed(self.row))
        labels_wrong = Signal()
        rows_wrong = Signal()
        found = Signal(8)
        m.d.comb += [
            labels_wrong.eq(
                self.config.incremental
                & ~self.end
                & ~self.kind["removed"]
                & ~first
                & (self.new <= last_label)
            ),
            rows_wrong.eq(self.kind["inserted"] & ~first & (number < last_row)),
        ]
        with m.If(self.kind["buried"] & self.new_live):
            m.d.comb += found.eq(FitError.QR_DESCRIPTOR.value)
        with m.Elif(labels_wrong | rows_wrong):
            m.d.comb += found.eq(FitError.QR_ORDER.value)
        with m.If(self.end):
            m.d.comb += self.record.code.eq(wrong)
        with m.If(self.out.i.valid & self.out.i.ready):
            m.d.sync += [last_label.eq(self.new), last_row.eq(number), first.eq(0)]
            with m.If((wrong == 0) & ~self.end):
                m.d.sync += wrong.eq(found)
            for name, count in self.left.items():
                with m.If(self.kind[name]):
                    m.d.sync += count.eq(count - 1)
                    with m.If(count == 1):
                        m.d.sync += [first.eq(1), self.some[name].eq(0)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [first.eq(1), wrong.eq(0)]
