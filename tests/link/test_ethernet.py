"""hdl/link/station.py and mac.py beside models/link/ethernet.py and its cycles; both judged by Scapy."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.host.device.emulation import emulated
from penstock.models.link.ethernet import Burst, Given, checksum, on_wire, taken
from penstock.sim.board import Datagrams
from penstock.sim.frames import generate
from testbench.frames import HOST, STATION, drawn, packet, play, spoilt, wire
from testbench.station_cycles import Clocked
from testbench.wired import Framed, right, scapy_datagram, scapy_frame

KERNEL = """kernel logistic(x: input[3], y: output, w: model[3], rate: meta = 0.1)
  error = sigmoid(sum(w * x)) - y
  w    <- w - rate * merge(error * x, 4)
  epochs 2
"""


def traffic(seed: int, count: int, bad: bool) -> tuple[list[Burst], list[tuple[int, Given]]]:
    """Frames as close as a line has them, or apart; answers meanwhile."""
    rng, bursts, answers, at = np.random.default_rng(seed), [], [], 5
    for k in range(count):
        frame = drawn(rng, int(rng.choice([2, 60, 60, 200])))
        if bad and k % 2:
            frame = spoilt(rng, frame, k // 2 % 8)
        bursts.append(wire(rng, frame, at, k // 4 % 6 if bad and k % 4 == 0 else None))
        at += len(bursts[-1].data) + int(rng.choice([1, 2, 12, 12, 100]))
        if rng.random() < 0.15:
            answers.append(
                (
                    at + int(rng.integers(-50, 400)),
                    Given(HOST, rng.bytes(int(rng.choice([1, 18, 19, 66, 500])))),
                )
            )
    return bursts, sorted(answers, key=lambda one: one[0])


@pytest.mark.parametrize(
    ("seed", "count", "bad"),
    [
        (1, 20, False),
        (2, 96, True),
        *(pytest.param(k, 300, True, marks=pytest.mark.long) for k in (3, 4)),
    ],
)
def test_rtl_is_golden(seed: int, count: int, bad: bool) -> None:
    bursts, answers = traffic(seed, count, bad)
    golden = Clocked(STATION, list(answers))
    for came in taken(bursts):
        golden.receive(came)
    golden.finish()
    over = golden.sent[-1][0] + len(golden.sent[-1][1]) - bursts[-1].start
    sent, given = play(bursts, answers, max(over, 1000))
    assert given == [(at, one.peer.encode() + one.data) for at, one in golden.datagrams]
    assert sent == golden.sent
    assert len(sent) > count / 5 and (bad or len(given) > count / 4)


def test_lengths() -> None:
    """Of frames that are right but for that."""
    bursts, at = [], 5
    for size in (59, 60, 1514, 1515):
        segment = HOST.port.to_bytes(2, "big") + STATION.port.to_bytes(2, "big")
        segment += (size - 34).to_bytes(2, "big") + bytes(size - 40)
        frame = bytes(packet(17, segment))
        assert len(frame) == size
        bursts.append(Burst(at, b"\xd5" + frame + zlib.crc32(frame).to_bytes(4, "little")))
        at += size + 60
    golden = Clocked(STATION)
    for came in taken(bursts):
        golden.receive(came)
    assert [len(one.data) for _, one in golden.datagrams] == [18, 1472]
    assert play(bursts, rest=1800)[1] == [
        (k, g.peer.encode() + g.data) for k, g in golden.datagrams
    ]


def test_packets_that_are_cut_or_carry_nothing() -> None:
    """Without a checksum of UDP, lengths alone tell; only the last one is whole, and has something in it."""
    bursts, at = [], 5
    for says, carries in ((0, 0), (200, 60), (61, 60), (18, 18)):
        segment = HOST.port.to_bytes(2, "big") + STATION.port.to_bytes(2, "big")
        segment += (8 + says).to_bytes(2, "big") + bytes(2 + carries)
        bursts.append(Burst(at, on_wire(bytes(packet(17, segment, h2=0, h3=28 + says)))))
        at += 400
    golden = Clocked(STATION)
    for came in taken(bursts):
        golden.receive(came)
    assert [given for _, given in golden.datagrams] == [Given(HOST, bytes(18))]
    given = [(at, one.peer.encode() + one.data) for at, one in golden.datagrams]
    assert play(bursts, rest=400)[1] == given


def test_an_echo_that_is_cut_short_takes_the_bytes_that_there_are() -> None:
    """IP says up to a word more than the frame has: nothing answers it, and what waits behind it begins when golden says."""
    bursts, answers, at = [], [], 5
    for k in range(8):
        size = 60 + k % 4
        ask = packet(1, b"\x08\0\0\0" + bytes(size - 38), h3=size - 14 + 1 + k % 3)
        bursts.append(Burst(at, on_wire(bytes(ask))))
        answers.append((at + len(bursts[-1].data) + 20, Given(HOST, b"x")))
        at += 400
    golden = Clocked(STATION, list(answers))
    for came in taken(bursts):
        golden.receive(came)
    golden.finish()
    assert [whole for _, whole in golden.sent] == [
        on_wire(STATION.datagram(one)) for _, one in answers
    ]
    assert play(bursts, answers, rest=600)[0] == golden.sent


def test_what_there_is_no_room_for() -> None:
    """Echoes as fast as the line has them: their answers leave as fast, but headers take time beside."""
    rng, bursts, at = np.random.default_rng(1), [], 5
    for size in (1472, 1472, 1472, 1472, 1472, 60):
        segment = bytearray(b"\x08\0\0\0" + rng.bytes(size))
        segment[2:4] = checksum(bytes(segment)).to_bytes(2, "big")
        bursts.append(Burst(at, on_wire(bytes(packet(1, bytes(segment))))))
        at += len(bursts[-1].data) + 12
    golden = Clocked(STATION)
    for came in taken(bursts):
        golden.receive(came)
    assert 2 < len(golden.sent) < len(bursts)
    assert play(bursts, rest=9000)[0] == golden.sent


def test_scapy_reads_what_the_model_sends() -> None:
    from scapy.layers.inet import ICMP, IP
    from scapy.layers.l2 import ARP, Ether
    from scapy.packet import Raw

    me, rng = {"src": HOST.mac.hex(":")}, np.random.default_rng(1)
    ask = Ether(dst="ff:ff:ff:ff:ff:ff", **me) / ARP(
        hwsrc=me["src"], psrc="10.0.0.200", pdst="10.0.0.9"
    )
    answer = STATION.receive(bytes(ask).ljust(60, b"\0"))
    assert isinstance(answer, bytes) and Ether(answer)[ARP].answers(ask[ARP])
    assert (Ether(answer).dst, Ether(answer)[ARP].hwsrc) == (me["src"], STATION.mac.hex(":"))
    for size in (0, 1, 17, 56, 1472):
        data = rng.bytes(size)
        ping = (
            Ether(dst=STATION.mac.hex(":"), **me)
            / IP(src="10.0.0.200", dst="10.0.0.9")
            / ICMP(id=7, seq=size)
            / Raw(data)
        )
        pong = STATION.receive(bytes(ping).ljust(60, b"\0"))
        assert (
            isinstance(pong, bytes)
            and Ether(pong)[IP].answers(ping[IP])
            and bytes(Ether(pong)[ICMP].payload) == data
        )
        right(pong)
        datagram = rng.bytes(size + 1)[:1472]
        assert STATION.receive(scapy_frame(datagram).ljust(60, b"\0")) == Given(HOST, datagram)
        assert scapy_datagram(STATION.datagram(Given(HOST, datagram))) == datagram


def test_a_sum_of_nothing_is_written_as_ones() -> None:
    """UDP's checksum 0 means that there is none."""
    bare = STATION.datagram(Given(HOST, b"\0\0"))
    check = int.from_bytes(bare[40:42], "big")
    given = Given(HOST, check.to_bytes(2, "big"))
    assert STATION.datagram(given)[40:42] == b"\xff\xff"
    sent, _ = play([], [(3, given)], 400)
    assert [whole for _, whole in sent] == [on_wire(STATION.datagram(given))]


def test_domains_of_their_own() -> None:
    """The device at a third of the line's clock: the same frames and datagrams, as long as the line rests in between."""
    rng, bursts, frames, at = np.random.default_rng(5), [], [], 5
    for _ in range(8):
        frames.append(bytes(drawn(rng, 60)).ljust(60, b"\0"))
        bursts.append(Burst(at, on_wire(frames[-1])))
        at += 800
    found = [STATION.receive(frame) for frame in frames]
    sent, given = play(bursts, slow=3)
    assert [whole for _, whole in sent] == [on_wire(one) for one in found if isinstance(one, bytes)]
    assert [data for _, data in given] == [
        one.peer.encode() + one.data for one in found if isinstance(one, Given)
    ]
    assert len(sent) > 1 and len(given) > 1


def test_a_kernel_is_trained_over_frames(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host's transport, in frames that Scapy writes and reads, into a whole device in RTL; each seventh frame is lost, or its bits are."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    table = {"x": x, "y": (x[:, 0] > 0).astype(np.float32)}
    (tmp_path / "small.psk").write_text(KERNEL)
    design = ps.compile(tmp_path / "small.psk", "colorlight-i5", table, "fixed:8,8")
    engine, library = design.hardware()
    source = generate(engine, library, STATION, memory_bytes=1 << 15)
    count = [0]

    class Lossy(Framed):
        def __init__(self, source: str) -> None:
            super().__init__(source, scapy_frame, scapy_datagram)

        def send(self, datagram: bytes) -> None:
            count[0] += 1
            if count[0] % 7:
                super().send(datagram)
            else:
                frame = bytearray(on_wire(self.wrap(datagram)))
                frame[count[0] % len(frame)] ^= 1 << count[0] % 8
                Datagrams.send(self, bytes(frame))

    monkeypatch.setattr("penstock.host.device.emulation.Datagrams", Lossy)
    with (
        emulated(source) as port,
        ps.open(f"udp:127.0.0.1:{port}", register_map=design.registers, timeout=30) as device,
    ):
        run = design.run(table, "board", device=device)
        golden = design.run(table, "golden")
        assert run.ok and run.result["w"].tolist() == golden.result["w"].tolist() != [0, 0, 0]
        assert count[0] > 20
