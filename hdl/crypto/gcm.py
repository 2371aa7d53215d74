"""AES-256-GCM, a round a cycle. Specification: `models.crypto.gcm`."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import enum, memory, wiring
from amaranth.lib.wiring import In

from ...models.crypto.gcm import DIGIT, MOST_BYTES, MOST_DATA, ROUNDS, SHIFTED, box
from .aead import aead_members


def _double(byte):
    """A byte times x in GF(2^8)."""
    return Cat(0, byte[:7]) ^ Mux(byte[7], 0x1B, 0)


def _bytes(value):
    return [value[8 * k : 8 * k + 8] for k in range(16)]


class Round(Elaboratable):
    """Round `number` + 1 of AES-256 (FIPS 197, 5.1), combinationally, with its round key: `state` and
    `keys`, of this round and of the one before, to `after` and `after_keys`. The last round has no
    MixColumns."""

    def __init__(self):
        self.state, self.keys, self.number = Signal(128), Signal(256), Signal(range(ROUNDS + 1))
        self.constant = Signal(8, init=1)  # of the next key that takes one
        self.after, self.after_keys, self.after_constant = Signal(128), Signal(256), Signal(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.box = table = memory.Memory(shape=8, depth=256, init=box())

        def substituted(byte):
            port = table.read_port(domain="comb")
            m.d.comb += port.addr.eq(byte)
            return port.data

        last, odd = self.keys[224:], self.number[0]
        word = Signal(32)
        turned = Mux(odd, last, last.rotate_right(8))
        m.d.comb += word.eq(
            Cat(substituted(turned[8 * k :][:8]) for k in range(4)) ^ Mux(odd, 0, self.constant)
        )
        m.d.comb += self.after_keys[:128].eq(self.keys[128:])
        for k in range(4):
            word = word ^ self.keys.word_select(k, 32)
            m.d.comb += self.after_keys.word_select(4 + k, 32).eq(word)
        shifted, mixed = Signal(128), Signal(128)
        boxed = [substituted(byte) for byte in _bytes(self.state)]
        m.d.comb += shifted.eq(Cat(boxed[source] for source in SHIFTED))
        columns = _bytes(shifted)
        for at in range(0, 16, 4):
            column = columns[at : at + 4]
            for row, one in enumerate(column):
                new = reduce(xor, column, one) ^ _double(one ^ column[(row + 1) % 4])
                m.d.comb += mixed[8 * (at + row) :][:8].eq(new)
        final_block = self.number == ROUNDS - 1
        m.d.comb += [
            self.after.eq(Mux(final_block, shifted, mixed) ^ self.keys[128:]),
            self.after_constant.eq(Mux(odd, self.constant, _double(self.constant))),
        ]
        return m


def _polynomial(block):
    """A block as a polynomial, bit k the coefficient of x^k (SP 800-38D, 6.3); and back."""
    return Cat(block[8 * (k // 8) + 7 - k % 8] for k in range(128))


def _reduced(wide):
    """A polynomial of 128 + `DIGIT` coefficients modulo x^128 + x^7 + x^2 + x + 1."""
    high = Cat(wide[128:], Const(0, 128 - DIGIT))
    return wide[:128] ^ high ^ (high << 1)[:128] ^ (high << 2)[:128] ^ (high << 7)[:128]


class Phase(enum.Enum, shape=2):
    """What is encrypted: nothing, the hash key, pads, the tag's mask."""

    IDLE = 0
    HASH = 1
    PADS = 2
    MASK = 3


class Gcm(wiring.Component):
    """Seals or opens one message at a time: `models.crypto.gcm.cycles` from `start` to `tag_valid`
    where each block is there in time.

    One block is encrypted after another: the hash key, a pad for each block, the tag's mask. A
    product of GHASH is made beside it. No cycle depends on key, nonce or text.
    """

    def __init__(self):
        super().__init__(
            {
                # the blocks are of associated data, then of the text; `result` is zero behind the
                # text's last byte
                **aead_members(key=256, nonce=96),
                # as the key, these stay while a message is under way
                "opening": In(1),  # the message is opened, not sealed
                "data_blocks": In(range(MOST_DATA + 1)),  # blocks of associated data, all whole
                "size": In(range(MOST_BYTES + 1)),  # bytes of the text
            }
        )

    def elaborate(self, platform):
        m = Module()
        phase, left = Signal(Phase), Signal.like(self.size)
        load, next_counter, free = Signal(), Signal(16), Signal()
        state, ready = self._encrypt(m, load, next_counter)
        data_left = Signal.like(self.data_blocks)
        of_data, text_taken, final_block = Signal(), Signal(), Signal()
        m.d.comb += [
            self.idle.eq(phase == Phase.IDLE),
            of_data.eq(data_left != 0),
            text_taken.eq((phase == Phase.PADS) & ~of_data & ready & free & self.valid),
            final_block.eq(left <= 16),
        ]
        subkey = Signal(128, reset_less=True)
        with m.Switch(phase):
            with m.Case(Phase.IDLE), m.If(self.start):
                m.d.comb += [load.eq(1), next_counter.eq(1)]
                m.d.sync += [phase.eq(Phase.HASH), left.eq(self.size)]
                m.d.sync += data_left.eq(self.data_blocks)
            with m.Case(Phase.HASH), m.If(ready):
                m.d.comb += load.eq(1)
                m.d.sync += subkey.eq(_polynomial(state))
                m.d.sync += phase.eq(Mux(left == 0, Phase.MASK, Phase.PADS))
                with m.If(left == 0):
                    m.d.comb += next_counter.eq(1)
            with m.Case(Phase.PADS), m.If(text_taken):
                m.d.comb += load.eq(1)
                m.d.sync += left.eq(left - 16)
                with m.If(final_block):
                    m.d.comb += next_counter.eq(1)
                    m.d.sync += phase.eq(Phase.MASK)
            with m.Case(Phase.MASK), m.If(self.tag_valid & self.tag_taken):
                m.d.sync += phase.eq(Phase.IDLE)
        later = (phase == Phase.PADS) | (phase == Phase.MASK)
        data_taken = Signal()
        m.d.comb += data_taken.eq(later & of_data & free & self.valid)
        with m.If(data_taken):
            m.d.sync += data_left.eq(data_left - 1)
        kept = Cat(Mux(left > k, 0xFF, 0)[:8] for k in range(16))
        m.d.comb += [
            self.result.eq((self.block ^ state) & kept),
            self.taken.eq(text_taken | data_taken),
        ]
        cipher = Mux(of_data, self.block, Mux(self.opening, self.block & kept, self.result))
        closes = Signal()
        m.d.comb += closes.eq((phase == Phase.MASK) & ~of_data)
        self._hash(m, cipher, closes, subkey, free, (state, ready))
        return m

    def _encrypt(self, m, load, next_counter):
        """Return the encrypted block, and whether it is ready. Where a message begins, zeros are encrypted, for the hash key, else the nonce with
        `next_counter`, which is one more than the last unless the caller sets it."""
        m.submodules.round = rounds = Round()
        number, counter = Signal(range(ROUNDS + 1)), Signal(16)
        state, keys = Signal(128, reset_less=True), Signal(256, reset_less=True)
        first, ready = Signal(128), Signal()
        m.d.comb += [
            next_counter.eq(counter + 1),
            rounds.state.eq(state),
            rounds.keys.eq(keys),
            rounds.number.eq(number),
            ready.eq(number == ROUNDS),
            first.eq(Cat(self.nonce, Const(0, 16), next_counter[8:], next_counter[:8])),
        ]
        with m.If(load):
            m.d.sync += state.eq(Mux(self.idle, 0, first) ^ self.key[:128])
            m.d.sync += [keys.eq(self.key), number.eq(0), rounds.constant.eq(1)]
            m.d.sync += counter.eq(next_counter)
        with m.Elif(~ready):
            m.d.sync += [state.eq(rounds.after), keys.eq(rounds.after_keys)]
            m.d.sync += [rounds.constant.eq(rounds.after_constant), number.eq(number + 1)]
        return state, ready

    def _hash(self, m, cipher, closes, subkey, free, pad):
        """Add each block to the hash, then the lengths, and give the tag.

        `cipher`: the block; `closes`: no more blocks come; `subkey`: the hash key; `free`: no product is under way, which is set here; `pad`: the
        tag's mask, and whether it is ready.
        """
        mask, masked = pad
        operand, total = Signal(128, reset_less=True), Signal(128, reset_less=True)
        steps = 128 // DIGIT
        step, closing = Signal(range(steps + 1)), Signal()
        digits, product = operand[128 - DIGIT :], Signal(128 + DIGIT)
        rows = [Mux(digits[k], subkey << k, 0) for k in range(DIGIT)]
        m.d.comb += [free.eq(step == 0), product.eq(reduce(xor, rows, total << DIGIT))]
        counts = [self.data_blocks << 7, self.size << 3]  # bits, the first byte highest
        wide = [Signal(64, name=f"bits{k}") for k in range(2)]
        m.d.comb += [port.eq(value) for port, value in zip(wide, counts, strict=True)]
        lengths = Cat(Cat(one.word_select(7 - k, 8) for k in range(8)) for one in wide)
        ends = Signal()
        m.d.comb += [
            ends.eq(closes & free & ~closing),
            self.tag.eq(_polynomial(total) ^ mask),
            self.tag_valid.eq(closes & closing & free & masked),
        ]
        with m.If(self.taken | ends):
            m.d.sync += [
                operand.eq(total ^ _polynomial(Mux(self.taken, cipher, lengths))),
                total.eq(0),
                step.eq(steps),
                closing.eq(ends),
            ]
        with m.Elif(~free):
            m.d.sync += [
                total.eq(_reduced(product)),
                operand.eq(operand << DIGIT),
                step.eq(step - 1),
            ]
        with m.If(self.idle):
            m.d.sync += [total.eq(0), closing.eq(0)]
