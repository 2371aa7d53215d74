"""A core of AES-128-GCM. Specification: `models.omap.aes`; members and use are those of `ascon.Sponge`."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import enum, memory, wiring

from ...models.omap.aes import SHIFTED, box
from ...models.omap.ciphers import CIPHERS
from .core import core_members

__all__ = ["GaloisCounter"]

#: bits of a product's operand that are multiplied a cycle, at one round a cycle
_DIGIT = 16


def _double(byte):
    """A byte times x in GF(2^8)."""
    return Cat(0, byte[:7]) ^ Mux(byte[7], 0x1B, 0)


def _bytes(value):
    return [value[8 * k : 8 * k + 8] for k in range(16)]


class Rounds(Elaboratable):
    """Rounds `number` + 1 to `number` + `rounds` of AES-128 (FIPS 197, 5.1), combinationally, with
    their round keys: `state` and `key` to `after` and `after_key`. Round 10 has no MixColumns."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.state, self.key, self.number = Signal(128), Signal(128), Signal(4)
        self.constant = Signal(8, init=1)  # of the first of these rounds
        self.after, self.after_key, self.after_constant = Signal(128), Signal(128), Signal(8)

    def elaborate(self, platform):
        m = Module()
        state, key, constant = self.state, self.key, self.constant
        for step in range(self.rounds):
            m.submodules[f"box{step}"] = table = memory.Memory(shape=8, depth=256, init=box())

            def substituted(byte, table=table):
                port = table.read_port(domain="comb")
                m.d.comb += port.addr.eq(byte)
                return port.data

            words = [key.word_select(k, 32) for k in range(4)]
            turned = Cat(substituted(words[3][8 * ((k + 1) % 4) :][:8]) for k in range(4))
            new_key = Signal(128, name=f"key{step}")
            word = turned ^ constant
            for k in range(4):
                word = word ^ words[k]
                m.d.comb += new_key.word_select(k, 32).eq(word)
            boxed = [substituted(byte) for byte in _bytes(state)]
            shifted = Signal(128, name=f"shifted{step}")
            mixed = Signal(128, name=f"mixed{step}")
            new_state = Signal(128, name=f"state{step}")
            m.d.comb += shifted.eq(Cat(boxed[source] for source in SHIFTED))
            columns = _bytes(shifted)
            for at in range(0, 16, 4):
                column = columns[at : at + 4]
                for row, one in enumerate(column):
                    new = reduce(xor, column, one) ^ _double(one ^ column[(row + 1) % 4])
                    m.d.comb += mixed[8 * (at + row) :][:8].eq(new)
            last = self.number + step == 9
            m.d.comb += new_state.eq(Mux(last, shifted, mixed) ^ new_key)
            state, key, constant = new_state, new_key, _double(constant)
        m.d.comb += [
            self.after.eq(state),
            self.after_key.eq(key),
            self.after_constant.eq(constant),
        ]
        return m


def _polynomial(block):
    """A block as a polynomial, bit k the coefficient of x^k (SP 800-38D, 6.3); and back."""
    return Cat(block[8 * (k // 8) + 7 - k % 8] for k in range(128))


def _reduced(wide, more):
    """A polynomial of 128 + `more` coefficients modulo x^128 + x^7 + x^2 + x + 1."""
    high = Cat(wide[128 : 128 + more], Const(0, 128 - more))
    return wide[:128] ^ high ^ (high << 1)[:128] ^ (high << 2)[:128] ^ (high << 7)[:128]


class Phase(enum.Enum, shape=2):
    """What is encrypted: nothing, the hash key, pads, the tag's mask."""

    IDLE = 0
    HASH = 1
    PADS = 2
    MASK = 3


class GaloisCounter(wiring.Component):
    """Seals or opens one message of `blocks` blocks of 16 bytes, without associated data.

    One block is encrypted after another: the hash key, a pad for each block, the tag's mask. A
    product of GHASH is made beside it. Timing: `models.omap.ciphers.CIPHERS["aes128-gcm"].pace`.
    Members: `core.core_members`.
    """

    def __init__(self, *, blocks, rounds, opening):
        if rounds not in CIPHERS["aes128-gcm"].rounds:
            raise ValueError(f"rounds must be 1 or 2, not {rounds!r}")
        self.blocks, self.rounds, self.opening = blocks, rounds, opening
        super().__init__(core_members())

    def elaborate(self, platform):
        m = Module()
        m.submodules.rounds = rounds = Rounds(self.rounds)
        phase, number, left = Signal(Phase), Signal(4), Signal(range(self.blocks + 1))
        state, key = Signal(128, reset_less=True), Signal(128, reset_less=True)
        counter = Signal(range(self.blocks + 2))
        load, counted, next_counter = Signal(), Signal(128), Signal.like(counter)
        ready = Signal()  # the block that was loaded is encrypted
        short = Cat(self.nonce[:56], self.nonce[64:102], self.nonce[126:])
        padded = Signal(32)  # the block's number, its first byte highest
        m.d.comb += [
            padded.eq(next_counter),
            counted.eq(Cat(short, padded[24:], padded[16:24], padded[8:16], padded[:8])),
            rounds.state.eq(state),
            rounds.key.eq(key),
            rounds.number.eq(number),
            ready.eq(number == 10),
        ]
        with m.If(load):
            first = Signal(128)
            m.d.comb += first.eq(Mux(self.start, 0, counted))
            m.d.sync += [state.eq(first ^ self.key), key.eq(self.key), number.eq(0)]
            m.d.sync += [rounds.constant.eq(1), counter.eq(next_counter)]
        with m.Elif(~ready):
            m.d.sync += [
                state.eq(rounds.after),
                key.eq(rounds.after_key),
                rounds.constant.eq(rounds.after_constant),
                number.eq(number + self.rounds),
            ]
        subkey = Signal(128, reset_less=True)
        m.d.comb += [
            self.idle.eq(phase == Phase.IDLE),
            self.result.eq(self.block ^ state),
            self.taken.eq((phase == Phase.PADS) & ready & self.valid),
            next_counter.eq(counter + 1),
        ]
        with m.Switch(phase):
            with m.Case(Phase.IDLE), m.If(self.start):
                m.d.comb += [load.eq(1), next_counter.eq(1)]
                m.d.sync += [phase.eq(Phase.HASH), left.eq(self.blocks - 1)]
            with m.Case(Phase.HASH), m.If(ready):
                m.d.comb += load.eq(1)
                m.d.sync += [subkey.eq(_polynomial(state)), phase.eq(Phase.PADS)]
            with m.Case(Phase.PADS):
                m.d.comb += load.eq(self.taken)
                with m.If(self.taken):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 0):
                        m.d.comb += next_counter.eq(1)
                        m.d.sync += phase.eq(Phase.MASK)
            with m.Case(Phase.MASK), m.If(self.tag_valid & self.tag_taken):
                m.d.sync += phase.eq(Phase.IDLE)
        self._hash(m, phase, subkey, state, ready)
        return m

    def _hash(self, m, phase, subkey, mask, masked):
        """The product of each block, then of the length, and the tag."""
        digit = _DIGIT * self.rounds
        steps = 128 // digit
        operand, total = Signal(128, reset_less=True), Signal(128, reset_less=True)
        step = Signal(range(steps + 1))  # how many digits are left
        closing = Signal()  # the length was taken
        cipher = self.block if self.opening else self.result
        length = (128 * self.blocks).to_bytes(16, "big")
        wide = Signal(128 + digit)
        digits = operand[128 - digit :]
        m.d.comb += wide.eq(total << digit)
        sums = [Mux(digits[k], subkey << k, 0) for k in range(digit)]
        while len(sums) > 1:
            sums = [a ^ b for a, b in zip(sums[::2], sums[1::2], strict=True)]
        product = Signal(128 + digit)
        m.d.comb += product.eq(wide ^ sums[0])
        added, taken = Signal(128), Signal()
        closes = (phase == Phase.MASK) & (step == 0) & ~closing
        m.d.comb += [
            taken.eq(self.taken | closes),
            added.eq(Mux(self.taken, cipher, Const(int.from_bytes(length, "little"), 128))),
            self.tag.eq(_polynomial(total) ^ mask),
            self.tag_valid.eq((phase == Phase.MASK) & closing & (step == 0) & masked),
        ]
        with m.If(taken):
            m.d.sync += [
                operand.eq(total ^ _polynomial(added)),
                total.eq(0),
                step.eq(steps),
                closing.eq(closes),
            ]
        with m.Elif(step != 0):
            m.d.sync += [
                total.eq(_reduced(product, digit)),
                operand.eq(operand << digit),
                step.eq(step - 1),
            ]
        with m.If(self.start):
            m.d.sync += [total.eq(0), closing.eq(0)]
