"""Networks that lose, copy, delay and spoil datagrams, by a seed, in a time of their own; hosts that die, and second ones."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable

import numpy as np

from penstock.host.device.errors import LinkError
from penstock.host.device.transport import Refused
from penstock.host.device.udp_session import Piece, Session
from penstock.models.link.device import Device, Identity
from penstock.models.link.envelope import OPENING, encode
from penstock.models.link.frames import Request, Response, Space

from .link_cases import MAP, SIZE, Registers, Words

__all__ = ["CLOCK_HZ", "Logged", "Network", "play"]

CLOCK_HZ = 1_000
KEY = MAP["key"].offset
#: what a device answers to a datagram at a cycle
Answers = Callable[[bytes, int], bytes | None]


class Logged(Device):
    """The golden device; notes each write that it does."""

    def __init__(self, ring: int, clock_hz: int = CLOCK_HZ) -> None:
        self.memory, self.registers = Words(SIZE, 8), Registers()
        super().__init__(Identity(8, SIZE, clock_hz, ring=ring), self.registers, self.memory)
        self.done: list[tuple[int, int, bytes]] = []

    def perform(self, request: Request) -> Response:
        if request.data is not None:
            self.done.append((request.space, request.address, request.data))
        return super().perform(request)


class Network:
    """Two ways with the same faults. `way`: from host to device, and back."""

    def __init__(self, seed: int, answers: Answers) -> None:
        self.random = rng = np.random.default_rng(seed)
        self.answers, self.now, self.count = answers, 0.0, 0
        self.loss, self.copies, self.noise = (float(rng.choice([0, 0.02, 0.2])) for _ in range(3))
        self.late = float(rng.choice([0, 0.05, 0.3]))  # how many are overtaken
        self.delay = float(rng.choice([0.0001, 0.01, 0.1]))
        self.flying: list[tuple[float, int, bool, bytes]] = []

    def put(self, datagram: bytes, back: bool = False) -> None:
        rng = self.random
        for _ in range(1 + (rng.random() < self.copies)):
            if rng.random() < self.loss:
                continue
            if rng.random() < self.noise / 4:
                spoilt = bytearray(datagram)
                spoilt[int(rng.integers(len(spoilt)))] ^= 1 << int(rng.integers(8))
                datagram = bytes(spoilt[: int(rng.integers(1, len(spoilt) + 1))])
            delay = self.delay * (1 + rng.random() * 0.1)
            if rng.random() < self.late:
                delay += self.delay * float(rng.choice([1, 10, 100])) * rng.random()
            self.count += 1
            heapq.heappush(self.flying, (self.now + delay, self.count, back, datagram))

    def until(self, due: float) -> list[bytes]:
        """Let time pass to the next datagram for hosts, or until `due`; return those that came."""
        while self.flying and self.flying[0][0] <= due:
            self.now, _, back, datagram = heapq.heappop(self.flying)
            if back:
                return [datagram]
            answer = self.answers(datagram, int(self.now * CLOCK_HZ))
            if answer is not None:
                self.put(answer, True)
        self.now = max(self.now, due)
        return []

    def transfer(self, session: Session, dies: float = float("inf")) -> bool:
        """Do a session's transfer; return whether the host lived until its end."""
        while True:
            for datagram in session.send(self.now):
                self.put(datagram)
            if session.done:
                session.finish()
                return True
            if self.now >= dies:
                return False
            for datagram in self.until(min(session.due, dies)):
                session.take(datagram, self.now)


def play(seed: int, device: Logged, answers: Answers, transfers: int = 5) -> set[str]:
    """Do random transfers on a bad network; hold memory and registers against what a host was told. Return what happened."""
    network, rng = Network(seed, answers), np.random.default_rng((seed, 1))
    sure, unsure = bytearray(SIZE), np.zeros(SIZE, dtype=bool)
    written: list[
        tuple[int, bool]
    ] = []  # values of the register, and whether they are known to be there
    seen: set[str] = set()
    session, number, opened = Session(0, 2.0, "it"), 0, False
    for _ in range(transfers):
        if rng.random() < 0.1:  # a second host, which asks and writes whether it may or not
            seen.add("second")
            for k, kind in enumerate((OPENING, Space.MEMORY << 1 | 1)):
                network.put(
                    encode(1 << 31, network.count + k, kind, 0, 16 * (k == 0) or 4, b"evil" * k)
                )
        for _ in range(12):
            if opened:
                break
            number += 1
            session = Session(number, 2.0, "it", session.number if rng.random() < 0.5 else 0)
            session.open(network.now)
            try:
                opened = network.transfer(session)
            except LinkError as problem:
                seen.add(str(problem))
                opened = False
        if not opened:
            return seen | {"never"}
        what, size = int(rng.integers(3)), int(rng.choice([1, 200, 5000, 20_000]))
        at = int(rng.integers(8, SIZE - size))
        data = rng.bytes(size)
        pieces: list[Piece] = [
            (
                Space.MEMORY << 1 | what,
                at + k,
                len(data[k : k + 1024]),
                data[k : k + 1024] if what else b"",
            )
            for k in range(0, size, 1024)
        ]
        if what == 2:
            value = len(written) + 1
            pieces = [(Space.REGISTERS << 1 | 1, KEY, 4, value.to_bytes(4, "little"))]
        dies = network.now + float(rng.choice([0.001, 0.1])) if rng.random() < 0.1 else float("inf")
        session.begin(pieces, network.now)
        try:
            opened = network.transfer(session, dies)
            seen.add("whole" if opened else "died")
        except Refused:
            raise
        except LinkError as problem:
            seen.add(str(problem))
            opened = False
        if what == 2:
            written.append((value, opened))
        elif what == 1:
            sure[at : at + size] = data
            unsure[at : at + size] = not opened
        elif opened:
            got = np.frombuffer(b"".join(session.data), dtype=np.uint8)
            want = np.frombuffer(bytes(sure[at : at + size]), dtype=np.uint8)
            assert len(got) == size and (got == want)[~unsure[at : at + size]].all(), seed
        if not opened and rng.random() < 0.3:
            network.now += 11  # nobody has it any more
    network.until(network.now + 100)  # what is still on its way
    unsure[:8] = True  # the second host writes there, once it has the device
    assert (
        (
            np.frombuffer(bytes(device.memory.content), np.uint8)
            == np.frombuffer(bytes(sure), np.uint8)
        )
        | unsure
    ).all(), seed
    log = [value for at, value in device.registers.log if at == KEY]
    assert log == sorted(set(log)), seed
    assert all(value in log for value, known in written if known), seed
    assert set(log) <= {value for value, _ in written}, seed
    done = [(at, zlib.crc32(data), len(data)) for _, at, data in device.done if len(data) > 8]
    assert len(done) == len(set(done)), seed
    return seen
