"""Hosts that lie to a map's client, and files of keys: no answer is believed that is not this request's,
and what does not belong together is said before any operation."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
from contextlib import contextmanager, suppress
from unittest import mock

import pytest

from penstock.host.omap import MessageChanged
from penstock.host.omap.client import ConnectionLost, connect
from penstock.host.omap.devices import GoldenDevice
from penstock.host.omap.frames import HELLO, TOKEN, Hello, Messages, Welcome, greeting
from penstock.host.omap.keyfiles import (
    FILES,
    KeyFileError,
    read_device,
    read_map,
    read_role,
    write_keys,
)
from penstock.host.omap.receipts import ReceiptError, read_receipt
from penstock.models.omap import sessions
from penstock.models.omap.boundary import Header
from penstock.models.omap.vault import Role
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
    with pytest.raises(KeyFileError, match="cannot be read: No such file"):
        read_map(tmp_path / "none.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(KeyFileError, match=r"deep\.json is not a file of keys"):
        read_map(tmp_path / "deep.json")
    for text in ("no keys", "[]", '{"public": 3, "map": "x"}', "null"):
        keys[1].write_text(text)
        with pytest.raises(KeyFileError, match=r"is not a file of keys|has no key public"):
            read_map(keys[1])


@pytest.mark.parametrize("name, nth", [(n, k) for n in ("fsync", "link") for k in range(5)])
def test_files_are_written_whole_or_not_at_all(tmp_path, name, nth):
    """A full disk, wherever it is met; `fsync` is called for the folder at last."""
    true, count = getattr(os, name), [0]

    def failing(*given):
        count[0] += 1
        if count[0] == nth + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return true(*given)

    with mock.patch.object(os, name, failing):
        if (name, nth) == ("link", 4):
            write_keys(tmp_path, _SHAPE)
        else:
            with pytest.raises(OSError, match="No space left"):
                write_keys(tmp_path, _SHAPE)
    assert [path.name for path in sorted(tmp_path.iterdir())] == (
        sorted(FILES) if (name, nth) == ("link", 4) else []
    )


@pytest.mark.parametrize("text", ["{}", "[]", "[" * 100_000, "9" * 5000])
def test_receipts_that_are_none(text, tmp_path):
    (tmp_path / "receipt").write_text(text)
    with pytest.raises(ReceiptError, match=r"is no receipt, or is damaged$"):
        read_receipt(tmp_path / "receipt", bytes(32))
