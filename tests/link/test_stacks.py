"""A whole device in RTL, at the bytes of its PHY, and the kernel's network stack."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

import penstock as ps
from penstock.hdl.soc import Soc
from penstock.host.device import Device, Udp
from penstock.models.link.ethernet import Station
from penstock.sim.board import CLOCK_HZ, verilog
from testbench.stacks import alone, echoed, tapped
from testbench.wired import Framed, Wired

STATION = Station(bytes.fromhex("02a0b0c0d0e1"), bytes([10, 0, 0, 9]), 5004)
SOURCE = "random:rows=60"
KERNEL = """kernel logistic(x: input[3], y: output, w: model[3], rate: meta = 0.1)
  error = sigmoid(sum(w * x)) - y
  w    <- w - rate * merge(error * x, 4)
"""


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Any:
    (file := tmp_path_factory.mktemp("k") / "small.psk").write_text(KERNEL)
    return ps.compile(file, "colorlight-i5", SOURCE, "fixed:8,8")


@pytest.fixture(scope="module")
def source(design: Any) -> str:
    engine, library = design.compiled.hardware()
    sizes = {"memory_bytes": 1 << 15, "clock_hz": CLOCK_HZ, "baud": None, "station": STATION}
    soc = Soc(engine, engine.register_map, library=library, **sizes)
    return verilog(Wired(soc))


@pytest.mark.long
def test_the_kernels_stack(design: Any, source: str) -> None:
    """ARP, ping and UDP of the kernel's own: echoes of all lengths, then a training over the transport that `ps.open` takes."""
    sizes = (0, 1, 17, 56, 1472)

    def talked() -> tuple[list[bytes], Any] | str:
        with ExitStack() as joined:
            try:
                alone()
                joined.enter_context(tapped(board, "10.0.0.200"))
            except OSError as problem:
                return f"no TAP: {problem}"
            echoes = [echoed("10.0.0.9", (bytes(range(256)) * 6)[:size]) for size in sizes]
            connect = partial(Udp, timeout=30.0)
            with Device("10.0.0.9", connect, register_map=design.compiled.registers) as device:
                return echoes, design.run(SOURCE, "board", device=device)

    with Framed(source, bytes, bytes) as board, ThreadPoolExecutor(1) as own:
        said = own.submit(talked).result()
    if isinstance(said, str):
        pytest.skip(said)
    echoes, run = said
    assert echoes == [(bytes(range(256)) * 6)[:size] for size in sizes]
    golden = design.run(SOURCE, "golden")
    assert run.ok and all((run.codes[name] == codes).all() for name, codes in golden.codes.items())
