"""Noise handshakes NK and NKpsk2 with X25519, AES-256-GCM and SHA-256 (the Noise protocol framework,
revision 34): the responder, and what both sides share.

The initiator knows the responder's static key. Its first message has no payload; the answer has one,
and is the last message. With a pre-shared key, mixed into the answer, both know that the other one
has it once a message of the session is opened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from . import gcm
from .sha256 import hkdf, sha256
from .x25519 import public_key, x25519

_KEY = 32
#: bytes of the first message: the initiator's ephemeral key, and the tag of nothing
FIRST_BYTES = _KEY + gcm.TAG
#: a session ends before this number of a message, which is reserved
LAST_NONCE = (1 << 64) - 1

Seal = Callable[[bytes, bytes, bytes, bytes], bytes]
Open = Callable[[bytes, bytes, bytes, bytes], "bytes | None"]


def second_bytes(payload: int) -> int:
    """Return the bytes of the answer with a payload of so many."""
    return _KEY + payload + gcm.TAG


def protocol_name(shared: bool) -> bytes:
    """Return the protocol's name; `shared`: with a pre-shared key."""
    return b"Noise_NK%b_25519_AESGCM_SHA256" % (b"psk2" if shared else b"")


def nonce_bytes(number: int) -> bytes:
    """Return the 12 bytes of the nonce of a message of this number (Noise, 12.4). Raises ValueError
    for `LAST_NONCE` and what is beyond it."""
    if not 0 <= number < LAST_NONCE:
        raise ValueError(f"a session has no message {number}")
    return bytes(4) + number.to_bytes(8, "big")


class Refusal(IntEnum):
    """Why a first message is refused. The responder is as before, and takes the next one."""

    LENGTH = 1
    POINT = 2
    TAG = 3

    @property
    def meaning(self) -> str:
        """What was wrong."""
        return {
            Refusal.LENGTH: f"a first message has {FIRST_BYTES} bytes",
            Refusal.POINT: "the ephemeral key is a point of small order",
            Refusal.TAG: "it was made for another key, another prologue, or was changed",
        }[self]


class Symmetric:
    """What both sides compute from the messages so far (Noise, 5.2).

    * `shared`: whether there is a pre-shared key.
    * `seal`, `open_`: (key, nonce, text, associated data), as of `gcm`.
    """

    def __init__(
        self, shared: bool, prologue: bytes, seal: Seal = gcm.seal, open_: Open = gcm.open_
    ) -> None:
        name = protocol_name(shared)
        self.shared, self._seal, self._open = shared, seal, open_
        self.hash = name.ljust(_KEY, b"\0") if len(name) <= _KEY else sha256(name)
        self.chain = self.hash
        self.key, self._number = b"", 0
        self.mix_hash(prologue)

    def mix_hash(self, data: bytes) -> None:
        self.hash = sha256(self.hash + data)

    def mix_key(self, material: bytes) -> None:
        self.chain, self.key = hkdf(self.chain, material, b"", 2)
        self._number = 0

    def mix_ephemeral(self, key: bytes) -> None:
        """A public key that one side has sent."""
        self.mix_hash(key)
        if self.shared:  # Noise, 9.2
            self.mix_key(key)

    def mix_shared(self, secret: bytes) -> None:
        """The pre-shared key."""
        self.chain, hashed, key = hkdf(self.chain, secret, b"", 3)
        self.mix_hash(hashed)
        self.key, self._number = key, 0

    def seal(self, text: bytes) -> bytes:
        sealed = self._seal(self.key, nonce_bytes(self._number), text, self.hash)
        self._number += 1
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed: bytes) -> bytes | None:
        text = self._open(self.key, nonce_bytes(self._number), sealed, self.hash)
        self._number += 1
        self.mix_hash(sealed)
        return text

    def split(self) -> tuple[bytes, bytes]:
        """The session's keys: of the initiator's messages, and of the responder's."""
        first, second = hkdf(self.chain, b"", b"", 2)
        return first, second


@dataclass(frozen=True)
class Keys:
    """What a handshake leaves."""

    message: bytes  #: the answer
    receive: bytes  #: 32 bytes: the session's key of the initiator's messages
    send: bytes  #: 32 bytes: the session's key of the responder's messages
    hash: bytes  #: names this handshake


def first_message(device: bytes, prologue: bytes, ephemeral: bytes, shared: bool) -> bytes:
    """Return an initiator's first message. Parameters: `device`: the responder's public key; `ephemeral`: a
    secret scalar, 32 bytes; `shared`: whether there is a pre-shared key. Raises ValueError for a key of
    small order."""
    state, public = Symmetric(shared, prologue), public_key(ephemeral)
    product = x25519(ephemeral, device)
    if product is None:
        raise ValueError("the device's key is a point of small order")
    state.mix_hash(device)
    state.mix_ephemeral(public)
    state.mix_key(product)
    return public + state.seal(b"")


@dataclass(frozen=True)
class Responder:
    """The side that is asked."""

    static: bytes  #: its secret scalar, 32 bytes
    prologue: bytes  #: what both sides must agree on beforehand
    secret: bytes | None = None  #: the pre-shared key, 32 bytes; None: pattern NK

    def answer(self, first: bytes, ephemeral: bytes, payload: bytes) -> Keys | Refusal:
        """Return what follows from a first message, whatever its bytes. `ephemeral`: a secret scalar
        of 32 bytes, never used before."""
        if len(first) != FIRST_BYTES:
            return Refusal.LENGTH
        other, sealed = first[:_KEY], first[_KEY:]
        state = Symmetric(self.secret is not None, self.prologue)
        state.mix_hash(public_key(self.static))
        state.mix_ephemeral(other)
        product = x25519(self.static, other)
        # the second product is zero where the first one is: both scalars are multiples of 8
        second = x25519(ephemeral, other)
        if product is None or second is None:
            return Refusal.POINT
        state.mix_key(product)
        if state.open(sealed) is None:
            return Refusal.TAG
        public = public_key(ephemeral)
        state.mix_ephemeral(public)
        state.mix_key(second)
        if self.secret is not None:
            state.mix_shared(self.secret)
        message = public + state.seal(payload)
        return Keys(message, *state.split(), state.hash)
