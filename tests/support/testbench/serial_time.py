"""A device in simulation behind a UART: host, line and device in one time, the device's cycles. The host, `host.device.serial_client`, thinks in no time."""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from penstock.host.device.serial_client import Client
from penstock.host.device.transport import Refused
from penstock.models.link.frames import Space
from penstock.models.link.timing import BYTE_BITS, SIMULATED_DIVISOR
from penstock.sim.board import Board

__all__ = ["OnSerial", "serial_line"]

#: cycles of a byte, in which nothing of it is seen
_BYTE = BYTE_BITS * SIMULATED_DIVISOR


class _Passing(selectors.DefaultSelector):
    """In place of waiting, time passes on the line."""

    line: OnSerial

    def select(self, timeout: float | None = None) -> list[Any]:
        until = float("inf") if timeout is None else self.line.now + timeout
        while not (found := super().select(0)) and self.line.now < until:
            self.line.step()
        return found


class OnSerial:
    """A `Transport` over a serial port that is a pair of sockets here."""

    timeout = 1.0

    def __init__(self, board: Board, clock_hz: int) -> None:
        self.board, self.clock_hz = board, clock_hz
        self.baud = clock_hz // SIMULATED_DIVISOR
        self.host, self.end = socket.socketpair()
        self.host.setblocking(False)
        self.end.setblocking(False)
        selector = _Passing()
        selector.line = self
        self.loop = asyncio.SelectorEventLoop(selector)
        self.loop.time = lambda: self.now  # type: ignore[method-assign]

    @property
    def now(self) -> float:
        return self.board.cycle / self.clock_hz

    def step(self) -> None:
        """Let a byte's time pass."""
        try:
            data = self.end.recv(4096)
        except BlockingIOError:
            data = b""
        if answer := self.board.exchange(data, _BYTE):
            self.end.sendall(answer)

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.step()

    def open(self) -> OnSerial:
        self.client = self._do(Client.open("it", self.baud, self.timeout))
        self.statistics = self.client.statistics
        assert self.client.identity is not None
        self.identity = self.client.identity
        return self

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def read(self, space: Space, at: int, size: int) -> bytes:
        data, status = self._do(self.client.read(space, at, size))
        if status:
            raise Refused(status)
        return bytes(data)

    def write(self, space: Space, at: int, data: bytes) -> None:
        if status := self._do(self.client.write(space, at, data)):
            raise Refused(status)

    def close(self) -> None:
        self.client.close()


@contextmanager
def serial_line(board: Board, clock_hz: int) -> Iterator[OnSerial]:
    """Have the driver's client, and its time, be on the line."""
    line = OnSerial(board, clock_hz)
    port = SimpleNamespace(
        fileno=line.host.fileno, close=lambda: None, reset_input_buffer=lambda: None
    )
    clock = SimpleNamespace(monotonic=lambda: line.now)
    module = "penstock.host.device.serial_client"
    with (
        patch(f"{module}.serial.Serial", lambda *_, **__: port),
        patch(f"{module}.time", clock),
        patch("time.sleep", line.wait),
    ):
        yield line
    line.loop.close()
    line.host.close()
    line.end.close()
