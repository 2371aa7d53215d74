"""Instructions: from a program memory, or built in."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.lib import data, memory
from amaranth.utils import exact_log2

from ...models.heap import page as p
from ...models.heap.schema import TYPES
from ...models.strider.config import FIXED_TYPES
from ...models.strider.isa import FIELDS, Base, Op
from ...models.strider.machine import ARRAY_HEADER
from ...models.strider.program import BITMAP_GROUP

__all__ = ["Fetch", "program_layout"]


def program_layout(config):
    """The write port of a program memory."""
    return data.StructLayout({"index": range(config.program_depth), "data": 96, "write": 1})


def _instruction_layout():
    return data.FlexibleLayout(96, {name: data.Field(bits, first) for name, (first, bits) in FIELDS.items()})


class Fetch:
    """Part of `Walker`: `pc_next` chooses the instruction of the next cycle; `instruction` holds this cycle's, taken apart.

    Beside the fields of the word: `first`, `mask`, `total` (of `order_layout`) of its first window, `stride` from each window to the next, `each` elements a
    window delivers, `windows` whether an element takes two, `alignment` (of its type, less one), `elements` the bytes of an array's elements, `big`
    whether its header cannot be short, `bitmap` where the bits of its attributes lie, `dense` and `sparse` where `bentr` goes, `legal`.
    """

    def alignment(self, name):
        """Return a type's alignment, less one."""
        return TYPES[name].length - 1

    def stride(self, name):
        """Return the bytes from a window of a type's values to the next."""
        return self.config.bus_bytes if self.config.windows(name) > 1 else self.config.elements(name) * TYPES[name].length

    def _go_to(self, m, pc):
        """Choose one of the first two instructions; a built-in program does not have them."""
        if self.config.fixed is None:
            m.d.comb += self.pc_next.eq(pc)

    def _fetch(self, m):
        if self.config.fixed is not None:
            self._built_in(m)
        else:
            self._stored(m)

    def _stored(self, m):
        config = self.config
        depth = config.program_depth
        m.submodules.program_store = store = memory.Memory(shape=96, depth=depth, init=[])
        write, read = store.write_port(), store.read_port()
        self.pc = Signal(range(max(depth, 1 << 16)))
        self.pc_next = Signal.like(self.pc)
        m.d.comb += [write.addr.eq(self.program.index), write.data.eq(self.program.data), write.en.eq(self.program.write),
                     self.pc_next.eq(self.pc), read.addr.eq(self.pc_next), read.en.eq(1)]
        m.d.sync += self.pc.eq(self.pc_next)
        self.i = i = Signal(_instruction_layout())
        m.d.comb += i.eq(read.data)
        self.op = Signal(4)
        m.d.comb += self.op.eq(Mux(self.pc < self.program_length, i.op, 0))
        u = self.instruction = SimpleNamespace(**{name: getattr(i, name) for name in FIELDS})
        log, known, windows = Signal(2), Signal(), Signal()
        each = Signal(range(max(config.elements(n) for n in FIXED_TYPES) + 1))
        alignment, stride = Signal(3), Signal(7)
        m.d.comb += [
            log.eq(self._size(lambda n: exact_log2(TYPES[n].length), i.type)), windows.eq(self._size(lambda n: config.windows(n) - 1, i.type)),
            each.eq(self._size(lambda n: config.elements(n) if n in config.types else 1, i.type)), known.eq(self._size(lambda n: n in config.types, i.type)),
            alignment.eq(self._size(self.alignment, i.type)), stride.eq(self._size(self.stride, i.type))]
        counted, total, first, mask, legal = Signal(self.places), Signal(self.places), Signal(self.places), Signal(3), Signal(init=1)
        m.d.comb += [counted.eq(i.count << log), total.eq(counted), first.eq(i.offset + Mux(i.base == Base.A, ARRAY_HEADER, 0)), legal.eq(1)]
        bad_type = i.type >= len(FIXED_TYPES)
        with m.Switch(self.op):
            with m.Case(Op.RUN, Op.CLN):
                with m.If(i.base != Base.A):
                    m.d.comb += [mask.eq(alignment), first.eq(i.offset + alignment)]
                m.d.comb += legal.eq((i.base != 3) & Mux(self.op == Op.RUN, known, ~bad_type))
            with m.Case(Op.ATT):
                m.d.comb += [mask.eq(alignment), first.eq(alignment), total.eq(1 << log), legal.eq(Mux(i.use, known, ~bad_type))]
            with m.Case(Op.ARR):
                m.d.comb += [total.eq(counted + ARRAY_HEADER), legal.eq(((i.type == 4) | (i.type == 5)) & (i.base != 3))]
            with m.Case(Op.VAR):
                m.d.comb += [first.eq(0), legal.eq(~bad_type)]
            with m.Case(Op.BEXIT, Op.EXTRBI, Op.INS):
                pass
            with m.Default():
                m.d.comb += legal.eq(0)
        u.__dict__.update(
            first=first, mask=mask, total=total, stride=stride, each=each, windows=windows, alignment=alignment, elements=counted, legal=legal,
            big=counted > p.VARATT_SHORT_MAX - (ARRAY_HEADER - 3), bitmap=Cat(Const(0, 2), i.attr[5:] + p.TUPLE_BITMAP // 4), dense=Const(2), sparse=i.offset,
            value=Cat(i.count, i.offset))

    def _built_in(self, m):
        """A read-only program: what differs between its instructions, each pattern of bits once."""
        fixed, config = self.config.fixed, self.config
        ops = sorted(fixed.ops)
        rows = []
        for i, form in zip(fixed.body, fixed.forms, strict=True):
            name = FIXED_TYPES[i.type] if i.type < len(FIXED_TYPES) else FIXED_TYPES[0]
            row = {field: getattr(i, field) for field in ("type", "bexit", "base", "test", "use", "missing", "flag", "keep", "attr", "beat", "lane")}
            row |= {"op": ops.index(i.op), "count": 0 if i.op == Op.INS else i.count, "value": i.value if i.op == Op.INS else 0}
            row |= {"first": form.first, "mask": form.mask, "total": form.total, "stride": self.stride(name),
                    "each": config.elements(name) if name in config.types else 1, "windows": config.windows(name) - 1, "alignment": self.alignment(name),
                    "elements": i.count * TYPES[name].length if i.op == Op.ARR else 0, "big": int(form.big),
                    "bitmap": p.TUPLE_BITMAP // 4 * 4 + i.attr // BITMAP_GROUP * 4}
            rows.append(row)
        columns: dict[int, int] = {}            # bits of one place over all instructions -> bit of the memory
        fields = {}
        for field in rows[0]:
            bits = []
            for bit in range(max(2 if field == "base" else 1, max(row[field] for row in rows).bit_length())):
                pattern = sum((row[field] >> bit & 1) << n for n, row in enumerate(rows))
                bits.append(None if pattern in (0, (1 << len(rows)) - 1) else columns.setdefault(pattern, len(columns)))
                if bits[-1] is None:
                    bits[-1] = Const(pattern & 1, 1)
            fields[field] = bits
        words = [sum((pattern >> n & 1) << at for pattern, at in columns.items()) for n in range(len(rows))]
        m.submodules.program_store = store = memory.Memory(shape=max(1, len(columns)), depth=len(words), init=words)
        read = store.read_port()
        self.pc = Signal(range(len(words)))
        self.pc_next = Signal.like(self.pc)
        m.d.comb += [self.pc_next.eq(self.pc), read.addr.eq(self.pc_next), read.en.eq(1)]
        m.d.sync += self.pc.eq(self.pc_next)
        self.instruction = SimpleNamespace(**{field: Cat(read.data[bit] if isinstance(bit, int) else bit for bit in bits) for field, bits in fields.items()},
                                           dense=Const(0), sparse=Const(fixed.sparse - 2))
