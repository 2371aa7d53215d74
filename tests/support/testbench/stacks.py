"""The kernel's network stack at the bytes of a device's PHY, through TAP in a network of its own."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .wired import Framed

__all__ = ["alone", "echoed", "tapped"]

_NEW_NETWORK = 0x4000_0000
_TUNSETIFF, _TAP_ALONE = 0x4004_54CA, 0x1002
_SETS = {"address": 0x8916, "netmask": 0x891C}
_SET_FLAGS, _UP = 0x8914, 0x41


def alone() -> None:
    """Give this thread a network of its own, with ping sockets for everybody. Raises OSError where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        number = ctypes.get_errno()
        raise OSError(number, f"a network of its own: {os.strerror(number)}")
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2147483647")


@contextmanager
def tapped(board: Framed, address: str) -> Iterator[None]:
    """Join a device and this thread's network, in which this side has an address of a network of 24 bits. Raises OSError."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    ends, end = os.pipe()
    thread = threading.Thread(target=_frames, args=(tap, board, ends), daemon=True)
    try:
        fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", b"penstock", _TAP_ALONE))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            for what, number in {"address": address, "netmask": "255.255.255.0"}.items():
                place = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(number))
                fcntl.ioctl(line, _SETS[what], struct.pack("16s16s8x", b"penstock", place))
            fcntl.ioctl(line, _SET_FLAGS, struct.pack("16sH22x", b"penstock", _UP))
        thread.start()
        yield
    finally:
        os.close(end)
        if thread.is_alive():
            thread.join()
        os.close(ends)
        os.close(tap)


def _frames(tap: int, board: Framed, ends: int) -> None:
    """Hand frames on until `ends` can be read."""
    while True:
        ready = select.select([tap, ends], [], [], 0.0 if board.active else None)[0]
        if ends in ready:
            return
        if ready:
            board.send(os.read(tap, 2048).ljust(60, b"\0"))
        if answer := board.run():
            os.write(tap, answer)


def echoed(to: str, data: bytes, seconds: float = 60.0) -> bytes:
    """Have the kernel ping; return what came back behind the echo's header. Raises TimeoutError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as ping:
        ping.settimeout(seconds)
        ping.sendto(struct.pack("!BBHHH", 8, 0, 0, 0, 1) + data, (to, 0))
        answer, (whose, _) = ping.recvfrom(2048)
    assert whose == to and answer[0] == 0
    return answer[8:]
