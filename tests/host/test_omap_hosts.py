"""Hosts that lie to a map's client, and files of keys: no answer is believed that is not this request's,
and what does not belong together is said before any operation."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from unittest import mock

import pytest

from penstock.host.omap import MessageChanged, keyfiles
from penstock.host.omap.client import ConnectionLost, connect
from penstock.host.omap.devices import GoldenDevice
from penstock.host.omap.frames import HELLO, TOKEN, Hello, Messages, Welcome, greeting
from penstock.host.omap.keyfiles import (
    FILES,
    KeyFileError,
    read_device,
    read_generation,
    read_map,
    read_role,
    renew_keys,
    settle_keys,
    write_keys,
)
from penstock.host.omap.receipts import Receipt, ReceiptError, read_receipt, write_receipt
from penstock.models.omap import sessions
from penstock.models.omap.boundary import Header
from penstock.models.omap.sessions import digest_of_map
from penstock.models.omap.vault import KeySchedule, Role
from testbench.omap import config

_SHAPE = config()


@pytest.fixture
def keys(tmp_path):
    """Files of keys, as `write_keys` returns them."""
    return write_keys(tmp_path / "keys", _SHAPE)


class _Fake:
    """A host that talks to clients itself, before a device of its own. `hello(text)`: the welcome that it
    gives; `answer(number, sealed)`: the answer's message."""

    def __init__(self, told, device, hello, answer):
        self.told, self.device, self.shape = told, device, Messages(_SHAPE)
        self.hello, self.answer = hello or self.honest, answer or self.honest_answer
        self.hellos, self.requests = [], []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                line = self._listener.accept()[0]
                with suppress(OSError), line:
                    self._talk(line, line.makefile("rb"))

    def _talk(self, line, file):
        line.sendall(greeting(self.told))
        if text := file.read(HELLO.size):
            self.hellos.append(text)
            line.sendall(self.hello(text))
        while text := file.read(self.shape.request_bytes):
            self.requests.append(text)
            line.sendall(self.answer(*self.shape.read_request(text)))

    def honest(self, text):
        frames, hello = self.shape.frames, Hello.unpack(text)
        opening = Header(0, hello.role, 0).pack() + hello.first
        [welcome] = self.device.carry(
            [], opening.ljust(frames.opening_beats * frames.bus_bytes, b"\0")
        )
        code = Header.unpack(welcome).code
        return Welcome(code, bytes(TOKEN), 0, frames.welcome(welcome)).pack()

    def honest_answer(self, number, sealed):
        frames = self.shape.frames
        [answer] = self.device.carry([frames.request(0, number, sealed)])
        return self.shape.answer(number, frames.sealed(answer, frames.answer_bytes))

    def close(self):
        self._listener.close()


@contextmanager
def _fake(keys, told=_SHAPE, hello=None, answer=None):
    made = _Fake(told, GoldenDevice(_SHAPE, read_device(keys[0], _SHAPE)), hello, answer)
    try:
        yield made
    finally:
        made.close()


def _connect(server, keys, role=True):
    return connect("127.0.0.1", server.port, keys[1], role=keys[2] if role else None, timeout=5)


def test_a_server_without_keys_gets_no_request(keys):
    """It replays what a device has said once, again and again. No first message comes twice."""
    with _fake(keys) as server, _connect(server, keys) as box:
        box[1] = b"12345678"
        said = server.honest(server.hellos[0])
    for role in (False, True):
        with _fake(keys, hello=lambda text: said) as server:
            for _ in range(3):
                with pytest.raises(KeyFileError, match="the device's answer does not open"):
                    _connect(server, keys, role)
            assert not server.requests and len(set(server.hellos)) == 3


def test_old_answers_are_no_answers(keys):
    """A host that has seen the device answer once gives that answer to whatever comes: to a GET of another
    key, and to a PUT, which never happens."""
    kept = []

    def answer(number, sealed):
        kept.append(server.honest_answer(number, sealed)[9:])
        return server.shape.answer(number, kept[0])

    for work in (lambda box: box.update({9: b"87654321"}), lambda box: box.get(9)):
        kept.clear()
        with _fake(keys, answer=answer) as server, _connect(server, keys) as box:
            box[1] = b"12345678"  # this happened
            with pytest.raises(MessageChanged, match="request 1 does not open"):
                work(box)
    # answers that nobody waits for
    with _fake(keys, answer=lambda number, _: server.shape.answer(number + 1, kept[0])) as server:
        with _connect(server, keys) as box:
            with pytest.raises(ConnectionLost, match="is not the next one to be answered"):
                box[1] = b"12345678"


@pytest.mark.parametrize("field, value", [("key", 2), ("serial", 0), ("status", 77)])
def test_an_answer_is_of_its_request_and_later_than_the_last(keys, field, value):
    """What the device never says, under the right keys."""
    pack = sessions.Answer.pack
    lying = lambda answer, size: pack(answer._replace(**{field: value}), size)
    with _fake(keys) as server, _connect(server, keys) as box:
        box[1] = b"12345678"
        with mock.patch.object(sessions.Answer, "pack", lying):
            with pytest.raises(MessageChanged):
                box[1]


@pytest.mark.parametrize(
    "changed", [{"rounds": 2}, {"capacity": 10}, {"value_bytes": 16}, {"hbm_bins": 5}]
)
def test_a_server_that_lies_about_the_map_gets_nothing(keys, changed):
    with _fake(keys, config(**changed)) as server:
        with pytest.raises(KeyFileError, match="was made for another map than 127"):
            _connect(server, keys)
        assert not server.hellos


def test_what_does_not_belong_together_is_said_before_any_operation(keys, tmp_path):
    renewed = write_keys(tmp_path / "renewed", _SHAPE)
    other = write_keys(tmp_path / "other", config(capacity=10))
    with _fake(keys) as server:
        for files, error, message in (
            ((None, renewed[1], keys[2]), KeyFileError, r"map\.json is another device's"),
            ((None, keys[1], renewed[2]), KeyFileError, r"writer\.json is not this device's"),
            ((None, keys[1], other[2]), KeyFileError, r"writer\.json was made for another map"),
            ((None, keys[1], keys[1]), KeyFileError, r"map\.json has no key writer or keeper"),
            ((None, keys[2], keys[2]), KeyFileError, r"writer\.json has no key public"),
            ((None, other[1], other[2]), KeyFileError, r"map\.json was made for another map than"),
        ):
            with pytest.raises(error, match=message):
                _connect(server, files)
        assert not server.requests
    # a point of small order, with which every device would agree
    small = tmp_path / "small.json"
    small.write_text(json.dumps(json.loads(keys[1].read_text()) | {"public": "00" * 32}))
    with _fake(keys) as server:
        with pytest.raises(KeyFileError, match="has no device's public key"):
            _connect(server, (None, small, keys[2]))


def test_files_of_keys(keys, tmp_path):
    assert [path.name for path in keys] == list(FILES)
    assert [path.stat().st_mode & 0o777 for path in keys] == [0o600] * 4
    root, known = read_device(keys[0], _SHAPE), read_map(keys[1])
    assert read_role(None, known) == (Role.READER, None)
    assert [read_role(path, known)[0] for path in keys[2:]] == [Role.WRITER, Role.KEEPER]
    assert root.hex() not in "".join(path.read_text() for path in keys[1:])
    with pytest.raises(FileExistsError):
        write_keys(keys[0].parent, _SHAPE)
    with pytest.raises(KeyFileError, match="was made for another map"):
        read_device(keys[0], config(capacity=10))
    with pytest.raises(KeyFileError, match="there is no file"):
        read_map(tmp_path / "none.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(KeyFileError, match=r"deep\.json is not a file of keys"):
        read_map(tmp_path / "deep.json")
    for text in ("no keys", "[]", '{"public": 3, "map": "x"}', "null"):
        keys[1].write_text(text)
        with pytest.raises(KeyFileError, match=r"is not a file of keys|has no key public"):
            read_map(keys[1])


@pytest.mark.parametrize("name, nth", [("fsync", k) for k in range(5)] + [("link", 0)])
def test_files_are_written_whole_or_not_at_all(tmp_path, name, nth):
    """A full disk, wherever it is met before all files are on disk; no call is `link`."""
    true, count = getattr(os, name), [0]

    def failing(*given):
        count[0] += 1
        if count[0] == nth + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return true(*given)

    with mock.patch.object(os, name, failing):
        if name == "link":
            write_keys(tmp_path, _SHAPE)
        else:
            with pytest.raises(OSError, match="No space left"):
                write_keys(tmp_path, _SHAPE)
    assert [path.name for path in sorted(tmp_path.iterdir())] == (
        sorted(FILES) if name == "link" else []
    )


def _killed(nth, work, *given):
    """Do work in a process that is killed before its call of this number that opens, syncs, renames or removes a file;
    return whether it was."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] != 0
    left, true = [nth], os.fsync

    def hook(event, *_):
        if event in ("open", "os.rename", "os.remove", "os.link", "sync"):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)

    os.fsync = lambda handle: (hook("sync"), true(handle))
    sys.addaudithook(hook)
    try:
        work(*given)
    finally:
        os._exit(0)


def _told(folder):
    """Return the generation of a folder of keys, whose files are one device's, and of one generation."""
    root, generation = read_device(folder / FILES[0], _SHAPE), read_generation(folder / FILES[0])
    known = read_map(folder / FILES[1])
    keys = KeySchedule(root, bytes(32), digest_of_map(_SHAPE), generation)
    assert known.public == keys.public and len(known.before) == generation
    for name in FILES[2:]:
        role, key = read_role(folder / name, known)
        assert key == keys.role_key(role)
    return generation


@pytest.mark.parametrize("renewed", [False, True])
def test_keys_of_a_killed_command_fit_each_other(renewed, tmp_path):
    """Whatever stands there, and once more when a device was started there, which leaves nothing else behind."""
    work, seen = (renew_keys if renewed else write_keys), set()
    for nth in range(100):
        folder = tmp_path / str(nth)
        folder.mkdir()
        (folder / "receipt").write_text("of somebody else")
        if renewed:
            write_keys(folder, _SHAPE)
        (folder / ".map.json.4711.new").write_text("{")  # as an older version left it
        killed = _killed(nth, work, folder, _SHAPE)
        for settle in (lambda: None, lambda: settle_keys(folder)):  # noqa: B023
            settle()
            with suppress(KeyFileError if not renewed else ()):
                seen.add(_told(folder))
        names = {path.name for path in folder.iterdir()} - {"receipt"}
        assert names in ([set(FILES)] if renewed else [set(), set(FILES)])
        seen.add(len(names))
        work(folder, _SHAPE) if renewed or not names else None
        assert _told(folder) >= renewed
        if not killed:
            break
    assert not killed and nth > 15
    assert seen == ({0, 1, 4} if renewed else {0, 4})


def test_a_renewal_beside_another_one(tmp_path):
    write_keys(tmp_path, _SHAPE)
    with keyfiles._alone(tmp_path):
        for work in (renew_keys, write_keys):
            with pytest.raises(KeyFileError, match=r"another process writes keys there$"):
                work(tmp_path, _SHAPE)
        settle_keys(tmp_path)
    assert _told(tmp_path) == 0


def test_a_renewal_whose_files_cannot_take_their_places(tmp_path):
    write_keys(tmp_path, _SHAPE)
    true, full = os.replace, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with mock.patch.object(os, "replace", mock.Mock(side_effect=[true, full])):
        with pytest.raises(KeyFileError, match="the new keys are there, and take their places"):
            renew_keys(tmp_path, _SHAPE)
    assert _told(tmp_path) == 1
    settle_keys(tmp_path)
    assert _told(tmp_path) == 1 and len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("text", ["{}", "[]", "[" * 100_000, "9" * 5000])
def test_receipts_that_are_none(text, tmp_path):
    (tmp_path / "receipt").write_text(text)
    with pytest.raises(
        ReceiptError,
        match=r"is not a receipt: |is no receipt, or is damaged$|: a receipt has at most 65,536$",
    ):
        read_receipt(tmp_path / "receipt", bytes(32))


def test_what_a_killed_client_left_is_swept(tmp_path):
    """At the next look at its receipt. What a client that runs is writing stays, and so do files of others."""
    path, digest = tmp_path / "[receipt]", bytes(32)
    write_receipt(path, Receipt(bytes(16), 7), digest)
    left, old, fresh, held = (tmp_path / f".[receipt].{k:016x}.new" for k in range(4))
    others = [tmp_path / ".[receipt].mine.new", tmp_path / f".r.{0:016x}.new"]
    for each in (left, held, *others):
        each.write_text("{")
    old.touch()
    os.utime(old, (0, 0))
    fresh.touch()
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert read_receipt(path, digest).serial == 7
    assert sorted(tmp_path.iterdir()) == sorted([path, fresh, held, *others])
