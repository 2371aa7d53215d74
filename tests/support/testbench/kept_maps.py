# amaranth: UnusedElaboratable=no
"""A map that keeps its state, in Verilator and golden at once. Sessions are there from power-up on, or begin with
handshakes of `quick_products`; keys are derived."""

from __future__ import annotations

import random
from functools import partial
from unittest.mock import patch

import pytest

from penstock.designs.cache import generator, kept
from penstock.hdl.omap.engine import MapEngine
from penstock.hdl.shell import Shell
from penstock.hdl.shell.verilog import to_verilog
from penstock.host.omap.handshake import Session
from penstock.models.crypto import noise
from penstock.models.memory import FixedLatency
from penstock.models.omap.boundary import Header
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.cycles import public, run
from penstock.models.omap.kept_device import KeptDevice
from penstock.models.omap.session_stages import collected, fetched, filed, walked
from penstock.models.omap.sessions import ROLES, digest_of_map, opening_cycles
from penstock.models.omap.shell import port_bytes, ports
from penstock.models.omap.state import HEAD, Kind
from penstock.models.omap.traffic import bursts, page_traffic
from penstock.models.omap.vault import Role
from penstock.models.shell import Status
from penstock.sim.machine import Hung
from penstock.sim.native import Library, PortSpec, build
from penstock.sim.native.results import RegisterError

from .boundary import PresetDoor, Rig, of_power
from .memories import filled
from .omap import config, unset
from .quick_products import quick_hardware
from .session_clients import Client

__all__ = ["ROOT", "SHAPE", "Both", "begun_snapshot", "compiled"]

SHAPE = config(
    capacity=12,
    bins=6,
    hbm_bins=2,
    slots=8,
    buckets=2,
    bucket_slots=8,
    request_openers=2,
    responders=2,
)
_HOST, _HBM = FixedLatency(30, 32), FixedLatency(20, 128)
ROOT = bytes(range(32))
_DRAW = random.Random(11)
_SESSIONS = [
    (slot, role, noise.Keys(b"", _DRAW.randbytes(32), _DRAW.randbytes(32), b""))
    for slot, role in ((0, Role.WRITER), (1, Role.READER), (63, Role.KEEPER))
]


def compiled(
    shape: OmapConfig, handshakes: bool = False, note: str = "", optimise: str | None = None
) -> Library:
    """Its hardware, with sessions in three slots from power-up on, or none. `note`: what else it is;
    `optimise`: as of `build`, for runs that are worth it."""
    digest = digest_of_map(shape)
    door = None if handshakes else PresetDoor(_SESSIONS, "derived", digest)
    engine = MapEngine(shape, door=door, digest=digest, state=True)
    specs = [
        PortSpec(f"m{k}_axi", size, True, True, space)
        for k, (size, space) in enumerate(
            zip(port_bytes(shape, True), ports(shape, True).values(), strict=True)
        )
    ]
    sessions = "quick handshakes" if handshakes else "sessions of a power-up"
    with quick_hardware():
        text = kept(
            f"{shape!r} state, {sessions}{note} {generator('penstock.engines.omap')}",
            lambda: to_verilog(Shell(engine, engine.register_map)),
        )
    return build(
        filled(text, unset(shape)),
        ports=specs,
        register_map=engine.register_map,
        optimise=optimise,
    )


class _Interrupted(Exception):
    pass


def begun_snapshot(device: KeptDevice) -> bytes:
    """Let a snapshot begin, if none is under way; return its head, which the device does not give."""
    if device._snapshot is None:
        device._entries(device._log, 0)
    head = b"".join(device._out[Kind.SNAPSHOT])
    device._out[Kind.SNAPSHOT].clear()
    return head


class Both:
    """A device that is powered up, in hardware and golden. All that either does, both must. `preset`: with
    sessions; `pages`: what is written to the host's pages too, and no page has a count twice."""

    def __init__(
        self,
        library,
        seed,
        shape=SHAPE,
        root=ROOT,
        preset=True,
        pages=False,
        hbm=_HBM,
        generation=0,
    ):
        entropy = random.Random(seed).randbytes(32)
        self.config = shape
        self.golden = KeptDevice(shape, root, entropy, generation=generation)
        self.frames, self.keys = self.golden.frames, self.golden._keys
        vault = {
            "root": int.from_bytes(root, "little"),
            "entropy": int.from_bytes(entropy, "little"),
            "generation": generation,
        }
        timings = {
            f"m{k}": hbm if space else _HOST for k, space in enumerate(ports(shape, True).values())
        }
        self.rig = Rig(shape, library, timings, shape.host_bytes, shape.channels, vault, state=True)
        self.clients = []
        for slot, role, given in _SESSIONS if preset else ():
            keys = of_power(given, entropy)
            self.golden._boundary._sessions.take(slot, ROLES.index(role), keys)
            self.clients.append(client := Client(self, slot, role))
            client.session = Session(keys.receive, keys.send, b"")
        self.steps, self.shaken = [], False
        self.counts = set() if pages else None
        if pages:
            self.rig.machine.trace(0)
        step = self.golden.device.step
        self.golden.device.step = lambda request: self.steps.append(step(request)) or self.steps[-1]
        ended, _ = self.rig.run([])
        assert ended.error is None

    def _cycles(self, count, **given):
        at = self.rig.places
        places = {
            "requests_at": at["requests"],
            "responses_at": at["responses"],
            "log_at": at["log"],
            "snapshot_at": at["snapshot"],
        }
        shown = public(self.steps)
        self._traced()
        return run(self.config, shown, _HOST, **places, **given).total if count else 1

    @property
    def serial(self):
        return self.golden.serial

    def send_key(self, slot):
        """Of the session that has this slot."""
        return self.golden._boundary._sessions._table[slot].keys.send

    def _traced(self, whole=True):
        """Pages that this run wrote are golden's, each with a count of its own. `whole`: to the run's end."""
        if self.counts is not None:
            key = self.keys.of_map.page
            _, writes = page_traffic(self.config, key, self.steps)
            meant = bursts(self.config, writes)
            seen = [t for t in self.rig.machine.trace(0) if t.channel == "write"]
            found = [(t.address, t.beats, t.digest) for t in seen]
            if whole:
                assert found == meant
            else:  # the last one may be cut off
                assert found[:-1] == meant[: len(found)][:-1]
            sealed = [(o.page, o.counter + 1) for step in self.steps for o in step.opened]
            assert len({*sealed}) == len(sealed) and self.counts.isdisjoint(sealed)
            self.counts.update(sealed)
        self.steps.clear()

    def cut(self, frames, opening, limit, walk=0):
        """A run that ends so many cycles behind its beginning. Nothing more is to be had of this device."""
        if walk and self.golden._log is not None:
            limit += walked(self.config, min(walk, self._left), self.golden._snapshot is None)
        begun = partial(self.rig.machine.run, limit=limit)
        with pytest.raises(Hung), patch.object(self.rig.machine, "run", begun):
            self.rig.run(frames, opening, walk=walk)
        self.golden.carry(frames, walk=walk)
        self._traced(whole=False)

    def interrupt(self, walk, at):
        """A reset in the midst of what a snapshot reads, before the run's first operation. Nothing is lost, but
        for a snapshot that has begun; return its head."""
        session, begins = self.rig.machine.session, self.golden._snapshot is None
        most = walked(self.config, min(walk, self._left), begins) - 20

        def reset(*_):
            session.step(10 + at % (most - 10))
            self.rig.reset()
            raise _Interrupted

        with pytest.raises(_Interrupted), patch.object(session, "resume", reset):
            self.rig.run([], walk=walk)
        assert self.rig.run([])[0].error is None  # it waits for the key
        return begun_snapshot(self.golden)

    @property
    def _left(self):
        """Buckets that the walk has not been through."""
        return self.config.buckets - (self.golden._walked if self.golden._snapshot else 0)

    def shake(self, opening):
        """A handshake; return its answer."""
        [meant] = self.golden.run([], opening)
        ended, [found] = self.rig.run([], opening, collect=True)
        assert ended.error is None and found == meant
        slot, role, _ = Header.unpack(opening)
        ready = 2 + (at := fetched(self.frames, _HOST, self.rig.places["opening"]))
        if slot < 64 and role < len(ROLES):
            ready = at + opening_cycles(ROLES[role], first=not self.shaken)
            self.shaken = True
        assert ended.cycles == collected(self.frames, _HOST, self.rig.places["welcome"], ready)
        return found

    def carry(self, frames, walk=0):
        """Requests, and buckets of a snapshot; return the answers and the log's records."""
        made = self.walk(frames, walk)
        return made.answers, made.log

    def walk(self, frames, walk=0):
        """The same; return all that the device gives."""
        begins, golden, left = self.golden._snapshot is None, self.golden, self._left
        made = golden.carry(frames, walk=walk)
        ended, found = self.rig.run(frames, walk=walk)
        assert ended.error is None and found == made.answers
        count, files = len(self.steps), {"log": made.log, "snapshot": made.snapshot}
        if begins:  # the host knows the head
            files["snapshot"] = made.snapshot[HEAD:]
        walks = walk if golden._log is not None else 0
        timing = {name: _HOST for name, text in files.items() if text}
        cycles = self._cycles(count, walk=count - len(frames), **timing)
        cycles += walked(self.config, min(walks, left), begins) if walks else 0
        assert ended.cycles == cycles + (filed() if made.fresh else 0)
        for name, text in files.items():
            records = self.rig.frames_at(name, count) if text else []
            size = self.frames.answer_bytes
            assert text == b"".join(self.frames.sealed(record, size) for record in records)
            assert len({Header.unpack(record).number for record in records}) == len(records)
        return made

    def take(self, frames, opening=b""):
        late = self.golden._closed
        meant = self.golden.take(frames, opening)
        ended, found = self.rig.run(frames, opening, file=True)
        assert ended.error is None and found == meant
        at = 0
        if opening:
            at = fetched(self.frames, _HOST, self.rig.places["opening"]) + (1 if late else filed())
        assert ended.cycles == at + self._cycles(len(frames), records=True)
        return found

    def begin(self):
        meant = self.golden.begin()
        ended, [found] = self.rig.run([], collect=True, file=True)
        assert ended.error is None and found == meant
        ready = 2 if Header.unpack(meant).code else 1 + filed()
        assert ended.cycles == collected(self.frames, _HOST, self.rig.places["welcome"], ready)
        return found

    def run(self, asked):
        """(client, operation, key, value)s; return statuses and the records."""
        frames = [client.ask(*rest) for client, *rest in asked]
        answers, log = self.carry(frames)
        return [
            client.hear(answer).status for (client, *_), answer in zip(asked, answers, strict=True)
        ], log

    def close(self):
        self.rig.machine.close()

    def meddle(self, draw):
        """The host writes any registers, whose order and places are others from now on, and asks for a snapshot
        while it gives files. In the midst of the next run it writes them once more, and none takes it."""
        draw = random.Random(draw.random())
        self.rig.files_walk = draw.choice((0, 1, 15))
        session, names = self.rig.machine.session, list(self.rig.places)
        registers = [r for r in session.register_map.engine if r.name != "pages"]
        for register in draw.sample(registers, len(registers)):
            session.write(register.name, draw.getrandbits(register.bits))
        self.rig.places = {
            names[k]: self.config.host_bytes + (n << 17) + 4096 * draw.randrange(8)
            for n, k in enumerate(draw.sample(range(len(names)), len(names)))
        }
        resume, at = session.resume, draw.randrange(1, 400)

        def meddled(limit, progress):
            session.resume = resume
            report = resume(min(at, limit), progress)
            if report.finished or at >= limit:
                return report
            for register in draw.sample(registers, len(registers)):
                try:
                    session.write(register.name, draw.getrandbits(register.bits))
                except RegisterError:
                    continue
                assert Status(session.read("status")) & Status.IDLE
            return resume(limit, progress)

        session.resume = meddled

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
