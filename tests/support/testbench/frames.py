"""Frames of Ethernet by a seed, sound and not, for a station; and a station in Amaranth's simulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from amaranth.hdl import DomainRenamer
from amaranth.sim import Simulator

from penstock.hdl.link.station import Ethernet
from penstock.models.link.ethernet import Burst, Given, Peer, Station, checksum, on_wire

__all__ = ["HOST", "STATION", "drawn", "packet", "play", "spoilt", "wire"]

STATION = Station(bytes.fromhex("02a0b0c0d0e1"), bytes([10, 0, 0, 9]), 5004)
HOST = Peer(bytes.fromhex("0200000000f6"), bytes([10, 0, 0, 200]), 40001)


def packet(protocol: int, segment: bytes, **other: int) -> bytearray:
    """An IPv4 packet of the host to the station, in a frame; `other`: bytes of its header, `h9` for the tenth."""
    head = bytearray(bytes([0x45, 0]) + (20 + len(segment)).to_bytes(2, "big"))
    head += bytes([1, 2, 0x40, 0, 64, protocol, 0, 0]) + HOST.ip + STATION.ip
    for name, value in other.items():
        head[int(name[1:])] = value
    head[10:12] = checksum(bytes(head)).to_bytes(2, "big")
    return bytearray(STATION.mac + HOST.mac + b"\x08\0" + bytes(head) + segment)


def drawn(rng: np.random.Generator, longest: int = 90) -> bytearray:
    """A frame that the station takes, without FCS: an ARP request, an echo, or a datagram."""
    data = rng.bytes(int(rng.integers(1, longest)))
    kind = int(rng.integers(5))
    if kind == 0:
        frame = bytearray(
            (b"\xff" * 6 if rng.random() < 0.5 else STATION.mac) + HOST.mac + b"\x08\6"
        )
        return frame + b"\0\1\x08\0\6\4\0\1" + HOST.mac + HOST.ip + rng.bytes(6) + STATION.ip
    if kind == 1:
        segment = bytearray(b"\x08\0\0\0" + rng.bytes(4) + data)
        segment[2:4] = checksum(bytes(segment)).to_bytes(2, "big")
        return packet(1, bytes(segment))
    length = (8 + len(data)).to_bytes(2, "big")
    segment = bytearray(
        HOST.port.to_bytes(2, "big") + STATION.port.to_bytes(2, "big") + length + bytes(2) + data
    )
    if kind > 2:
        check = checksum(HOST.ip + STATION.ip + bytes([0, 17]) + length + segment)
        segment[6:8] = (check or 0xFFFF).to_bytes(2, "big")
    return packet(17, bytes(segment))


def spoilt(rng: np.random.Generator, frame: bytearray, way: int) -> bytearray:
    """The frame with something wrong that its FCS does not tell."""
    if way == 0:  # a bit of its headers
        frame[int(rng.integers(42))] ^= 1 << int(rng.integers(8))
    elif way == 1:  # or of what they carry
        frame[int(rng.integers(34, len(frame)))] ^= 1 << int(rng.integers(8))
    elif way == 2:  # options, or what looks like them
        frame[14] = 0x40 | int(rng.choice([4, 6, 15, 0]))
    elif way == 3:  # a part of a packet
        frame[20], frame[21] = int(rng.choice([0x20, 0, 0x1F, 0x80])), int(rng.integers(2))
    elif way == 4:  # a length
        frame[16:18] = (int.from_bytes(frame[16:18], "big") + int(rng.integers(-30, 40))).to_bytes(
            2, "big", signed=True
        )
    elif way == 5:
        del frame[int(rng.integers(14, len(frame))) :]
    elif way == 6:
        frame[38:40] = int(rng.integers(0, 40)).to_bytes(2, "big")
    else:
        frame[:14] = rng.bytes(14)
    if (
        way in (2, 3, 4) and frame[12:14] == b"\x08\0" and len(frame) > 34
    ):  # the checksum of the header is right all the same
        frame[24:26] = bytes(2)
        frame[24:26] = checksum(bytes(frame[14:34])).to_bytes(2, "big")
    return frame


def wire(rng: np.random.Generator, frame: bytes, start: int, way: int | None = None) -> Burst:
    """The frame on the wire, now and then with a short preamble; `way`: with a fault there, or with more behind it."""
    data, errors = bytearray(on_wire(bytes(frame)[:1600])), ()
    if rng.random() < 0.2:
        del data[: int(rng.integers(1, 8))]
    if way is not None:
        at = int(rng.integers(len(data)))
        if way == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif way == 1:
            del data[max(at, 1) :]  # a runt, or less
        elif way == 2:
            data += rng.bytes(int(rng.choice([1, 4, 1600])))  # jabber
        elif way == 3:
            errors = (at,)
        elif way == 4:
            data = bytearray(rng.bytes(int(rng.integers(1, 100))))
        else:
            del data[at]
    return Burst(start, bytes(data), errors)


def play(
    bursts: Sequence[Burst],
    answers: Sequence[tuple[int, Given]] = (),
    rest: int = 4000,
    slow: int = 1,
) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
    """Have a station in RTL, its domains one, take bursts and send answers; return cycles and bytes of what it sent, and of what it handed on.

    `slow`: `eth` is that many times as fast as `sync`, beside which cycles are `eth`'s.
    """
    dut = Ethernet(STATION)
    simulator = Simulator(DomainRenamer({"eth": "sync"})(dut) if slow == 1 else dut)
    simulator.add_clock(1e-6 * slow)
    if slow != 1:
        simulator.add_clock(1e-6, domain="eth")
    pins = {b.start + k: (byte, 1, k in b.errors) for b in bursts for k, byte in enumerate(b.data)}
    end = max(pins, default=0) + rest
    sent: list[tuple[int, bytearray]] = []
    given: list[tuple[int, bytes]] = []
    simulator.add_testbench(_line(dut, pins, end, "sync" if slow == 1 else "eth", sent))
    simulator.add_testbench(_inside(dut, answers, end // slow, given))
    simulator.run()
    return [(cycle, bytes(data)) for cycle, data in sent], given


def _line(dut, pins, end: int, domain: str, sent: list):
    async def line(ctx):
        before = 0
        for cycle in range(end):
            values = pins.get(cycle, (0, 0, 0))
            for pin, value in zip((dut.rxd, dut.rx_dv, dut.rx_er), values, strict=True):
                ctx.set(pin, value)
            if now := ctx.get(dut.tx_en):
                if not before:
                    sent.append((cycle, bytearray()))
                sent[-1][1].append(ctx.get(dut.txd))
            before = now
            await ctx.tick(domain)

    return line


def _inside(dut, answers: Sequence[tuple[int, Given]], end: int, given: list):
    whole = [(at, one.peer.encode() + one.data) for at, one in answers]
    queue = [(at, byte, k == len(one) - 1) for at, one in whole for k, byte in enumerate(one)]

    async def inside(ctx):
        begin, come = 0, bytearray()
        ctx.set(dut.o.ready, 1)
        for cycle in range(end):
            offered = bool(queue) and queue[0][0] <= cycle
            ctx.set(dut.i.valid, offered)
            if offered:
                ctx.set(dut.i.p, {"data": queue[0][1], "last": queue[0][2]})
            if ctx.get(dut.o.valid):
                begin = begin if come else cycle
                last = ctx.get(dut.o.p.last)
                word = ctx.get(dut.o.p.data).to_bytes(4, "little")
                come += word[: ctx.get(dut.o.p.size) + 1 if last else 4]
                if last:
                    if not ctx.get(dut.spoilt):
                        given.append((begin, bytes(come)))
                    come.clear()
            if offered and ctx.get(dut.i.ready):
                queue.pop(0)
            await ctx.tick()

    return inside
