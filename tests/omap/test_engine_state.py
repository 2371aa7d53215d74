# amaranth: UnusedElaboratable=no
"""A map in Verilator that outlives its device: records, what becomes of files, and receipts are golden's, and
cycles the model's. Sessions are there from power-up on, keys are derived."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from penstock.host.omap.devices import MachineDevice
from penstock.host.omap.restore import Damaged, restored
from penstock.models.omap.boundary import Header
from penstock.models.omap.kept_device import KeptDevice, receipt_value
from penstock.models.omap.sessions import Asked
from penstock.models.omap.state import HEAD, Head, Kind, Record, Told
from testbench.kept_maps import SHAPE, Both, compiled

_ROOT = bytes(range(32))


@pytest.fixture(scope="module")
def library():
    return compiled(SHAPE)


def _asked(draw, both, count):
    made = []
    for _ in range(count):
        operation = draw.choice((1, 2, 2, 2, 3, 0, 5))
        value = draw.randbytes(both.config.value_bytes) if operation == 2 else b""
        key = draw.randrange(16)
        key = key % 3 << 64 | key // 3 if both.config.key_bytes > 8 else key
        made.append((draw.choice(both.clients), operation, key, value))
    return made


def _receipts(both, seen):
    """Return whether the device accepts receipts (incarnation, serial)."""
    asked = [
        (both.clients[k % 3], Asked.RECEIPT, serial, receipt_value(both.config, name))
        for k, (name, serial) in enumerate(seen)
    ]
    told, log = both.run(asked)
    return [status == 0 for status in told], log


def _lived(library, seed, files, draw, turns=3, shape=SHAPE, generation=0):
    """A device that restores its map from files, and goes on; return its log and a receipt."""
    with Both(library, seed, shape, generation=generation) as both:
        head, _ = restored(shape, both, files)
        log = head
        for _ in range(turns):
            log += both.run(_asked(draw, both, draw.randrange(1, 7)))[1]
        serial = both.golden.serial
        own = Head.parse(head).incarnation
        told, more = _receipts(both, [(own, serial), (bytes(16), 0), (own, serial + 100)])
        assert told == [True, False, False] and both.golden.confirmed is False
        return log + more, (own, serial)


def test_a_map_in_hardware_is_restored_after_each_power_cut(library):
    draw, files, seen = random.Random(1), [], []
    for power in range(3):
        log, receipt = _lived(library, power, files, draw, generation=power)
        files.append(log)
        seen.append(receipt)
    size = Record.size(SHAPE)
    assert [Head.parse(text[:HEAD]).generation for text in files] == [0, 1, 2]
    with Both(library, 8, generation=1) as both, pytest.raises(Damaged, match="does not follow"):
        restored(SHAPE, both, files)  # keys that were renewed since open no later file
    with Both(library, 9, generation=700) as both:  # the last one's end is torn
        _, used = restored(SHAPE, both, [*files[:-1], files[-1][: -size - 3] + bytes(3 * size)])
        assert used == len(files[-1]) - 2 * size
        name, serial = seen[-1]
        told, _ = _receipts(
            both,
            [*seen[:-1], (name, serial + 2), (name, serial), (seen[0][0], seen[0][1] + 4), seen[0]],
        )
        assert told == [True, True, False, True, False, True]
        assert both.golden.confirmed
    with Both(
        library, 10, generation=1
    ) as both:  # a fork of the second device, whose third one it does not know
        restored(SHAPE, both, files[:2])
        told, _ = _receipts(both, seen)
        assert told == [True, True, False]


def _linked(text):
    """The link of a log."""
    head = Head.parse(text[:HEAD])._replace(kind=Kind.LINK)
    return head.pack() + text[HEAD : HEAD + Record.size(SHAPE)]


def test_a_snapshot_is_restored_with_the_past_before_it(library):
    draw, files, seen = random.Random(2), [], []
    for power in range(2):
        log, receipt = _lived(library, power, files, draw)
        files.append(log)
        seen.append(receipt)
    golden = KeptDevice(SHAPE, _ROOT, bytes(32))
    head, _ = restored(SHAPE, golden, files)
    made = golden.carry([], walk=SHAPE.buckets)
    links = b"".join(map(_linked, [*files, head + made.log]))
    with Both(library, 40) as both:
        restored(SHAPE, both, [links + made.snapshot, made.fresh])
        told, _ = _receipts(both, [*seen, (Head.parse(head).incarnation, golden.serial)])
        assert told == [True] * 3
        assert sorted(both.golden.device.map.items()) == sorted(golden.device.map.items())
    size = Record.size(SHAPE)
    for text in (links, links + made.snapshot[:-size]):  # what they replaced is missing
        with Both(library, 41) as both:
            with pytest.raises(Damaged, match=r"not whole|no head"):
                restored(SHAPE, both, [text])
            assert Header.unpack(both.begin()).code == Told.STRAY


def _walked(both, draw):
    """A snapshot with requests and soft resets between its steps; return it, the log, and the head of the next one."""
    log, snapshot = b"", b""
    while True:
        asked = _asked(draw, both, draw.randrange(6))
        frames = [who.ask(*rest) for who, *rest in asked]
        if draw.random() < 0.3:
            both.rig.reset()
        made = both.walk(frames, draw.randrange(3))
        assert all(who.hear(text) for (who, *_), text in zip(asked, made.answers, strict=True))
        log, snapshot = log + made.log, snapshot + made.snapshot
        if made.fresh:
            return snapshot, log, made.fresh


def test_a_walk_through_hardware_is_restored_on_another_device(library):
    draw = random.Random(5)
    with Both(library, 50) as both:
        head, _ = restored(SHAPE, both, [])
        files = [head + both.run(_asked(draw, both, 12))[1]]
        for _ in range(2):
            snapshot, log, fresh = _walked(both, draw)
            files[-1] += log
            files = [snapshot, fresh]
            assert both.golden.snapshot_serial == both.golden.serial
        files[-1] += both.run(_asked(draw, both, 5))[1]
        kept, seen = sorted(both.golden.device.map.items()), both.golden.serial
        assert kept
        made = both.walk([], 1)  # a walk that power ends
        files[-1] += made.log
        both.cut([both.clients[0].ask(1, 3) for _ in range(40)], b"", 900)
    with Both(library, 51) as both:
        with pytest.raises(Damaged, match="not whole"):
            restored(SHAPE, both, [made.snapshot])
    with Both(library, 52) as both:
        restored(SHAPE, both, files)
        assert sorted(both.golden.device.map.items()) == kept
        told, _ = _receipts(both, [(Head.parse(head).incarnation, seen)])
        assert told == [True]


def test_the_host_of_hardware_has_its_snapshots(library):
    draw, whole = random.Random(6), 0
    with Both(library, 60) as both:
        device = MachineDevice(SHAPE, both.rig.machine, state=True)
        assert device.begin() == both.golden.begin()
        while whole < 2:
            frames = [who.ask(*rest) for who, *rest in _asked(draw, both, draw.randrange(4))]
            walk = draw.randrange(3)
            made = device.step(frames, b"", walk)
            assert made == both.golden.carry(frames, b"", walk)
            whole += bool(made.fresh)


def _any_order(library, seed, turns, shape=SHAPE):
    """A host that gives a device whatever it likes, in any order, of two pasts."""
    draw, files, counts = random.Random(seed), [], {}
    for power in range(2):
        lived = _lived(library, 20 + power, files[:power], draw, shape=shape, generation=power)
        files.append(lived[0])
    files.append(_lived(library, 30, files[:1], draw, shape=shape)[0])  # another second one
    size = Record.size(shape)
    for life in range(turns):
        with Both(library, 100 + life, shape, generation=draw.randrange(3)) as both:
            for _ in range(8):
                kind = draw.randrange(8)
                if kind < 5:
                    text = files[min(draw.randrange(4), 2)] if kind else draw.choice(files)
                    head, count = bytearray(text[:HEAD]), (len(text) - HEAD) // size
                    if draw.random() < 0.3:
                        head[4] = draw.choice((1, 2, 3))
                    if draw.random() < 0.1:
                        head[draw.randrange(HEAD)] ^= 1 << draw.randrange(8)
                    records = [text[HEAD + k * size :][:size] for k in range(count)]
                    frames = [
                        both.frames.pack(Header(0, 0, k), both.frames.answer_blocks, record)
                        for k, record in enumerate(records, 1)
                    ]
                    if draw.random() < 0.3:
                        at = draw.randrange(len(frames))
                        frames[at] = bytes(both.frames.size) if draw.random() < 0.5 else frames[0]
                    opening = Header(0, 0, 0).pack() + bytes(head)
                    room = both.frames.opening_beats * both.frames.bus_bytes
                    opens = opening.ljust(room, b"\0") if draw.random() < 0.9 else b""
                    for answer in both.take(frames, opens):
                        code = Header.unpack(answer).code
                        counts[code] = counts.get(code, 0) + 1
                elif kind == 5:
                    code = Header.unpack(both.begin()).code
                    counts["begun", code] = counts.get(("begun", code), 0) + 1
                elif kind == 6 and draw.random() < 0.4:
                    both.run(_asked(draw, both, 3))
                else:
                    both.rig.reset()
    return counts


def test_files_in_any_order_become_what_golden_says(library):
    counts = _any_order(library, 2, 12)
    assert {Told.APPLIED, Told.TORN, Told.CHANGED, Told.STRAY} <= counts.keys(), counts
    assert {("begun", 0), ("begun", Told.STRAY)} <= counts.keys(), counts


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_more_files_in_any_order(library, seed):
    _any_order(library, seed + 10, 120)


@pytest.mark.long
@pytest.mark.parametrize(("key", "value_bytes"), [("text", 8), ("bytes", 16), ("text", 40)])
def test_keys_that_are_hashes(key, value_bytes):
    """Records, files and receipts of a map whose keys have 128 bits."""
    shape = replace(SHAPE, key=key, value_bytes=value_bytes)
    counts = _any_order(compiled(shape), value_bytes, 30, shape)
    assert {Told.APPLIED, Told.TORN, Told.STRAY} <= counts.keys(), counts
