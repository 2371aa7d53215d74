"""Fits over tables larger than memory: golden = RTL on the whole table, model = RTL for the arrivals of a simulation, as for trainings (`test_ring`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import penstock as ps
from penstock.api import compile
from penstock.engines.base import Given
from penstock.host.device.device import Device
from penstock.host.device.errors import LinkError
from penstock.host.workloads import Changes
from penstock.models.errors import ErrorCode, HardwareError
from penstock.models.link.kinds import parse_link
from penstock.models.memory import FixedLatency
from penstock.models.ring import Line
from penstock.models.target import Link
from penstock.runs.run import hardware
from penstock.sim.board import Datagrams, generate
from testbench.command_line import told
from testbench.line_time import BadLine, wire
from testbench.recorded_pages import Recorded

KERNEL = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
SLOTS = 4


def table(rows: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(rows).integers(-99, 99, (rows, 2)).astype(np.float32)
    return {"x": x, "y": x[:, 0] - 2 * x[:, 1] + 1}


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A design with a ring, on a machine without a link."""
    (file := tmp_path_factory.mktemp("k") / "f.psk").write_text(KERNEL)
    part = replace(
        ps.target("ulx3s-85f"), name="q", board=None, ports=1, page_size=1024, link=Link()
    )
    return compile(file, part, table(900), limbs=1, ring=SLOTS)


def workload(design: Any, rows: int = 900, **options: int) -> Any:
    return design.held(Given(table(rows), table(rows), options=options))


def equal(run: Any, work: Any) -> bool:
    golden = work.golden().codes
    return all(np.array_equal(run.codes[name], codes) for name, codes in golden.items())


@pytest.mark.parametrize("gbps", ["8", pytest.param("0.1", marks=pytest.mark.long)])
def test_a_table_larger_than_the_ring(
    design: Any, gbps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit, then others whose rows come and go: pages of those that go lie in the ring behind the others'."""
    monkeypatch.setattr("penstock.runs.rings.link_of", lambda *_: parse_link(f"gbps={gbps}"))
    work = workload(design, refits=3, new=40, gone=30)
    assert work.pages > 3 * SLOTS and work.memory_bytes() < 4 * SLOTS * 1024
    assert work.streamed > work.pages * 1024 and work.moved()[0] < 1024
    for memory in (FixedLatency(4, 8), FixedLatency(20, 2)):
        with design.machine("rtl", work.memory_bytes(), memory) as machine:
            run = hardware("rtl", work, machine, limit=5_000_000)
        assert not run.errors and equal(run, work)
        assert run.cycles == work.model(memory).total
    alone, memory = workload(design, refits=0, new=0, gone=0), FixedLatency(9, 4)
    with design.machine("rtl", alone.memory_bytes(), memory) as machine:
        run = hardware("rtl", alone, machine, limit=5_000_000)
        known = Recorded(machine.session.arrivals(1000), SLOTS)
    assert equal(run, alone) and run.counters["pages_done0"] == alone.pages == len(known.times)
    monkeypatch.setattr(type(alone), "_coming", lambda *_: [known])
    assert run.cycles == alone.model(memory).total


def test_a_host_that_dies(design: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    work = workload(design, refits=0, new=0, gone=0)
    monkeypatch.setattr(type(work), "_coming", lambda *_: [Line(SLOTS, 6, 500)])
    with design.machine("rtl", work.memory_bytes(), FixedLatency(4, 8)) as machine:
        run = hardware("rtl", work, machine, watchdog=3000)
    assert run.errors == (HardwareError(ErrorCode.WATCHDOG),) and run.codes is None


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that memory does not hold; keys are no pages."""
    monkeypatch.chdir(tmp_path)
    Path("f.psk").write_text(KERNEL)
    words = "model f.psk --rows 90000 --dim d=2 --target ulx3s-85f"
    assert "; with --ring 8 their pages come during the run" in told(words, 1)
    said = told(f"{words} --ring 4")
    assert "4 page slots a port" in said and "as pages come (it waits " in said
    Path("k.psk").write_text(
        "fit k(key: key)\n  model <- least_squares(window(key, 8), target=slot(key))\n"
    )
    assert "--ring is not for fits of keys" in told("model k.psk --rows 90 --ring 4", 1)


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(1), range(1, 50)])
def test_bad_networks(design: Any, seeds: range) -> None:
    """The whole device, Verilated, behind a network that loses, copies, spoils and overtakes: the fit, or a named error."""
    work, clock_hz = workload(design, 300, refits=0, new=0, gone=0), 200_000
    source = generate(*design.hardware(), memory_bytes=work.memory_bytes(), baud=None)
    whole = 0
    for seed in seeds:
        with (
            Datagrams(source) as board,
            patch("time.sleep", (line := BadLine(board, clock_hz, seed)).wait),
        ):
            try:
                with Device(
                    "it", lambda _, line=line: wire(line), register_map=design.registers
                ) as device:
                    run = design.run(work.table, "board", device=device, changes=Changes(1, 0, 0))
            except LinkError:
                continue
        assert run.ok and equal(run, work) and run.counters["pages_done0"] == work.pages
        whole += 1
    assert whole > 0.8 * len(seeds)
