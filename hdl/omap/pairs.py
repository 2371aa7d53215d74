"""Pairs of bins, made ahead. Specification: `models.omap.pairs`."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.pairs import AHEAD
from ..crypto.ascon import initial_state, permuted
from ..stream.passing import fields
from ..stream.queue import Queue


def pairs_shape(bits):
    """The bins where an operation's item goes, and those that it shows on a miss."""
    return data.StructLayout(dict.fromkeys(("new0", "new1", "shown0", "shown1"), bits))


def _members(config):
    return {
        "start": In(1),  # begin, in the next cycle, with the operation `number`
        "number": In(64),
        "key": In(128),
        "o": Out(stream.Signature(pairs_shape(config.bin_bits))),
    }


class PairGenerators(wiring.Component):
    """Generators that make the pairs of operations in turn. Timing: `models.omap.stages.PairTimes`."""

    def __init__(self, config):
        self.config = config
        super().__init__(_members(config))

    def elaborate(self, platform):
        m = Module()
        count = self.config.cores.generators
        turn = Signal(range(max(count, 2)))
        cores = [_Generator(self.config) for _ in range(count)]
        for k, core in enumerate(cores):
            m.submodules[f"core{k}"] = core
            m.d.comb += [
                *fields(core, start=self.start, number=self.number + k, key=self.key),
                core.o.ready.eq(self.o.ready & (turn == k)),
            ]
        m.d.comb += [
            self.o.valid.eq(Array(core.o.valid for core in cores)[turn]),
            self.o.payload.eq(Array(core.o.payload.as_value() for core in cores)[turn]),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += turn.eq(Mux(turn == count - 1, 0, turn + 1))
        return m


class _Generator(wiring.Component):
    """Makes the pairs of every operation that is a multiple of `config.cores.generators` behind its first."""

    def __init__(self, config):
        self.config = config
        super().__init__(_members(config))

    def elaborate(self, platform):
        m = Module()
        config, rounds = self.config, self.config.cores.rounds
        bits = config.bin_bits
        m.submodules.queue = queue = Queue(pairs_shape(bits), AHEAD)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        words = [Signal(64, name=f"word{k}", reset_less=True) for k in range(5)]
        number, attempt = Signal(64), Signal(64)
        step, held = Signal(4), Signal()
        first = Signal(2 * bits)
        after = permuted(m, words, step, rounds, "after")

        def candidate(word):
            low, high = word[:bits], word[32 : 32 + bits]
            good = (low < config.bins) & (high < config.bins) & (low != high)
            return Cat(low, high), good

        (one, one_fits), (two, two_fits) = candidate(words[0]), candidate(words[1])
        enough = Signal()
        m.d.comb += [
            enough.eq(Mux(held, one_fits | two_fits, one_fits & two_fits)),
            queue.i.payload.eq(Mux(held, Cat(first, Mux(one_fits, one, two)), Cat(one, two))),
        ]
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [number.eq(self.number), attempt.eq(0), held.eq(0)]
                    m.next = "LOAD"
            with m.State("LOAD"):
                begun = initial_state(self.key, Cat(number, attempt))
                m.d.sync += [word.eq(new) for word, new in zip(words, begun, strict=True)]
                m.d.sync += step.eq(0)
                m.next = "ROUNDS"
            with m.State("ROUNDS"):
                m.d.sync += [word.eq(new) for word, new in zip(words, after, strict=True)]
                m.d.sync += step.eq(step + rounds)
                with m.If(step == 12 - rounds):
                    m.next = "EMIT"
            with m.State("EMIT"):
                m.d.comb += queue.i.valid.eq(enough)
                with m.If(enough):
                    with m.If(queue.i.ready):
                        m.d.sync += [
                            number.eq(number + config.cores.generators),
                            attempt.eq(0),
                            held.eq(0),
                        ]
                        m.next = "LOAD"
                with m.Else():
                    m.d.sync += attempt.eq(attempt + 1)
                    with m.If(one_fits | two_fits):
                        m.d.sync += [held.eq(1), first.eq(Mux(one_fits, one, two))]
                    m.next = "LOAD"
        return m
