"""Sessions: clients of every role, and a host that sends whatever it likes."""

from __future__ import annotations

import random

import pytest

from penstock.host.omap.handshake import HandshakeRefused, Initiator, Session
from penstock.models.crypto import gcm
from penstock.models.crypto.noise import FIRST_BYTES, LAST_NONCE, Refusal
from penstock.models.omap.sessions import (
    ALLOWED,
    ROLES,
    Answer,
    Asked,
    Denied,
    Request,
    Sessions,
    Welcome,
    prologue,
)
from penstock.models.omap.vault import KeySchedule, Role

_DIGEST = bytes(range(32))
_WELCOME = Welcome(b"i" * 16, 7, 5, True)


def _device(seed: int = 0, digest: bytes = _DIGEST) -> tuple[Sessions, KeySchedule]:
    draw = random.Random(seed)
    keys = KeySchedule(draw.randbytes(32), draw.randbytes(32), digest)
    return Sessions(keys, digest, 8), keys


def _client(keys: KeySchedule, role: Role, digest: bytes = _DIGEST) -> Initiator:
    return Initiator(keys.public, prologue(digest, role), keys.role_key(role))


def _opened(device: Sessions, keys: KeySchedule, slot: int, role: Role) -> Session:
    client = _client(keys, role)
    answer = device.open(slot, ROLES.index(role), client.message, _WELCOME)
    assert isinstance(answer, bytes)
    payload, session = client.finish(answer)
    assert Welcome.unpack(payload) == _WELCOME
    return session


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_ask_for_its_operations(role):
    device, keys = _device()
    session = _opened(device, keys, 63, role)
    for number, operation in enumerate(range(8)):
        asked = Request(1 << 63, b"12345678", operation)
        found = device.request(63, number, session.seal(asked.pack()))
        assert found == (asked, None if operation in ALLOWED[role] else Denied.OPERATION)
        answer = Answer(asked.key, b"87654321", 200, 1 << 40)
        sealed = device.answer(63, number, answer)
        assert sealed is not None and device.answer(63, number, answer) is None
        told = session.open(sealed)
        assert told is not None and Answer.unpack(told) == answer
    assert Asked.PUT not in ALLOWED[Role.READER] and Asked.GET not in ALLOWED[Role.KEEPER]


def test_frames_that_open_nothing_are_refused_by_name():
    device, keys = _device()
    first = _client(keys, Role.WRITER).message
    old = _opened(device, keys, 3, Role.WRITER)
    for slot, role, message, why in (
        (64, 1, first, Denied.SLOT),
        (-1, 1, first, Denied.SLOT),
        (3, 3, first, Denied.ROLE),
        (3, 0, first, Refusal.TAG),
        (3, 2, first, Refusal.TAG),
        (3, 1, first[:-1], Refusal.LENGTH),
        (3, 1, bytes(FIRST_BYTES), Refusal.POINT),
        (3, 1, _client(_device(1)[1], Role.WRITER).message, Refusal.TAG),
        (3, 1, _client(keys, Role.WRITER, bytes(32)).message, Refusal.TAG),
    ):
        assert device.open(slot, role, message, _WELCOME) is why
    asked = Request(1, bytes(8), Asked.GET)
    assert device.request(3, 0, old.seal(asked.pack())) == (asked, None)  # the session is as it was
    assert device.request(4, 0, bytes(33)) == (None, Denied.SESSION)
    assert device.answer(4, 0, _answer(1)) is None and device.answer(3, 1, _answer(1)) is None
    for number in (1, LAST_NONCE, LAST_NONCE - 1):
        assert device.request(3, number, bytes(33)) == (None, Denied.TAG)


def _answer(serial: int) -> Answer:
    return Answer(0, bytes(8), 0, serial)


def test_who_has_no_role_key_cannot_open_the_answer():
    device, keys = _device()
    thief = Initiator(keys.public, prologue(_DIGEST, Role.WRITER), bytes(32))
    answer = device.open(0, 1, thief.message, _WELCOME)
    assert isinstance(answer, bytes)
    with pytest.raises(HandshakeRefused):
        thief.finish(answer)


def test_another_power_up_answers_with_other_keys_under_the_same_public_key():
    root = bytes(range(32))
    one, two = (KeySchedule(root, bytes([k] * 32), _DIGEST) for k in range(2))
    assert one.public == two.public
    session = _opened(Sessions(one, _DIGEST, 8), one, 0, Role.WRITER)
    again = Sessions(two, _DIGEST, 8)
    _opened(again, two, 0, Role.WRITER)
    assert again.request(0, 0, session.seal(Request(1, bytes(8), Asked.GET).pack())) == (
        None,
        Denied.TAG,
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_host_can_stop_sessions_and_nothing_else(seed, monkeypatch):
    """Frames are replayed, changed, swapped between slots, dropped; slots are opened anew. What is
    accepted is what the slot's client asked, in its order; no (key, nonce) is sealed twice."""
    draw, used = random.Random(seed), set()

    def sealed_once(key, nonce, text, data=b""):
        assert (key, nonce) not in used
        used.add((key, nonce))
        return bytes(len(text)) + bytes(16) if data == b"" else plain(key, nonce, text, data)

    plain = gcm.seal
    monkeypatch.setattr(gcm, "seal", sealed_once)
    device, keys = _device(seed)
    clients: dict[int, tuple[Session, list[bytes], int]] = {}
    seen: list[tuple[int, bytes]] = [(0, bytes(33))]
    counts = dict.fromkeys(("accepted", *Denied), 0)
    for number in range(250):
        slot = draw.randrange(4)
        if slot not in clients or draw.random() < 0.03:
            clients[slot] = (_opened(device, keys, slot, Role.WRITER), [], 0)
        session, made, at = clients[slot]
        if draw.random() < 0.6 or not made:
            seen.append((len(made), session.seal(Request(number, bytes(8), 2).pack())))
            made.append(seen[-1][1])
        said, frame = draw.choice([*seen[-8:], *enumerate(made)])
        if at < len(made) and draw.random() < 0.5:
            said, frame = at, made[at]
        elif draw.random() < 0.3:
            bit = draw.randrange(8 * len(frame))
            frame = (
                frame[: bit // 8] + bytes([frame[bit // 8] ^ 1 << bit % 8]) + frame[bit // 8 + 1 :]
            )
        elif draw.random() < 0.3:
            said = draw.choice((at, at + 1, max(at - 1, 0), LAST_NONCE, (1 << 64) - 2))
        asked, denied = device.request(slot, said, frame)
        if said == at < len(made) and frame == made[at]:
            assert asked is not None and denied is None
            clients[slot] = (session, made, at + 1)
            counts["accepted"] += 1
        else:
            own = said < len(made) and frame == made[said]
            assert denied is (Denied.NUMBER if own else Denied.TAG)
            counts[denied] += 1
        told = device.answer(slot, said, _answer(number))
        assert (told is None) == (asked is None)
    assert min(counts[name] for name in ("accepted", Denied.TAG, Denied.NUMBER)) > 15, counts


def test_slots_are_checked():
    with pytest.raises(ValueError, match="64 to 1024, not 63"):
        Sessions(_device()[1], _DIGEST, 8, 63)
