"""hdl/link behind datagrams, Verilated with a whole device, beside models/link/envelope.py."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from penstock.hdl.soc import Soc
from penstock.models.link.device import Device, Identity
from penstock.models.link.envelope import (
    ASK,
    BUFFER,
    LONGEST,
    OPENING,
    SILENCE,
    WINDOW,
    Envelope,
    decode_answer,
    encode,
    push_cycles,
    write_cycles,
)
from penstock.models.link.frames import Space
from penstock.models.link.pushes import PIECE, describe
from penstock.models.ring import Ring, places
from penstock.models.shell import RegisterMap
from penstock.sim.board import CLOCK_HZ, Datagrams, verilog
from testbench.link_cases import SIZE as NETWORK_SIZE
from testbench.link_cases import RestRegisters, Words
from testbench.networks import CLOCK_HZ as NETWORK_HZ
from testbench.networks import Logged, play
from testbench.toy import CopyEngine, copy_map

SIZE = 16384


def ringed() -> RegisterMap:
    """A register map with those of two rings."""
    known, rings = copy_map(), [Ring(0), Ring(1)]
    registers = [*known.engine, *(ring.register for ring in rings)]
    counters = [*known.counters, *(ring.counter for ring in rings)]
    return RegisterMap(registers, counters, known.monitors, design=known.design)


def device(
    bus_bytes: int, address_width: int, size: int = SIZE, known: RegisterMap | None = None
) -> tuple[str, RegisterMap]:
    engine = CopyEngine(bus_bytes=bus_bytes, address_width=address_width, register_map=known)
    soc = Soc(engine, engine.register_map, memory_bytes=size, clock_hz=CLOCK_HZ, baud=None)
    return verilog(soc), engine.register_map


def twin(register_map: RegisterMap, bus_bytes: int = 8) -> Envelope:
    identity = Identity(bus_bytes, SIZE, CLOCK_HZ, ring=BUFFER)
    golden = Device(identity, RestRegisters(register_map), Words(SIZE, bus_bytes))
    return Envelope(golden, SILENCE, places(register_map))


def settle(board: Datagrams, *datagrams: bytes) -> list[bytes]:
    """Send datagrams; wait until nothing more comes back."""
    for datagram in datagrams:
        board.send(datagram)
    out = []
    while board.active:
        out.append(board.run())
    return [one for one in out if one]


def drawn(rng: np.random.Generator, envelope: Envelope) -> bytes:
    """A request of the device's session or of another one, about the window's place, of any kind."""
    session = int(rng.choice([envelope.session, envelope.session, envelope.session, 5, 6, 0]))
    away = int(rng.choice([0, 0, 1, 3, -1, -70, WINDOW - 1, WINDOW, int(rng.integers(-80, 80))]))
    if rng.random() < 0.1:
        before = int(rng.choice([0, envelope.session, 9, envelope.session + (1 << 32)]))
        kind, address, length = OPENING, before, int(rng.integers(0, 40))
        return encode(session, 77, kind | ASK * int(rng.integers(2)), address, length)
    if envelope.pushes.places and envelope.session and rng.random() < 0.8:
        away = int(rng.choice([0, 0, 0, 0, 1, 2, -1]))
        number = (envelope.first + away) % (1 << 32)
        return encode(envelope.session, number, *pushed(rng, envelope))
    space = int(rng.choice([0, 1, 1, 2, 2, 2, 3, 31]))
    length = int(rng.choice([0, 1, 8, 127, 128, 129, 256, 1024, int(rng.integers(0, 300))]))
    address = int(rng.choice([0, SIZE - 300, SIZE, (1 << 32) - 100, 1 << 40])) + int(
        rng.integers(300)
    )
    kind = space << 1 | int(rng.integers(2)) | ASK * int(rng.integers(2))
    if space == Space.REGISTERS:
        length, address = (
            min(length, 8),
            int(rng.choice([0, 0x48, 1 << 33])) + int(rng.integers(4)),
        )
    data = rng.bytes(length) if kind & 1 else b""
    return encode(session, (envelope.first + away) % (1 << 32), kind, address, length, data)


def pushed(rng: np.random.Generator, envelope: Envelope) -> tuple[int, int, int, bytes, int]:
    """A stream's beginning, or a piece about the place of the first one that is missing."""
    port, asks = int(rng.choice([0, 0, 0, 0, 0, 1, 1, 1, 2, 255])), ASK * int(rng.integers(2))
    if rng.random() < 0.1:
        at = int(rng.choice([0, 0, 1024, 2052, SIZE - 3000, 1 << 31]))
        shift, size = int(rng.choice([0, 0, 1, 2, 11])), int(rng.choice([0, 4, 6, 12, 200]))
        return Space.RING << 1 | asks, shift << 32 | at, size, b"", port
    first = envelope.pushes.streams[port % 2].first
    piece = first + int(rng.choice([0, 0, 0, 1, 1, 2, 5, 11, -1, 63, 64, 1 << 38]))
    position = piece * PIECE % (1 << 64) + int(rng.random() < 0.03)
    length = PIECE if rng.random() < 0.95 else int(rng.choice([0, 1023, 8]))
    return Space.RING << 1 | 1 | asks, position, length, rng.bytes(length), port


def spoilt(rng: np.random.Generator, datagram: bytes) -> bytes:
    out = bytearray(datagram)
    at = int(rng.integers(len(out)))
    way = int(rng.integers(5))
    if way == 0:
        out[at] ^= 1 << int(rng.integers(8))
    elif way == 1:
        del out[at:]
    elif way == 2:
        out += rng.bytes(int(rng.integers(1, 1500)))
    elif way == 3:
        out = bytearray(rng.bytes(int(rng.integers(1, 60))))
    else:
        out[8] |= 0x80  # an answer
    return bytes(out) or b"x"


@pytest.mark.parametrize(
    ("bus_bytes", "address_width", "count", "rings"),
    [
        (8, 40, 600, True),
        pytest.param(8, 40, 3000, False, marks=pytest.mark.long),
        pytest.param(4, 15, 3000, False, marks=pytest.mark.long),
        pytest.param(32, 26, 3000, True, marks=pytest.mark.long),
    ],
)
def test_rtl_answers_what_golden_answers(
    bus_bytes: int, address_width: int, count: int, rings: bool
) -> None:
    source, register_map = device(bus_bytes, address_width, known=ringed() if rings else None)
    model, rng, now, seen = twin(register_map, bus_bytes), np.random.default_rng(1), 0, set()
    with Datagrams(source) as board:
        for k in range(count):
            for _ in range(int(rng.choice([0, 0, 0, 1, SILENCE - 1, SILENCE]))):
                board.tick()
                now += 1
            datagram = drawn(rng, model)
            if rng.random() < 0.15:
                datagram = spoilt(rng, datagram)
            expected = model.receive(datagram, now)
            found = settle(board, datagram)
            assert found == ([] if expected is None else [expected]), (k, datagram[:24], now)
            seen.add(None if expected is None else (expected[9], expected[8] & 0x3F))
    assert len(seen) > 12


@pytest.mark.parametrize(
    ("bus_bytes", "address_width"), [(8, 40), pytest.param(32, 26, marks=pytest.mark.long)]
)
def test_writes_take_the_models_cycles(
    bus_bytes: int, address_width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that never waits for a datagram is as fast as `Link.into` says."""
    monkeypatch.setattr("penstock.sim.board._PIECE", 100_000)
    source, _ = device(bus_bytes, address_width, known=ringed())

    def took(count: int, size: int) -> int:
        with Datagrams(source) as board:
            board.send(encode(7, 0, OPENING, 0, 16))
            opened = decode_answer(board.run())
            assert opened is not None
            for k in range(count):
                kind = Space.MEMORY << 1 | 1 | ASK * (k + 1 == count)
                board.send(encode(7, opened.first + k, kind, 0, size, bytes(size)))
            last = decode_answer(board.run())
            assert last is not None and last.status == 0 and last.bitmap == 0
            return board.cycle

    for size in (LONGEST, 512, 100):
        assert took(3, size) - took(2, size) == write_cycles(size, bus_bytes, peer=0)


def test_pushes_take_the_models_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a piece, of which every third is asked about, as hosts do."""
    monkeypatch.setattr("penstock.sim.board._PIECE", 100_000)
    source, _ = device(8, 40, known=ringed())
    kind = Space.RING << 1

    def took(pages: int) -> int:
        with Datagrams(source) as board:
            board.send(encode(7, 0, OPENING, 0, 16))
            opened = decode_answer(board.run())
            assert opened is not None
            board.send(encode(7, opened.first, kind, describe(0, PIECE), 12))
            board.run()
            for k in range(pages):
                asked, data = kind | 1 | ASK * (k % 3 == 2), bytes([k]) * PIECE
                board.send(encode(7, opened.first + 1 + k, asked, k * PIECE, PIECE, data))
            for _ in range(pages // 3):
                answer = decode_answer(board.run())
                assert answer is not None and (answer.status, answer.bitmap) == (0, 0)
            return board.cycle

    assert took(6) - took(3) == 3 * push_cycles(PIECE, 8, peer=0, asked=3)


def test_bad_networks() -> None:
    """Each datagram of hosts on bad networks has golden's answer; memory and registers are what hosts were told."""
    assert bad_networks(range(2))["whole"] == 2


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_fifty_bad_networks() -> None:
    assert bad_networks(range(50))["whole"] > 40


def bad_networks(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    source, _ = device(8, 40, NETWORK_SIZE)
    for seed in seeds:
        golden, board = Logged(BUFFER, CLOCK_HZ), Datagrams(source)
        both = Both(board, Envelope(golden, SILENCE))
        with board:
            seen.update(play(seed, golden, both.receive))
    return seen


class Both:
    """A device and its twin, which have to answer alike."""

    def __init__(self, board: Datagrams, envelope: Envelope) -> None:
        self.board, self.envelope, self.seconds = board, envelope, 0

    def receive(self, datagram: bytes, now: int) -> bytes | None:
        past, self.seconds = self.seconds, now // NETWORK_HZ
        for _ in range(min(self.seconds - past, SILENCE)):
            self.board.tick()
        expected = self.envelope.receive(datagram, self.seconds)
        assert settle(self.board, datagram) == ([] if expected is None else [expected])
        return expected
