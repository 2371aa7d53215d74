"""host/device: lines and peers that misbehave, ports that are none, calls that are interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.host.device.errors import DeviceError, LinkError
from penstock.host.device.opening import serial_device
from penstock.models.link.device import Device as GoldenDevice
from penstock.models.link.device import Identity
from penstock.models.link.frames import FrameError, Parser, decode_request
from penstock.models.shell import Status
from penstock.runs.devices import open_device
from penstock.sim.serial import SerialServer
from testbench.link_cases import MAP, SIZE, Golden, Paced, Registers, Silent, Words, golden

KEY = MAP["key"].offset


def test_a_register_write_whose_sequence_came_round() -> None:
    """A device takes a register write with the sequence of the one before for a repeated one: the host must not use that, 256 requests later."""
    endpoint, registers, _ = golden()
    with SerialServer(endpoint) as server, serial_device(server.path, register_map=MAP) as device:
        registers.log.clear()
        for gap in (254, 255, 256, 511):
            for _ in range(gap):
                device.read(0, 1)
            device.write_register("key", gap)
        assert registers.log == [(KEY, gap) for gap in (254, 255, 256, 511)]


class Flooding:
    """Garbage, with flags in it, comes before the first answer, and a long one before the fourth."""

    active = False

    def __init__(self, text: bytes) -> None:
        self.endpoint, self.text, self.count = golden()[0], text, 0

    def exchange(self, data: bytes) -> bytes:
        self.count += bool(data)
        return self.text * (self.count in (1, 4)) + self.endpoint.exchange(data)


@pytest.mark.parametrize(
    "text",
    [bytes(range(256)) * 40, b"~ab" * 4000, b"~~~}~}}" * 300, b"x" * 30_000],
    ids=["all", "short", "escapes", "endless"],
)
def test_garbage_before_an_answer(text: bytes) -> None:
    with (
        SerialServer(Flooding(text)) as server,
        serial_device(server.path, register_map=MAP) as device,
    ):
        device.write(3, b"abc")
        assert device.read(2, 5) == b"\0abc\0"
        assert (
            device.statistics.again < 40
        )  # the line back is not filled with what garbage is taken for


class Echo:
    active = False

    def exchange(self, data: bytes) -> bytes:
        return data


def test_a_peer_that_is_no_device() -> None:
    with SerialServer(Echo()) as server:
        begin = time.monotonic()
        with pytest.raises(LinkError, match=r"did not answer for 0\.3 s"):
            serial_device(server.path, timeout=0.3)
        assert 0.3 <= time.monotonic() - begin < 0.6


def test_a_slow_line() -> None:
    """The timer knows how long a request is on the wire: what is on its way is not sent again."""
    with (
        SerialServer(Paced(golden()[0], 9600)) as server,
        serial_device(server.path, baud=9600, register_map=MAP) as device,
    ):
        content = bytes(range(256)) * 3
        device.write(1, content)
        assert device.read(1, 100) == content[:100]
        assert device.statistics.again <= device.statistics.sent // 2


class Losing:
    """Every fifth request is lost."""

    active = False

    def __init__(self) -> None:
        self.device, self.parser, self.count = golden()[0].device, Parser(), 0

    def exchange(self, data: bytes) -> bytes:
        out = b""
        for body in self.parser.feed(data):
            self.count += 1
            out += b"" if self.count % 5 == 0 else self.device.answer(decode_request(body)).encode()
        return out


def test_answers_tell_of_losses() -> None:
    """Without the timer, which is set to a second here: an answer says that requests sent before were lost."""
    with (
        SerialServer(Losing()) as server,
        serial_device(server.path, baud=300, timeout=3, register_map=MAP) as device,
    ):
        begin = time.monotonic()
        device.write(0, bytes(range(256)) * 16)
        assert device.statistics.again >= 5
        assert time.monotonic() - begin < 3  # not a second for each


@pytest.mark.parametrize(
    "wrong", [{"sequence": 77}, {"kind": 6}, {"data": b"12"}, {"status": 1 << 4}]
)
def test_answers_to_something_else(wrong: dict[str, Any]) -> None:
    """What is no answer to the request is not taken for one."""
    device = golden()[0].device

    class Other:
        active = False
        lie = False

        def exchange(self, data: bytes) -> bytes:
            bodies = [decode_request(body) for body in parser.feed(data)]
            return b"".join(
                replace(device.answer(b), **wrong if self.lie else {}).encode() for b in bodies
            )

    parser, endpoint = Parser(), Other()
    with (
        SerialServer(endpoint) as server,
        serial_device(server.path, timeout=0.2, register_map=MAP) as connected,
    ):
        assert connected.read(0, 3) == bytes(3)
        endpoint.lie = True
        timer = threading.Timer(
            0.5, lambda: setattr(endpoint, "lie", False)
        )  # such a peer is heard, so it is not given up
        timer.start()
        begin = time.monotonic()
        with suppress(LinkError):
            assert connected.read(0, 3) == bytes(3) and time.monotonic() - begin > 0.4
        timer.join()


class Bursts:
    """A line that loses everything for a while, again and again."""

    active = False

    def __init__(self) -> None:
        self.endpoint, self.begin = golden()[0], time.monotonic()

    def exchange(self, data: bytes) -> bytes:
        dead = (time.monotonic() - self.begin) % 0.15 > 0.1
        return b"" if dead else self.endpoint.exchange(data)


def test_bursts() -> None:
    with SerialServer(Bursts()) as server, serial_device(server.path, register_map=MAP) as device:
        content = bytes(range(256)) * (SIZE // 256)
        device.write(0, content)
        assert device.read(0, SIZE) == content


# calls that end early


def test_closing_under_a_transfer() -> None:
    """Whoever is in a call gets LinkError; closing waits for nobody for long."""
    endpoint = Silent(golden()[0])
    seen: list[BaseException] = []
    with SerialServer(endpoint) as server:
        device = serial_device(server.path, timeout=20, register_map=MAP)
        endpoint.silent = True

        def transfer() -> None:
            try:
                device.read(0, 5000)
            except BaseException as problem:
                seen.append(problem)

        threads = [threading.Thread(target=transfer) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        begin = time.monotonic()
        device.close()
        device.close()
        for thread in threads:
            thread.join(5)
        assert time.monotonic() - begin < 2
    assert [type(s) for s in seen] == [LinkError] * 3 and "is closed" in str(seen[0])


def test_an_interrupted_call_sends_nothing_more() -> None:
    endpoint, registers, memory = golden()
    line = Silent(endpoint)
    with (
        SerialServer(line) as server,
        serial_device(server.path, timeout=20, register_map=MAP) as device,
    ):
        for call in (
            lambda: device.write(0, bytes([1]) * 2000),
            lambda: device.write_register("key", 1),
            lambda: device.read(0, 3000),
        ):
            line.silent = True
            timer = threading.Timer(
                0.2, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            )
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                call()
            timer.join()
            line.silent = False
            registers.log.clear()
            device.write(0, bytes([2]) * 2000)
            device.write_register("key", 2)
            time.sleep(0.5)  # what is left over would come by now
            assert memory.content[:2000] == bytes([2]) * 2000
            values = [
                v for _, v in registers.log
            ]  # a request may have been on the line already, before the next call's
            assert values[-1:] == [2] and values.count(2) == 1
        assert device.read(1, 2) == b"\2\2"


def test_an_interrupt_that_wakes_nobody() -> None:
    """A signal that came just before the call blocked, or that another thread took, ends the call as well."""
    line = Silent(golden()[0])
    with (
        SerialServer(line) as server,
        serial_device(server.path, timeout=20, register_map=MAP) as device,
    ):
        line.silent = True
        timer = threading.Timer(
            0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        )
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            device.read(0, 3000)
        timer.join()
        line.silent = False
        assert device.read(1, 2) == b"\0\0"  # not ended by the time-out


def test_inside_an_event_loop() -> None:
    endpoint, _, _ = golden()

    async def main(path: str) -> list[bytes]:
        with serial_device(path, register_map=MAP) as device:
            device.write(0, b"abcd")
            return list(
                await asyncio.gather(*(asyncio.to_thread(device.read, k, 2) for k in range(3)))
            )

    with SerialServer(endpoint) as server:
        assert asyncio.run(main(server.path)) == [b"ab", b"bc", b"cd"]


def test_a_time_out_is_kept() -> None:
    endpoint = Silent(golden()[0])
    with (
        SerialServer(endpoint) as server,
        serial_device(server.path, timeout=0.3, register_map=MAP) as device,
    ):
        for call in (lambda: device.read(0, 1), device.reopen, device.reopen):
            endpoint.silent = True
            begin = time.monotonic()
            with pytest.raises(LinkError, match="did not answer"):
                call()
            assert 0.29 <= time.monotonic() - begin < 0.45
        endpoint.silent = False
        device.reopen()
        assert device.read(0, 2) == b"\0\0"


def test_a_quick_device_is_asked_again_soon() -> None:
    """After quick answers a third of the time-out is not waited for."""
    endpoint = Silent(golden()[0])
    with (
        SerialServer(endpoint) as server,
        serial_device(server.path, timeout=1.5, register_map=MAP) as device,
    ):
        for _ in range(64):
            device.read(0, 1)
        endpoint.silent, again = True, device.statistics.again
        with pytest.raises(LinkError, match="did not answer"):
            device.read(0, 1)
        assert device.statistics.again - again > 4


# what is no device


def test_a_port_is_opened_once() -> None:
    endpoint, _, _ = golden()
    with SerialServer(endpoint) as server, serial_device(server.path, register_map=MAP) as device:
        with pytest.raises(LinkError, match="another program has it open") as found:
            open_device(f"serial:{server.path}")
        assert "close that program" in found.value.hint
        device.reopen()  # its own port is let go first
        assert device.read(0, 1) == b"\0"


def test_ports_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    for path, text in (
        (tmp_path / "file", "is no serial port"),
        (tmp_path / "fifo", "is no serial port"),
        (os.devnull, "is no serial port"),
        (tmp_path, "Is a directory"),
        (tmp_path / "none", "No such file or directory$"),
        ("a\0b", "null byte"),
    ):
        with pytest.raises(LinkError, match=text):
            open_device(f"serial:{path}")


@pytest.mark.parametrize(
    "options",
    [
        {"baud": 0},
        {"baud": -9600},
        {"baud": 1.5},
        {"baud": "x"},
        {"baud": 10**12},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
    ],
)
def test_numbers_that_make_no_sense(options: dict[str, int]) -> None:
    with SerialServer(golden()[0]) as server, pytest.raises(DeviceError):
        open_device(f"serial:{server.path}", **options)


def test_errors_of_the_bus() -> None:
    """A device with less memory, or other registers, than it should have."""

    class Refusing(Registers):
        def read(self, address: int) -> tuple[bytes, int]:
            return (bytes(4), 3) if address == KEY else super().read(address)

    device = GoldenDevice(Identity(8, SIZE, 1), Refusing(), Words(SIZE // 2, 8))
    with (
        SerialServer(Golden(device)) as server,
        serial_device(server.path, register_map=MAP) as connected,
    ):
        assert connected.read(SIZE // 2 - 200, 200) == bytes(200)
        for address, length in ((SIZE // 2 - 1, 2), (SIZE // 2 - 200, 201), (SIZE - 1, 1)):
            with pytest.raises(DeviceError, match=r"read of memory at .* was answered with SLVERR"):
                connected.read(address, length)
            with pytest.raises(
                DeviceError, match=r"write to memory at .* was answered with SLVERR"
            ):
                connected.write(address, bytes(length))
        with pytest.raises(DeviceError, match="read of register key was answered with DECERR"):
            connected.read_register("key")


def test_a_number_is_not_memory() -> None:
    with (
        SerialServer(golden()[0]) as server,
        serial_device(server.path, register_map=MAP) as device,
    ):
        with pytest.raises(TypeError, match="not with the number 5"):
            device.write(0, 5)  # type: ignore[arg-type]


def test_numbers_of_other_kinds() -> None:
    """NumPy's integers are numbers like any others; what is no whole number never comes to the line, which stays as it was."""
    with (
        SerialServer(golden()[0]) as server,
        serial_device(server.path, timeout=0.5, register_map=MAP) as device,
    ):
        device.write(np.uint8(200), bytes(range(200)))
        assert device.read(np.uint8(200), np.uint8(200)) == bytes(range(200))
        device.write_register("key", np.int64(7))
        for address, length in ((0.5, 4), (0, 4.0), ("0", 4), (None, 4)):
            with pytest.raises(TypeError):
                device.read(address, length)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            device.write(0.5, b"x")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            device.write_register("key", 1.5)  # type: ignore[arg-type]
        assert device.read_register("key") == 7 and device.statistics.again == 0


def test_errors_and_links_of_other_versions() -> None:
    endpoint, registers, _ = golden()
    with SerialServer(endpoint) as server, serial_device(server.path, register_map=MAP) as device:
        registers.put("status", int(Status.IDLE | Status.ERROR))
        registers.put("error_code", 4000)
        with pytest.raises(DeviceError, match="an error that this driver does not know: 4000"):
            device.report()
        registers.put("design", 1)
        with pytest.raises(DeviceError, match="runs design 00000001"):
            device.reopen()
        with pytest.raises(LinkError):  # another device's memory is not touched
            device.write(0, b"x")
        registers.put("design", MAP.design)
        device.reopen()
        endpoint.device.identity = Identity(8, SIZE, 1, version=0x20)
        with pytest.raises(LinkError, match="speaks version 2 of the link, not 1"):
            device.reopen()
    for identity in (Identity(8, SIZE, 1, maximum=0), Identity(256, SIZE, 1)):
        with pytest.raises(FrameError, match="make no sense"):
            Identity.decode(identity.encode())
    with pytest.raises(FrameError, match=r"an identity has 16 bytes$"):
        Identity.decode(bytes(15))
