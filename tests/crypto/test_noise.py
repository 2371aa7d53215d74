"""Handshakes: another library's side of each, and one named refusal for whatever is wrong."""

from __future__ import annotations

import random

import pytest
from noise.connection import Keypair, NoiseConnection

from penstock.host.omap.handshake import HandshakeRefused, Initiator, Session
from penstock.models.crypto import gcm
from penstock.models.crypto.noise import (
    FIRST_BYTES,
    LAST_NONCE,
    Keys,
    Refusal,
    Responder,
    nonce_bytes,
    protocol_name,
    second_bytes,
)
from penstock.models.crypto.x25519 import PRIME, public_key

# the other library's: ephemeral keys are given, so that both make the same bytes
pytestmark = pytest.mark.filterwarnings("ignore:One of ephemeral keypairs")

_PROLOGUE = b"penstock map 2" + bytes(32) + b"\x01"
_PAYLOAD = bytes(range(33))


def _draw(seed: int, shared: bool) -> tuple[Responder, bytes, bytes]:
    """A responder, and scalars of the initiator and of the responder."""
    draw = random.Random(seed)
    static, ephemeral, own = (draw.randbytes(32) for _ in range(3))
    secret = draw.randbytes(32) if shared else None
    return Responder(static, _PROLOGUE, secret), ephemeral, own


def _peer(responder: Responder, initiates: bool, ephemeral: bytes) -> NoiseConnection:
    """The other library's initiator or responder."""
    peer = NoiseConnection.from_name(protocol_name(responder.secret is not None))
    peer.set_prologue(responder.prologue)
    if responder.secret is not None:
        peer.set_psks(responder.secret)
    peer.set_keypair_from_private_bytes(Keypair.EPHEMERAL, ephemeral)
    if initiates:
        peer.set_as_initiator()
        peer.set_keypair_from_public_bytes(Keypair.REMOTE_STATIC, public_key(responder.static))
    else:
        peer.set_as_responder()
        peer.set_keypair_from_private_bytes(Keypair.STATIC, responder.static)
    peer.start_handshake()
    return peer


def _sealed(key: bytes, number: int, text: bytes) -> bytes:
    return gcm.seal(key, nonce_bytes(number), text)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_another_initiator_completes_and_its_messages_are_opened(shared, seed):
    responder, ephemeral, own = _draw(seed, shared)
    peer = _peer(responder, True, ephemeral)
    first = bytes(peer.write_message())
    assert len(first) == FIRST_BYTES
    made = responder.answer(first, own, _PAYLOAD)
    assert isinstance(made, Keys) and len(made.message) == second_bytes(len(_PAYLOAD))
    assert bytes(peer.read_message(made.message)) == _PAYLOAD
    assert peer.handshake_finished and bytes(peer.get_handshake_hash()) == made.hash
    for number, text in enumerate((b"", b"one", bytes(100))):
        sealed = bytes(peer.encrypt(text))
        assert gcm.open_(made.receive, nonce_bytes(number), sealed) == text
        assert bytes(peer.decrypt(_sealed(made.send, number, text))) == text


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_both_sides_make_the_bytes_of_another_library(shared, seed):
    responder, ephemeral, own = _draw(seed, shared)
    client = Initiator(public_key(responder.static), _PROLOGUE, responder.secret, ephemeral)
    assert client.message == bytes(_peer(responder, True, ephemeral).write_message())
    peer = _peer(responder, False, own)
    peer.read_message(client.message)
    answer = bytes(peer.write_message(_PAYLOAD))
    made = responder.answer(client.message, own, _PAYLOAD)
    assert isinstance(made, Keys) and made.message == answer
    payload, session = client.finish(answer)
    assert payload == _PAYLOAD and session.hash == made.hash
    for number in range(3):
        assert bytes(peer.decrypt(session.seal(b"ask"))) == b"ask"
        assert session.open(_sealed(made.send, number, b"say")) == b"say"


def test_fresh_clients_differ():
    responder, _, _ = _draw(5, True)
    device = public_key(responder.static)
    made = {Initiator(device, _PROLOGUE, responder.secret).message for _ in range(4)}
    assert len(made) == 4


@pytest.mark.parametrize("shared", [False, True])
def test_wrong_first_messages_are_refused_by_name(shared):
    responder, ephemeral, own = _draw(9, shared)
    device = public_key(responder.static)
    message = Initiator(device, _PROLOGUE, responder.secret, ephemeral).message
    answer = lambda text: responder.answer(text, own, _PAYLOAD)
    whole = answer(message)
    for text in (b"", message[:-1], message + b"\0"):
        assert answer(text) is Refusal.LENGTH
    for number in (0, 1, PRIME - 1, PRIME, PRIME + 1):
        assert answer(number.to_bytes(32, "little") + bytes(16)) is Refusal.POINT
    for bit in range(0, 8 * FIRST_BYTES, 37):
        changed = bytearray(message)
        changed[bit // 8] ^= 1 << bit % 8
        assert answer(bytes(changed)) is Refusal.TAG
    others = (
        Initiator(device, _PROLOGUE + b"2", responder.secret, ephemeral),
        Initiator(public_key(own), _PROLOGUE, responder.secret, ephemeral),
        Initiator(device, _PROLOGUE, None if shared else bytes(32), ephemeral),
    )
    assert [answer(other.message) for other in others] == [Refusal.TAG] * 3
    assert answer(message) == whole  # and it goes on
    assert all(refusal.meaning for refusal in Refusal)


@pytest.mark.parametrize("shared", [False, True])
def test_wrong_answers_are_refused_by_name(shared):
    responder, ephemeral, own = _draw(11, shared)
    device = public_key(responder.static)
    begun = lambda secret=responder.secret: Initiator(device, _PROLOGUE, secret, ephemeral)
    made = responder.answer(begun().message, own, _PAYLOAD)
    assert isinstance(made, Keys)
    for bit in range(0, 8 * len(made.message), 41):
        changed = bytearray(made.message)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(HandshakeRefused):
            begun().finish(bytes(changed))
    for text, meaning in (
        (b"", "at least 48 bytes"),
        (made.message[:-1], "is not that of the device"),
        (bytes(32) + made.message[32:], "small order"),
    ):
        with pytest.raises(HandshakeRefused, match=meaning):
            begun().finish(text)
    imitated = Responder(own, _PROLOGUE, responder.secret).answer(begun().message, own, _PAYLOAD)
    assert imitated is Refusal.TAG
    if shared:  # a wrong role key shows when the answer is opened
        with pytest.raises(HandshakeRefused):
            begun(bytes(32)).finish(made.message)


def test_a_session_takes_each_message_once_and_in_order():
    session, other = Session(bytes(32), b"k" * 32, b""), Session(b"k" * 32, bytes(32), b"")
    first, second = session.seal(b"1"), session.seal(b"2")
    assert other.open(second) is None and other.open(first) == b"1"
    assert other.open(first) is None and other.open(b"") is None
    assert other.open(second) == b"2"
    session.sent = LAST_NONCE
    with pytest.raises(ValueError, match="no message"):
        session.seal(b"")
