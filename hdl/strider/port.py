"""`AccessPort`: from the bus words of pages to the beats of tuples."""

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.strider.fixed import FIXED_COUNT_BITS
from ...models.strider.isa import WORDS
from ..modules import Submodules
from .layouts import program_layout
from .strider import Strider
from .tuples import units_members


def beat_layout(config):
    """A beat of a tuple (`last`: its final one), or the token `end` after an epoch's last page."""
    return data.StructLayout(
        {
            "lanes": data.ArrayLayout(unsigned(config.format.width), config.lanes),
            "last": 1,
            "end": 1,
        }
    )


def error_layout():
    """An error report: what, in which block, at which line pointer (0: the page as a whole), at which value of it (0: none)."""
    return data.StructLayout({"valid": 1, "code": 8, "block": 32, "line": 13, "item": 32})


class AccessPort(wiring.Component):
    """Striders, and the collector that puts their tuples in row order.

    Strider w takes pages w, w + striders, …. The collector reads one beat a cycle; it spends one
    cycle without a beat on a tuple that a NaN leaves out and on the end of each page, except that
    the last page of an epoch gives the token `end` in it. Cycle model: `models.strider.cycles.PortModel`.

    * `config` (`PortConfig`)
    * `library`: takes the module that all Striders are; without it they are submodules.
    """

    def __init__(self, config, library=None):
        self.config = config
        self.parts = Submodules() if library is None else library
        super().__init__(
            {
                # the pages' bus words in order. Give no page without a credit: `config.credits`
                # after reset, one more for each pulse on `free`.
                "i": In(stream.Signature(unsigned(8 * config.bus_bytes), always_ready=True)),
                "free": Out(1),  # a page buffer is free again, in page order
                # the program image, from its first word after a reset or `flush` on; before the
                # first page
                "i_program": In(stream.Signature(unsigned(32), always_ready=True)),
                "pages": In(32),  # of an epoch, at least 1
                # page k of an epoch is block first_block + k * block_stride in error reports
                "first_block": In(32),
                "block_stride": In(32),
                "flush": In(1),  # forgets all but the program; the cycle after it is as after reset
                # `o.valid` does not depend on `o.ready`
                "o": Out(stream.Signature(beat_layout(config))),
                # the first error in row order, after all tuples before it; stays until `flush`.
                # Nothing is output after it.
                "error": Out(error_layout()),
                "tuples": Out(32),  # delivered
                # left out: invisible, or NULL or NaN under the policy "skip"; pages ahead of `o`
                # included
                "skipped": Out(32),
                "stalls": Out(32),  # cycles in which `o` waited for `o.ready`
                **units_members(config),  # they outlive a flush
            }
        )

    def elaborate(self, platform):
        m, core = Module(), Module()
        m.submodules.core = ResetInserter(self.flush)(core)
        program, length = self._program(m)
        count = self.config.striders
        target = Signal(range(count))  # whose page is being written
        turn = Signal(range(count))  # whose tuples are collected
        beat, read, take = Signal(range(self.config.beats)), Signal(), Signal()
        striders = [
            self.parts.instance(
                core,
                f"strider{w}",
                "penstock_strider",
                lambda: Strider(self.config, self.parts),
                reset=self.flush,
                word=self.i.payload,
                write=self.i.valid & (target == w),
                program=program,
                program_length=length,
                beat=beat,
                read=read & (turn == w),
                take=take & (turn == w),
                **{name: getattr(self, name) for name in units_members(self.config)},
            )
            for w in range(count)
        ]
        word = Signal(range(self.config.words_per_page))
        with core.If(self.i.valid):
            core.d.sync += word.eq(word + 1)
            with core.If(word == self.config.words_per_page - 1):
                core.d.sync += target.eq(self._after(target))
        self._free(core, striders)
        voided = self._collect(core, striders, turn, beat, read, take)
        skipped = sum((strider["skipped"] for strider in striders), voided)
        core.d.sync += [
            self.skipped.eq(self.skipped + skipped),
            self.tuples.eq(self.tuples + (self.o.valid & self.o.ready & self.o.p.last)),
            self.stalls.eq(self.stalls + (self.o.valid & ~self.o.ready)),
        ]
        return m

    def _program(self, m):
        """Return the write port of the Striders' programs, and how many instructions there are. They outlive a flush: only the place of the next word
        returns to the start."""
        program = Signal(program_layout(self.config))
        length = Signal(range(self.config.program_depth + 1))
        index = Signal(range(self.config.program_depth))
        part = Signal(range(WORDS))
        held = Signal(32 * (WORDS - 1))
        m.d.comb += [
            program.index.eq(index),
            program.data.eq(Cat(held, self.i_program.payload)),
            program.write.eq(self.i_program.valid & (part == WORDS - 1)),
        ]
        with m.If(self.i_program.valid):
            m.d.sync += [
                held.eq(Cat(held[32:], self.i_program.payload)),
                part.eq(Mux(part == WORDS - 1, 0, part + 1)),
            ]
        with m.If(program.write):
            m.d.sync += [index.eq(index + 1), length.eq(index + 1)]
        with m.If(self.flush):
            m.d.sync += [index.eq(0), part.eq(0)]
        return program, length

    def _free(self, m, striders):
        """Page buffers are freed in page order."""
        bits = range(self.config.buffers + 1)
        freed = [Signal(bits, name=f"freed{w}") for w in range(len(striders))]
        oldest = Signal(range(len(striders)))
        m.d.comb += self.free.eq(Array(freed)[oldest] != 0)
        with m.If(self.free):
            m.d.sync += oldest.eq(self._after(oldest))
        for w, strider in enumerate(striders):
            m.d.sync += freed[w].eq(freed[w] + strider["freed"] - (self.free & (oldest == w)))

    def _after(self, index):
        return Mux(index == self.config.striders - 1, 0, index + 1)

    def _last_page(self, m, page, ending):
        """Whether this page, which is `ending`, is the epoch's last."""
        last_page = Signal()
        if self.config.striders == 1:  # it is known before the page ends whether it is the last
            following = Mux(last_page, self.pages == 1, page + 2 == self.pages)
            m.d.sync += last_page.eq(Mux(ending, following, page + 1 == self.pages))
        else:
            m.d.comb += last_page.eq(page + 1 == self.pages)
        return last_page

    def _collect(self, m, striders, turn, beat, read, take):
        """Take up the tuples of the Strider whose turn it is, beat by beat; return whether one was void."""
        config = self.config
        shown = Signal(range(config.striders))
        valid = Signal()
        bits = 32 if config.fixed is None else FIXED_COUNT_BITS
        page, block, ending = Signal(bits), Signal(bits), Signal()
        last_page = self._last_page(m, page, ending)
        chosen = {
            name: Signal.like(striders[0][name], name=f"chosen_{name}")
            for name in ("ready", "end", "error", "void", "code", "line", "item")
        }
        voided = Signal()
        for name, signal in chosen.items():
            m.d.comb += signal.eq(Array(strider[name] for strider in striders)[turn])
        final, go, failed = Signal(), Signal(), Signal()
        ended = Signal()
        m.d.comb += [
            final.eq(beat == config.beats - 1),
            go.eq((~valid | self.o.ready) & ~failed),
            # what tells the error stands still from then on
            self.error.valid.eq(failed),
            self.error.code.eq(chosen["code"]),
            self.error.line.eq(chosen["line"]),
            self.error.item.eq(chosen["item"]),
            self.error.block.eq(self.first_block + block),
            self.o.valid.eq(valid),
            self.o.p.end.eq(ended),
            self.o.p.lanes.eq(Array(strider["lanes"] for strider in striders)[shown]),
        ]
        with m.If(go):
            m.d.sync += [valid.eq(0), ended.eq(0), shown.eq(turn)]
            with m.If(chosen["ready"]):
                with m.If(chosen["error"]):
                    m.d.sync += failed.eq(1)
                with m.Elif(chosen["end"]):
                    m.d.comb += [take.eq(1), ending.eq(1)]
                    m.d.sync += [
                        turn.eq(self._after(turn)),
                        page.eq(page + 1),
                        block.eq(block + self.block_stride),
                    ]
                    with m.If(last_page):
                        m.d.sync += [
                            valid.eq(1),
                            ended.eq(1),
                            page.eq(0),
                            block.eq(0),
                            self.o.p.last.eq(0),
                        ]
                with m.Elif(chosen["void"]):
                    m.d.comb += [take.eq(1), voided.eq(1)]
                with m.Else():
                    m.d.comb += [read.eq(1), take.eq(final)]
                    m.d.sync += [
                        valid.eq(1),
                        self.o.p.last.eq(final),
                        beat.eq(Mux(final, 0, beat + 1)),
                    ]
        return voided
