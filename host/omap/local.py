"""A map whose device is this process's own: a writer's session with it, as a backend."""

import secrets
from collections.abc import Sequence

from ...models.omap.boundary import Frames, Header
from ...models.omap.config import OmapConfig
from ...models.omap.messages import Request, Response
from ...models.omap.sessions import digest_of_map
from ...models.omap.vault import KeySchedule, Role
from ...sim.machine import Closing
from .devices import Powers
from .frames import MessageChanged, Refused
from .names import SALT_BYTES
from .session import MapSession, initiator


class LocalBackend(Closing):
    """A device that is powered up with a fresh root, and a writer's session with it. Behind an answer
    that was changed, or a request that was refused, the next call opens a new session.

    Raises as `ObliviousMap` does, MessageChanged and `frames.Refused`.
    """

    first = 0

    def __init__(self, config: OmapConfig, powers: Powers) -> None:
        root, self._digest = secrets.token_bytes(32), digest_of_map(config)
        self.config, self._frames = config, Frames.of(config)
        self.salt = secrets.token_bytes(SALT_BYTES)
        # what clients know depends on no power-up's entropy
        keys = KeySchedule(root, bytes(32), self._digest)
        self._public, self._secret = keys.public, keys.role_key(Role.WRITER)
        self.carrier = powers(config, root)
        self._session: MapSession | None = None

    def run(self, requests: Sequence[Request]) -> list[Response]:
        if self._session is None:
            self._session = self._opened()
        session, responses = self._session, []
        sealed = [session.seal(request) for request in requests]
        try:
            answers = self.carrier.carry([self._frames.request(0, *each) for each in sealed])
            for (number, _), answer, request in zip(sealed, answers, requests, strict=True):
                if code := Header.unpack(answer).code:
                    raise Refused(code, number)
                text = self._frames.sealed(answer, self._frames.answer_bytes)
                responses.append(session.open(number, text, request))
        except (MessageChanged, Refused):
            self._session = None
            raise
        return responses

    def _opened(self) -> MapSession:
        asked = initiator(self._public, self._digest, Role.WRITER, self._secret)
        opening = self._frames.opening(0, Role.WRITER, asked.message)
        [answer] = self.carrier.carry([], opening)
        welcome, session = asked.finish(self._frames.welcome(answer))
        return MapSession(session, welcome, self.config.key_bytes)

    def close(self) -> None:
        self.carrier.close()
