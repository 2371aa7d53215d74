"""How long a host takes to fill a ring, beside what is said before: a whole device, Verilated, at the end of a line in simulated time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import penstock as ps
from penstock.api import compile
from penstock.engines.base import Given
from penstock.host.device import Device
from penstock.models.link.kinds import parse_link
from penstock.models.memory import FixedLatency
from penstock.models.target import Link
from penstock.sim.board import Datagrams, generate
from testbench.line_time import OnLine, wire

KERNEL = """kernel f(x: input[4], y: output, w: model[4], rate: meta = 0.1)
  w <- w - rate * merge((sigmoid(sum(w * x)) - y) * x, 4)
  epochs 2
"""
PAGE, SLOTS = 8192, 8
#: rows of tables: 13 to 19 pages
ROWS = [1_300 + 60 * k for k in range(10)]


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Any:
    (file := tmp_path_factory.mktemp("k") / "f.psk").write_text(KERNEL)
    own = ps.target("ulx3s-25f")
    part = replace(own, name="q", board=None, ports=2, page_size=PAGE, link=Link())
    choices = ps.Choices(ports=1)
    return compile(file, part, "random:rows=900", format="fixed:8,8", ring=SLOTS, choices=choices)


def workload(design: Any, rows: int) -> Any:
    table = ps.open_table(f"random:rows={rows}", design.plan.schema, design.labels)
    work = design.workload(Given(table))
    assert work.pages > 1.5 * SLOTS
    return work


def expected(design: Any, work: Any, link: str) -> int:
    """Return the cycles of the run over such a link, as they are said before."""
    clock_hz = round(design.target.clock.mhz * 10**6)
    known = parse_link(link).into(clock_hz, design.plan.bus_bytes)
    with patch("penstock.rings.link_of", lambda *_: known):
        return work.model(FixedLatency(4, 8)).total


def check(run: Any, work: Any, said: int) -> None:
    golden = work.golden().codes
    assert run.ok and all(np.array_equal(run.codes[n], codes) for n, codes in golden.items())
    print(work.pages, run.cycles, said, f"{run.cycles / said - 1:+.4f}")
    assert abs(run.cycles / said - 1) < 0.02


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_over_udp(design: Any) -> None:
    size = workload(design, ROWS[0]).memory_bytes()
    source = generate(*design.hardware(), memory_bytes=size, baud=None)
    for rows in ROWS:
        work = workload(design, rows)
        with Datagrams(source) as board:
            line = OnLine(board, round(design.target.clock.mhz * 10**6))
            with patch("time.sleep", line.wait):
                connect = lambda _, line=line: wire(line)
                with Device("it", connect, register_map=design.registers) as device:
                    run = design.run(work.table, "board", device=device)
        check(run, work, expected(design, work, "udp"))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_over_a_serial_line(design: Any) -> None:
    """Whose host thinks in this machine's time, while the device goes on."""
    baud = round(design.target.clock.mhz * 10**6) // 4
    for rows in ROWS:
        work = workload(design, rows)
        with design.device_in_simulation(work.memory_bytes()) as device:
            run = design.run(work.table, "board", device=device)
        check(run, work, expected(design, work, f"uart,baud={baud}"))
