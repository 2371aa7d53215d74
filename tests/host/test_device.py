"""host/device on the golden device: transfers on a bad line, exactly-once writes to registers, time-outs, opening again."""

from __future__ import annotations

import os
import pickle
import time
from typing import Any

import numpy as np
import pytest

from penstock.designs.folder import FolderError
from penstock.host.device.errors import DeviceError, LinkError, Unfit
from penstock.host.device.opening import serial_device
from penstock.models.errors import Error, ErrorCode, HardwareError, RunError
from penstock.models.link.device import Identity
from penstock.models.shell import Counter, EngineRegister, Legal, RegisterMap, Status
from penstock.models.strider.errors import PageError
from penstock.runs.devices import open_device
from penstock.sim.serial import SerialServer
from testbench.link_cases import MAP, SIZE, Faulty, Silent, golden


def test_what_a_device_says_of_itself() -> None:
    endpoint, _, _ = golden()
    with (
        SerialServer(endpoint) as server,
        open_device(f"serial:{server.path}", register_map=MAP) as device,
    ):
        assert device.identity == Identity(8, SIZE, 25_000_000)
        assert device.design == 0xABCD1234


def test_memory_and_registers() -> None:
    endpoint, _, memory = golden()
    with SerialServer(endpoint) as server, serial_device(server.path, register_map=MAP) as device:
        content = np.random.default_rng(1).integers(0, 256, 5000, dtype=np.uint8)
        device.write(77, content)
        assert device.read(77, 5000) == content.tobytes() == memory.content[77:5077]
        device.write_register("source", 0x12_3456_789A)
        assert device.read_register("source") == 0x12_3456_789A
        assert device.read(0, 0) == b""
        for address, length in ((SIZE - 4, 5), (-1, 1)):
            with pytest.raises(DeviceError, match="are not in the device's 65536 bytes"):
                device.read(address, length)
        with pytest.raises(DeviceError, match="identity was answered with SLVERR"):
            device.write_register("identity", 1)
        with pytest.raises(DeviceError, match="has no register 'sources'"):
            device.read_register("sources")
        with pytest.raises(Unfit, match="does not fit in 32 bits"):  # also a ValueError
            device.write_register("key", 1 << 32)


def test_values_that_are_not_legal() -> None:
    """They are refused before anything is written; what is not given is as the device has it."""
    legal = Legal(multiple=8, each=(("key", 64),))
    known = RegisterMap(
        [EngineRegister("source", 40, legal=legal), EngineRegister("key", legal=Legal(least=1))],
        [Counter("words", "")],
        design=MAP.design,
    )
    endpoint, registers, _ = golden()
    with SerialServer(endpoint) as server, serial_device(server.path, register_map=known) as device:
        for values, message in {
            (("source", 8), ("key", 0)): "register key is 0x0, and may be 1 to 4294967295",
            (
                ("source", 0x1001),
                ("key", 1),
            ): "register source is 0x1001, and may be multiples of 8 to "
            "0xfffffffff8, with 64 bytes for each of key below 0x10000000000",
            (("source", (1 << 40) - 64), ("key", 1)): "register source is 0xffffffffc0",
            (("source", 1 << 40), ("key", 1)): "register source is 0x10000000000",
        }.items():
            with pytest.raises(Unfit, match=f"^{message}") as caught:
                device.run(dict(values))
            assert caught.value.code == "E835" and "write a legal value" in caught.value.hint
        assert not registers.log
        device.write_register("key", 1)
        assert device.run({"source": 64}).error is None


def test_a_run() -> None:
    endpoint, registers, _ = golden()
    seen: list[int] = []
    with SerialServer(endpoint) as server, serial_device(server.path, register_map=MAP) as device:
        report = device.run({"key": 9}, watchdog=500, progress=seen.append)
        assert (report.status, report.error, report.cycles, report.counters) == (
            Status.IDLE | Status.DONE,
            None,
            1 << 40 | 5,
            {"words": 77},
        )
        names = {MAP[n].offset: n for n in ("key", "watchdog", "interrupt", "control")}
        assert [(names[a], v) for a, v in registers.log] == [
            ("key", 9),
            ("watchdog", 500),
            ("interrupt", 3),
            ("control", 1),
            ("interrupt", 2),
        ]
        registers.put("status", int(Status.IDLE | Status.ERROR))
        for name, value in (("error_code", 17), ("error_block", 4), ("error_line", 3)):
            registers.put(name, value)
        assert device.report().error == HardwareError(PageError.LINE_FLAGS, 4, 3)
        registers.put("interrupt", 0)
        with pytest.raises(TimeoutError, match=r"not over after 0\.05 s") as caught:
            device.wait(0.05)
        again = pickle.loads(pickle.dumps(caught.value))
        assert isinstance(again, Error) and isinstance(again, TimeoutError)
        assert str(again) == again.message and again.code == "E831" and "wait again" in again.hint


def test_a_dead_memory_port_is_said() -> None:
    """By a run that the watchdog ended, by a start, and by a soft reset: each with its hint."""
    endpoint, registers, _ = golden()
    dead = Status.IDLE | Status.DEAD
    meaning = "a memory port made no transfer while it was brought to rest"
    hint = "reset the device by its pin or program it again; the memory behind its ports does not answer"
    with SerialServer(endpoint) as server, serial_device(server.path, register_map=MAP) as device:
        for code, message in {
            ErrorCode.WATCHDOG: f"WATCHDOG at block 0: nothing moved for too long: {meaning}",
            ErrorCode.DEAD_PORT: f"DEAD_PORT at block 0: {meaning}",
        }.items():
            registers.put("status", int(dead | Status.ERROR))
            registers.put("error_code", int(code))
            report = device.report()
            assert report.error == HardwareError(code) and report.status == dead | Status.ERROR
            problem = RunError(report.error)
            assert (problem.message, problem.hint) == (message, hint)
        with pytest.raises(RunError) as caught:
            device.stop()
        told = caught.value
        assert (told.message, told.hint, told.code) == (message, hint, "E818")


def test_a_thousand_transfers_on_a_bad_line() -> None:
    """One byte in a hundred is corrupted, dropped or repeated, both ways; every transfer arrives."""
    endpoint, _, memory = golden()
    line = Faulty(endpoint, 0.01, seed=3)
    random = np.random.default_rng(4)
    expected = bytearray(SIZE)
    with SerialServer(line) as server, serial_device(server.path, register_map=MAP) as device:
        for k in range(1000):
            length = int(random.integers(1, 64))
            address = int(random.integers(0, SIZE - length))
            if k % 2:
                assert device.read(address, length) == expected[address : address + length]
            else:
                data = random.bytes(length)
                device.write(address, data)
                expected[address : address + length] = data
        assert memory.content == expected
        assert line.faults > 300 and device.statistics.again > 100
        device.write(0, bytes(expected[::-1]))  # many frames in flight at a time
        assert memory.content == expected[::-1] == device.read(0, SIZE)


def test_register_writes_are_done_once() -> None:
    endpoint, registers, _ = golden()
    line = Faulty(endpoint, 0.02, seed=5)
    with SerialServer(line) as server, serial_device(server.path, register_map=MAP) as device:
        registers.log.clear()
        for k in range(150):
            device.write_register("key", k)
        assert registers.log == [(MAP["key"].offset, k) for k in range(150)]
        assert device.statistics.again > 20


def test_the_cable_is_pulled_and_put_back() -> None:
    endpoint, _, _ = golden()
    server = SerialServer(endpoint)
    device = serial_device(server.path, timeout=0.5, register_map=MAP)
    device.write(0, b"before")
    server.close()
    begin = time.monotonic()
    with pytest.raises(LinkError, match=r"is gone|did not answer|is closed"):
        device.read(0, 6)
    with pytest.raises(LinkError):
        device.write(0, b"x")
    with pytest.raises(LinkError, match="cannot open"):
        device.reopen()
    assert time.monotonic() - begin < 1.0
    with SerialServer(endpoint) as again:
        device.path = again.path
        device.reopen()
        assert device.read(0, 6) == b"before"
        device.close()
    device.close()
    with pytest.raises(LinkError, match="is closed"):
        device.read(0, 1)


def test_a_device_that_falls_silent() -> None:
    endpoint = Silent(golden()[0])
    with (
        SerialServer(endpoint) as server,
        serial_device(server.path, timeout=0.4, register_map=MAP) as device,
    ):
        endpoint.silent = True
        begin = time.monotonic()
        with pytest.raises(LinkError, match=r"did not answer for 0\.4 s"):
            device.write(0, bytes(2000))
        assert 0.3 < time.monotonic() - begin < 0.8
        endpoint.silent = False
        device.reopen()
        assert device.read(0, 4) == bytes(4)


def test_other_devices() -> None:
    endpoint, registers, _ = golden()
    with SerialServer(endpoint) as server:
        with pytest.raises(DeviceError, match="runs design abcd1234, not 00000007"):
            serial_device(server.path, register_map=RegisterMap(design=7))
        registers.put("identity", 5)
        with pytest.raises(DeviceError, match="no engine of a version"):
            serial_device(server.path)
    with pytest.raises(LinkError, match="cannot open"):
        open_device("serial:" + os.path.join(os.sep, "no", "such", "port"))
    for url in ("usb:1", "serial:", "sim"):
        with pytest.raises(DeviceError, match="is not a device"):
            open_device(url)
    with pytest.raises(FolderError, match="holds no design"):
        open_device("sim:" + os.path.join(os.sep, "no", "such", "folder"))


@pytest.mark.parametrize(
    "option",
    [{"timeout": "2"}, {"timeout": 0}, {"timeout": float("nan")}, {"baud": "fast"}, {"baud": 0}],
    ids=str,
)
def test_speeds_and_time_outs_that_are_none(option: dict[str, Any]) -> None:
    with pytest.raises(
        DeviceError,
        match=f"{'time-out' if 'timeout' in option else 'baud rate'} is a .*number.*, not {next(iter(option.values()))!r}",
    ):
        open_device("serial:/dev/null", **option)
