"""What maps take of a part: the list of memories is the hardware's, and every plan fits or is refused with one that does."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli.main import run
from penstock.models.resources import AIM
from testbench.memories import memories_of


def _map(capacity: int, value_bytes: int) -> Any:
    return ps.ObliviousMap(value=ps.bytes(value_bytes), capacity=capacity, name="m")


@pytest.mark.parametrize(
    "capacity, value_bytes, options",
    [
        (20, 8, {"window": 2, "cores": 2, "channels": 1, "rounds": 1, "state": True}),
        pytest.param(
            20,
            8,
            {"window": 2, "cores": 2, "channels": 1, "rounds": 1},
            marks=pytest.mark.long,
        ),
        pytest.param(70_000, 8, {"window": 16, "cores": 4, "channels": 2}, marks=pytest.mark.long),
        pytest.param(
            304,
            104,
            {"window": 4, "cores": 2, "channels": 1},
            marks=pytest.mark.long,
        ),
    ],
)
def test_memories_of_the_hardware(capacity: int, value_bytes: int, options: Any) -> None:
    """All with clocked reads."""
    state = options.pop("state", False)  # the device's of `penstock serve --state`
    compiled = ps.compile(_map(capacity, value_bytes), **options).compiled
    design = replace(compiled, state=state)
    counted: Counter[Any] = Counter()
    for copies, memory in design.storages():
        counted[memory] += copies
    found = {memory: copies for memory, copies in memories_of(design).items() if memory.clocked}
    assert counted == found


@pytest.mark.parametrize(
    "value_bytes",
    [8, 16, 128, 1024, *(pytest.param(n, marks=pytest.mark.long) for n in (32, 64, 256, 512))],
)
def test_maps_of_every_size_fit_or_name_one_that_does(value_bytes: int) -> None:
    """With each size of values every second capacity, by turns, and the largest one."""
    odd = value_bytes.bit_length() % 2
    for capacity in (1 << k for k in (*range(10 + odd, 24, 2), 24)):
        try:
            design = ps.compile(_map(capacity, value_bytes))
        except ps.KernelError as refused:
            assert refused.diagnostic.code == "E601" and capacity == 1 << 24
            assert value_bytes == 1024 and "bytes of a channel, the part has" in str(refused)
            most = int(
                re.findall(r"a map of ([\d,]+) items fits", str(refused))[0].replace(",", "")
            )
            assert capacity // 2 <= most < capacity
            design = ps.compile(_map(most, value_bytes))
        need, part = design.resources, design.target
        assert need.fits(part) is None
        assert need.fits(part, AIM) is None or capacity == 1 << 24


@pytest.mark.parametrize("capacity, value_bytes", [(1 << 20, 1024), (1 << 24, 8), (1 << 24, 256)])
def test_what_a_port_reaches_lies_in_its_own_channels(capacity: int, value_bytes: int) -> None:
    """A channel of HBM has a thirty-second of its bytes, and a port those alone whose timing it is planned with."""
    design = ps.compile(_map(capacity, value_bytes))
    plan, part = design.compiled.plan, design.target
    channel = part.memory.channel_bytes * design.compiled.channels
    records = plan.tables_bytes - plan.records_at
    for size, channels in (
        (plan.records_at, plan.access.dealt),
        (records, plan.access.dealt),
        (plan.frames_bytes, plan.access.frames_dealt),
    ):
        assert size <= channels * channel
    ports = sum(port.space > 0 for port in design.compiled.bus_ports) * design.compiled.channels
    assert ports < part.ports
    # where some channels hold the load that moves the fewest bytes, those that do not ask for no other
    assert plan.load == {8: 1, 256: 2, 1024: 1}[value_bytes]


def test_a_map_with_more_ports_than_its_part_is_one_of_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.psk").write_text("map m(key: u64, value: bytes[8])\n  capacity = 2**10\n")
    for target, said in (("u55c", False), ("vu9p", True)):
        assert run(["model", str(tmp_path / "m.psk"), "--ops", "20", "--target", target]) == 0
        words = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert ("in simulation alone" in words) == said


def test_a_target_that_has_no_ports_for_a_map_is_not_proposed() -> None:
    """VU9P has more memory than U55C, behind one port: a map there is one of simulation alone."""
    with pytest.raises(ps.KernelError, match=r"E601.*u55c") as caught:
        ps.compile(_map(1 << 24, 1024))
    assert caught.value.diagnostic.hint.endswith(
        "items fits with the same values and options; no larger target that is known holds it either"
    )
    with pytest.raises(ps.KernelError, match=r"(?s)E601.*it fits on --target u55c"):
        ps.compile(_map(1 << 16, 8), target="kcu105")


def test_memory_that_a_part_does_not_have_holds_no_map() -> None:
    """Where there is no HBM either."""
    with pytest.raises(ps.KernelError, match=r"E601.*bytes of memory, the part has 1,048,576"):
        ps.compile(_map(1 << 16, 8), target="kcu105")


def test_a_map_of_a_million_items_has_its_list_in_ultraram() -> None:
    """Three frames a word, of 72 bits, in 4,096 words each: one ring, however many frames are freed a cycle."""
    design = ps.compile(_map(1 << 20, 8), memory="latency=60,bytes=32")
    compiled = design.compiled
    frames, bits = compiled.plan.frames, compiled.plan.frame_bits
    shapes = [shape for shape, style in compiled.ram_styles.items() if style == "ultra"]
    assert bits == 20 and (-(-frames // 3), 3 * bits) in shapes
    assert design.resources.uram < 1.02 * frames / 3 / 4096 + 1
    assert design.resources.bram < 0.1 * design.target.bram


def test_what_does_not_fit_has_no_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.psk").write_text("map m(key: u64, value: bytes[8])\n  capacity = 2**26\n")
    assert run(["model", str(tmp_path / "m.psk")]) == 1
    said = capsys.readouterr()
    assert "E601" in said.err and "URAM, the part has 960" in said.err
    assert "operations a second" not in said.out + said.err and "cycles" not in said.out
