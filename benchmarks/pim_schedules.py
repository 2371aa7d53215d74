"""Cycles of a later round for each schedule, with refresh and without, and how fast a round's cycles are found.

`python benchmarks/pim_schedules.py`: averages over 120 rounds, published count; hardware count.
`python benchmarks/pim_schedules.py --rates`: in one run, rounds a second of the scheduler, of the fast DRAM model
serving as many requests as a round has column commands (or accesses inside the banks), and of the closed form. benchmarks/history/pim.md has what they printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import numpy as np

from penstock.models.memory.dram import preset
from penstock.models.pim.config import PimConfig
from penstock.models.pim.rounds import MODES, Charges, Round, round_cycles
from penstock.models.pim.schedule import schedule
from penstock.sim.memory.dram import serve

DEVICES = {
    "all banks together": PimConfig(),
    "two halves": PimConfig(sets=2),
    "four groups, COMP bank-local": PimConfig(sets=4, bank_local=True),
}


def cycles(config: PimConfig, drain: bool) -> float:
    """Return the average cycles of a later round."""
    made = schedule(config, [[Round()] * 120 for _ in range(config.sets)], Charges(drain))
    return max((own[-1] - own[0]) / (len(own) - 1) for own in made.starts)


def best(run: Callable[[], object], times: int = 5) -> float:
    """Return the seconds of the fastest of some runs: others use the machine as well."""
    taken = []
    for _ in range(times):
        begin = perf_counter()
        run()
        taken.append(perf_counter() - begin)
    return min(taken)


def rates() -> None:
    config, rng = PimConfig(), np.random.default_rng(1)
    # rounds of all kinds, placed one by one and by the closed form: the same cycles
    count = 200
    mode, registers, reads = (rng.integers(0, n, count) for n in (3, 6, 3))
    some = [
        Round(MODES[m], int(w), reads=int(r))
        for m, w, r in zip(mode, registers, reads, strict=True)
    ]
    made = schedule(config, [[Round()] * count])
    assert made.period() == round_cycles(config, Round())
    columns = [c for c in made.commands if c.name in ("REG_WRITE", "COMP", "RESULT_READ")]
    requests = round(sum(max(1, c.count) for c in columns) / count)
    # a COMP reads and writes a column in each pair of banks: what a memory without units would be asked for
    inside = requests + 64 * (2 * config.pairs - 1)
    timing, length = preset("pimba"), 400_000
    stream = np.zeros(length, bool), np.zeros(length), np.arange(length, dtype=np.uint64)
    serve(timing, *(array[:1] for array in stream))  # compiled before it is timed
    placed = best(lambda: schedule(config, [[Round()] * count])) / count
    each = best(lambda: serve(timing, *stream)) / length
    served = each * requests
    single = best(lambda: [round_cycles(config, one) for one in some]) / count
    print(
        "| a round's cycles by | µs | times the fast model, for column commands; for accesses inside |\n| --- | --- | --- |"
    )
    for name, seconds in (
        ("scheduler", placed),
        (f"fast DRAM model, {requests} requests of a stream", served),
        (f"the same, {inside:,} requests", each * inside),
        ("closed form, one round", single),
    ):
        times = f"{served / seconds:,.3g}; {each * inside / seconds:,.5g}"
        print(f"| {name} | {seconds * 1e6:.4g} | {times} |")


def main() -> None:
    if sys.argv[1:] == ["--rates"]:
        return rates()
    for name, config in DEVICES.items():
        cells = []
        for refresh in ("none", "all-bank", "per-bank"):
            one = replace(config, refresh=refresh)
            cells.append("; ".join(f"{cycles(one, drain):.1f}" for drain in (False, True)))
        print(f"| {name} | {' | '.join(cells)} |")
    return None


if __name__ == "__main__":
    main()
