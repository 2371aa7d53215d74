"""Designs of oblivious maps, and their runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.dsl.core.diagnostics import Span, error
from penstock.engines.base import Cycles, Design, Given, Result, Workload
from penstock.models.crypto import gcm, noise
from penstock.models.errors import HardwareError
from penstock.models.mapping import Storage
from penstock.models.memory import FixedLatency, Memory
from penstock.models.memory.dram.memory import Dram
from penstock.models.numerics.formats import Codes, Format, parse_format
from penstock.models.omap.boundary import Frames
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.cycles import bound, machine_bound, public, run
from penstock.models.omap.golden import Map, Overflow, Step
from penstock.models.omap.messages import Request, Response, Status
from penstock.models.omap.resources import estimate
from penstock.models.omap.sessions import (
    ALLOWED,
    ROLES,
    Answer,
    Sessions,
    Welcome,
    digest_of_map,
    opening_cycles,
    prologue,
)
from penstock.models.omap.sessions import Request as Asked
from penstock.models.omap.shell import Handshake, port_bytes, ports, register_map
from penstock.models.omap.storages import memories
from penstock.models.omap.traffic import bursts, page_traffic
from penstock.models.omap.vault import KeySchedule, Role, boot_cycles
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import Target
from penstock.sim.machine import Metered, Transfer, Unsupported, round_up

from .operations import operations_of

if TYPE_CHECKING:
    from penstock.hdl.modules import Parts
    from penstock.sim.native import PortSpec

#: most operations whose pages are compared burst by burst
_TRACED = 20_000


def joined(memory: Memory, channels: int) -> Memory:
    """Return the timing of channels of HBM side by side, whose words lie in turn in each of them."""
    if channels == 1:
        return memory
    if isinstance(memory, FixedLatency):
        return FixedLatency(memory.latency, channels * memory.bytes_per_cycle)
    assert isinstance(memory, Dram)
    parts = memory.timing.organisation
    wide = replace(parts, width=channels * parts.width)
    return replace(memory, timing=replace(memory.timing, organisation=wide))


def joins(config: OmapConfig, part: Target) -> int:
    """Return the channels of HBM that a map's port joins to a word."""
    return max(config.bus_bytes // max(part.bus_bytes, 16), 1)


@dataclass(frozen=True, repr=False)
class MapDesign(Design):
    """A compiled map.

    * `kernel`: the kernel's name.
    * `memory`: the timing of one channel of HBM; `link`: that of the port to the pages in the host's memory.
    * `state`: the device writes its state, sealed, into files outside it, from which it can be restored (`models.omap.state`).
    """

    kernel: str
    plan: OmapConfig
    link: Memory
    state: bool = False
    engine_name = "omap"
    arguments = frozenset({"ops", "mix", "keys", "interval"})

    @property
    def name(self) -> str:
        return self.kernel

    def structure(self) -> Any:
        return [self.engine_name, self.target.name, self.plan.to_json(), *["state"] * self.state]

    @property
    def format(self) -> Format:
        # a map computes with no numbers; the estimate of the clock asks for a format
        return parse_format("fixed:32,0")

    @property
    def format_name(self) -> str:
        return f"bytes:{self.plan.value_bytes}"

    @property
    def registers(self) -> RegisterMap:
        return register_map(self.plan, self.identity, self.state)

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        from penstock.sim.native import PortSpec

        sizes = port_bytes(self.plan, self.state)
        return tuple(
            PortSpec(f"m{k}_axi", size, True, True, space)
            for k, (size, space) in enumerate(zip(sizes, self._ports.values(), strict=True))
        )

    @property
    def own_ports(self) -> int:
        return super().own_ports * self.channels

    @property
    def _ports(self) -> dict[str, int]:
        return ports(self.plan, self.state)

    def component(self, parts: Parts) -> Any:
        from penstock.hdl.omap.engine import MapEngine

        digest = digest_of_map(self.plan)
        return MapEngine(self.plan, self.identity, digest=digest, state=self.state)

    def memories(self, memory: Memory) -> Mapping[str, Memory]:
        messages = self.messages(memory)
        timings = {"pages": self.link, **dict.fromkeys(("messages", "log", "snapshot"), messages)}
        hbm = joined(memory, self.channels)
        return {f"m{k}": timings.get(name, hbm) for k, name in enumerate(self._ports)}

    @property
    def channels(self) -> int:
        """Channels of HBM that a port joins."""
        return joins(self.plan, self.target)

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
        return estimate(self.plan, part, self.state)

    def storages(self) -> Iterable[tuple[int, Storage]]:
        return memories(self.plan, self.state)

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
            f"{plan.window} requests in flight, {plan.cores.openers} cores that open and "
            f"{plan.cores.sealers} that seal, {plan.cores.rounds} round{'s' * (plan.cores.rounds > 1)} a cycle"
            + f", {self.channels} channels of HBM a port" * (self.channels > 1)
            + f", dealt over {plan.access.dealt}" * (plan.access.dealt > 1)
        )

    def workload(self, args: Given) -> Mapped:
        return Mapped(self, *operations_of(self.plan, args), args)


class Mapped(Workload):
    """Operations of one writer's session on a map that is empty at first. What the vault gives follows
    from the seed: it is for simulation alone."""

    def __init__(
        self, design: MapDesign, name: str, requests: Sequence[Request], args: Given
    ) -> None:
        self.design, self.name, self.requests = design, name, list(requests)
        self.args, self.rows = args, self.count
        self.interval = int(args.option("interval", 0))
        draw = random.Random(args.seed or 1)
        root, entropy, self._ephemeral = (draw.randbytes(32) for _ in range(3))
        self.schedule = KeySchedule(root, entropy, digest_of_map(design.plan))
        self.frames = Frames.of(design.plan)
        texts = {"root": root, "entropy": entropy}
        self.set_up = boot_cycles() + opening_cycles(Role.WRITER, first=True)
        self.vault = {name: int.from_bytes(text, "little") for name, text in texts.items()}
        self.vault["generation"] = 0

    @property
    def count(self) -> int:
        return len(self.requests)

    @cached_property
    def _steps(self) -> list[Step] | HardwareError:
        try:
            return list(Map(self.design.plan, self.schedule.of_map).run(self.requests))
        except Overflow as problem:
            return HardwareError(problem.code)

    @property
    def _places(self) -> dict[str, int]:
        """Where pages, frames and a handshake lie, and the first byte behind them."""
        frames, at = self.frames, self.design.plan.host_bytes
        sizes = {
            "requests": self.count * frames.size,
            "responses": self.count * frames.size,
            "opening": frames.opening_beats * frames.bus_bytes,
            "welcome": frames.welcome_beats * frames.bus_bytes,
        }
        places = {"pages": 0}
        for name, size in sizes.items():
            places[name], at = at, at + round_up(size)
        return {**places, "end": at}

    def golden(self) -> Result:
        steps = self._steps
        if isinstance(steps, HardwareError):
            return Result(None, steps)
        facts: dict[str, Any] = {}
        if len(steps) <= _TRACED:
            reads, writes = page_traffic(self.design.plan, self.schedule.of_map.page, steps)
            facts = {
                "pages_read": bursts(self.design.plan, reads),
                "pages_written": bursts(self.design.plan, writes),
            }
        responses = [
            step.response
            if request.operation in ALLOWED[Role.WRITER]
            else Response(Status.REFUSED, request.key, bytes(self.design.plan.value_bytes))
            for request, step in zip(self.requests, steps, strict=True)
        ]
        return Result(self._codes(responses), None, facts)

    def model(self, memory: Memory) -> Cycles:
        steps, plan, link = self._steps, self.design.plan, self.design.link
        if isinstance(steps, HardwareError):
            return Cycles(None, error=steps)
        shown, places = public(steps), self._places
        cycles = run(
            plan,
            shown,
            link,
            requests_at=places["requests"],
            responses_at=places["responses"],
            interval=self.interval,
            messages=self.design.messages(memory),
        )
        pages = len(cycles.pages)
        counters = {
            "operations": len(steps),
            "pages": pages,
            "conflicts": cycles.conflicts,
            "latency": round(cycles.latency),
        }
        moved = pages * plan.page_bytes + len(steps) * self.frames.size
        limits = bound(plan, shown, link, self.interval)
        part, facts = self.design.target, {"latency": cycles.parts}
        least = machine_bound(
            part, plan.key_bytes + plan.value_bytes, len(steps), memory, self.interval
        )
        return Cycles(cycles.total, limits, counters, facts, moved, moved, bound_machine=least)

    def memory_bytes(self) -> int:
        return max(self._places["end"], self.design.plan.hbm_bytes)

    def moved(self) -> tuple[int, int]:
        return 0, 0

    def device_bytes(self) -> int:
        return self.design.plan.hbm_bytes

    def drive(self, machine: Metered) -> Result:
        places = self._places
        machine.reserve(0, places.pop("end"))
        plan = self.design.plan
        for space, size in enumerate(plan.channels, 1):
            machine.reserve(0, size, space=space)
        fixed = {**places, "count": 0, "interval": self.interval}
        session = self._opened(machine, fixed)
        if isinstance(session, HardwareError):
            return Result(None, session)
        self._put(machine, "requests", b"".join(self._sealed(session)))
        traced = self.count <= _TRACED
        try:
            if traced:
                machine.trace(0)
        except Unsupported:
            traced = False
        ended = machine.run({**fixed, "count": self.count, "handshake": 0})
        if ended.error is not None:
            return Result(None, ended.error)
        facts: dict[str, Any] = {}
        if traced:
            seen = machine.trace(0)
            facts = {"pages_read": _seen(seen, "read"), "pages_written": _seen(seen, "write")}
        codes = self._codes(self._answered(machine, session))
        return Result(codes, None, facts, ended.counters)

    def _put(self, machine: Metered, name: str, text: bytes) -> None:
        machine.write(self._places[name], np.frombuffer(text, dtype=np.uint8))

    def _opened(self, machine: Metered, fixed: Mapping[str, int]) -> noise.Keys | HardwareError:
        """Power the device up, and open the session: runs of their own, which are not counted. Returns the
        session's keys, others than the device's where its answer is not golden's."""
        keys, role, digest = self.schedule, Role.WRITER, digest_of_map(self.design.plan)
        agreed, shared = prologue(digest, role), keys.role_key(role) is not None
        first = noise.first_message(keys.public, agreed, self._ephemeral, shared)
        self._put(machine, "opening", self.frames.opening(0, role, first))
        ended = machine.run({**fixed, "handshake": 0}, counted=False)
        if ended.error is None:
            both = int(Handshake.TAKE | Handshake.COLLECT)
            ended = machine.run({**fixed, "handshake": both}, counted=False)
        if ended.error is not None:
            return ended.error
        sessions = Sessions(
            keys, digest, self.design.plan.value_bytes, key_bytes=self.design.plan.key_bytes
        )
        welcome = Welcome(keys.incarnation, 0, 0, False)
        meant = sessions.shake(0, ROLES.index(role), first, welcome)
        assert isinstance(meant, noise.Keys)
        size = self.frames.welcome_beats * self.frames.bus_bytes
        answer = self.frames.welcome(machine.read(fixed["welcome"], size).tobytes())
        same = answer == meant.message
        return meant if same else noise.Keys(answer, bytes(32), bytes(32), b"")

    def _sealed(self, session: noise.Keys) -> list[bytes]:
        frames, size = [], self.design.plan.key_bytes
        for number, request in enumerate(self.requests):
            text = Asked(request.key, bytes(request.value), request.operation).pack(size)
            sealed = gcm.seal(session.receive, noise.nonce_bytes(number), text)
            frames.append(self.frames.request(0, number, sealed))
        return frames

    def _answered(self, machine: Metered, session: noise.Keys) -> list[Response]:
        """Return the answers; one that does not open differs from golden's in everything."""
        size, at = self.frames.size, self._places["responses"]
        texts = machine.read(at, self.count * size).tobytes()
        responses = []
        for number in range(self.count):
            frame = texts[number * size : (number + 1) * size]
            sealed = self.frames.sealed(frame, self.frames.answer_bytes)
            text = gcm.open_(session.send, noise.nonce_bytes(number), sealed)
            answer = Answer(0, bytes(self.design.plan.value_bytes), 255, 0)
            if text is not None:
                answer = Answer.unpack(text, self.design.plan.key_bytes)
            responses.append(Response(answer.status, answer.key, answer.value))
        return responses

    def _codes(self, responses: Sequence[Response]) -> dict[str, Codes]:
        values = np.frombuffer(b"".join(r.value for r in responses), dtype=np.uint8)
        return {
            "status": np.array([int(r.status) for r in responses], dtype=np.int64),
            "values": values.reshape(len(responses), -1).astype(np.int64),
        }


def _seen(transfers: Sequence[Transfer], channel: str) -> list[tuple[int, int, int]]:
    return [(t.address, t.beats, t.digest) for t in transfers if t.channel == channel]
