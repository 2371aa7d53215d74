"""The client's side of a handshake with a device, and of the session that follows: Noise NK, or
NKpsk2 with a role's key (`models.crypto.noise`), on `cryptography`."""

from ...models.crypto.noise import Symmetric, nonce_bytes, second_bytes
from ...models.errors import Error

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as missing:
    hint = "pip install 'penstock[map]'"
    raise Error("sessions with a map's device need the package cryptography", hint) from missing

_KEY = 32


class HandshakeRefused(Exception):
    """The answer is not that of the device whose public key the client has, or not to this client's
    message, prologue and role key; or it was changed."""


def _seal(key: bytes, nonce: bytes, text: bytes, data: bytes) -> bytes:
    return AESGCM(key).encrypt(nonce, text, data)


def _open(key: bytes, nonce: bytes, sealed: bytes, data: bytes) -> bytes | None:
    try:
        return AESGCM(key).decrypt(nonce, sealed, data)
    except InvalidTag:
        return None


class Session:
    """Messages behind a handshake, each direction in its own order.

    Parameters: `send`, `receive`: keys of 32 bytes; `hash`: names the handshake.
    """

    def __init__(self, send: bytes, receive: bytes, hash: bytes) -> None:
        self._send, self._receive = AESGCM(send), AESGCM(receive)
        self.sent = self.received = 0
        self.hash = hash

    def seal(self, text: bytes) -> bytes:
        """Return the next message. Raises ValueError when the session has none left."""
        nonce = nonce_bytes(self.sent)
        self.sent += 1
        return self._send.encrypt(nonce, text, None)

    def open(self, sealed: bytes) -> bytes | None:
        """Return the next answer's text; None, and the answer is still to come, where this is not it."""
        try:
            text = self._receive.decrypt(nonce_bytes(self.received), sealed, None)
        except InvalidTag:
            return None
        self.received += 1
        return text


class Initiator:
    """One handshake.

    * `device`: the device's public key, 32 bytes.
    * `prologue`: what both sides must agree on beforehand.
    * `secret`: the role's key, 32 bytes; None for a role without one.
    * `ephemeral`: a secret scalar of 32 bytes, for tests; fresh by default.

    Raises ValueError for a device's key that has small order, or another length.
    """

    def __init__(
        self,
        device: bytes,
        prologue: bytes,
        secret: bytes | None = None,
        ephemeral: bytes | None = None,
    ) -> None:
        new_key = X25519PrivateKey.generate() if ephemeral is None else None
        self._own = new_key or X25519PrivateKey.from_private_bytes(ephemeral)
        self._secret, public = secret, self._own.public_key().public_bytes_raw()
        self._state = state = Symmetric(secret is not None, prologue, _seal, _open)
        state.mix_hash(device)
        state.mix_ephemeral(public)
        state.mix_key(self._own.exchange(X25519PublicKey.from_public_bytes(device)))
        #: the first message
        self.message = public + state.seal(b"")

    def finish(self, answer: bytes) -> tuple[bytes, Session]:
        """Return the answer's payload, and the session. Raises HandshakeRefused."""
        if len(answer) < second_bytes(0):
            raise HandshakeRefused(f"an answer has at least {second_bytes(0)} bytes")
        state, other = self._state, answer[:_KEY]
        state.mix_ephemeral(other)
        try:
            state.mix_key(self._own.exchange(X25519PublicKey.from_public_bytes(other)))
        except ValueError:
            raise HandshakeRefused("the answer's key is a point of small order") from None
        if self._secret is not None:
            state.mix_shared(self._secret)
        payload = state.open(answer[_KEY:])
        if payload is None:
            raise HandshakeRefused(
                "the answer is not that of the device, prologue and role key that the client has"
            )
        send, receive = state.split()
        return payload, Session(send, receive, state.hash)
