"""A map behind a server: the client's answers are a dict's, and nobody between it and the device learns or changes anything."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import random
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import penstock as ps
from penstock.cli import run
from penstock.host.omap import MapStopped, MessageChanged
from penstock.host.omap.backends import ModelCarrier
from penstock.host.omap.client import AsyncMap, ConnectionLost, SessionMoved, connect
from penstock.host.omap.frames import Frames, Kind, Refused, greeting, read_greeting
from penstock.host.omap.keyfiles import (
    KeyFileError,
    name_of,
    read_admission,
    read_client,
    read_device,
    write_keys,
)
from penstock.host.omap.numbers import Numbers
from penstock.host.omap.process import DeviceLost, DeviceProcess
from penstock.host.omap.server import MapServer
from penstock.host.omap.session import Session, admission_key
from penstock.models.errors import ErrorCode, HardwareError
from penstock.models.omap.config import digest_of
from penstock.models.omap.errors import MapError, error_of
from penstock.models.omap.golden import Item
from penstock.models.omap.load import load_requests
from penstock.models.omap.messages import Keys, Operation, Request
from testbench.omap import KEYS, config

_SHAPE = config()
_PUT, _GET = Operation.PUT, Operation.GET


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for this machine, signed by itself; returns its file and its key's."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "map")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("certificate")
    paths = folder / "map.pem", folder / "map.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


@pytest.fixture
def server_tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def client_tls(certificate):
    return ssl.create_default_context(cafile=str(certificate[0]))


class _Host:
    """A carrier that keeps what it sees, and may change answers or make requests wait."""

    def __init__(self):
        self.inner, self.config = ModelCarrier(_SHAPE, KEYS), _SHAPE
        self.seen, self.change = [], None
        self.taken = 0  # requests that have come so far
        self.open = threading.Event()
        self.open.set()

    def carry(self, sealed):
        self.taken += len(sealed)
        self.open.wait(60)
        answers = self.inner.carry(sealed)
        self.seen += [*sealed, *answers]
        return answers if self.change is None else [self.change(answer) for answer in answers]

    def close(self):
        pass


@contextmanager
def _served(context=None, **options):
    """A server in a thread; yields it with its `host` and the client's file of `keys`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    async def begin():
        server = MapServer(_Host(), admission_key(KEYS.session), **options)
        await server.listen("127.0.0.1", 0, context)
        return server

    server = wait(begin())
    server.host = server._carrier
    try:
        with tempfile.TemporaryDirectory() as folder:
            server.keys = write_keys(folder, KEYS, _SHAPE)[1]
            yield server
    finally:
        server.host.open.set()
        wait(server.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _connect(server, **options):
    return connect("127.0.0.1", server.port, server.keys, **options)


@pytest.fixture
def server():
    with _served() as made:
        yield made


def test_a_map_behind_tls_is_a_dict(server_tls, client_tls):
    draw, mirror = random.Random(2), {}
    with _served(server_tls) as server, _connect(server, tls=client_tls) as box:
        for _ in range(3):
            items = {draw.randrange(12): draw.randbytes(8) for _ in range(6)}
            box.update(items)
            mirror.update(items)
            gone = [draw.randrange(12) for _ in range(3)]
            assert box.delete_many(gone) == [mirror.pop(key, None) is not None for key in gone]
            assert box.get_many(range(12)) == [mirror.get(key) for key in range(12)]
        assert box == mirror and len(box) == len(mirror)
        with pytest.raises(OverflowError):
            box.update((1000 + key, bytes(8)) for key in range(41))
        with pytest.raises(ValueError, match="a value has 8 bytes, not 3"):
            box[1] = b"abc"
        with pytest.raises(TypeError, match="takes requests alone"):
            box.load({1: bytes(8)})
        assert box.get_many(mirror) == list(mirror.values())


def test_requests_are_under_way_together(server):
    async def talk():
        async with await AsyncMap.connect("127.0.0.1", server.port, server.keys) as box:
            server.host.open.clear()
            puts = [asyncio.create_task(box.put(k, bytes([k]) * 8)) for k in range(30)]
            gets = [asyncio.create_task(box.get(k)) for k in range(40)]
            async with asyncio.timeout(60):
                while server.host.taken + server._queue.qsize() < 70:
                    await asyncio.sleep(0.001)
            server.host.open.set()
            await asyncio.gather(*puts)
            assert await box.delete(3) == b"\3" * 8 and await box.delete(3) is None
            assert box.number == 72
            return await asyncio.gather(*gets)

    found = asyncio.run(talk())
    assert found == [bytes([k]) * 8 for k in range(30)] + [None] * 10
    assert server.calls <= 5  # 72 operations


def _talk(server, *frames):
    """Send frames as they are; return what the server answers to each, None where it hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), 30) as line:
        file = line.makefile("rb")
        size = int.from_bytes(file.read(4), "little")
        read_greeting(file.read(size), digest_of(_SHAPE.to_json()))
        shape = Frames(_SHAPE, admission_key(KEYS.session))
        answers = []
        for frame in frames:
            with suppress(ConnectionError):
                line.sendall(frame)
            text = file.read(shape.answer_bytes)
            answers.append(shape.read_answer(text) if text else None)
        return answers


def test_wrong_messages_are_refused_and_the_map_answers(server):
    frames, session = Frames(_SHAPE, admission_key(KEYS.session)), Session(_SHAPE, KEYS.session)
    sealed = session.seal([Request(_PUT, 5, b"12345678"), Request(_GET, 5, bytes(8))])
    first, second = (frames.request(number, text) for number, text in enumerate(sealed))
    for wrong in (
        b"\0\0\0\0",
        (frames.request_bytes + 1).to_bytes(4, "little") + first[4:] + b"x",
        b"GET / HTTP/1.1\r\n\r\n",
    ):
        [answer] = _talk(server, wrong)
        assert answer.kind is Kind.SIZE and answer.value == len(first)
    draw = random.Random(7)
    for _ in range(20):
        changed = bytearray(first)
        changed[draw.randrange(4, len(first))] ^= 1 << draw.randrange(8)
        [answer] = _talk(server, bytes(changed))
        assert answer.kind is Kind.CHANGED
    answer, hung_up = _talk(server, first[:-1] + b"x", first)
    assert answer.kind is Kind.CHANGED and hung_up is None
    # too early, in order, the same once more, and another request with a number that was used
    other = Session(_SHAPE, KEYS.session).seal([Request(_PUT, 5, b"zzzzzzzz")])[0]
    answers = _talk(server, second, first, first, frames.request(0, other), second, first)
    kinds = [answer.kind for answer in answers]
    assert kinds == [Kind.NUMBER, 0, 0, Kind.NUMBER, 0, 0]
    assert answers[0].value == 0 and answers[3].value == 1
    assert answers[1].sealed == answers[2].sealed == answers[5].sealed
    assert len(server.host.seen) == 4  # two requests have reached the device


def test_a_connection_that_takes_no_answers_is_ended():
    """A message of the client's that is sent again and again, by one who reads nothing."""
    with _served(patience=0.5) as server:
        with _connect(server) as box:
            box[1] = b"12345678"
        shape, session = Frames(_SHAPE, admission_key(KEYS.session)), Session(_SHAPE, KEYS.session)
        frame = shape.request(0, session.seal([Request(_PUT, 1, b"12345678")])[0])
        # buffers of the system that fill soon
        server._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        waiting, send = [0], server._send

        def watched(writer, text):
            send(writer, text)
            waiting.append(writer.transport.get_write_buffer_size())

        server._send = watched
        with socket.create_connection(("127.0.0.1", server.port), 60) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            sent = 0
            with suppress(ConnectionError):
                while sent < 40 << 20:
                    line.sendall(frame * 50)
                    sent += 50 * len(frame)
        assert 1 << 16 < max(waiting) < (1 << 16) + 300 * shape.answer_bytes
        assert sent < 40 << 20  # it was hung up on
        with _connect(server) as box:
            assert box[1] == b"12345678"


def test_a_server_ends_in_spite_of_one_who_does_not_read():
    with _served() as server:
        server._frames.refusal = lambda *_: bytes(64 << 20)
        line = socket.create_connection(("127.0.0.1", server.port), 60)
        line.sendall(bytes(4))
        while not any(w.transport.get_write_buffer_size() for w in list(server._writers)):
            pass
    line.close()


def test_more_connections_than_there_may_be():
    """Those go first that never brought a new request, and of them the oldest; not the client's."""
    with _served(connections=4) as server, _connect(server) as box:
        box[1] = b"12345678"
        lines = []
        for _ in range(8):
            lines.append(socket.create_connection(("127.0.0.1", server.port), 60))
            assert lines[-1].recv(4)  # greeted
        for line in lines[:5]:
            with suppress(ConnectionError):
                while line.recv(1 << 16):
                    pass
        assert box[1] == b"12345678" and len(server._writers) == 4
        for line in lines:
            line.close()


def test_half_a_message_is_none(server):
    with socket.create_connection(("127.0.0.1", server.port), 30) as line:
        line.sendall((1).to_bytes(2, "little"))
    with _connect(server) as box:
        assert 1 not in box


def test_another_session_key(server, tmp_path):
    keys = write_keys(tmp_path, replace(KEYS, session=KEYS.session ^ 1), _SHAPE)[1]
    with connect("127.0.0.1", server.port, keys) as box:
        with pytest.raises(Refused, match="changed, or sealed with another key") as caught:
            box[1]
        assert caught.value.kind is Kind.CHANGED
    assert not server.host.seen


def test_changed_responses(server):
    with _connect(server) as box:
        server.host.change = lambda answer: answer[::-1]
        with pytest.raises(MessageChanged, match="request 0 does not open"):
            box[1] = bytes(8)
        server.host.change = None
        assert box[1] == bytes(8)


def test_a_session_has_one_client_at_a_time(server, tmp_path):
    with _connect(server) as one:
        one[1] = b"12345678"
        with pytest.raises(KeyFileError, match="another client has this session"):
            _connect(server)
    with _connect(server) as two:
        assert two[1] == b"12345678" and two.number == 2
        with pytest.raises(TypeError, match="filled before"):
            len(two)
    # what no file can know: a copy of the keys was used elsewhere, or an old copy is
    copy = write_keys(tmp_path, KEYS, _SHAPE)[1]
    with pytest.raises(SessionMoved, match="waits for request 2, this client has sent 0"):
        connect("127.0.0.1", server.port, copy)
    assert server.next == 2


def test_a_device_that_stopped(server):
    with _connect(server) as box:
        box.update((key, bytes(8)) for key in range(30))
        pages = server.host.inner.pages
        pages[:] = bytes(byte ^ 1 for byte in pages)
        with pytest.raises(MapStopped, match="not the one that was written last"):
            box.get_many(range(30))
        with pytest.raises(MapStopped):
            box[1]
        with pytest.raises(MapStopped):
            box.reconnect()
    with pytest.raises(MapStopped, match="not the one that was written last"):
        _connect(server)


class _Proxy:
    """Between a client and a server: it keeps what passes, cuts the line, or changes a byte."""

    def __init__(self, port):
        self.target, self.passed = port, bytearray()
        self.cut = self.flip = False
        self._listener, self._lines = socket.create_server(("127.0.0.1", 0)), []
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.target))
                self._lines += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(
                        target=self._pump, args=(*pair, pair[0] is far), daemon=True
                    ).start()

    def _pump(self, source, sink, answers):
        with suppress(OSError):
            while data := source.recv(65536):
                self.passed += data
                if answers and self.cut:
                    break
                if not answers and self.flip:
                    data = data[:-1] + bytes([data[-1] ^ 1])
                sink.sendall(data)
        for line in (source, sink):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self):
        for line in (self._listener, *self._lines):
            line.close()


@pytest.fixture
def proxy(server):
    made = _Proxy(server.port)
    yield made
    made.close()


def test_a_broken_connection_loses_nothing(server, proxy):
    with connect("127.0.0.1", proxy.port, server.keys) as box:
        box[1] = b"12345678"
        proxy.cut = True
        with pytest.raises(ConnectionLost, match="closed the connection"):
            box.pop(1)
        with pytest.raises(ConnectionLost):
            box[2] = bytes(8)
        proxy.cut = False
        missed = box.reconnect()
        # it was carried out once, and this is what it answered
        assert [(m.operation, m.key, r.value) for m, r in missed] == [
            (Operation.DELETE, 1, b"12345678")
        ]
        assert box.reconnect() == []
        assert dict(box) == {} and 1 not in box
        box[1] = b"abcdefgh"
        assert dict(box) == {1: b"abcdefgh"}
    with pytest.raises(ValueError, match=r"^the map is closed$"):
        box.reconnect()


def test_what_a_client_leaves_is_carried_out_before_the_next_ones_requests(server, proxy):
    with connect("127.0.0.1", proxy.port, server.keys) as box:
        box[1] = b"12345678"
        proxy.cut = True
        with pytest.raises(ConnectionLost):
            box[1] = b"abcdefgh"
    # killed when its number was on disk, and nothing sent
    numbers = Numbers(server.keys, name_of(KEYS.session))
    session = Session(_SHAPE, KEYS.session, numbers.next)
    sealed = session.seal([Request(_PUT, 2, b"87654321")])
    numbers.note([Frames(_SHAPE, session.admission).request(2, sealed[0])])
    numbers._file.close()
    numbers._lock.close()
    for number in (3, 5):
        with _connect(server) as box:
            assert box.number == number and box.get_many([1, 2]) == [b"abcdefgh", b"87654321"]


def test_a_byte_that_changes_inside_tls(server_tls, client_tls):
    with _served(server_tls) as server:
        proxy = _Proxy(server.port)
        with connect("127.0.0.1", proxy.port, server.keys, tls=client_tls) as box:
            box[1] = b"12345678"
            proxy.flip = True
            with pytest.raises(ConnectionLost):
                box[1]
            proxy.flip = False
            [(request, response)] = box.reconnect()
            assert request.key == 1 and response.value == b"12345678"
            assert box[1] == b"12345678"
        proxy.close()


def test_servers_that_cannot_be_used(server, server_tls):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ConnectionLost, match="refused"):
        connect("127.0.0.1", port, server.keys)
    with _served(server_tls) as secure:
        with pytest.raises(ConnectionLost, match=r"its certificate: self.signed"):
            _connect(secure, tls=ssl.create_default_context())
        with pytest.raises(ConnectionLost, match=r"no greeting|closed"):
            _connect(secure, timeout=1)
    with pytest.raises(ConnectionLost, match=r"TLS: "):
        _connect(server, tls=ssl.create_default_context(), timeout=1)


@pytest.mark.parametrize(
    "said, message",
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no server of an oblivious map"),
        (b"\5\0\0\0hello", "no server of an oblivious map"),
        (b"\0\200\0\0" + b"[" * 32768, "no server of an oblivious map"),
        (greeting(_SHAPE, 0).replace(b'"version": 1', b'"version": 2'), "speaks version 2"),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_server(tmp_path, said, message):
    keys = write_keys(tmp_path, KEYS, _SHAPE)[1]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            line, _ = listener.accept()
            line.sendall(said)
            line.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConnectionLost, match=message):
            connect("127.0.0.1", listener.getsockname()[1], keys)
        thread.join()


def test_a_server_that_does_not_answer(server):
    with _connect(server, timeout=0.3) as box:
        server.host.open.clear()
        with pytest.raises(ConnectionLost, match=r"no answer in 0\.3 s"):
            box[1]
        server.host.open.set()
        [(_, response)] = box.reconnect()
        assert response.key == 1 and 1 not in box


# plaintext


_MARKS = [bytes([n, n ^ 0x5A, n ^ 0x33, n ^ 0x99, n ^ 0x0F, n ^ 0xC3, n, 77]) for n in range(8)]


def test_no_plaintext_passes(server, proxy):
    with connect("127.0.0.1", proxy.port, server.keys) as box:
        box.update((int.from_bytes(mark, "little"), mark) for mark in _MARKS)
        assert box == {int.from_bytes(mark, "little"): mark for mark in _MARKS}
    kept = b"".join(text for text, _ in server._answers.values())
    seen = bytes(proxy.passed) + b"".join(server.host.seen) + kept + bytes(server.host.inner.pages)
    for mark in _MARKS:
        assert mark[:6] not in seen and mark[6::-1] not in seen
    sizes = {len(message) for message in server.host.seen}
    assert sizes == {_SHAPE.message_bytes}


def _memory(pid):
    """All that a process has in its memory."""
    pieces = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if rights.startswith("r") and not line.endswith(("[vvar]", "[vsyscall]", "clock]")):
                low, high = (int(part, 16) for part in span.split("-"))
                with suppress(OSError):
                    memory.seek(low)
                    pieces.append(memory.read(high - low))
    return pieces


def _digits(number):
    """A number as Python has it in memory: 30 bits in 4 bytes each."""
    return b"".join((number >> at & 0x3FFFFFFF).to_bytes(4, "little") for at in range(0, 120, 30))


def _children(pid):
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_servers_process_never_has_plaintext_nor_keys(tmp_path, certificate, client_tls):
    kernel = tmp_path / "maps.py"
    kernel.write_text(
        "import penstock as ps\n\nbox = ps.ObliviousMap(value=ps.bytes(8), capacity=40)\n"
    )
    assert run(["keys", str(kernel), "--out", str(tmp_path / "keys")]) == 0
    command = [sys.executable, "-m", "penstock", "serve", kernel, "--keys", tmp_path / "keys"]
    command += ["--certificate", certificate[0], "--private-key", certificate[1]]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE) as process:
        try:
            said = process.stdout.readline().decode()
            port = int(re.fullmatch(r"serving on 127\.0\.0\.1:(\d+) \(TLS\)\n", said)[1])
            with connect("127.0.0.1", port, tmp_path / "keys/client.json", tls=client_tls) as box:
                box.update((int.from_bytes(mark, "little"), mark) for mark in _MARKS)
                assert box.get_many([int.from_bytes(_MARKS[0], "little")]) == [_MARKS[0]]
            server = _memory(process.pid)
            [child] = _children(process.pid)
            device = _memory(child)
        finally:
            process.terminate()
    # the search finds them in the device, which is the golden model here
    keys = read_device(tmp_path / "keys" / "device.json", ps.compile(kernel).plan)
    secrets = [*_MARKS, _digits(keys.session)]
    assert all(any(secret in piece for piece in device) for secret in secrets)
    secrets += [keys.session.to_bytes(16, "little"), f"{keys.session:032x}".encode()]
    secrets += [_digits(key) for key in vars(keys).values()]
    assert not any(secret in piece for secret in secrets for piece in server)


# keys and the device's process


def test_files_of_keys(tmp_path):
    paths = write_keys(tmp_path, KEYS, _SHAPE)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600] * 4
    assert read_device(paths[0], _SHAPE) == KEYS
    assert read_client(paths[1]) == (KEYS.session, digest_of(_SHAPE.to_json()))
    assert read_admission(paths[2]) == Session(_SHAPE, KEYS.session).admission
    with pytest.raises(FileExistsError):
        write_keys(tmp_path, KEYS, _SHAPE)
    with pytest.raises(KeyFileError, match="no key page"):
        read_device(paths[1], _SHAPE)
    with pytest.raises(KeyFileError, match="cannot be read: No such file"):
        read_device(tmp_path / "none.json", _SHAPE)
    paths[2].write_text("no keys")
    with pytest.raises(KeyFileError, match="is not a file of keys"):
        read_admission(paths[2])


def test_keys_serve_one_run(tmp_path):
    """Counters begin at 0 in each run: a second one would use every nonce again."""
    device = write_keys(tmp_path, KEYS, _SHAPE)[0]
    session = Session(_SHAPE, KEYS.session)
    sealed = session.seal([Request(_PUT, 5, b"12345678")])
    DeviceProcess(_SHAPE, device).close()  # no request, no nonce
    with DeviceProcess(_SHAPE, device) as one, DeviceProcess(_SHAPE, device) as other:
        [answer] = one.carry(sealed)
        session.open(0, answer, None)
        with pytest.raises(MapStopped):  # before it has answered anything
            other.carry(sealed)
    message = rf"{device} has served a map already: its nonces would be used twice"
    with pytest.raises(DeviceLost, match=message):
        DeviceProcess(_SHAPE, device)
    for path in tmp_path.glob("*.*"):
        path.unlink()
    write_keys(tmp_path, Keys(1, 2, 3, 4), _SHAPE)  # others may lie in the same folder
    DeviceProcess(_SHAPE, device).close()


def test_a_device_in_a_process_of_its_own(tmp_path):
    device, client, *_ = write_keys(tmp_path, KEYS, _SHAPE)
    session = Session(_SHAPE, KEYS.session)
    with DeviceProcess(_SHAPE, device) as process:
        [answer] = process.carry(session.seal([Request(_PUT, 5, b"12345678")]))
        session.open(0, answer, None)
        [answer] = process.carry(session.seal([Request(_GET, 5, bytes(8))]))
        assert session.open(1, answer, None).value == b"12345678"
        made = load_requests(_SHAPE, [Item(9, b"87654321")])
        *loaded, _ = process.carry(session.seal(made, loading=True), 1)
        assert session.open(2, loaded[0], None).key == 9 and process.most_records == _SHAPE.capacity
        for _ in range(2):
            with pytest.raises(MapStopped):
                process.carry([bytes(_SHAPE.message_bytes)])
        process._process.kill()
        with pytest.raises(MapStopped):
            process.carry([bytes(_SHAPE.message_bytes)])
    with pytest.raises(DeviceLost, match=r"client\.json has no key page"):
        DeviceProcess(_SHAPE, client)
    with pytest.raises(DeviceLost, match=r"device\.json was made for another map"):
        DeviceProcess(config(capacity=20), device)


def test_keys_of_different_runs(tmp_path):
    device, _, server, _ = write_keys(tmp_path, KEYS, _SHAPE)
    other = write_keys(tmp_path / "other", Keys(1, 2, 3, 4), _SHAPE)[2]
    DeviceProcess(_SHAPE, device, admission=read_admission(server)).close()
    with pytest.raises(DeviceLost, match=r"device\.json does not belong to the server's key"):
        DeviceProcess(_SHAPE, device, admission=read_admission(other))


def test_errors_of_any_engine_pass_the_process():
    assert {error_of(int(code)).code for code in (*MapError, ErrorCode.WATCHDOG)} == {
        *MapError,
        ErrorCode.WATCHDOG,
    }
    said = read_greeting(greeting(_SHAPE, 5, error_of(64))[4:], digest_of(_SHAPE.to_json()))
    assert said == (_SHAPE, 5, HardwareError(ErrorCode.BUS_READ))
    with pytest.raises(ValueError):
        error_of(250)
