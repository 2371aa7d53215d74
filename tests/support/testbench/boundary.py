"""The boundary of a map in hardware, in a shell, before a map of 16 places that shows everything: what it
answers and how long it takes is said in Python beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, Signal
from amaranth.lib import data, memory, wiring

from penstock.hdl.memory import AXI4
from penstock.hdl.memory.axi import lent_to
from penstock.hdl.omap.answers import Answers
from penstock.hdl.omap.door import TABLE_PORTS, Door
from penstock.hdl.omap.opening_frames import OpeningFrames
from penstock.hdl.omap.requests import Requests
from penstock.hdl.shell import Shell, engine_members
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.crypto.noise import Keys
from penstock.models.errors import ErrorCode
from penstock.models.memory import Memory
from penstock.models.omap.boundary import Boundary, Frames, Ruling
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.messages import Operation, Request, Response, Status
from penstock.models.omap.session_stages import (
    Answers as AnswerTimes,
)
from penstock.models.omap.session_stages import (
    Requests as RequestTimes,
)
from penstock.models.omap.sessions import ROLES, Sessions
from penstock.models.omap.vault import KeySchedule, Role
from penstock.models.shell import Counter, EngineRegister, RegisterMap
from penstock.sim.machine import Ended
from penstock.sim.native import Library, PortSpec, build
from penstock.sim.native.machine import NativeMachine

__all__ = [
    "DIGEST",
    "SLOTS",
    "Golden",
    "PresetDoor",
    "Rig",
    "compile_boundary",
    "vault",
    "vault_values",
]

DIGEST, SLOTS = bytes(range(32)), 64
_PLACES = 16
_TAKE, _COLLECT, _FILE = 1, 2, 4
_MAP = RegisterMap(
    [
        EngineRegister("requests", 40, "the first frame"),
        EngineRegister("responses", 40, "where answers go"),
        EngineRegister("opening", 40, "the frame that opens a session"),
        EngineRegister("welcome", 40, "where its answer goes"),
        EngineRegister("handshake", 2, "1: fetch the frame, 2: write the answer"),
        EngineRegister("count", 32, "how many requests"),
        EngineRegister("interval", 32, "cycles from one request's arrival to the next one's"),
    ],
    [Counter("operations", "requests that were answered")],
    design=0,
)


def vault(seed: int) -> tuple[bytes, bytes]:
    """Root and entropy."""
    draw = random.Random(seed)
    return draw.randbytes(32), draw.randbytes(32)


def vault_values(seed: int) -> dict[str, int]:
    """The same as a machine takes it."""
    texts = zip(("root", "entropy"), vault(seed), strict=True)
    return {name: int.from_bytes(text, "little") for name, text in texts}


class PresetDoor(Door):
    """A door behind which there are sessions from power-up on, and which opens none: slot, role, keys.
    `keys`: the map's, or "derived"; then sessions are others at each power-up (`of_power`)."""

    def __init__(
        self, sessions: Sequence[tuple[int, Role, Keys]], keys: Any = None, digest: bytes = DIGEST
    ) -> None:
        super().__init__(digest=digest, slots=SLOTS)
        self.sessions, self.keys = sessions, keys

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.table = table = self.table
        self._lend(m)
        at = Signal(range(len(self.sessions) + 1))
        there = self.valid if self.keys == "derived" else Const(1)
        if self.keys == "derived":
            self._derive(m, Const(0))
        elif self.keys is not None:
            m.d.comb += self.there.eq(self.valid & (at == len(self.sessions)))
            for name in ("page", "pairs", "hash"):
                m.d.comb += getattr(self, name).eq(getattr(self.keys, name))
        m.d.comb += [self.idle.eq(1), table.put.eq(there & (at != len(self.sessions)))]
        m.d.sync += at.eq(at + table.put_taken)
        for k, (slot, role, keys) in enumerate(self.sessions):
            with m.If(at == k):
                m.d.comb += [table.put_slot.eq(slot), table.put_role.eq(ROLES.index(role))]
                for name in ("receive", "send"):
                    text = int.from_bytes(getattr(keys, name), "little")
                    fresh = self.entropy if self.keys == "derived" else 0
                    m.d.comb += getattr(table, f"put_{name}").eq(text ^ fresh)
        return m


def of_power(keys: Keys, entropy: bytes) -> Keys:
    """The keys that a session of a `PresetDoor` has behind this power-up."""
    mixed = lambda key: bytes(a ^ b for a, b in zip(key, entropy, strict=True))
    return replace(keys, receive=mixed(keys.receive), send=mixed(keys.send))


class _Engine(wiring.Component):
    def __init__(self, config: OmapConfig, seed: int, door: Any) -> None:
        self.config, self.seed, self.register_map, self.door = config, seed, _MAP, door
        super().__init__(engine_members(_MAP, [AXI4(data_bytes=config.host_bus_bytes)]))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, registers = self.config, self.registers
        self.active, self.serial = Signal(), Signal(64, reset_less=True)
        # no reset reaches keys, sessions and handshakes
        m.domains.steady = ClockDomain("steady", local=True, reset_less=True)
        m.d.comb += ClockSignal("steady").eq(ClockSignal("sync"))
        m.submodules.door = DomainRenamer("steady")(self.door)
        door = self.door
        m.submodules.requests = requests = Requests(config, slots=SLOTS)
        m.submodules.answers = answers = Answers(config, slots=SLOTS)
        m.submodules.opening = opening = OpeningFrames(config)
        wiring.connect(m, requests.ruled, answers.ruled)
        begin, retired = Signal(), Signal(33)
        take = registers.handshake[0]
        root, entropy = (int.from_bytes(text, "little") for text in vault(self.seed))
        m.d.comb += [
            door.valid.eq(1),
            door.root.eq(root),
            door.entropy.eq(entropy),
            begin.eq((self.start & ~take) | opening.taken),
            opening.take.eq(self.start & take),
            opening.address.eq(registers.opening),
            opening.to.eq(registers.welcome),
            door.serial.eq(self.serial),
            requests.start.eq(begin),
            requests.active.eq(self.active),
            requests.address.eq(registers.requests),
            requests.interval.eq(registers.interval),
            requests.count.eq(registers.count),
            requests.retired.eq(retired),
            answers.start.eq(begin),
            answers.serial.eq(self.serial),
            answers.base.eq(registers.responses),
        ]
        for name in ("start", "slot", "asked", "first", "commit"):
            m.d.comb += getattr(door, name).eq(getattr(opening, name))
        for name in ("idle", "ready", "told_slot", "refusal", "message"):
            m.d.comb += getattr(opening, name).eq(getattr(door, name))
        for name in TABLE_PORTS:
            unit = answers if name in ("seal_slot", "send") else requests
            ours, theirs = getattr(unit, name), getattr(door, name)
            reads = unit.signature.members[name].flow is wiring.In
            m.d.comb += ours.eq(theirs) if reads else theirs.eq(ours)
        fetching, ended = Signal(), Signal()
        with m.If(self.start):
            m.d.sync += fetching.eq(take)
        with m.If(begin):
            m.d.sync += [self.active.eq(1), fetching.eq(0)]
        m.d.comb += [
            ended.eq(self.active & (answers.answered == registers.count) & answers.idle),
            opening.collect.eq(ended & registers.handshake[1]),
            self.done.eq(ended & (~registers.handshake[1] | opening.told)),
        ]
        with m.If(self.done):
            m.d.sync += [self.active.eq(0), self.serial.eq(self.serial + registers.count)]
        given = self._answer(m, requests, answers)
        m.d.sync += retired.eq(retired + given)
        m.d.comb += self.counters.operations.eq(given)
        lent_to(m, self.m0, requests.bus, (opening.reads, fetching))
        lent_to(m, self.m0, answers.bus, (opening.writes, ended))
        for failed, code in (
            (requests.bus_error | opening.read_error, ErrorCode.BUS_READ),
            (answers.bus_error | opening.write_error, ErrorCode.BUS_WRITE),
        ):
            with m.If(failed):
                m.d.comb += [self.error.eq(1), self.report.code.eq(code.value)]
        return m

    def _answer(self, m: Module, requests: Any, answers: Any) -> Any:
        """One request after another."""
        config = self.config
        blocks, size = config.message_blocks, config.value_bytes
        entry = data.StructLayout({"there": 1, "value": 8 * size})
        m.submodules.places = places = memory.Memory(shape=entry, depth=_PLACES, init=[])
        read, write = places.read_port(domain="comb"), places.write_port()
        key, operation = Signal(64), Signal(8)
        text, old = Signal(128 * blocks), Signal(entry)
        row, slot, given = Signal(range(blocks + 2)), Signal(range(config.window)), Signal()
        status = Signal(8)
        known = (operation >= Operation.GET) & (operation <= Operation.DELETE)
        with m.If(~known):
            m.d.comb += status.eq(Status.UNKNOWN)
        with m.Elif(~old.there):
            m.d.comb += status.eq(Status.MISSING)
        value = Signal(8 * size)
        m.d.comb += value.eq(old.value & (known & old.there).replicate(8 * size))
        answer = Cat(key, value, status, Const(0, 128 * blocks))
        m.d.comb += [
            requests.slot.eq(slot),
            requests.row.eq(row),
            read.addr.eq(key[:4]),
            write.addr.eq(key[:4]),
            write.data.value.eq(text[64:]),
            answers.block.eq(row),
            answers.data.eq(Array(answer.word_select(k, 128) for k in range(blocks))[row]),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += requests.head.ready.eq(1)
                with m.If(requests.head.valid):
                    m.d.sync += [key.eq(requests.head.p.key), row.eq(0)]
                    m.d.sync += operation.eq(requests.head.p.operation)
                    m.next = "READ"
            with m.State("READ"):
                m.d.sync += row.eq(row + 1)
                with m.If(row != 0):
                    m.d.sync += text.eq(Cat(text[128:], requests.data))
                with m.If(row == blocks):
                    m.d.sync += [row.eq(0), old.eq(read.data)]
                    m.next = "ROOM"
            with m.State("ROOM"), m.If(answers.room):
                m.d.comb += [
                    answers.taken.eq(1),
                    write.en.eq((operation == Operation.PUT) | (operation == Operation.DELETE)),
                    write.data.there.eq(operation == Operation.PUT),
                ]
                m.next = "PUT"
            with m.State("PUT"):
                m.d.comb += answers.put.eq(1)
                m.d.sync += row.eq(row + 1)
                with m.If(row == blocks - 1):
                    m.d.comb += given.eq(1)
                    m.d.sync += slot.eq(slot + 1)
                    m.next = "IDLE"
        m.d.comb += answers.given.eq(given)
        return given


def compile_boundary(config: OmapConfig, seed: int = 0, door: Any = None) -> Library:
    """The hardware, for simulation, with the vault of this seed. `door`: in place of the usual one."""
    engine = _Engine(config, seed, door or Door(digest=DIGEST, slots=SLOTS))
    port = PortSpec("m0_axi", config.host_bus_bytes, True, True, 0)
    verilog = to_verilog(Shell(engine, _MAP))
    level = "-O0" if isinstance(door, PresetDoor) else None  # it compiles sooner, for short runs
    return build(verilog, ports=[port], register_map=_MAP, optimise=level)


class Golden:
    """The same in Python."""

    def __init__(
        self,
        config: OmapConfig,
        seed: int = 0,
        *,
        entropy: bytes = b"",
        answer: Callable[[Request], Response] | None = None,
    ) -> None:
        self.config, self.frames, self.seed = config, Frames.of(config), seed
        root, usual = vault(seed)
        self.keys = KeySchedule(root, entropy or usual, DIGEST)
        self._answer = answer or self._places_answer
        self.sessions = Sessions(self.keys, DIGEST, config.value_bytes, SLOTS)
        self.boundary = Boundary(self.frames, self.sessions, self.keys.incarnation)
        self.serial, self._places = 0, dict[int, bytes]()

    def run(
        self, texts: Sequence[bytes], opening: bytes = b"", collect: bool = False
    ) -> list[bytes]:
        """Return the answers' frames, that to a handshake behind them."""
        if opening:
            self.boundary.open(opening, self.serial)
        answers = [self._step(self.boundary.ask(text)) for text in texts]
        return answers + [self.boundary.collect()] * collect

    def _step(self, ruling: Ruling) -> bytes:
        self.serial += 1
        return self.boundary.tell(ruling, self._answer(ruling.request), self.serial)

    def _places_answer(self, request: Request) -> Response:
        operation, key, value = request
        none, place = bytes(self.config.value_bytes), key % _PLACES
        if operation not in (1, 2, 3):
            return Response(Status.UNKNOWN, key, none)
        old = self._places.pop(place, None) if operation != 1 else self._places.get(place)
        if operation == Operation.PUT:
            self._places[place] = value
        return Response(Status.MISSING if old is None else Status.FOUND, key, old or none)

    def cycles(self, count: int, host: Memory, places: dict[str, int], interval: int = 0) -> int:
        """Return the cycles of a run without handshakes."""
        config, blocks = self.config, self.config.message_blocks
        asks = RequestTimes(config, host, places["requests"])
        tells = AnswerTimes(config, host, places["responses"])
        free, retired, total, begun = 0, [], 1, -1
        for number in range(count):
            room = retired[number - config.window] + 1 if number >= config.window else 0
            _, _, plain = asks.open(number, max(number * interval + 1, room), begun)
            begun = max(plain + 1, free)
            ready = max(begun + blocks + 2, tells.room(number))
            retired.append(ready + blocks)
            free = ready + blocks + 1
            _, idle = tells.give(number, ready, ready + 2)
            total = max(total, idle)
        return total


class Rig:
    """The hardware with a host's memory."""

    def __init__(
        self,
        config: OmapConfig,
        library: Library,
        memories: Any,
        at: int = 0,
        hbm: Sequence[int] = (),
        vault: dict[str, int] | None = None,
        state: bool = False,
    ) -> None:
        """`at`: where frames lie, behind pages; `hbm`: bytes of its spaces; `state`: the map has a log."""
        self.config, self.frames = config, Frames.of(config)
        if not isinstance(memories, dict):
            memories = {"m0": memories}
        self.machine = NativeMachine(library, memories, vault=vault)
        self.machine.reserve(0, at + (1 << 20), space=0)
        for space, size in enumerate(hbm, 1):
            self.machine.reserve(0, size, space=space)
        places = {"requests": 0, "responses": 1 << 18, "opening": 1 << 19, "welcome": 3 << 18}
        places |= {"log": 5 << 17, "snapshot": 7 << 17} if state else {}
        self.places = {name: at + place for name, place in places.items()}
        self.files_walk = 0  # what the host asks for beside files, which is nothing

    def run(
        self,
        texts: Sequence[bytes],
        opening: bytes = b"",
        collect: bool = False,
        interval: int = 0,
        file: bool = False,
        walk: int = 0,
    ) -> tuple[Ended, list[bytes]]:
        """Carry out frames; return how it ended, and the answers. `file`: they are records; `walk`: buckets of a
        snapshot."""
        for name, text in (("requests", b"".join(texts)), ("opening", opening)):
            if text:
                self._write(self.places[name], text)
        flags = _TAKE * bool(opening) | _COLLECT * collect | _FILE * file
        given = {**self.places, "count": len(texts), "interval": interval, "handshake": flags}
        if "snapshot" in self.places:
            given["walk"] = self.files_walk if file else walk
        ended = self.machine.run(given, watchdog=1 << 20)
        answers = self.frames_at("responses", len(texts))
        if collect:
            welcome = self.frames.welcome_beats * self.frames.bus_bytes
            answers.append(self._read(self.places["welcome"], welcome))
        return ended, answers

    def frames_at(self, place: str, count: int) -> list[bytes]:
        """Frames that lie one behind another."""
        size = self.frames.size
        return [self._read(self.places[place] + size * k, size) for k in range(count)]

    def reset(self) -> None:
        """A soft reset, and a hard one: both leave the power on."""
        self.machine.session.stop()
        self.machine.session.reset()

    def _write(self, at: int, text: bytes) -> None:
        self.machine.write(at, np.frombuffer(text, dtype=np.uint8), space=0)

    def _read(self, at: int, size: int) -> bytes:
        return self.machine.read(at, size, space=0).tobytes()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.close()
