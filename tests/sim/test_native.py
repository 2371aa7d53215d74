"""sim/native on the toy engine: exact cycles, memory windows, faults, checks, reports, waves, the build cache."""

from __future__ import annotations

import dataclasses
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from penstock.hdl.shell import Shell, to_verilog
from penstock.models.errors import ErrorCode, HardwareError, RunError
from penstock.models.memory import FixedLatency
from penstock.models.shell import PATIENCE, Status
from penstock.sim.memory.modes import Mode
from penstock.sim.native import (
    BuildError,
    Library,
    MonitorState,
    PortSpec,
    ProtocolError,
    RegisterError,
    Session,
    Violation,
    build,
    level,
    toolchain,
    wave_format,
)
from testbench.faults import fail_read, fail_write, unmap
from testbench.toy import CopyEngine, copy_cycles, copy_map
from testbench.wrapped import late_addresses, words_after_awready

SOURCE, TARGET = 0x10_0000, 0x1_0000_0000
KEY = 0xA5A5A5A5


def library(bus_bytes: int, ports: int, **options) -> Library:
    engine = CopyEngine(bus_bytes=bus_bytes, ports=ports)
    return build(Shell(engine, engine.register_map), **options)


@pytest.fixture(scope="module")
def one() -> Library:
    return library(8, 1)


@pytest.fixture(scope="module")
def two() -> Library:
    return library(8, 2)


def session(lib: Library, memory: FixedLatency, size: int = 1 << 18, seed: int = 0):
    """A session with a filled source window and an empty target window."""
    made = Session(lib, memory)
    source = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    target = np.zeros(size, np.uint8)
    made.map(SOURCE, source, writable=False)
    made.map(TARGET, target)
    return made, source, target


def expected(source: np.ndarray, length: int, start: int, place: int, count: int) -> np.ndarray:
    result = np.zeros(length, np.uint8)
    result[place : place + count] = (
        source[start : start + count].view(np.uint32) ^ np.uint32(KEY)
    ).view(np.uint8)
    return result


@pytest.mark.parametrize(("bus_bytes", "ports"), [(8, 1), (4, 2), (64, 4)])
def test_exact_cycles(bus_bytes, ports):
    lib = library(bus_bytes, ports)
    rng = np.random.default_rng([bus_bytes, ports])
    for _ in range(12):
        memory = FixedLatency(int(rng.integers(1, 80)), int(rng.choice([1, 3, 8, 16, 64])))
        words = int(rng.choice([1, 2, 7, 100, 700]))
        span = bus_bytes * words
        stride = bus_bytes * (words + int(rng.integers(0, 9)))
        start, place = (int(rng.integers(0, 600)) * bus_bytes for _ in range(2))
        made, source, target = session(lib, memory, seed=words)
        with made:
            values = {
                "source": SOURCE + start,
                "target": TARGET + place,
                "stride": stride,
                "words": words,
            }
            report = made.run(values)
            model = copy_cycles(memory, bus_bytes=bus_bytes, ports=ports, **values)
            assert (report.finished, report.error, report.cycles) == (True, None, model)
            assert report.status == Status.IDLE | Status.DONE
            assert report.counters == {"words_copied": words * ports}
            assert (
                [s.bytes_read for s in made.statistics()]
                == [span] * ports
                == [s.bytes_written for s in made.statistics()]
            )
            result = sum(
                expected(source, len(target), start + k * stride, place + k * stride, span).astype(
                    int
                )
                for k in range(ports)
            )
            assert np.array_equal(target, result)
            # the same once more: every run starts from the same state
            assert made.run(values).cycles == model
            assert made.notes() == []


def test_outside_reads_fail(one):
    made, source, target = session(one, FixedLatency(9, 8))
    with made:
        report = made.run({"source": SOURCE + len(source) - 64, "target": TARGET, "words": 16})
        assert report.error == HardwareError(ErrorCode.BUS_READ, 0)
        # the burst of 16 words stops at the 4 KiB boundary, which is the window's end: the second one is outside
        assert [(n.kind, n.address) for n in made.notes()] == [
            (Violation.OUTSIDE_READ, SOURCE + len(source))
        ]
        # the engine is well again afterwards
        made.clear_statistics()
        assert made.run({"source": SOURCE, "target": TARGET, "words": 16}).error is None
        assert np.array_equal(target[:128], expected(source, 128, 0, 0, 128))
        # read-only windows cannot be written
        assert made.run({"source": SOURCE, "target": SOURCE, "words": 16}).error == HardwareError(
            ErrorCode.BUS_WRITE, 0
        )
        assert [n.kind for n in made.notes()] == [Violation.OUTSIDE_WRITE]


def test_injected_faults(one):
    memory = FixedLatency(9, 4)
    for fault in ("read", "write"):
        made, source, target = session(one, memory)
        with made:
            (fail_read if fault == "read" else fail_write)(made, 0, 2)
            values = {"source": SOURCE + 8, "target": TARGET + 8, "words": 1000}
            report = made.run(values)
            assert report.error == HardwareError(
                ErrorCode.BUS_READ if fault == "read" else ErrorCode.BUS_WRITE, 0
            )
            assert report.status == Status.IDLE | Status.ERROR
            assert str(report).startswith(
                f"failed after {report.cycles} cycles: BUS_{fault.upper()} at block 0\n"
            )
            report = made.run(values)
            assert report.error is None
            assert report.cycles == copy_cycles(memory, bus_bytes=8, ports=1, stride=0, **values)
            assert np.array_equal(target, expected(source, len(target), 8, 8, 8000))


def test_words_before_their_address(one, tmp_path):
    """Legal: they are taken at once, and written once their address is known."""
    engine = CopyEngine(bus_bytes=8, ports=2)
    shell = Shell(engine, engine.register_map)
    ports = toolchain.design_ports(shell)
    path = toolchain.build_library(late_addresses(to_verilog(shell)), ports)
    for stall in (0, 40):
        made, source, target = session(
            Library(path, ports, engine.register_map), FixedLatency(5, 8)
        )
        with made:
            made.set_memory(FixedLatency(5, 8), stall_percent=stall, seed=3)
            made.record(1)
            values = {"source": SOURCE + 40, "target": TARGET + 4000, "words": 333, "stride": 4096}
            assert made.run(values).error is None
            assert made.notes() == []
            expect = expected(source, len(target), 40, 4000, 2664)
            expect |= expected(source, len(target), 40 + 4096, 4000 + 4096, 2664)
            assert np.array_equal(target, expect)
            writes = [record for record in made.records(1) if record.channel == "write"]
            assert sum(record.beats for record in writes) == 333


def test_hang_is_reported(one):
    made, _, _ = session(one, FixedLatency(4, 8))
    with made:
        values = {"source": SOURCE, "target": TARGET, "words": 100, "hold": 1}
        report = made.run(values, limit=500)
        assert not report.finished and report.status == Status.BUSY and report.simulated == 500
        assert report.monitors == (MonitorState("queue0", True, False, 6),)
        idle = MonitorState.all(one.register_map, {"monitor_queue0": 6 << 16 | 2}.__getitem__)
        assert idle == (MonitorState("queue0", False, True, 6),)
        assert str(report) == (
            "not finished after 500 cycles (<Status.BUSY: 2>)\n  words_copied: 6\n"
            "  queue0 is blocked: its consumer is not ready, level 6"
        )
        made.stop()
        report = made.run(values, watchdog=200)
        assert report.error == HardwareError(ErrorCode.WATCHDOG)
        assert report.monitors == (MonitorState("queue0", True, False, 6),)
        assert report.cycles > 200
        assert made.run(values | {"hold": 0}, watchdog=200).error is None


def test_a_memory_that_does_not_answer_hangs_nothing(one):
    """The watchdog, and without it a soft reset, come to their end; a hard reset brings the port back."""
    silent = FixedLatency(4, 8)
    object.__setattr__(silent, "latency", 1 << 30)  # no model has as many cycles
    made, _, _ = session(one, silent)
    values = {"source": SOURCE, "target": TARGET, "words": 100}
    dead = Status.IDLE | Status.DEAD
    with made:
        report = made.run(values, watchdog=200)
        assert (report.status, report.error) == (
            dead | Status.ERROR,
            HardwareError(ErrorCode.WATCHDOG),
        )
        assert report.error.hint == ErrorCode.DEAD_PORT.hint and report.simulated < 800
        report = made.run(values, watchdog=200)
        assert (report.status, report.error, report.cycles) == (
            dead | Status.ERROR,
            HardwareError(ErrorCode.DEAD_PORT),
            0,
        )
        with pytest.raises(RunError, match="DEAD_PORT at block 0: a memory port made no transfer"):
            made.stop()
        made.reset()
        assert not made.run(values, limit=500).finished
        begin = made.cycle
        with pytest.raises(RunError, match="DEAD_PORT"):
            made.stop()
        assert PATIENCE < made.cycle - begin < 1.2 * PATIENCE
        made.reset()
        made.set_memory(FixedLatency(4, 8))
        assert made.run(values).error is None


def test_registers(one):
    made, _, _ = session(one, FixedLatency(1000, 8))
    with made:
        rmap = one.register_map
        assert (
            made.read("identity") == 0x504E5354
            and made.read("version") == 0x1_0001
            and made.read("design") == rmap.design
        )
        assert made.read("key") == KEY
        made.write("source", 0x12_3456_7890)
        assert made.read("source") == 0x12_3456_7890
        made.write("target", 0xFF_FFFF_FFFF)
        assert made.read("target") == 0xFF_FFFF_FFFF
        with pytest.raises(RegisterError, match=r"^write to register 0x0: SLVERR$"):
            made.write_word(0, 1)
        with pytest.raises(RegisterError, match=r"^read of register 0xff8: DECERR$"):
            made.read_word(0xFF8)
        with pytest.raises(RegisterError, match=r"^write to register 0xff8: DECERR$"):
            made.write_word(0xFF8, 0)
        with pytest.raises(ValueError, match=r"^register key: 4294967296 does not fit in 32 bits$"):
            made.write("key", 1 << 32)
        made.run({"source": SOURCE, "target": TARGET, "words": 8}, limit=20)
        with pytest.raises(RegisterError, match=r"SLVERR$"):
            made.write("words", 9)
        assert made.read("words") == 8
        assert made.resume(10_000).finished


def test_windows(one):
    made, _, _ = session(one, FixedLatency())
    with made:
        with pytest.raises(
            ValueError, match=r"^the window at 0x101000 overlaps the one at 0x100000$"
        ):
            made.map(SOURCE + 4096, np.zeros(8, np.uint8))
        with pytest.raises(
            ValueError, match=r"^a memory window must begin at a multiple of 4096, not 0x8$"
        ):
            made.map(8, np.zeros(8, np.uint8))
        with pytest.raises(ValueError, match="C-contiguous"):
            made.map(0, np.zeros((8, 8), np.uint8)[:, :4])
        unmap(made, SOURCE)
        report = made.run({"source": SOURCE, "target": TARGET, "words": 8})
        assert report.error == HardwareError(ErrorCode.BUS_READ)


def test_protocol_checks():
    """A design that breaks the rules: bursts over the 4 KiB boundary."""
    engine = CopyEngine(bus_bytes=8, ports=1)
    text = to_verilog(Shell(engine, engine.register_map))
    broken, count = re.subn(r"assign m0_axi_arlen = (.*);", "assign m0_axi_arlen = 8'hff;", text)
    assert count == 1
    lib = build(broken, ports=[PortSpec("m0_axi", 8)], register_map=engine.register_map)
    made, _, _ = session(lib, FixedLatency())
    with (
        made,
        pytest.raises(
            ProtocolError, match=r"^m0_axi: CROSSES_4K at address 0x100ff8 in cycle \d+$"
        ),
    ):
        made.run({"source": SOURCE + 4088, "target": TARGET, "words": 1}, limit=1000)


def test_cache(one, monkeypatch):
    engine = CopyEngine(bus_bytes=8, ports=1)
    monkeypatch.setattr(toolchain, "_run", None)  # a second build starts no tool
    again = build(Shell(engine, engine.register_map))
    assert again.path == one.path
    assert dataclasses.replace(again) == one


def test_missing_tools(monkeypatch):
    monkeypatch.setattr(toolchain.shutil, "which", lambda tool: None)
    with pytest.raises(
        BuildError,
        match=r"^simulation needs g\+\+, make; on Debian or Ubuntu: apt-get install g\+\+ make$",
    ):
        toolchain.require("g++", "make")


def test_bad_verilog():
    with pytest.raises(BuildError, match=r"^verilator_bin failed:\n.*%Error: design\.v:1:"):
        build(
            "module penstock(; endmodule\n", ports=[PortSpec("m0_axi", 8)], register_map=copy_map()
        )


def test_level(monkeypatch):
    monkeypatch.delenv("PENSTOCK_OPTIMISE")
    assert [level(cycles) for cycles in (None, 1000, 10**6)] == ["-O1", "-O0", "-O1"]
    # an oblivious map's handshake
    assert [level(290_000, lines) for lines in (12_000, 58_000)] == ["-O0", "-O1"]
    monkeypatch.setenv("PENSTOCK_OPTIMISE", "-O2")
    assert level(1000) == "-O2"
    monkeypatch.setenv("PENSTOCK_OPTIMISE", "fast")
    with pytest.raises(BuildError, match=r"^PENSTOCK_OPTIMISE is 'fast', not one of -O0, -O1, "):
        level()


def test_bare_loop(one):
    with Session(one) as session:
        assert session.bare_loop(1000) > 0


def test_waves_name_their_format():
    assert [wave_format(name) for name in ("w.fst", Path("a.b/W.VCD"))] == ["fst", "vcd"]
    for name in ("w", "w.fst.gz", "fst"):
        with pytest.raises(
            ValueError, match=r"^waves are written as FST or as VCD, which the suffix of "
        ):
            wave_format(name)


@pytest.mark.parametrize("kind", ["vcd", pytest.param("fst", marks=pytest.mark.long)])
def test_waves(kind, tmp_path):
    """A file of the format that was asked for, with the signals of the window of cycles that somebody named."""
    path = tmp_path / f"waves.{kind}"
    made, _, _ = session(library(8, 1, trace=kind), FixedLatency())
    with made:
        made.trace(path, first=20, cycles=50)
        made.run({"source": SOURCE, "target": TARGET, "words": 8})
    if kind == "vcd":
        text = path.read_text()
        names = re.findall(r"\$var\s+\w+\s+\d+\s+\S+\s+(\S+)", text)
        times = [int(line[1:]) for line in text.splitlines() if line.startswith("#")]
        assert {"clk", "rst", "m0_axi_arvalid", "m0_axi_rdata"} <= set(names)
        assert not [name for name in names if name.startswith(("$", "_"))]
    else:  # the header: its block's type and length, and the first and last time
        times = struct.unpack_from(">9xQQ", path.read_bytes())
    assert (min(times), max(times)) == (200, 695)


@pytest.mark.parametrize("mode", Mode)
def test_modes(two, mode):
    """Memory that does what AXI4 allows changes cycles alone."""
    made, source, target = session(two, FixedLatency(5, 8))
    values = {"source": SOURCE + 40, "target": TARGET + 4000, "words": 333, "stride": 4096}
    with made:
        plain = made.run(values).cycles
        for seed, stall in ((1, 0), (2, 50)):
            target[:] = 0
            made.set_memory(FixedLatency(5, 8), stall_percent=stall, modes=mode, seed=seed)
            report = made.run(values, limit=200_000)
            assert report.error is None and report.cycles >= plain
            expect = expected(source, len(target), 40, 4000, 2664)
            expect |= expected(source, len(target), 40 + 4096, 4000 + 4096, 2664)
            assert np.array_equal(target, expect)
    assert len({Mode.drawn(seed) for seed in range(200)}) == 3 * 8


@pytest.mark.parametrize("mode", [Mode.ADDRESS_WAITS, Mode.DATA_FIRST])
def test_words_that_wait_for_awready(mode, one):
    """AXI4 forbids it (A3.3.1): such memory names the port, and the run ends."""
    engine = CopyEngine(bus_bytes=8, ports=1)
    shell = Shell(engine, engine.register_map)
    ports = toolchain.design_ports(shell)
    path = toolchain.build_library(words_after_awready(to_verilog(shell)), ports, optimise="-O0")
    made, source, target = session(Library(path, ports, engine.register_map), FixedLatency())
    with made:
        values = {"source": SOURCE, "target": TARGET, "words": 100}
        assert made.run(values).error is None  # today's memory does not see it
        made.set_memory(FixedLatency(), modes=mode)
        with pytest.raises(
            ProtocolError,
            match=r"^m0_axi: W_WAITS_FOR_AWREADY at address 0x100000000 in cycle \d{6}$",
        ):
            made.run(values)
        assert made.cycle < 110_000
        made.reset()
        made.set_memory(FixedLatency())
        made.clear_statistics()
        assert made.run(values).error is None
        assert np.array_equal(target[:800], expected(source, 800, 0, 0, 800))
