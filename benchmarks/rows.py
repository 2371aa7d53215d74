"""Tables of rows: how many clocks a row at random takes of DRAM, and how often the store of hot rows has it.

    python benchmarks/rows.py clocks [--rows N]      # seconds
    python benchmarks/rows.py hits [--lookups N]     # minutes

Both are of the specification in `models/rows`; there is no hardware of it yet. Indices are drawn with seed 1.
benchmarks/history/rows.md has the figures.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict

import numpy as np
from common import markdown

from penstock.models.memory.dram import Timing, preset
from penstock.models.rows.config import StoreConfig
from penstock.models.rows.requests import Placement, least_clocks, ordered_bursts
from penstock.models.rows.store import Policy
from penstock.sim.memory.dram import serve

WINDOWS = (8, 16, 32, 64)
TABLE = 1_000_000


def clocks(count: int) -> str:
    rows = []
    for name in ("sdr-166", "ddr4-2400", "hbm2-2000"):
        for size in (64, 256):
            timing = preset(name)
            placement = Placement(timing, size)
            most = timing.organisation.pseudo_bytes // size
            drawn = np.random.default_rng(1).integers(0, most, count).tolist()
            plain = [
                r * size // timing.burst_bytes + n for r in drawn for n in range(placement.bursts)
            ]
            orders = [plain, *(list(ordered_bursts(placement, drawn, w)) for w in WINDOWS)]
            found = [_served(timing, bursts) / count for bursts in orders]
            bound = float(least_clocks(timing, size))
            rows.append([name, str(size), *(f"{c:.1f}" for c in found), f"{bound:.1f}"])
    head = ["DRAM", "bytes", "as they come", *(f"window {w}" for w in WINDOWS), "bound"]
    return markdown(head, rows)


def _served(timing: Timing, bursts: list[int]) -> int:
    places = np.array(bursts, np.uint64)
    none = np.zeros(len(places))
    return int(serve(timing, none.astype(bool), none, places)[0][-1])


def hits(count: int) -> str:
    """Hit rates of the last two fifths of the lookups."""
    shares = np.cumsum(np.arange(1, TABLE + 1) ** -0.99)
    rng = np.random.default_rng(1)
    drawn = rng.permutation(TABLE)[np.searchsorted(shares, rng.random(count) * shares[-1])].tolist()
    warm, rows = 3 * count // 5, []
    for lines in (1 << 14, 1 << 15, 1 << 16):
        policy, recent, found, lru = Policy(StoreConfig(lines)), OrderedDict(), 0, 0
        for n, row in enumerate(drawn):
            found += policy.access(row).hit and n >= warm
            lru += row in recent and n >= warm
            recent[row] = None
            recent.move_to_end(row)
            if len(recent) > lines:
                recent.popitem(last=False)
        best = shares[lines - 1] / shares[-1]
        rates = (found / (count - warm), lru / (count - warm), best)
        rows.append([f"{lines:,}", f"{lines / TABLE:.1%}", *(f"{rate:.3f}" for rate in rates)])
    return markdown(
        ["lines", "of the rows", "store", "least recently used", "best fixed set"], rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["clocks", "hits"])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--lookups", type=int, default=2_500_000)
    given = parser.parse_args()
    print(clocks(given.rows) if given.what == "clocks" else hits(given.lookups))


if __name__ == "__main__":
    main()
