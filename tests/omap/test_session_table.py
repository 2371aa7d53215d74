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


@pytest.mark.parametrize("seed", range(2))
def test_the_table_is_a_dict_and_no_number_is_taken_twice(seed):
    """Anything in any cycle, resets too."""
    draw, table, reset = random.Random(seed), SessionTable(slots=64), Signal()
    few = [0, 1, 63]
    known = {slot: _Entry() for slot in few}
    taken, counted = set(), {"puts": 0, "late": 0, "uses": 0, "resets": 0}

    async def bench(ctx):
        judged = 0
        for _ in range(1500):
            looks, judges, seals, puts = (draw.choice(few) for _ in range(4))
            put, used = (draw.random() < chance for chance in (0.2, 0.3))
            entry = _Entry(1, draw.randrange(3), draw.getrandbits(256), draw.getrandbits(256))
            for name, value in (
                ("put", put), ("used", used), ("put_slot", puts), ("put_role", entry.role),
                ("look_slot", looks), ("judge_slot", judges), ("seal_slot", seals),
                ("put_receive", entry.receive), ("put_send", entry.send),
            ):  # fmt: skip
                ctx.set(getattr(table, name), value)
            ctx.set(reset, draw.random() < 0.1)
            counted["resets"] += ctx.get(reset)
            assert ctx.get(table.put_taken) == (put and not used)
            if used:
                old = known[judged]
                assert (old.receive, old.received) not in taken or not old.live
                taken.add((old.receive, old.received))
                old.received += 1
                counted["uses"] += 1
                counted["late"] += put
            elif put:
                known[puts] = entry
                counted["puts"] += 1
            one, meant = known[judges], (known[looks].receive, known[seals].send)
            await ctx.tick()
            judged = judges
            assert (ctx.get(table.receive), ctx.get(table.send)) == meant
            found = [ctx.get(getattr(table, name)) for name in ("live", "role", "received")]
            assert found == [one.live, one.role, one.received]

    simulate(ResetInserter(reset)(table), bench)
    assert min(counted.values()) > 50, counted
