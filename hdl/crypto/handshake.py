"""Handshakes NK and NKpsk2 of Noise, the responder's side. Specification: `models.crypto.noise`."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.crypto.gcm import TAG
from ...models.crypto.handshake import PROGRAM, Act, Operand
from ...models.crypto.noise import FIRST_BYTES, Refusal, protocol_name, second_bytes
from ...models.crypto.sha256 import SIZE
from ...models.crypto.x25519 import BASE
from .gcm import Gcm
from .sha256 import Hkdf
from .x25519 import X25519

_WORD = data.StructLayout({"act": Act, "operand": Operand, "shared": 1, "anew": 1, "ends": 1})
_BITS = 8 * SIZE
#: the chaining keys that both patterns begin with: names of at most 32 bytes
_CHAINS = [
    int.from_bytes(protocol_name(shared).ljust(SIZE, b"\0"), "little") for shared in (False, True)
]


class Handshake(wiring.Component):
    """Answers one first message at a time, in `models.crypto.handshake.cycles`, whatever it is.

    * `payload`: bytes of the answer's payload.
    """

    def __init__(self, *, payload):
        self.payload_bytes = payload
        super().__init__(
            {
                "start": In(1),  # begin, while `idle`; all inputs stay until `ended`
                "shared": In(1),  # pattern NKpsk2
                # the static scalar is another one than at the start before, or that one did not end
                "anew": In(1),
                # SHA-256 of the pattern's name and the prologue (`noise.Symmetric.hash`)
                "hash": In(_BITS),
                "scalar": In(_BITS),  # the static one
                "ephemeral": In(_BITS),  # one that is fresh: none may come twice
                "secret": In(_BITS),  # the pre-shared key
                "first": In(8 * FIRST_BYTES),  # the message: first bytes lowest
                "payload": In(8 * payload),
                "idle": Out(1),
                "ended": Out(1),  # high in the first cycle in which the answer is there
                "refusal": Out(2),  # a `noise.Refusal`, or 0; what follows is then zero
                # the answer, until the next start, as what follows
                "message": Out(8 * second_bytes(payload)),
                # the session's keys of both directions
                "receive": Out(_BITS),
                "send": Out(_BITS),
                "handshake": Out(_BITS),  # its hash
            }
        )

    def elaborate(self, platform):
        m = Module()
        steps = [{**s._asdict(), "ends": k == len(PROGRAM) - 1} for k, s in enumerate(PROGRAM)]
        m.submodules.program = program = memory.Memory(shape=_WORD, depth=len(steps), init=steps)
        port = program.read_port(domain="comb")
        step, at = port.data, Signal(range(len(steps)))
        running, begun = Signal(), Signal()
        begins, done = Signal(), Signal()
        held = {
            name: Signal(_BITS, name=name, reset_less=True)
            for name in ("hashed", "chain", "key", "own", "product", "third", "static")
        }
        sealed = Signal(8 * (self.payload_bytes + TAG), reset_less=True)
        refused = Signal(2)
        skipped = (step.shared & ~self.shared) | (step.anew & ~self.anew)
        m.d.comb += [
            port.addr.eq(at),
            self.idle.eq(~running),
            begins.eq(running & ~begun & ~skipped),
        ]
        ends = {
            **self._keys(m, step, begins, held, sealed),
            Act.MULTIPLY: self._multiply(m, step, begins, held, refused),
            **self._payloads(m, step, begins, held, sealed, refused),
        }
        with m.Switch(step.act):
            for act, end in ends.items():
                with m.Case(act):
                    m.d.comb += done.eq(begun & end)
        m.d.sync += [self.ended.eq(0), begun.eq(running & ~done & ~skipped)]
        with m.If(running & (done | skipped)):
            m.d.sync += at.eq(at + 1)
            with m.If(step.ends):
                m.d.sync += [running.eq(0), at.eq(0), self.ended.eq(1)]
        with m.If(self.start & ~running):
            m.d.sync += [running.eq(1), refused.eq(0), held["hashed"].eq(self.hash)]
            m.d.sync += held["chain"].eq(Mux(self.shared, *(_CHAINS[k] for k in (1, 0))))
        fits = refused == 0
        m.d.comb += [
            self.refusal.eq(refused),
            self.message.eq(Mux(fits, Cat(held["own"], sealed), 0)),
            self.receive.eq(Mux(fits, held["chain"], 0)),
            self.send.eq(Mux(fits, held["key"], 0)),
            self.handshake.eq(Mux(fits, held["hashed"], 0)),
        ]
        return m

    def _keys(self, m, step, begins, held, sealed):
        """HASH, KEYS and SHARED: the ends of each."""
        m.submodules.keys = core = Hkdf()
        other, tag = self.first[:_BITS], self.first[_BITS:]
        operand = Signal(max(len(sealed), _BITS))
        texts = {
            Operand.OTHER: other,
            Operand.OWN: held["own"],
            Operand.STATIC: held["static"],
            Operand.PRODUCT: held["product"],
            Operand.SECRET: self.secret,
            Operand.THIRD: held["third"],
            Operand.TAG: tag,
            Operand.SEALED: sealed,
        }
        size = Signal(range(SIZE + len(operand) // 8 + 1))
        with m.Switch(step.operand):
            for name, text in texts.items():
                with m.Case(name):
                    m.d.comb += [operand.eq(text), size.eq(SIZE + len(text) // 8)]
        hashes = step.act == Act.HASH
        text = Cat(held["hashed"], operand, Const(0, -len(operand) % 32))
        word, count = Signal(range(len(text) // 32 + 1)), Signal.like(size)
        words = Array(
            Cat(text.word_select(4 * k + 3 - j, 8) for j in range(4))
            for k in range(len(text) // 32)
        )
        last = count <= 4
        m.d.comb += [
            core.start.eq(begins & ((step.act == Act.KEYS) | (step.act == Act.SHARED))),
            core.salt.eq(held["chain"]),
            core.material.eq(operand),
            core.bare.eq(step.operand == Operand.NOTHING),
            core.count.eq(Mux(step.act == Act.SHARED, 3, 2)),
            core.hash.eq(begins & hashes),
            core.i.valid.eq(1),
            core.i.p.data.eq(words[word]),
            core.i.p.bytes.eq(Mux(last, count, 4)),
            core.i.p.last.eq(last),
        ]
        with m.If(begins):
            m.d.sync += [word.eq(0), count.eq(size)]
        with m.Elif(core.i.ready):
            m.d.sync += [word.eq(word + 1), count.eq(count - 4)]
        with m.If(core.hashed):
            m.d.sync += held["hashed"].eq(core.digest)
        with m.If(core.ended):
            shared = step.act == Act.SHARED
            m.d.sync += [
                held["chain"].eq(core.blocks[0]),
                held["key"].eq(Mux(shared, core.blocks[2], core.blocks[1])),
                held["third"].eq(core.blocks[1]),
            ]
        return {Act.HASH: core.hashed, Act.KEYS: core.ended, Act.SHARED: core.ended}

    def _multiply(self, m, step, begins, held, refused):
        """The products, and the end of each."""
        m.submodules.product = core = X25519()
        is_own, static = step.operand == Operand.OWN, step.operand == Operand.STATIC
        of_static = static | (step.operand == Operand.OTHER)
        base = int.from_bytes(BASE, "little")
        m.d.comb += [
            core.start.eq(begins & (step.act == Act.MULTIPLY)),
            core.scalar.eq(Mux(of_static, self.scalar, self.ephemeral)),
            core.point.eq(Mux(is_own | static, base, self.first[:_BITS])),
        ]
        with m.If(core.ended):
            with m.If(is_own):
                m.d.sync += held["own"].eq(core.result)
            with m.Elif(static):
                m.d.sync += held["static"].eq(core.result)
            with m.Else():
                m.d.sync += held["product"].eq(core.result)
            # a point of small order makes both products zero: behind the tag's refusal it is said again
            with m.If(core.refused):
                m.d.sync += refused.eq(Refusal.POINT)
        return core.ended

    def _payloads(self, m, step, begins, held, sealed, refused):
        """OPEN and SEAL: the ends of each."""
        m.submodules.cipher = core = Gcm()
        opens, size = step.act == Act.OPEN, self.payload_bytes
        padded = Cat(held["hashed"], self.payload, Const(0, -len(self.payload) % 128))
        blocks = Array(padded.word_select(k, 128) for k in range(len(padded) // 128))
        at, data_blocks = Signal(range(len(blocks) + 1)), _BITS // 128
        m.d.comb += [
            core.start.eq(begins & (opens | (step.act == Act.SEAL))),
            core.opening.eq(opens),
            core.key.eq(held["key"]),
            core.data_blocks.eq(data_blocks),
            core.size.eq(Mux(opens, 0, size)),
            core.valid.eq(1),
            core.block.eq(blocks[at]),
            core.tag_taken.eq(1),
        ]
        with m.If(core.start):
            m.d.sync += at.eq(0)
        with m.Elif(core.taken):
            m.d.sync += at.eq(at + 1)
        for k in range(-(-size // 16)):
            bits = min(8 * size - 128 * k, 128)
            with m.If(core.taken & (at == data_blocks + k)):
                m.d.sync += sealed[128 * k : 128 * k + bits].eq(core.result)
        with m.If(core.tag_valid):
            with m.If(opens):
                with m.If(core.tag != self.first[_BITS:]):
                    m.d.sync += refused.eq(Refusal.TAG)
            with m.Else():
                m.d.sync += sealed[8 * size :].eq(core.tag)
        return {Act.OPEN: core.tag_valid, Act.SEAL: core.tag_valid}
