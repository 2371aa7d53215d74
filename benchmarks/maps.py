"""Operations a second of oblivious maps on a `u55c`: the cycle model, beside the link's bound and what binds.

`python benchmarks/maps.py [--values 8 64 256] [--capacity N] [--ops N] [--rounds R] [--channels N] [--rtl]`; a page's way over PCIe takes
1.26 µs. `--rtl` runs the hardware in simulation as well and fails unless every cycle and response is the model's: with the
default capacity it takes minutes. `--port`: bytes a cycle of the link, 32 or 64 (as the planner chooses unless given).
"""

from __future__ import annotations

import argparse

import numpy as np

import penstock as ps
from penstock.models.omap.back import BackSchedule
from penstock.models.omap.config import BLOCK, OmapConfig
from penstock.models.omap.front_schedule import FrontSchedule

#: bytes a second that the published system's link carries each way
LINK = 12e9
HEADER = (
    "| value bytes | capacity | window | openers, sealers | port, merge | an operation every | million operations/s | bound by | of the port | of 12 GB/s "
    "| latency at half load, µs | hardware |\n" + "| --- " * 12 + "|"
)


def link_shares(config: OmapConfig, cycles: float, mhz: float) -> tuple[float, float]:
    """Return which shares of the pages' port and of the link's 12 GB/s (requests and responses too)
    operations of so many cycles take."""
    moved = config.bytes_per_operation
    port = moved / config.host_bus_bytes / cycles
    return port, (moved + config.message_bytes) * mhz * 1e6 / cycles / LINK


def row(value_bytes: int, given: argparse.Namespace) -> str:
    """Return a line of the table. Raises SystemExit where the hardware differs from the model."""
    capacity, ops, rtl = given.capacity, given.ops, given.rtl
    kernel = ps.ObliviousMap(value=ps.bytes(value_bytes), capacity=capacity, name="maps")
    link = {"link": f"latency=315,bytes={given.port}"} if given.port else {}
    design = ps.compile(kernel, target="u55c", rounds=given.rounds, channels=given.channels, **link)
    config, mhz = design.plan, design.target.clock_mhz
    told = design.run(ops=ops, backend="model")
    each = told.cycles / ops
    half = design.run(ops=ops, interval=round(2 * each), backend="model")
    hardware = "not run"
    if rtl:
        golden, found = (design.run(ops=ops, backend=backend) for backend in ("golden", "rtl"))
        if found.cycles != told.cycles:
            raise SystemExit(f"hardware takes {found.cycles} cycles, the model {told.cycles}")
        same = all(np.array_equal(found.codes[name], codes) for name, codes in golden.codes.items())
        if not same or found.facts != golden.facts:
            raise SystemExit("hardware answers something else, or moves other bytes")
        hardware = f"{found.cycles:,} cycles, as the model"
    port, link = link_shares(config, each, mhz)
    cells = (
        value_bytes,
        f"{capacity:,}",
        config.window,
        f"{config.openers}, {config.sealers}",
        f"{config.host_bus_bytes}, {BLOCK * config.merge_blocks}",
        f"{each:.1f} cycles (front {FrontSchedule.of(config).interval}, back {BackSchedule.of(config).interval})",
        f"{mhz / each:.2f}",
        told.bound.by,
        f"{port:.0%}",
        f"{link:.0%}",
        f"{half.counters['latency'] / mhz:.2f}",
        hardware,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--capacity", type=int, default=1 << 16)
    parser.add_argument("--ops", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--channels", type=int, help="of HBM that a port joins; planned unless given"
    )
    parser.add_argument("--port", type=int, help="bytes a cycle of the link")
    parser.add_argument("--rtl", action="store_true", help="simulate the hardware as well")
    given = parser.parse_args()
    print(HEADER)
    for value_bytes in given.values:
        print(row(value_bytes, given), flush=True)


if __name__ == "__main__":
    main()
