"""Oblivious maps against a dict: Hypothesis chooses what is done."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.models.omap.golden import Map
from penstock.models.omap.messages import Operation, Request, Response
from testbench.omap import KEYS, Mirror, config

__all__ = ["QUICK", "SHAPE", "DictMachine"]

SHAPE = config(capacity=60, bins=24, hbm_bins=4)
QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


class DictMachine(RuleBasedStateMachine):
    """The golden model against a dict. A rule carries out many operations, so that a run is long.

    `operations`: of a rule; `done`: of all machines of the class.
    """

    operations = 40
    done = 0

    def __init__(self) -> None:
        super().__init__()
        self.box, self.mirror = Map(SHAPE, KEYS), Mirror(SHAPE)

    def carry_out(self, made: list[Request]) -> list[Response]:
        return [self.box.step(request).response for request in made]

    def _compare(self, made: list[Request]) -> None:
        type(self).done += len(made)
        assert self.carry_out(made) == [self.mirror.step(request) for request in made]

    @rule(
        seed=st.integers(0, 1 << 32),
        keys=st.integers(1, 90),
        mix=st.tuples(*[st.integers(0, 5)] * 3).filter(any),
    )
    def operate(self, seed: int, keys: int, mix: tuple[int, int, int]) -> None:
        draw = random.Random(seed)
        kinds = [kind for kind, count in zip((1, 2, 3), mix, strict=True) for _ in range(count)]
        made = []
        for _ in range(self.operations):
            kind = draw.choice(kinds)
            value = draw.randbytes(8) if kind == Operation.PUT else bytes(8)
            made.append(Request(kind, draw.randrange(keys), value))
        self._compare(made)

    @precondition(lambda self: self.mirror.items)
    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.mirror.items)))
        self._compare([Request(Operation.GET, key, bytes(8))])

    @invariant()
    def whole(self) -> None:
        assert dict(self.box.items()) == self.mirror.items
