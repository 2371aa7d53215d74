"""The back's first stages: items of the opened pages and of the fetched frames, a row a cycle."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.back import BackSchedule
from ...models.omap.config import BLOCK
from ..stream.passing import fields
from .frames import found_layout
from .layout import merge_layout


def part_bits(config):
    """Bits of the number of a row in its item."""
    return (max(config.slot_rows, 2) - 1).bit_length()


def stage_layout(config, ticket):
    """What goes with an operation from stage to stage; `number`: of its item among those kept."""
    bits = (BackSchedule.of(config).items - 1).bit_length()
    return data.StructLayout({"op": merge_layout(config), "ticket": ticket, "number": bits})


def row_layout(config, ticket):
    """Row `part` of an item on both sides. `begins`, `ends`: the operation's first, last row;
    `stores`: `new` is a row of the item in the request."""
    size = 128 * config.merge_blocks
    side = data.StructLayout({"item": size, "there": 1, "own": 1})
    return data.StructLayout(
        {
            "valid": 1,
            "begins": 1,
            "ends": 1,
            "part": part_bits(config),
            "stores": 1,
            "new": size,
            "stage": stage_layout(config, ticket),
            "sides": data.ArrayLayout(side, 2),
        }
    )


class ItemReader(wiring.Component):
    """Addresses the items of both sides, first those of the page, then the frames'; two cycles later
    a row of them is there. One row a cycle; operations follow one another without a gap.
    """

    def __init__(self, config, ticket):
        self.config, self.schedule = config, BackSchedule.of(config)
        self.stage = stage_layout(config, ticket)
        row, width = row_layout(config, ticket), 128 * config.merge_blocks
        kept = part_bits(config) + (self.schedule.items - 1).bit_length()
        super().__init__(
            {
                "i": In(stream.Signature(merge_layout(config))),
                # as in `hdl.omap.back.Back`
                "go": In(1),
                "begun": Out(1),
                "ticket": In(ticket),
                # the opened pages and the request: data in the next cycle
                "row": Out(range(max(config.page_rows, 2))),
                "page": In(width).array(2),
                "message": Out(range(max(config.slot_rows, 2))),
                "request": In(width),
                "passed": Out(1),
                # the fetched frames: `hdl.omap.frames.Frames`
                "operation": Out(range(config.window)),
                "word": Out(range(max(config.slots * config.frame_beats, 2))).array(2),
                "index": Out(range(max(config.slots, 2))).array(2),
                "data": In(8 * config.bus_bytes).array(2),
                "found": In(found_layout(config)).array(2),
                # items that may not be in HBM yet: data in the next cycle
                "kept_address": Out(kept).array(2),
                "kept": In(width).array(2),
                "o": Out(row),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.addressed = Signal(self.stage)
        self.addressing = Signal()
        self.part = Signal(range(max(self.config.slot_rows, 2)))
        self.place = Signal(range(self.schedule.merge + 1))
        # of the cycle in which the data come
        self.first, self.fresh, self.read_part = Signal(), Signal(), Signal.like(self.part)
        reading, last = Signal(), Signal()
        final = self._address(m)
        m.d.sync += [
            reading.eq(self.addressing),
            self.first.eq(self.addressing & (self.row == 0)),
            last.eq(final),
            self.read_part.eq(self.part),
            self.fresh.eq(self.place == 0),
            self.o.valid.eq(reading),
            self.o.ends.eq(last),
        ]
        m.d.comb += self.idle.eq(~self.addressing & ~reading & ~self.o.valid)
        self._hand_on(m, reading)
        for k in range(2):
            self._side(m, k, reading)
        return m

    def _address(self, m):
        """Count the operation's rows; returns whether this is the last one."""
        parts, last = self.config.slot_rows, self.schedule.merge - 1
        at, number = Signal(range(last + 1)), Signal(range(self.schedule.items))
        final, rest = Signal(), Signal(range(self.schedule.apart))  # until the next one may begin
        m.d.comb += [
            final.eq(self.addressing & (at == last)),
            self.begun.eq(self.i.valid & self.go & (rest == 0)),
            self.i.ready.eq(self.begun),
            *fields(self, row=at, message=self.part, passed=final, operation=self.addressed.number),
        ]
        m.d.sync += rest.eq(Mux(self.begun, self.schedule.apart - 1, rest - (rest != 0)))
        with m.If(self.begun):
            m.d.sync += [
                self.addressing.eq(1),
                at.eq(0),
                self.part.eq(0),
                self.place.eq(0),
                *fields(self.addressed, op=self.i.payload, ticket=self.ticket, number=number),
                number.eq(number + 1),
            ]
        with m.Else():
            m.d.sync += [
                self.addressing.eq(self.addressing & ~final),
                at.eq(at + 1),
                self.part.eq(Mux(self.part == parts - 1, 0, self.part + 1)),
                self.place.eq(self.place + (self.part == parts - 1)),
            ]
        return final

    def _hand_on(self, m, reading):
        """What both sides of a row share, and the request's row."""
        config, text, size = self.config, self.request, len(self.request)
        end = 8 * (config.key_bytes + config.value_bytes) % size
        if end:  # what lies behind the value is no part of the item
            text = Cat(text[:end], Mux(self.read_part == config.slot_rows - 1, 0, text[end:]))
        m.d.sync += fields(
            self.o, begins=self.first, part=self.read_part, stores=self.fresh & reading
        )
        m.d.sync += fields(self.o, new=text)
        with m.If(self.first):
            m.d.sync += self.o.stage.eq(self.addressed)

    def _side(self, m, k, reading):
        """A side's address, and in the next cycle its data into registers; an item that may not be
        in HBM yet is read where it is kept."""
        config, place, part = self.config, self.place, self.part
        size, side, o = len(self.request), self.addressed.op.sides[k], self.o.sides[k]
        lanes = config.bus_bytes // BLOCK // config.merge_blocks
        lane = Signal(range(max(lanes, 2)), name=f"at_lane{k}")
        page = side.host & (place < side.items)
        slot_ends = part == config.slot_rows - 1
        filled = slot_ends | (lane == lanes - 1)
        with m.If(self.begun):
            m.d.sync += [self.word[k].eq(0), self.index[k].eq(0), lane.eq(0)]
        with m.Elif(~page):
            m.d.sync += lane.eq(Mux(filled, 0, lane + 1))
            with m.If(filled):
                m.d.sync += self.word[k].eq(self.word[k] + 1)
            with m.If(slot_ends):
                m.d.sync += self.index[k].eq(self.index[k] + 1)
        paged, valid = Signal(name=f"paged{k}"), Signal(name=f"valid{k}")
        is_own, late = Signal(name=f"is_own{k}"), Signal(name=f"late{k}")
        read_lane = Signal.like(lane, name=f"lane{k}")
        plain, recent = Signal(size, name=f"plain{k}"), self.found[k]
        taken = side.items + side.waiting
        rows = Array(self.data[k].word_select(n, size) for n in range(lanes))
        m.d.sync += [
            paged.eq(page),
            valid.eq(Mux(side.host, place < taken, side.own & (place == 0))),
            is_own.eq(side.own),
            read_lane.eq(lane),
            plain.eq(Mux(paged, self.page[k], rows[read_lane])),
            late.eq(recent.late & ~paged),
            o.there.eq(valid & reading),
            o.own.eq(is_own),
        ]
        m.d.comb += [
            self.kept_address[k].eq(Cat(self.read_part, recent.item)),
            o.item.eq(Mux(late, self.kept[k], plain)),
        ]
