"""Oblivious maps for tests: a small configuration, requests, and a dict that answers them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from penstock.cache import generator, kept
from penstock.hdl.omap.engine import MapEngine
from penstock.hdl.shell import Shell
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.memory import FixedLatency
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.golden import Step
from penstock.models.omap.messages import (
    Keys,
    Operation,
    Request,
    Response,
    Status,
    open_response,
)
from penstock.models.omap.shell import PORTS, key_registers, port_bytes, register_map
from penstock.models.omap.storages import memories
from penstock.models.omap.traffic import bursts, page_traffic, seal_requests
from penstock.sim.machine import Ended
from penstock.sim.native import Library, PortSpec, build
from penstock.sim.native.machine import NativeMachine
from testbench.memories import filled

__all__ = ["KEYS", "Board", "Mirror", "compile_map", "config", "hbm_ports", "requests"]

_draw = random.Random(19)
KEYS = Keys(*(_draw.getrandbits(128) for _ in range(4)))


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
    return OmapConfig(**{**standard, **changes})


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
    `mix`: how often GET, PUT and DELETE."""
    draw = random.Random(seed)
    keys = config.capacity * 3 // 2 if keys is None else keys
    kinds = [kind for kind, often in zip(Operation, mix, strict=True) for _ in range(often)]
    made = []
    for _ in range(count):
        kind = draw.choice((0, 4, 255)) if unknown and draw.random() < 0.05 else draw.choice(kinds)
        size = config.value_bytes
        value = draw.randbytes(size) if kind == Operation.PUT else bytes(size)
        made.append(Request(kind, draw.randrange(keys), value))
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


def compile_map(config: OmapConfig) -> Library:
    """The hardware of a map, for simulation."""
    registers = register_map(0)
    ports = [
        PortSpec(f"m{k}_axi", size, True, True, space)
        for k, (size, space) in enumerate(zip(port_bytes(config), PORTS.values(), strict=True))
    ]
    text = kept(
        f"{config!r} {generator('penstock.engines.omap')}",
        lambda: to_verilog(Shell(MapEngine(config), registers)),
    )
    return build(filled(text, memories(config)), ports=ports, register_map=registers)


def hbm_ports(timing: FixedLatency) -> dict[str, FixedLatency]:
    """The ports that reach HBM, with this timing."""
    return {f"m{k}": timing for k, space in enumerate(PORTS.values()) if space}


def _round(size: int) -> int:
    return -(-size // 4096) * 4096


class Board:
    """A map's hardware in simulation, with the memory of a host and HBM. Pages lie at 0, requests and
    responses of up to `most` requests behind them. `zeroed`: the first run does not clear HBM; the
    first one writes the registers of `set_up`.
    `messages`: the timing of requests and responses, else that of `host`."""

    def __init__(
        self,
        config: OmapConfig,
        library: Library,
        host: FixedLatency,
        hbm: FixedLatency,
        *,
        stall_percent: int = 0,
        seed: int = 1,
        most: int = 20_000,
        messages: FixedLatency | None = None,
        zeroed: bool = True,
    ) -> None:
        self.config, self.set_up = config, key_registers(KEYS, zeroed=zeroed)
        memories = {f"m{k}": hbm if space else host for k, space in enumerate(PORTS.values())}
        if messages is not None:
            memories["m1"] = messages
        self.machine = NativeMachine(library, memories, stall_percent=stall_percent, seed=seed)
        self._most = _round(most * config.message_bytes)
        self.machine.reserve(0, config.host_bytes + 2 * self._most, space=0)
        self.machine.reserve(0, config.hbm_bytes, space=1)
        self.machine.trace(0)
        self.number = 0

    @property
    def host(self) -> np.ndarray:
        """A copy of the host's memory."""
        return self.machine.read(0, self.config.host_bytes + 2 * self._most, space=0)

    def places(self, count: int) -> dict[str, int]:
        """Where requests and responses lie."""
        at = self.config.host_bytes
        return {"requests_at": at, "responses_at": at + self._most}

    def run(
        self,
        made: list[Request],
        *,
        interval: int = 0,
        first: int | None = None,
    ) -> Ended:
        """Carry out requests, sealed for the session's next places (from `first` on if given)."""
        config = self.config
        number = self.number if first is None else first
        places = self.places(len(made))
        texts = seal_requests(config, KEYS.session, number, made)
        sealed = b"".join(texts)
        self.machine.write(places["requests_at"], np.frombuffer(sealed, dtype=np.uint8), space=0)
        keys, self.set_up = self.set_up, {}
        ended = self.machine.run(
            {
                **keys,
                "requests": places["requests_at"],
                "responses": places["responses_at"],
                "pages": 0,
                "count": len(made),
                "interval": interval,
            },
            watchdog=50_000,
        )
        self.number += len(made)
        return ended

    def responses(self, count: int, first: int = 0) -> list[Response | None]:
        """The responses of the latest run, opened."""
        size = self.config.message_bytes
        at = self.places(count)["responses_at"]
        data = self.machine.read(at, count * size, space=0).tobytes()
        return [
            open_response(self.config, KEYS.session, first + k, data[k * size : (k + 1) * size])
            for k in range(count)
        ]

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
