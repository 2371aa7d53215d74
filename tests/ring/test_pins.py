"""Pages into the ring at the pins of a gigabit PHY, as fast as the line has them: golden's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import penstock as ps
from penstock.api import compile
from penstock.engines.base import Given
from penstock.host.device.device import Device
from testbench.frames import STATION
from testbench.line_time import OnLine, wire
from testbench.rgmii import TICKS_HZ, at_pins
from testbench.wired import Framed, scapy_datagram, scapy_frame

LOGISTIC = Path(__file__).resolve().parents[2] / "examples" / "logistic.py"
CLOCK_HZ = 60_000_000


def rate(pages: int) -> float:
    """Return the bytes a second of a training whose table has so many pages, of which the ring holds eight."""
    options: dict[str, Any] = {"dims": {"d": 4}, "format": "float32", "ring": 8, "epochs": 1}
    design = compile(LOGISTIC, "ecpix5-85f", "random:rows=2000", **options)
    each = 10_000 / workload(design, 10_000).pages
    work = workload(design, round(each * pages))
    memory = {"memory_bytes": 128 << 10, "clock_hz": CLOCK_HZ}
    source = at_pins(*design.hardware(), STATION, **memory)
    with Framed(source, scapy_frame, scapy_datagram) as board:
        line = OnLine(board, TICKS_HZ)
        with patch("time.sleep", line.wait):
            with Device("it", lambda _: wire(line), register_map=design.registers) as device:
                run = design.run(work.table, "board", device=device)
    golden, done = work.golden().codes, run.counters["pages_done0"]
    assert golden is not None and run.ok and run.codes is not None and done == work.pages
    assert all(np.array_equal(run.codes[name], codes) for name, codes in golden.items())
    return done * design.plan.page_size * CLOCK_HZ / run.cycles


def workload(design: Any, rows: int) -> Any:
    table = ps.open_table(f"random:rows={rows},seed=1", design.plan.schema, design.labels)
    return design.workload(Given(table))


@pytest.mark.long
def test_pages_at_the_pins() -> None:
    """The line carries 114.9 MB/s of them at most."""
    found = rate(100)
    print(f"{found / 1e6:.1f} MB/s")
    assert 113e6 < found < 115e6
