"""The table of sessions: keys, roles, and numbers that no reset takes back. Specification:
`models.omap.sessions`."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SessionTable"]

_COUNT = 64


class _Numbers(wiring.Component):
    """A number a slot: read in the next cycle, counted up when it is used, 0 again with a new session.

    Members
    -------
    clear : In(1), clear_slot : In
        Only while `free`.
    look, use : In(1), slots of each : In
        `number` in the next cycle is that of the slot that is looked up. A use counts from the next
        cycle on.
    number : Out(64), free : Out(1)
    """

    def __init__(self, slots):
        self.slots = slots
        names = ("clear", "look", "use")
        super().__init__(
            {
                "clear": In(1),
                "use": In(1),
                **{f"{name}_slot": In(range(slots)) for name in names},
                "number": Out(_COUNT),
                "free": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.counts = counts = memory.Memory(shape=_COUNT, depth=self.slots, init=[])
        write = counts.write_port()
        look = counts.read_port(transparent_for=(write,))
        old = counts.read_port(transparent_for=(write,))
        # a use that is under way ends, whatever is reset
        used, slot = Signal(reset_less=True), Signal(range(self.slots), reset_less=True)
        m.d.sync += [used.eq(self.use), slot.eq(self.use_slot)]
        m.d.comb += [
            look.addr.eq(self.look_slot),
            look.en.eq(1),
            old.addr.eq(self.use_slot),
            old.en.eq(1),
            self.number.eq(look.data),
            self.free.eq(~used),
            write.en.eq(used | self.clear),
            write.addr.eq(self.clear_slot),
        ]
        with m.If(used):
            m.d.comb += [write.addr.eq(slot), write.data.eq(old.data + 1)]
        return m


class SessionTable(wiring.Component):
    """Sessions by slot, in block RAM. They and their numbers stay over resets; at power-up there are
    none.

    Parameters
    ----------
    slots
        64 to `models.omap.sessions.MOST_SLOTS`.

    Members
    -------
    put : In(1), put_slot, put_role, put_receive, put_send : In, put_taken : Out(1)
        A session takes the slot in the cycle in which `put_taken` is high: one in which no number of
        the cycle before is counted up. Its numbers begin at 0.
    look_slot : In
        What `live`, `role`, `receive` and `received` are of in the next cycle: whether the slot has a
        session, its role and its key of requests, and the number of the next one.
    used : In(1), used_slot : In
        That request was opened: from the next cycle on the number is another one.
    seal : In(1), seal_slot : In
        `send` and `sent` in the next cycle are the key and the number of this answer. No other answer
        gets the number. The key is zero where there never was a session.
    """

    def __init__(self, *, slots=64):
        self.slots = slots
        super().__init__(
            {
                **{f"{name}_slot": In(range(slots)) for name in ("put", "look", "used", "seal")},
                **{name: In(1) for name in ("put", "used", "seal")},
                "put_role": In(2),
                "put_receive": In(256),
                "put_send": In(256),
                "put_taken": Out(1),
                "live": Out(1),
                "role": Out(2),
                "receive": Out(256),
                "received": Out(_COUNT),
                "send": Out(256),
                "sent": Out(_COUNT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.received = received = _Numbers(self.slots)
        m.submodules.sent = sent = _Numbers(self.slots)
        asked = data.StructLayout({"live": 1, "role": 2, "key": 256})
        m.submodules.asked = requests = memory.Memory(shape=asked, depth=self.slots, init=[])
        m.submodules.told = answers = memory.Memory(shape=256, depth=self.slots, init=[])
        request, answer = requests.write_port(), answers.write_port()
        look = requests.read_port(transparent_for=(request,))
        seal = answers.read_port(transparent_for=(answer,))
        m.d.comb += [
            self.put_taken.eq(self.put & received.free & sent.free),
            request.addr.eq(self.put_slot),
            request.data.live.eq(1),
            request.data.role.eq(self.put_role),
            request.data.key.eq(self.put_receive),
            answer.addr.eq(self.put_slot),
            answer.data.eq(self.put_send),
            *(port.en.eq(self.put_taken) for port in (request, answer)),
            look.addr.eq(self.look_slot),
            seal.addr.eq(self.seal_slot),
            *(port.en.eq(1) for port in (look, seal)),
            self.live.eq(look.data.live),
            self.role.eq(look.data.role),
            self.receive.eq(look.data.key),
            self.received.eq(received.number),
            self.send.eq(seal.data),
            self.sent.eq(sent.number),
            received.look_slot.eq(self.look_slot),
            received.use.eq(self.used),
            received.use_slot.eq(self.used_slot),
            sent.look_slot.eq(self.seal_slot),
            sent.use.eq(self.seal),
            sent.use_slot.eq(self.seal_slot),
        ]
        for numbers in (received, sent):
            m.d.comb += [
                numbers.clear.eq(self.put_taken),
                numbers.clear_slot.eq(self.put_slot),
            ]
        return m
