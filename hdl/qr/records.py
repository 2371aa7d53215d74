"""A job's changes: records cut from bus words, offsets taken away, order checked."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from ...models.qr.image import BLOCK
from ...models.qr.job import Label, Sums
from ..stream.queue import Buffer
from .gearbox import Gearbox

__all__ = ["Records", "record_shape"]

#: bytes of a unit of the records' layout
_UNIT = 4


def record_shape(n_max):
    """One change, as the sums and the bounds take it.

    `value`, `sign`: what c and AᵀA grow by: value · a and sign · a aᵀ. `live`: the change of the number of live rows. `label`, `came`: the row's label now, and
    whether it is an inserted or moved live row (which the bounds look at). `block`: its block (`models.qr.ranks`). `a`:
    1, bytes minus offsets, 0 above the model's columns. `row`: the bytes, 0 above the window. `end`: no change, but the end of
    the job's; `code` then says what was wrong with them.
    """
    return data.StructLayout({"value": signed(32), "sign": signed(2), "live": signed(2), "label": 31, "came": 1, "block": 8,
                              "a": data.ArrayLayout(signed(9), n_max), "row": data.ArrayLayout(8, n_max - 1), "end": 1, "code": 8})


class Records(wiring.Component):
    """Changes of jobs, as `models.qr.image.pack_changes` lays them out; golden: `models.qr.image.unpack_changes`. Of target `rank` with sums by
    `scan` no change adds to c, which a pass over all rows gives, and labels are not looked at; with blocks equal labels may follow each other (tombstones).

    A record is offered 2 cycles after the word that completes it was accepted; one a cycle, as long as records are no larger than a bus word. A job
    of k changes occupies it k + 3 cycles.

    `code` of the `end` item is the first of these that was met: QR_DESCRIPTOR (a buried row that is live), QR_ORDER (labels of the inserted, of the
    buried or of the moved rows not ascending, or inserted rows descending); else OK.

    Parameters
    ----------
    config
        `models.qr.FitPlan`.

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

    def __init__(self, config: FitPlan, *, src_loc_at=0):
        self.config = config
        n = config.n_max
        counts = dict.fromkeys(("inserted", "buried", "removed", "moved"), 24)
        super().__init__({
            "command": In(stream.Signature(data.StructLayout({"length": range(n), **counts}))), "offsets": In(data.ArrayLayout(8, n - 1)),
            "i": In(stream.Signature(8 * config.bus_bytes)), "o": Out(stream.Signature(record_shape(n)))}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        n, command = self.config.n_max, self.command
        largest = 2 + -(-(n - 1) // _UNIT)
        m.submodules.cutter = cutter = Gearbox(word_units=self.config.bus_bytes // _UNIT, unit_bits=8 * _UNIT, chunk_units=largest, count_bits=26)
        m.submodules.out = out = Buffer(record_shape(n))
        m.d.comb += [
            self.o.payload.eq(out.o.payload), self.o.valid.eq(out.o.valid), out.o.ready.eq(self.o.ready),
            cutter.i.payload.eq(self.i.payload), cutter.i.valid.eq(self.i.valid), self.i.ready.eq(cutter.i.ready),
            cutter.command.valid.eq(command.valid), command.ready.eq(cutter.command.ready),
            cutter.command.p.size.eq(2 + ((command.p.length + _UNIT - 1) >> 2)),
            cutter.command.p.count.eq(command.p.inserted + command.p.buried + command.p.removed + command.p.moved),
            cutter.command.p.units.eq(cutter.command.p.size * cutter.command.p.count)]

        length = Signal(range(n))
        left = {name: Signal(24, name=f"{name}_left") for name in ("inserted", "buried", "removed", "moved")}
        some = {name: Signal(name=f"some_{name}") for name in left}
        with m.If(command.valid & command.ready):
            m.d.sync += length.eq(command.p.length)
            for name, count in left.items():
                m.d.sync += [count.eq(command.p[name]), some[name].eq(command.p[name] != 0)]

        # which list the record is of: the first one with records left
        kind = {name: Signal(name=name) for name in left}
        before = 0
        for name in left:
            m.d.comb += kind[name].eq(some[name] & ~before)
            before = before | some[name]

        record = out.i.p
        blocks = self.config.blocks > 0
        new, old = cutter.o.p.data[:BLOCK if blocks else 31], cutter.o.p.data[32:63]
        new_live, old_live = cutter.o.p.data[31], cutter.o.p.data[63]
        row = [Mux(index < length, cutter.o.p.data[64 + 8 * index:72 + 8 * index], 0) for index in range(n - 1)]
        end = cutter.o.p.end
        m.d.comb += [
            out.i.valid.eq(cutter.o.valid), cutter.o.ready.eq(out.i.ready),
            record.end.eq(end), record.label.eq(new), record.a[0].eq(~end),
            record.came.eq((kind["inserted"] | kind["moved"]) & new_live)]
        if blocks:
            m.d.comb += record.block.eq(cutter.o.p.data[BLOCK:31])
        for index in range(n - 1):
            m.d.comb += record.row[index].eq(row[index])
            with m.If((index < length) & ~end):
                m.d.comb += record.a[1 + index].eq(row[index] - self.offsets[index])
        slots = self.config.target is Label.SLOT
        labelled = slots or blocks
        counts = labelled and self.config.sums is not Sums.SCAN          # else c comes from a pass over all rows
        old_label = old.as_signed() if blocks else old
        with m.If(kind["inserted"]):
            m.d.comb += [record.value.eq(new if counts else 0), record.sign.eq(1), record.live.eq(new_live)]
        with m.Elif(kind["buried"]):
            m.d.comb += record.live.eq(-1)
        with m.Elif(kind["removed"]):
            m.d.comb += [record.value.eq(-old_label if counts else 0), record.sign.eq(-1), record.live.eq(Mux(old_live, -1, 0))]
        with m.Elif(kind["moved"]):
            m.d.comb += record.value.eq(new.as_unsigned() - old_label if counts else 0)

        # order within a list: labels against the last one's, and inserted rows as big-endian numbers
        last_label, last_row = Signal(31, reset_less=True), Signal(8 * (n - 1), reset_less=True)
        first, wrong = Signal(), Signal(8)
        number = Cat(*reversed(row))
        labels_wrong, rows_wrong, found = Signal(), Signal(), Signal(8)
        m.d.comb += [
            labels_wrong.eq(labelled & ~end & ~kind["removed"] & ~first & ((new < last_label) | (slots & (new == last_label)))),
            rows_wrong.eq(kind["inserted"] & ~first & (number < last_row))]
        with m.If(kind["buried"] & new_live):
            m.d.comb += found.eq(FitError.QR_DESCRIPTOR.value)
        with m.Elif(labels_wrong | rows_wrong):
            m.d.comb += found.eq(FitError.QR_ORDER.value)
        with m.If(end):
            m.d.comb += record.code.eq(wrong)
        with m.If(out.i.valid & out.i.ready):
            m.d.sync += [last_label.eq(new), last_row.eq(number), first.eq(0)]
            with m.If((wrong == 0) & ~end):
                m.d.sync += wrong.eq(found)
            for name, count in left.items():
                with m.If(kind[name]):
                    m.d.sync += count.eq(count - 1)
                    with m.If(count == 1):
                        m.d.sync += [first.eq(1), some[name].eq(0)]
        with m.If(command.valid & command.ready):
            m.d.sync += [first.eq(1), wrong.eq(0)]
        return m
