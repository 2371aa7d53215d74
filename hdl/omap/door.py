"""Where sessions begin: keys, one handshake at a time, and the table of sessions. Specification:
`models.omap.sessions`, `models.omap.vault`."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.crypto.noise import FIRST_BYTES, Symmetric, second_bytes
from ...models.omap.sessions import ROLES, WELCOME_BYTES, Denied, prologue
from ...models.omap.vault import GENERATION_BITS, Role
from ..crypto.handshake import Handshake
from ..stream.passing import fields, joined
from .sessions import SessionTable, table_members
from .vault import KeySchedule

#: ports of the table that requests use, and those that answers use
REQUEST_PORTS = ("look_slot", "receive", "judge_slot", "live", "role", "received", "used")
ANSWER_PORTS = ("seal_slot", "send")
TABLE_PORTS = REQUEST_PORTS + ANSWER_PORTS

#: ports of the keys that files of state use
FILE_PORTS = (
    *("incarnation", "draw_file", "file", "file_key", "file_free", "drawn", "ordinal"),
    *("snapshot", "confirmed"),
)


def door_members(slots):
    ports = table_members(slots)
    return {
        # of the vault: `valid` stays once it is high, and the others are constant from then on
        "valid": In(1),
        "root": In(256),
        "entropy": In(256),
        "generation": In(GENERATION_BITS),
        # keys are derived; those of the map
        "there": Out(1),
        **{name: Out(128) for name in ("page", "pairs", "hash")},
        # begin, while `idle`
        "start": In(1),
        # slot and role that a frame names
        "slot": In(16),
        "asked": In(8),
        "first": In(8 * FIRST_BYTES),  # the first message
        "serial": In(64),  # of the map's last operation
        "idle": Out(1),
        "ready": Out(1),  # an answer is there
        # while `ready`, and no request is under way: the session takes its slot
        "commit": In(1),
        # until the next start: the slot, a `Denied`, a `noise.Refusal` or 0, and the answer
        "told_slot": Out(16),
        "refusal": Out(8),
        "message": Out(8 * second_bytes(WELCOME_BYTES)),
        # of the table (`sessions.SessionTable`)
        **{name: ports[name] for name in TABLE_PORTS},
        # of the keys (`vault.KeySchedule`): a file's key is asked for while `file_free`
        "incarnation": Out(128),
        "draw_file": In(1),
        "file": In(448),
        "file_key": Out(256),
        "file_free": Out(1),
        "drawn": Out(1),
        # what sessions are told: the first byte of the incarnation's name, if it has one, the
        # serial of the last snapshot, and whether a keeper has confirmed the map
        "ordinal": In(data.StructLayout({"there": 1, "number": 8})),
        "snapshot": In(64),
        "confirmed": In(1),
    }


class Door(wiring.Component):
    """Derives all keys at power-up, answers first messages, and holds the sessions that follow. Nothing in
    it may be reset but by the power: a run may end while a handshake is under way.

    A handshake takes `models.omap.sessions.opening_cycles`, whatever the message is; operations go on
    meanwhile.

    * `digest`: 32 bytes that name the map's configuration.
    * `slots`: of the table.
    """

    def __init__(self, *, digest, slots):
        self.digest, self.slots = digest, slots
        self.table = SessionTable(slots=slots)
        super().__init__(door_members(slots))

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = self.table
        m.submodules.handshake = core = Handshake(payload=WELCOME_BYTES)
        scalar = Signal()  # an ephemeral one is asked for
        keys = self._derive(m, scalar)
        self._lend(m)
        slot, asked, refusal = Signal(16), Signal(8), Signal(8)
        welcome, first = Signal(8 * WELCOME_BYTES), Signal.like(self.first)
        m.d.comb += core.first.eq(first)
        self._shake(m, core, keys, asked, welcome)
        name = Cat(
            Mux(self.ordinal.there, self.ordinal.number, keys.incarnation[:8]), keys.incarnation[8:]
        )
        m.d.comb += [
            table.put_slot.eq(slot),
            table.put_role.eq(asked),
            table.put_receive.eq(core.receive),
            table.put_send.eq(core.send),
            self.told_slot.eq(slot),
            self.refusal.eq(refusal),
            self.message.eq(Mux(refusal == 0, core.message, 0)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                with m.If(self.start):
                    m.d.sync += [slot.eq(self.slot), asked.eq(self.asked)]
                    m.d.sync += [first.eq(self.first), refusal.eq(0)]
                    m.d.sync += welcome.eq(Cat(name, self.serial, self.snapshot, self.confirmed))
                    m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(slot >= self.slots):
                    m.d.sync += refusal.eq(Denied.SLOT)
                    m.next = "READY"
                with m.Elif(asked >= len(ROLES)):
                    m.d.sync += refusal.eq(Denied.ROLE)
                    m.next = "READY"
                with m.Elif(keys.there & keys.idle):
                    m.d.comb += scalar.eq(1)
                    m.next = "DRAW"
            with m.State("DRAW"), m.If(keys.ended):
                m.d.comb += core.start.eq(1)
                m.next = "SHAKE"
            with m.State("SHAKE"), m.If(core.ended):
                m.d.sync += refusal.eq(core.refusal)
                m.next = "READY"
            with m.State("READY"):
                m.d.comb += [
                    self.ready.eq(1),
                    table.put.eq(self.commit & (refusal == 0)),
                ]
                with m.If(self.commit & (table.put_taken | (refusal != 0))):
                    m.next = "IDLE"
        return m

    def _derive(self, m, scalar):
        """The keys, which make scalars and, while none is asked for, keys of files."""
        m.submodules.keys = keys = KeySchedule()
        digest = Const(int.from_bytes(self.digest, "little"), 256)
        m.d.comb += [
            *fields(keys, start=self.valid, root=self.root, entropy=self.entropy, digest=digest),
            *fields(keys, generation=self.generation, file=self.file, of_file=~scalar),
            *fields(keys, draw=scalar | (self.draw_file & self.file_free)),
            *fields(self, there=keys.there, file_free=keys.there & keys.idle & ~scalar),
            *fields(self, file_key=keys.state, drawn=keys.ended),
            *(
                getattr(self, name).eq(getattr(keys, name))
                for name in ("page", "pairs", "hash", "incarnation")
            ),
        ]
        return keys

    def _lend(self, m):
        """The table's ports of requests and answers."""
        m.d.comb += joined(self.table, self, TABLE_PORTS)

    def _shake(self, m, core, keys, asked, welcome):
        """What a handshake is given."""
        shared = [role is not Role.READER for role in ROLES]
        hashes = [
            Symmetric(with_key, prologue(self.digest, role)).hash
            for role, with_key in zip(ROLES, shared, strict=True)
        ]
        secrets = {Role.WRITER: keys.writer, Role.KEEPER: keys.keeper}
        known = Signal()
        with m.If(core.ended):
            m.d.sync += known.eq(1)
        of_role = lambda values: Array(values)[asked[:2]]
        m.d.comb += [
            core.shared.eq(of_role([*(Const(value, 1) for value in shared), Const(0, 1)])),
            core.anew.eq(~known),
            core.hash.eq(
                of_role([*(Const(int.from_bytes(h, "little"), 256) for h in hashes), Const(0, 256)])
            ),
            core.scalar.eq(keys.static),
            core.ephemeral.eq(keys.ephemeral),
            core.secret.eq(
                of_role([*(secrets.get(role, Const(0, 256)) for role in ROLES), Const(0, 256)])
            ),
            core.payload.eq(welcome),
        ]
