"""Devices for tests of the host's end of the link."""

from __future__ import annotations

import time

import numpy as np

from penstock.models.link.device import Device as GoldenDevice
from penstock.models.link.device import Identity
from penstock.models.link.frames import Status as LinkStatus
from penstock.models.shell import IDENTITY, VERSION, Counter, EngineRegister, RegisterMap, Status
from penstock.models.strider.errors import PageError
from penstock.sim.serial import Endpoint

__all__ = [
    "MAP",
    "SIZE",
    "Faulty",
    "Golden",
    "Paced",
    "Registers",
    "RestRegisters",
    "Silent",
    "Words",
    "golden",
]

SIZE = 1 << 16
MAP = RegisterMap(
    [EngineRegister("source", 40), EngineRegister("key")],
    [Counter("words", "")],
    design=0xABCD1234,
    errors=(PageError,),
)


class Words:
    """A memory of `size` bytes from address 0 on; SLVERR beyond, as `hdl.memory.blockram` answers."""

    def __init__(self, size: int, bus_bytes: int) -> None:
        self.bus_bytes = bus_bytes
        self.content = bytearray(size)

    def read(self, address: int) -> tuple[bytes, int]:
        if address >= len(self.content):
            return bytes(self.bus_bytes), LinkStatus.SLVERR
        return bytes(self.content[address : address + self.bus_bytes]), LinkStatus.OKAY

    def write(self, address: int, word: bytes, strobes: int) -> int:
        if address >= len(self.content):
            return LinkStatus.SLVERR
        for lane in range(self.bus_bytes):
            if strobes >> lane & 1:
                self.content[address + lane] = word[lane]
        return LinkStatus.OKAY


class Golden:
    """The golden device (`models.link.device.Device`), which answers at once."""

    active = False

    def __init__(self, device: GoldenDevice) -> None:
        self.device = device

    def exchange(self, data: bytes) -> bytes:
        return self.device.receive(data)


class Faulty:
    """A line that, both ways, corrupts, drops or repeats bytes: each with a third of the probability `rate`, by `seed`."""

    def __init__(self, endpoint: Endpoint, rate: float, seed: int) -> None:
        self.endpoint = endpoint
        self.rate = rate
        self.faults = 0
        self._random = np.random.default_rng(seed)

    @property
    def active(self) -> bool:
        return self.endpoint.active

    def exchange(self, data: bytes) -> bytes:
        return self._spoil(self.endpoint.exchange(self._spoil(data)))

    def _spoil(self, data: bytes) -> bytes:
        hit = self._random.random(len(data)) < self.rate
        if not hit.any():
            return data
        out = bytearray()
        for byte, wrong in zip(data, hit, strict=True):
            self.faults += int(wrong)
            kind = self._random.integers(3) if wrong else 3
            out += bytes(
                [[byte ^ int(self._random.integers(1, 256))], [], [byte, byte], [byte]][kind]
            )
        return bytes(out)


class Registers(Words):
    """A register file that notes what is written; a start ends at once."""

    def __init__(self) -> None:
        super().__init__(4096, 4)
        self.log: list[tuple[int, int]] = []
        for name, value in (
            ("identity", IDENTITY),
            ("version", VERSION),
            ("design", MAP.design),
            ("status", int(Status.IDLE)),
        ):
            self.put(name, value)

    def put(self, name: str, value: int) -> None:
        register = MAP[name]
        self.content[register.offset : register.offset + register.bits // 8] = value.to_bytes(
            register.bits // 8, "little"
        )

    def write(self, address: int, word: bytes, strobes: int) -> int:
        value = int.from_bytes(word, "little")
        self.log.append((address, value))
        if address == MAP["identity"].offset:
            return 2
        if address == MAP["interrupt"].offset:
            value &= 1
        if address == MAP["control"].offset and value & 1:
            self.put("interrupt", 3)
            self.put("status", int(Status.IDLE | Status.DONE))
            self.put("cycles", 1 << 40 | 5)
            self.put("count_words", 77)
            return 0
        return super().write(address, value.to_bytes(4, "little"), strobes)


class RestRegisters:
    """The shell's registers at rest, as `hdl.shell.registers` answers (control and interrupt left alone)."""

    bus_bytes = 4

    def __init__(self, register_map: RegisterMap) -> None:
        self.size = 1 << register_map.address_width  # the space repeats
        self.words: dict[int, list[int]] = {}  # [value, bits that can be written]
        for r in register_map.registers:
            engine = next((e for e in register_map.engine if e.name == r.name), None)
            value = {
                "identity": IDENTITY,
                "version": VERSION,
                "design": register_map.design,
                "status": 1,
            }.get(r.name, engine.reset if engine else 0)
            bits = engine.bits if engine else 32 if r.name == "watchdog" else 0
            for half in range(r.bits // 32):
                self.words[r.offset + 4 * half] = [
                    value >> 32 * half & 0xFFFFFFFF,
                    ((1 << bits) - 1) >> 32 * half & 0xFFFFFFFF,
                ]

    def read(self, address: int) -> tuple[bytes, int]:
        address %= self.size
        if address not in self.words:
            return bytes(4), 3
        return self.words[address][0].to_bytes(4, "little"), 0

    def write(self, address: int, word: bytes, strobes: int) -> int:
        address %= self.size
        if address not in self.words:
            return 3
        value, bits = self.words[address]
        if not bits:
            return 2
        mask = bits & sum(0xFF << 8 * k for k in range(4) if strobes >> k & 1)
        self.words[address][0] = value & ~mask | int.from_bytes(word, "little") & mask
        return 0


class Silent:
    """A device that stops answering when it is told to."""

    active = False

    def __init__(self, endpoint: Golden) -> None:
        self.endpoint, self.silent = endpoint, False

    def exchange(self, data: bytes) -> bytes:
        return b"" if self.silent else self.endpoint.exchange(data)


class Paced:
    """An endpoint on a line of `baud`: ten bits a byte, each way."""

    active = True

    def __init__(self, endpoint: Golden, baud: int) -> None:
        self.endpoint, self.seconds = endpoint, 10 / baud
        self.waiting = (bytearray(), bytearray())  # into the device, out of it
        self.since = [time.monotonic()] * 2

    def _pass(self, way: int, data: bytes) -> bytes:
        now, line = time.monotonic(), self.waiting[way]
        if not line:
            self.since[way] = now
        line += data
        count = min(len(line), int((now - self.since[way]) / self.seconds))
        self.since[way] += count * self.seconds
        out = bytes(line[:count])
        del line[:count]
        return out

    def exchange(self, data: bytes) -> bytes:
        time.sleep(0.0005)
        return self._pass(1, self.endpoint.exchange(self._pass(0, data)))


def golden() -> tuple[Golden, Registers, Words]:
    """A device with `SIZE` bytes of memory and the registers of `MAP`."""
    registers, memory = Registers(), Words(SIZE, 8)
    return Golden(GoldenDevice(Identity(8, SIZE, 25_000_000), registers, memory)), registers, memory
