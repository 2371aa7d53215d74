"""Oblivious maps for tests: a small configuration, requests, and a dict that answers them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.designs.cache import generator, kept
from penstock.hdl.omap.engine import MapEngine
from penstock.hdl.shell import Shell
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.crypto import noise
from penstock.models.crypto.noise import nonce_bytes
from penstock.models.mapping import Storage
from penstock.models.memory import FixedLatency
from penstock.models.omap import sessions
from penstock.models.omap.boundary import Frames
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.golden import Step
from penstock.models.omap.messages import Keys, Operation, Request, Response, Status
from penstock.models.omap.shell import port_bytes, ports, register_map
from penstock.models.omap.storages import memories
from penstock.models.omap.traffic import bursts, page_traffic
from penstock.models.omap.vault import Role
from penstock.models.shell import RegisterMap
from penstock.sim.machine import Ended
from penstock.sim.native import Library, PortSpec, build
from penstock.sim.native.machine import NativeMachine

from .boundary import PresetDoor
from .memories import filled

__all__ = [
    "KEYS",
    "SESSION",
    "Board",
    "Mirror",
    "compile_map",
    "config",
    "expected",
    "map_verilog",
    "requests",
    "unset",
]

_draw = random.Random(19)
KEYS = Keys(*(_draw.getrandbits(128) for _ in range(3)))
#: a writer's session in slot 0
SESSION = noise.Keys(b"", _draw.randbytes(32), _draw.randbytes(32), b"")


def config(**changes: Any) -> OmapConfig:
    """A map of 40 items in 16 bins."""
    standard = {
        "capacity": 40,
        "value_bytes": 8,
        "bins": 16,
        "hbm_bins": 4,
        "slots": 16,
        "buckets": 8,
        "bucket_slots": 16,
        "frames": 64,
        "window": 4,
        "openers": 2,
        "sealers": 2,
        "deadline": 30,
    }
    return OmapConfig.from_json({**standard, **changes})


def requests(
    config: OmapConfig,
    count: int,
    *,
    seed: int,
    keys: int | None = None,
    unknown: bool = True,
    mix: tuple[int, int, int] = (4, 5, 3),
) -> list[Request]:
    """Requests with keys below `keys` (half as many again as the map holds), some of them unknown;
    `mix`: how often GET, PUT and DELETE. Of keys that are hashes, many have one half in common."""
    draw = random.Random(seed)
    keys = config.capacity * 3 // 2 if keys is None else keys
    kinds = [kind for kind, often in zip(Operation, mix, strict=True) for _ in range(often)]
    made = []
    for _ in range(count):
        kind = draw.choice((0, 4, 255)) if unknown and draw.random() < 0.05 else draw.choice(kinds)
        size = config.value_bytes
        value = draw.randbytes(size) if kind == Operation.PUT else bytes(size)
        key = draw.randrange(keys)
        made.append(Request(kind, key % 3 << 64 | key // 3 if config.key_bytes > 8 else key, value))
    return made


class Mirror:
    """What a map must answer."""

    def __init__(self, config: OmapConfig) -> None:
        self.config = config
        self.items: dict[int, bytes] = {}

    def step(self, request: Request) -> Response:
        """Carry out a request."""
        kind, key, value = request
        none = bytes(self.config.value_bytes)
        if kind not in tuple(Operation):
            return Response(Status.UNKNOWN, key, none)
        old = self.items.get(key)
        status = Status.MISSING if old is None else Status.FOUND
        if kind == Operation.PUT:
            if old is None and len(self.items) >= self.config.capacity:
                status = Status.FULL
            else:
                self.items[key] = value
        elif kind == Operation.DELETE:
            self.items.pop(key, None)
        return Response(status, key, none if old is None else old)


def expected(made: Sequence[Request], steps: Sequence[Step]) -> list[Response]:
    """What a writer's session is answered: golden's responses, but for operations that no writer has."""
    return [
        step.response
        if request.operation in sessions.ALLOWED[Role.WRITER]
        else step.response._replace(status=Status.REFUSED)
        for request, step in zip(made, steps, strict=True)
    ]


def _door() -> PresetDoor:
    return PresetDoor([(0, Role.WRITER, SESSION)], KEYS)


def compile_map(config: OmapConfig) -> Library:
    """The hardware of a map, for simulation, with keys of its own and one session in its table."""
    text, specs, registers = map_verilog(config)
    return build(text, ports=specs, register_map=registers)


def map_verilog(config: OmapConfig) -> tuple[str, list[PortSpec], RegisterMap]:
    """The same as Verilog, with its ports and registers."""
    registers = register_map(config)
    spaces = ports(config).values()
    specs = [
        PortSpec(f"m{k}_axi", size, True, True, space)
        for k, (size, space) in enumerate(zip(port_bytes(config), spaces, strict=True))
    ]
    text = kept(
        f"{config!r} preset {generator('penstock.engines.omap')}",
        lambda: to_verilog(Shell(MapEngine(config, door=_door()), registers)),
    )
    return filled(text, unset(config)), specs, registers


def unset(config: OmapConfig) -> list[tuple[int, Storage]]:
    """The memories that hold anything at power-up: all but the column that says which slots have a session."""
    return [(copies, m) for copies, m in memories(config) if m.width > 3]


def _round(size: int) -> int:
    return -(-size // 4096) * 4096


class Board:
    """A map's hardware in simulation, with the memory of a host and HBM. Pages lie at 0, requests and
    answers of up to `most` requests behind them, then what a handshake would take. `cleared`: a run without operations has cleared HBM.
    `messages`: the timing of requests and answers, else that of `host`; `machine`: another one."""

    def __init__(
        self,
        config: OmapConfig,
        library: Library | None,
        host: FixedLatency,
        hbm: FixedLatency,
        *,
        stall_percent: int = 0,
        seed: int = 1,
        most: int = 2000,
        messages: FixedLatency | None = None,
        cleared: bool = True,
        machine: Any = None,
    ) -> None:
        self.config, self.frames = config, Frames.of(config)
        memories = {
            f"m{k}": hbm if space else host for k, space in enumerate(ports(config).values())
        }
        if messages is not None:
            memories["m1"] = messages
        self.machine = machine or NativeMachine(
            library,
            memories,
            stall_percent=stall_percent,
            seed=seed,
            vault={"root": 0, "entropy": 0, "generation": 0},
        )
        self._most = _round(most * self.frames.size)
        self.machine.reserve(0, config.host_bytes + 2 * self._most + 2 * 4096, space=0)
        for space, size in enumerate(config.channels, 1):
            self.machine.reserve(0, size, space=space)
        self.machine.trace(0)
        self.number = 0
        if cleared:
            self.run([])

    @property
    def host(self) -> np.ndarray:
        """A copy of the host's memory."""
        return self.machine.read(0, self.config.host_bytes + 2 * self._most, space=0)

    def places(self, count: int) -> dict[str, int]:
        """Where requests and answers lie."""
        at = self.config.host_bytes
        return {"requests_at": at, "responses_at": at + self._most}

    def sealed(self, made: Sequence[Request], first: int) -> list[bytes]:
        """Frames of requests, sealed for the session's places from `first` on."""
        core, frames = AESGCM(SESSION.receive), []
        for number, request in enumerate(made, first):
            text = sessions.Request(request.key, request.value, request.operation).pack(
                self.config.key_bytes
            )
            sealed = core.encrypt(nonce_bytes(number), text, None)
            frames.append(self.frames.request(0, number, sealed))
        return frames

    def run(self, made: list[Request], *, interval: int = 0, first: int | None = None) -> Ended:
        """Carry out requests, sealed for the session's next places (from `first` on if given)."""
        number = self.number if first is None else first
        places = self.places(len(made))
        if made:
            text = b"".join(self.sealed(made, number))
            data = np.frombuffer(text, dtype=np.uint8)
            self.machine.write(places["requests_at"], data, space=0)
        ended = self.machine.run(
            {
                "requests": places["requests_at"],
                "responses": places["responses_at"],
                "pages": 0,
                "opening": self.config.host_bytes + 2 * self._most,
                "welcome": self.config.host_bytes + 2 * self._most + 4096,
                "count": len(made),
                "interval": interval,
                "handshake": 0,
            },
            watchdog=50_000,
        )
        if first is None:
            self.number += len(made)
        return ended

    def answers(self, count: int) -> list[bytes]:
        """The answers' frames of the latest run."""
        size, at = self.frames.size, self.places(count)["responses_at"]
        data = self.machine.read(at, count * size, space=0).tobytes()
        return [data[k * size : (k + 1) * size] for k in range(count)]

    def responses(self, count: int, first: int = 0, serials: int = 0) -> list[Response | None]:
        """The answers of the latest run, opened; None for one that is not this request's. `serials`: of
        operations of others."""
        core, found = AESGCM(SESSION.send), list[Response | None]()
        for number, frame in enumerate(self.answers(count), first):
            sealed = self.frames.sealed(frame, self.frames.answer_bytes)
            try:
                text = core.decrypt(nonce_bytes(number), sealed, None)
            except InvalidTag:
                found.append(None)
                continue
            answer = sessions.Answer.unpack(text, self.config.key_bytes)
            assert answer.serial == number + serials + 1
            found.append(Response(Status(answer.status), answer.key, answer.value))
        return found

    def page_bursts(self) -> dict[str, list[tuple[int, int, int]]]:
        """Address, beats and digest of all bursts of pages, in order."""
        seen: dict[str, list[tuple[int, int, int]]] = {"read": [], "write": []}
        for transfer in self.machine.trace(0):
            seen[transfer.channel].append((transfer.address, transfer.beats, transfer.digest))
        return seen

    def expected_bursts(self, steps: list[Step]) -> dict[str, list[tuple[int, int, int]]]:
        """The same of golden."""
        reads, writes = page_traffic(self.config, KEYS.page, steps)
        return {"read": bursts(self.config, reads), "write": bursts(self.config, writes)}

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.close()
