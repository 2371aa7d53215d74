"""Before and after the training: the boot image's way in, the models' way out."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.shell import (
    address_bits,
    beats_bits,
    blocks,
    image_bytes,
    result_beats_bits,
    sizes,
)
from ..index import index
from ..memory.splitter import command_shape
from .beats import BeatLoader


class Boot(wiring.Component):
    """Reads the boot image, one 32-bit word of the program, one code of the parameters or one beat of a model a cycle.

    `start` in cycle t gives the read command in t + 1. `done` is high from the cycle after the last code on.
    """

    def __init__(self, plan: AnalyticsPlan):
        self.plan = plan
        self.loader = BeatLoader(plan) if blocks(plan) else None
        models = self.loader.models() if self.loader else {}
        super().__init__(
            {
                **models,  # as of `BeatLoader`, where models go beat by beat
                "start": In(1),
                "address": In(address_bits(plan)),
                # to and from a `BurstReader`
                "o_command": Out(
                    stream.Signature(command_shape(address_bits(plan), beats_bits(plan)))
                ),
                "i": In(
                    stream.Signature(data.StructLayout({"data": 8 * plan.bus_bytes, "last": 1}))
                ),
                "o_program": Out(stream.Signature(32)),  # always taken
                # one code of the parameters, in order
                "write": Out(1),
                "code": Out(plan.format.width),
                "done": Out(1),  # from the cycle after the last code on
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        words, codes, _ = sizes(plan)
        beats = image_bytes(plan)[0] // plan.bus_bytes
        m.d.comb += [self.o_command.p.address.eq(self.address), self.o_command.p.beats.eq(beats)]
        with m.FSM() as fsm:
            m.d.comb += self.done.eq(fsm.ongoing("DONE"))
            models = "MODELS" if self.loader else "DONE"
            rest = "PARAMETERS" if codes else models
            with m.State("IDLE"), m.If(self.start):
                m.next = "COMMAND" if beats else "DONE"
            with m.State("COMMAND"):
                m.d.comb += self.o_command.valid.eq(1)
                with m.If(self.o_command.ready):
                    m.next = "PROGRAM" if words else rest
            if words:
                with m.State("PROGRAM"):
                    m.d.comb += [
                        self.o_program.payload.eq(self._pieces(m, words, 4, rest)),
                        self.o_program.valid.eq(self.i.valid),
                    ]
            if codes:
                with m.State("PARAMETERS"):
                    m.d.comb += [
                        self.code.eq(self._pieces(m, codes, plan.format.container, models)),
                        self.write.eq(self.i.valid),
                    ]
            if self.loader:
                with m.State("MODELS"):
                    self._models(m, self.loader)
            with m.State("DONE"):
                pass
        return m

    def _models(self, m: Module, loader: BeatLoader) -> None:
        m.submodules.loader = loader
        m.d.comb += [
            loader.valid.eq(self.i.valid),
            loader.word.eq(self.i.p.data),
            self.i.ready.eq(loader.ready),
            *(getattr(self, f"model_{n}").eq(getattr(loader, n)) for n in ("at", "data", "write")),
        ]
        with m.If(loader.done):
            m.next = "DONE"

    def _pieces(self, m: Module, count: int, size: int, after: str) -> Signal:
        """Take `count` pieces of `size` bytes from bus words, one a cycle; return the piece."""
        per_word = self.plan.bus_bytes // size
        left = index(count, init=count - 1, name=f"left_{after.lower()}")
        place = index(per_word, name=f"place_{after.lower()}")
        # known before the piece: the last one, and whether it is its word's last
        last, through = (
            Signal(init=count == 1, name=f"last_{after.lower()}"),
            Signal(init=min(count, per_word) == 1, name=f"through_{after.lower()}"),
        )
        m.d.comb += self.i.ready.eq(through)
        with m.If(self.i.valid):
            following = Mux(through, 0, place + 1)
            m.d.sync += [
                left.eq(left - 1),
                place.eq(following),
                last.eq(left == 1),
                through.eq((following == per_word - 1) | (left == 1)),
            ]
            with m.If(last):
                m.next = after
        return self.i.p.data.word_select(place, 8 * size)


class ResultWriter(wiring.Component):
    """Writes the models, a code every two cycles and a cycle for each full bus word.

    `start` in cycle t: the first code is fetched in t + 1 and put into the word in t + 2.
    """

    def __init__(self, plan: AnalyticsPlan):
        self.plan = plan
        super().__init__(
            {
                "start": In(1),
                "address": In(address_bits(plan)),
                # to and from the core's parameter access
                "models": Out(1),
                "step": Out(1),
                "code": In(plan.format.width),
                # to a `BurstWriter`: command and bus words
                "o_command": Out(
                    stream.Signature(command_shape(address_bits(plan), result_beats_bits(plan)))
                ),
                "o": Out(stream.Signature(8 * plan.bus_bytes)),
                "idle": In(1),  # the writer is through with everything
                "done": Out(1),  # high for one cycle when all is written and answered
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        codes = sizes(plan)[2]
        container = plan.format.container
        per_word = plan.bus_bytes // container
        left, place = index(codes, init=codes - 1), index(per_word)
        full = Signal()  # the word holds the last code
        asked, sent = Signal(), Signal()
        word = Signal(8 * plan.bus_bytes)
        m.d.comb += [
            self.o_command.p.address.eq(self.address),
            self.o_command.p.beats.eq(-(-codes // per_word)),
            self.o_command.valid.eq(asked & ~sent),
            self.o.payload.eq(word),
        ]
        with m.If(self.o_command.valid & self.o_command.ready):
            m.d.sync += sent.eq(1)
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.comb += self.models.eq(1)
                m.d.sync += asked.eq(1)
                m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += self.step.eq(1)
                m.next = "COLLECT"
            with m.State("COLLECT"):
                m.d.sync += [
                    word.word_select(place, 8 * container).eq(self.code),
                    place.eq(Mux(place == per_word - 1, 0, place + 1)),
                ]
                m.next = "FETCH"
                with m.If((place == per_word - 1) | (left == 0)):
                    m.next = "SEND"
                m.d.sync += [left.eq(left - 1), full.eq(left == 0)]
            with m.State("SEND"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += word.eq(Const(0))
                    m.next = "FETCH"
                    with m.If(full):
                        m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += self.done.eq(sent & self.idle)
        return m
