"""Network stacks that we did not write, at the bytes of a device's PHY: the kernel's, through TAP in a network of its own, and LiteEth's core."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.sim.board import Datagrams

from .wired import Framed

__all__ = ["LiteEthPeer", "alone", "echoed", "tapped"]

_NEW_NETWORK = 0x4000_0000
_TUNSETIFF, _TAP_ALONE = 0x4004_54CA, 0x1002
_SETS = {"address": 0x8916, "netmask": 0x891C}
_SET_FLAGS, _UP = 0x8914, 0x41
#: cycles after which LiteEth's core has nothing more to say
_PATIENCE = 6_000


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


class LiteEthPeer:
    """LiteEth's MAC, ARP, IP and UDP, whose PHY is a device's: what one sends comes whole to the other, preamble and FCS with it."""

    def __init__(self, board: Datagrams, mac: int, ip: str, port: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from liteeth.common import eth_phy_description
            from liteeth.core import LiteEthUDPIPCore
            from litex.gen.sim import run_simulation
            from litex.soc.interconnect.stream import Endpoint
            from migen import Module
        self.board, self.port, self.simulate = board, port, run_simulation
        self.phy = phy = Module()
        phy.dw, phy.sink, phy.source = 8, *(Endpoint(eth_phy_description(8)) for _ in range(2))
        self.core = core = LiteEthUDPIPCore(phy, mac, ip, 1_000_000)
        core.submodules += phy
        self.user = core.udp.crossbar.get_port(port)
        self.coming: list[bytes] = []
        self.frames = [0, 0]

    def talk(self, to: int, port: int, datagrams: list[bytes], spoil: int = -1) -> list[bytes]:
        """Send datagrams, the next one when the one before was answered or nothing comes; return the answers. `spoil`: the frame of the device's of which a
        bit is wrong."""
        found: list[bytes] = []
        clocks = dict.fromkeys(("sys", "eth_tx", "eth_rx"), 10)
        parts = [
            self._user(to, port, datagrams, found),
            self._sent(),
            self._received(spoil),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.simulate(self.core, parts, clocks)
        return found

    def _user(self, to: int, port: int, datagrams: list[bytes], found: list[bytes]) -> Any:
        sink, source = self.user.sink, self.user.source
        yield source.ready.eq(1)
        for data in datagrams:
            yield sink.valid.eq(1)
            for name, value in {"src_port": self.port, "dst_port": port, "ip_address": to}.items():
                yield getattr(sink, name).eq(value)
            yield sink.length.eq(len(data))
            for k, byte in enumerate(data):
                yield sink.data.eq(byte)
                yield sink.last.eq(k == len(data) - 1)
                yield
                while not (yield sink.ready):
                    yield
            yield sink.valid.eq(0)
            got, left = bytearray(), _PATIENCE
            while left:
                yield
                left -= 1
                if (yield source.valid):
                    got.append((yield source.data))
                    if (yield source.last):
                        found.append(bytes(got))
                        break
        self.over = True

    over = False

    def _sent(self) -> Any:
        """What the core sends goes to the device, whose answers come."""
        sink, frame = self.phy.sink, bytearray()
        yield sink.ready.eq(1)
        while not self.over:
            yield
            if (yield sink.valid):
                frame.append((yield sink.data))
                if (yield sink.last):
                    self.frames[0] += 1
                    self.board.send(bytes(frame))
                    frame.clear()
                    for _ in range(20):
                        if answer := self.board.run(1_000):
                            self.coming.append(answer)

    def _received(self, spoil: int) -> Any:
        source = self.phy.source
        while not self.over:
            yield
            if not self.coming:
                continue
            frame = bytearray(self.coming.pop(0))
            frame[30] ^= self.frames[1] == spoil
            self.frames[1] += 1
            yield source.valid.eq(1)
            for k, byte in enumerate(frame):
                yield source.data.eq(byte)
                yield source.last.eq(k == len(frame) - 1)
                yield source.last_be.eq(k == len(frame) - 1)
                yield
            yield source.valid.eq(0)
            for _ in range(12):
                yield
