"""Tuple buffers: from windows to whole tuples of codes."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ...models.heap.schema import TYPES
from ...models.numerics.convert import in_order
from ...models.numerics.latency import convert_latency
from ...models.numerics.limbs import LIMBS_MAX, OFFSET_BITS, SHIFT_BITS, UNIT_BITS, Limbs
from ...models.strider.errors import PageError
from ...models.strider.isa import FIXED_TYPES, Op
from ...models.strider.layout import NUMBERS
from ..apart import APART
from ..arith.convert import pg_converter
from ..modules import module_name
from .layouts import Kind, beat_bits, page_bits, policy_layout, tag_layout


def item_bits(config):
    """Bits of a value's flat position, counted from 1."""
    return (config.beats * config.lanes).bit_length()


def units_members(config):
    """What conversions to `Limbs` are told before the first page: of each flat position its offset (`kind` 0), then its unit: the shift,
    above it the code of what older rows hold there (`models.qr.table_config`). Nothing in other formats."""
    if not isinstance(config.format, Limbs):
        return {}
    layout = data.StructLayout(
        {
            "write": 1,
            "kind": 1,
            "place": range(max(2, config.beats * config.lanes)),
            "number": UNIT_BITS,
        }
    )
    return {"units": In(layout)}


class _Converted(NamedTuple):
    """What a converter gives: a code, whether the value is beyond the format or a NaN, whether it is an integer: then "NaN" is said of one
    that leaves its tuple out."""

    code: Any
    over: Any
    nan: Any
    integer: Any


def unfit_layout(config):
    """The first value that is an error: what, in which tuple, where in it (`item_bits`)."""
    return data.StructLayout({"valid": 1, "code": 8, "line": 13, "item": item_bits(config)})


class TupleBuffer(wiring.Component):
    """Converts the values in windows and gathers them into slots of whole tuples, one memory a lane.

    A tag that completes a tuple, ends a page or is in error, presented in cycle t, can be taken in cycle t + 2 + `config.depth`. A slot
    taken (`take`) in cycle t is `room` again from cycle t + 1 on. Slots are used in turn.

    * `config`: the port's configuration.
    * `parts`: gives converters and lanes.
    """

    def __init__(self, config, parts):
        self.config = config
        self.parts = parts
        super().__init__(
            {
                # from the Strider's decode stage
                "tag": In(tag_layout(config)),
                "window": In(8 * config.bus_bytes),
                # the tag before this one was in error, or one before it was: nothing counts any
                # more from the first of them on
                "failed": In(1),
                "policy": In(policy_layout()),  # what values do that do not fit
                "line": In(13),  # the line pointer of the tag's tuple
                "room": Out(1, init=1),  # a slot is free
                "taken": In(1),  # the Strider has used it up
                "ready": Out(1),  # the oldest slot is complete: a tuple, or one of the following
                "end": Out(1),  # the end of a page
                "error": Out(1),  # an error
                "void": Out(1),  # a tuple that its values leave out
                # the error, where it is a value's: then it comes before all that `failed` is about
                "unfit": Out(unfit_layout(config)),
                # read this beat of the oldest slot; its codes follow in the next cycle and stay
                # until the next read
                "beat": In(range(config.beats)),
                "read": In(1),
                "lanes": Out(data.ArrayLayout(unsigned(config.format.width), config.lanes)),
                "take": In(1),  # the oldest slot is done with
                "skipped": Out(1),  # a pulse for each tuple left out
                **units_members(config),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # slots used; what was taken up last counts a cycle later
        used, latest = Signal(range(config.slots + 1)), Signal()
        m.d.sync += [latest.eq(self.taken), used.eq(used + latest - self.take)]
        m.d.comb += self.room.eq(used + latest != config.slots)
        converted = self._convert(m)
        tag, before = self.tag, Signal()
        error: object = None
        m.d.sync += before.eq(self.failed)
        for k in range(config.depth):
            later = Signal(tag_layout(config), name=f"tag{k}")
            m.d.sync += later.eq(tag)
            if k == 1:  # the tag just before was looked at while the one before it was on its way
                with m.If(self.failed):
                    m.d.sync += [
                        later.kind.eq(Kind.NONE),
                        later.commit.eq(0),
                        later.end.eq(0),
                        later.skip.eq(0),
                    ]
                first = Signal(name="error1")
                m.d.sync += first.eq(self.failed & ~before)
                error = first
            elif k > 1:
                again = Signal(name=f"error{k}")
                m.d.sync += again.eq(error)
                error = again
            tag = later
        if error is None:  # one stage: judged as it is stored
            error = self.failed & ~before
            good = Signal(tag_layout(config))
            m.d.comb += good.eq(tag)
            with m.If(self.failed):
                m.d.comb += [
                    good.kind.eq(Kind.NONE),
                    good.commit.eq(0),
                    good.end.eq(0),
                    good.skip.eq(0),
                ]
            tag = good
        wrong, void = self._judge(m, tag, converted)
        self._store(m, tag, [each.code for each in converted], error | wrong, void)
        m.d.comb += self.skipped.eq(tag.skip)
        return m

    def _some(self, tag, codes):
        """Whether the window has an element k, for each converter."""
        alone = self.config.fixed is not None and codes == 1
        return [Const(1)] if alone else [k < tag.count for k in range(codes)]

    def _writes(self, tag):
        """Whether the window's elements go to the tuple."""
        return ((tag.kind == Kind.DATA) & (tag.half | self._whole(tag))) | (tag.kind == Kind.INSERT)

    def _judge(self, m, tag, converted):
        """Judge a tuple's values when it is complete; return whether it is an error, and whether it is left out."""
        config = self.config
        lines = _delayed(m, self.line[: page_bits(config) - 2], config.depth, "line")
        writes, some = self._writes(tag), self._some(tag, len(converted))
        void, wrong, lost = Signal(), Signal(), Signal()  # of this window
        first, code = Signal(range(len(converted))), Signal(8)
        there_are = list(zip(some, converted, strict=True))
        m.d.comb += [
            void.eq(
                writes
                & self.policy.skip
                & Cat(valid & each.nan & ~each.integer for valid, each in there_are).any()
            ),
            lost.eq(
                writes & Cat(valid & each.nan & each.integer for valid, each in there_are).any()
            ),
        ]
        for k, (valid, each) in reversed(list(enumerate(there_are))):
            over = each.over & (~self.policy.saturate | each.integer)
            beyond = Mux(each.integer, PageError.VALUE_INDEX, PageError.VALUE_OVERFLOW)
            nan = each.nan & ~each.integer & ~self.policy.skip & ~self.policy.go
            with m.If(valid & (over | nan)):
                m.d.comb += [
                    wrong.eq(writes),
                    first.eq(k),
                    code.eq(Mux(nan, PageError.VALUE_NAN, beyond)),
                ]
        # of the tuple's windows before this one
        voided, failed, losing = Signal(), Signal(), Signal()
        kept_code, kept_item = Signal(8), Signal(item_bits(config))
        item = Signal(item_bits(config))
        m.d.comb += item.eq(_times(tag.beat, config.lanes) + tag.lane + first + 1)
        over = tag.commit | tag.skip
        for before, here in ((voided, void), (failed, wrong), (losing, lost)):
            m.d.sync += before.eq(~over & (before | here))
        with m.If(wrong & ~failed):
            m.d.sync += [kept_code.eq(code), kept_item.eq(item)]
        nan, left, bad = Signal(), Signal(), Signal()  # asked of a whole tuple alone
        m.d.comb += [
            nan.eq(voided | void),
            left.eq(nan | ((losing | lost) & ~(failed | wrong))),
            bad.eq(tag.commit & (failed | wrong) & ~nan),
        ]
        with m.If(bad & ~self.unfit.valid):
            m.d.sync += [
                self.unfit.valid.eq(1),
                self.unfit.code.eq(Mux(failed, kept_code, code)),
                self.unfit.item.eq(Mux(failed, kept_item, item)),
                self.unfit.line.eq(lines),
            ]
        return bad, left

    def _convert(self, m):
        """One converter for each element of a window; a lane's converter knows the types of which a window has that many."""
        config, tag = self.config, self.tag
        order = in_order(config.types)
        held = Signal(8 * config.bus_bytes)  # the first half of a value wider than a bus word
        with m.If((tag.kind == Kind.DATA) & ~tag.half):
            m.d.sync += held.eq(self.window)
        insertable = config.fixed is None or Op.INS in config.fixed.ops
        stages = config.depth if insertable else 0
        constant = _delayed(m, tag.value, stages, "constant")
        inserts = _delayed(m, tag.kind == Kind.INSERT, stages, "inserts")
        flags = _delayed(m, Cat(tag.over, tag.nan), stages, "flags")  # of a constant
        converted = []
        for k in range(max(config.elements(name) for name in order)):
            types = tuple(name for name in order if k < config.elements(name))
            raw, choice = Signal(64), Signal(range(len(types)))
            for n, name in enumerate(types):
                bits = 8 * TYPES[name].length
                value = (
                    Cat(held, self.window)
                    if config.windows(name) > 1
                    else self.window[k * bits : (k + 1) * bits]
                )
                with m.If(tag.type == FIXED_TYPES.index(name)):
                    m.d.comb += [raw.eq(value), choice.eq(n)]
            name = module_name("convert", *types, config.format.name)
            units, older = self._units(m, k)
            if older is not None and k == 0:
                constant = older
            converter = self.parts.instance(
                m,
                f"convert{k}",
                name,
                lambda types=types: pg_converter(types, config.format),
                i=raw,
                **({"type": choice} if len(types) > 1 else {}),
                **units,
            )
            waits = config.depth - convert_latency(types, config.format)
            word = Cat(converter["o"], converter["over"], converter["nan"])
            word = _delayed(m, word, waits, f"converted{k}_")
            word, integer = self._integer(m, k, word, raw, types, choice)
            if k == 0 and insertable:
                word = Mux(inserts, Cat(constant[: config.format.width], flags), word)
            converted.append(_Converted(word[: config.format.width], word[-2], word[-1], integer))
        return converted

    def _integer(self, m, k, word, raw, types, choice):
        """Return what converter k gives, but the integer as it is where an integer belongs, and whether that is so."""
        config = self.config
        if not config.integers:
            return word, Const(0)
        number, here, beyond = Signal(64), Signal(), Signal()
        leaves, kept = Signal(), Signal(64)
        m.d.comb += [number.eq(raw), kept.eq(number)]
        for n, name in enumerate(types):
            bits = 8 * TYPES[name].length
            with m.If(choice == n):
                if name == "bool":
                    m.d.comb += number.eq(raw[:8].any())
                elif bits < 64:
                    m.d.comb += number.eq(raw[:bits].as_signed())
        with m.Switch(_times(self.tag.beat, config.lanes) + self.tag.lane + k):
            for integer in config.integers:
                far = number >= integer.counts
                unseen = (number == (1 << 64) - 1) & (integer.unseen != NUMBERS)
                with m.Case(integer.position):
                    m.d.comb += [
                        here.eq(1),
                        beyond.eq(far & ~unseen & (not integer.leaves)),
                        leaves.eq(
                            (far & ~unseen & integer.leaves) | (unseen & (integer.unseen < 0))
                        ),
                    ]
                    if integer.unseen >= 0:
                        m.d.comb += kept.eq(Mux(unseen, integer.unseen, number))
        width = config.format.width
        plain = Cat(kept[:width], Const(0, max(0, width - 64)), beyond, leaves, here)
        plain = _delayed(m, plain, config.depth, f"integer{k}_")
        return Mux(plain[-1], plain[:-1], word), plain[-1]

    def _units(self, m, k):
        """The unit of what converter k has begun a cycle before, and the code, at the end of its stages, of what older rows hold there."""
        config = self.config
        if not isinstance(config.format, Limbs):
            return {}, None
        places = config.beats * config.lanes
        place = Signal.like(self.units.place, name=f"place{k}")
        flat = _times(self.tag.beat, config.lanes) + self.tag.lane + k
        m.d.comb += place.eq(Mux(flat < places, flat, 0))
        words = []
        for kind in (0, 1):
            m.submodules[f"units{k}_{kind}"] = store = memory.Memory(
                shape=UNIT_BITS, depth=max(2, places), init=[], attrs=APART
            )
            write, read = store.write_port(), store.read_port()
            m.d.comb += [
                write.addr.eq(self.units.place),
                write.data.eq(self.units.number),
                write.en.eq(self.units.write & (self.units.kind == kind)),
                read.addr.eq(place),
            ]
            words.append(read.data)
        late = Signal.like(place, name=f"late{k}")
        limbs = Signal(range(LIMBS_MAX + 1), name=f"limbs{k}")
        m.d.sync += late.eq(place)
        with m.Switch(late):
            for number, count in enumerate(config.format.limbs):
                with m.Case(number):
                    m.d.comb += limbs.eq(count)
        older = words[1][SHIFT_BITS:][: config.format.width]
        older = _delayed(m, older, config.depth - 1, f"older{k}_")
        return {
            "offset": words[0][:OFFSET_BITS],
            "shift": words[1][:SHIFT_BITS],
            "limbs": limbs,
        }, older

    def _turned(self, m, tag, codes):
        """Return what goes to each lane: the code, and whether there is one."""
        width, lanes = self.config.format.width, self.config.lanes
        # element k belongs to lane (tag.lane + k) mod lanes; rotations modulo `lanes` by 1, 2, 4, … compose
        some = self._some(tag, len(codes))
        turned = [
            Cat(code, valid)[: width + 1] for code, valid in zip(codes[:lanes], some, strict=False)
        ] + [0] * (lanes - len(codes))
        for bit in range(bits_for(lanes - 1) if lanes > 1 else 0):
            step = []
            for lane in range(lanes):
                node = Signal(width + 1, name=f"turn{bit}_{lane}")
                m.d.comb += node.eq(
                    Mux(tag.lane[bit], turned[(lane - (1 << bit)) % lanes], turned[lane])
                )
                step.append(node)
            turned = step
        return turned

    def _store(self, m, tag, codes, error, void):
        """Turn the codes to their lanes, write them in the next cycle, and make the slot known in the cycle after."""
        config, lanes = self.config, self.config.lanes
        turned = self._turned(m, tag, codes)
        writes = self._writes(tag)
        base = Signal(range(config.slots * config.beats))  # where the tuple that is gathered begins
        oldest, place = Signal.like(base), Signal.like(base)
        m.d.comb += place.eq(oldest + self.beat)
        for lane in range(lanes):
            here = self.parts.instance(
                m,
                f"lane{lane}",
                "penstock_lane",
                lambda: Lane(config),
                element=turned[lane],
                write=writes,
                wrapped=tag.lane > lane,
                beat=tag.beat,
                base=base,
                place=place,
                read=self.read,
            )
            m.d.comb += self.lanes[lane].eq(here["code"])
        self._slots(m, tag, error, void, base, oldest)

    def _slots(self, m, tag, error, void, base, oldest):
        """Which slots are filled, where the next one begins, and what the oldest one holds."""
        config = self.config
        done, finish, kinds = Signal(), Signal(), Signal(3)
        slot, tail = Signal(range(config.slots)), Signal(range(config.slots))
        m.d.comb += done.eq(tag.commit | tag.end | error)
        m.d.sync += [finish.eq(done), kinds.eq(Cat(tag.end, error, void))]
        with m.If(done):
            m.d.sync += base.eq(
                Mux(base == (config.slots - 1) * config.beats, 0, base + config.beats)
            )
        complete = Signal(range(config.slots + 1))
        m.d.sync += complete.eq(complete + finish - self.take)
        ends, errors, voids = (Signal(config.slots, name=n) for n in ("ends", "errors", "voids"))
        with m.If(finish):
            m.d.sync += [
                ends.bit_select(slot, 1).eq(kinds[0]),
                errors.bit_select(slot, 1).eq(kinds[1]),
                voids.bit_select(slot, 1).eq(kinds[2]),
                slot.eq(Mux(slot == config.slots - 1, 0, slot + 1)),
            ]
        with m.If(self.take):
            m.d.sync += [
                tail.eq(Mux(tail == config.slots - 1, 0, tail + 1)),
                oldest.eq(
                    Mux(oldest == (config.slots - 1) * config.beats, 0, oldest + config.beats)
                ),
            ]
        m.d.comb += [
            self.ready.eq(complete != 0),
            self.end.eq(ends.bit_select(tail, 1)),
            self.error.eq(errors.bit_select(tail, 1)),
            self.void.eq(voids.bit_select(tail, 1)),
        ]

    def _whole(self, tag):
        """Whether a value of the tag's type comes in one window."""
        wide = [
            FIXED_TYPES.index(name) for name in self.config.types if self.config.windows(name) > 1
        ]
        return ~Cat(*[tag.type == code for code in wide]).any() if wide else 1


def _delayed(m, value, cycles, name):
    """`value` of so many cycles ago."""
    for k in range(cycles):
        later = Signal.like(value, name=f"{name}{k}")
        m.d.sync += later.eq(value)
        value = later
    return value


def _times(value, number):
    """`value` times a constant, as shifts and sums: a product would take a multiplier block."""
    return sum((value << bit for bit in range(number.bit_length()) if number >> bit & 1), Const(0))


class Lane(wiring.Component):
    """One lane's memory of a tuple buffer."""

    #: tuples are read after they were written
    collisions_unseen = True

    def __init__(self, config):
        self.config = config
        place, width = range(config.slots * config.beats), config.format.width
        super().__init__(
            {
                "element": In(width + 1),  # a code and, above it, whether it is there
                "write": In(1),  # `element` is written at the end of the next cycle
                # the element's beat in its tuple, less one if `wrapped`; beats past the tuple's end
                # are not written
                "beat": In(beat_bits(config)),
                "wrapped": In(1),
                "base": In(place),  # the place of the tuple's first beat
                # reads this place; the code follows in the next cycle and stays until the next read
                "place": In(place),
                "read": In(1),
                "code": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, width = self.config, self.config.format.width
        m.submodules.store = store = memory.Memory(
            shape=width, depth=config.slots * config.beats, init=[], attrs=APART
        )
        write, read = store.write_port(), store.read_port()
        beat = Signal(len(self.beat) + 1)
        m.d.comb += [
            beat.eq(self.beat + self.wrapped),
            read.addr.eq(self.place),
            read.en.eq(self.read),
            self.code.eq(read.data),
        ]
        m.d.sync += [
            write.data.eq(self.element[:width]),
            write.addr.eq(self.base + beat),
            write.en.eq(
                self.write
                & self.element[width]
                & (Const(1) if config.fixed is not None else beat < config.beats)
            ),
        ]
        return m
