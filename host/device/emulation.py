"""A simulated device behind a UDP socket on loopback: what `penstock emulate` and `sim:DIR?link=udp` open."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...models.link.envelope import SILENCE, WINDOW
from ...sim.board import Datagrams
from .errors import DeviceError

__all__ = ["emulated"]

#: sessions whose hosts are remembered
_HOSTS = 64


@contextmanager
def emulated(source: str, port: int = 0) -> Iterator[int]:
    """Run a device from its Verilog (`sim.board.generate`, `baud` None) behind a UDP socket of 127.0.0.1; give its port. Raises BuildError, and
    DeviceError where the port is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        try:
            line.bind(("127.0.0.1", port))
        except OSError as problem:
            message = f"cannot listen on udp:127.0.0.1:{port}: {problem.strerror}"
            raise DeviceError(message, "port 0 takes one that is free") from None
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW << 12)
        with Datagrams(source) as board:
            ends, end = os.pipe()
            thread = threading.Thread(target=_serve, args=(line, board, ends), daemon=True)
            thread.start()
            try:
                yield line.getsockname()[1]
            finally:
                os.close(end)
                thread.join()
                os.close(ends)


def _serve(line: socket.socket, board: Datagrams, ends: int) -> None:
    """Hand datagrams on until `ends` can be read; what a device answers to a session goes where that was last heard from."""
    hosts: dict[bytes, tuple[str, int]] = {}
    second = int(time.monotonic())
    while True:
        patience = 0.0 if board.active else None
        ready = select.select([line.fileno(), ends], [], [], patience)[0]
        if ends in ready:
            return
        if ready:
            datagram, host = line.recvfrom(2048)
            hosts[datagram[:4]] = host
            if len(hosts) > _HOSTS:
                del hosts[next(iter(hosts))]
            past, second = second, int(time.monotonic())
            for _ in range(min(second - past, SILENCE)):
                board.tick()
            board.send(datagram)
        answer = board.run()
        if (whose := hosts.get(answer[:4])) is not None:
            line.sendto(answer, whose)
