"""The sponge of Ascon-AEAD128, with one or more rounds a cycle."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import enum, wiring

from ...models.crypto.ascon import IV, ROTATIONS, SEPARATION
from .aead import aead_members


def _substituted(words, number):
    """The words of a round before they are mixed; `number`: of the round among twelve."""
    (a, b, c), (d, e) = words[:3], words[3:]
    c = c ^ Cat(number[:4], ~number[:4])
    a, e, c = a ^ e, e ^ d, c ^ b
    p, q = a ^ (~b & c), b ^ (~c & d)
    r, s, t = c ^ (~d & e), d ^ (~e & a), e ^ (~a & b)
    return p ^ t, q ^ p, ~r, s ^ r, t


def permuted(m, words, number, rounds, name):
    """Return five words after `rounds` rounds from round `number` on."""
    for step in range(rounds):
        at = Signal(4, name=f"{name}_number{step}")
        m.d.comb += at.eq(number + step)
        after = []
        rotated = zip(_substituted(words, at), ROTATIONS, strict=True)
        for k, (word, (first, second)) in enumerate(rotated):
            plain = Signal(64, name=f"{name}_s{step}_{k}")
            mixed = Signal(64, name=f"{name}_l{step}_{k}")
            m.d.comb += plain.eq(word)
            m.d.comb += mixed.eq(plain ^ plain.rotate_right(first) ^ plain.rotate_right(second))
            after.append(mixed)
        words = after
    return words


def initial_state(key, nonce):
    """The words before the initialisation."""
    return [Const(IV, 64), key[:64], key[64:], nonce[:64], nonce[64:]]


class Phase(enum.Enum, shape=3):
    """Where a sponge is in its message."""

    IDLE = 0
    INITIAL = 1
    BLOCKS = 2
    FINAL = 3
    TAG = 4


class Sponge(wiring.Component):
    """Seals or opens one message of `blocks` blocks of 16 bytes, without associated data.

    Golden: `models.crypto.ascon`; cycles: its `Pace`, counted from the cycle of `start`.
    """

    def __init__(self, *, blocks, rounds, opening):
        self.blocks, self.rounds, self.opening = blocks, rounds, opening
        super().__init__(aead_members(key=128, nonce=128))

    def elaborate(self, platform):
        m = Module()
        state = [Signal(64, name=f"word{k}", reset_less=True) for k in range(5)]
        entering = [Signal(64, name=f"entering{k}") for k in range(5)]
        phase, number, first = Signal(Phase), Signal(4), Signal()
        left = Signal(range(self.blocks + 1))
        self.phase, self.number, self.progress = phase, number, (left, first)
        key_low, key_high = self.key[:64], self.key[64:]
        after = permuted(m, entering, number, self.rounds, "after")
        d, e = state[3:]
        m.d.comb += [word.eq(old) for word, old in zip(entering, state, strict=True)]
        keyed = [
            Mux(first, d ^ key_low, d),
            Mux(first, e ^ key_high ^ Const(SEPARATION, 64), e),
        ]
        stream = Cat(state[:2])
        m.d.comb += [
            self.result.eq(self.block ^ stream),
            self.tag.eq(Cat(d ^ key_low, e ^ key_high)),
            self.tag_valid.eq(phase == Phase.TAG),
            self.idle.eq(phase == Phase.IDLE),
            self.taken.eq((phase == Phase.BLOCKS) & (number == 4) & self.valid),
        ]
        absorbed = self.block if self.opening else self.result
        move, last = Signal(), Signal()
        m.d.comb += last.eq(number == 12 - self.rounds)
        with m.If(move):
            m.d.sync += [
                *(word.eq(new) for word, new in zip(state, after, strict=True)),
                number.eq(number + self.rounds),
            ]
        block_words = Cat(absorbed, state[2], *keyed)
        self._phases(m, state, entering, block_words, move, last)
        return m

    def _phases(self, m, state, entering, block_words, move, last):
        """What is permuted when, and what comes next."""
        (a, b, c), (d, e) = state[:3], state[3:]
        phase, number, (left, first) = self.phase, self.number, self.progress
        key_low, key_high = self.key[:64], self.key[64:]
        with m.Switch(phase):
            with m.Case(Phase.IDLE), m.If(self.start):
                words = initial_state(self.key, self.nonce)
                m.d.sync += [word.eq(new) for word, new in zip(state, words, strict=True)]
                m.d.sync += [phase.eq(Phase.INITIAL), number.eq(0)]
                m.d.sync += [left.eq(self.blocks), first.eq(1)]
            with m.Case(Phase.INITIAL):
                m.d.comb += move.eq(1)
                with m.If(last):
                    m.d.sync += [phase.eq(Phase.BLOCKS), number.eq(4)]
            with m.Case(Phase.BLOCKS):
                m.d.comb += move.eq((number != 4) | self.valid)
                with m.If(number == 4):
                    m.d.comb += Cat(*entering).eq(block_words)
                    with m.If(self.valid):
                        m.d.sync += [first.eq(0), left.eq(left - 1)]
                with m.If(last & move):
                    m.d.sync += number.eq(4)
                    with m.If(left == 0):
                        m.d.sync += [phase.eq(Phase.FINAL), number.eq(0)]
            with m.Case(Phase.FINAL):
                m.d.comb += move.eq(1)
                with m.If(number == 0):
                    m.d.comb += Cat(*entering).eq(Cat(a ^ 1, b, c ^ key_low, d ^ key_high, e))
                with m.If(last):
                    m.d.sync += phase.eq(Phase.TAG)
            with m.Case(Phase.TAG), m.If(self.tag_taken):
                m.d.sync += phase.eq(Phase.IDLE)
