"""Tuple buffers: from windows to whole tuples of codes."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ...models.heap.schema import TYPES
from ...models.numerics.convert import in_order
from ...models.numerics.latency import convert_latency
from ...models.strider.config import FIXED_TYPES
from ..arith.convert import pg_converter
from ..modules import module_name
from .decode import Kind, tag_layout

__all__ = ["TupleBuffer"]


class TupleBuffer(wiring.Component):
    """Converts the values in windows and gathers them into slots of whole tuples, one memory a lane.

    A tag that completes a tuple, ends a page or is in error, presented in cycle t, can be taken in cycle t + 2 + `config.depth`. A slot
    taken (`take`) in cycle t is `room` again from cycle t + 1 on.

    Parameters
    ----------
    config
        The port's configuration.
    parts
        Gives converters and lanes.

    Members
    -------
    tag : In(tag_layout(config)), window : In(8 * bus_bytes)
        From the walker's decode stage.
    room, slot, base : Out
        A slot is free, its index and the place of its first beat; `taken` : In, the walker used it.
    ready : Out(1), end : Out(1), error : Out(1)
        The oldest slot is complete; it is the end of a page, an error (`code` and `line` then hold) or else a tuple.
    beat : In, read : In(1), lanes : Out
        Read this beat of the oldest slot; its codes follow in the next cycle and stay until the next read.
    take : In(1)
        The oldest slot is done with.
    skipped : Out(1)
        A pulse for each tuple left out.
    """

    def __init__(self, config, parts, *, src_loc_at=0):
        self.config = config
        self.parts = parts
        layout = tag_layout(config)
        super().__init__({
            "tag": In(layout), "window": In(8 * config.bus_bytes), "room": Out(1, init=1), "slot": Out(layout["slot"].shape),
            "base": Out(layout["base"].shape), "taken": In(1), "ready": Out(1), "end": Out(1), "error": Out(1), "code": Out(8), "line": Out(13),
            "beat": In(range(config.beats)), "read": In(1), "lanes": Out(data.ArrayLayout(unsigned(config.format.width), config.lanes)),
            "take": In(1), "skipped": Out(1)}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self._slots(m)
        codes = self._convert(m)
        tag = self.tag
        for _ in range(config.depth):
            later = Signal(tag_layout(config))
            m.d.sync += later.eq(tag)
            tag = later
        self._store(m, tag, codes)
        m.d.comb += self.skipped.eq(tag.valid & tag.skip)
        return m

    def _slots(self, m):
        config = self.config
        used = Signal(range(config.slots + 1))
        m.d.sync += used.eq(used + self.taken - self.take)
        m.d.comb += self.room.eq(used != config.slots)
        with m.If(self.taken):
            m.d.sync += [self.slot.eq(self.slot + 1), self.base.eq(self.base + config.beats)]
            with m.If(self.slot == config.slots - 1):
                m.d.sync += [self.slot.eq(0), self.base.eq(0)]

    def _convert(self, m):
        """One converter for each element of a window; a lane's converter knows the types of which a window has that many."""
        config, tag = self.config, self.tag
        order = in_order(config.types)
        held = Signal(8 * config.bus_bytes)                 # the first half of a value wider than a bus word
        with m.If(tag.valid & (tag.kind == Kind.DATA) & ~tag.half):
            m.d.sync += held.eq(self.window)
        constant = tag.value
        for _ in range(config.depth):
            later = Signal(32)
            m.d.sync += later.eq(constant)
            constant = later
        inserts = tag.kind == Kind.INSERT
        for _ in range(config.depth):
            later = Signal()
            m.d.sync += later.eq(inserts)
            inserts = later
        codes = []
        for k in range(max(config.elements(name) for name in order)):
            types = tuple(name for name in order if k < config.elements(name))
            raw, choice = Signal(64), Signal(range(len(types)))
            for n, name in enumerate(types):
                bits = 8 * TYPES[name].length
                value = Cat(held, self.window) if config.windows(name) > 1 else self.window[k * bits:(k + 1) * bits]
                with m.If(tag.type == FIXED_TYPES.index(name)):
                    m.d.comb += [raw.eq(value), choice.eq(n)]
            name = module_name("convert", *types, config.format.name)
            code = self.parts.instance(m, f"convert{k}", name, lambda types=types: pg_converter(types, config.format), i=raw,
                                       **({"type": choice} if len(types) > 1 else {}))["o"]
            for _ in range(config.depth - convert_latency(types, config.format)):
                later = Signal(config.format.width)
                m.d.sync += later.eq(code)
                code = later
            codes.append(Mux(inserts, constant, code)[:config.format.width] if k == 0 else code)
        return codes

    def _store(self, m, tag, codes):
        """Turn the codes to their lanes, write them in the next cycle, and make the slot known in the cycle after."""
        config = self.config
        width, lanes = config.format.width, config.lanes
        # element k belongs to lane (tag.lane + k) mod lanes; rotations modulo `lanes` by 1, 2, 4, … compose
        turned = [Cat(code, k < tag.count)[:width + 1] for k, code in enumerate(codes[:lanes])] + [0] * (lanes - len(codes))
        for bit in range(bits_for(lanes - 1) if lanes > 1 else 0):
            step = []
            for lane in range(lanes):
                node = Signal(width + 1, name=f"turn{bit}_{lane}")
                m.d.comb += node.eq(Mux(tag.lane[bit], turned[(lane - (1 << bit)) % lanes], turned[lane]))
                step.append(node)
            turned = step
        writes = tag.valid & (tag.code == 0) & (((tag.kind == Kind.DATA) & (tag.half | self._whole(tag))) | (tag.kind == Kind.INSERT))
        oldest, place = Signal.like(self.base), Signal.like(self.base)
        m.d.comb += place.eq(oldest + self.beat)
        for lane in range(lanes):
            here = self.parts.instance(
                m, f"lane{lane}", "penstock_lane", lambda: Lane(config), element=turned[lane], write=writes, wrapped=tag.lane > lane,
                beat=tag.beat, base=tag.base, place=place, read=self.read)
            m.d.comb += self.lanes[lane].eq(here["code"])

        error = tag.valid & (tag.code != 0)
        done = Signal()
        finish, slot, kinds = Signal(), Signal.like(self.slot), Signal(2)
        m.d.comb += done.eq(tag.valid & (tag.commit | tag.end) | error)
        m.d.sync += [finish.eq(done), slot.eq(tag.slot), kinds.eq(Cat(tag.end & ~error, error))]
        with m.If(error):
            m.d.sync += [self.code.eq(tag.code), self.line.eq(tag.line)]
        complete = Signal(range(config.slots + 1))
        m.d.sync += complete.eq(complete + finish - self.take)
        ends, errors = Signal(config.slots), Signal(config.slots)
        with m.If(finish):
            m.d.sync += [ends.bit_select(slot, 1).eq(kinds[0]), errors.bit_select(slot, 1).eq(kinds[1])]
        tail = Signal.like(self.slot)
        with m.If(self.take):
            m.d.sync += [tail.eq(tail + 1), oldest.eq(oldest + config.beats)]
            with m.If(tail == config.slots - 1):
                m.d.sync += [tail.eq(0), oldest.eq(0)]
        m.d.comb += [self.ready.eq(complete != 0), self.end.eq(ends.bit_select(tail, 1)), self.error.eq(errors.bit_select(tail, 1))]

    def _whole(self, tag):
        """Whether a value of the tag's type comes in one window."""
        wide = [FIXED_TYPES.index(name) for name in self.config.types if self.config.windows(name) > 1]
        return ~Cat(*[tag.type == code for code in wide]).any() if wide else 1


class Lane(wiring.Component):
    """One lane's memory of a tuple buffer.

    Members
    -------
    element : In(width + 1), write : In(1)
        A code and, above it, whether it is there; it is written at the end of the next cycle.
    beat, base : In, wrapped : In(1)
        The element's beat in its tuple, one less if `wrapped`; the place of the tuple's first beat. Beats past the tuple's end are not written.
    place : In, read : In(1), code : Out
        Reads this place; the code follows in the next cycle and stays until the next read.
    """

    def __init__(self, config):
        self.config = config
        place, width = range(config.slots * config.beats), config.format.width
        super().__init__({"element": In(width + 1), "write": In(1), "beat": In(16), "wrapped": In(1), "base": In(place),
                          "place": In(place), "read": In(1), "code": Out(width)})

    def elaborate(self, platform):
        m = Module()
        config, width = self.config, self.config.format.width
        m.submodules.store = store = memory.Memory(shape=width, depth=config.slots * config.beats, init=[])
        write, read = store.write_port(), store.read_port()
        beat = Signal(17)
        m.d.comb += [beat.eq(self.beat + self.wrapped), read.addr.eq(self.place), read.en.eq(self.read), self.code.eq(read.data)]
        m.d.sync += [write.data.eq(self.element[:width]), write.addr.eq(self.base + beat),
                     write.en.eq(self.write & self.element[width] & (beat < config.beats))]
        return m
