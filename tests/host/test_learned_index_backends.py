"""The learned index with the engine: slots, time by the cycle model, the simulated engine, errors injected into its memory."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.host.device.errors import DeviceError
from penstock.host.learned_index import LearnedIndex, Trainer, TrainingError
from penstock.host.learned_index.backends import EngineBackend, Room, Timed
from penstock.host.learned_index.slots import Slots
from penstock.models.errors import ErrorCode
from penstock.models.memory import FixedLatency
from penstock.models.qr.config import FitPlan
from penstock.models.qr.shell import FitError
from penstock.sim.native.machine import NativeMachine
from testbench.faults import fail_read
from testbench.learned_index import SMALL
from testbench.qr import build
from testbench.qr_cases import slot_plan
from testbench.workloads import amazon_keys

#: as tests/qr/test_engine.py has it, so that it is compiled once
CONFIG = slot_plan(n_max=6, gram_lanes=12, bus_bytes=32, row_units=2, solvers=2, contexts=2, jobs=5)


def test_slots_after_changes() -> None:
    rng = random.Random(2)
    for _ in range(400):
        slots = Slots.spread(rng.randrange(30), rng.choice([0.3, 0.5, 0.9, 1.0]))
        for _ in range(12):
            count = len(slots.of)
            removed = sorted(rng.sample(range(count), rng.randrange(count // 3 + 1)))
            total = count - len(removed) + rng.randrange(12)
            added = sorted(rng.sample(range(total), total - count + len(removed)))
            found = slots.after(added, removed)
            if found is None:
                break
            new, moved, before = found
            assert (
                len(new.of) == total
                and all(a < b for a, b in zip(new.of, new.of[1:], strict=False))
                and (not total or new.of[-1] < new.capacity)
            )
            gone, fresh = set(removed), set(added)
            old = iter([slot for at, slot in enumerate(slots.of) if at not in gone])
            changed = [
                (at, was)
                for at, (slot, was) in enumerate(
                    (slot, None if at in fresh else next(old)) for at, slot in enumerate(new.of)
                )
                if was is not None and was != slot
            ]
            assert changed == list(zip(moved, before, strict=True))
            slots = new
    assert Slots.spread(4, 0.5).range(1, 5) == (1, 3) and Slots.dense(3).of == [0, 1, 2]
    packed = Slots(list(range(64)), 64)
    assert packed.after([5], []) is None and packed.after([], [5]) is not None


def work(index: LearnedIndex) -> dict[bytes, int]:
    """Fill, change and thin an index out; return what it must hold."""
    rng = random.Random(1)
    keys = [b"user%d" % rng.randrange(10**6) for _ in range(400)]
    model = dict.fromkeys(keys[:200], 1)
    index.update(model)
    for key in keys[200:]:
        index[key] = model[key] = 2
    for key in keys[::5]:
        assert index.pop(key, None) == model.pop(key, None)
    index.retrain(every=True)
    return model


def same(a: LearnedIndex, b: LearnedIndex) -> None:
    assert list(a.items()) == list(b.items())
    for x, y in zip(a._groups, b._groups, strict=True):
        assert x.model is not None and y.model is not None
        assert np.array_equal(x.model.fit.weights, y.model.fit.weights) and (
            x.model.low,
            x.model.high,
        ) == (y.model.low, y.model.high)
        assert np.array_equal(x.model.labels(len(x.keys)), y.model.labels(len(y.keys)))


@pytest.mark.parametrize("config", [CONFIG, FitPlan(n_max=6, gram_lanes=21)], ids=["slot", "rank"])
def test_timed(config: FitPlan) -> None:
    slow, fast = Timed(config, FixedLatency(200, 8)), Timed(config, FixedLatency(10, 16))
    indexes = [
        LearnedIndex(trainer=Trainer(config, backend), layout=SMALL) for backend in (slow, fast)
    ]
    for index in indexes:
        work(index)
    same(*indexes)
    assert slow.jobs == fast.jobs > slow.runs > 20 and slow.cycles > 2 * fast.cycles > 0


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineBackend]:
    with EngineBackend(CONFIG, NativeMachine(build(CONFIG))) as made:
        yield made


def test_simulated_engine_fits_as_the_golden_model(engine: EngineBackend) -> None:
    index, golden = (
        LearnedIndex(trainer=trainer, layout=SMALL)
        for trainer in (Trainer(CONFIG, engine), Trainer(CONFIG))
    )
    model = work(index)
    work(golden)
    same(index, golden)
    assert dict(index) == model and index.get_many(model) == list(model.values())
    assert (
        engine.jobs == index.trainer.full + index.trainer.incremental
        and engine.cycles > 0
        and index.trainer.incremental > 50
    )
    read, written = engine.traffic
    assert read > 0 < written


class Little(NativeMachine):
    """A memory that does not grow: what a device has."""

    def __init__(self, size: int) -> None:
        super().__init__(build(CONFIG))
        self.reserve(0, size)
        self.capacity = size


@pytest.mark.long
def test_a_small_memory_takes_more_starts() -> None:
    """Jobs that do not fit together are run one after the other, memos make room for others and are sent again; a job that does not fit alone is told."""
    with (
        EngineBackend(CONFIG, NativeMachine(build(CONFIG))) as wide,
        EngineBackend(CONFIG, Little(12 << 10)) as tight,
    ):
        indexes = [
            LearnedIndex(trainer=Trainer(CONFIG, engine), layout=SMALL) for engine in (wide, tight)
        ]
        for index in indexes:
            work(index)
        same(*indexes)
        assert tight.jobs == wide.jobs and tight.runs > wide.runs and tight.sent > wide.sent
        tight._machine.capacity, tight._resident = 256, {}
        tight._room = Room(tight._machine)
        with pytest.raises(
            DeviceError,
            match=r"^a fit of \d+ rows does not fit into the device's 256 bytes of memory$",
        ):
            LearnedIndex(
                {b"user%d" % n: 1 for n in range(100)}, trainer=Trainer(CONFIG, tight), layout=SMALL
            )


def test_an_engine_is_not_pickled() -> None:
    index = LearnedIndex({b"a": 1})
    index.trainer.backend = EngineBackend.__new__(EngineBackend)
    for call in (pickle.dumps, deepcopy):
        with pytest.raises(
            TypeError, match=r"an engine cannot be pickled or copied.*save\(\) stores the index"
        ):
            call(index)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=60))
def test_room(steps: list[tuple[bool, int]]) -> None:
    """Blocks never overlap; when all are back there is one free span again."""
    machine = Little.__new__(Little)
    machine.capacity = 200
    room, blocks = Room(machine), list[tuple[int, int]]()
    for take, size in steps:
        if take:
            at = room.take(size)
            if at is None:
                gaps = sorted([(0, 0), *blocks, (200, 0)])
                assert all(b[0] - sum(a) < size for a, b in pairwise(gaps))
            else:
                assert (
                    0 <= at
                    and at + size <= 200
                    and all(at + size <= b or b + n <= at for b, n in blocks)
                )
                blocks.append((at, size))
        elif blocks:
            room.give(*blocks.pop(size % len(blocks)))
    for block in blocks:
        room.give(*block)
    assert room.take(200) == 0


@pytest.mark.parametrize(
    ("at", "code"),
    [
        (0, FitError.QR_MEMO),
        (6, FitError.QR_WINDOW),
        (8, FitError.QR_WINDOW),
        (12, FitError.QR_MEMO),
        (16, FitError.QR_MEMO),
    ],
    ids=["magic", "length", "prefix", "epoch", "rows"],
)
def test_a_damaged_memo_fails_a_job_and_nothing_else(
    engine: EngineBackend, at: int, code: ErrorCode
) -> None:
    """The old models serve, the keys are there; the next fit sends the host's own copy of the memo and goes on."""
    keys = sorted(amazon_keys(300, 5))
    index = LearnedIndex(
        dict.fromkeys(keys[::2], 1), trainer=Trainer(CONFIG, engine), layout=SMALL, deferred=True
    )
    for key in keys[1::2]:
        index[key] = 2
    doomed = next(iter(index._pending))
    assert doomed.model is not None
    at += engine._resident[id(doomed.model.fit.memo)][0]
    engine._machine.write(at, engine._machine.read(at, 1) ^ 1)
    before = [group.model for group in index._groups]
    with pytest.raises(TrainingError) as caught:
        index.retrain()
    assert caught.value.error.code is code
    assert [group.model for group in index._groups] == before and index.get_many(keys) == [
        1 + n % 2 for n in range(300)
    ]
    due = index.due
    assert (
        index.retrain() == due
        and index.due == 0
        and index.get_many(keys) == [1 + n % 2 for n in range(300)]
    )


def test_an_error_of_the_bus_fails_what_has_no_result(engine: EngineBackend) -> None:
    keys = sorted(amazon_keys(300, 6))
    index = LearnedIndex(
        dict.fromkeys(keys[::2], 1), trainer=Trainer(CONFIG, engine), layout=SMALL, deferred=True
    )
    for key in keys[1::2]:
        index[key] = 2
    assert isinstance(engine._machine, NativeMachine)
    fail_read(engine._machine.session, 0, 60)
    with pytest.raises(TrainingError) as caught:
        index.retrain()
    assert caught.value.error.code is ErrorCode.BUS_READ and index.get_many(keys) == [
        1 + n % 2 for n in range(300)
    ]
    assert index.retrain() > 0 and index.get_many(keys) == [1 + n % 2 for n in range(300)]
