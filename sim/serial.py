"""A pseudo-terminal with a device behind it: what a driver opens like any serial port."""

import os
import select
import threading
import tty
from typing import Protocol

from .machine import Closing


class Endpoint(Protocol):
    """A device on a serial line."""

    def exchange(self, data: bytes) -> bytes:
        """Take bytes from the host, let a little time pass; return bytes to the host."""

    @property
    def active(self) -> bool:
        """Whether there is something to do without further bytes from the host."""


class SerialServer(Closing):
    """Serves an endpoint behind a pseudo-terminal, in a thread of its own, until it is closed.

    Attributes:

    * `path`: what to open: `serial:PATH`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)  # held open, so that the line stays when a driver closes it
        self.path = os.ttyname(self._slave)
        os.set_blocking(self._master, False)
        self._wake, self._waker = os.pipe()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="penstock-serial", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take the line away: who has it open sees it end. Raises what broke the endpoint, if something did."""
        if self._thread.is_alive():
            os.write(self._waker, b"x")
        self._thread.join()
        for handle in (self._master, self._slave, self._wake, self._waker):
            if handle >= 0:
                os.close(handle)
        self._master = self._slave = -1
        self._wake = self._waker = -1
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def _serve(self) -> None:
        try:
            self._loop()
        except BaseException as problem:  # shown by `close`: a thread has nobody to tell
            self._problem = problem

    def _loop(self) -> None:
        outgoing = bytearray()
        while True:
            patience = 0.0 if self.endpoint.active else None
            readable, _, _ = select.select(
                [self._master, self._wake], [self._master] if outgoing else [], [], patience
            )
            if self._wake in readable:
                return
            data = os.read(self._master, 4096) if self._master in readable else b""
            outgoing += self.endpoint.exchange(data)
            while outgoing:
                try:
                    del outgoing[: os.write(self._master, outgoing)]
                except BlockingIOError:  # nobody reads at the other end just now
                    break
