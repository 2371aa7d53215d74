"""The client's end of a map's session: requests are sealed, answers judged."""

from ...models.omap import sessions
from ...models.omap.messages import Request, Response, Status
from ...models.omap.vault import Role
from .frames import MessageChanged
from .handshake import Initiator, Session

_STATUSES = frozenset(Status)


def initiator(public: bytes, digest: bytes, role: Role, secret: bytes | None) -> Initiator:
    """Return a handshake with a device. Parameters: `public`: the device's key; `digest`: the map's;
    `secret`: the role's key. Raises ValueError for a public key that no device has."""
    return Initiator(public, sessions.prologue(digest, role), secret)


class MapSession:
    """Requests and answers of one session, in order. Parameters: `welcome`: the handshake's payload;
    `key_bytes`: of the map's keys."""

    def __init__(self, session: Session, welcome: bytes, key_bytes: int = 8) -> None:
        self._session, self._key_bytes = session, key_bytes
        #: of the map's latest operation that this client knows of
        self.welcome = sessions.Welcome.unpack(welcome)
        self.serial = self.welcome.serial

    def seal(self, request: Request) -> tuple[int, bytes]:
        """Return the request's number in the session, and its sealed bytes."""
        number, asked = self._session.sent, (request.key, request.value, request.operation)
        return number, self._session.seal(sessions.Request(*asked).pack(self._key_bytes))

    def open(self, number: int, sealed: bytes, request: Request) -> Response:
        """Return the device's answer to the next request. Raises MessageChanged where this is none, or to
        another key, or of an earlier operation."""
        text = self._session.open(sealed)
        answer = None if text is None else sessions.Answer.unpack(text, self._key_bytes)
        if (
            answer is None
            or answer.key != request.key
            or answer.serial <= self.serial
            or answer.status not in _STATUSES
        ):
            raise MessageChanged(
                f"the response to request {number} does not open: it was changed on its way, or "
                "answers another request"
            )
        self.serial = answer.serial
        return Response(Status(answer.status), answer.key, answer.value)
