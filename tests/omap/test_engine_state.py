# amaranth: UnusedElaboratable=no
"""A map in Verilator that outlives its device: records, what becomes of files, and receipts are golden's, and
cycles the model's. Sessions are there from power-up on, keys are derived."""

from __future__ import annotations

import random

import pytest

from penstock.cache import generator, kept
from penstock.hdl.omap.engine import MapEngine
from penstock.hdl.shell import Shell
from penstock.hdl.shell.verilog import to_verilog
from penstock.host.omap.handshake import Session
from penstock.host.omap.restore import Damaged, restored
from penstock.models.crypto import noise
from penstock.models.memory import FixedLatency
from penstock.models.omap.boundary import Header
from penstock.models.omap.cycles import public, run
from penstock.models.omap.kept_device import KeptDevice, receipt_value
from penstock.models.omap.session_stages import collected, fetched, filed
from penstock.models.omap.sessions import ROLES, Asked, digest_of_map
from penstock.models.omap.shell import STATE_PORTS, port_bytes
from penstock.models.omap.state import HEAD, Head, Kind, Record, Told
from penstock.models.omap.vault import Role
from penstock.sim.native import PortSpec, build
from testbench.boundary import PresetDoor, Rig
from testbench.memories import filled
from testbench.omap import config, unset
from testbench.session_clients import Client

_SHAPE = config(capacity=12, bins=6, hbm_bins=2, slots=8, request_openers=2, responders=2)
_HOST, _HBM = FixedLatency(30, 32), FixedLatency(20, 128)
_ROOT = bytes(range(32))
_DRAW = random.Random(11)
_SESSIONS = [
    (slot, role, noise.Keys(b"", _DRAW.randbytes(32), _DRAW.randbytes(32), b""))
    for slot, role in ((0, Role.WRITER), (1, Role.READER), (63, Role.KEEPER))
]


def _compiled(shape):
    door = PresetDoor(_SESSIONS, "derived", digest_of_map(shape))
    engine = MapEngine(shape, door=door, state=True)
    ports = [
        PortSpec(f"m{k}_axi", size, True, True, space)
        for k, (size, space) in enumerate(
            zip(port_bytes(shape, True), STATE_PORTS.values(), strict=True)
        )
    ]
    text = kept(
        f"{shape!r} state {generator('penstock.engines.omap')}",
        lambda: to_verilog(Shell(engine, engine.register_map)),
    )
    return build(filled(text, unset(shape)), ports=ports, register_map=engine.register_map)


@pytest.fixture(scope="module")
def library():
    return _compiled(_SHAPE)


class _Both:
    """A device that is powered up, in hardware and golden. All that either does, both must."""

    def __init__(self, library, seed, shape=_SHAPE):
        entropy = random.Random(seed).randbytes(32)
        self.config, self.golden = shape, KeptDevice(shape, _ROOT, entropy)
        self.frames, self.keys = self.golden.frames, self.golden._keys
        vault = {
            "root": int.from_bytes(_ROOT, "little"),
            "entropy": int.from_bytes(entropy, "little"),
        }
        timings = {
            f"m{k}": _HBM if space else _HOST for k, space in enumerate(STATE_PORTS.values())
        }
        self.rig = Rig(
            shape, library, timings, shape.host_bytes, shape.hbm_bytes, vault, state=True
        )
        self.clients = []
        for slot, role, keys in _SESSIONS:
            self.golden._boundary._sessions.take(slot, ROLES.index(role), keys)
            self.clients.append(client := Client(self, slot, role))
            client.session = Session(keys.receive, keys.send, b"")
        self.steps = []
        step = self.golden.device.step
        self.golden.device.step = lambda request: self.steps.append(step(request)) or self.steps[-1]
        ended, _ = self.rig.run([])
        assert ended.error is None

    def _cycles(self, count, **given):
        at = self.rig.places
        places = {
            "requests_at": at["requests"],
            "responses_at": at["responses"],
            "log_at": at["log"],
        }
        shown = public(self.steps)
        self.steps.clear()
        return run(self.config, shown, _HOST, **places, **given).total if count else 1

    def _carry(self, frames):
        """Requests; return the answers and the log's records."""
        made = self.golden.carry(frames)
        ended, found = self.rig.run(frames)
        assert ended.error is None and found == made.answers
        logs = bool(made.log)
        assert ended.cycles == self._cycles(len(frames), log=_HOST if logs else None)
        records = self.rig.frames_at("log", len(frames)) if logs else []
        size = self.frames.answer_bytes
        assert made.log == b"".join(self.frames.sealed(record, size) for record in records)
        numbers = {Header.unpack(record).number for record in records}
        assert len(numbers) == len(records)
        return found, made.log

    def take(self, frames, opening=b""):
        late = self.golden._closed
        meant = self.golden.take(frames, opening)
        ended, found = self.rig.run(frames, opening, file=True)
        assert ended.error is None and found == meant
        at = 0
        if opening:
            at = fetched(self.frames, _HOST, self.rig.places["opening"]) + (1 if late else filed())
        assert ended.cycles == at + self._cycles(len(frames), records=True)
        return found

    def begin(self):
        meant = self.golden.begin()
        ended, [found] = self.rig.run([], collect=True, file=True)
        assert ended.error is None and found == meant
        ready = 2 if Header.unpack(meant).code else 1 + filed()
        assert ended.cycles == collected(self.frames, _HOST, self.rig.places["welcome"], ready)
        return found

    def run(self, asked):
        """(client, operation, key, value)s; return statuses and the records."""
        frames = [client.ask(*rest) for client, *rest in asked]
        answers, log = self._carry(frames)
        return [
            client.hear(answer).status for (client, *_), answer in zip(asked, answers, strict=True)
        ], log

    def close(self):
        self.rig.machine.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _asked(draw, both, count):
    made = []
    for _ in range(count):
        operation = draw.choice((1, 2, 2, 2, 3, 0, 5))
        value = draw.randbytes(both.config.value_bytes) if operation == 2 else b""
        made.append((draw.choice(both.clients), operation, draw.randrange(16), value))
    return made


def _receipts(both, seen):
    """Return whether the device accepts receipts (incarnation, serial)."""
    asked = [
        (both.clients[k % 3], Asked.RECEIPT, serial, receipt_value(both.config, name))
        for k, (name, serial) in enumerate(seen)
    ]
    told, log = both.run(asked)
    return [status == 0 for status in told], log


def _lived(library, seed, files, draw, turns=3, shape=_SHAPE):
    """A device that restores its map from files, and goes on; return its log and a receipt."""
    with _Both(library, seed, shape) as both:
        head, _ = restored(shape, both, files)
        log = head
        for _ in range(turns):
            log += both.run(_asked(draw, both, draw.randrange(1, 7)))[1]
        serial = both.golden.serial
        own = Head.said(head).incarnation
        told, more = _receipts(both, [(own, serial), (bytes(16), 0), (own, serial + 100)])
        assert told == [True, False, False] and both.golden.confirmed is False
        return log + more, (own, serial)


def test_a_map_in_hardware_is_restored_after_each_power_cut(library):
    draw, files, seen = random.Random(1), [], []
    for power in range(3):
        log, receipt = _lived(library, power, files, draw)
        files.append(log)
        seen.append(receipt)
    size = Record.size(_SHAPE)
    with _Both(library, 9) as both:  # the last one's end is torn
        _, used = restored(_SHAPE, both, [*files[:-1], files[-1][: -size - 3] + bytes(3 * size)])
        assert used == len(files[-1]) - 2 * size
        name, serial = seen[-1]
        told, _ = _receipts(
            both,
            [*seen[:-1], (name, serial + 2), (name, serial), (seen[0][0], seen[0][1] + 4), seen[0]],
        )
        assert told == [True, True, False, True, False, True]
        assert both.golden.confirmed
    with _Both(
        library, 10
    ) as both:  # a fork of the second device, whose third one it does not know
        restored(_SHAPE, both, files[:2])
        told, _ = _receipts(both, seen)
        assert told == [True, True, False]


def _linked(text):
    """The link of a log."""
    head = Head.said(text[:HEAD])._replace(kind=Kind.LINK)
    return head.pack() + text[HEAD : HEAD + Record.size(_SHAPE)]


def test_a_snapshot_is_restored_with_the_past_before_it(library):
    draw, files, seen = random.Random(2), [], []
    for power in range(2):
        log, receipt = _lived(library, power, files, draw)
        files.append(log)
        seen.append(receipt)
    golden = KeptDevice(_SHAPE, _ROOT, bytes(32))
    head, _ = restored(_SHAPE, golden, files)
    made = golden.carry([], walk=_SHAPE.capacity + 1)
    links = b"".join(map(_linked, [*files, head + made.log]))
    with _Both(library, 40) as both:
        restored(_SHAPE, both, [links + made.snapshot, made.fresh])
        told, _ = _receipts(both, [*seen, (Head.said(head).incarnation, golden.serial)])
        assert told == [True] * 3
        assert sorted(both.golden.device.map.items()) == sorted(golden.device.map.items())
    size = Record.size(_SHAPE)
    for text in (links, links + made.snapshot[:-size]):  # what they replaced is missing
        with _Both(library, 41) as both:
            with pytest.raises(Damaged, match=r"not whole|no head"):
                restored(_SHAPE, both, [text])
            assert Header.unpack(both.begin()).code == Told.STRAY


def _any_order(library, seed, turns):
    """A host that gives a device whatever it likes, in any order, of two pasts."""
    draw, files, counts = random.Random(seed), [], {}
    for power in range(2):
        files.append(_lived(library, 20 + power, files[:power], draw)[0])
    files.append(_lived(library, 30, files[:1], draw)[0])  # another second one
    size = Record.size(_SHAPE)
    for life in range(turns):
        with _Both(library, 100 + life) as both:
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
    counts = _any_order(library, 3, 12)
    assert {Told.APPLIED, Told.TORN, Told.CHANGED, Told.STRAY} <= counts.keys(), counts
    assert {("begun", 0), ("begun", Told.STRAY)} <= counts.keys(), counts


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_more_files_in_any_order(library, seed):
    _any_order(library, seed + 10, 120)
