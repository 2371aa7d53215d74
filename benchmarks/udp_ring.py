"""Heap pages over Gigabit Ethernet into the ring of a device that trains on them meanwhile: in simulated line time, on a sound line and on a bad one.

`python benchmarks/udp_ring.py [--slots N] [--times N] [--seed N]`. The whole device of `examples/logistic.py` for ecpix5-85f (float32, 60 MHz, on-chip
memory), Verilated, behind datagrams; the session that `udp:` has for a host; a line of 125 MB/s with what Ethernet, IP and UDP put around each datagram.
The bad line loses 1 % of the datagrams each way, brings 1 % twice, and 1 % late by up to 32 places. The table has `--times` as many pages as the ring.
The weights are compared with golden's, the cycles with the model's for the cycles in which pages became ready; a difference ends with 1.
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
from common import EXAMPLES, ROOT

import penstock as ps
from penstock.api import compile
from penstock.engines.base import Given
from penstock.host.device.device import Device
from penstock.models.link.envelope import LONGEST
from penstock.sim.board import Datagrams, generate

sys.path.insert(0, str(ROOT / "tests" / "support"))
from testbench.line_time import OrdinaryLine, Telling, for_arrivals, wire

CLOCK_HZ = 60_000_000


def trained(work: Any, line: OrdinaryLine) -> str:
    """Train behind a line; return what it came to. Ends the program where weights or cycles differ."""
    begin, design = perf_counter(), work.design
    with patch("time.sleep", line.wait):
        with Device("it", lambda _: wire(line), register_map=design.registers) as device:
            run = design.run(work.table, "board", device=device)
    golden, pages = work.golden().codes, run.counters["pages_done0"]
    assert golden is not None and run.ok and run.codes is not None, run.errors
    if any(not np.array_equal(run.codes[name], codes) for name, codes in golden.items()):
        sys.exit("the device's weights are not golden's")
    said = for_arrivals(work, line.board, pages)
    if said != run.cycles:
        sys.exit(f"{run.cycles:,} cycles, the model says {said:,} for the recorded arrivals")
    size = design.plan.page_size
    rate = pages * size / (run.cycles / CLOCK_HZ)
    sent = line.sent / (pages * size // LONGEST)
    return (
        f"{rate / 1e6:.1f} MB/s: {pages} pages in {run.cycles:,} cycles, the model's for the recorded arrivals; "
        f"{sent:.3f} datagrams a KB; bits equal golden's ({perf_counter() - begin:.0f} s here)"
    )


def compiled(slots: int) -> Any:
    """The design, without the warnings of one that is made in one step."""
    options: dict[str, Any] = {"dims": {"d": 4}, "format": "float32", "ring": slots, "epochs": 1}
    return compile(EXAMPLES / "logistic.py", "ecpix5-85f", "random:rows=2000", **options)


def workload(design: Any, rows: int) -> Any:
    table = ps.open_table(f"random:rows={rows},seed=1", design.plan.schema, design.labels)
    return design.workload(Given(table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    design = compiled(options.slots)
    each = 100_000 / workload(design, 100_000).pages
    work = workload(design, round(each * options.times * options.slots))
    memory = {"memory_bytes": 128 << 10, "clock_hz": CLOCK_HZ}
    source = generate(*design.hardware(), **memory, baud=None, around=Telling)
    print(f"{work.pages} pages of {design.plan.page_size} bytes, {options.slots} slots")
    for name in ("sound", "bad"):
        with Datagrams(source) as board:
            line = OrdinaryLine(board, CLOCK_HZ, options.seed if name == "bad" else None)
            print(f"{name}: {trained(work, line)}", flush=True)


if __name__ == "__main__":
    main()
