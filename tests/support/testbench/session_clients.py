"""Clients of a map behind its boundary, one of another library among them, and a host that sends whatever it
likes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from noise.connection import Keypair, NoiseConnection

from penstock.host.omap.handshake import HandshakeRefused, Initiator
from penstock.models.crypto import gcm, noise
from penstock.models.crypto.noise import protocol_name
from penstock.models.crypto.x25519 import BASE
from penstock.models.omap import vault
from penstock.models.omap.boundary import Frames, Header
from penstock.models.omap.messages import Status
from penstock.models.omap.sessions import ROLES, Answer, Asked, Denied, Request, Welcome, prologue
from penstock.models.omap.vault import KeySchedule, Role

from .boundary import DIGEST, Golden

__all__ = ["Client", "Host", "by_another_library", "complete", "drawn", "judged", "opened"]


@dataclass
class Client:
    """A client, its session, and what it has asked for."""

    device: Golden
    slot: int
    role: Role
    digest: bytes = DIGEST
    stolen: Role | None = None  # whose key it has in place of its own
    sent: int = 0
    over: bool = False  # its handshake is
    asked: list[Request] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    heard: dict[int, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = self.device.keys
        secret = keys.role_key(self.stolen or self.role)
        self._initiator = Initiator(keys.public, prologue(self.digest, self.role), secret)
        self.opening = self.device.frames.opening(self.slot, self.role, self._initiator.message)

    def finish(self, frame: bytes) -> Welcome:
        """Take the answer to the handshake. Raises HandshakeRefused."""
        payload, self.session = self._initiator.finish(self.device.frames.welcome(frame))
        self.over = True
        return Welcome.unpack(payload)

    def ask(self, operation: int, key: int, value: bytes = b"") -> bytes:
        """Return a request's frame."""
        value = value.ljust(self.device.config.value_bytes, b"\0")
        self.asked.append(Request(key, value, operation))
        sealed = self.session.seal(self.asked[-1].pack(self.device.config.key_bytes))
        self.frames.append(self.device.frames.request(self.slot, len(self.frames), sealed))
        return self.frames[-1]

    def hear(self, frame: bytes) -> Answer | None:
        """Return the answer to the next request, as a client does that believes nothing; None where this
        is not it."""
        text = self.session.open(self.device.frames.sealed(frame, self.device.frames.answer_bytes))
        if text is None:
            return None
        answer = Answer.unpack(text, self.device.config.key_bytes)
        number = len(self.heard)
        assert answer.key == self.asked[number].key
        assert not self.heard or answer.serial > self.heard[number - 1].serial
        self.heard[number] = answer
        return answer


def opened(device: Golden, slot: int, role: Role) -> Client:
    client = Client(device, slot, role)
    client.finish(device.run([], client.opening, collect=True)[0])
    return client


def judged(
    clients: list[Client],
    before: dict[int, bytes] | None = None,
    maps: dict[int, dict[int, bytes]] | None = None,
) -> dict[int, bytes]:
    """All operations that were answered, on a dict in the order of their serials. Returns it.
    `before`: what was there before them; `maps`: gets what was there behind each serial."""
    done = [(a.serial, c, c.asked[n], a) for c in clients for n, a in c.heard.items()]
    items = dict(before or {})
    last, none = 0, bytes(clients[0].device.config.value_bytes) if clients else b""
    for serial, client, asked, answer in sorted(done, key=lambda one: one[0]):
        assert serial > last
        last = serial
        writes = asked.operation in (Asked.PUT, Asked.DELETE)
        if asked.operation == Asked.RECEIPT:
            assert answer.status in (Status.FOUND, Status.MISSING, Status.UNKNOWN)
        elif asked.operation not in (1, 2, 3) or client.role is Role.KEEPER:
            assert answer.status in (Status.REFUSED, Status.UNKNOWN)
        elif writes and client.role is not Role.WRITER:
            assert answer.status == Status.REFUSED and answer.value == none
        else:
            there = asked.key in items
            assert answer.status == (Status.FOUND if there else Status.MISSING)
            assert answer.value == items.get(asked.key, none)
            if asked.operation == Asked.PUT:
                items[asked.key] = asked.value
            elif writes:
                items.pop(asked.key, None)
        if maps is not None:
            maps[serial] = dict(items)
    return items


def drawn(draw: random.Random, client: Client) -> bytes:
    operation = draw.choice((1, 1, 2, 2, 3, draw.randrange(256)))
    return client.ask(
        operation, draw.randrange(12), draw.randbytes(client.device.config.value_bytes)
    )


class Peer:
    """Another library's client."""

    def __init__(self, device: KeySchedule, role: Role, frames: Frames) -> None:
        self.frames = frames
        secret = device.role_key(role)
        self.noise = peer = NoiseConnection.from_name(protocol_name(secret is not None))
        peer.set_prologue(prologue(DIGEST, role))
        if secret is not None:
            peer.set_psks(secret)
        peer.set_as_initiator()
        peer.set_keypair_from_public_bytes(Keypair.REMOTE_STATIC, device.public)
        peer.start_handshake()
        self.role, self.first = role, bytes(peer.write_message())

    def ask(self, slot: int, number: int, request: Request) -> bytes:
        return self.frames.request(slot, number, bytes(self.noise.encrypt(request.pack())))

    def hear(self, frame: bytes) -> Answer:
        sealed = self.frames.sealed(frame, self.frames.answer_bytes)
        return Answer.unpack(bytes(self.noise.decrypt(sealed)))


def complete(run: Callable[..., list[bytes]], keys: KeySchedule, frames: Frames) -> None:
    """Another library's writer and reader in turn."""
    value, serial = b"87654321", 0
    for slot, role in ((63, Role.WRITER), (0, Role.READER)):
        peer = Peer(keys, role, frames)
        [welcome] = run([], frames.opening(slot, role, peer.first), True)
        payload = Welcome.unpack(bytes(peer.noise.read_message(frames.welcome(welcome))))
        assert payload == Welcome(keys.incarnation, serial, 0, False)
        asked = [Request(15, value, op) for op in (Asked.PUT, Asked.GET, Asked.RECEIPT)]
        answers = run([peer.ask(slot, k, request) for k, request in enumerate(asked)])
        told = [peer.hear(answer) for answer in answers]
        first = Status.MISSING if role is Role.WRITER else Status.REFUSED
        assert [a.status for a in told] == [first, Status.FOUND, Status.UNKNOWN]
        assert told[1].value == value and [a.serial for a in told] == [
            serial + k for k in (1, 2, 3)
        ]
        serial += 3


class Host:
    """A script of a hostile host against devices: any frame to any of them, in any order, changed,
    replayed, with another slot, number, role or digest, power cycles among them. `run(which, frames,
    opening, collect)` is a device's; what it answers is judged here alone."""

    def __init__(
        self,
        seed: int,
        devices: list[Any],
        run: Callable[..., list[bytes]],
        digest: bytes = DIGEST,
    ) -> None:
        self.draw, self.devices, self._run = random.Random(seed), devices, run
        self.digest = digest
        self.live: list[dict[int, Client | None]] = [{} for _ in devices]
        self.all: list[list[Client]] = [[] for _ in devices]
        self.seen = [bytes(devices[0].frames.size)]
        self.openings: list[tuple[int, Client, bytes]] = []
        self.counts: Counter[object] = Counter()

    def step(self, which: int | None = None) -> None:
        which = self.draw.randrange(len(self.devices)) if which is None else which
        if not self.live[which] or self.draw.random() < 0.25:
            self._open(which)
        else:
            self.send(which, self.draw.randrange(1, 4))

    def power(self, which: int) -> None:
        """What a device knew is gone; its clients' keys stay."""
        old = self.devices[which]
        self.devices[which] = Golden(old.config, old.seed, entropy=self.draw.randbytes(32))
        self.live[which] = {}
        judged(self.all[which])
        self.all[which] = []
        self.counts["power"] += 1

    def _flipped(self, frame: bytes) -> bytes:
        bit = self.draw.randrange(8 * len(frame))
        return frame[: bit // 8] + bytes([frame[bit // 8] ^ 1 << bit % 8]) + frame[bit // 8 + 1 :]

    def open(self, which: int, slot: int, role: Role) -> Client:
        """A handshake that the host lets through."""
        client = Client(self.devices[which], slot, role, self.digest)
        [answer] = self._run(which, [], client.opening, True)
        self._take(which, slot, client, answer)
        return client

    def _take(self, which: int, slot: int, client: Client, answer: bytes) -> None:
        assert client.finish(answer).serial == self.devices[which].serial
        client.slot = slot
        self.live[which][slot] = client
        self.all[which].append(client)
        self.counts["opened"] += 1

    def _opening(self, which: int) -> Client:
        """Somebody's first message: of another digest, or with another role's key, now and then."""
        draw = self.draw
        digest = self.digest if draw.random() < 0.8 else bytes(32)
        slot, role = draw.randrange(4), draw.choice(ROLES)
        others = [r for r in (Role.WRITER, Role.KEEPER) if role not in (r, Role.READER)]
        stolen = draw.choice(others) if others and draw.random() < 0.3 else None
        return Client(self.devices[which], slot, role, digest, stolen)

    def _changed(self, frame: bytes) -> bytes:
        """A frame as it is, with a bit or its role changed."""
        kind = self.draw.random()
        if kind < 0.2:
            return self._flipped(frame)
        if kind < 0.3:
            slot, _, number = Header.unpack(frame)
            return Header(slot, self.draw.randrange(4), number).pack() + frame[16:]
        return frame

    def _open(self, which: int) -> None:
        draw = self.draw
        made = self._opening(which)
        self.openings.append((which, made, made.opening))
        to, client, frame = self.openings[-1] if draw.random() < 0.7 else draw.choice(self.openings)
        frame = self._changed(frame)
        [answer] = self._run(which, [], frame, True)
        slot, role, _ = Header.unpack(frame)
        code, text = Header.unpack(answer).code, answer[16:]
        same = frame[16:64] == client.opening[16:64] and role == ROLES.index(client.role)
        if slot < 64 and same and to == which and client.digest == self.digest:
            assert code == 0
            # whoever else gets the slot has nothing of it
            self.live[which][slot] = None
            if client.over:
                self.counts["again"] += 1
            elif client.stolen is not None:
                self._refused(client, answer)
                self.counts["stolen"] += 1
            else:
                self._take(which, slot, client, answer)
        else:
            assert code != 0 and not any(text)
            self._refused(made, answer)
            self.counts["unopened"] += 1

    def _refused(self, client: Client, answer: bytes) -> None:
        with pytest.raises(HandshakeRefused):
            client.finish(answer)
        client.over = True

    def _frame(self, which: int) -> bytes:
        draw = self.draw
        client = draw.choice(list(self.live[which].values()))
        if client is not None and draw.random() < 0.6:
            while len(client.frames) <= client.sent or draw.random() < 0.2:
                self.seen.append(drawn(draw, client))
            return client.frames[client.sent]
        frame = draw.choice(self.seen[-30:])
        kind = draw.random()
        if kind < 0.3:
            frame = self._flipped(frame)
        elif kind < 0.6:
            slot, code, number = Header.unpack(frame)
            number = draw.choice((number, max(number - 1, 0), number + 1, (1 << 64) - 1))
            frame = (
                Header(draw.choice((slot, 0, 1, 63, 64, 65535)), code, number).pack() + frame[16:]
            )
        return frame

    def send(self, which: int, count: int) -> None:
        """A batch of frames, and what must come of each."""
        frames = [self._frame(which) for _ in range(count)]
        answers = self._run(which, frames, b"", False)
        for frame, answer in zip(frames, answers, strict=True):
            slot, _, number = Header.unpack(frame)
            client = self.live[which].get(slot)
            header, sealed = (
                Header.unpack(answer),
                self.devices[0].frames.sealed(frame, self.devices[0].frames.request_bytes),
            )
            assert (header.slot, header.number) == (slot, number)
            if (
                client is not None
                and number == client.sent < len(client.frames)
                and (
                    sealed
                    == self.devices[0].frames.sealed(
                        client.frames[number], self.devices[0].frames.request_bytes
                    )
                )
            ):
                assert header.code == 0 and client.hear(answer) is not None
                client.sent += 1
                self.counts["accepted"] += 1
            else:
                assert header.code in (Denied.SESSION, Denied.TAG, Denied.NUMBER)
                assert not any(answer[16:])
                assert client is None or not client.frames or client.hear(answer) is None
                self.counts[Denied(header.code)] += 1

    def judge(self) -> None:
        for clients in self.all:
            judged(clients)


def by_another_library(monkeypatch: pytest.MonkeyPatch) -> set[tuple[bytes, bytes]]:
    """Let golden's primitives be another library's, which are quick; tests/crypto holds them against each
    other. Returns what was sealed: no (key, nonce) is twice."""
    used: set[tuple[bytes, bytes]] = set()

    def product(scalar: bytes, point: bytes) -> bytes | None:
        try:
            own, other = X25519PrivateKey, X25519PublicKey
            return own.from_private_bytes(scalar).exchange(other.from_public_bytes(point))
        except ValueError:
            return None

    def seal(key: bytes, nonce: bytes, text: bytes, data: bytes = b"") -> bytes:
        assert (key, nonce) not in used
        used.add((key, nonce))
        return AESGCM(key).encrypt(nonce, text, data)

    def open_(key: bytes, nonce: bytes, sealed: bytes, data: bytes = b"") -> bytes | None:
        try:
            return AESGCM(key).decrypt(nonce, sealed, data)
        except InvalidTag:
            return None

    public = lambda scalar: product(scalar, BASE)
    for module in (noise, vault):
        monkeypatch.setattr(module, "public_key", public)
    monkeypatch.setattr(noise, "x25519", product)
    monkeypatch.setattr(gcm, "seal", seal)
    monkeypatch.setattr(gcm, "open_", open_)
    monkeypatch.setattr(noise.Symmetric.__init__, "__defaults__", (seal, open_))
    return used
