"""Designs of oblivious maps, and their runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.dsl.core.diagnostics import Span, error
from penstock.engines.base import Cycles, Design, Given, Result, Workload
from penstock.models.errors import HardwareError
from penstock.models.mapping import Storage
from penstock.models.memory import FixedLatency, Memory
from penstock.models.numerics.formats import Codes, Format, parse_format
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.cycles import bound, machine_bound, public, run
from penstock.models.omap.golden import Map, Overflow, Step
from penstock.models.omap.messages import Keys, Request, Response, open_response
from penstock.models.omap.resources import estimate
from penstock.models.omap.sessions import digest_of_map
from penstock.models.omap.shell import (
    PORTS,
    key_registers,
    port_bytes,
    register_map,
    session_registers,
)
from penstock.models.omap.storages import memories
from penstock.models.omap.traffic import bursts, page_traffic, seal_requests
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import Target
from penstock.sim.machine import Metered, Transfer, Unsupported, round_up

from .operations import operations_of

if TYPE_CHECKING:
    from penstock.hdl.modules import Parts
    from penstock.sim.native import PortSpec

__all__ = ["MapDesign", "Mapped", "SessionDesign", "joined"]

#: most operations whose pages are compared burst by burst
_TRACED = 20_000


def joined(memory: Memory, channels: int) -> Memory:
    """Return the timing of channels of HBM side by side, whose words lie in turn in each of them."""
    if channels == 1 or not isinstance(memory, FixedLatency):
        return memory
    return FixedLatency(memory.latency, channels * memory.bytes_per_cycle)


@dataclass(frozen=True, repr=False)
class MapDesign(Design):
    """A compiled map. `memory` is the timing of one channel of HBM, `link` that of the host's ports."""

    kernel: str
    plan: OmapConfig
    link: Memory
    engine_name = "omap"
    arguments = frozenset({"ops", "mix", "keys", "interval"})

    @property
    def name(self) -> str:
        return self.kernel

    def structure(self) -> Any:
        return [self.engine_name, self.target.name, self.plan.to_json()]

    @property
    def format(self) -> Format:
        return parse_format("fixed:32,0")

    @property
    def format_name(self) -> str:
        return f"bytes:{self.plan.value_bytes}"

    @property
    def registers(self) -> RegisterMap:
        return register_map(self.identity)

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        from penstock.sim.native import PortSpec

        sizes = port_bytes(self.plan)
        return tuple(
            PortSpec(f"m{k}_axi", size, True, True, space)
            for k, (size, space) in enumerate(zip(sizes, PORTS.values(), strict=True))
        )

    def component(self, parts: Parts) -> Any:
        from penstock.hdl.omap.engine import MapEngine

        return MapEngine(self.plan, self.identity)

    def memories(self, memory: Memory) -> Mapping[str, Memory]:
        timings = {"pages": self.link, "messages": self.messages(memory)}
        hbm = joined(memory, self.channels)
        return {f"m{k}": timings.get(name, hbm) for k, name in enumerate(PORTS)}

    @property
    def channels(self) -> int:
        """Channels of HBM that a port joins."""
        return max(self.plan.bus_bytes // max(self.target.bus_bytes, 16), 1)

    def messages(self, memory: Memory) -> Memory:
        """Return the timing of the channel of the card's memory in which requests and responses lie,
        and nothing else."""
        return FixedLatency(memory.latency, self.plan.host_bus_bytes)

    def on_board(self, board: Target) -> Design:
        ports = len(self.bus_ports)
        raise error(
            "E823",
            f"the map {self.name} does not fit on {board.name}: it needs {ports} memory ports, and HBM "
            "that its host does not read",
            Span.whole("--board"),
            hint="u55c has them: `penstock compile --target u55c --out DIR` writes the map's Verilog",
        )

    def resources_on(self, part: Target) -> Resources:
        return estimate(self.plan, part)

    def storages(self) -> Iterable[tuple[int, Storage]]:
        return memories(self.plan)

    def config(self) -> dict[str, Any]:
        plan = self.plan
        return plan.to_json() | {
            "load": round(plan.load, 3),
            "alpha": round(plan.alpha, 4),
            "page_bytes": plan.page_bytes,
            "hbm_bytes": plan.hbm_bytes,
            "host_bytes": plan.host_bytes,
            "link": str(self.link),
        }

    def to_json(self) -> dict[str, Any]:
        return {"config": self.plan.to_json(), "link": str(self.link)}

    def text(self) -> str:
        plan = self.plan
        return (
            f"{plan.window} requests in flight, {plan.openers} cores that open and "
            f"{plan.sealers} that seal, {plan.rounds} round{'s' * (plan.rounds > 1)} a cycle"
            + f", {self.channels} channels of HBM a port"
            * (self.channels > 1)
        )

    def workload(self, given: Given) -> Mapped:
        return Mapped(self, *operations_of(self.plan, given), given)


class SessionDesign(MapDesign):
    """A map whose clients' sessions end in it (`hdl.omap.session_engine`); `penstock serve` runs it."""

    def structure(self) -> Any:
        return [*super().structure(), "sessions"]

    @property
    def registers(self) -> RegisterMap:
        return session_registers(self.identity)

    def component(self, parts: Parts) -> Any:
        from penstock.hdl.omap.session_engine import SessionEngine

        return SessionEngine(self.plan, self.identity, digest=digest_of_map(self.plan))


class Mapped(Workload):
    """Operations on a map that is empty at first. The keys follow from the seed: they are for
    simulation alone."""

    def __init__(
        self, design: MapDesign, name: str, requests: Sequence[Request], given: Given
    ) -> None:
        self.design, self.name, self.requests = design, name, list(requests)
        self.count = self.rows = len(self.requests)
        self.interval = int(given.option("interval", 0))
        draw = random.Random(given.seed or 1)
        self.keys = Keys(*(draw.getrandbits(128) for _ in range(4)))

    @cached_property
    def _steps(self) -> list[Step] | HardwareError:
        try:
            return list(Map(self.design.plan, self.keys).run(self.requests))
        except Overflow as problem:
            return HardwareError(problem.code)

    @property
    def _places(self) -> dict[str, Any]:
        plan = self.design.plan
        at = plan.host_bytes
        return {
            "requests_at": at,
            "responses_at": at + round_up(self.count * plan.message_bytes),
        }

    def golden(self) -> Result:
        steps = self._steps
        if isinstance(steps, HardwareError):
            return Result(None, steps)
        facts: dict[str, Any] = {}
        if len(steps) <= _TRACED:
            reads, writes = page_traffic(self.design.plan, self.keys.page, steps)
            facts = {
                "pages_read": bursts(self.design.plan, reads),
                "pages_written": bursts(self.design.plan, writes),
            }
        return Result(self._codes([step.response for step in steps]), None, facts)

    def model(self, memory: Memory) -> Cycles:
        steps, plan, link = self._steps, self.design.plan, self.design.link
        if isinstance(steps, HardwareError):
            return Cycles(None, error=steps)
        shown = public(steps)
        told = run(
            plan,
            shown,
            link,
            interval=self.interval,
            messages=self.design.messages(memory),
            **self._places,
        )
        pages = len(told.pages)
        counters = {
            "operations": len(steps),
            "pages": pages,
            "conflicts": told.conflicts,
            "latency": round(told.latency),
        }
        moved = pages * plan.page_bytes + len(steps) * plan.message_bytes
        limits = bound(plan, shown, link, self.interval)
        part, facts = self.design.target, {"latency": told.parts}
        least = machine_bound(part, plan.value_bytes, len(steps), memory, self.interval)
        return Cycles(told.total, limits, counters, facts, moved, moved, bound_machine=least)

    def memory_bytes(self) -> int:
        plan = self.design.plan
        host = self._places["responses_at"] + round_up(self.count * plan.message_bytes)
        return max(host, plan.hbm_bytes)

    def moved(self) -> tuple[int, int]:
        return 0, 0

    def device_bytes(self) -> int:
        return self.design.plan.hbm_bytes

    def drive(self, machine: Metered) -> Result:
        plan, places = self.design.plan, self._places
        size = plan.message_bytes
        machine.reserve(0, places["responses_at"] + round_up(self.count * size))
        machine.reserve(0, plan.hbm_bytes, space=1)
        sealed = seal_requests(plan, self.keys.session, 0, self.requests)
        data = np.frombuffer(b"".join(sealed), dtype=np.uint8)
        machine.write(places["requests_at"], data)
        traced = self.count <= _TRACED
        try:
            if traced:
                machine.trace(0)
        except Unsupported:
            traced = False
        ended = machine.run(
            {
                **key_registers(self.keys, zeroed=True),  # as a simulated memory is
                "requests": places["requests_at"],
                "responses": places["responses_at"],
                "pages": 0,
                "count": self.count,
                "interval": self.interval,
            }
        )
        if ended.error is not None:
            return Result(None, ended.error)
        texts = machine.read(places["responses_at"], self.count * size).tobytes()
        responses = [
            open_response(plan, self.keys.session, k, texts[k * size : (k + 1) * size])
            for k in range(self.count)
        ]
        # a response that cannot be opened differs from golden's in everything
        none = Response(255, 0, bytes(plan.value_bytes))
        facts: dict[str, Any] = {}
        if traced:
            seen = machine.trace(0)
            facts = {
                "pages_read": _seen(seen, "read"),
                "pages_written": _seen(seen, "write"),
            }
        return Result(self._codes([r or none for r in responses]), None, facts, ended.counters)

    def _codes(self, responses: Sequence[Response]) -> dict[str, Codes]:
        values = np.frombuffer(b"".join(r.value for r in responses), dtype=np.uint8)
        return {
            "status": np.array([int(r.status) for r in responses], dtype=np.int64),
            "values": values.reshape(len(responses), -1).astype(np.int64),
        }


def _seen(transfers: Sequence[Transfer], channel: str) -> list[tuple[int, int, int]]:
    return [(t.address, t.beats, t.digest) for t in transfers if t.channel == channel]
