"""A failing proof, run again in Amaranth's simulator: what it shows cycle by cycle, and a VCD."""

from __future__ import annotations

from pathlib import Path

from amaranth.sim import Simulator

from .bench import Bench

__all__ = ["replay"]

#: bits of a value that has a column
_WIDEST = 32


def replay(bench: Bench, trace: dict[str, list[int]], vcd: Path) -> tuple[list[str], str]:
    """Give a new bench the inputs of a trace; return the checks that fail in its last cycle, and a
    table of all that is of interest.
    """
    bench.build()
    cycles = len(next(iter(trace.values())))
    rows = {name: [] for name in [*bench.inputs, *bench.shown]}
    failed: list[str] = []

    async def run(ctx) -> None:
        for cycle in range(cycles):
            for name, signal in bench.inputs.items():
                ctx.set(signal, trace[name][cycle])
            for name, signal in (bench.inputs | bench.shown).items():
                rows[name].append(ctx.get(signal))
            if cycle == cycles - 1 and ctx.get(bench.bad):
                failed.extend(text for text, signal in bench.checks.items() if not ctx.get(signal))
            await ctx.tick()

    simulator = Simulator(bench.m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(run)
    with simulator.write_vcd(str(vcd)):
        simulator.run()
    margin = max(map(len, rows))
    width = max(
        len(f"{value:x}")
        for values in [*rows.values(), range(cycles)]
        for value in values
        if value < 1 << _WIDEST
    )
    lines = [f"{'cycle':{margin}} " + " ".join(f"{cycle:>{width}}" for cycle in range(cycles))]
    for name, values in rows.items():
        if max(values) < 1 << _WIDEST:
            lines.append(f"{name:{margin}} " + " ".join(f"{value:>{width}x}" for value in values))
    lines += [
        f"{name}, by cycle: " + " ".join(f"{value:x}" for value in values)
        for name, values in rows.items()
        if max(values) >= 1 << _WIDEST
    ]
    return failed, "\n".join(lines)
