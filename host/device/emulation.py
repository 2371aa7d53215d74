"""A simulated device behind a UDP socket on loopback, which `penstock emulate` and `sim:DIR?link=udp` open, or behind a network interface."""

import fcntl
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ...models.link.envelope import SILENCE, WINDOW
from ...sim.board import Datagrams
from ...sim.frames import Frames
from .errors import DeviceError

#: sessions whose hosts are remembered
_HOSTS = 64
#: of Linux, `TUNSETIFF` and `IFF_TAP | IFF_NO_PI`; bytes of an interface's name
_TUNSETIFF, _TAP_ALONE, _NAME = 0x4004_54CA, 0x1002, 15
#: bytes of the shortest frame, without its FCS
_SHORTEST = 60


@contextmanager
def emulated(source: str, port: int = 0) -> Iterator[int]:
    """Run a device from its Verilog (`sim.board.generate`, `baud` None) behind a UDP socket of 127.0.0.1; give its port. Raises BuildError, and
    DeviceError where the port is taken."""
    hosts: dict[bytes, tuple[str, int]] = {}

    def come() -> bytes:
        datagram, host = line.recvfrom(2048)
        hosts[datagram[:4]] = host
        if len(hosts) > _HOSTS:
            del hosts[next(iter(hosts))]
        return datagram

    def go(answer: bytes) -> None:
        """What a device answers to a session goes where that was last heard from."""
        if (whose := hosts.get(answer[:4])) is not None:
            line.sendto(answer, whose)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        try:
            line.bind(("127.0.0.1", port))
        except OSError as problem:
            message = f"cannot listen on udp:127.0.0.1:{port}: {problem.strerror}"
            raise DeviceError(message, "port 0 takes one that is free") from None
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW << 12)
        with Datagrams(source) as board, _served(line.fileno(), board, come, go):
            yield line.getsockname()[1]


@contextmanager
def tapped(source: str, name: str) -> Iterator[Callable[[], None]]:
    """Run a device from its Verilog (`sim.frames.generate`) behind this machine's TAP interface `name`, which is made where there is none; it goes with
    the device then. Who calls gives it an address. Give what waits as `_served` does. Raises BuildError, and DeviceError where it may not be opened."""

    def go(frame: bytes) -> None:
        with suppress(OSError):  # of an interface that is down
            os.write(tap, frame)

    try:
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    except OSError as problem:
        message = f"cannot open /dev/net/tun: {problem.strerror}"
        raise DeviceError(message, "--port puts the device behind a UDP socket") from None
    try:
        try:
            fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode()[:_NAME], _TAP_ALONE))
        except OSError as problem:
            message = f"cannot open the TAP interface {name}: {problem.strerror}"
            hint = f'an administrator makes one: ip tuntap add {name} mode tap user "$USER"'
            raise DeviceError(message, hint) from None
        with (
            Frames(source) as board,
            _served(tap, board, lambda: os.read(tap, 2048).ljust(_SHORTEST, b"\0"), go) as wait,
        ):
            yield wait
    finally:
        os.close(tap)


@contextmanager
def _served(
    line: int, board: Datagrams, come: Callable[[], bytes], go: Callable[[bytes], None]
) -> Iterator[Callable[[], None]]:
    """Hand on what comes, when `line` can be read, and what the device answers, in a thread. Give what waits until `line` is gone, and raises
    DeviceError then."""
    ends, end = os.pipe()
    problems: list[OSError] = []

    def serve() -> None:
        try:
            _serve(line, board, come, go, ends)
        except OSError as problem:
            problems.append(problem)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def wait() -> None:
        thread.join()
        for problem in problems:
            message = f"the device's line is gone: {problem.strerror}"
            raise DeviceError(message, "start it again")

    try:
        yield wait
    finally:
        os.close(end)
        thread.join()
        os.close(ends)


def _serve(
    line: int, board: Datagrams, come: Callable[[], bytes], go: Callable[[bytes], None], ends: int
) -> None:
    """Do so until `ends` can be read. The device's seconds are this machine's."""
    second = int(time.monotonic())
    while True:
        ready = select.select([line, ends], [], [], 0.0 if board.active else None)[0]
        if ends in ready:
            return
        if line in ready:
            past, second = second, int(time.monotonic())
            for _ in range(min(second - past, SILENCE)):
                board.tick()
            with suppress(BlockingIOError):  # it was nothing
                board.send(come())
        if answer := board.run():
            go(answer)
