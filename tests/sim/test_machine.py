"""Machines on the toy engine: the native harness, Amaranth's simulator and a simulated device do the same with memory, and the first two in the same cycles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from penstock.hdl.shell import Shell, to_verilog
from penstock.hdl.soc import Soc
from penstock.host.device.errors import DeviceError
from penstock.host.device.machine import DeviceMachine
from penstock.host.device.opening import simulated_device
from penstock.models.errors import ErrorCode
from penstock.models.memory import FixedLatency, block_ram
from penstock.sim.board import BAUD, CLOCK_HZ, verilog
from penstock.sim.machine import PAGE, Ended, Hung, Machine, Metered, Transfer, Unsupported
from penstock.sim.native import PortSpec, build
from penstock.sim.native.machine import NativeMachine
from penstock.sim.python import PythonMachine
from testbench.toy import CopyEngine, copy_cycles, copy_map

KEY = 0xA5A5A5A5
BUS = 8
SIZE = 4 * PAGE
TIMING = FixedLatency(11, 8)
SIMULATED = ("native", "pysim")


def opened(
    kind: str, memory: Any = TIMING, ports: int = 1, spaces: tuple[int, ...] = ()
) -> Machine:
    """The toy engine on a machine; `spaces`: of its ports, all 0 without."""
    engine = CopyEngine(bus_bytes=BUS, ports=ports)
    specs = tuple(
        PortSpec(f"m{k}_axi", BUS, space=space) for k, space in enumerate(spaces or (0,) * ports)
    )
    if kind == "pysim":
        return PythonMachine(engine, specs, memory)
    if kind == "native":
        source = to_verilog(Shell(engine, engine.register_map))
        return NativeMachine(build(source, ports=specs, register_map=copy_map(ports)), memory)
    soc = Soc(engine, engine.register_map, memory_bytes=SIZE, clock_hz=CLOCK_HZ, baud=BAUD)
    return DeviceMachine(simulated_device(verilog(soc), engine.register_map), owned=True)


@pytest.fixture(scope="module", params=[*SIMULATED, "device"])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """One machine over many tests, with `SIZE` bytes of memory in windows of one page."""
    with opened(request.param) as made:
        for at in range(0, SIZE, PAGE):
            made.reserve(at, PAGE)
        yield made


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Machine, Machine]]:
    with ExitStack() as stack:
        a, b = (stack.enter_context(opened(kind)) for kind in SIMULATED)
        for each in (a, b):
            each.reserve(0, SIZE)
        yield a, b


def copy(
    machine: Machine,
    source: int,
    target: int,
    words: int,
    *,
    key: int = KEY,
    stride: int = 0,
    hold: int = 0,
    **options: Any,
) -> Ended:
    return machine.run(
        {
            "source": source,
            "target": target,
            "stride": stride,
            "words": words,
            "key": key,
            "hold": hold,
        },
        **options,
    )


def numbers(seed: int, words: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, BUS * words, dtype=np.uint8)


def changed(data: np.ndarray, key: int = KEY) -> bytes:
    return (data.view("<u4") ^ np.uint32(key)).tobytes()


def fnv(data: bytes) -> int:
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 % (1 << 64)
    return digest


def timing(machine: Machine) -> FixedLatency:
    return block_ram(BUS) if isinstance(machine, DeviceMachine) else TIMING


def expected(machine: Machine, source: int, target: int, words: int) -> int:
    return copy_cycles(
        timing(machine), bus_bytes=BUS, ports=1, source=source, target=target, stride=0, words=words
    )


def test_bytes_across_windows(machine: Machine) -> None:
    data = np.random.default_rng(1).integers(0, 256, PAGE + 300, dtype=np.uint8)
    machine.write(PAGE - 77, data)
    assert machine.read(PAGE - 77, len(data)).tobytes() == data.tobytes()
    machine.write(PAGE, data[:3])
    assert machine.read(PAGE - 1, 5).tobytes() == bytes([data[76], *data[:3], data[80]])
    assert machine.read(PAGE, 0).size == 0


def test_the_engine_works_across_windows(machine: Machine) -> None:
    data = numbers(2, 90)
    source, target = PAGE - 40 * BUS, 3 * PAGE - 33 * BUS
    machine.write(target - BUS, np.zeros(92 * BUS, dtype=np.uint8))
    machine.write(source, data)
    ended = copy(machine, source, target, 90)
    assert (
        ended.error is None
        and ended.cycles == expected(machine, source, target, 90)
        and ended.counters == {"words_copied": 90}
    )
    assert machine.read(target - BUS, 92 * BUS).tobytes() == bytes(BUS) + changed(data) + bytes(BUS)
    if not isinstance(machine, DeviceMachine):
        assert (ended.bytes_read, ended.bytes_written) == (90 * BUS, 90 * BUS)


def test_two_runs_in_one_session(machine: Machine) -> None:
    """Memory keeps what the first run left; the second one is as new, to the cycle."""
    data, meter = numbers(3, 50), Metered(machine, watchdog=10_000)
    machine.write(0, data)
    registers = {"source": 0, "target": PAGE, "stride": 0, "words": 50, "key": 7, "hold": 0}
    first, second = (
        meter.run(registers),
        meter.run(registers | {"source": PAGE, "target": 2 * PAGE, "key": 9}),
    )
    assert meter.run(registers, counted=False).cycles == first.cycles  # a set-up
    assert first.cycles == second.cycles == expected(machine, 0, PAGE, 50)
    assert machine.read(2 * PAGE, len(data)).tobytes() == changed(data, 7 ^ 9)
    total = meter.total
    assert (total.error, total.cycles, total.counters) == (
        None,
        2 * first.cycles,
        {"words_copied": 100},
    )
    assert (total.bytes_read, total.seconds) == (
        2 * first.bytes_read,
        first.seconds + second.seconds,
    )


def test_an_error_of_the_bus(machine: Machine) -> None:
    """Beyond all memory; afterwards the machine goes on as if nothing had been."""
    data = numbers(4, 20)
    machine.write(0, data)
    assert (
        error := copy(machine, 1 << 20, PAGE, 20).error
    ) is not None and error.code is ErrorCode.BUS_READ
    assert (
        error := copy(machine, 0, 1 << 20, 20).error
    ) is not None and error.code is ErrorCode.BUS_WRITE
    assert copy(machine, 0, PAGE, 20).cycles == expected(machine, 0, PAGE, 20)
    assert machine.read(PAGE, len(data)).tobytes() == changed(data)


def test_what_a_device_cannot_do(machine: Machine) -> None:
    if not isinstance(machine, DeviceMachine):
        assert machine.capacity is None
        return
    assert machine.capacity == SIZE
    for call in (lambda: machine.trace(0), lambda: machine.alter(5, 0, b"a")):
        with pytest.raises(Unsupported, match="a simulation"):
            call()
    with pytest.raises(
        DeviceError, match=f"^the run takes {SIZE + 1} bytes of memory; the device has {SIZE}$"
    ):
        machine.reserve(SIZE, 1)
    with pytest.raises(DeviceError, match="ports have memories of their own, and the device has"):
        machine.reserve(0, 1, space=1)
    with pytest.raises(DeviceError, match="words is 0x100000000, and may be 0 to 16777215"):
        machine.run({"words": 1 << 32})


@pytest.mark.parametrize("kind", SIMULATED)
def test_a_run_without_an_end(kind: str) -> None:
    with opened(kind) as machine:
        machine.reserve(0, SIZE)
        told: list[int] = []
        with pytest.raises(Hung, match="did not end"):
            copy(machine, 0, PAGE, 30, hold=1, watchdog=0, limit=3000, progress=told.append)
        assert told and max(told) <= 3000
        assert copy(machine, 0, PAGE, 30, watchdog=500).cycles == expected(machine, 0, PAGE, 30)


@pytest.mark.parametrize("kind", SIMULATED)
def test_memory_that_is_only_read(kind: str) -> None:
    """What is written where nothing is reserved is the host's: seen without a copy, safe from the engine."""
    data = numbers(5, PAGE // BUS)
    before = data.copy()
    with opened(kind) as machine:
        machine.write(0, data)
        machine.reserve(PAGE, PAGE)
        assert (
            error := copy(machine, 0, 8 * BUS, 4).error
        ) is not None and error.code is ErrorCode.BUS_WRITE
        assert (data == before).all()
        data[:BUS] = 1
        assert copy(machine, 0, PAGE, 4).error is None and machine.read(
            PAGE, 4 * BUS
        ).tobytes() == changed(data[: 4 * BUS])


def slower(words: int, memories: dict[str, FixedLatency], stride: int) -> int:
    """The cycles of two ports that work side by side."""
    return max(
        copy_cycles(
            memories[f"m{k}"],
            bus_bytes=BUS,
            ports=1,
            source=k * stride,
            target=PAGE + k * stride,
            stride=0,
            words=words,
        )
        for k in range(2)
    )


@pytest.mark.parametrize("kind", SIMULATED)
def test_ports_have_timings_of_their_own(kind: str) -> None:
    words, stride = 100, 150 * BUS
    data = numbers(6, 250)
    cycles = []
    for memories in (
        {"m0": FixedLatency(5, 8), "m1": FixedLatency(60, 2)},
        {"m0": FixedLatency(90, 4), "m1": FixedLatency(5, 8)},
        {"m0": FixedLatency(5, 8), "m1": FixedLatency(5, 8)},
    ):
        with opened(kind, memories, 2) as machine:
            machine.reserve(0, SIZE)
            machine.write(0, data)
            ended = copy(machine, 0, PAGE, words, stride=stride)
            assert ended.error is None and ended.cycles == slower(words, memories, stride)
            for at in (0, stride):
                assert machine.read(PAGE + at, words * BUS).tobytes() == changed(
                    data[at : at + words * BUS]
                )
            cycles.append(ended.cycles)
    assert len(set(cycles)) == 3


@pytest.mark.parametrize("kind", SIMULATED)
def test_a_port_without_a_timing_has_the_usual_one(kind: str) -> None:
    memories = {"m0": FixedLatency(70, 8)}
    with opened(kind, memories, 2) as machine:
        machine.reserve(0, SIZE)
        assert copy(machine, 0, PAGE, 40, stride=60 * BUS).cycles == slower(
            40, memories | {"m1": FixedLatency()}, 60 * BUS
        )


@pytest.mark.parametrize("kind", SIMULATED)
def test_address_spaces(kind: str) -> None:
    """Two ports at the same addresses of two memories."""
    with opened(kind, TIMING, 2, (0, 3)) as machine:
        data = {space: numbers(10 + space, 40) for space in (0, 3)}
        for space, part in data.items():
            machine.reserve(0, 2 * PAGE, space=space)
            machine.write(0, part, space=space)
        for at in range(2):
            machine.alter(
                1, BUS * at, bytes([at + 1] * BUS), space=3 * at
            )  # before anything is read, each in its own
            data[3 * at][BUS * at : BUS * (at + 1)] = at + 1
        assert copy(machine, 0, PAGE, 40).error is None
        for space, part in data.items():
            assert machine.read(PAGE, 40 * BUS, space=space).tobytes() == changed(part)
        assert (
            copy(machine, 0, PAGE, 40, stride=2 * PAGE).error is not None
        )  # the other memory ends there


def test_traces_are_the_same(both: tuple[Machine, Machine]) -> None:
    """Cycle, address, beats and digest of every burst, as the engine's own rules have them."""
    data = numbers(7, 300)
    for source, target, words in (
        (0, 2 * PAGE, 300),
        (PAGE - 5 * BUS, 3 * PAGE - 9 * BUS, 40),
        (0, 2 * PAGE, 1),
    ):
        traces = []
        for machine in both:
            machine.trace(0)  # the recording begins
            machine.write(source, data[: BUS * words])
            ended = copy(machine, source, target, words)
            assert ended.error is None
            traces.append(machine.trace(0))
            assert ended.cycles > max(each.cycle for each in traces[-1]) >= 0
        assert traces[0] == traces[1] and all(isinstance(each, Transfer) for each in traces[0])
        for channel, first, content in (
            ("read", source, data[: BUS * words].tobytes()),
            ("write", target, changed(data[: BUS * words])),
        ):
            mine = [each for each in traces[0] if each.channel == channel]
            assert mine[0].address == first and sum(each.beats for each in mine) == words
            for each in mine:
                at = each.address - first
                assert each.digest == fnv(content[at : at + each.beats * BUS])


def test_a_trace_is_of_the_latest_run(both: tuple[Machine, Machine]) -> None:
    for machine in both:
        machine.trace(0)
        copy(machine, 0, PAGE, 30)
        copy(machine, 8 * BUS, PAGE, 3)
        assert [(each.channel, each.address, each.beats) for each in machine.trace(0)] == [
            ("read", 8 * BUS, 3),
            ("write", PAGE, 3),
        ]


def test_memory_that_changes_in_a_cycle(both: tuple[Machine, Machine]) -> None:
    """The engine reads the old bytes before a cycle and the new ones from it on, on both machines alike; and only in the next run."""
    data, words = numbers(8, 24), 24
    results: list[list[bytes]] = []
    for machine in both:
        results.append([])
        for cycle in (0, 1, 8, *range(8, 26), 500):
            machine.write(0, data)
            # given in another order than that of the cycles
            machine.alter(cycle + 6, 12 * BUS, b"\xff" * (4 * BUS))
            machine.alter(cycle, 4 * BUS, bytes(4 * BUS))
            assert copy(machine, 0, PAGE, words).error is None
            results[-1].append(machine.read(PAGE, words * BUS).tobytes())
        machine.write(0, data)
        copy(machine, 0, PAGE, words)
        assert machine.read(PAGE, words * BUS).tobytes() == changed(data)
    assert results[0] == results[1]
    early = data.copy()
    early[4 * BUS : 8 * BUS], early[12 * BUS : 16 * BUS] = 0, 255
    assert results[0][0] == changed(early) and results[0][-1] == changed(data)
    assert len(set(results[0])) > 4  # and some words of each in between
