# amaranth: UnusedElaboratable=no
"""hdl.omap in Verilator under a host that watches, reads, and damages what lies in its memory, and
without power.
"""

from __future__ import annotations

import random
from functools import partial
from unittest.mock import patch

import pytest

from penstock.models.errors import ErrorCode, HardwareError
from penstock.models.memory import FixedLatency
from penstock.models.omap.errors import MapError
from penstock.models.omap.golden import Map
from penstock.sim.machine import Hung
from testbench.obliviousness import Trace, independence, shape, uniformity
from testbench.omap import KEYS, Board, compile_map, config, expected, requests
from testbench.omap_workloads import WORKLOADS, workload

_HOST, _HBM = FixedLatency(30, 32), FixedLatency(20, 128)
_KINDS = ("flipped", "swapped", "replayed", "truncated")


@pytest.fixture(scope="module")
def small():
    """A small map and its compiled hardware."""
    shape_ = config()
    return shape_, compile_map(shape_)


def _watched(small, name, count):
    """What the host sees of a workload: pages by operation, and bursts of requests and responses."""
    shape_, library = small
    first, made = workload(name, shape_.capacity, count, seed=5)
    sizes = [len(step.opened) for step in Map(shape_, KEYS).run(made)]
    with Board(shape_, library, _HOST, _HBM, most=len(made)) as board:
        board.machine.trace(1)
        assert board.run(made).error is None
        seen = board.page_bursts()
        messages = (
            [
                (t.channel, t.address, t.beats)
                for t in board.machine.trace(1)
                if t.channel == "read"
            ],
            [
                (t.channel, t.address, t.beats)
                for t in board.machine.trace(1)
                if t.channel == "write"
            ],
        )
    found = []
    for channel in ("read", "write"):
        pages = iter(
            [a // shape_.page_bytes for a, _, _ in seen[channel] if not a % shape_.page_bytes]
        )
        found.append([tuple(next(pages) for _ in range(size)) for size in sizes][first:])
        assert next(pages, None) is None
    return Trace(shape_.bins, shape_.hbm_bins, tuple(found[0]), tuple(found[1])), messages


def _judge(small, names, count):
    same = None
    for name in names:
        seen, messages = _watched(small, name, count)
        findings = [*shape(seen), uniformity(seen), independence(seen)]
        assert [finding for finding in findings if not finding.passes] == [], name
        if name != "misses":  # as many requests as all others
            assert same is None or messages == same
            same = messages


def test_the_host_sees_nothing_of_the_workload(small):
    _judge(small, ("hot key", "deletes"), 400)


@pytest.mark.long
def test_the_host_sees_nothing_of_any_workload(small):
    _judge(small, WORKLOADS, 6000)


def _attack(small, kind, seed, made, steps):
    """Damage a page between two runs, or in the midst of one; return whether it was opened."""
    shape_, library = small
    draw = random.Random(f"{kind} {seed}")
    size = shape_.page_bytes
    text = 16 * (shape_.page_blocks + shape_.chunks)
    latest = {o.page: n for n, step in enumerate(steps[:30]) for o in step.opened}
    page = draw.choice([page for page, n in sorted(latest.items()) if n >= 10])
    opened = [{o.page for o in step.opened} for step in steps]
    hit = next((n for n in range(30, 60) if page in opened[n]), None)
    with Board(shape_, library, _HOST, _HBM, most=60) as board:
        assert board.run(made[:10]).error is None
        old = board.host
        assert board.run(made[10:30]).error is None
        data = board.host[page * size : (page + 1) * size].copy()
        if kind == "flipped":
            data[draw.randrange(size)] ^= 1 << draw.randrange(8)
        elif kind == "swapped":
            other = draw.choice([p for p in sorted(latest) if p != page])
            data = board.host[other * size : (other + 1) * size]
        elif kind == "replayed":
            data = old[page * size : (page + 1) * size]
        else:
            data[draw.randrange(8, text - 1) :] = 0
        board.machine.write(page * size, data, space=0)
        ended = board.run(made[30:])
        answers = board.responses(30, 30)
        given = [answer for answer in answers if answer is not None]
        assert given == expected(made[30:hit], steps[30:hit])[: len(given)]
        if hit is None:
            assert ended.error is None
            return False
        assert ended.error == HardwareError(MapError.PAGE_TAG)
        assert answers[hit - 30 :] == [None] * (60 - hit)
        assert board.run(made[30:]).error == HardwareError(MapError.STOPPED)
    return True


def _attacks(small, count):
    made = requests(small[0], 60, seed=9)
    steps = list(Map(small[0], KEYS).run(made))
    return sum(_attack(small, _KINDS[n % 4], n, made, steps) for n in range(count))


def _padded(shape_, library, places):
    """Flip a bit behind the last tag of a page that the next run opens."""
    made = requests(shape_, 60, seed=9)
    steps = list(Map(shape_, KEYS).run(made))
    size = shape_.page_bytes
    page = steps[30].opened[0].page if steps[30].opened else steps[31].opened[0].page
    assert any(page == o.page for step in steps[:30] for o in step.opened)
    assert places and size - len(places) == 16 * (shape_.page_blocks + shape_.chunks)
    for at in places:
        with Board(shape_, library, _HOST, _HBM, most=60) as board:
            assert board.run(made[:30]).error is None
            data = board.host[page * size : (page + 1) * size].copy()
            assert data[at] == 0
            data[at] ^= 1 << at % 8
            board.machine.write(page * size, data, space=0)
            assert board.run(made[30:]).error == HardwareError(MapError.PAGE_TAG), at


def test_what_fills_a_page_is_looked_at(small):
    size = small[0].page_bytes
    _padded(*small, range(size - 16, size))


@pytest.mark.long
def test_what_fills_a_page_of_longer_values_is_looked_at():
    shape_ = config(value_bytes=16, slots=15)
    _padded(shape_, compile_map(shape_), range(shape_.page_bytes - 16, shape_.page_bytes))


def test_damaged_pages_stop_the_map_before_any_response(small):
    """A page that is damaged in any way stops the run in which it is opened next; what has been
    answered until then is right.
    """
    assert _attacks(small, 20) >= 16


@pytest.mark.long
def test_three_hundred_damaged_pages(small):
    assert _attacks(small, 320) >= 300


def _cut_power(small, cuts):
    """Cut the power in so many cycles of a run; return them."""
    shape_, library = small
    draw = random.Random(3)
    made = requests(shape_, 80, seed=12, unknown=False)
    limits = []
    for _ in range(cuts):
        with Board(shape_, library, _HOST, _HBM, most=80) as board:
            ended = board.run(made[:40])
            assert ended.error is None
            limits.append(draw.randrange(100, ended.cycles // 2))
            run = partial(board.machine.run, limit=limits[-1])
            with pytest.raises(Hung), patch.object(board.machine, "run", run):
                board.run(made[40:])
            assert board.run(made[40:]).error == HardwareError(MapError.STOPPED)
    return limits


def test_a_run_that_is_cut_off_at_any_cycle(small):
    """A half-done map is not gone on with."""
    _cut_power(small, 2)


@pytest.mark.long
def test_runs_that_are_cut_off_at_a_hundred_cycles(small):
    assert len(set(_cut_power(small, 100))) >= 90


def test_no_register_is_secret(small):
    """A register that only a trusted party may write does not exist on the host's bus: none is a key, none
    says where HBM's content lies or that it is cleared."""
    shape_, library = small
    with Board(shape_, library, _HOST, _HBM, most=20) as board:
        registers = board.machine.session.register_map.engine
    places = {"requests", "responses", "opening", "welcome", "pages"}
    assert {r.name for r in registers} == {*places, "handshake", "count", "interval"}


def test_any_writes_of_registers_between_runs_change_nothing(small):
    """Each of them with any value, soft resets, and starts that are refused for values that none may have: the
    map's content, its session and its pages go on."""
    shape_, library = small
    draw, made = random.Random(5), requests(shape_, 60, seed=3)
    steps = list(Map(shape_, KEYS).run(made))
    with Board(shape_, library, _HOST, _HBM, most=60) as board:
        session = board.machine.session
        for turn in range(6):
            if turn % 2:
                session.reset()
            for register in session.register_map.engine:
                session.write(register.name, draw.getrandbits(register.bits))
            part = slice(10 * turn, 10 * turn + 10)
            refused = board.machine.run({}, watchdog=50_000)
            assert refused.error is not None and refused.error.code == ErrorCode.REGISTER
            assert board.run(made[part]).error is None
            assert board.responses(10, 10 * turn) == expected(made[part], steps[part])
            assert board.page_bursts() == board.expected_bursts(steps[part])
