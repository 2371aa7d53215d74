"""A whole device in RTL, at the bytes of its PHY, and LiteEth's core as the peer."""

from __future__ import annotations

import pytest

from penstock.hdl.modules import ModuleLibrary
from penstock.models.link.envelope import ASK, OPENING, decode_answer, encode
from penstock.models.link.frames import Space
from penstock.sim.board import Datagrams
from penstock.sim.frames import generate
from testbench.frames import STATION
from testbench.liteeth import LiteEthPeer
from testbench.toy import CopyEngine


@pytest.mark.long
def test_liteeth() -> None:
    """LiteEth's core asks for the device's MAC, opens a session, writes memory and reads it again."""
    pytest.importorskip("liteeth", reason="pip install --no-deps liteeth==2024.12")
    data = bytes(range(200))
    memory = Space.MEMORY << 1
    asked = [
        encode(7, 0, OPENING, 0, 16),
        encode(7, 64, memory | 1 | ASK, 0x1000, len(data), data),
        encode(7, 65, memory, 0x1000, len(data)),
    ]
    engine = CopyEngine(address_width=20)
    source = generate(engine, ModuleLibrary(), STATION, memory_bytes=1 << 15)
    with Datagrams(source) as board:
        peer = LiteEthPeer(board, 0x0200000000F6, "10.0.0.200", 40001)
        to = int.from_bytes(STATION.ip, "big")
        found = [decode_answer(one) for one in peer.talk(to, STATION.port, asked)]
    assert all(answer is not None and not answer.status for answer in found)
    kinds = [(answer.sequence, answer.kind) for answer in found if answer is not None]
    assert kinds == [(0, OPENING), (64, memory | 1 | ASK), (65, memory)]
    assert found[-1] is not None and found[-1].data == data
    assert peer.frames == [4, 4]  # MAC addresses, then a datagram each
