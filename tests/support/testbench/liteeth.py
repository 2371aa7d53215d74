"""LiteEth's core at the bytes of a device's PHY."""

from __future__ import annotations

import warnings
from typing import Any

from penstock.sim.board import Datagrams

__all__ = ["LiteEthPeer"]

#: cycles after which LiteEth's core has nothing more to say
_PATIENCE = 1_500


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

    def talk(self, to: int, port: int, datagrams: list[bytes]) -> list[bytes]:
        """Send datagrams, the next one when the one before was answered or nothing comes; return the answers."""
        found: list[bytes] = []
        clocks = dict.fromkeys(("sys", "eth_tx", "eth_rx"), 10)
        parts = [
            self._user(to, port, datagrams, found),
            self._sent(),
            self._received(),
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

    def _received(self) -> Any:
        source = self.phy.source
        while not self.over:
            yield
            if not self.coming:
                continue
            frame = self.coming.pop(0)
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
