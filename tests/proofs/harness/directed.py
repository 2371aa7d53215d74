"""Directed runs: a bench in Amaranth's simulator, with inputs that a player gives.

What fails there can fail, and what is reached there can be reached; of all else they say nothing. They are for
designs in which a bounded search does not come far enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from amaranth.hdl import Value
from amaranth.sim import Simulator

from .bench import Bench
from .solve import Verdict

if TYPE_CHECKING:
    from .proofs import Proof

__all__ = ["Player", "directed", "play"]


class Player(Protocol):
    """Gives a bench its inputs."""

    def give(self) -> Mapping[str, int]:
        """The inputs of the next cycle by name; those that are left out are 0."""
        ...

    def see(self, get: Callable[[Value], int]) -> None:
        """Look at what there is in that cycle."""
        ...


def play(bench: Bench, player: Player, cycles: int) -> Verdict:
    """Run a bench until a check fails, or for so many cycles."""
    bench.build()
    verdict = Verdict(None, cycles, detail="no check failed in directed runs")
    trace: dict[str, list[int]] = {name: [] for name in bench.inputs}

    async def run(ctx) -> None:
        for cycle in range(cycles):
            given = player.give()
            for name, signal in bench.inputs.items():
                # a constant's later values are not looked at
                trace[name].append(given.get(name, 0) & (1 << len(signal)) - 1)
                ctx.set(signal, trace[name][-1])
            for text, signal in zip(bench.covers, bench.reached, strict=True):
                if text not in verdict.reached and ctx.get(signal):
                    verdict.reached[text] = cycle
            if ctx.get(bench.bad):
                verdict.holds, verdict.depth, verdict.trace = False, cycle, trace
                return
            player.see(ctx.get)
            await ctx.tick()

    simulator = Simulator(bench.m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(run)
    simulator.run()
    return verdict


def directed(proof: Proof) -> Verdict:
    """Play a proof's bench with one seed after another until a check fails; `reached`: the earliest
    cycle of all these runs.
    """
    assert proof.player is not None
    reached: dict[str, int] = {}
    for seed in range(proof.plays):
        bench = proof.bench()
        verdict = play(bench, proof.player(bench, seed), proof.search)
        for text, cycle in verdict.reached.items():
            reached[text] = min(cycle, reached.get(text, cycle))
        if verdict.holds is False:
            break
    verdict.reached = reached
    return verdict
