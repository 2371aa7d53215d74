"""A simulated device behind a UDP socket on loopback: what `penstock emulate` and `sim:DIR?link=udp` open."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ...models.link import Device, Request, Response, Space, Status
from ...models.link.envelope import SILENCE, WINDOW, Envelope
from ...sim.board import serve
from .errors import DeviceError
from .transport import Refused, Transport
from .uart import Uart

__all__ = ["emulated"]

#: the envelope's clock here counts milliseconds
_MILLISECONDS = 1000


class _Behind(Device):
    """A device whose spaces are those of another one, behind a transport."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.identity = replace(transport.identity, ring=WINDOW << 10)

    def perform(self, request: Request) -> Response:
        status, data = Status.OKAY, b""
        try:
            if request.space == Space.IDENTITY and request.data is None:
                data = (self.identity.encode() * (request.length // 16 + 1))[: request.length]
            elif request.space not in (Space.REGISTERS, Space.MEMORY):
                raise Refused(Status.DECERR)
            elif request.data is None:
                data = self.transport.read(Space(request.space), request.address, request.length)
            else:
                self.transport.write(Space(request.space), request.address, request.data)
        except Refused as problem:
            status = problem.answer
        return Response(0, request.kind, data or bytes(request.length), status)


@contextmanager
def emulated(source: str, port: int = 0) -> Iterator[int]:
    """Run a device from its Verilog (`sim.board.generate`) behind a UDP socket of 127.0.0.1; give its port. Raises BuildError, and DeviceError where
    the port is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        try:
            line.bind(("127.0.0.1", port))
        except OSError as problem:
            message = f"cannot listen on udp:127.0.0.1:{port}: {problem.strerror}"
            raise DeviceError(message, "port 0 takes one that is free") from None
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW << 12)
        with serve(source) as path:
            transport = Uart(path, timeout=30.0)
            ends, end = os.pipe()
            envelope = Envelope(_Behind(transport), SILENCE * _MILLISECONDS)
            thread = threading.Thread(target=_answer, args=(line, envelope, ends), daemon=True)
            thread.start()
            try:
                yield line.getsockname()[1]
            finally:
                os.close(end)
                transport.close()
                thread.join()
                os.close(ends)


def _answer(line: socket.socket, envelope: Envelope, ends: int) -> None:
    while ends not in select.select([line.fileno(), ends], [], [])[0]:
        datagram, host = line.recvfrom(2048)
        try:
            answer = envelope.receive(datagram, int(time.monotonic() * _MILLISECONDS))
        except DeviceError:  # the device was closed meanwhile
            return
        if answer is not None:
            line.sendto(answer, host)
