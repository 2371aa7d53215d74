"""host/device/xdma.py over the double of AMD's driver, in front of the Verilated top of the project folder that `build` writes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.boards.vendor import project
from penstock.cli.main import run
from penstock.host.device.device import Device
from penstock.host.device.errors import DeviceError, LinkError
from penstock.host.device.machine import DeviceMachine
from penstock.host.device.xdma import Xdma
from penstock.models.memory import FixedLatency
from penstock.sim.native import Session, build
from penstock.targets import target_named
from testbench.kernels.by_index import LRMF, ratings
from testbench.xdma import Troubled

KERNEL = """kernel small(x: input[2], y: output, w: model[2], rate: meta = 0.1)
  w    <- w - rate * merge((sum(w * x) - y) * x, 4)
  epochs 2
"""
SIZE = 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("u55c")
    (place / "small.psk").write_text(KERNEL)
    options = "--format fixed:4,4 --threads 1 --lanes 1 --ports 1 -q".split()
    out = str(place / "out")
    command = ["build", str(place / "small.psk"), "--board", "u55c", *options, "--out", out]
    assert run(command) == 0
    return place / "out"


@pytest.fixture
def driver(folder: Path) -> Iterator[Troubled]:
    design = ps.load(folder).compiled
    text = (folder / "penstock.v").read_text()
    made = build(text, ports=design.bus_ports, register_map=design.registers)
    with Session(made, FixedLatency(20, 32)) as session:
        yield Troubled(session, SIZE)


def opened(driver: Troubled, design: Any) -> Device:
    connect = lambda at: Xdma(at, 2.0, files=driver)
    return Device("/dev/xdma0", connect, register_map=design.compiled.registers)


def test_a_saved_project_runs_on_a_device(folder: Path, driver: Troubled) -> None:
    design, table = ps.load(folder), "random:rows=90"
    with opened(driver, design) as device:
        golden = design.run(table, "golden")
        for _ in range(2):
            found = design.run(table, "board", device=device)
            assert found.ok and found.result["w"].tolist() == golden.result["w"].tolist() != [0, 0]
        assert device.statistics.again > 0 and set(driver.calls) == {"user", "h2c_0", "c2h_0"}
    assert not driver.opened


def test_what_the_driver_may_do(folder: Path, driver: Troubled) -> None:
    design, content = ps.load(folder), np.random.default_rng(2).bytes(5000)
    with opened(driver, design) as device:
        device.write(77, content)
        assert device.read(77, 5000) == content == driver.memory[77:5077].tobytes()
        assert device.read(0, 0) == b""
        device.write_register("watchdog", 5)
        assert device.read_register("watchdog") == 5
        with pytest.raises(LinkError, match="c2h_0 failed: Input/output error"):
            device.read(SIZE - 10, 20)
        with pytest.raises(LinkError, match="c2h_0 failed"):
            device.read(0, 4)
        device.reopen()
        driver.fails, driver.after = errno.ENODEV, 0
        with pytest.raises(LinkError, match="h2c_0 failed: No such device"):
            device.write(0, b"more")
    with pytest.raises(LinkError, match="is closed"):
        device.read(0, 4)


def test_a_device_in_simulation(folder: Path) -> None:
    """Behind the driver's files, as an address says."""
    design, table = ps.load(folder), "random:rows=90"
    with ps.open(f"sim:{folder}?link=xdma") as device:
        for _ in range(2):
            found, golden = design.run(table, "board", device=device), design.run(table, "golden")
            assert found.ok and found.result["w"].tolist() == golden.result["w"].tolist() != [0, 0]
            assert found.cycles == design.run(table, "model").cycles
        device.reopen()
        assert device.read_register("design") == design.registers.design
    with ps.open(f"sim:{folder}?link=xdma", memory_bytes=1 << 16) as device:
        assert device.identity.memory_bytes == 1 << 16


def test_addresses(folder: Path) -> None:
    with pytest.raises(LinkError, match="/dev/xdma77_user cannot be opened") as found:
        ps.open("xdma:/dev/xdma77", design=folder)
    with pytest.raises(LinkError, match="cannot be opened"):
        ps.open("xdma:/dev/xdma\0")
    assert "AMD's driver" in found.value.hint
    with pytest.raises(DeviceError):
        ps.open("xdma:")


def test_ports_with_channels_of_their_own(tmp_path: Path) -> None:
    """Rows over several ports in the project's hardware, behind which is one memory: each port stays in its channel, where the host put its rows."""
    (tmp_path / "k.psk").write_text(LRMF + "  batch 8\n")
    table, part = ratings(np.random.default_rng(8), 40, 60, 90), target_named("u55c")
    part = replace(part, memory=replace(part.memory, bytes=4 * SIZE, channels=32))
    place, dims = ps.Choices(place={"P": "memory", "Q": "memory"}), {"m": 60, "n": 90, "k": 10}
    design = ps.compile(tmp_path / "k.psk", part, table, "float32", dims=dims, choices=place)
    made, channel = design.compiled, 4 * SIZE // 32
    spaces = [port.space for port in made.bus_ports]
    assert spaces[0] == 0 and spaces[1:] == list(range(1, made.plan.rows.deal.ports + 1)) != []
    text = project(part, made.hardware, spaces)["penstock.v"].decode()
    ports = [replace(port, space=0) for port in made.bus_ports]
    library = build(text, ports=ports, register_map=made.registers)
    with Session(library, FixedLatency(20, 32)) as session:
        driver = Troubled(session, 4 * SIZE)
        with opened(driver, design) as device:
            golden = design.run(table, "golden")
            found = design.run(table, "board", device=device)
            assert found.ok and all(
                np.array_equal(codes, golden.codes[name]) for name, codes in found.codes.items()
            )
            machine = DeviceMachine(device, memory=part.memory, alone=max(spaces))
            begin = 4 * SIZE - max(spaces) * channel
            for space, size in ((0, begin), (1, channel)):
                machine.reserve(0, size, space=space)
                with pytest.raises(DeviceError, match=f"takes {size + 1} bytes of memory"):
                    machine.reserve(0, size + 1, space=space)
        used = driver.memory[begin:].reshape(-1, channel).any(1)
        assert used.all() and not driver.memory[SIZE:begin].any()


def test_pages_of_several_ports(tmp_path: Path) -> None:
    """Each port's pages begin in a channel of their own."""
    (tmp_path / "small.psk").write_text(KERNEL)
    part = target_named("u55c")
    part = replace(part, memory=replace(part.memory, bytes=SIZE))
    design = ps.compile(
        tmp_path / "small.psk", part, "random:rows=300", choices=ps.Choices(ports=2)
    )
    made, channel = design.compiled, SIZE // 32
    text = project(part, made.hardware, [port.space for port in made.bus_ports])["penstock.v"]
    library = build(text.decode(), ports=made.bus_ports, register_map=made.registers)
    with Session(library, FixedLatency(20, 32)) as session:
        driver = Troubled(session, SIZE)
        with opened(driver, design) as device:
            found = design.run("random:rows=300", "board", device=device)
        golden = design.run("random:rows=300", "golden")
        assert found.ok and found.result["w"].tolist() == golden.result["w"].tolist() != [0, 0]
        pages = driver.memory[channel:].reshape(-1, 8192).any(1)
        assert pages[0] and not pages[-1] and not driver.memory[channel - 4096 : channel].any()
