"""Instructions: from a program memory, or built in."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.lib import data, memory
from amaranth.utils import exact_log2

from ...models.heap import page as p
from ...models.heap.schema import TYPES
from ...models.strider.fixed import window_stride
from ...models.strider.isa import FIELDS, FIXED_TYPES, Base, Op
from ...models.strider.machine import ARRAY_HEADER
from .front import State


def program_layout(config):
    """The write port of a program memory."""
    return data.StructLayout({"index": range(config.program_depth), "data": 96, "write": 1})


def _instruction_layout():
    return data.FlexibleLayout(
        96, {name: data.Field(bits, first) for name, (first, bits) in FIELDS.items()}
    )


class Fetch:
    """Part of `StriderPipeline`: `advancing` and `entering` choose the instruction of the next cycle; `instruction` holds this cycle's, taken apart.

    Beside the fields of the word: `first`, `mask`, `total` (of `order_layout`) of its first window, `stride` from each window to the next, `each` elements a
    window delivers, `windows` whether an element takes two, `alignment` (of its type, less one), `elements` the bytes of an array's elements, `big`
    whether its header cannot be short, `bitmap` where the bits of its attributes lie, `legal`. `following`: likewise of a built-in program's next cycle,
    if it is to have another instruction.
    """

    def alignment(self, name):
        """Return a type's alignment, less one."""
        return TYPES[name].length - 1

    def _go_to(self, m, pc):
        """Choose one of the first two instructions; a built-in program does not have them."""
        if self.config.fixed is None:
            m.d.comb += self.pc_next.eq(pc)

    def _fetch(self, m):
        # to the next instruction; to a tuple's first
        self.advancing, self.entering = Signal(), Signal()
        if self.config.fixed is not None:
            self._built_in(m)
        else:
            self._stored(m)

    def _stored(self, m):
        depth = self.config.program_depth
        self.i = i = Signal(_instruction_layout())
        m.submodules.program_store = store = memory.Memory(shape=96, depth=depth, init=[])
        write, read = store.write_port(), store.read_port()
        self.pc = Signal(range(max(depth, 1 << 16)))
        self.pc_next = Signal.like(self.pc)
        m.d.comb += [
            write.addr.eq(self.program.index),
            write.data.eq(self.program.data),
            write.en.eq(self.program.write),
            self.pc_next.eq(self.pc),
            read.addr.eq(self.pc_next),
            read.en.eq(1),
        ]
        m.d.sync += self.pc.eq(self.pc_next)
        with m.If(self.advancing):
            m.d.comb += self.pc_next.eq(self.pc + 1)
        with m.If(self.entering):
            m.d.comb += self.pc_next.eq(Mux(self.decoder.dense, 2, self.i.offset))
        m.d.comb += i.eq(read.data)
        self.op = Signal(4)
        m.d.comb += self.op.eq(Mux(self.pc < self.program_length, i.op, 0))
        self._take_apart(m, i)

    def _take_apart(self, m, i):
        """`instruction` of a word of the program memory."""
        typed = self._typed(m, i)
        counted, total, first = Signal(self.places), Signal(self.places), Signal(self.places)
        mask, legal = Signal(3), Signal(init=1)
        m.d.comb += [
            counted.eq(i.count << typed.log),
            total.eq(counted),
            first.eq(i.offset + Mux(i.base == Base.A, ARRAY_HEADER, 0)),
            legal.eq(1),
        ]
        bad_type, known, alignment = i.type >= len(FIXED_TYPES), typed.known, typed.alignment
        with m.Switch(self.op):
            with m.Case(Op.RUN, Op.CLN):
                with m.If(i.base != Base.A):
                    m.d.comb += [mask.eq(alignment), first.eq(i.offset + alignment)]
                m.d.comb += legal.eq((i.base != 3) & Mux(self.op == Op.RUN, known, ~bad_type))
            with m.Case(Op.ATT):
                m.d.comb += [
                    mask.eq(alignment),
                    first.eq(alignment),
                    total.eq(1 << typed.log),
                    legal.eq(Mux(i.use, known, ~bad_type)),
                ]
            with m.Case(Op.ARR):
                m.d.comb += [
                    total.eq(counted + ARRAY_HEADER),
                    legal.eq(
                        Cat(i.type == FIXED_TYPES.index(n) for n in self.config.arrays).any()
                        & (i.base != 3)
                    ),
                ]
            with m.Case(Op.VAR):
                m.d.comb += [first.eq(0), legal.eq(~bad_type)]
            with m.Case(Op.BEXIT, Op.EXTRBI, Op.INS):
                pass
            with m.Default():
                m.d.comb += legal.eq(0)
        self.instruction = SimpleNamespace(
            **{name: getattr(i, name) for name in FIELDS} | vars(typed),
            first=first,
            mask=mask,
            total=total,
            elements=counted,
            legal=legal,
            big=counted > p.VARATT_SHORT_MAX - (ARRAY_HEADER - 3),
            bitmap=Cat(Const(0, 2), i.attr[5:] + p.TUPLE_BITMAP // 4),
            value=Cat(i.count, i.offset),
        )

    def _typed(self, m, i):
        """Return what follows from the word's type: `log` of its bytes, whether it is `known` to the
        converters, and members of `instruction`."""
        config = self.config
        bits: dict[str, Any] = {"log": 2, "known": 1, "windows": 1, "alignment": 3, "stride": 7}
        bits["each"] = range(max(config.elements(n) for n in FIXED_TYPES) + 1)
        typed = SimpleNamespace(**{name: Signal(shape, name=name) for name, shape in bits.items()})
        m.d.comb += [
            typed.log.eq(self._size(lambda n: exact_log2(TYPES[n].length), i.type)),
            typed.windows.eq(self._size(lambda n: config.windows(n) - 1, i.type)),
            typed.each.eq(
                self._size(lambda n: config.elements(n) if n in config.types else 1, i.type)
            ),
            typed.known.eq(self._size(lambda n: n in config.types, i.type)),
            typed.alignment.eq(self._size(self.alignment, i.type)),
            typed.stride.eq(self._size(lambda n: window_stride(config, n), i.type)),
        ]
        return typed

    def _built_in(self, m):
        """A read-only program: what differs between its instructions, each pattern of bits once."""
        fixed = self.config.fixed
        m.submodules.program_store = store = memory.Memory(
            shape=fixed.width, depth=len(fixed.words), init=fixed.words
        )
        read = store.read_port(domain="comb")
        # the instruction after this one, or a tuple's first, is looked up while it is being found out whether it is its turn
        pc, place, word = (
            Signal(range(len(fixed.words) + 1)),
            Signal(range(len(fixed.words) + 1)),
            Signal(fixed.width),
        )
        m.d.comb += [
            place.eq(
                Mux(self.state == State.LOOP, Mux(self.decoder.dense, 0, fixed.sparse - 2), pc)
            ),
            read.addr.eq(place),
        ]
        with m.If(self.advancing | self.entering):
            m.d.sync += [pc.eq(place + 1), word.eq(read.data)]
        self.instruction, self.following = (
            SimpleNamespace(
                **{
                    name: Cat(Const(~bit, 1) if bit < 0 else value[bit] for bit in bits)
                    for name, bits in fixed.fields.items()
                }
            )
            for value in (word, read.data)
        )
