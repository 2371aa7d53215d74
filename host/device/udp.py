"""A device behind UDP, as a transport: a socket for `udp_session.Session`, which sends lost requests again."""

import errno
import os
import re
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from secrets import randbits

from ...models.link.envelope import LONGEST
from ...models.link.ethernet import PORT
from ...models.link.frames import FrameError, Space, Status
from ...models.link.pushes import PIECE, describe
from .errors import DeviceError, LinkError
from .transport import Piece as Pushed
from .transport import Refused, Statistics, seconds
from .udp_session import Piece, Session, pushing

#: longest sleep in seconds during a call, so that an interrupt or `close` ends it; longest wait for the answer to a closing
_INTERRUPTIBLE, _FAREWELL = 0.2, 0.3
#: `UDP_SEGMENT` of Linux (udp(7)), most datagrams and bytes in one call
_SEGMENT, _CALL, _CALL_BYTES = 103, 64, 65_000
_BUFFER = 1 << 20


def _place(text: str) -> tuple[str, int]:
    """Return host and port. Raises DeviceError where the text is neither."""
    match = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]/\s]+)(?::(\d{1,5}))?", text, re.ASCII)
    port = int(match[2] or PORT) if match else 0
    if match is None or not 0 < port < 1 << 16:
        hint = f"udp:HOST or udp:HOST:PORT, as in udp:192.168.1.50; without a port it is {PORT}"
        raise DeviceError(f"'udp:{text}' is no address of a device", hint)
    return match[1].strip("[]"), port


class Udp:
    """A `transport.Transport` over UDP to `place`, "HOST[:PORT]"; `timeout` in seconds, 2 where it is None."""

    def __init__(self, place: str, timeout: float | None) -> None:
        self.name, self.timeout = f"udp:{place}", seconds(2.0 if timeout is None else timeout)
        host, port = _place(place)
        try:
            address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(address[0], address[1])
        except (OSError, UnicodeError) as problem:
            raise self._lost(problem) from None
        self._lock, self._closed = threading.Lock(), False
        self._segments = hasattr(socket.socket, "sendmsg")
        self._failure: LinkError | None = None
        self.statistics, self._pages = Statistics(), dict[int, int]()
        self._session, self._usable = self._following(0), False
        self._poll = select.poll()  # `select` knows no more than 1,024 open files
        self._poll.register(self._socket, select.POLLIN)
        try:
            self._socket.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
            self._socket.connect(address[4])
            with self._lock:
                self._open()
        except OSError as problem:
            self.close()
            raise self._lost(problem) from None
        except BaseException:
            self.close()
            raise

    def read(self, space: Space, at: int, size: int) -> bytes:
        kind = space << 1
        pieces = ((kind, at + k, min(LONGEST, size - k), b"") for k in range(0, size, LONGEST))
        return b"".join(self._call(pieces))

    def write(self, space: Space, at: int, data: bytes) -> None:
        kind, view = space << 1 | 1, memoryview(data)
        parts = ((at + k, view[k : k + LONGEST]) for k in range(0, len(data), LONGEST))
        pieces = ((kind, where, len(part), part) for where, part in parts)
        if space is not Space.REGISTERS:
            self._call(pieces)
            return
        for piece in pieces:  # one leaves when the one before is answered
            self._call([piece])

    def begin(self, port: int, at: int, slots: int, page: int) -> None:
        size = slots * page // PIECE
        if size > LONGEST or page % PIECE:
            raise Refused(Status.SLVERR)  # no request says so
        self._call([(Space.RING << 1 | port << 8, describe(at, page), size, b"")])
        self._pages[port] = 0

    def push(self, pieces: Iterable[Pushed | None]) -> None:
        self._call(pushing(pieces))

    def pages(self, port: int) -> int:
        return self._pages.get(port, 0)

    def _call(self, pieces: Iterable[Piece | None]) -> list[bytes]:
        """Make a transfer; return what was read."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if not self._usable:
                self._open()
            self._usable = (
                False  # until it is over: what was interrupted or refused ends with its session
            )
            self._session.begin(pieces, time.monotonic())
            self._exchange(self._session)
            self._session.finish()
            self._usable = True
            return self._session.data

    def _following(self, before: int) -> Session:
        session = Session(randbits(31) + 1, self.timeout, self.name, before)
        session.statistics, session.pages = self.statistics, self._pages
        return session

    def _open(self) -> None:
        """Begin a session; the one before ends with it."""
        if self._session.identity is not None:  # else it is tried again: the device may have it
            self._session = self._following(self._session.number)
        self._session.open(time.monotonic())
        self._exchange(self._session)
        assert self._session.identity is not None
        self.identity, self._usable = self._session.identity, True

    def _exchange(self, session: Session) -> None:
        try:
            while True:
                now = time.monotonic()
                self._put(session.send(now))
                if session.done:
                    return
                if self._closed and session.number:
                    raise LinkError(f"{self.name} is closed")
                wait = min(max(session.due - now, 0.0), _INTERRUPTIBLE)
                if self._poll.poll(1000 * wait):
                    self._take(session)
        except FrameError as problem:
            self._failure = LinkError(f"{self.name}: {problem}")
        except OSError as problem:
            self._failure = self._lost(problem)
        except LinkError as problem:
            self._failure = problem
        raise self._failure

    def _take(self, session: Session) -> None:
        with suppress(BlockingIOError):
            for _ in range(_CALL):
                session.take(self._socket.recv(2048), time.monotonic())

    def _put(self, datagrams: list[bytes]) -> None:
        """Send datagrams, those of a size in one call; what there is no room for is lost, as on any other way."""
        for size, run in groupby(datagrams, len):
            same, most = list(run), min(_CALL, _CALL_BYTES // size)
            for at in range(0, len(same), most):
                self._put_run(same[at : at + most], size)

    def _put_run(self, run: list[bytes], size: int) -> None:
        if self._segments and len(run) > 1:
            parts = [(socket.IPPROTO_UDP, _SEGMENT, struct.pack("=H", size))]
            try:
                self._socket.sendmsg([b"".join(run)], parts)
                return
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno not in (errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EOPNOTSUPP):
                    raise
                self._segments = False  # a kernel or a way without it
        for datagram in run:
            with suppress(BlockingIOError):
                self._socket.send(datagram)

    def _lost(self, problem: Exception) -> LinkError:
        number = problem.errno if isinstance(problem, OSError) else None
        if number == errno.ECONNREFUSED:
            return LinkError(f"{self.name}: nothing listens there")
        text = os.strerror(number) if number and number > 0 else str(problem)
        if isinstance(problem, socket.gaierror):
            text = problem.strerror or text
        return LinkError(f"{self.name} cannot be reached: {text}")

    def close(self) -> None:
        first, self._closed = not self._closed, True
        with self._lock:
            if not first:
                return
            if self._failure is None:
                farewell = Session(0, min(_FAREWELL, self.timeout), self.name, self._session.number)
                farewell.open(time.monotonic())
                with suppress(LinkError):  # the device hears of it in 10 s
                    self._exchange(farewell)
            self._failure = LinkError(f"{self.name} is closed")
            self._socket.close()
