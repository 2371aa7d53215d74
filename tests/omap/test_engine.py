# amaranth: UnusedElaboratable=no
"""hdl.omap in its shell, in Verilator: responses and every beat of the host's pages are golden's, and cycles the model's."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.models.errors import HardwareError
from penstock.models.memory import FixedLatency, parse_memory
from penstock.models.omap.boundary import Header
from penstock.models.omap.cycles import cleared, public, run
from penstock.models.omap.errors import MapError
from penstock.models.omap.golden import Map
from penstock.models.omap.messages import Operation, Request
from penstock.models.omap.planner import plan
from penstock.models.omap.sessions import Denied
from penstock.targets import target_named
from testbench.omap import KEYS, Board, compile_map, config, expected, requests

_HBM = FixedLatency(20, 128)


@pytest.fixture(scope="module")
def small():
    """A small map and its compiled hardware, which other tests have as well."""
    shape = config()
    return shape, compile_map(shape)


def _compare(shape, library, made, memory, interval, seed=1, stall=0):
    """One run: responses, host-port beats, cycles."""
    steps = list(Map(shape, KEYS).run(made))
    with Board(shape, library, memory, _HBM, stall_percent=stall, seed=seed) as board:
        ended = board.run(made, interval=interval)
        assert ended.error is None
        assert board.responses(len(made)) == expected(made, steps)
        assert board.page_bursts() == board.expected_bursts(steps)
        if not stall:
            told = run(shape, public(steps), memory, interval=interval, **board.places(len(made)))
            assert ended.cycles == told.total
            assert ended.counters["conflicts"] == told.conflicts
        assert ended.counters["operations"] == len(made)
        assert ended.counters["pages"] == sum(len(step.opened) for step in steps)


@pytest.mark.parametrize("seed", range(6))
def test_hardware_is_golden_and_model(small, seed):
    shape, library = small
    draw = random.Random(seed)
    mix = draw.choice([(4, 5, 3), (1, 0, 0), (0, 1, 0), (1, 1, 4), (8, 1, 0)])
    made = requests(shape, 150, seed=seed, keys=draw.choice([1, 5, 60]), mix=mix)
    memory = FixedLatency(draw.randrange(1, 400), draw.choice([1, 4, 16, 32, 64]))
    _compare(shape, library, made, memory, draw.choice([0, 0, 1, 300, 900]))


@pytest.mark.parametrize("memory", [FixedLatency(20, 128), FixedLatency(5, 32)])
def test_the_first_start_clears_hbm(small, memory):
    """Whatever lies in HBM: the first run clears it, in the model's cycles, and no later one does."""
    shape, library = small
    made = requests(shape, 60, seed=8)
    steps = list(Map(shape, KEYS).run(made))
    host = FixedLatency(30, 32)
    draw = np.random.default_rng(5)
    with Board(shape, library, host, memory, cleared=False) as board:
        for space, size in enumerate(shape.channels, 1):
            board.machine.write(0, draw.integers(0, 256, size, dtype=np.uint8), space=space)
        first = board.run(made[:1])
        words = sum(size for _, size in shape.zeros) // shape.bus_bytes
        assert first.error is None and first.counters["scanned"] == words
        told = run(shape, public(steps[:1]), host, **board.places(1))
        assert first.cycles == cleared(shape, memory) + told.total
        second = board.run(made[1:])
        assert second.error is None and second.counters["scanned"] == 0
        assert board.responses(59, 1) == expected(made[1:], steps[1:])
        assert board.page_bursts() == board.expected_bursts(steps[1:])


def test_stalls_change_no_result(small):
    shape, library = small
    # HBM stalls too: the deadline leaves room for it
    made = requests(shape, 60, seed=8)
    steps = list(Map(shape, KEYS).run(made))
    with Board(shape, library, FixedLatency(9, 32), FixedLatency(1, 128)) as board:
        board.machine.session.set_memory({"m0": FixedLatency(9, 32)}, stall_percent=40, seed=3)
        assert board.run(made).error is None
        assert board.responses(len(made)) == expected(made, steps)


def test_cycles_tell_nothing_of_keys_and_operations(small):
    """Requests that open the same pages take the same cycles: misses open what their number says."""
    shape, library = small
    cycles = set()
    for kind in (Operation.GET, Operation.DELETE, 0, 9):
        made = [Request(kind, random.Random(kind).getrandbits(64), bytes(8)) for _ in range(50)]
        with Board(shape, library, FixedLatency(30, 32), _HBM) as board:
            cycles.add(board.run(made).cycles)
    made = [Request(Operation.PUT, n, bytes(8)) for n in range(35)]
    other = [Request(Operation.GET, n, bytes(8)) for n in range(35)]
    with Board(shape, library, FixedLatency(30, 32), _HBM) as board:
        written = board.run(made).cycles
    with Board(shape, library, FixedLatency(30, 32), _HBM) as board:
        assert board.run(other).cycles == written
    assert len(cycles) == 1


def test_requests_out_of_their_place_are_refused(small):
    """The map goes on, and has carried out nothing of them."""
    shape, library = small
    made = requests(shape, 4, seed=9)
    with Board(shape, library, FixedLatency(30, 32), _HBM) as board:
        assert board.run(made, first=1).error is None
        assert {Header.unpack(answer).code for answer in board.answers(4)} == {Denied.NUMBER}
        assert board.run(made).error is None
        opened = board.responses(4, serials=4)
        assert opened == expected(made, list(Map(shape, KEYS).run(made)))


def test_late_memory_is_an_error(small):
    shape, library = small
    with Board(shape, library, FixedLatency(30, 32), FixedLatency(60, 128)) as board:
        ended = board.run(requests(shape, 4, seed=9))
        assert ended.error == HardwareError(MapError.DEADLINE)


@pytest.mark.long
def test_hbm_with_the_timing_of_dram():
    """Rows, banks and refreshes of HBM2: the planner's deadline covers them, so that cycles are the model's."""
    hbm = parse_memory(target_named("u55c").dram, target_named("u55c").clock_mhz)
    shape = config(deadline=plan(40, 8, memory=hbm).access.deadline)
    host, library = FixedLatency(315, 32), compile_map(shape)
    for interval in (0, 500):
        made = requests(shape, 400, seed=interval)
        steps = list(Map(shape, KEYS).run(made))
        with Board(shape, library, host, hbm) as board:
            ended = board.run(made, interval=interval)
            assert ended.error is None
            assert board.responses(len(made)) == expected(made, steps)
            assert board.page_bursts() == board.expected_bursts(steps)
            told = run(shape, public(steps), host, interval=interval, **board.places(400))
            assert ended.cycles == told.total


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_random_configurations(seed):
    draw = random.Random(seed)
    openers = draw.choice([2, 4, 8])
    shape = (
        config(
            value_bytes=draw.choice([8, 24, 40, 64, 128, 256]),
            bins=draw.choice([16, 23, 33]),
            hbm_bins=draw.choice([0, 1, 7, 15]),
            slots=draw.choice([12, 15, 16]),
            frames=draw.choice([64, 100]),
            window=draw.choice([2, 4, 8]),
            openers=openers,
            sealers=draw.choice([2, 4]),
            rounds=draw.choice([1, 2]),
            chunks=draw.choice([1, 3]) if seed % 2 else 1,
            bus_bytes=max(draw.choice([16, 32, 64]), 16 if seed % 4 else 32),
            host_bus_bytes=draw.choice([16, 32, 64]),
            key="u64" if seed % 4 else "bytes",
        )
        if seed % 2 == 0
        else config(
            slots=12,
            chunks=draw.choice([2, 3, 4]),
            value_bytes=draw.choice([64, 120, 256]),
            bus_bytes=draw.choice([32, 128]),
            host_bus_bytes=draw.choice([32, 64, 128]),
            merge_blocks=draw.choice([1, 2]),
            window=8,
            openers=openers,
            rounds=draw.choice([1, 2, 4]),
            key="text" if seed % 4 == 1 else "u64",
        )
    )
    library = compile_map(shape)
    for run_seed in range(4):
        made = requests(shape, 200, seed=run_seed)
        memory = FixedLatency(draw.randrange(1, 400), draw.choice([1, 4, 16, 32, 64]))
        _compare(shape, library, made, memory, draw.choice([0, 300]))


@pytest.mark.parametrize("dealt", [2, pytest.param(4, marks=pytest.mark.long)])
def test_ports_that_are_dealt_over_channels(dealt):
    """Each channel has memory of its own. Golden's results and the model's cycles, those of clearing among them, with DRAM
    that operations are paced for, and with memory that is always ready."""
    hbm = parse_memory(target_named("u55c").dram, target_named("u55c").clock_mhz)
    shape = config(
        dealt=dealt,
        frames_dealt=dealt // 2,
        pace=40,
        frame_pace=120,  # merges wait for it
        window=32,
        deadline=plan(40, 8, memory=hbm).access.deadline,
        buckets=64,
        bins=400,
        hbm_bins=80,
        slots=7,
        frames=200,
        capacity=300,
    )
    library, host = compile_map(shape), FixedLatency(315, 32)
    draw = np.random.default_rng(dealt)
    for memory, interval in ((hbm, 0), (hbm, 300), (FixedLatency(20, 128), 0)):
        made = requests(shape, 400, seed=interval)
        steps = list(Map(shape, KEYS).run(made))
        with Board(shape, library, host, memory, cleared=False) as board:
            for space, size in enumerate(shape.channels, 1):
                board.machine.write(0, draw.integers(0, 256, size, dtype=np.uint8), space=space)
            first = board.run([])
            assert first.cycles == cleared(shape, memory) + 1
            tables = [board.machine.read(0, shape.channels[k], space=1 + k) for k in range(dealt)]
            assert sum(map(np.count_nonzero, tables)) == 0
            ended = board.run(made, interval=interval)
            assert ended.error is None
            assert board.responses(len(made)) == expected(made, steps)
            assert board.page_bursts() == board.expected_bursts(steps)
            told = run(shape, public(steps), host, interval=interval, **board.places(400))
            assert ended.cycles == told.total
