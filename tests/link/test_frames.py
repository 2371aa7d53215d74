"""models/link/frames.py by itself, and hdl/link/frames.py and uart.py beside it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.hdl.link.frames import Deframer, Framer
from penstock.hdl.link.uart import UartReceiver
from penstock.models.link.frames import (
    CRC_RESIDUE,
    DROPPED,
    ESCAPE,
    FLAG,
    MAXIMUM,
    FrameError,
    Parser,
    Request,
    Response,
    decode_request,
    decode_response,
)
from penstock.models.link.timing import divisor
from testbench.pysim import drain, feed, simulate

octet = st.integers(0, 255)
writes = st.builds(
    lambda s, space, a, d: Request(s, space, a, 0, d),
    octet,
    st.integers(0, 127),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=MAXIMUM),
)
reads = st.builds(
    lambda s, space, a, n: Request(s, space, a, n),
    octet,
    st.integers(0, 127),
    st.integers(0, 2**32 - 1),
    st.integers(0, MAXIMUM),
)
requests = writes | reads
responses = st.builds(
    Response, octet, st.integers(0, 126), st.binary(max_size=MAXIMUM), st.integers(0, 3)
)


def spoil(data: bytes, faults: list[tuple[int, int, int]]) -> bytes:
    """Corrupt, drop or repeat bytes: (place, kind, with what)."""
    out = bytearray(data)
    for place, kind, value in faults:
        if out:
            at = place % len(out)
            out[at : at + 1] = [
                bytes([out[at] ^ value]),
                b"",
                bytes([out[at]] * 2),
                bytes([value, out[at]]),
            ][kind]
    return bytes(out)


faults = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3), octet), max_size=6)


@given(requests)
def test_requests_survive_the_wire(request: Request) -> None:
    [body] = Parser().feed(request.encode())
    assert decode_request(body) == request
    assert FLAG not in request.encode()[1:-1]


@given(responses)
def test_responses_survive_the_wire(response: Response) -> None:
    [body] = Parser().feed(response.encode())
    assert decode_response(body) == response


def test_a_frame_byte_by_byte() -> None:
    """The format as it is written down, not as the encoder sees it."""
    body = bytes([0x7E, 5, 2, 0x7D, 0x10, 0, 0, 0xAA, 0x55])
    crc = zlib.crc32(body).to_bytes(4, "little")
    plain = body + crc
    wire = b"\x7e" + plain.replace(b"\x7d", b"\x7d\x5d").replace(b"\x7e", b"\x7d\x5e") + b"\x7e"
    assert Request(0x7E, 2, 0x107D, 0, b"\xaa\x55").encode() == wire
    assert DROPPED.body() == bytes([0, 0xFF, 0, 1])


@given(st.lists(requests, min_size=1, max_size=3), st.binary(max_size=40))
def test_in_step_after_garbage(frames: list[Request], garbage: bytes) -> None:
    """Whatever came before, a frame is read if a flag stands before it."""
    parser = Parser()
    parser.feed(garbage)
    bodies = [b for r in frames for b in parser.feed(r.encode())]
    sound = [b for b in bodies if b]
    assert [decode_request(b) for b in sound[-len(frames) :]] == frames


@given(requests, faults)
def test_what_is_spoilt_is_not_believed(
    request: Request, wrong: list[tuple[int, int, int]]
) -> None:
    found = [b for b in Parser().feed(spoil(request.encode(), wrong) + bytes([FLAG])) if b]
    assert all(b == request.body() for b in found)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0" * 6,
        bytes([1, 4, 129, 0, 0, 0, 0]),
        bytes([1, 5, 2, 0, 0, 0, 0, 9]),
        bytes([1, 4, 1, 0, 0, 0, 0, 9]),
    ],
)
def test_bodies_that_are_no_requests(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode_request(body)


@pytest.mark.parametrize("body", [b"\0\x80\0", bytes([0, 0x80, 2, 1, 0]), bytes([0, 4, 0, 0])])
def test_bodies_that_are_no_responses(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode_response(body)


def test_a_frame_has_a_largest_size() -> None:
    with pytest.raises(FrameError, match="at most 128 bytes, not 129"):
        Request(0, 2, 0, 0, bytes(129)).encode()


def test_bit_times() -> None:
    assert divisor(12_000_000, 1_000_000) == 12 and divisor(50_400_000, 115_200) == 438
    for clock, baud in ((12_000_000, 9_000_000), (12_000_000, 2_300_000)):
        with pytest.raises(ValueError, match="cannot make"):
            divisor(clock, baud)


# the hardware


def golden_deframer(wire: bytes) -> tuple[bytes, int]:
    """What `Deframer` gives: bytes of sound requests, number of drops."""
    out, drops = bytearray(), 0
    for body in Parser().feed(wire):
        try:
            decode_request(body)
        except FrameError:
            drops += 1
        else:
            out += body
    return bytes(out), drops


def deframe(wire: bytes, ready: float = 1.0, seed: int = 0) -> tuple[bytes, int]:
    dut = Deframer()
    got, drops = bytearray(), 0
    random = np.random.default_rng(seed)

    async def send(ctx):
        for byte in wire:
            ctx.set(dut.i.payload, byte)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(1200 if ready else 20)

    async def receive(ctx):
        nonlocal drops
        while True:
            ctx.set(dut.o.ready, int(random.random() < ready))
            await_ = ctx.tick().sample(dut.o.valid, dut.o.ready, dut.o.payload, dut.dropped)
            _, _, valid, taken, payload, dropped = await await_
            drops += dropped
            if valid and taken:
                got.append(payload)

    simulate(dut, send, background=(receive,))
    return bytes(got), drops


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(requests, faults, st.binary(max_size=6)), min_size=1, max_size=3),
    st.integers(0, 99),
)
def test_deframer_is_the_parser(
    frames: list[tuple[Request, list[tuple[int, int, int]], bytes]], seed: int
) -> None:
    wire = b"".join(
        between + spoil(r.encode(), wrong if k % 2 else [])
        for k, (r, wrong, between) in enumerate(frames)
    )
    assert deframe(wire, 0.9, seed) == golden_deframer(wire)


def test_a_frame_that_ends_in_an_escape() -> None:
    """RFC 1662, section 4.3: an escape just before a flag makes a frame invalid, however sound its bytes are."""
    sound = Request(1, 2, 3, 4).encode()
    wire = sound[:-1] + bytes([ESCAPE, FLAG]) + sound
    assert golden_deframer(wire) == (Request(1, 2, 3, 4).body(), 1) == deframe(wire)


@settings(max_examples=15, deadline=None)
@given(st.lists(responses, min_size=1, max_size=2))
def test_framer_is_the_encoder(bodies: list[Response]) -> None:
    dut = Framer()
    wire = b"".join(r.encode() for r in bodies)
    items = [
        {"data": byte, "last": k == len(body) - 1}
        for body in (r.body() for r in bodies)
        for k, byte in enumerate(body)
    ]
    taken: list[tuple[int, int]] = []
    simulate(dut, feed(dut.i, items), drain(dut.o, len(wire), taken, pace=0.7, seed=1))
    assert bytes(byte for _, byte in taken) == wire


@pytest.mark.parametrize("cycles", [4, 5, 7, 12])
@pytest.mark.parametrize("skew", [0.98, 1.0, 1.02])
def test_uart_reads_a_sender_that_is_a_little_off(cycles: int, skew: float) -> None:
    """Bytes back to back, from a clock that is 2 % slow or fast, with a pause and a short glitch before."""
    if cycles == 4 and skew != 1.0:
        skew = 1 + (skew - 1) / 2  # four samples a bit see nothing finer
    data = np.random.default_rng(cycles).bytes(20) + b"\x00\xff\x55"
    bits = [b for byte in data for b in (0, *(byte >> k & 1 for k in range(8)), 1)]
    dut = UartReceiver(cycles)
    got = bytearray()

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.rx, 0)  # too short for a start bit
        await ctx.tick()
        ctx.set(dut.rx, 1)
        await ctx.tick().repeat(3 * cycles)
        time, at = 0.0, 0
        for bit in bits:
            time += cycles * skew
            ctx.set(dut.rx, bit)
            while at < time:
                await ctx.tick()
                at += 1
        await ctx.tick().repeat(3 * cycles)

    async def receive(ctx):
        async for _, _, valid, payload in ctx.tick().sample(dut.o.valid, dut.o.payload):
            if valid:
                got.append(payload)

    simulate(dut, bench, background=(receive,))
    assert bytes(got) == data


def test_a_byte_without_a_stop_bit_is_dropped() -> None:
    dut = UartReceiver(4)
    got = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for level, count in ((0, 60), (1, 8), (0, 4), (1, 40)):  # a break, then 0xFF
            ctx.set(dut.rx, level)
            for _ in range(count):
                if ctx.get(dut.o.valid):
                    got.append(ctx.get(dut.o.payload))
                await ctx.tick()

    simulate(dut, bench)
    assert got == [0xFF]


def test_the_residue_is_that_of_the_crc() -> None:
    """CRC_RESIDUE by bits, as the hardware goes."""
    crc = 0xFFFF_FFFF
    body = b"any body"
    for byte in body + zlib.crc32(body).to_bytes(4, "little"):
        for k in range(8):
            crc = crc >> 1 ^ (0xEDB8_8320 if (crc ^ byte >> k) & 1 else 0)
    assert crc == CRC_RESIDUE
