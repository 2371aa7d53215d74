"""Streams in Amaranth's own simulator: testbenches that feed and drain them, at any pace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import numpy as np
from amaranth.sim import Simulator

__all__ = ["drain", "feed", "simulate"]


def simulate(
    component: Any,
    *benches: Callable[[Any], Awaitable[None]],
    background: Iterable[Callable[[Any], Awaitable[None]]] = (),
    period: float = 1e-6,
) -> None:
    """Run a component in Amaranth's simulator until these testbenches end; those of `background` do not count."""
    simulator = Simulator(component)
    simulator.add_clock(period)
    for bench in benches:
        simulator.add_testbench(bench)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    simulator.run()


def feed(
    stream: Any,
    items: Iterable[Any],
    accepted: list[int] | None = None,
    *,
    pace: float = 1.0,
    seed: int = 0,
) -> Callable[[Any], Awaitable[None]]:
    """Return a testbench that offers the items one after the other, each in a cycle with this probability until it is offered.

    The cycles in which they are accepted, counted from the testbench's start, are appended to `accepted`.
    """

    async def bench(ctx: Any) -> None:
        source = np.random.default_rng(seed)
        cycle = 0
        for item in items:
            while source.random() >= pace:
                await ctx.tick()
                cycle += 1
            ctx.set(stream.payload, item)
            ctx.set(stream.valid, 1)
            done = False
            while not done:
                *_, done = await ctx.tick().sample(stream.ready)
                cycle += 1
            if accepted is not None:
                accepted.append(cycle - 1)
            ctx.set(stream.valid, 0)

    return bench


def drain(
    stream: Any,
    count: int,
    taken: list[tuple[int, Any]],
    *,
    pace: float = 1.0,
    seed: int = 0,
    limit: int = 3000,
) -> Callable[[Any], Awaitable[None]]:
    """Return a testbench that takes `count` items and appends (cycle, item) to `taken`; ready with this probability in each cycle.

    Raises
    ------
    AssertionError
        They have not come in `limit` cycles, or an offer was taken back.
    """

    async def bench(ctx: Any) -> None:
        source = np.random.default_rng(seed)
        offered = None
        for cycle in range(limit):
            if len(taken) >= count:
                return
            ready = source.random() < pace
            ctx.set(stream.ready, ready)
            *_, valid, item, bits = await ctx.tick().sample(
                stream.valid,
                stream.payload,
                getattr(stream.payload, "as_value", lambda: stream.payload)(),
            )
            assert offered is None or (valid and bits == offered), (
                "an offer was taken back or changed"
            )
            offered = bits if valid and not ready else None
            if valid and ready:
                taken.append((cycle, item))
        raise AssertionError(f"{len(taken)} of {count} items in {limit} cycles")

    return bench
