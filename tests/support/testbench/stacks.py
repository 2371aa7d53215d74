"""The kernel's network stack at the bytes of a device's PHY, through TAP in a network of its own."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

__all__ = ["alone", "echoed", "joined"]

_NEW_NETWORK = 0x4000_0000
_SETS = {"address": 0x8916, "netmask": 0x891C}
_SET_FLAGS, _UP = 0x8914, 0x41


def alone() -> None:
    """Give this thread a network of its own, with ping sockets for everybody. Raises OSError where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        number = ctypes.get_errno()
        raise OSError(number, f"a network of its own: {os.strerror(number)}")
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2147483647")


def joined(name: str, address: str) -> None:
    """Give this side of an interface an address of a network of 24 bits. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        for what, number in {"address": address, "netmask": "255.255.255.0"}.items():
            place = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(number))
            fcntl.ioctl(line, _SETS[what], struct.pack("16s16s8x", name.encode(), place))
        fcntl.ioctl(line, _SET_FLAGS, struct.pack("16sH22x", name.encode(), _UP))


def echoed(to: str, data: bytes, seconds: float = 60.0) -> bytes:
    """Have the kernel ping; return what came back behind the echo's header. Raises TimeoutError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as ping:
        ping.settimeout(seconds)
        ping.sendto(struct.pack("!BBHHH", 8, 0, 0, 0, 1) + data, (to, 0))
        answer, (whose, _) = ping.recvfrom(2048)
    assert whose == to and answer[0] == 0
    return answer[8:]
