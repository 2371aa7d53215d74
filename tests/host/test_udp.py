"""host/device/udp.py on a golden device behind a socket of loopback; addresses that are none."""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import penstock as ps
from penstock.host.device.device import Device
from penstock.host.device.errors import DeviceError, LinkError
from penstock.host.device.transport import Refused
from penstock.host.device.udp import Udp
from penstock.models.link.envelope import SILENCE, Envelope
from penstock.runs.devices import transports
from testbench.link_cases import MAP, SIZE
from testbench.networks import Logged


class Peer:
    """The golden device, which loses every `loses`-th datagram, and may fall silent."""

    def __init__(self) -> None:
        self.device = Logged(ring=1 << 16)
        self.envelope = Envelope(self.device, SILENCE * 1000)
        self.line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.line.bind(("127.0.0.1", 0))
        self.port = self.line.getsockname()[1]
        self.loses, self.silent, self.count, self.ends = 0, False, 0, False

    def serve(self) -> None:
        self.line.settimeout(0.05)
        while not self.ends:
            try:
                datagram, host = self.line.recvfrom(2048)
            except TimeoutError:
                continue
            self.count += 1
            if self.silent or (self.loses and self.count % self.loses == 0):
                continue
            answer = self.envelope.receive(datagram, int(time.monotonic() * 1000))
            if answer is not None:
                self.line.sendto(answer, host)


@contextmanager
def peer() -> Iterator[Peer]:
    device = Peer()
    thread = threading.Thread(target=device.serve)
    thread.start()
    try:
        yield device
    finally:
        device.ends = True
        thread.join()
        device.line.close()


def opened(device: Peer, timeout: float = 2.0) -> Device:
    return ps.open(f"udp:127.0.0.1:{device.port}", register_map=MAP, timeout=timeout)


def test_memory_registers_and_a_run() -> None:
    content = np.random.default_rng(1).integers(0, 256, SIZE - 77, dtype=np.uint8)
    with peer() as it, opened(it) as device:
        it.loses = 7
        device.write(77, content)
        assert device.read(77, len(content)) == content.tobytes() == it.device.memory.content[77:]
        device.write_register("source", 0x12_3456_789A)
        assert device.read_register("source") == 0x12_3456_789A and device.read(0, 0) == b""
        assert device.run({"key": 9}).counters == {"words": 77}
        with pytest.raises(DeviceError, match="identity was answered with SLVERR"):
            device.write_register("identity", 1)
        del it.device.memory.content[SIZE // 2 :]  # less than it says
        with pytest.raises(DeviceError, match="memory at 0x0 was answered with SLVERR"):
            device.write(0, bytes(SIZE))
        device.write(0, b"more")  # the error was that transfer's
        assert device.statistics.again > 0
    assert it.envelope.session == 0  # closed: who comes next does not wait


def test_beside_many_open_files() -> None:
    """More than `select` takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with peer() as it, opened(it) as device:
            assert device.read_register("identity")
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_rings_that_are_none() -> None:
    """A device without one, and rings that no request describes: who feeds them writes registers."""
    with peer() as it, opened(it) as device:
        line = device.pushing
        assert line is not None
        for slots, page in ((4, 1024), (1025, 1024), (4, 512)):
            with pytest.raises(Refused):
                line.begin(0, 0, slots, page)
        device.write(0, b"more")


def test_hosts_that_come_and_go() -> None:
    with peer() as it, opened(it, 0.3) as device:
        with pytest.raises(LinkError, match="another host has the device"):
            opened(it, 0.3)
        it.envelope.session = 77  # as where it was switched off and on, or taken over
        with pytest.raises(LinkError, match="another host took the device over"):
            device.read(0, 4)
        with pytest.raises(LinkError, match="another host took"):
            device.write(0, b"more")
        it.envelope.session = 0
        device.reopen()
        it.silent = True
        begin = time.monotonic()
        with pytest.raises(LinkError, match=r"did not answer for 0\.3 s"):
            device.write(0, bytes(5000))
        assert 0.29 < time.monotonic() - begin < 0.8
    with pytest.raises(LinkError, match="is closed"):
        device.read(0, 1)
    with pytest.raises(LinkError, match="nothing listens there"):
        opened(it)


def test_an_interrupted_call_sends_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with peer() as it, opened(it) as device:
        it.silent = True
        with monkeypatch.context() as patch:

            def interrupt(*_: object) -> None:
                raise KeyboardInterrupt

            poll = SimpleNamespace(poll=interrupt)
            patch.setattr(device._transport, "_poll", poll)
            with pytest.raises(KeyboardInterrupt):
                device.write(0, b"1" * 3000)
        time.sleep(0.1)
        it.silent = False
        device.write(0, b"2" * 2000)
        assert it.device.memory.content[:3000] == b"2" * 2000 + bytes(1000)


def test_closing_under_a_transfer() -> None:
    with peer() as it:
        device = opened(it, 20)
        it.silent = True
        timer = threading.Timer(0.1, device.close)
        timer.start()
        with pytest.raises(LinkError, match="is closed"):
            device.read(0, 5000)
        timer.join()


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        *(("usb:1", "a serial port or an address"), ("udp:", "a serial port or an address")),
        *(("udp:host:0", "without a port it is 5004"), ("udp:a b", "udp:HOST or udp:HOST:PORT")),
        *(("udp:host:99999", "udp:HOST:PORT"), ("udp:http://x", "udp:HOST")),
        ("sim:out?link=pcie", "sim:DIR?link=udp or sim:DIR?link=xdma"),
    ],
)
def test_addresses_that_are_none(address: str, hint: str) -> None:
    with pytest.raises(DeviceError) as found:
        ps.open(address)
    assert found.value.code == "E831" and hint in found.value.hint


def test_a_transport_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with peer() as it:
        monkeypatch.setitem(
            transports(), "mine", lambda at, timeout: Udp(f"127.0.0.1:{at}", timeout)
        )
        with ps.open(f"mine:{it.port}", register_map=MAP) as device:
            assert device.design == MAP.design
