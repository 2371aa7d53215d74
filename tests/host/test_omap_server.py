"""A map behind a server: the client's answers are a dict's, and nobody between it and the device learns or changes anything."""

from __future__ import annotations

import asyncio
import datetime
import io
import ipaddress
import json
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock.cli.main import run
from penstock.host.omap import MapStopped, MessageChanged, client, process
from penstock.host.omap.client import (
    AsyncMap,
    Busy,
    ConnectionLost,
    NotAllowed,
    SessionMoved,
    connect,
)
from penstock.host.omap.devices import GoldenDevice
from penstock.host.omap.frames import (
    WELCOME,
    Code,
    Hello,
    Messages,
    Refused,
    Welcome,
    greeting,
)
from penstock.host.omap.handshake import Initiator
from penstock.host.omap.kept import KeptMap
from penstock.host.omap.keyfiles import read_device, read_map, renew_keys, write_keys
from penstock.host.omap.process import DeviceLost, DeviceProcess
from penstock.host.omap.receipts import (
    Receipt,
    ReceiptError,
    RolledBack,
    read_receipt,
    write_receipt,
)
from penstock.host.omap.server import MapServer
from penstock.host.omap.state import MapState
from penstock.models.errors import ErrorCode
from penstock.models.omap.boundary import Header
from penstock.models.omap.errors import MapError, error_of
from penstock.models.omap.messages import Operation
from penstock.models.omap.sessions import Answer, Denied, Request, prologue
from penstock.models.omap.vault import KeySchedule, Role
from testbench.omap import config

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

    def __init__(self, root):
        self.inner, self.config = GoldenDevice(_SHAPE, root), _SHAPE
        self.seen, self.change = [], None
        self.taken = 0  # requests that have come so far
        self.open = threading.Event()
        self.open.set()

    def carry(self, frames, opening=b""):
        self.taken += len(frames)
        self.open.wait(60)
        answers = self.inner.carry(frames, opening)
        self.seen += [*frames, *answers]
        if self.change is None or opening:
            return answers
        return [self.change(answer) for answer in answers]

    def close(self):
        pass


@contextmanager
def _served(context=None, **options):
    """A server in a thread; yields it with its `host` and the clients' files, `keys` and `role`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    async def begin(root):
        server = MapServer(_Host(root), **options)
        await server.listen("127.0.0.1", 0, context)
        return server

    with tempfile.TemporaryDirectory() as folder:
        files = write_keys(folder, _SHAPE)
        root = read_device(files[0], _SHAPE)
        server = wait(begin(root))
        server.root = root
        server.host, server.keys, server.role = server._carrier, files[1], files[2]
        server.keeper = files[3]
        try:
            yield server
        finally:
            _end(server, loop, thread, wait)


def _end(server, loop, thread, wait):
    try:
        server.host.open.set()
        wait(server.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _connect(server, **options):
    return connect("127.0.0.1", server.port, server.keys, **{"role": server.role, **options})


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
        before = box.serial
        box.load(mirror, records=30)
        assert box.serial == before + 30
        assert box.get_many(mirror) == list(mirror.values())


def test_requests_are_under_way_together(server):
    async def talk():
        async with await AsyncMap.connect(
            "127.0.0.1", server.port, server.keys, role=server.role
        ) as box:
            server.host.open.clear()
            puts = [asyncio.create_task(box.put(k, bytes([k]) * 8)) for k in range(30)]
            gets = [asyncio.create_task(box.get(k)) for k in range(40)]
            async with asyncio.timeout(60):
                while not server.host.taken:  # the first few are the device's, the others wait
                    await asyncio.sleep(0.001)
            server.host.open.set()
            await asyncio.gather(*puts)
            assert await box.delete(3) == b"\3" * 8 and await box.delete(3) is None
            assert box.serial == 72
            return await asyncio.gather(*gets)

    found = asyncio.run(talk())
    assert found == [bytes([k]) * 8 for k in range(30)] + [None] * 10
    assert server.calls <= 12  # a handshake and 72 operations


class _Line:
    """A client that sends what it likes."""

    def __init__(self, server, role=Role.WRITER):
        self.shape = Messages(_SHAPE)
        self.line = socket.create_connection(("127.0.0.1", server.port), 30)
        self.file = self.line.makefile("rb")
        self.file.read(int.from_bytes(self.file.read(4), "little"))
        known = read_map(server.keys)
        keys = KeySchedule(server.root, bytes(32), known.digest)
        secret = keys.role_key(role)
        self.initiator = Initiator(known.public, prologue(known.digest, role), secret)
        self.role = role

    def open(self):
        self.line.sendall(Hello.of(self.role, self.initiator.message).pack())
        said = Welcome.unpack(self.file.read(WELCOME.size))
        _, self.session = self.initiator.finish(said.message)
        self.token = said.token
        return self

    def sealed(self, *request):
        return self.session.seal(Request(*request).pack())

    def talk(self, *frames):
        """Send frames; return what the server answers to each, None where it hangs up."""
        answers = []
        for frame in frames:
            with suppress(ConnectionError):
                self.line.sendall(frame)
            text = self.file.read(self.shape.answer_bytes)
            answers.append(self.shape.read_answer(text) if text else None)
        return answers

    def close(self):
        self.file.close()
        self.line.close()


def test_wrong_messages_are_refused_and_the_map_answers(server):
    for wrong in (
        b"\7" + bytes(49),
        b"GET / HTTP/1.1\r\nHost: a-long-name-of-a-host.example\r\n\r\n",
    ):
        line = _Line(server)
        line.line.sendall(wrong)
        assert line.file.read(1) not in (b"", b"\0")
        line.close()
    line = _Line(server).open()
    first, second = line.sealed(5, b"12345678", _PUT), line.sealed(5, bytes(8), _GET)
    one, two = line.shape.request(0, first), line.shape.request(1, second)
    draw = random.Random(7)
    for _ in range(20):
        changed = bytearray(one)
        changed[draw.randrange(8, len(one))] ^= 1 << draw.randrange(8)
        [answer] = line.talk(bytes(changed))
        assert answer.code == Denied.TAG
    # too early, in order, the same once more, and another request with a number that was used
    other = line.shape.request(0, first[::-1])
    answers = line.talk(two, one, one, other, two, one)
    assert [answer.code for answer in answers] == [Code.ORDER, 0, 0, Code.ORDER, 0, 0]
    assert answers[1].sealed == answers[2].sealed == answers[5].sealed
    assert Answer.unpack(line.session.open(answers[1].sealed)).serial == 21
    line.close()
    with _connect(server) as box:
        assert box[5] == b"12345678"


def test_a_connection_that_takes_no_answers_is_ended():
    """A message of the client's that is sent again and again, by one who reads nothing."""
    with _served(patience=0.5) as server:
        with _connect(server) as box:
            box[1] = b"12345678"
        opened = _Line(server).open()
        shape, frame = opened.shape, opened.shape.request(0, opened.sealed(1, b"12345678", _PUT))
        opened.talk(frame)
        # buffers of the system that fill soon
        server._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        waiting, send = [0], server._send

        def watched(writer, text):
            send(writer, text)
            waiting.append(writer.transport.get_write_buffer_size())

        server._send = watched
        with opened.line as line:
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
        opened = _Line(server).open()
        server._messages.refusal = lambda *_: bytes(64 << 20)
        line = opened.line
        line.sendall(opened.shape.request(9, opened.sealed(1, bytes(8), _GET)))
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


def test_changed_responses(server):
    with _connect(server) as box:
        server.host.change = lambda answer: answer[:16] + answer[:15:-1]
        with pytest.raises(MessageChanged, match="request 0 does not open"):
            box[1] = bytes(8)
        server.host.change = None
        with pytest.raises(MessageChanged):  # the host kept what it had changed
            box.reconnect()
        assert box.reconnect() == [] and box[1] == bytes(8)


def test_sixteen_clients_at_once(server):
    """Readers and writers, replayed on a dict in the order of serials."""
    done = []

    async def client(seed):
        draw, role = random.Random(seed), server.role if seed % 4 else None
        async with await AsyncMap.connect("127.0.0.1", server.port, server.keys, role=role) as box:
            for _ in range(12):
                kind = draw.choice((_GET, _GET, _PUT, Operation.DELETE)) if role else _GET
                asked = kind, draw.randrange(12), draw.randbytes(8) if kind == _PUT else None
                [response] = await box.batch([asked])
                done.append((box.serial, asked, response))

    async def all_of_them():
        await asyncio.gather(*map(client, range(16)))

    asyncio.run(all_of_them())
    assert sorted(serial for serial, *_ in done) == list(range(1, 193))
    items = {}
    for _, (kind, key, value), response in sorted(done, key=lambda one: one[0]):
        assert (response.status == 0) == (key in items)
        assert response.value == items.get(key, bytes(8))
        if kind == _PUT:
            items[key] = value
        elif kind == Operation.DELETE:
            items.pop(key, None)


def test_each_role_may_do_what_it_may(server):
    with _connect(server) as writer, _connect(server, role=None) as reader:
        with _connect(server, role=server.keeper) as keeper:
            writer[1] = b"12345678"
            assert reader[1] == b"12345678"
            with pytest.raises(NotAllowed, match="a reader's session may not ask for PUT"):
                reader[1] = bytes(8)
            with pytest.raises(NotAllowed, match="a reader's session may not ask for PUT"):
                reader.load({1: bytes(8), 2: bytes(8)}, records=4)
            assert reader.get_many([1, 2]) == [b"12345678", None]
            with pytest.raises(NotAllowed, match="a reader's session may not ask for DELETE"):
                del reader[1]
            with pytest.raises(NotAllowed, match="a keeper's session may not ask for GET"):
                keeper[1]
            assert reader[1] == writer[1] == b"12345678"


def test_more_sessions_than_slots():
    """A new session takes the slot of the one whose latest request is oldest."""
    with _served(slots=2) as server, _connect(server) as one, _connect(server) as two:
        two[1] = b"12345678"
        one[2] = b"abcdefgh"
        with _connect(server) as three:
            assert three[1] == b"12345678" and one[2] == b"abcdefgh"
            with pytest.raises(ConnectionLost):
                two[1]
            two.reconnect()


def test_a_device_that_stopped(server, caplog):
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
    [line] = [record for record in caplog.records if record.name == "penstock.host.omap.server"]
    assert line.getMessage().startswith("the map has stopped: ") and line.levelname == "ERROR"


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
    with connect("127.0.0.1", proxy.port, server.keys, role=server.role) as box:
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


def test_a_session_that_is_over_is_not_gone_on_with(server, proxy):
    with connect("127.0.0.1", proxy.port, server.keys, role=server.role) as box:
        box[1] = b"12345678"
        proxy.cut = True
        with pytest.raises(ConnectionLost):
            box[1] = b"abcdefgh"
        proxy.cut = False
        server._slots[:] = [None] * len(server._slots)
        with pytest.raises(SessionMoved, match="is not known"):
            box.reconnect()
        assert box.reconnect() == [] and box[1] == b"abcdefgh"


def test_a_session_is_its_clients_alone(server):
    """Who does not know its token gets none of its answers."""
    line = _Line(server).open()
    line.talk(line.shape.request(0, line.sealed(1, bytes(8), _PUT)))
    for token, code in ((bytes(16), Code.TOKEN), (line.token, 0)):
        other = _Line(server)
        other.line.sendall(Hello(True, 0, token).pack())
        said = Welcome.unpack(other.file.read(WELCOME.size))
        assert said.code == code and said.value == (code == 0)
        other.close()
    line.close()


def test_a_byte_that_changes_inside_tls(server_tls, client_tls):
    with _served(server_tls) as server:
        proxy = _Proxy(server.port)
        with connect("127.0.0.1", proxy.port, server.keys, role=server.role, tls=client_tls) as box:
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
        (greeting(_SHAPE).replace(b'"version": 2', b'"version": 1'), "speaks version 1"),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_server(tmp_path, said, message):
    keys = write_keys(tmp_path, _SHAPE)[1]
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
    with connect("127.0.0.1", proxy.port, server.keys, role=server.role) as box:
        box.update((int.from_bytes(mark, "little"), mark) for mark in _MARKS)
        assert box == {int.from_bytes(mark, "little"): mark for mark in _MARKS}
    kept = b"".join(text for _, text in server._slots[0].answers.values())
    seen = bytes(proxy.passed) + b"".join(server.host.seen) + kept + bytes(server.host.inner.pages)
    for mark in _MARKS:
        assert mark[:6] not in seen and mark[6::-1] not in seen
    shape = server._messages.frames
    sizes = {len(message) for message in server.host.seen}
    assert sizes == {shape.size, shape.welcome_beats * shape.bus_bytes}


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
            files = tmp_path / "keys/map.json"
            role = tmp_path / "keys/writer.json"
            with connect("127.0.0.1", port, files, role=role, tls=client_tls) as box:
                box.update((int.from_bytes(mark, "little"), mark) for mark in _MARKS)
                assert box.get_many([int.from_bytes(_MARKS[0], "little")]) == [_MARKS[0]]
            server = _memory(process.pid)
            [child] = _children(process.pid)
            device = _memory(child)
        finally:
            process.terminate()
    # the search finds them in the device, which is the golden model here
    root = bytes.fromhex(json.loads((tmp_path / "keys/device.json").read_text())["root"])
    writer = bytes.fromhex(json.loads(role.read_text())["writer"])
    static = KeySchedule(root, bytes(32), bytes(32)).static
    secrets = [*_MARKS, static, writer]
    assert all(any(secret in piece for piece in device) for secret in secrets)
    secrets += [root, *(key.hex().encode() for key in (root, static, writer))]
    assert not any(secret in piece for secret in secrets for piece in server)


# the device's process


class _Sink:
    """Counts what is written."""

    def __init__(self):
        self.head, self.size = b"", 0

    def write(self, text):
        self.head = self.head or bytes(text[:8])
        self.size += len(text)


def test_texts_of_a_pipe_may_have_more_than_4_gib():
    sink, size = _Sink(), (1 << 32) + 5
    process._put(sink, memoryview(np.zeros(size, np.uint8)))  # no page of it is touched
    assert int.from_bytes(sink.head, "little") == size and sink.size == 8 + size
    assert process._get(io.BytesIO(bytes([3, *bytes(7)]) + b"abcd")) == b"abc"


def test_a_device_in_a_process_of_its_own(tmp_path):
    device, known, *_ = write_keys(tmp_path, _SHAPE)
    keys, shape = read_map(known), Messages(_SHAPE).frames
    incarnations = set()
    for _ in range(2):
        with DeviceProcess(_SHAPE, device) as process:
            initiator = Initiator(keys.public, prologue(keys.digest, Role.READER))
            opening = shape.opening(3, Role.READER, initiator.message)
            [welcome] = process.carry([], opening)
            payload, session = initiator.finish(shape.welcome(welcome))
            incarnations.add(payload[:16])
            sealed = session.seal(Request(5, bytes(8), _GET).pack())
            [answer] = process.carry([shape.request(3, 0, sealed)])
            found = Answer.unpack(session.open(shape.sealed(answer, shape.answer_bytes)))
            assert (found.key, found.status, found.serial) == (5, 1, 1)
            [answer] = process.carry([bytes(shape.size)])  # no message stops it
            assert Header.unpack(answer).code == Denied.SESSION
            assert os.getsid(process._process.pid) != os.getsid(0)  # no terminal ends it
            process._process.kill()
            with pytest.raises(MapStopped):
                process.carry([bytes(shape.size)])
    assert len(incarnations) == 2  # each is a power-up
    with pytest.raises(DeviceLost, match=r"map\.json has no key root"):
        DeviceProcess(_SHAPE, known)
    with pytest.raises(DeviceLost, match=r"device\.json was made for another map"):
        DeviceProcess(config(capacity=20), device)


def test_a_receipt_that_cannot_be_written_is_said_before_the_next_operation(
    server, tmp_path, monkeypatch
):
    """An operation ends as it has ended; none goes on without a receipt, and no other file is left."""

    def full(handle):
        raise OSError(28, "No space left on device")

    path = tmp_path / "receipt"
    with _connect(server, receipt=path) as box:
        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", full)
            box[1] = b"12345678"
            serial = box.serial
            with pytest.raises(ReceiptError, match="cannot be written: No space left on device"):
                box.get(1)
            assert box.serial == serial and list(tmp_path.iterdir()) == [path]
        assert box.get(1) == b"12345678"
    digest = read_map(server.keys).digest
    assert read_receipt(path, digest).serial == box.serial == serial + 1
    with pytest.raises(ReceiptError), _connect(server, receipt=path.with_name("other")) as box:
        monkeypatch.setattr(os, "fsync", full)
        assert box.get(1) == b"12345678"


def test_a_keeper_speaks_tls(server_tls, certificate, tmp_path, capsys):
    """Who does not speak it is hung up on, once the server's patience ends."""
    with _served(server_tls, patience=5) as server:
        place = [f"127.0.0.1:{server.port}", str(server.keeper), "--receipt", str(tmp_path / "r")]
        command = ["keeper", *place, "--once"]
        assert run([*command, "--certificate", str(certificate[0])]) == 0
        assert run(command) == 1
    assert "the map is as it was" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("serial", "told"),
    [(1, "or was started more than 255 times since"), (99, "that were acknowledged are gone$")],
)
def test_what_is_said_of_a_receipt_that_the_device_does_not_accept(serial, told, server, tmp_path):
    """An old one may be older than what the map knows of its past."""
    path, known = tmp_path / "receipt", read_map(server.keys)
    with _connect(server) as box:
        box.get_many(range(3))
    write_receipt(path, Receipt(bytes(16), serial), known.digest)
    with pytest.raises(RolledBack, match=told):
        _connect(server, receipt=path)


def _hardware(state):
    return "penstock.engines.omap.process", ["rtl", str(int(state))]


@pytest.mark.long
def test_hardware_and_the_golden_device_take_turns_on_a_folder(tmp_path):
    """Keys are renewed before each turn but the first. A minute to compile, some ten seconds for each handshake."""
    device, known, writer, keeper = write_keys(tmp_path, _SHAPE)
    items = {}

    async def talk(kept, turn):
        async with MapServer(kept) as server:
            await server.listen()
            place, seen = ("127.0.0.1", server.port, known), tmp_path / "receipt"
            patient = {"timeout": 600}
            async with await AsyncMap.connect(*place, role=writer, receipt=seen, **patient) as box:
                for key in range(4):
                    assert await box.get(key) == items.get(key)
                items[turn] = bytes([turn] * 8)
                await box.put(turn, items[turn])
                assert box.confirmed is False
            seen = tmp_path / "kept"
            async with await AsyncMap.connect(*place, role=keeper, receipt=seen, **patient):
                pass
            async with await AsyncMap.connect(*place, **patient) as reader:
                assert await reader.get(turn) == items[turn]
                assert reader.confirmed is (turn > 0)  # at first the keeper had no receipt

    for turn, program in enumerate((_hardware(state=True), (), _hardware(state=True))):
        if turn:
            renew_keys(tmp_path, _SHAPE)
        state = MapState(tmp_path / "state", read_map(known), _SHAPE)
        with KeptMap(DeviceProcess(_SHAPE, device, *program), state) as kept:
            assert state.renewed is (turn > 0)
            asyncio.run(talk(kept, turn))


@pytest.mark.long
def test_sessions_end_in_hardware(tmp_path):
    """A minute to compile, some ten seconds for each handshake."""
    files = write_keys(tmp_path, _SHAPE)
    process = DeviceProcess(_SHAPE, files[0], *_hardware(state=False))

    async def talk():
        async with MapServer(process) as server:
            await server.listen()
            place = "127.0.0.1", server.port, files[1]
            async with await AsyncMap.connect(*place, role=files[2]) as writer:
                await writer.put(7, b"12345678")
                async with await AsyncMap.connect(*place) as reader:
                    assert await reader.get(7) == b"12345678" and reader.serial == 2
                    with pytest.raises(NotAllowed):
                        await reader.put(7, bytes(8))
                    await asyncio.gather(*(writer.put(k, bytes([k] * 8)) for k in range(20)))
                    found = await asyncio.gather(*(reader.get(k) for k in range(20)))
                    assert found == [bytes([k] * 8) for k in range(20)]

    with process:
        asyncio.run(talk())


def test_errors_of_any_engine_pass_the_process():
    assert {error_of(int(code)).code for code in (*MapError, ErrorCode.WATCHDOG)} == {
        *MapError,
        ErrorCode.WATCHDOG,
    }
    with pytest.raises(ValueError):
        error_of(250)


def test_threads_share_a_map(server):
    wrong = []

    def work(first):
        for turn in range(20):
            try:
                box[first + turn % 5] = b"%08d" % turn
            except Exception as problem:
                wrong.append(problem)

    with _connect(server) as box:
        threads = [threading.Thread(target=work, args=(10 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and len(box) == 20


def test_a_thread_waits_for_another_ones_batch_no_longer_than_its_timeout(server):
    with _connect(server) as box:
        server.host.open.clear()
        first = threading.Thread(target=box.get, args=(1,))
        first.start()
        while not server.host.taken:
            time.sleep(0.001)
        box._remote.client._server.timeout = 0.2  # of the call that comes
        with pytest.raises(Busy, match=r"more than 0\.2 s"):
            box[2] = bytes(8)
        server.host.open.set()
        first.join()
        assert 2 not in box


def test_a_load_is_sent_in_pieces(server, monkeypatch):
    """No more of it is sealed than is under way."""
    monkeypatch.setattr(client, "_PIECE", 16)

    async def work():
        async with await AsyncMap.connect(
            "127.0.0.1", server.port, server.keys, role=server.role
        ) as box:
            server.host.open.clear()
            items = [(k % 30, k.to_bytes(8, "little")) for k in range(300)]
            load = asyncio.create_task(box.load(items))
            while not server.host.taken:
                await asyncio.sleep(0.001)
            assert 16 <= len(box._unanswered) <= 32
            server.host.open.set()
            await load
            assert await box.get(29) == (299).to_bytes(8, "little") and not box._unanswered

    asyncio.run(work())


def test_a_load_whose_connection_breaks_goes_on(server, proxy, monkeypatch):
    monkeypatch.setattr(client, "_PIECE", 4)
    with connect("127.0.0.1", proxy.port, server.keys, role=server.role) as box:
        items = {k: bytes([k]) * 8 for k in range(30)}
        proxy.cut = True
        with pytest.raises(ConnectionLost):
            box.load(items)
        proxy.cut = False
        assert [request.key for request, _ in box.reconnect()] == list(items)
        assert dict(box) == items


def test_a_receipt_is_no_item(server, tmp_path):
    with _connect(server, receipt=tmp_path / "receipt") as box:
        assert len(box) == 0


def test_a_receipt_is_presented_by_who_has_one(server):
    async def work():
        async with await AsyncMap.connect("127.0.0.1", server.port, server.keys) as box:
            with pytest.raises(ReceiptError, match="there is no receipt"):
                await box.present()

    asyncio.run(work())


def test_a_refusal_is_the_servers_word():
    told = str(Refused(Code.FULL, 3))
    assert "the server says" in told and "it may have been carried out" in told


def test_a_server_that_takes_nothing_is_left(server):
    """What is sent waits for room that never comes."""

    async def work():
        box = await AsyncMap.connect(
            "127.0.0.1", server.port, server.keys, role=server.role, timeout=0.3
        )
        box._writer.write = lambda text: None
        box._writer.transport._protocol.pause_writing()
        with pytest.raises(ConnectionLost, match="no answer in"):
            await box.put(1, b"12345678")
        await box.close()

    asyncio.run(asyncio.wait_for(work(), 20))
