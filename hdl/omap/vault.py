"""The keys of a map, from root and entropy alone. Specification: `models.omap.vault`."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.vault import DRAWN, GENERATION_BITS, LABEL_BYTES, PROGRAM, Derived, Source
from ..crypto.sha256 import Hmac


def _word(value):
    """Four bytes, the first one lowest, as SHA-256 takes them."""
    return Cat(value.word_select(3 - k, 8) for k in range(4))


def _bit(at, of):
    """What holds of a step or does not, of the one that is `at`."""
    return Array(Const(int(of(step)), 1) for step in PROGRAM)[at]


class KeySchedule(wiring.Component):
    """Derives all keys at power-up, in `models.omap.vault.boot_cycles` from `start`; then a fresh
    scalar, or the key of a file of state, for each `draw`, in `draw_cycles`.

    What was derived, and the counter of scalars, stay over resets: they end with the power alone. A
    reset stops what is under way, of which nothing was seen; it is asked for again.
    """

    def __init__(self):
        self.wide = ("static", "writer", "keeper", "ephemeral", "state")
        super().__init__(
            {
                # high from power-up on, as `root`, `entropy`, `digest`, `generation` stay; does
                # nothing once the keys are there
                "start": In(1),
                "draw": In(1),  # asks for a scalar, while `idle` and `there`
                "of_file": In(1),  # or for the key of a file
                # what its head says: 64 bits with the generation, serial, incarnation, the one
                # before it, and 64 bits with the kind
                "file": In(448),
                # first bytes lowest
                **{name: In(256) for name in ("root", "entropy", "digest")},
                "generation": In(GENERATION_BITS),
                "idle": Out(1),
                "there": Out(1),  # the keys are derived
                # high in the first cycle in which what was asked for is there
                "ended": Out(1),
                **{name: Out(128) for name in ("page", "pairs", "hash", "incarnation")},
                **{name: Out(256) for name in self.wide},
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.hmac = core = Hmac()
        derived = {name: Signal(256, name=name.name.lower(), reset_less=True) for name in Derived}
        has_keys, counter = Signal(reset_less=True), Signal(64, reset_less=True)
        running, begins = Signal(), Signal()
        at, word = Signal(range(len(PROGRAM))), Signal(5)
        bit = lambda of: _bit(at, of)
        ends = Signal()
        self._hashed(m, core, derived, counter, at, word)
        m.d.comb += [
            core.start.eq(begins),
            ends.eq(bit(lambda step: step in PROGRAM[-3:])),
            self.idle.eq(~running),
            self.there.eq(has_keys),
        ]
        m.d.sync += [begins.eq(0), self.ended.eq(running & core.ended & ends)]
        with m.If(begins):
            m.d.sync += word.eq(0)
        with m.Elif(core.i.ready):
            m.d.sync += word.eq(word + 1)
        with m.If(running & core.ended):
            m.d.sync += begins.eq(~ends)
            with m.Switch(at):
                for k, step in enumerate(PROGRAM):
                    with m.Case(k):
                        m.d.sync += derived[step.to].eq(core.digest)
            with m.If(ends):
                m.d.sync += [running.eq(0), has_keys.eq(1)]
                m.d.sync += counter.eq(counter + bit(lambda step: step.to is Derived.EPHEMERAL))
            with m.Else():
                m.d.sync += at.eq(at + 1)
        with m.If(~running & Mux(has_keys, self.draw, self.start)):
            drawn = len(PROGRAM) - len(DRAWN) + self.of_file
            m.d.sync += [running.eq(1), begins.eq(1), at.eq(Mux(has_keys, drawn, 0))]
        for name in Derived:
            if hasattr(self, name.name.lower()):
                m.d.comb += getattr(self, name.name.lower()).eq(derived[name])
        return m

    def _hashed(self, m, core, derived, counter, at, word):
        """A step's key, and a word of its text."""
        of_root = _bit(at, lambda step: step.source is Source.ROOT)
        words = [
            {Source.ROOT: 7, Source.DIGEST: 10, Source.FILE: 16}.get(step.source, 4)
            for step in PROGRAM
        ]
        # the bytes of the number 1 behind an info
        last = word == Array(Const(count, 5) for count in words)[at]
        numbers = {
            Source.ROOT: self.root[64:],
            Source.DIGEST: self.digest,
            Source.COUNTER: counter,
            Source.ZERO: Const(0, 64),
            Source.GENERATION: self.generation,
            Source.FILE: self.file,
        }
        number, label, key = Signal(448), Signal(8 * LABEL_BYTES), Signal(256)
        keys: dict[Any, Any] = {**derived, "entropy": self.entropy, None: Const(0, 256)}
        with m.Switch(at):
            for k, step in enumerate(PROGRAM):
                text = step.label.encode().ljust(LABEL_BYTES, b"\0")
                with m.Case(k):
                    m.d.comb += [
                        number.eq(numbers[step.source]),
                        label.eq(int.from_bytes(text, "little")),
                        key.eq(keys[step.key]),
                    ]
                    if step.source is Source.ROOT:
                        m.d.comb += label.eq(self.root[:64])
        texts = Array(_word(Cat(label, number).word_select(k, 32)) for k in range(16))
        m.d.comb += [
            core.key.eq(key),
            core.i.valid.eq(1),
            core.i.p.last.eq(last),
            core.i.p.bytes.eq(Mux(last & ~of_root, 1, 4)),
            core.i.p.data.eq(Mux(last & ~of_root, 1 << 24, texts[word])),
        ]
