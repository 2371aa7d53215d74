"""The table of sessions in hardware: a dict's answers, and no (key, number) twice, under resets."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from amaranth.hdl import ResetInserter, Signal

from penstock.hdl.omap.sessions import SessionTable
from testbench.pysim import simulate


@dataclass
class _Entry:
    live: int = 0
    role: int = 0
    receive: int = 0
    send: int = 0
    received: int = 0
    sent: int = 0


@pytest.mark.parametrize("seed", range(2))
def test_the_table_is_a_dict_and_no_number_is_given_twice(seed):
    """Anything in any cycle, resets too."""
    draw, table, reset = random.Random(seed), SessionTable(slots=64), Signal()
    few = [0, 1, 63]
    known = {slot: _Entry() for slot in few}
    given, counted = set(), {"puts": 0, "uses": 0, "seals": 0, "resets": 0}

    async def bench(ctx):
        busy = False
        for _ in range(1500):
            looks, uses, seals, puts = (draw.choice(few) for _ in range(4))
            put, used, seal = (draw.random() < chance for chance in (0.2, 0.3, 0.3))
            entry = _Entry(1, draw.randrange(3), draw.getrandbits(256), draw.getrandbits(256))
            for name, value in (
                ("put", put), ("used", used), ("seal", seal), ("put_role", entry.role),
                ("put_slot", puts), ("look_slot", looks), ("used_slot", uses), ("seal_slot", seals),
                ("put_receive", entry.receive), ("put_send", entry.send),
            ):  # fmt: skip
                ctx.set(getattr(table, name), value)
            ctx.set(reset, draw.random() < 0.1)
            taken = ctx.get(table.put_taken)
            assert taken == (put and not busy)
            counted["resets"] += ctx.get(reset)
            if taken:
                known[puts] = entry
                counted["puts"] += 1
            looked, sealed = known[looks], known[seals]
            meant = [looked.live, looked.role, looked.receive, looked.received]
            answer = (sealed.send, sealed.sent)
            if used:
                known[uses].received += 1
            if seal:
                sealed.sent += 1
            busy = used or seal
            await ctx.tick()
            found = [ctx.get(getattr(table, n)) for n in ("live", "role", "receive", "received")]
            assert found == meant
            if seal:
                assert (ctx.get(table.send), ctx.get(table.sent)) == answer
                assert answer not in given or not sealed.live
                given.add(answer)
            counted["uses"] += used
            counted["seals"] += seal

    simulate(ResetInserter(reset)(table), bench)
    assert min(counted.values()) > 100
