"""The table of rules in hardware beside the table: what comes too early, and what comes to the wrong rows."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.hdl.pim.checker import TimingCheck
from penstock.models.pim.config import PimConfig
from penstock.models.pim.rules import rules
from testbench.pysim import simulate

OPENS, CLOSES = ("ACT4",), ("PRECHARGES",)
WANTS_CLOSED, WANTS_OPEN = ("ACT4", "REFab", "REFpb"), ("COMP", "READ", "WRITE")


def early(config: PimConfig, past: list[tuple[int, str, set[int]]], now: tuple) -> bool:
    """Whether a command comes too early behind all that came before, looked at one by one."""
    cycle, name, groups = now
    for rule in rules(config):
        for when, first, others in past:
            if (first, name) != (rule.first, rule.then) or cycle - when >= rule.cycles:
                continue
            # the latest of a kind in a group counts, which is also the nearest
            if rule.scope == "any" or (rule.scope == "same" and groups & others):
                return True
            if rule.scope == "other" and others - groups:
                return True
    return False


@pytest.mark.parametrize(
    "config",
    [
        PimConfig(groups=1, banks=2, refresh="all-bank"),
        PimConfig(groups=2, banks=2, sets=2, refresh="per-bank"),
        PimConfig(groups=4, banks=2, sets=4, bank_local=True, refresh="all-bank"),
    ],
    ids=["together", "halves", "quarters"],
)
def test_every_command_is_judged(config):
    """Random commands at the edges of the rules: each rule is broken and kept."""
    check, rng = TimingCheck(config), np.random.default_rng(1)
    gaps = sorted({rule.cycles for rule in rules(config)})
    names = [name for name in check.names if name != "ROUND"]
    # a pair of commands for each rule, at its edge and before it; then random ones
    plan: list[tuple[int, str, set[int]]] = []
    for rule in rules(config):
        for short in (1, 0):
            one = {int(rng.integers(config.groups))}
            other = {g for g in range(config.groups) if g not in one}
            then = other if rule.scope == "other" else one
            plan += [(400, rule.first, one), (rule.cycles - short, rule.then, then or one)]
    for _ in range(300):
        groups = {g for g in range(config.groups) if rng.random() < 0.5} or {0}
        gap = int(rng.choice(gaps)) - int(rng.integers(2))
        plan.append((max(1, gap), str(rng.choice(names)), groups))
    broken = kept = 0

    async def bench(ctx):
        nonlocal broken, kept
        past: list[tuple[int, str, set[int]]] = []
        opened: set[int] = set()
        now = 0
        for gap, name, groups in plan:
            ctx.set(check.tick, 1)
            await ctx.tick().repeat(gap - 1) if gap > 1 else None
            if rng.random() < 0.2:  # cycles without a tick are not there
                ctx.set(check.tick, 0)
                await ctx.tick().repeat(int(rng.integers(1, 40)))
            now += gap
            ctx.set(check.tick, 1)
            port = getattr(check, f"i_{name}")
            ctx.set(port, sum(1 << g for g in groups))
            wrong = early(config, past, (now, name, groups))
            state = (name in WANTS_CLOSED and bool(groups & opened)) or (
                name in WANTS_OPEN and bool(groups - opened)
            )
            assert ctx.get(check.o_early) == wrong, (now, name, groups)
            assert ctx.get(check.o_state) == state, (now, name, groups)
            broken, kept = broken + wrong, kept + (not wrong)
            await ctx.tick()
            ctx.set(port, 0)
            past = [*past[-200:], (now, name, groups)]
            opened |= groups if name in OPENS else set()
            opened -= groups if name in CLOSES else set()

    simulate(check, bench)
    assert broken >= len(rules(config)) and kept > 100
