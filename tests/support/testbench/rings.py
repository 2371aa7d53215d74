"""A device whose engine reads pages from a ring, golden, behind a bad network; hosts that fill the ring, that die, and second ones."""

from __future__ import annotations

from collections.abc import Iterable
from unittest.mock import patch

import numpy as np

from penstock.host.device.device import Device
from penstock.host.device.errors import LinkError
from penstock.host.device.machine import DeviceMachine
from penstock.host.device.transport import Piece as Pushed
from penstock.host.device.udp_session import Piece, Session, pushing
from penstock.models.errors import ErrorCode
from penstock.models.link.device import Device as GoldenDevice
from penstock.models.link.device import Identity
from penstock.models.link.envelope import BUFFER, LONGEST, OPENING, SILENCE, Envelope, encode
from penstock.models.link.frames import Space
from penstock.models.link.pushes import PIECE, describe
from penstock.models.ring import Line, Ring, places
from penstock.models.shell import Control, RegisterMap, Status
from penstock.sim.machine import Feed

from .link_cases import RestRegisters, Words
from .networks import CLOCK_HZ, Network

__all__ = ["Pushes", "Rig", "Wire", "filled"]

RING = Ring(0)
MAP = RegisterMap([RING.register], [RING.counter], design=0x1234_5678)
SLOTS, SIZE, COUNT, EPOCHS, BASE = 2, 2048, 7, 2, 4096
#: cycles, which are milliseconds here
WATCHDOG = 5000


class _Registers(RestRegisters):
    """Those of an engine that runs: `engine` is told what is written to `control`."""

    engine: Reader

    def put(self, name: str, value: int) -> None:
        self.words[MAP[name].offset][0] = value

    def get(self, name: str) -> int:
        return self.words[MAP[name].offset][0]

    def write(self, address: int, word: bytes, strobes: int) -> int:
        at, value = address % self.size, int.from_bytes(word, "little")
        if at == MAP["control"].offset:
            self.engine.control(Control(value))
        elif at == MAP["interrupt"].offset:
            self.put("interrupt", value & 1)
        else:
            return super().write(address, word, strobes)
        return 0


class Reader:
    """An engine that only reads pages, epoch after epoch: half of a page when it begins with it, half when it ends."""

    def __init__(self, memory: Words, registers: _Registers, rng: np.random.Generator) -> None:
        self.memory, self.registers = memory, registers
        registers.engine = self
        self.random, self.slowest = rng, float(rng.choice([1, 20, 200]))
        self.read = bytearray()
        self.now = self.quiet = self.ends = 0
        self.half: bytes | None = None
        self.running, self.page = False, 0

    def control(self, written: Control) -> None:
        self.running, self.half = bool(written & Control.START), None
        self.quiet = self.now
        self.registers.put("status", Status.BUSY if self.running else Status.IDLE)
        if self.running:
            self.page, self.read = 0, bytearray()
            self.registers.put(f"count_{RING.done}", 0)

    def advance(self, now: int) -> None:
        """Let time pass, in which the register does not change."""
        while self.running:
            at = BASE + self.page % SLOTS * SIZE
            slot = self.memory.content[at : at + SIZE]
            if self.half is None:
                if self.registers.get(RING.ready) <= self.page:
                    self._look(now)
                    break
                self.half, self.ends = bytes(slot[: SIZE // 2]), self.now + self._takes()
            if self.ends > now:
                break
            self.now = self.quiet = self.ends
            self.read += self.half + slot[SIZE // 2 :]
            self.half, self.page = None, self.page + 1
            self.registers.put(f"count_{RING.done}", self.page)
            if self.page == COUNT * EPOCHS:
                self._end(Status.DONE)
        self.now = now

    def _takes(self) -> int:
        return int(self.random.random() * self.slowest)

    def _look(self, now: int) -> None:
        watchdog = self.registers.get("watchdog")
        if watchdog and now - self.quiet >= watchdog:
            self.registers.put("error_code", int(ErrorCode.WATCHDOG))
            self._end(Status.ERROR)

    def _end(self, how: Status) -> None:
        self.running = False
        self.registers.put("status", Status.IDLE | how)
        self.registers.put("interrupt", 3)


class _Died(Exception):
    """A host is no more."""


class Wire:
    """A `Transport` in a network's own time. `dies`: when its host does."""

    timeout = 2.0

    def __init__(self, rig: Rig, number: int, dies: float) -> None:
        self.rig, self.dies = rig, dies
        self.session = Session(number, self.timeout, "it")
        self.statistics = self.session.statistics
        self.session.open(rig.network.now)
        self._pass()
        assert self.session.identity is not None
        self.identity = self.session.identity

    def _pass(self) -> None:
        network = self.rig.network
        if (
            self.rig.random.random() < 0.01
        ):  # a second host, which asks and writes whether it may or not
            for k, kind in enumerate((OPENING, Space.MEMORY << 1 | 1)):
                evil = encode(1 << 31, k, kind, BASE, 4 if k else 16, b"evil" * k)
                network.put(evil)
        if not network.transfer(self.session, self.dies):
            raise _Died

    def _call(self, pieces: Iterable[Piece | None]) -> None:
        self.session.begin(pieces, self.rig.network.now)
        self._pass()

    def read(self, space: Space, at: int, size: int) -> bytes:
        self._call(
            [(space << 1, at + k, min(LONGEST, size - k), b"") for k in range(0, size, LONGEST)]
        )
        return b"".join(self.session.data)

    def write(self, space: Space, at: int, data: bytes) -> None:
        parts = [(at + k, data[k : k + LONGEST]) for k in range(0, len(data), LONGEST)]
        self._call([(space << 1 | 1, where, len(part), part) for where, part in parts])

    def close(self) -> None:
        pass


class Pushes(Wire):
    """One by which a device takes pages by itself."""

    def begin(self, port: int, at: int, slots: int, page: int) -> None:
        kind = Space.RING << 1 | port << 8
        self._call([(kind, describe(at, page), slots * page // PIECE, b"")])
        self.session.pages[port] = 0

    def push(self, pieces: Iterable[Pushed | None]) -> None:
        self._call(pushing(pieces))

    def pages(self, port: int) -> int:
        return self.session.pages.get(port, 0)


class Rig:
    """A table, a device and a network. `machine`: as a new host sees it."""

    def __init__(self, seed: int) -> None:
        self.random = rng = np.random.default_rng((seed, 2))
        self.pages = rng.integers(0, 256, (COUNT, SIZE), dtype=np.uint8)
        memory, registers = Words(BASE + SLOTS * SIZE, 8), _Registers(MAP)
        identity = Identity(8, len(memory.content), CLOCK_HZ, ring=BUFFER)
        envelope = Envelope(
            GoldenDevice(identity, registers, memory), SILENCE * CLOCK_HZ, places(MAP)
        )
        self.wire = Pushes if rng.random() < 0.7 else Wire
        self.reader = reader = Reader(memory, registers, rng)

        def answers(datagram: bytes, now: int) -> bytes | None:
            reader.advance(now)
            return envelope.receive(datagram, now)

        self.network, self.hosts = Network(seed, answers), 0

    def wait(self, seconds: float) -> None:
        """Let time pass, in which hosts listen to nothing."""
        end = self.network.now + seconds
        while self.network.now < end:
            self.network.until(end)

    @property
    def expected(self) -> bytes:
        return self.pages.tobytes() * EPOCHS

    def run(self, dies: float = float("inf")) -> ErrorCode | None:
        """Have a new host do a run; return the error that ended it. Raises LinkError, and _Died."""
        self.hosts += 1
        number = self.hosts
        device = Device("it", lambda _: self.wire(self, number, dies), register_map=MAP)
        line = Line(SLOTS, COUNT * EPOCHS, 8)
        with patch("time.sleep", self.wait):
            ended = DeviceMachine(device).run(
                {RING.ready: 0}, watchdog=WATCHDOG, feeds=[Feed(RING, self.pages, BASE, line)]
            )
        return None if ended.error is None else ErrorCode(int(ended.error.code))


def filled(seed: int) -> set[str]:
    """Fill the ring on a bad network until a run has read all of the table. Return what happened."""
    rig = Rig(seed)
    rng, network, seen = rig.random, rig.network, set[str]()
    for _ in range(12):
        dies = (
            network.now + float(rng.choice([0.01, 0.5, 3])) if rng.random() < 0.2 else float("inf")
        )
        try:
            error = rig.run(dies)
            seen.add("whole" if error is None else error.name)
        except LinkError as problem:
            error = ErrorCode.WATCHDOG
            seen.add(str(problem))
        except _Died:
            error = ErrorCode.WATCHDOG
            seen.add("died")
        assert rig.expected.startswith(bytes(rig.reader.read)), (
            seed
        )  # what was read is the table's, in its order
        if error is None:
            assert bytes(rig.reader.read) == rig.expected, seed
            return seen
        rig.wait(30)  # what is late comes; nobody has the device any more
        rig.reader.advance(int(network.now * CLOCK_HZ))
        assert not rig.reader.running, seed
    return seen | {"never"}
