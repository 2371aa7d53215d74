"""A whole device, Verilated, behind its serial pins: it answers what the golden device answers, and the driver cannot tell it from a board."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.engines.base import Given
from penstock.hdl.soc import Soc
from penstock.host.device import emulation
from penstock.host.device.device import Device
from penstock.host.device.emulation import emulated
from penstock.host.device.errors import DeviceError
from penstock.host.device.machine import DeviceMachine
from penstock.host.device.opening import serial_device
from penstock.host.device.transport import Statistics
from penstock.host.device.udp import Udp
from penstock.models.errors import ErrorCode, HardwareError
from penstock.models.link import envelope
from penstock.models.link.device import Device as GoldenDevice
from penstock.models.link.device import Identity
from penstock.models.link.envelope import Answer
from penstock.models.link.frames import (
    HEADER,
    MAXIMUM,
    NACK,
    RING,
    FrameError,
    Parser,
    Request,
    Response,
    Space,
    Status,
    decode_response,
)
from penstock.models.link.kinds import parse_link, wire_bytes
from penstock.models.link.timing import BYTE_BITS, SIMULATED_DIVISOR
from penstock.models.shell import RegisterMap
from penstock.runs.accounts import Moved, account, machine_of
from penstock.runs.run import model as predicted
from penstock.sim.board import BAUD, CLOCK_HZ, Board, build, generate, verilog
from penstock.sim.machine import Metered
from penstock.sim.native import BuildError
from penstock.sim.serial import SerialServer
from testbench.command_line import reported, told
from testbench.link_cases import RestRegisters, Words
from testbench.toy import CopyEngine

SIZE = 16384


def device_library(bus_bytes: int, address_width: int) -> tuple[Path, RegisterMap]:
    engine = CopyEngine(bus_bytes=bus_bytes, address_width=address_width)
    soc = Soc(engine, engine.register_map, memory_bytes=SIZE, clock_hz=CLOCK_HZ, baud=BAUD)
    return build(verilog(soc)), engine.register_map


@pytest.fixture(scope="module")
def library() -> tuple[Path, RegisterMap]:
    return device_library(8, 40)


def golden(register_map: RegisterMap, bus_bytes: int = 8) -> GoldenDevice:
    return GoldenDevice(
        Identity(bus_bytes, SIZE, CLOCK_HZ), RestRegisters(register_map), Words(SIZE, bus_bytes)
    )


def settle(board: Board, wire: bytes) -> bytes:
    """Send bytes; wait until no more come back."""
    out, quiet, data = b"", 0, wire
    while quiet < 5:  # as long as the longest request takes on the wire
        part = board.exchange(data)
        quiet = 0 if part or data else quiet + 1
        out, data = out + part, b""
    return out


def random_request(rng: np.random.Generator, register_map: RegisterMap) -> Request:
    space = int(rng.choice([0, 1, 1, 2, 2, 2, 3, 100]))
    length = int(rng.choice([0, 1, 4, 8, int(rng.integers(0, 30)), 128]))
    address = int(
        rng.choice(
            [0, 0, SIZE - 140, SIZE - 8, SIZE, 2 * SIZE - 60, 1 << 25, (1 << 26) - 30, 1 << 31]
        )
    ) + int(rng.integers(0, 300))
    if space == 1:
        length = min(length, 16)
        address = int(rng.choice([0, 8, 0x40, 0x48, 0x60, 4084])) + int(rng.integers(0, 12))
        held = range(register_map["control"].offset, register_map["interrupt"].offset + 4)
        if any(a % 4096 in held for a in range(address, address + length)):
            address, length = 0x48, 8
    sequence = int(
        rng.integers(0, 4)
    )  # few, so that some register writes are taken for repeated ones
    if rng.random() < 0.5:
        return Request(sequence, space, address & 0xFFFF_FFFF, 0, rng.bytes(length))
    return Request(sequence, space, address & 0xFFFF_FFFF, length)


@pytest.mark.parametrize(
    "bus_bytes,address_width", [(8, 40), (4, 15), pytest.param(32, 26, marks=pytest.mark.long)]
)
def test_rtl_answers_what_golden_answers(bus_bytes: int, address_width: int) -> None:
    """With buses and addresses of different widths; the narrowest has one bit more than the memory takes."""
    path, register_map = device_library(bus_bytes, address_width)
    model = golden(register_map, bus_bytes)
    rng = np.random.default_rng(1)
    with Board(path) as board:
        for k in range(400):
            request = random_request(rng, register_map)
            assert settle(board, request.encode()) == model.receive(request.encode()), (k, request)


def test_rtl_answers_what_golden_answers_on_a_bad_line(library: tuple[Path, RegisterMap]) -> None:
    """Spoilt requests: the same answers, but that the hardware may say once what golden says twice, that something was dropped."""
    path, register_map = library
    model = golden(register_map)
    rng = np.random.default_rng(2)

    def answers(wire: bytes) -> list[object]:
        found = [decode_response(body) for body in Parser().feed(wire)]
        return [
            a
            for a, before in zip(found, [None, *found], strict=False)
            if a.kind != NACK or before is None or before.kind != NACK
        ]

    nacks = 0
    with Board(path) as board:
        for k in range(300):
            wire = bytearray(random_request(rng, register_map).encode())
            for _ in range(int(rng.integers(0, 3))):
                at = int(rng.integers(len(wire)))
                wire[at : at + 1] = [
                    bytes([int(rng.integers(256))]),
                    b"",
                    bytes([wire[at]] * 2),
                    b"\x7e",
                ][int(rng.integers(4))]
            expected = answers(model.receive(bytes(wire)))
            assert answers(settle(board, bytes(wire))) == expected, (k, wire)
            nacks += sum(a.kind == NACK for a in expected)  # type: ignore[attr-defined]
        assert nacks > 50
        with pytest.raises(FrameError):
            decode_response(b"")


def test_the_buffer_of_requests_is_not_overrun(library: tuple[Path, RegisterMap]) -> None:
    path, register_map = library
    with (
        Board(path) as board,
        SerialServer(board) as server,
        serial_device(server.path, timeout=10, register_map=register_map) as device,
    ):
        content = bytes(range(256)) * 16
        device.write(3, content)
        assert device.read(3, len(content)) == content
        assert device.statistics.nacks == 0


def test_a_load_takes_the_cycles_of_its_frames(library: tuple[Path, RegisterMap]) -> None:
    """A host that keeps the device's buffer filled writes at what `models.link.kinds` says of a UART, within 2 %."""
    data = np.random.default_rng(4).bytes(96 * MAXIMUM)
    frames = [
        Request(at // MAXIMUM, Space.MEMORY, at, data=data[at : at + MAXIMUM]).encode()
        for at in range(0, len(data), MAXIMUM)
    ]
    sent = answered = 0
    parser = Parser()
    with Board(library[0]) as board:
        while answered < len(frames):
            go = min(len(frames), answered + RING // (HEADER + MAXIMUM))
            out, sent = b"".join(frames[sent:go]), go
            answers = [decode_response(body) for body in parser.feed(board.exchange(out))]
            assert all(answer.status == Status.OKAY for answer in answers)
            answered += len(answers)
        took = board.cycle
    seconds = Fraction(took, SIMULATED_DIVISOR * BYTE_BITS)  # in bytes on the line
    assert abs(seconds / wire_bytes(data) - 1) < 0.02
    link = parse_link("uart,baud=10")  # a byte a second
    assert abs(seconds / link.seconds(len(data)) - 1) < 0.02


def test_a_device_behind_a_socket() -> None:
    """As `penstock emulate` opens it: a plain socket and the driver see the same device."""
    engine = CopyEngine(bus_bytes=8, address_width=40)
    soc = Soc(engine, engine.register_map, memory_bytes=SIZE, clock_hz=CLOCK_HZ, baud=None)
    with emulated(verilog(soc)) as port, socket.socket(type=socket.SOCK_DGRAM) as line:
        content = np.random.default_rng(6).bytes(5000)
        with Device(
            f"127.0.0.1:{port}", lambda at: Udp(at, 30.0), register_map=engine.register_map
        ) as device:
            assert device.identity.memory_bytes == SIZE
            assert device.run({"words": 1}).error is None
            device.write(3, content)
            assert device.read(3, len(content)) == content
            with pytest.raises(DeviceError, match="register version was answered with SLVERR"):
                device.write_register("version", 1)
        line.settimeout(10)
        line.connect(("127.0.0.1", port))

        def asked(*request: int) -> Answer | None:
            line.send(envelope.encode(7, *request))
            return envelope.decode_answer(line.recv(2048))

        opened = asked(0, envelope.OPENING, 0, 16)
        assert opened is not None and Identity.decode(opened.data) == device.identity
        for place in (3, 3):  # a copy
            got = asked(opened.first, Space.MEMORY << 1, place, 1000)
            assert got is not None and got.data == content[:1000], got
        line.send(b"noise")
        assert asked(0, envelope.OPENING, 0, 16) is not None
        with pytest.raises(DeviceError, match=f"127.0.0.1:{port}: Address already in use"):
            with emulated("", port):
                pass


def test_errors_and_stopping(library: tuple[Path, RegisterMap]) -> None:
    path, register_map = library
    with (
        Board(path) as board,
        SerialServer(board) as server,
        serial_device(server.path, timeout=10, register_map=register_map) as device,
    ):
        report = device.run({"source": SIZE, "target": 0, "words": 4})
        assert report.error == HardwareError(ErrorCode.BUS_READ)
        report = device.run({"source": 0, "target": 1 << 30, "words": 4})
        assert report.error == HardwareError(ErrorCode.BUS_WRITE)
        device.start({"source": 0, "target": 0, "words": 40, "hold": 1})
        with pytest.raises(TimeoutError):
            device.wait(0.1)
        with pytest.raises(DeviceError, match="register words was answered with SLVERR"):
            device.write_register("words", 3)
        assert [m.valid and not m.ready for m in device.monitors()] == [True]
        device.stop()
        assert device.run({"words": 1, "hold": 0}).error is None
        report = device.run({"hold": 1, "words": 40}, watchdog=100)
        assert report.error == HardwareError(ErrorCode.WATCHDOG)


# training

KERNEL = """import penstock as ps

@ps.kernel(epochs=2)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)
"""


def test_training_on_the_whole_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--backend board` is golden bit for bit and the model cycle for cycle; the API's `open` and `run` train on the same device; too small memory is said."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    options = (
        "k.py --data random:rows=120 --dim d=4 --format fixed:8,8 --threads 1 --lanes 1".split()
    )
    report = reported(["simulate", *options, "--backend", "board"])
    assert report["bit_exact"] is True and report["cycles"]["rtl"] == report["cycles"]["model"] > 0
    assert report["simulation"]["backend"] == "board"
    assert (
        report["design"]["config"]["memory"] == "latency=4,bytes=8"
    )  # the device's block RAM, not the target's memory

    design = ps.compile(
        "k.py", format="fixed:8,8", dims={"d": 4}, choices=ps.Choices(threads=1, lanes=1)
    )
    table = ps.open_table("random:rows=120", design.plan.schema, design.labels)
    with design.device_in_simulation(design.workload(Given(table)).memory_bytes()) as device:
        device.register_map = RegisterMap()  # as of one that was opened by its address alone
        once = design.run(table, "board", device=device)
        again = design.run(table, "board", device=device, epochs=1)
        assert once.cycles == report["cycles"]["rtl"] and again.epochs == 1
        assert once.result is not None and np.array_equal(once.result["w"], report["result"]["w"])
        assert device.identity.memory_bytes == 20480
        with pytest.raises(DeviceError, match="has 20480"):
            design.run(
                ps.open_table("random:rows=300", design.plan.schema, design.labels),
                "board",
                device=device,
            )
        pages = table.pages.copy()
        pages[1, 24:28] = np.frombuffer((10 << 17 | 1 << 15 | 24).to_bytes(4, "little"), np.uint8)
        bad = ps.open_table("random:rows=120", design.plan.schema, design.labels)
        object.__setattr__(bad, "pages", pages)
        assert (
            design.run(bad, "board", device=device).errors == design.run(bad, "golden").errors != ()
        )


class Line:
    """A host that answers at once and keeps the device's buffer filled, without a system between: time is the device's cycles alone."""

    timeout = 1.0

    def __init__(self, board: Board) -> None:
        self.board, self.parser, self.sequence = board, Parser(), 0
        self.statistics = Statistics()
        self.identity = Identity.decode(self.read(Space.IDENTITY, 0, 16))

    def _asked(self, requests: list[Request]) -> list[Response]:
        ready, answers, room = list(requests), list[Response](), 0
        while len(answers) < len(requests):
            wire = b""
            while ready and room + HEADER + len(ready[0].data or b"") <= RING:
                room += HEADER + len(ready[0].data or b"")
                wire += ready.pop(0).encode()
            for body in self.parser.feed(self.board.exchange(wire, 50)):
                asked = requests[len(answers)]
                answers.append(decode_response(body))
                room -= HEADER + len(asked.data or b"")
                assert (answers[-1].sequence, answers[-1].status) == (asked.sequence, Status.OKAY)
        return answers

    def _pieces(self, address: int, length: int) -> Iterator[tuple[int, int, int]]:
        for at in range(0, length, MAXIMUM):
            self.sequence = (self.sequence + 1) % 256
            yield self.sequence, address + at, min(MAXIMUM, length - at)

    def read(self, space: Space, address: int, length: int) -> bytes:
        asked = [Request(n, space, at, size) for n, at, size in self._pieces(address, length)]
        return b"".join(answer.data for answer in self._asked(asked))

    def write(self, space: Space, address: int, data: bytes) -> None:
        parts = self._pieces(address, len(data))
        each = [(n, at, data[at - address : at - address + size]) for n, at, size in parts]
        self._asked([Request(n, space, at, data=part) for n, at, part in each])

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("width", "tables"), [(4, (90, 300)), pytest.param(17, (120,), marks=pytest.mark.long)]
)
def test_a_run_takes_the_predicted_time(
    width: int, tables: tuple[int, ...], tmp_path: Path
) -> None:
    """Load, run and results on ulx3s-25f with the simulation's clock and line are within 2 % of what a report says they take."""
    (file := tmp_path / "k.py").write_text(KERNEL)
    own = ps.target("ulx3s-25f")
    clock = replace(own.clock, mhz=CLOCK_HZ / 1e6)
    part = replace(own, clock=clock, link=replace(own.link, baud=BAUD))
    options: dict[str, Any] = {"dims": {"d": width}, "format": "fixed:8,8"}
    design = ps.compile(file, part, choices=ps.Choices(threads=1, lanes=1), **options)
    source = generate(*design.hardware(), memory_bytes=own.memory.bytes)
    for rows in tables:
        work = design.workload(Given(f"random:rows={rows}", rows=None, seed=1))
        model = predicted(work, design.memory)
        paid = account(
            model.cycles,
            machine_of(part, design.resources),
            Moved(*work.moved()),
            design.memory,
            {},
        )
        with Board(build(source)) as board:
            device = Device("wire", lambda _: Line(board), register_map=design.registers)
            meter = Metered(DeviceMachine(device))
            begin = board.cycle
            found = work.drive(meter)
            took = board.cycle - begin
        assert meter.total.cycles == model.cycles and found.error is None
        assert found.codes is not None
        for name, codes in (work.golden().codes or {}).items():
            assert np.array_equal(found.codes[name], codes), name
        assert abs(took / (paid.seconds.total * CLOCK_HZ) - 1) < 0.02, (took, rows)


def test_options_that_do_not_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    options = "simulate k.py --data random:rows=10 --dim d=4 --format fixed:8,8 --threads 1 --lanes 1".split()
    for more, text in (
        (("--device", "serial:x"), "--device is for --backend board"),
        (("--backend", "board", "--waves", "w.fst"), "--waves is for the engine"),
        (("--backend", "board", "--device", "serial:nowhere"), "error[E831]: cannot open nowhere"),
    ):
        assert text in told([*options, *more], 1)


@pytest.mark.parametrize("board", ["ulx3s-85f-sdram", "colorlight-i5-sdram"])
def test_a_board_with_sdram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: str) -> None:
    """Its own controller on a chip that checks its rules and takes the memory of what is written; a run beyond its end is refused."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    held: list[int] = []

    class Watched(Board):
        def close(self) -> None:
            if self._handle:
                held.append(self.held)
            super().close()

    monkeypatch.setattr("penstock.sim.board.Board", Watched)
    words = f"simulate k.py --data random:rows=10 --dim d=2 --format fixed:8,8 --target {board} --backend board"
    report = reported(f"{words} -q")
    assert report["bit_exact"] is True and report["cycles"]["rtl"] > 0
    assert 0 < held[0] < 1 << 18
    design = ps.compile("k.py", board, "random:rows=10", "fixed:8,8", dims={"d": 2})
    size = design.target.memory.bytes >> 20
    with pytest.raises(
        BuildError, match=f"^the SDRAM of {board} has {size} MB, the run takes {size + 1} MB$"
    ):
        design.device_in_simulation((size << 20) + 1)


def test_memories_that_are_not_simulated() -> None:
    """No device in simulation takes more of this machine's memory than is said."""
    with pytest.raises(
        BuildError, match=r"^a device in simulation has at most 2 MB of block RAM, not 33 MB$"
    ):
        generate(None, None, memory_bytes=(32 << 20) + 1)


def test_a_line_that_goes_away_ends_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a TAP interface that somebody deletes: whoever waits hears of it."""

    def gone() -> bytes:
        raise OSError(errno.EBADFD, os.strerror(errno.EBADFD))

    there, here = os.pipe()
    os.write(here, b"x")
    board: Any = SimpleNamespace(active=False, run=bytes, send=bytes)
    with emulation._served(there, board, gone, bytes) as wait:
        with pytest.raises(DeviceError, match="the device's line is gone: File descriptor in bad"):
            wait()
    os.close(there)
    os.close(here)
