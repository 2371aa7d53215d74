"""Ramulator 2.1 beside the DRAM model: requests a second, and its commands before our rules.

    python benchmarks/ramulator.py CHECKOUT [--requests N]

CHECKOUT is a checkout of Ramulator 2.1 with its library built in it (`cmake -DRAMULATOR_PYTHON_BINDINGS=OFF`,
`make`). DDR4-2400R of one rank, random requests, half of them writes, all there at once. Ramulator
chooses among 32 reads and 32 writes; the DRAM model serves in order. Both take turns; times are of the
processor. The trace is of Ramulator's commands: each is put to `models.memory.dram.checker.Checker`, which says
whether it is legal, and whether it came in the first legal cycle. docs/reference/memory.md has the figures.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np

from penstock.models.memory.dram.checker import Checker
from penstock.models.memory.dram.presets import preset
from penstock.sim.memory.dram import serve

_CONFIG = """
import ramulator as r

dram = r.dram.DDR4(org_preset="DDR4_8Gb_x8", timing_preset="DDR4_2400R", rank=1)
controller = r.controller.GenericDDR(
    dram=dram,
    scheduler=r.scheduler.FRFCFS(),
    refresh_manager=r.refresh_manager.AllBank(),
    row_policy=r.row_policy.Open(),
    addr_mapper=r.addr_mapper.RoBaRaCoCh(),
    controller_plugins=[PLUGINS],
)
memory = r.memory_system.GenericDRAM(
    clock_ratio=1, controllers=[controller], channel_mapper=r.channel_mapper.CacheLineInterleave()
)
r.Simulation(r.frontend.External(clock_ratio=1), memory).run()
"""
_TIMES = 5


def configured(checkout: Path, folder: Path, name: str, plugins: str = "") -> Path:
    """Write a configuration by Ramulator's own exporter."""
    script, out = folder / f"{name}.py", folder / f"{name}.yaml"
    script.write_text(_CONFIG.replace("PLUGINS", plugins))
    subprocess.run(
        [sys.executable, "-m", "ramulator", "export", script, "-o", out],
        env={**os.environ, "PYTHONPATH": str(checkout / "python")},
        check=True,
    )
    return out


def driver(checkout: Path, folder: Path) -> Path:
    out = folder / "driver"
    source = Path(__file__).with_suffix(".cpp")
    includes, link = ["-I", checkout / "src"], ["-L", checkout, "-lramulator"]
    rpath = f"-Wl,-rpath,{checkout}"
    subprocess.run(
        ["g++", "-std=c++20", "-O3", *includes, source, *link, rpath, "-o", out], check=True
    )
    return out


def rates(driver: Path, config: Path, count: int) -> None:
    timing, rng = preset("ddr4-2400"), np.random.default_rng(1)
    bursts = timing.organisation.pseudo_bytes // timing.burst_bytes
    writes = rng.random(count) < 0.5
    places = rng.integers(0, bursts, count).astype(np.uint64)
    serve(timing, np.zeros(1, bool), np.zeros(1), np.zeros(1))  # compiled before it is timed
    theirs, ours, cycles = list[float](), list[float](), 0
    for turn in range(_TIMES):
        said = subprocess.run(
            [driver, config, str(count), str(turn + 1)], check=True, capture_output=True, text=True
        ).stdout.split()
        theirs.append(count / float(said[0]) / 1e6)
        cycles = int(said[1])
        begin = process_time()
        issued, _ = serve(timing, writes, np.zeros(count), places)
        ours.append(count / (process_time() - begin) / 1e6)
    print(
        f"DDR4-2400, {count:,} random requests, medians of {_TIMES}: Ramulator {median(theirs):.3f} M "
        f"requests/s ({cycles / count:.2f} DRAM cycles a request, out of order), ours "
        f"{median(ours):.1f} M requests/s ({int(issued[-1]) / count:.2f}, in order): "
        f"{median(ours) / median(theirs):.0f} times as fast"
    )


def trace(driver: Path, config: Path, path: Path, count: int) -> None:
    """Put a trace of Ramulator's commands to the checker."""
    subprocess.run([driver, config, str(count), "1"], check=True, capture_output=True)
    checker = Checker(preset("ddr4-2400"))
    commands, first, bound = Counter[str](), Counter[str](), Counter[str]()
    with (path.parent / f"{path.name}.ch0").open() as file:
        for row in csv.DictReader(file):
            name = row["command"]
            group, bank, line, column = (
                max(int(row[level]), 0) for level in ("BankGroup", "Bank", "Row", "Column")
            )
            address = 0, 0, group, bank, line, column
            cycle = int(row["clock"])
            commands[name] += 1
            if checker.earliest(name, address) == cycle:
                first[name] += 1
                bound[str(checker.binding(name, address))] += 1
            checker.issue(name, address, cycle)  # Broken where it is too early, or in a wrong state
    print(f"{sum(commands.values()):,} commands of Ramulator, each legal by our rules")
    for name, number in commands.items():
        print(f"  {name}: {number:,}, of them {first[name]:,} in the first legal cycle")
    for rule, number in bound.most_common():
        print(f"  first cycle by {rule}: {number:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--requests", type=int, default=500_000)
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = driver(checkout, folder)
        rates(run, configured(checkout, folder, "plain"), given.requests)
        path = folder / "trace"
        plugin = f"r.controller_plugin.CmdTraceRecorder(path={str(path)!r})"
        trace(run, configured(checkout, folder, "traced", plugin), path, 20_000)


if __name__ == "__main__":
    main()
