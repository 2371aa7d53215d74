"""How fast the DRAM model is: requests a second of the C++ model and of the specification.

    python benchmarks/dram.py [--requests N] [--dram NAME]

Random requests (half of them writes) and a stream of reads, all there at once; both models give the
same cycles, which is checked. docs/reference/memory.md has the figures.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from penstock.models.memory.dram import Controller, preset
from penstock.sim.memory.dram import serve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=2_000_000)
    parser.add_argument("--dram", default="ddr4-2400")
    given = parser.parse_args()
    timing, rng = preset(given.dram), np.random.default_rng(1)
    count, few = given.requests, min(given.requests, 2_000)
    bursts = timing.organisation.pseudo_bytes // timing.burst_bytes
    cases = {
        "random": (rng.random(count) < 0.5, rng.integers(0, bursts, count).astype(np.uint64)),
        "stream": (np.zeros(count, bool), np.arange(count, dtype=np.uint64)),
    }
    serve(timing, np.zeros(1, bool), np.zeros(1), np.zeros(1))  # compiled before it is timed
    for name, (writes, places) in cases.items():
        begin = perf_counter()
        cycles, refreshes = serve(timing, writes, np.zeros(count), places)
        fast = count / (perf_counter() - begin)
        controller, begin = Controller(timing), perf_counter()
        plain = [
            controller.serve(bool(w), 0, int(b))
            for w, b in zip(writes[:few], places[:few], strict=True)
        ]
        slow = few / (perf_counter() - begin)
        assert plain == cycles[:few].tolist()
        rate = count * timing.burst_bytes / (int(cycles[-1]) / float(timing.clock_hz)) / 1e9
        print(
            f"{timing.name} {name}: {fast / 1e6:.1f} M requests/s, specification "
            f"{slow / 1e3:.2f} k/s, {fast / slow:,.0f} times as fast; "
            f"{rate:.2f} of {timing.bandwidth / 1e9:.2f} GB/s, {refreshes:,} refreshes"
        )


if __name__ == "__main__":
    main()
