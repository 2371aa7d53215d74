# amaranth: UnusedElaboratable=no
"""Many operations in flight in hdl.omap: items are fetched before they are there, pages are opened again at once."""

from __future__ import annotations

import random

import pytest

from penstock.models.memory import FixedLatency
from penstock.models.omap.cycles import public, run
from penstock.models.omap.golden import Map
from testbench.omap import KEYS, Board, compile_map, config, expected, requests

_HBM = FixedLatency(20, 128)

#: three bins, so that most operations open what the ones before them opened, and few frames
_NARROW = {
    "capacity": 7,
    "bins": 3,
    "hbm_bins": 1,
    "slots": 7,
    "frames": 9,
    "window": 8,
    "responders": 1,
    # items of three blocks, two a cycle
    "value_bytes": 40,
    "host_bus_bytes": 64,
    "merge_blocks": 2,
}
#: rows of four blocks, of which an item of five takes two, from words of HBM that have four; a narrow
#: port for pages
_ROWS = {
    "capacity": 12,
    "value_bytes": 64,
    "bins": 9,
    "hbm_bins": 2,
    "slots": 6,
    "buckets": 2,
    "frames": 14,
    "chunks": 3,
    "rounds": 4,
    "bus_bytes": 64,
    "host_bus_bytes": 16,
    "merge_blocks": 4,
}


def _compare(shape, library, seed, stall=0):
    draw = random.Random(seed)
    keys = draw.choice([1, 2, shape.capacity, 2 * shape.capacity])
    mix = draw.choice([(4, 5, 3), (1, 0, 0), (0, 1, 0), (1, 1, 4), (8, 1, 0)])
    made = requests(shape, 150, seed=seed, keys=keys, mix=mix)
    interval = draw.choice([0, 0, 0, 60, 400])
    memory = FixedLatency(draw.choice([1, 40, 300, 600]), draw.choice([4, 16, 32, 64]))
    messages = draw.choice([memory, FixedLatency(20, 32)])
    steps = list(Map(shape, KEYS).run(made))
    with Board(shape, library, memory, _HBM, messages=messages) as board:
        if stall:
            ports = {"m0": memory, "m1": memory}
            board.machine.session.set_memory(ports, stall_percent=stall, seed=seed)
        ended = board.run(made, interval=interval)
        assert ended.error is None
        assert board.responses(len(made)) == expected(made, steps)
        assert board.page_bursts() == board.expected_bursts(steps)
        if not stall:
            places = board.places(len(made))
            timing = {"interval": interval, "messages": messages}
            told = run(shape, public(steps), memory, **timing, **places)
            assert ended.cycles == told.total
            assert ended.counters["conflicts"] == told.conflicts


@pytest.fixture(scope="module")
def narrow():
    """A map of three bins and its compiled hardware."""
    shape = config(**_NARROW)
    return shape, compile_map(shape)


@pytest.mark.parametrize("seed", range(8))
def test_items_on_their_way(narrow, seed):
    _compare(*narrow, seed)


@pytest.mark.parametrize("seed", range(3))
def test_stalls_of_the_host(narrow, seed):
    _compare(*narrow, seed, stall=40)


@pytest.mark.long
def test_rows_of_many_blocks():
    shape = config(**_ROWS)
    assert (shape.slot_rows, shape.page_rows, shape.page_blocks) == (2, 12, 30)
    library = compile_map(shape)
    for seed in range(2):
        _compare(shape, library, seed)
