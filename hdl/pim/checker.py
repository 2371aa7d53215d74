"""The table of rules in hardware: stops a run whose commands come too early."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.pim.config import PimConfig
from ...models.pim.rules import rules


class TimingCheck(wiring.Component):
    """Counts cycles since each kind of command in each bank group (`models.pim.rules`)."""

    def __init__(self, config: PimConfig) -> None:
        self.config = config
        self.rules = rules(config)
        self.names = sorted({"ROUND", *(n for rule in self.rules for n in (rule.first, rule.then))})
        # the bank groups that a command acts on in this cycle, for each command of the table and
        # ROUND
        ports: dict[str, Any] = {f"i_{name}": In(config.groups) for name in self.names}
        super().__init__(
            {
                "tick": In(1),  # cycles without are not there
                "o_early": Out(1),  # a command comes too early, or two come at once
                # a command comes to open rows that wants closed ones, or the other way round
                "o_state": Out(1),
            }
            | ports
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        groups = range(self.config.groups)
        since: dict[tuple[str, int], Signal] = {}
        for first in sorted({rule.first for rule in self.rules}):
            most = max(rule.cycles for rule in self.rules if rule.first == first)
            for g in groups:
                count = since[first, g] = Signal(
                    range(most + 1), init=most, name=f"since_{first}_{g}"
                )
                with m.If(self.tick):
                    with m.If(getattr(self, f"i_{first}")[g]):
                        m.d.sync += count.eq(1)
                    with m.Elif(count != most):
                        m.d.sync += count.eq(count + 1)
        early = []
        for rule in self.rules:
            then = getattr(self, f"i_{rule.then}")
            for g in groups:
                concerned = {"same": then[g], "other": then.any() & ~then[g], "any": then.any()}
                early.append(concerned[rule.scope] & (since[rule.first, g] < rule.cycles))
        alone = "COMP" if self.config.chip else ""  # units go on by themselves
        present = [getattr(self, f"i_{name}").any() for name in self.names if name != alone]
        m.d.comb += self.o_early.eq(self.tick & (Cat(*early).any() | (sum(present) > 1)))
        opened = Signal(self.config.groups)
        command = lambda name: getattr(self, f"i_{name}") if name in self.names else 0
        with m.If(self.tick):
            m.d.sync += opened.eq((opened | command("ACT4")) & ~command("PRECHARGES"))
        wants_closed = command("ACT4") | command("REFab") | command("REFpb")
        wants_open = command("COMP") | command("READ") | command("WRITE")
        m.d.comb += self.o_state.eq(
            self.tick & (((wants_closed & opened) != 0) | ((wants_open & ~opened) != 0))
        )
        return m
