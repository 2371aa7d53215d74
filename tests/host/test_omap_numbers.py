"""Hosts that lie to a map's client: no number, which is a nonce, is ever used for two messages, and no
answer is believed that is not this request's."""

from __future__ import annotations

import errno
import os
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import pytest

from penstock.host.omap import MessageChanged
from penstock.host.omap.client import ConnectionLost, SessionMoved, connect
from penstock.host.omap.frames import Frames, Refused, greeting
from penstock.host.omap.keyfiles import KeyFileError, name_of, write_keys
from penstock.host.omap.numbers import Numbers
from penstock.host.omap.session import Session
from penstock.models.omap.device import Device
from penstock.models.omap.messages import Operation, Request, Response, seal_response
from testbench.omap import KEYS, config

_SHAPE = config()
_NAME = name_of(KEYS.session)


@pytest.fixture
def keys(tmp_path):
    return write_keys(tmp_path, KEYS, _SHAPE)[1]


class _Fake:
    """A server that has no key. It says what `config` and `next` are, keeps all that it gets (`seen`: the
    sealed messages of each number), and answers by `answer(number)`."""

    def __init__(self, told, following, answer):
        self.said, self.answer = greeting(told, following), answer
        self.seen, self.bytes = {}, 0
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
        shape = Frames(_SHAPE, b"")
        line.sendall(self.said)
        while text := file.read(4 + shape.request_bytes):
            self.bytes += len(text)
            number = int.from_bytes(text[4:12], "little")
            self.seen.setdefault(number, set()).add(text[12:-16])
            line.sendall(self.answer(number))

    def close(self):
        self._listener.close()


@contextmanager
def _fake(told=_SHAPE, following=0, answer=lambda number: b""):
    made = _Fake(told, following, answer)
    try:
        yield made
    finally:
        made.close()


_LOST = (ConnectionLost, SessionMoved, MessageChanged, Refused)


def test_a_server_that_says_next_makes_no_number_come_twice(keys):
    """A server without keys says that the device is at its beginning, again and again. Two messages of one
    number are a two-time pad: their first blocks, key and value, differ by what the plaintexts do."""
    with _fake() as server:
        for value in (b"first---", b"second--", b"third---"):
            with suppress(*_LOST), connect("127.0.0.1", server.port, keys, timeout=0.3) as box:
                with suppress(*_LOST):
                    box[1] = value
                with suppress(*_LOST):
                    box.reconnect()
        assert {len(texts) for texts in server.seen.values()} == {1}
        assert len(server.seen) == 3
    # nor does one that says that it is further on
    with _fake(following=40) as server, pytest.raises(SessionMoved):
        connect("127.0.0.1", server.port, keys)


def test_old_answers_are_no_answers(keys):
    """A server that has seen the device answer once gives that answer to whatever comes: to a GET of another
    key, and to a PUT, which never happens."""
    device, shape = Device(_SHAPE, KEYS), Frames(_SHAPE, b"")
    sealed = Session(_SHAPE, KEYS.session).seal([Request(Operation.PUT, 1, b"12345678")])
    kept = device.serve(sealed[0])
    with _fake(answer=lambda number: shape.answer(0, kept)) as server:
        with connect("127.0.0.1", server.port, keys) as box:
            box[1] = b"12345678"  # this happened
    for error, message, said in (
        (ConnectionLost, "answered request 0, which waits for no answer", lambda number: 0),
        (MessageChanged, "does not open", lambda number: number),
    ):
        for work in (lambda box: box.update({9: b"87654321"}), lambda box: box.get(9)):
            following = int(keys.with_suffix(".next").read_text().split()[3])
            answer = lambda number, said=said: shape.answer(said(number), kept)
            with _fake(following=following, answer=answer) as server:
                with connect("127.0.0.1", server.port, keys) as box:
                    with pytest.raises(error, match=message):
                        work(box)


def test_an_answer_has_its_requests_key():
    session = Session(_SHAPE, KEYS.session)
    request = Request(Operation.GET, 1, bytes(8))
    for key in (1, 2):
        answer = seal_response(_SHAPE, KEYS.session, 0, Response(0, key, b"12345678"))
        if key == 1:
            assert session.open(0, answer, request).value == b"12345678"
        else:
            with pytest.raises(MessageChanged):
                session.open(0, answer, request)


@pytest.mark.parametrize(
    "changed", [{"rounds": 2}, {"capacity": 10}, {"value_bytes": 16}, {"hbm_bins": 5}]
)
def test_a_server_that_lies_about_the_map_gets_nothing(keys, changed):
    with _fake(config(**changed)) as server:
        with pytest.raises(
            ConnectionLost, match="not the one that the client's keys were made for"
        ):
            with connect("127.0.0.1", server.port, keys) as box:
                box.get(1)
        assert server.bytes == 0


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "cannot be used: No such file"),
        (Path("/dev/zero"), "it is no regular file"),
        (b"", "does not have the numbers of these keys"),
        (b"penstock map 0123456789abcdef 7\n", "does not have the numbers of these keys"),
        (f"penstock map {_NAME} 7\n0 00\nx\n".encode(), "it is damaged"),
    ],
)
def test_without_its_numbers_a_client_sends_nothing(keys, text, message):
    path = keys.with_suffix(".next")
    path.unlink()
    if text is not None:
        path.symlink_to(text) if isinstance(text, Path) else path.write_bytes(text)
    with _fake() as server:
        with pytest.raises(KeyFileError, match=message + r".*; without it nothing is sent"):
            connect("127.0.0.1", server.port, keys)
        assert server.bytes == 0 and path.exists() == (text is not None)


@pytest.mark.parametrize("instead", [False, True])
def test_numbers_that_are_taken_away_meanwhile(keys, instead):
    path = keys.with_suffix(".next")
    with _fake() as server, connect("127.0.0.1", server.port, keys, timeout=0.3) as box:
        text = path.read_bytes()
        path.unlink()
        if instead:
            path.write_bytes(text)
        for call in (lambda: box.update({7: b"12345678"}), box.reconnect):
            with pytest.raises(KeyFileError, match="without it nothing is sent"):
                call()
    assert server.bytes == 0 and path.exists() == instead


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_number_that_cannot_be_written_down_is_not_used(keys, failing):
    numbers = Numbers(keys, _NAME)
    numbers.note([b"one"])
    with mock.patch("penstock.host.omap.numbers._MOST", 0 if failing == "replace" else 1 << 20):
        with mock.patch.object(os, failing, side_effect=OSError(errno.ENOSPC, "No space left")):
            with pytest.raises(KeyFileError, match=r"client\.next cannot be used: No space left"):
                numbers.note([b"two"])
    with pytest.raises(KeyFileError, match="No space left"):
        numbers.note([b"three"])
    numbers.close()
    again = Numbers(keys, _NAME)
    assert again.next == 2 and again.waiting[0] == b"one" and again.waiting[1] == b"two"
    again.close()


def test_nothing_is_sent_before_its_number_is_on_disk(keys):
    with _fake() as server, connect("127.0.0.1", server.port, keys) as box:
        with mock.patch.object(os, "fsync", side_effect=OSError(errno.ENOSPC, "No space left")):
            for call in (lambda: box.get(1), box.reconnect, lambda: box.get(1)):
                with pytest.raises((KeyFileError, ConnectionLost)):
                    call()
        assert server.bytes == 0


def test_there_are_no_numbers_from_2_to_the_56_on(keys):
    keys.with_suffix(".next").write_text(f"penstock map {_NAME} {(1 << 56) - 1}\n")
    numbers = Numbers(keys, _NAME)
    numbers.note([b"last"])
    with pytest.raises(KeyFileError, match="no number left"):
        numbers.note([b"one more"])
    numbers.close()


def test_no_number_comes_again_wherever_a_client_ends(keys):
    """Cut the power at any byte behind what was on disk: what may have been sent is there as it was."""
    path, sent = keys.with_suffix(".next"), {}
    for turn in range(6):
        numbers = Numbers(keys, _NAME)
        assert all(numbers.waiting[n] == frame for n, frame in sent.items())
        assert numbers.next > max(sent, default=-1)
        for frames in ([b"%d" % turn], [b"a%d" % turn, b"b%d" % turn]):
            at = numbers.next
            numbers.note(frames)
            sent |= dict(enumerate(frames, at))
        safe = path.stat().st_size
        numbers.note([b"not sent"])
        text = path.read_bytes()
        numbers._lock.close(), numbers._file.close()
        path.write_bytes(text[: safe + 3 * turn] + b"\0" * (turn % 2))
    assert len(sent) == 18
