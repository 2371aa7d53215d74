"""A job's changes: records cut from bus words, offsets taken away, order checked."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.shell import FitError
from ..stream.queue import Buffer
from .gearbox import Gearbox

#: lists of changes, in their order
COUNTS = ("inserted", "removed", "moved")
#: bytes of a unit of the records' layout
_UNIT = 4


def record_shape(n_max):
    """One change, as the sums and the bounds take it.

    `value`, `sign`: what c and AᵀA grow by: value · a and sign · a aᵀ. `label`, `came`: the row's label now, and
    whether it is an inserted or moved row (which the bounds look at). `a`: 1, bytes minus offsets,
    0 above the model's columns. `row`: the bytes, 0 above the window. `end`: no change, but the end of the job's; `code` then says what was wrong with them.
    """
    return data.StructLayout(
        {
            "value": signed(32),
            "sign": signed(2),
            "label": 31,
            "came": 1,
            "a": data.ArrayLayout(signed(9), n_max),
            "row": data.ArrayLayout(8, n_max - 1),
            "end": 1,
            "code": 8,
        }
    )


class Records:
    """Adds to the engine's module the changes of jobs, as `models.qr.image.pack_changes` lays them out. Of target `rank`
    no change adds to c, which a pass over all rows gives, and labels are not looked at.

    A record is offered 2 cycles after the word that completes it was accepted; one a cycle, as long as records are no larger than a bus word. A job
    of k changes occupies it k + 3 cycles.

    `code` of the `end` item: QR_ORDER where labels of the inserted or of the moved rows did not ascend, or inserted rows descended; else OK.

    * `offsets` (`ArrayLayout(8, n_max - 1)`): the group's offsets, constant from the command to the job's
      `end`.
    * `i` (`stream.Signature(8 * bus_bytes)`): words of changes.
    """

    def __init__(self, m: Module, config: FitPlan, offsets, i):
        self.config, self.offsets, n = config, offsets, config.n_max
        asked = data.StructLayout({"length": range(n), **dict.fromkeys(COUNTS, 24)})
        # the window's length and the numbers of records; the next one is accepted when the last
        # record has left the cutter
        self.command = stream.Signature(asked).create(path=("changes",))
        command = self.command.p
        cutter = Gearbox(m, "records", i, 2 + -(-(n - 1) // _UNIT), count_bits=26)
        m.submodules.records = out = Buffer(record_shape(n))
        self.o = out.o
        to = cutter.command
        m.d.comb += [
            to.valid.eq(self.command.valid),
            self.command.ready.eq(to.ready),
            to.p.size.eq(2 + ((command.length + _UNIT - 1) >> 2)),
            to.p.count.eq(sum((command[name] for name in COUNTS), 0)),
            to.p.units.eq(to.p.size * to.p.count),
            out.i.valid.eq(cutter.o.valid),
            cutter.o.ready.eq(out.i.ready),
        ]
        self.record, self.chunk, self.end = out.i.p, cutter.o.p.data, cutter.o.p.end
        self.taken, self.first = out.i.valid & out.i.ready, Signal()
        self._lists(m)
        self._record(m)
        self._order(m)

    def _lists(self, m):
        """Which list the record is of: the first one with records left."""
        self.length, self.kind, before = Signal(range(self.config.n_max)), {}, Const(0)
        begins = self.command.valid & self.command.ready
        with m.If(self.taken):
            m.d.sync += self.first.eq(0)
        for name in COUNTS:
            left, some = Signal(24, name=f"{name}_left"), Signal(name=f"some_{name}")
            self.kind[name] = Signal(name=name)
            m.d.comb += self.kind[name].eq(some & ~before)
            before = before | some
            with m.If(self.taken & self.kind[name]):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 1):
                    m.d.sync += [self.first.eq(1), some.eq(0)]
            with m.If(begins):
                m.d.sync += [left.eq(self.command.p[name]), some.eq(self.command.p[name] != 0)]
        with m.If(begins):
            m.d.sync += [self.length.eq(self.command.p.length), self.first.eq(1)]

    def _record(self, m):
        """What the record says."""
        record, kind = self.record, self.kind
        new, old = self.chunk[:31], self.chunk[32:63]
        counts = self.config.incremental  # else c comes from a pass over all rows
        m.d.comb += [
            record.end.eq(self.end),
            record.label.eq(new),
            record.a[0].eq(~self.end),
            record.came.eq(kind["inserted"] | kind["moved"]),
        ]
        for j in range(self.config.n_max - 1):
            with m.If(j < self.length):
                byte = self.chunk[64 + 8 * j : 72 + 8 * j]
                m.d.comb += record.row[j].eq(byte)
                with m.If(~self.end):
                    m.d.comb += record.a[1 + j].eq(byte - self.offsets[j])
        for name, value, sign in (
            ("inserted", new, 1),
            ("removed", -old, -1),
            ("moved", new - old, 0),
        ):
            with m.If(kind[name]):
                m.d.comb += [record.sign.eq(sign), record.value.eq(value if counts else 0)]

    def _order(self, m):
        """The order within a list: labels, and inserted rows as big-endian numbers; and the error where it is wrong."""
        kind, new = self.kind, self.chunk[:31]
        number = Cat(*reversed([self.record.row[j] for j in range(self.config.n_max - 1)]))
        last_label, last_row = Signal(31, reset_less=True), Signal(len(number), reset_less=True)
        wrong, follows = Signal(), ~self.first & ~self.end
        labels = self.config.incremental & ~kind["removed"] & (new <= last_label)
        with m.If(self.end):
            m.d.comb += self.record.code.eq(wrong * FitError.QR_ORDER.value)
        with m.If(self.taken):
            m.d.sync += [last_label.eq(new), last_row.eq(number)]
            with m.If(follows & (labels | (kind["inserted"] & (number < last_row)))):
                m.d.sync += wrong.eq(1)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += wrong.eq(0)
