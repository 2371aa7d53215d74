"""SHA-256, HMAC and HKDF, a round a cycle. Specification: `models.crypto.sha256`."""

from functools import reduce
from operator import xor

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.crypto.sha256 import CONSTANTS, INITIAL

#: a word of a text, its first byte highest: so many of its bytes count (4 but in the last one, where
#: 0 to 4 may), whether it is the last one
Word = data.StructLayout({"data": 32, "bytes": 3, "last": 1})


def _words(value):
    """The words of 32 bytes, the first byte lowest, as SHA-256 takes them."""
    return [Cat(value.word_select(4 * k + 3 - j, 8) for j in range(4)) for k in range(8)]


def _bytes(words):
    """Eight words as 32 bytes, the first byte lowest."""
    return Cat(Cat(word.word_select(3 - j, 8) for j in range(4)) for word in words)


class Text(enum.Enum, shape=2):
    """What a block's next word is: text, the bit behind it, zeros and the length."""

    DATA = 0
    MARK = 1
    ZEROS = 2


class Sha256(wiring.Component):
    """Hashes one text at a time: `models.crypto.sha256.hash_cycles` from `start` to `ended`, and one
    more for each cycle in which the next word is not there.
    """

    def __init__(self):
        super().__init__(
            {
                "start": In(1),  # begins a text; what was begun is forgotten
                # the text, of less than 2^29 bytes; the first word is taken one cycle behind the
                # start
                "i": In(stream.Signature(Word)),
                "ended": Out(1),  # high in the first cycle in which the hash is there
                "digest": Out(256),  # from then on until the next start; the first byte lowest
            }
        )

    def elaborate(self, platform):
        m = Module()
        state = [Signal(32, name=f"state{k}", reset_less=True) for k in range(8)]
        chain = [Signal(32, name=f"chain{k}", reset_less=True) for k in range(8)]
        window = [Signal(32, name=f"word{k}", reset_less=True) for k in range(16)]
        running, step, closing = Signal(), Signal(range(len(CONSTANTS) + 1)), Signal()
        adds, moves, word = Signal(), Signal(), Signal(32)
        m.d.comb += [adds.eq(step == len(CONSTANTS)), self.digest.eq(_bytes(chain))]
        first = step < 16
        message = self._padded(m, running & first, step, closing)
        small = lambda x, a, b, c: x.rotate_right(a) ^ x.rotate_right(b) ^ (x >> c)
        mix = window[0] + small(window[1], 7, 18, 3) + window[9] + small(window[14], 17, 19, 10)
        m.d.comb += [
            word.eq(Mux(first, message, mix)),
            moves.eq(running & ~adds & (~first | self.i.valid | ~self.i.ready)),
        ]
        (a, b, c, d), (e, f, g, h) = state[:4], state[4:]
        large = lambda x, *by: reduce(xor, (x.rotate_right(turn) for turn in by))
        new, more = Signal(32), Signal(32)
        constant = Array(Const(value, 32) for value in CONSTANTS)[step[:6]]
        m.d.comb += [
            new.eq(h + large(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + constant + word),
            more.eq(large(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c))),
        ]
        with m.If(moves):
            after = (new + more, a, b, c, d + new, e, f, g)
            m.d.sync += [old.eq(value) for old, value in zip(state, after, strict=True)]
            m.d.sync += [
                old.eq(value) for old, value in zip(window, (*window[1:], word), strict=True)
            ]
            m.d.sync += step.eq(step + 1)
        m.d.sync += self.ended.eq(running & adds & closing)
        with m.If(running & adds):
            sums = [old + value for old, value in zip(chain, state, strict=True)]
            m.d.sync += [old.eq(value) for old, value in zip(chain, sums, strict=True)]
            m.d.sync += [old.eq(value) for old, value in zip(state, sums, strict=True)]
            m.d.sync += [step.eq(0), running.eq(~closing)]
        with m.If(self.start):
            m.d.sync += [old.eq(value) for old, value in zip(chain, INITIAL, strict=True)]
            m.d.sync += [old.eq(value) for old, value in zip(state, INITIAL, strict=True)]
            m.d.sync += [running.eq(1), step.eq(0), self.ended.eq(0)]
        return m

    def _padded(self, m, takes, step, closing):
        """The next word of a block, with what fills up the last one; `closing`: it is the last one."""
        text, size, word = Signal(Text), Signal(29), Signal(32)
        payload = self.i.p
        kept = Array(Const(0xFFFFFFFF << 8 * (4 - k) & 0xFFFFFFFF, 32) for k in range(5))
        mark = Array(Const(0x80000000 >> 8 * k if k < 4 else 0, 32) for k in range(5))
        with m.Switch(text):
            with m.Case(Text.DATA):
                m.d.comb += self.i.ready.eq(takes)
                m.d.comb += word.eq(
                    (payload.data & kept[payload.bytes]) | Mux(payload.last, mark[payload.bytes], 0)
                )
                with m.If(takes & self.i.valid):
                    m.d.sync += size.eq(size + payload.bytes)
                    with m.If(payload.last):
                        m.d.sync += text.eq(Mux(payload.bytes == 4, Text.MARK, Text.ZEROS))
            with m.Case(Text.MARK):
                m.d.comb += word.eq(1 << 31)
                with m.If(takes):
                    m.d.sync += text.eq(Text.ZEROS)
            with m.Case(Text.ZEROS), m.If(closing):
                m.d.comb += word.eq(size << 3)
        with m.If(takes & (step == 14)):
            m.d.sync += closing.eq(text == Text.ZEROS)
        with m.If(self.start):
            m.d.sync += [text.eq(Text.DATA), size.eq(0), closing.eq(0)]
        return word


class Part(enum.Enum, shape=3):
    """What is hashed: nothing, the inner key and the text, the outer key and the inner hash."""

    IDLE = 0
    INNER = 1
    TEXT = 2
    WAIT = 3
    OUTER = 4
    HASH = 5
    END = 6


class Hmac(wiring.Component):
    """HMAC-SHA-256 of one text at a time under a key of 32 bytes: `models.crypto.sha256.hmac_cycles`
    from `start` to `ended`, and one more for each cycle in which the next word is not there.
    """

    def __init__(self):
        super().__init__(
            {
                "start": In(1),  # begin, while nothing runs
                "key": In(256),  # stays until `ended`
                "plain": In(1),  # no code, but the text's hash, as `Sha256` makes it
                "i": In(stream.Signature(Word)),  # the text
                # as of `Sha256`
                "ended": Out(1),
                "digest": Out(256),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.hash = core = Sha256()
        part, at, plain = Signal(Part), Signal(4), Signal()
        inner = Signal(256, reset_less=True)
        payload = core.i.p
        m.d.comb += [
            core.start.eq(self.start | ((part == Part.WAIT) & core.ended)),
            self.digest.eq(core.digest),
            self.ended.eq((part == Part.END) & core.ended),
            payload.bytes.eq(4),
        ]
        moved = core.i.valid & core.i.ready
        with m.If(moved):
            m.d.sync += at.eq(at + 1)
        key, hashed = Array(_words(self.key)), Array(_words(inner))
        with m.Switch(part):
            for one, pad, then in (
                (Part.INNER, 0x36363636, Part.TEXT),
                (Part.OUTER, 0x5C5C5C5C, Part.HASH),
            ):
                with m.Case(one):
                    m.d.comb += core.i.valid.eq(1)
                    m.d.comb += payload.data.eq(Mux(at[3], 0, key[at[:3]]) ^ pad)
                    with m.If(moved & (at == 15)):
                        m.d.sync += part.eq(then)
            with m.Case(Part.TEXT):
                m.d.comb += [core.i.valid.eq(self.i.valid), self.i.ready.eq(core.i.ready)]
                m.d.comb += payload.eq(self.i.p)
                with m.If(moved & self.i.p.last):
                    m.d.sync += part.eq(Mux(plain, Part.END, Part.WAIT))
            with m.Case(Part.WAIT), m.If(core.ended):
                m.d.sync += [inner.eq(core.digest), part.eq(Part.OUTER), at.eq(0)]
            with m.Case(Part.HASH):
                m.d.comb += [core.i.valid.eq(1), payload.data.eq(hashed[at[:3]])]
                m.d.comb += payload.last.eq(at == 7)
                with m.If(moved & (at == 7)):
                    m.d.sync += part.eq(Part.END)
            with m.Case(Part.END), m.If(core.ended):
                m.d.sync += part.eq(Part.IDLE)
        with m.If(self.start):
            m.d.sync += [part.eq(Mux(self.plain, Part.TEXT, Part.INNER)), at.eq(0)]
            m.d.sync += plain.eq(self.plain)
        return m


class Hkdf(wiring.Component):
    """HKDF of 32 bytes or none: `models.crypto.sha256.hkdf_cycles` from `start` to `ended`.

    * `info_bytes`: bytes of `info`, the same for all, a multiple of 4.
    """

    def __init__(self, info_bytes=0):
        if info_bytes % 4:
            raise ValueError(f"info_bytes must be a multiple of 4, not {info_bytes}")
        self.info_words = info_bytes // 4
        super().__init__(
            {
                "start": In(1),  # begin, while nothing runs; all inputs stay until `ended`
                "salt": In(256),
                "material": In(256),
                "bare": In(1),  # there is no material
                "info": In(8 * info_bytes),
                "count": In(2),  # blocks, 1 to 3
                "ended": Out(1),  # high in the first cycle in which all blocks are there
                # until the next start; those above `count` are of no meaning
                "blocks": Out(256).array(3),
                # the hash of a text, on the same core, while nothing else runs: start, text, end
                # and result as of `Sha256`
                "hash": In(1),
                "i": In(stream.Signature(Word)),
                "hashed": Out(1),
                "digest": Out(256),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.hmac = core = Hmac()
        words, running, number = self.info_words, Signal(), Signal(2)
        key = Signal(256, reset_less=True)
        blocks = [Signal(256, name=f"block{k}", reset_less=True) for k in range(3)]
        at = Signal(range(9 + words))
        info = [
            Cat(self.info.word_select(4 * k + 3 - j, 8) for j in range(4)) for k in range(words)
        ]
        before = Mux(number == 0, self.material, Mux(number == 2, blocks[0], blocks[1]))
        text = Array([*_words(before), *info, Cat(Const(0, 24), number, Const(0, 6))])
        payload = core.i.p
        extracts, bare = number == 0, (number == 0) & self.bare
        m.d.comb += [
            *(port.eq(block) for port, block in zip(self.blocks, blocks, strict=True)),
            core.key.eq(Mux(extracts, self.salt, key)),
            core.plain.eq(self.hash),
            self.digest.eq(core.digest),
            self.hashed.eq(~running & core.ended),
        ]
        with m.If(running):
            m.d.comb += [
                core.i.valid.eq(1),
                payload.data.eq(text[at]),
                payload.last.eq(Mux(extracts, bare | (at == 7), at == 8 + words)),
                payload.bytes.eq(Mux(bare, 0, Mux(extracts, 4, Mux(at == 8 + words, 1, 4)))),
            ]
        with m.Else():
            m.d.comb += [
                core.i.valid.eq(self.i.valid),
                payload.eq(self.i.p),
                self.i.ready.eq(core.i.ready),
            ]
        ends = Signal()
        m.d.comb += ends.eq(running & core.ended & (number == self.count))
        with m.If(core.i.ready):
            m.d.sync += at.eq(at + 1)
        m.d.comb += core.start.eq(self.start | self.hash | (running & core.ended & ~ends))
        with m.If(core.start):
            # the first block has none before it
            m.d.sync += at.eq(Mux(~self.start & extracts, 8, 0))
        m.d.sync += self.ended.eq(ends)
        with m.If(running & core.ended):
            m.d.sync += number.eq(number + 1)
            with m.Switch(number):
                with m.Case(0):
                    m.d.sync += key.eq(core.digest)
                for k, block in enumerate(blocks):
                    with m.Case(k + 1):
                        m.d.sync += block.eq(core.digest)
        with m.If(ends):
            m.d.sync += running.eq(0)
        with m.If(self.start):
            m.d.sync += [running.eq(1), number.eq(0)]
        return m
