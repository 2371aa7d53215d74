"""Instructions: from a program memory, or built in."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...models.heap import page as p
from ...models.heap.schema import TYPES
from ...models.strider.fixed import window_stride
from ...models.strider.isa import FIELDS, FIXED_TYPES, Base, Op
from ...models.strider.machine import ARRAY_HEADER
from ..stream.passing import fields
from .layouts import place_bits, program_layout


def alignment(name):
    """Return a type's alignment, less one."""
    return TYPES[name].length - 1


def by_type(config, table, code):
    """`table[code]` for each type code, as a small multiplexer."""
    fixed = config.fixed
    if fixed is not None:
        first, *others = fixed.types or (0,)
        value = Const(table(FIXED_TYPES[first]), 8)
        for known in others:
            value = Mux(code == known, table(FIXED_TYPES[known]), value)
        return value
    return Array([Const(table(name), 8) for name in FIXED_TYPES] + [Const(0, 8)] * 2)[code]


def opcode(config, op):
    """The number that stands for an operation in `op` of an instruction; one that a built-in program does not have has none."""
    if config.fixed is None:
        return op
    return sorted(config.fixed.ops).index(op)


def instruction_layout(config):
    """An instruction: the fields of its word (`models.strider.isa.FIELDS`), and what follows from them. A built-in program has no more bits of each
    than differ between its instructions."""
    if config.fixed is not None:
        return data.StructLayout({name: len(bits) for name, bits in config.fixed.fields.items()})
    places = place_bits(config)
    word = {name: bits for name, (_, bits) in FIELDS.items()}
    return data.StructLayout(
        {
            **word,
            # of the first window that it reads, as in `issue_layout`
            "first": places,
            "mask": 3,
            "total": places,
            "stride": 7,  # bytes from each of its windows to the next
            "each": range(max(config.elements(n) for n in FIXED_TYPES) + 1),  # values in a window
            "windows": 1,  # a value takes two windows
            "alignment": 3,  # its type's, less one
            "elements": places,  # bytes of an array's elements
            "big": 1,  # the array's header cannot be short
            "bitmap": len(_bitmap(Const(0, word["attr"]))),  # where its attributes' null bits lie
            "value": word["count"] + word["offset"],  # a constant
            "legal": 1,  # an operation of tuples, with a type and a base that it may have
        }
    )


def _bitmap(attr):
    return Cat(Const(0, 2), attr[5:] + p.TUPLE_BITMAP // 4)


class Fetch(wiring.Component):
    """Gives the instruction of each cycle, from a program memory or built in, taken apart."""

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "program": In(program_layout(config)),
                "program_length": In(range(config.program_depth + 1)),  # instructions in it
                # which instruction comes in the next cycle, where it is another one
                "advance": In(1),  # the one behind this one
                "enter": In(1),  # the first one of a tuple, which is `dense` or not
                "dense": In(1),
                "to_page": In(1),  # `readB`
                "to_tuple": In(1),  # `bentr`
                "waiting": In(1),  # the instruction is `bentr`
                "o": Out(instruction_layout(config)),
                # of a built-in program: what `advance` or `enter` leads to
                "following": Out(instruction_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if self.config.fixed is not None:
            self._built_in(m)
        else:
            self._stored(m)
        return m

    def _stored(self, m):
        """A memory that the host writes; the word of an instruction follows its address a cycle later."""
        depth = self.config.program_depth
        m.submodules.program_store = store = memory.Memory(shape=96, depth=depth, init=[])
        write, read = store.write_port(), store.read_port()
        here, following = Signal(range(max(depth, 1 << 16))), Signal(range(max(depth, 1 << 16)))
        word = data.View(_word_layout(), read.data)
        m.d.comb += [
            write.addr.eq(self.program.index),
            write.data.eq(self.program.data),
            write.en.eq(self.program.write),
            read.addr.eq(following),
            read.en.eq(1),
            following.eq(here),
        ]
        m.d.sync += here.eq(following)
        with m.If(self.to_page):
            m.d.comb += following.eq(0)
        with m.Elif(self.to_tuple):
            m.d.comb += following.eq(1)
        with m.Elif(self.enter):
            m.d.comb += following.eq(Mux(self.dense, 2, word.offset))
        with m.Elif(self.advance):
            m.d.comb += following.eq(here + 1)
        op = Signal(4)
        m.d.comb += op.eq(Mux(here < self.program_length, word.op, 0))
        self._take_apart(m, op, word)

    def _take_apart(self, m, op, word):
        """What follows from the fields of a word; `op` is its operation, if it lies in the program."""
        config, places = self.config, place_bits(self.config)
        typed = lambda table: by_type(config, table, word.type)
        # of its type: the logarithm of its bytes, whether there is none, whether converters know it
        log, bad, known = Signal(2), word.type >= len(FIXED_TYPES), Signal()
        first, total, elements = Signal(places), Signal(places), Signal(places)
        aligned, mask, legal = Signal(3), Signal(3), Signal()
        m.d.comb += [
            log.eq(typed(lambda n: exact_log2(TYPES[n].length))),
            known.eq(typed(lambda n: n in config.types)),
            aligned.eq(typed(alignment)),
            elements.eq(word.count << log),
            total.eq(elements),
            first.eq(word.offset + Mux(word.base == Base.A, ARRAY_HEADER, 0)),
            legal.eq(1),
        ]
        with m.Switch(op):
            with m.Case(Op.RUN, Op.CLN):
                with m.If(word.base != Base.A):
                    m.d.comb += [mask.eq(aligned), first.eq(word.offset + aligned)]
                m.d.comb += legal.eq((word.base != 3) & Mux(op == Op.RUN, known, ~bad))
            with m.Case(Op.ATT):
                m.d.comb += [
                    mask.eq(aligned),
                    first.eq(aligned),
                    total.eq(1 << log),
                    legal.eq(Mux(word.use, known, ~bad)),
                ]
            with m.Case(Op.ARR):
                arrays = Cat(word.type == FIXED_TYPES.index(n) for n in config.arrays)
                m.d.comb += [
                    total.eq(elements + ARRAY_HEADER),
                    legal.eq(arrays.any() & (word.base != 3)),
                ]
            with m.Case(Op.VAR):
                m.d.comb += [first.eq(0), legal.eq(~bad)]
            with m.Case(Op.BEXIT, Op.EXTRBI, Op.INS):
                pass
            with m.Default():
                m.d.comb += legal.eq(0)
        values = {name: getattr(word, name) for name in FIELDS} | {
            "op": op,
            "first": first,
            "mask": mask,
            "total": total,
            "stride": typed(lambda n: window_stride(config, n)),
            "each": typed(lambda n: config.elements(n) if n in config.types else 1),
            "windows": typed(lambda n: config.windows(n) - 1),
            "alignment": aligned,
            "elements": elements,
            "big": elements > p.VARATT_SHORT_MAX - (ARRAY_HEADER - 3),
            "bitmap": _bitmap(word.attr),
            "value": Cat(word.count, word.offset),
            "legal": legal,
        }
        m.d.comb += fields(self.o, **values)

    def _built_in(self, m):
        """A read-only program: what differs between its instructions, each pattern of bits once."""
        fixed = self.config.fixed
        m.submodules.program_store = store = memory.Memory(
            shape=fixed.width, depth=len(fixed.words), init=fixed.words
        )
        read = store.read_port(domain="comb")
        # the instruction after this one, or a tuple's first, is looked up while it is found out
        # whether it is its turn
        behind, place, word = (
            Signal(range(len(fixed.words) + 1)),
            Signal(range(len(fixed.words) + 1)),
            Signal(fixed.width),
        )
        entry = Mux(self.dense, 0, fixed.sparse - 2)
        m.d.comb += [place.eq(Mux(self.waiting, entry, behind)), read.addr.eq(place)]
        with m.If(self.advance | self.enter):
            m.d.sync += [behind.eq(place + 1), word.eq(read.data)]
        for instruction, bits in ((self.o, word), (self.following, read.data)):
            for name, places in fixed.fields.items():
                m.d.comb += getattr(instruction, name).eq(
                    Cat(Const(~bit, 1) if bit < 0 else bits[bit] for bit in places)
                )


def _word_layout():
    return data.FlexibleLayout(
        96, {name: data.Field(bits, first) for name, (first, bits) in FIELDS.items()}
    )
