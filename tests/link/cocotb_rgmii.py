"""A device at its RGMII pins: cocotbext-eth is the PHY's side of them, Scapy writes and reads the packets. Run by test_rgmii.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Timer
from cocotbext.eth import GmiiFrame, RgmiiSink, RgmiiSource
from scapy.layers.inet import ICMP, IP, UDP, fragment
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

from penstock.models.link.device import Identity
from penstock.models.link.envelope import ASK, OPENING, Answer, decode_answer, encode
from penstock.models.link.frames import Space
from testbench.frames import HOST, STATION

HERE, THERE = ".".join(map(str, HOST.ip)), ".".join(map(str, STATION.ip))
MAC, OWN = HOST.mac.hex(":"), STATION.mac.hex(":")
_MEMORY, _SESSION = Space.MEMORY << 1, 77


def ether(sink: str = OWN, source: str = MAC) -> Ether:
    return Ether(src=source, dst=sink)


def ip(source: str = HERE, sink: str = THERE, **more: object) -> IP:
    return IP(src=source, dst=sink, **more)


def ping(number: int, size: int) -> Packet:
    return ICMP(id=number, seq=size) / Raw((bytes(range(256)) * 6)[:size])


def udp(data: bytes, **more: object) -> Packet:
    return UDP(**{"sport": HOST.port, "dport": STATION.port, **more}) / Raw(data)


def whole(packet: Packet) -> GmiiFrame:
    return GmiiFrame.from_payload(bytes(packet))


def spoilt(packet: Packet, at: int, bit: int = 1) -> GmiiFrame:
    """The packet with a bit that is wrong, and a right FCS."""
    data = bytearray(bytes(packet))
    data[at] ^= bit
    return GmiiFrame.from_payload(bytes(data))


def unheard() -> Iterator[tuple[str, GmiiFrame]]:
    """What no device answers."""
    echo, probe = ether() / ip() / ping(9, 33), encode(_SESSION, 0, OPENING, 0, 16)
    frame = whole(echo)
    frame.data[-1] ^= 4
    yield "FCS", frame
    frame = whole(echo)
    frame.data[40] ^= 1
    yield "a bit on the wire", frame
    short = bytes(ether() / ip() / ping(9, 17))
    yield "runt", GmiiFrame.from_payload(short, min_len=0)
    yield "giant", whole(ether() / ip() / ping(9, 1473))
    frame = whole(echo)
    frame.error = [int(k == 50) for k in range(len(frame.data))]
    yield "the PHY's error", frame
    yield "MAC", whole(ether("02:a0:b0:c0:d0:e2") / ip() / ping(9, 8))
    yield "MAC of all", whole(ether("ff:ff:ff:ff:ff:ff") / ip() / ping(9, 8))
    yield "MAC of many", whole(ether("01:00:5e:00:00:01") / ip() / ping(9, 8))
    yield "from many", whole(ether(OWN, "03:00:00:00:00:f6") / ip() / ping(9, 8))
    yield "address", whole(ether() / ip(sink="10.0.0.8") / ping(9, 8))
    yield "address of all", whole(ether() / ip(sink="255.255.255.255") / ping(9, 8))
    yield "VLAN", whole(ether() / Dot1Q(vlan=5) / ip() / ping(9, 8))
    yield "IPv6", whole(ether() / IPv6(src="fe80::1", dst="fe80::2") / ICMPv6EchoRequest())
    yield (
        "another ARP",
        whole(ether("ff:ff:ff:ff:ff:ff") / ARP(hwsrc=MAC, psrc=HERE, pdst="10.0.0.8")),
    )
    yield "ARP's answer", whole(ether() / ARP(op=2, hwsrc=MAC, psrc=HERE, pdst=THERE))
    yield "options", whole(ether() / ip(options=[(b"\x44\x04\x05\x00")]) / ping(9, 8))
    for k, part in enumerate(fragment(ip() / ping(9, 600), 400)):
        yield f"fragment {k}", whole(ether() / part)
    yield "a fragment's offset", whole(ether() / ip(frag=50) / ping(9, 8))
    yield "more fragments", whole(ether() / ip(flags="MF") / ping(9, 8))
    yield "the header's checksum", whole(ether() / ip(chksum=1) / ping(9, 8))
    yield "an echo's checksum", spoilt(echo, 50)
    yield "an echo's answer", whole(ether() / ip() / ICMP(type=0, id=9) / Raw(b"12"))
    yield "TCP", whole(ether() / ip(proto=6) / Raw(bytes(20)))
    yield "port", whole(ether() / ip() / udp(probe, dport=5005))
    yield "UDP's checksum", spoilt(ether() / ip() / udp(probe), 45)
    yield "UDP's length", whole(ether() / ip() / udp(probe, len=8 + len(probe) + 2))
    yield "the datagram's CRC", whole(ether() / ip() / udp(probe[:-1] + b"\0"))


class Pins:
    """The other side of a device's pins."""

    def __init__(self, dut) -> None:
        Clock(dut.clk, 16, unit="ns").start()
        Clock(dut.rx_clk, 8, unit="ns").start()
        self.source = RgmiiSource(dut.rx_data, dut.rx_ctrl, dut.rx_clk)
        self.sink = RgmiiSink(dut.tx_data, dut.tx_ctrl, dut.phy_clk)
        self.numbers = count(1)

    async def ask(self, packet: Packet) -> Ether:
        """Send a packet; return the one frame that comes next. Its FCS is right, as are the checksums in it."""
        await self.source.send(whole(packet))
        return await self.answer()

    async def answer(self) -> Ether:
        await self.sink.wait(200, "us")
        frame = self.sink.recv_nowait()
        assert frame.check_fcs() and len(frame) >= 64 + 8 and not any(frame.error or [])
        found = Ether(bytes(frame.get_payload()))
        assert (found.src, found.dst) == (OWN, MAC)
        if IP in found:
            again = found[IP].copy()
            for layer in (IP, UDP, ICMP):
                if layer in again:
                    del again[layer].chksum
            size = found[IP].len
            assert bytes(again)[:size] == bytes(found[IP])[:size]
        return found

    async def alive(self, size: int = 8) -> None:
        """A ping is what is answered next."""
        asked = ether() / ip() / ping(next(self.numbers), size)
        found = await self.ask(asked)
        assert found[IP].answers(asked[IP])
        assert bytes(found[ICMP].payload)[:size] == bytes(asked[Raw])[:size]

    async def datagram(self, data: bytes, **more: object) -> Answer:
        found = await self.ask(ether() / ip() / udp(data, **more))
        assert (found[UDP].sport, found[UDP].dport) == (STATION.port, HOST.port)
        answer = decode_answer(bytes(found[UDP].payload)[: found[UDP].len - 8])
        assert answer is not None
        return answer


@cocotb.test()
async def answers(dut):
    pins = Pins(dut)
    await Timer(1, "us")
    request = ARP(hwsrc=MAC, psrc=HERE, pdst=THERE)
    for sink in ("ff:ff:ff:ff:ff:ff", OWN):
        found = await pins.ask(ether(sink) / request)
        assert found[ARP].answers(request) and found[ARP].hwsrc == OWN and found[ARP].hwdst == MAC
    for size in (0, 1, 17, 18, 19, 57, 1472):
        await pins.alive(size)


@cocotb.test()
async def silence(dut):
    """After each frame that is none of the device's, it answers the next."""
    pins = Pins(dut)
    await Timer(1, "us")
    await pins.alive()
    names = []
    for name, frame in unheard():
        names.append(name)
        await pins.source.send(frame)
        try:
            await pins.alive()
        except AssertionError as problem:
            raise AssertionError(f"{name}: {problem}") from problem
    assert len(names) > 25 and pins.sink.empty()


@cocotb.test()
async def datagrams(dut):
    """A session: memory is written and read, in odd lengths, with UDP's checksum and without."""
    pins = Pins(dut)
    await Timer(1, "us")
    opened = await pins.datagram(encode(_SESSION, 0, OPENING, 0, 16))
    assert Identity.decode(opened.data).bus_bytes == 8
    number, data = count(opened.first), bytes(range(1, 256)) * 5
    for k, size in enumerate((1, 2, 3, 31, 254, 1023, 1024)):
        zero = {"chksum": 0} if k % 2 else {}
        wrote = encode(_SESSION, next(number), _MEMORY | 1 | ASK, 100 + k, size, data[k : k + size])
        assert (await pins.datagram(wrote, **zero)).status == 0
        read = encode(_SESSION, next(number), _MEMORY, 100 + k, size)
        assert (await pins.datagram(read, **zero)).data == data[k : k + size]
    await pins.alive()
