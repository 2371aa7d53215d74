"""A whole device in RTL, at the bytes of its PHY, and the kernel's network stack."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.host.device.device import Device
from penstock.host.device.udp import Udp
from testbench.command_line import told
from testbench.stacks import alone, echoed, joined

SOURCE = "random:rows=60"
KERNEL = """kernel logistic(x: input[3], y: output, w: model[3], rate: meta = 0.1)
  error = sigmoid(sum(w * x)) - y
  w    <- w - rate * merge(error * x, 4)
"""


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Any:
    (file := tmp_path_factory.mktemp("k") / "small.psk").write_text(KERNEL)
    return ps.compile(file, "colorlight-i5", SOURCE, "fixed:8,8")


@pytest.mark.long
def test_the_kernels_stack(design: Any, tmp_path: Path) -> None:
    """ARP, ping and UDP of the kernel's own: echoes of all lengths, then a training over the transport that `ps.open` takes."""
    sizes = (0, 1, 17, 56, 1472)
    design.save(tmp_path / "design")
    command = [sys.executable, "-m", "penstock", "emulate", "design", "--ip-address", "10.0.0.9"]
    command += ["--tap", "penstock"]

    def talked() -> tuple[list[bytes], Any] | str:
        try:
            alone()
            os.close(os.open("/dev/net/tun", os.O_RDWR))
        except OSError as problem:
            return f"no TAP: {problem}"
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "design on udp:penstock:10.0.0.9\n"
                joined("penstock", "10.0.0.200")
                echoes = [echoed("10.0.0.9", (bytes(range(256)) * 6)[:size]) for size in sizes]
                connect = partial(Udp, timeout=30.0)
                with Device("10.0.0.9", connect, register_map=design.compiled.registers) as device:
                    return echoes, design.run(SOURCE, "board", device=device)
            finally:
                process.kill()

    with ThreadPoolExecutor(1) as own:  # a network is a thread's
        said = own.submit(talked).result()
    if isinstance(said, str):
        pytest.skip(said)
    echoes, run = said
    assert echoes == [(bytes(range(256)) * 6)[:size] for size in sizes]
    golden = design.run(SOURCE, "golden")
    assert run.ok and all((run.codes[name] == codes).all() for name, codes in golden.codes.items())


def test_a_tap_needs_an_address() -> None:
    for more in ("--tap tap0", "--ip-address 10.0.0.9"):
        assert "--tap and --ip-address go together" in told(f"emulate design {more}", 1)
    said = told("emulate design --tap tap0 --ip-address 10.0.0", 1)
    assert "'10.0.0' is no IPv4 address" in said
    for address in ("0.0.0.0", "127.0.0.1", "255.255.255.255", "224.0.0.1"):
        said = told(f"emulate design --tap tap0 --ip-address {address}", 1)
        assert f"{address} is no address of a device" in said
    assert "65535" in told("emulate design --port 65536", 1).replace(",", "")
