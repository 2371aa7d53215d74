"""The table of sessions: keys, roles, and numbers that no reset takes back. Specification:
`models.omap.sessions`."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

_COUNT = 64


def table_members(slots):
    return {
        "put_slot": In(range(slots)),
        # `receive` in the next cycle is the key of requests of this slot
        "look_slot": In(range(slots)),
        # `live`, `role` and `received` in the next cycle are of this slot
        "judge_slot": In(range(slots)),
        # `send` in the next cycle is the key of answers of this slot
        "seal_slot": In(range(slots)),
        # a session takes `put_slot` in the cycle in which `put_taken` is high: one in which no
        # request is used. Its numbers begin at 0.
        "put": In(1),
        # the request `received` is taken: from the next cycle on the number is another one. In a
        # cycle behind one with this slot as `judge_slot`.
        "used": In(1),
        "put_role": In(2),
        "put_receive": In(256),
        "put_send": In(256),
        "put_taken": Out(1),
        "receive": Out(256),
        "live": Out(1),  # the slot has a session
        "role": Out(2),
        "received": Out(_COUNT),  # the number of its next request
        "send": Out(256),
    }


class SessionTable(wiring.Component):
    """Sessions by slot, in block RAM. They and their numbers stay over resets; at power-up there are
    none.

    * `slots`: 64 to `models.omap.sessions.MOST_SLOTS`.
    """

    def __init__(self, *, slots=64):
        self.slots = slots
        super().__init__(table_members(slots))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.put_taken.eq(self.put & ~self.used)
        judged = Signal.like(self.judge_slot, reset_less=True)
        m.d.sync += judged.eq(self.judge_slot)
        known = self._column(m, "known", data.StructLayout({"live": 1, "role": 2}), self.judge_slot)
        number = self._column(m, "number", _COUNT, self.judge_slot)
        for name, slot in (("receive", self.look_slot), ("send", self.seal_slot)):
            write, read = self._column(m, name, 256, slot)
            m.d.comb += write.data.eq(getattr(self, f"put_{name}"))
            m.d.comb += getattr(self, name).eq(read.data)
        m.d.comb += [
            known[0].data.live.eq(1),
            known[0].data.role.eq(self.put_role),
            self.live.eq(known[1].data.live),
            self.role.eq(known[1].data.role),
            self.received.eq(number[1].data),
        ]
        with m.If(self.used):
            m.d.comb += [
                number[0].en.eq(1),
                number[0].addr.eq(judged),
                number[0].data.eq(number[1].data + 1),
            ]
        return m

    def _column(self, m, name, shape, slot):
        """A memory that a new session writes, with zeros where nothing else is said, and its read port
        at this slot."""
        m.submodules[name] = column = memory.Memory(shape=shape, depth=self.slots, init=[])
        write = column.write_port()
        read = column.read_port(transparent_for=(write,))
        m.d.comb += [
            write.addr.eq(self.put_slot),
            write.en.eq(self.put_taken),
            read.addr.eq(slot),
            read.en.eq(1),
        ]
        return write, read
