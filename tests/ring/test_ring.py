"""Tables larger than memory: golden = RTL bit for bit on the whole table, model = RTL cycle for cycle for the arrivals that a simulation recorded."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from re import findall
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import penstock as ps
from penstock.api import compile
from penstock.engines.base import Given
from penstock.host.device.device import Device
from penstock.host.device.emulation import emulated
from penstock.host.device.udp import Udp
from penstock.models.errors import ErrorCode, HardwareError
from penstock.models.link.kinds import parse_link
from penstock.models.link.timing import SIMULATED_DIVISOR
from penstock.models.memory import FixedLatency
from penstock.models.ring import NEVER, Line
from penstock.models.target import Link
from penstock.runs.run import hardware
from penstock.sim.board import Board, Datagrams, build, generate
from testbench.command_line import reported, told
from testbench.line_time import OnLine, OrdinaryLine, Telling, for_arrivals, wire
from testbench.recorded_pages import Overrun, Recorded
from testbench.rings import filled
from testbench.serial_time import serial_line

KERNEL = """import penstock as ps

@ps.kernel(epochs=2)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sigmoid(ps.sum(w * x)) - y) * x, 4)
"""
SLOTS = 4


def compiled(folder: Path, kernel: str = KERNEL, **more: Any) -> Any:
    """A design with a ring, on a machine without a link."""
    (file := folder / "k.py").write_text(kernel)
    own = ps.target("ulx3s-25f")
    part = replace(own, name="q", board=None, ports=2, page_size=1024, link=Link())
    options: dict[str, Any] = {
        "dims": {"d": 4},
        "format": "fixed:8,8",
        "ring": SLOTS,
        "choices": ps.Choices(ports=1),
        **more,
    }
    return compile(file, part, "random:rows=900", **options)


def workload(design: Any, rows: int = 900) -> Any:
    return design.workload(
        Given(ps.open_table(f"random:rows={rows}", design.plan.schema, design.labels))
    )


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(tmp_path_factory.mktemp("k"))


@pytest.mark.parametrize("gbps", ["8", "1", "0.1"])
def test_a_table_larger_than_the_ring(
    design: Any, gbps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over links that are faster than the engine, about as fast, and slower."""
    monkeypatch.setattr("penstock.runs.rings.link_of", lambda *_: parse_link(f"gbps={gbps}"))
    work = workload(design)
    assert work.pages > 3 * SLOTS and work.memory_bytes() < 3 * SLOTS * 1024
    golden = work.golden().codes
    for memory in (FixedLatency(4, 8), FixedLatency(20, 2)):
        with design.machine("rtl", work.memory_bytes(), memory) as machine:
            run = hardware("rtl", work, machine, limit=5_000_000)
            times = machine.session.arrivals(1000)
        assert not run.errors and run.codes is not None and golden is not None
        assert all(np.array_equal(run.codes[name], codes) for name, codes in golden.items())
        assert run.counters["pages_done0"] == 2 * work.pages == len(times)
        assert run.cycles == work.model(memory).total
        with monkeypatch.context() as patch:
            lines = partial(lambda known, *_: [known], Recorded(times, SLOTS))
            patch.setattr("penstock.engines.analytics.workload._lines", lines)
            assert run.cycles == work.model(memory).total


EARLY = """import penstock as ps

@ps.kernel(epochs=40)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.02):
    step = ps.mean((ps.sum(w * x) - y) * x, 120)
    ps.until(ps.norm(step) < 0.3)
    return w - rate * step
"""


@pytest.mark.long
def test_two_ports_and_an_early_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes for an epoch that is not run changes nothing; a second run begins anew."""
    monkeypatch.setattr("penstock.runs.rings.link_of", lambda *_: parse_link("gbps=2"))
    choices = ps.Choices(ports=2, threads=2, lanes=2)
    work = workload(compiled(tmp_path, EARLY, choices=choices))
    golden, memory = work.golden(), FixedLatency(9, 8)
    assert 1 < golden.facts["epochs"] < 40 and golden.codes is not None
    with work.design.machine("rtl", work.memory_bytes(), memory) as machine:
        for _ in range(2):
            run = hardware("rtl", work, machine, limit=5_000_000)
            assert not run.errors and run.codes is not None and run.facts == golden.facts
            assert all(np.array_equal(run.codes[n], codes) for n, codes in golden.codes.items())
            assert run.cycles == work.model(memory).total
            assert min(run.counters[f"pages_done{q}"] for q in range(2)) > 3 * SLOTS


def test_a_simulator_without_a_ring_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    words = (
        "simulate k.py --dim d=2 --data random:rows=8 --format fixed:8,8 --ring 2 --backend pysim"
    )
    said = told(words, 1)
    assert "error[E902]: Amaranth's simulator fills no ring" in said and "defect" not in said


def test_a_command_counts_what_a_ring_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that memory does not hold has no time without a ring; with one, each epoch passes the wire: ten bits a byte, 1 Mbaud."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    words = "model k.py --rows 9000 --dim d=4 --format fixed:8,8 --target ulx3s-25f"
    refused = told(words, 1)
    assert "error[E610]" in refused and "cycles" not in refused
    assert "rows like these fit; with --ring 2 their pages come during the run" in refused
    assert "; with --ring 2 their pages" in told(f"{words} --ring 4", 1)
    said = told(f"{words} --ring 2")
    assert "estimated, at 60 MHz" in said and "exact at" not in said
    found = reported(f"{words} --ring 2")
    least = 2 * found["table"]["pages"] * 8192 * 10 / 1_000_000
    assert least < found["seconds"]["engine"] < found["seconds"]["total"] < 1.2 * least


def test_a_ring_that_memory_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No hardware is written for a target that cannot run it, whatever the table."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    words = "compile k.py --dim d=4 --format fixed:8,8 --target ulx3s-25f --out out --ring"
    said = told(f"{words} 8", 1)
    assert said.count("error[") == 1 and "error[E610]: a run of f takes 69,632 bytes" in said
    assert "; with --ring 2 their pages come during the run" in said
    assert not Path("out").exists()
    design = compile(Path("k.py"), "ulx3s-25f", dims={"d": 4}, format="fixed:8,8", ring=8)
    for made in (design.hardware, lambda: design.save("out")):
        with pytest.raises(ps.KernelError, match="takes 69,632 bytes of memory"):
            made()
    told(f"{words} 2", 0)


def test_what_binds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine does where it takes longer by itself, on a machine without a link, than the link alone; what it waits is not its work."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    words = "model k.py --rows 9000 --dim d=4 --format fixed:8,8 --target ulx3s-25f --ring 2"
    alone = reported(f"{words} --link gbps=1000")["seconds"]["engine"]
    seen = set()
    for rate in (0.001, 0.1, 0.4, 0.8, 3, 1000):
        found = reported(link := f"{words} --link gbps={rate}")["seconds"]
        binds = "link" if found["link"] > alone else "engine"
        seen.add(binds)
        said = told(link)
        assert f"; {binds} binds" in said and (binds == "engine" or said.count(" by link;") == 2)
        assert all(float(ratio) >= 1 for ratio in findall(r"cycles ÷ bound = (\S+)", said))
    assert seen == {"link", "engine"}


def test_a_table_smaller_than_the_ring(design: Any) -> None:
    work = workload(design, 20)
    assert 1 < work.pages < SLOTS
    with design.machine("rtl", work.memory_bytes(), FixedLatency(4, 8)) as machine:
        run = hardware("rtl", work, machine)
    assert not run.errors and run.codes is not None
    for name, codes in (work.golden().codes or {}).items():
        assert np.array_equal(run.codes[name], codes)
    assert run.cycles == work.model(FixedLatency(4, 8)).total


def test_a_host_that_dies(design: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine waits for the next page until the watchdog ends the run; the counter says which page."""
    work = workload(design)
    dead = Line(SLOTS, 6, 500)
    monkeypatch.setattr("penstock.engines.analytics.workload._lines", lambda *_: [dead])
    with design.machine("rtl", work.memory_bytes(), FixedLatency(4, 8)) as machine:
        run = hardware("rtl", work, machine, watchdog=3000)
    assert run.errors == (HardwareError(ErrorCode.WATCHDOG),) and run.codes is None
    assert run.counters["pages_done0"] == 6


def test_lines() -> None:
    line = Line(2, 5, 10, way=4, phase=3, turn=4)
    assert [line.ready(0), line.ready(1)] == [11, 23]
    line.done(0, 50)
    assert line.ready(2) == 67  # 50, the way, a page, the turn
    late = Line(2, 5, 10, begins=7)
    assert [late.ready(0), late.ready(1)] == [20, 32]
    for page, cycle in ((1, 60), (2, 90)):
        line.done(page, cycle)
    assert [line.ready(3), line.ready(4), line.ready(5)] == [79, 107, NEVER]
    for wrong in ({"slots": 0}, {"interval": 7}, {"way": 3}):
        with pytest.raises(ValueError, match="a ring has a slot"):
            Line(**{"slots": 2, "total": 1, "interval": 10, **wrong})
    known = Recorded([1, 2, 40], 2)
    assert known.ready(2) == 40 and known.ready(3) == NEVER
    known.done(0, 39)
    with pytest.raises(Overrun, match="page 2 came in cycle 40, page 0 left its slot in 40"):
        known.done(0, 40)


def test_bad_networks() -> None:
    """A host fills the ring over datagrams that are lost, copied, late and spoilt: an engine reads the table, or there is a named error."""
    assert played(range(300))["whole"] > 270


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_bad_networks() -> None:
    assert played(range(10_000))["whole"] > 9_000


def played(seeds: range) -> Counter[str]:
    return Counter(what for seed in seeds for what in filled(seed))


class Bad(Datagrams):
    """Of ten datagrams one is lost, one comes twice, one behind the next, one with a wrong bit."""

    count, late = 0, b""

    def send(self, datagram: bytes) -> None:
        self.count += 1
        way, behind = self.count % 10, self.late
        self.late = datagram if way == 3 else b""
        if way == 9:
            datagram = datagram[:-1] + bytes([datagram[-1] ^ 1])
        for one in (datagram,) * {1: 0, 3: 0, 6: 2}.get(way, 1) + (behind,):
            if one:
                super().send(one)


@pytest.mark.parametrize("link", ["udp", pytest.param("uart", marks=pytest.mark.long)])
def test_a_host_fills_the_ring_of_a_device(
    design: Any, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole device, Verilated: link, arbiter, memory and engine, and the driver that boards have. Over UDP it raises `pages_ready` itself, on a line
    that is not sound."""
    written: Counter[str] = Counter()
    known = Device.write_register

    def noted(device: Device, name: str, value: int) -> None:
        written[name] += 1
        known(device, name, value)

    monkeypatch.setattr(Device, "write_register", noted)
    monkeypatch.setattr("penstock.host.device.emulation.Datagrams", Bad)
    work = workload(design, 300)
    assert work.pages > 3 * SLOTS and design.device_timing("block RAM") is None
    size, registers = work.memory_bytes(), design.registers
    with ExitStack() as stack:
        if link == "udp":
            source = generate(*design.hardware(), memory_bytes=size, baud=None)
            place = f"127.0.0.1:{stack.enter_context(emulated(source))}"
            opened = Device(place, lambda at: Udp(at, 30.0), register_map=registers)
        else:
            opened = design.device_in_simulation(size)
        run = design.run(work.table, "board", device=stack.enter_context(opened))
    golden = work.golden().codes
    assert not run.errors and run.codes is not None and golden is not None
    assert all(np.array_equal(run.codes[name], codes) for name, codes in golden.items())
    assert run.counters["pages_done0"] == 2 * work.pages
    assert (written["pages_ready0"] == 1) == (link == "udp")


@pytest.mark.parametrize("seed", [None, 1])
def test_pages_come_as_fast_as_the_line(design: Any, seed: int | None) -> None:
    """A device at 60 MHz on gigabit Ethernet, sound and not: golden's bits, and the model's cycles for the arrivals that were recorded."""
    work, clock_hz = workload(design, 1500 if seed else 600), 60_000_000
    memory = {"memory_bytes": work.memory_bytes(), "clock_hz": clock_hz}
    source = generate(*design.hardware(), **memory, baud=None, around=Telling)
    with Datagrams(source) as board:
        line = OrdinaryLine(board, clock_hz, seed)
        with patch("time.sleep", line.wait):
            with Device("it", lambda _: wire(line), register_map=design.registers) as device:
                assert device.identity.ring == 1 << 16
                run = design.run(work.table, "board", device=device)
        golden, pages = work.golden().codes, 2 * work.pages
        assert run.ok and run.codes is not None and golden is not None
        assert all(np.array_equal(run.codes[name], codes) for name, codes in golden.items())
        assert run.counters["pages_done0"] == pages
        assert run.cycles == for_arrivals(work, board, pages)


@pytest.mark.long
@pytest.mark.parametrize("rows", [300, *range(500, 1400, 100)])
def test_seconds_are_those_that_were_said(tmp_path: Path, rows: int) -> None:
    """A device whose host fills the ring over gigabit Ethernet, in the time of the line and the device, within the 2 % that an estimate may be off."""
    design = compiled(tmp_path, ring=16)
    work, clock_hz = workload(design, rows), round(design.target.clock.mhz * 10**6)
    memory = {"memory_bytes": work.memory_bytes(), "clock_hz": clock_hz}
    source = generate(*design.hardware(), **memory, baud=None)
    with Datagrams(source) as board, patch("time.sleep", (line := OnLine(board, clock_hz)).wait):
        with Device("it", lambda _: wire(line), register_map=design.registers) as device:
            run = design.run(work.table, "board", device=device)
    link = parse_link("udp").into(clock_hz, design.plan.bus_bytes)
    near(run, work, link)


def near(run: Any, work: Any, link: Any) -> None:
    with patch("penstock.runs.rings.link_of", lambda *_: link):
        said = work.model(FixedLatency(4, 8)).total
    assert (
        run.ok
        and run.counters["pages_done0"] == 2 * work.pages > 2 * work.design.plan.striders.ring
    )
    assert abs(run.cycles / said - 1) < 0.02, run.cycles / said


@pytest.mark.long
@pytest.mark.parametrize("ring", [2, 4, 16])
def test_seconds_over_a_uart(tmp_path: Path, ring: int) -> None:
    """The same over a serial line, by the client that boards have."""
    design = compiled(tmp_path, ring=ring)
    clock_hz = round(design.target.clock.mhz * 10**6)
    link = parse_link(f"uart,baud={clock_hz // SIMULATED_DIVISOR}")
    source = build(generate(*design.hardware(), memory_bytes=1 << 15))
    for rows in (300, 500, 700, 900)[: 4 if ring == 4 else 3]:
        work = workload(design, rows)
        with Board(source) as board, serial_line(board, clock_hz) as line:
            with Device(
                "it", lambda _, line=line: line.open(), register_map=design.registers
            ) as device:
                run = design.run(work.table, "board", device=device)
        near(run, work, link)
