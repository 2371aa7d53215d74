"""The device in C++: answers, records, pages and errors are golden's, whatever frames, files and pages a host gives."""

from __future__ import annotations

import random

import pytest

from penstock.engines.omap.native import NativeKept
from penstock.host.omap.restore import restored
from penstock.host.omap.session import MapSession, initiator
from penstock.models.omap.device import Stopped
from penstock.models.omap.kept_device import KeptDevice, receipt_value
from penstock.models.omap.messages import Request
from penstock.models.omap.sessions import ROLES, Asked, digest_of_map
from penstock.models.omap.vault import KeySchedule, Role
from testbench.omap import config

_ROOT = bytes(range(32))
_SHAPES = {
    "numbers": {},
    "text, three pieces": {"key": "text", "value_bytes": 24, "slots": 12, "chunks": 3},
    "pages fill up": {"slots": 1, "bins": 5, "hbm_bins": 1},
    "buckets fill up": {"buckets": 2, "bucket_slots": 2},
    "frames run out": {"frames": 4, "key": "bytes", "value_bytes": 16},
}
_WHOLE = {"numbers", "text, three pieces"}


class Both:
    """A device in Python and in C++, powered up alike. What either does, both must."""

    def __init__(self, shape, seed):
        self.shape, self.draw = shape, random.Random(seed)
        entropy = self.draw.randbytes(32)
        self.devices = [kind(shape, _ROOT, entropy) for kind in (KeptDevice, NativeKept)]
        self.frames = self.devices[0].frames
        self.clients, self.sent = [], []

    def _both(self, work):
        told = []
        for device in self.devices:
            try:
                told.append((work(device), None))
            except Stopped as problem:
                told.append((None, problem.code))
        golden, native = (device.device.pages for device in self.devices)
        assert told[0] == told[1] and golden == native
        assert self.devices[0].serial == self.devices[1].serial
        assert self.devices[0].confirmed == self.devices[1].confirmed
        return told[0]

    def take(self, frames, opening=b""):
        told, code = self._both(lambda device: device.take(frames, opening))
        if code is not None:
            raise Stopped(code)
        return told

    def begin(self):
        return self._both(lambda device: device.begin())[0]

    def carry(self, frames, opening=b"", walk=0):
        return self._both(lambda device: device.carry(frames, opening, walk))

    def open(self, slot, role):
        """A session takes a slot."""
        keys = KeySchedule(_ROOT, bytes(32), digest_of_map(self.shape))
        asked = initiator(keys.public, digest_of_map(self.shape), role, keys.role_key(role))
        made, _ = self.carry([], self.frames.opening(slot, role, asked.message))
        welcome, session = asked.finish(self.frames.welcome(made.answers[0]))
        own = MapSession(session, welcome, self.shape.key_bytes)
        self.clients = [each for each in self.clients if each[0] != slot] + [(slot, own)]

    def asked(self):
        """The next request of some client."""
        draw, (slot, session) = self.draw, self.draw.choice(self.clients)
        kind = draw.choice((1, 2, 2, 2, 3, 4, 4, 4, 5, 0, 9))
        number = draw.randrange(60)
        key = number % 3 << 64 | number // 3 if self.shape.key_bytes > 8 else number
        value = bytes(self.shape.value_bytes)
        if kind == Asked.RECEIPT:
            golden = self.devices[0]
            seen = [
                (golden._past.current, golden.serial),
                (bytes(16), 0),
                *golden._past.links.values(),
            ]
            name, serial = draw.choice(seen)
            key, value = serial + draw.randrange(2), receipt_value(self.shape, name)
        elif kind == 2:
            value = draw.randbytes(self.shape.value_bytes)
        return self.frames.request(slot, *session.seal(Request(kind, key, value)))

    def given(self):
        """A frame as a host gives it: a request, an old one, or one that it changed."""
        draw = self.draw
        if draw.random() < 0.2 and self.sent:
            frame = bytearray(draw.choice(self.sent))
            if draw.random() < 0.7:
                frame[draw.randrange(len(frame))] ^= 1 << draw.randrange(8)
            return bytes(frame)
        self.sent.append(self.asked())
        return self.sent[-1]

    def lived(self, files, turns):
        """Restore a map, go on with it, and return its log and the snapshot that replaces all files, if one became whole;
        None where the device stopped."""
        try:
            log, _ = restored(self.shape, self, files)
        except Stopped:
            return None
        snapshot, past = b"", [*files]
        for slot, role in enumerate((*ROLES, Role.WRITER)):
            self.open(slot, role)
        for turn in range(turns):
            if turn % 5 == 4:
                self.open(self.draw.randrange(5), self.draw.choice(ROLES))
            frames = [self.given() for _ in range(self.draw.randrange(9))]
            if self.draw.random() < 0.4:
                frames.reverse()
            made, code = self.carry(frames, walk=self.draw.choice((0, 0, 0, 0, 0, 1)))
            if code is not None:
                assert self.carry([])[1] is None and self.carry([self.given()])[1] is not None
                return None
            log, snapshot = log + made.log, snapshot + made.snapshot
            if made.fresh:
                past, log = [*past, log], made.fresh
        return [*past, log], snapshot


@pytest.mark.parametrize("name", _SHAPES)
@pytest.mark.parametrize("seeds", [(0, 3), pytest.param(range(1, 20), marks=pytest.mark.long)])
def test_a_device_in_another_language_is_golden(name, seeds):
    """Which snapshots become whole, and which devices stop, is drawn."""
    stopped, whole, shape = 0, 0, config(**_SHAPES[name])
    for seed in seeds:
        files = []
        for life in range(2):
            lived = Both(shape, 3 * seed + life).lived(files, 14)
            if lived is None:
                stopped += 1
            else:
                files, snapshot = lived
                whole += len(snapshot) > 40
    assert whole and (stopped > 0 if name not in _WHOLE else stopped == 0)


def test_pages_that_were_changed():
    both = Both(config(), 7)
    both.lived([], 6)
    for device in both.devices:
        for at in range(0, len(device.device.pages), 16):
            device.device.pages[at] ^= 1
    codes = [both.carry([both.asked()])[1] for _ in range(3)]
    assert codes[-1] is not None
