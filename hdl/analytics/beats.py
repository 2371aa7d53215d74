"""Models on their way in and out beat by beat."""

from collections.abc import Callable, Mapping, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Member, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.shell import (
    Block,
    address_bits,
    blocks,
    image_bytes,
    result_beats_bits,
)
from ..index import index
from ..memory.splitter import command_shape
from .store import Store


def beat_members(plan: AnalyticsPlan) -> dict[str, Member]:
    """Return what a core has for whoever loads its models and reads them.

    A beat is written into the model whose bit of `model_write` is set. One that is read comes from
    each model a cycle later, and stays with `model_hold`.
    """
    placed = blocks(plan)
    if not placed:
        return {}
    at, width = In(len(_beat(placed))), _width(plan)
    # a beat that is written, of the model whose bit is set
    members = {"model_at": at, "model_data": In(width), "model_write": In(len(placed))}
    # a beat that is read: each model's comes a cycle later, and stays while it is held
    members |= {"model_read_at": at, "model_hold": In(1)}
    return members | {f"model_read{k}": Out(width) for k in range(len(placed))}


def beat_ports(
    core: wiring.Component, m: Module, plan: AnalyticsPlan, stores: Mapping[int, Store]
) -> None:
    """Let models be loaded and read from outside."""
    for k, block in enumerate(blocks(plan)):
        for part in block.parts:
            store, first = stores[part.buffer], part.first * plan.format.width
            data = core.model_data[first:][: store.lanes * store.width]
            store.write(core.model_write[k], core.model_at[: len(store.write_address)], data)
            if plan.learns:
                codes = store.read(core.model_read_at, core.model_hold)
                m.d.comb += getattr(core, f"model_read{k}")[first:][: len(codes)].eq(codes)


def _width(plan: AnalyticsPlan) -> int:
    """Return the bits of the longest beat's codes."""
    return max(b.size // plan.format.container for b in blocks(plan)) * plan.format.width


def _beat(placed: Sequence[Block]) -> Signal:
    return index(max(block.beats for block in placed), name="model_beat")


class _Walk:
    """Goes from beat to beat of one model after the other, by `step`."""

    def __init__(self, m: Module, placed: Sequence[Block], step: Value, name: str):
        self.placed = placed
        self.which, self.beat = index(len(placed), name=f"{name}_model"), _beat(placed)
        # the beat is its model's last; and there is no further model
        self.last, self.end = Signal(name=f"{name}_last"), Signal(name=f"{name}_end")
        per_model(m, self, self.last, lambda block: self.beat == block.beats - 1)
        m.d.comb += self.end.eq(self.last & (self.which == len(placed) - 1))
        with m.If(step):
            m.d.sync += [
                self.beat.eq(Mux(self.last, 0, self.beat + 1)),
                self.which.eq(Mux(self.end, 0, self.which + self.last)),
            ]


def per_model(m: Module, walk: "_Walk", value: Signal, of: Callable[[Block], Value | int]) -> None:
    """Let `value` be what the model at hand has."""
    with m.Switch(walk.which):
        for k, block in enumerate(walk.placed):
            with m.Case(k):
                m.d.comb += value.eq(of(block))


def _codes(piece: Value, plan: AnalyticsPlan) -> Value:
    """Return the codes of a beat from its containers."""
    size = 8 * plan.format.container
    return Cat(piece.word_select(n, size)[: plan.format.width] for n in range(len(piece) // size))


class BeatLoader(wiring.Component):
    """Takes the bus words of models: a beat a cycle, or a word a cycle where a beat takes several."""

    def __init__(self, plan: AnalyticsPlan):
        self.plan, self.placed = plan, blocks(plan)
        super().__init__(
            {
                # bus words of models
                "valid": In(1),
                "word": In(8 * plan.bus_bytes),
                "ready": Out(1),
                # `done`: the last beat is written in this cycle
                "done": Out(1),
                # `at`, `data`, `write`: a beat for the model whose bit is set
                **{name.removeprefix("model_"): flow for name, flow in self.models().items()},
            }
        )

    def models(self) -> dict[str, Member]:
        """Return what goes on to the core's models."""
        names = ("model_at", "model_data", "model_write")
        return {name: beat_members(self.plan)[name].flip() for name in names}

    def elaborate(self, platform):
        m = Module()
        bus = 8 * self.plan.bus_bytes
        goes, complete = self.valid, Signal()  # with its last word a beat is there
        walk = _Walk(m, self.placed, goes & complete, "in")
        part = index(max(max(block.together, block.words) for block in self.placed))
        most = max(block.words for block in self.placed)
        held = Signal(max(bus * (most - 1), 1))
        last = Signal()  # of its word, or of its beat
        per_model(m, walk, last, lambda b: part == max(b.together, b.words) - 1)
        per_model(m, walk, complete, lambda b: last if b.words > 1 else 1)
        split = Signal()
        per_model(m, walk, split, lambda b: b.words > 1)
        through = last | (walk.last & ~split)
        m.d.comb += [
            self.ready.eq(through | split),
            self.at.eq(walk.beat),
            self.write.eq(Mux(goes & complete, 1 << walk.which, 0)),
            self.done.eq(goes & complete & walk.end),
        ]
        per_model(m, walk, self.data, lambda b: _codes(self._piece(b, part, held), self.plan))
        with m.If(goes):
            m.d.sync += part.eq(Mux(through, 0, part + 1))
            if most > 1:
                m.d.sync += held.word_select(part, bus).eq(self.word)
        return m

    def _piece(self, block: Block, part: Signal, held: Signal) -> Value:
        """Return the beat that is there."""
        bus = 8 * self.plan.bus_bytes
        if block.words > 1:
            return Cat(held[: bus * (block.words - 1)], self.word)
        return self.word.word_select(part, 8 * block.size)


class BeatWriter(wiring.Component):
    """Writes the models, a beat a cycle, or a bus word a cycle where a beat takes several.

    `start` in cycle t: the first beat's address is there in t + 1, the beat goes into its word in t + 2.
    """

    def __init__(self, plan: AnalyticsPlan):
        self.plan, self.placed = plan, blocks(plan)
        width = _width(plan)
        super().__init__(
            {
                "start": In(1),
                "address": In(address_bits(plan)),
                # to and from the core's models: a beat is there a cycle later, and stays with
                # `hold`
                "at": Out(len(_beat(self.placed))),
                "hold": Out(1),
                **{f"read{k}": In(width) for k in range(len(self.placed))},
                # to a `BurstWriter`: command and bus words
                "o_command": Out(
                    stream.Signature(command_shape(address_bits(plan), result_beats_bits(plan)))
                ),
                "o": Out(stream.Signature(8 * plan.bus_bytes)),
                "idle": In(1),  # the writer is through with everything
                "done": Out(1),  # all is written and answered
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, bus = self.plan, 8 * self.plan.bus_bytes
        size = max(bus, *(8 * block.size for block in self.placed))
        asked, sent = Signal(), Signal()
        reading, valid = Signal(), Signal()  # there are beats to be read; one was
        collect, full, ends = Signal(), Signal(), Signal()
        step = reading & (~valid | collect)
        ahead = _Walk(m, self.placed, step, "read")
        walk = _Walk(m, self.placed, collect, "out")
        part = index(max(block.together for block in self.placed))
        going, words = (index(max(block.words for block in self.placed) + 1) for _ in range(2))
        block, most = Signal(size), Signal.like(words)
        last, fills = Signal(), Signal()
        per_model(m, walk, last, lambda b: part == b.together - 1)
        per_model(m, walk, most, lambda b: b.words - 1)
        free = ~full | (self.o.ready & (going == words))
        m.d.comb += [
            self.o_command.p.address.eq(self.address),
            self.o_command.p.beats.eq(image_bytes(plan)[1] // plan.bus_bytes),
            self.o_command.valid.eq(asked & ~sent),
            self.o.valid.eq(full),
            self.o.payload.eq(block.word_select(going, bus)),
            self.at.eq(ahead.beat),
            self.hold.eq(valid & ~collect),
            collect.eq(valid & free),
            fills.eq(last | walk.last),
            self.done.eq(ends & ~full & sent & self.idle),
        ]
        with m.If(self.o_command.valid & self.o_command.ready):
            m.d.sync += sent.eq(1)
        with m.If(self.start):
            m.d.sync += [asked.eq(1), reading.eq(1)]
        with m.If(step):
            m.d.sync += [valid.eq(1), reading.eq(~ahead.end)]
        with m.Elif(collect):
            m.d.sync += valid.eq(0)
        with m.If(full & self.o.ready):
            m.d.sync += [going.eq(Mux(going == words, 0, going + 1)), full.eq(going != words)]
        with m.If(collect):
            m.d.sync += [
                part.eq(Mux(fills, 0, part + 1)),
                words.eq(most),
                full.eq(fills),
                ends.eq(walk.end),
            ]
            with m.If(part == 0):
                m.d.sync += block.eq(0)
            self._put(m, walk, block, part)
        return m

    def _put(self, m: Module, walk: _Walk, block: Signal, part: Signal) -> None:
        """Put the beat that was read into its place."""
        container, width = 8 * self.plan.format.container, self.plan.format.width
        with m.Switch(walk.which):
            for k, of in enumerate(walk.placed):
                beat = getattr(self, f"read{k}")
                places = (beat.word_select(n, width) for n in range(8 * of.size // container))
                codes = Cat(Cat(code, Const(0, container - width)) for code in places)
                with m.Case(k):
                    m.d.sync += block.word_select(part, 8 * of.size).eq(codes)
