"""`host.omap.ObliviousMap` on every backend: the answers of a dict, with operations whose number tells nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock import KernelError
from penstock.engines.omap.machines import hardware
from penstock.host.omap import MapStopped, MessageChanged, ObliviousMap
from penstock.host.omap.backends import GoldenBackend, ModelBackend, open_backend
from penstock.host.omap.devices import GoldenDevice, MachineDevice
from penstock.host.omap.frames import Refused
from penstock.host.omap.handshake import Session
from penstock.host.omap.local import LocalBackend
from penstock.host.omap.session import MapSession
from penstock.models.memory import FixedLatency
from penstock.models.omap.messages import Operation, Request, Status
from penstock.models.omap.sessions import Welcome
from penstock.sim.native.machine import NativeMachine
from testbench.omap import KEYS, SESSION, compile_map, config

_HOST, _HBM = FixedLatency(30, 32), FixedLatency(20, 128)


def _powered(config_, root):
    memories = {f"m{k}": _HBM if k >= 2 else _HOST for k in range(6)}
    vault = {"root": 0, "entropy": 0, "generation": 0}
    return MachineDevice(config_, NativeMachine(compile_map(config_), memories, vault=vault))


class _Preset(LocalBackend):
    """Hardware with a session in its table: no handshake is simulated."""

    def _opened(self):
        session = Session(SESSION.receive, SESSION.send, b"")
        return MapSession(session, Welcome(bytes(16), 0, 0, False).pack())


_BACKENDS = {
    "golden": lambda: GoldenBackend(config(), KEYS),
    "model": lambda: ModelBackend(config(), _HOST, KEYS),
    "device": lambda: LocalBackend(config(), GoldenDevice),
    "rtl": lambda: _Preset(config(), _powered),
}


#: for what the host alone decides, or golden's answers do, which tests/omap holds the RTL against
quick = pytest.mark.parametrize("box", ["golden", "model", "device"], indirect=True)


@pytest.fixture(params=_BACKENDS)
def box(request):
    with ObliviousMap(backend=_BACKENDS[request.param]()) as made:
        yield made


def _value(draw):
    return draw.randbytes(8)


def test_answers_are_those_of_a_dict(box):
    draw, mirror = random.Random(5), {}
    for _ in range(12):
        keys = [draw.randrange(30) for _ in range(draw.randrange(1, 20))]
        turn = draw.randrange(6)
        if turn == 0:
            items = {key: _value(draw) for key in keys}
            box.update(items)
            mirror.update(items)
        elif turn == 1:
            assert box.get_many(keys) == [mirror.get(key) for key in keys]
        elif turn == 2:
            there = [mirror.pop(key, None) is not None for key in keys]
            assert box.delete_many(keys) == there
        elif turn == 3:
            assert box.pop(keys[0], None) == mirror.pop(keys[0], None)
            assert (keys[-1] in box) == (keys[-1] in mirror)
        elif turn == 4:
            value = _value(draw)
            assert box.setdefault(keys[0], value) == mirror.setdefault(keys[0], value)
        else:
            pairs = [(key, _value(draw)) for key in keys]
            box.put_many(pairs)
            mirror.update(pairs)
        assert set(box) == set(mirror) and len(box) == len(mirror)
    assert dict(box) == mirror and box == mirror
    assert box.popitem()[0] in mirror
    box.clear()
    assert not box and box.get_many(mirror) == [None] * len(mirror)
    with pytest.raises(KeyError):
        box.popitem()


class _Counted:
    """A backend that counts operations."""

    def __init__(self):
        self.inner, self.first, self.count = GoldenBackend(config(), KEYS), 0, 0
        self.config = self.inner.config

    def run(self, requests):
        self.count += len(requests)
        return self.inner.run(requests)

    def close(self):
        pass


def test_the_number_of_operations_tells_nothing():
    calls = {
        "get": (lambda box, key: box.get(key), 1),
        "in": (lambda box, key: key in box, 1),
        "pop": (lambda box, key: box.pop(key, None), 1),
        "set": (lambda box, key: box.__setitem__(key, bytes(8)), 1),
        "setdefault": (lambda box, key: box.setdefault(key, bytes(8)), 2),
        "get_many": (lambda box, key: box.get_many([key, key, 99]), 3),
        "delete_many": (lambda box, key: box.delete_many([key, 98]), 2),
        "update": (lambda box, key: box.update({key: bytes(8), 3: bytes(8)}), 2),
    }
    for call, expected in calls.values():
        for key in (1, 2):  # there, and not
            backend = _Counted()
            box = ObliviousMap(backend=backend)
            box[1] = b"12345678"
            before = backend.count
            call(box, key)
            assert backend.count - before == expected


@quick
def test_beyond_the_capacity(box):
    box.put_many((key, bytes(8)) for key in range(box.config.capacity - 1))
    with pytest.raises(OverflowError, match=r"holds 40 items already: not set: 101, 102$"):
        box.put_many((key, b"87654321") for key in (100, 101, 5, 102))
    assert box[100] == box[5] == b"87654321" and 101 not in box
    assert len(box) == box.config.capacity


def test_loads(box):
    items = {key << 40: key.to_bytes(8, "little") for key in range(25)}
    box.load(items)
    assert box == items
    box.load({1 << 40: b"87654321"})
    items[1 << 40] = b"87654321"
    more = {key: bytes(8) for key in range(1, 18)}
    with pytest.raises(OverflowError, match=r"not set: 16, 17$"):
        box.load(more)
    del more[16], more[17]
    assert box == items | more


def test_loads_show_the_number_of_records_alone():
    for size in (0, 3, 20):
        backend = GoldenBackend(config(), KEYS)
        box = ObliviousMap(backend=backend)
        box.load({key: bytes(8) for key in range(size)}, records=20)
        assert len(box) == size and backend.map.number == 20


@quick
def test_nothing_is_carried_out_where_one_key_is_wrong(box):
    with pytest.raises(ValueError, match="a value has 8 bytes, not 7"):
        box.put_many([(1, bytes(8)), (2, bytes(7))])
    with pytest.raises(TypeError, match="a key is an integer, not str"):
        box.get_many([1, "a"])
    with pytest.raises(TypeError, match="no names"):
        box.update(a=bytes(8))
    assert not box and 1 not in box and -1 not in box and "a" not in box


_WORDS = np.arange(8, dtype=np.uint32)


@pytest.mark.parametrize(
    "operation, problem",
    [
        (("get", 1, None), TypeError),
        ((None, 1, None), TypeError),
        ((2.0, 1, bytes(8)), TypeError),
        ((True, 1, None), TypeError),
        ((0, 1, None), ValueError),
        ((-1, 1, None), ValueError),
        ((4, 1, None), ValueError),
        ((258, 1, bytes(8)), ValueError),
        ((1 << 70, 1, None), ValueError),
        ((Operation.PUT, 1, memoryview(_WORDS)), ValueError),
        ((Operation.PUT, 1, memoryview(bytes(32)).cast("I")), ValueError),
        ((Operation.PUT, 1.0, bytes(8)), TypeError),
    ],
)
@quick
def test_operations_and_buffers_that_there_are_not(box, operation, problem):
    """Nothing is carried out, and the map answers."""
    box[1] = b"12345678"
    with pytest.raises(problem, match=r"an operation is|a value has 8 bytes, not 32|a key is"):
        box.batch([(Operation.DELETE, 1, None), operation])
    assert box[1] == b"12345678" and len(box) == 1
    assert [box.batch([(k, 1, bytes(8))])[0].status for k in (1, 2, 3)] == [Status.FOUND] * 3


@quick
def test_buffers_of_the_right_size(box):
    """Their bytes are stored, whatever their items are."""
    for key, value in enumerate((bytearray(8), memoryview(_WORDS[:2]), memoryview(_WORDS[4::2]))):
        box[key] = value
        assert box[key] == bytes(value) and len(box[key]) == 8


def test_loads_that_cannot_be():
    box = ObliviousMap(backend=GoldenBackend(config(), KEYS))
    with pytest.raises(TypeError, match=r"records is an integer, not float"):
        box.load({1: bytes(8)}, records=1.5)
    with pytest.raises(ValueError, match=r"records is 0 or more, not -4"):
        box.load({1: bytes(8)}, records=-4)
    assert not box


@pytest.mark.parametrize("capacity", [1.5, "x", None, 0, -1, True, (1 << 30) + 1])
def test_capacities_that_there_are_not(capacity):
    with pytest.raises(
        ValueError, match=r"capacity must be an integer from 1 to 1,073,741,824, not"
    ):
        ObliviousMap(capacity)


def test_values_and_backends_that_there_are_not():
    for size in (0, "x", None, 1.5, 12, 2048):
        with pytest.raises(ValueError, match="value_bytes must be"):
            ObliviousMap(10, value_bytes=size)
    for backend in (None, 7, config()):
        with pytest.raises(TypeError, match="or a MapBackend, not"):
            ObliviousMap(10, backend=backend)


@quick
def test_a_map_that_is_closed(box):
    box[1] = bytes(8)
    box.close()
    box.close()
    calls = [
        lambda: box[1],
        lambda: 1 in box,
        lambda: box.update({}),
        lambda: box.load({2: bytes(8)}),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"^the map is closed$"):
            call()


class _Filled(GoldenBackend):
    """A map that others have filled."""

    first = 1


def test_a_map_that_was_filled_before_is_not_listed():
    backend = _Filled(config(), KEYS)
    backend.run([Request(Operation.PUT, 7, b"12345678")])
    box = ObliviousMap(backend=backend)
    assert box[7] == b"12345678" and bool(box)
    for act in (len, list, lambda box: box.clear(), lambda box: box == {}):
        with pytest.raises(TypeError, match="does not tell which keys"):
            act(box)


class _Altering(GoldenDevice):
    """A host that changes frames on their way."""

    request = response = None

    def carry(self, frames, opening=b""):
        if opening:
            return super().carry(frames, opening)
        frames = [self.request(m) if self.request else m for m in frames]
        answers = super().carry(frames)
        return [self.response(m) if self.response else m for m in answers]


def _flip(frame):
    return frame[:20] + bytes([frame[20] ^ 1]) + frame[21:]


def test_changed_frames_are_seen_and_the_map_answers():
    """In a new session."""
    backend = LocalBackend(config(), _Altering)
    box, host = ObliviousMap(backend=backend), backend.carrier
    box[1] = b"12345678"
    for name, problem, words in (
        ("response", MessageChanged, "the response to request 1 does not open"),
        ("request", Refused, "request 1: the server says: it was changed on its way"),
    ):
        setattr(host, name, _flip)
        with pytest.raises(problem, match=words):
            box[1]
        setattr(host, name, None)
        assert box[1] == b"12345678"


def test_hardware_that_stops_says_so_again():
    backend = _Preset(config(), _powered)
    box, machine = ObliviousMap(backend=backend), backend.carrier._machine
    box.put_many((key, bytes(8)) for key in range(30))
    pages = machine.read(0, config().host_bytes)
    machine.write(0, pages ^ np.uint8(1))
    with box:
        for _ in range(2):
            with pytest.raises(MapStopped, match="not the one that was written last"):
                box.get_many(range(30))


def test_a_device_whose_memory_the_host_reads():
    class Board:
        capacity = 1 << 20

    with pytest.raises(ValueError, match="one memory, which its host reads"):
        MachineDevice(config(), Board())


def test_the_model_counts_cycles():
    backend = ModelBackend(config(), _HOST, KEYS)
    box = ObliviousMap(backend=backend)
    box.put_many((key, bytes(8)) for key in range(10))
    alone = backend.cycles
    assert backend.operations == 10 and alone > 0
    assert [r.status for r in box.batch([])] == [] and backend.cycles == alone
    box.batch([(Operation.GET, 1, None)])
    assert backend.cycles > alone


def test_backends_that_there_are_not():
    with pytest.raises(
        ValueError, match="golden, model, device, or what powers a device up, not 'rtl'"
    ):
        ObliviousMap(backend="rtl")
    with pytest.raises(ValueError, match="hardware is one of rtl, netlist, pysim, not"):
        hardware("golden")
    with pytest.raises(ValueError, match="a run on rtl takes no family: it is for netlist"):
        hardware("rtl", family="ecp5")


def test_options_reach_the_machine():
    with pytest.raises(KernelError, match="u55c is of the family amd"):
        open_backend(hardware("netlist"), config())
    with pytest.raises(ValueError, match="hardware is one of rtl"):
        hardware("board")


@pytest.mark.long
def test_hardware_by_its_name():
    """Several runs of one machine, the first one a handshake: what it holds lives on between them."""
    with ObliviousMap(backend=open_backend(hardware("rtl"), config())) as box:
        box.put_many({1: b"a" * 8, 2: b"b" * 8})
        assert box.get_many([1, 3, 2]) == [b"a" * 8, None, b"b" * 8]
        assert box.pop(2) == b"b" * 8
        assert dict(box) == {1: b"a" * 8}
