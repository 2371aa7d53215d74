# amaranth: UnusedElaboratable=no
"""The boundary of a map: clients of every role and of another library, many at once, and a host that sends
whatever it likes; golden, and in Verilator to the bit and to the cycle."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.host.omap.handshake import Session
from penstock.models.crypto import noise
from penstock.models.memory import FixedLatency
from penstock.models.omap.boundary import Frames, Header
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.golden import Map
from penstock.models.omap.messages import Status
from penstock.models.omap.session_stages import collected, fetched
from penstock.models.omap.sessions import ROLES, Asked, Denied, opening_cycles
from penstock.models.omap.vault import Role, boot_cycles
from testbench.boundary import Golden, PresetDoor, Rig, compile_boundary
from testbench.omap import KEYS, config
from testbench.session_clients import (
    Client,
    Host,
    by_another_library,
    complete,
    drawn,
    judged,
    opened,
)

# the other library's: ephemeral keys are given
pytestmark = pytest.mark.filterwarnings("ignore:One of ephemeral keypairs")

_SHAPE = config(request_openers=2, responders=1)
_FRAMES = Frames.of(_SHAPE)
_HOST = FixedLatency(30, 32)


def _map(seed: int = 0) -> Golden:
    """The golden boundary before the golden map."""
    box = Map(_SHAPE, KEYS)
    return Golden(_SHAPE, seed, answer=lambda request: box.step(request).response)


@pytest.mark.parametrize("each", [25, pytest.param(6250, marks=pytest.mark.long)])
def test_sixteen_clients_at_once_are_a_dict_in_the_order_of_serials(each, monkeypatch):
    """Readers, writers and a keeper, each with requests under way, which the host mixes as it likes."""
    by_another_library(monkeypatch)
    draw, device = random.Random(4), _map()
    roles = [Role.WRITER] * 7 + [Role.READER] * 8 + [Role.KEEPER]
    clients = [opened(device, slot, role) for slot, role in enumerate(roles)]
    waiting = [[drawn(draw, client) for _ in range(each)] for client in clients]
    while any(waiting):
        frames = []
        for client in draw.choices(clients, k=20):
            if waiting[client.slot]:
                frames.append((client, waiting[client.slot].pop(0)))
        for (client, _), answer in zip(frames, device.run([f for _, f in frames]), strict=True):
            assert client.hear(answer) is not None
    assert sum(len(client.heard) for client in clients) == 16 * each
    refused = Counter(c.role for c in clients for a in c.heard.values() if a.status == 4)
    assert refused[Role.READER] > 2 * each and refused[Role.KEEPER] > each // 3
    judged(clients)


def test_a_readers_put_is_refused_and_changes_nothing():
    device = _map()
    writer, reader = opened(device, 0, Role.WRITER), opened(device, 1, Role.READER)
    frames = [
        writer.ask(Asked.PUT, 7, b"12345678"),
        reader.ask(Asked.PUT, 7, b"87654321"),
        reader.ask(Asked.DELETE, 7),
        reader.ask(Asked.GET, 7),
    ]
    clients = [writer, reader, reader, reader]
    answers = device.run(frames)
    heard = [client.hear(answer) for client, answer in zip(clients, answers, strict=True)]
    assert [a.status for a in heard] == [Status.MISSING, *[Status.REFUSED] * 2, Status.FOUND]
    assert [a.value for a in heard] == [bytes(8), bytes(8), bytes(8), b"12345678"]
    # the host does not see which ones were refused
    assert {Header.unpack(answer).code for answer in answers} == {0}


def test_another_library_completes_and_its_operations_are_answered():
    device = _map()
    complete(device.run, device.keys, device.frames)


@pytest.mark.parametrize("runs", [200, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_hostile_host_reads_and_changes_nothing(runs, monkeypatch):
    """No item is read or changed but by its clients, in the order of serials; what is not a session's next
    request has no answer that opens."""
    by_another_library(monkeypatch)
    counts: Counter[object] = Counter()
    for seed in range(runs):
        host = Host(seed, [Golden(_SHAPE, 2 * seed), Golden(_SHAPE, 2 * seed + 1)], None)
        host._run = lambda which, *given, host=host: host.devices[which].run(*given)
        for _ in range(14):
            host.step()
        if seed % 3 == 0:
            host.power(seed % 2)
            for _ in range(6):
                host.step()
        host.judge()
        counts += host.counts
    names = ("opened", "again", "unopened", "stolen", "power", "accepted")
    assert min(counts[n] for n in (*names, Denied.SESSION, Denied.TAG, Denied.NUMBER)) > runs // 10


# hardware


def _preset(shape: OmapConfig) -> tuple[Golden, list[Client], PresetDoor]:
    """A device, golden and in hardware, with a session of each role and two writers."""
    device, draw, clients, made = Golden(shape), random.Random(7), [], []
    for slot, role in ((0, Role.WRITER), (1, Role.READER), (63, Role.KEEPER), (2, Role.WRITER)):
        keys = noise.Keys(b"", draw.randbytes(32), draw.randbytes(32), b"")
        device.sessions.take(slot, ROLES.index(role), keys)
        clients.append(Client(device, slot, role))
        clients[-1].session = Session(keys.receive, keys.send, b"")
        made.append((slot, role, keys))
    return device, clients, PresetDoor(made)


def _any_frames(shape: OmapConfig, host: FixedLatency, turns: int, seed: int) -> None:
    device, clients, door = _preset(shape)
    with Rig(shape, compile_boundary(shape, door=door), host) as rig:

        def run(which: int, frames: list[bytes], opening: bytes, collect: bool) -> list[bytes]:
            interval = script.draw.choice((0, 0, 7, 200))
            ended, found = rig.run(frames, interval=interval)
            assert ended.error is None and found == device.run(frames)
            assert ended.cycles == device.cycles(len(frames), host, rig.places, interval)
            return found

        script = Host(seed, [device], run)
        script.live[0], script.all[0] = {client.slot: client for client in clients}, clients
        reserved = AESGCM(door.sessions[0][2].receive).encrypt(
            bytes(4) + b"\xff" * 8, bytes(device.frames.request_bytes), None
        )
        last = device.frames.request(0, (1 << 64) - 1, reserved)
        assert Header.unpack(run(0, [last], b"", False)[0]).code == Denied.TAG
        for turn in range(turns):
            script.send(0, script.draw.choice((1, 2, 5, 17)))
            if turn % 5 == 0:
                rig.reset()
        script.judge()
        names = ("accepted", Denied.SESSION, Denied.TAG, Denied.NUMBER)
        assert min(script.counts[name] for name in names) > 2, script.counts


def test_hardware_is_golden_and_model_for_any_frames(monkeypatch):
    """Every answer's bytes are golden's, whatever frames come; a run's cycles are the model's, and depend on
    no frame; no reset changes anything."""
    by_another_library(monkeypatch)
    _any_frames(config(responders=1), _HOST, 40, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_random_shapes_of_frames(seed):
    draw = random.Random(seed)
    shape = config(
        value_bytes=draw.choice([8, 16, 24, 64, 104]),
        window=draw.choice([4, 8]),
        request_openers=draw.choice([1, 2, 4]),
        responders=draw.choice([1, 2, 4]),
        host_bus_bytes=[16, 32, 64, 128][seed % 4],
    )
    host = FixedLatency(draw.randrange(1, 200), draw.choice([4, 16, 32, 64]))
    _any_frames(shape, host, 60, seed)


@pytest.fixture(scope="module")
def library():
    return compile_boundary(_SHAPE)


@pytest.mark.long
def test_handshakes_of_hardware_are_golden_and_model_under_a_hostile_host(library):
    """Their answers' bytes and a run's cycles; another library's client completes with it."""
    device = Golden(_SHAPE)
    with Rig(_SHAPE, library, _HOST) as rig:
        rig.machine.session.step(boot_cycles())
        shaken: list[int] = []

        def run(frames: list[bytes], opening: bytes = b"", collect: bool = False) -> list[bytes]:
            meant = device.run(frames, opening, collect)
            ended, found = rig.run(frames, opening, collect)
            assert ended.error is None and found == meant
            if not opening:
                assert ended.cycles == device.cycles(len(frames), _HOST, rig.places)
            else:
                slot, role, _ = Header.unpack(opening)
                at = fetched(_FRAMES, _HOST, rig.places["opening"])
                ready = at + 2
                if slot < 64 and role < len(ROLES):
                    ready = at + opening_cycles(ROLES[role], first=not shaken)
                    shaken.append(ready)
                meant_cycles = collected(_FRAMES, _HOST, rig.places["welcome"], ready)
                assert ended.cycles == meant_cycles
            return found

        complete(run, device.keys, device.frames)
        host = Host(5, [device], lambda which, *given: run(*given))
        for turn in range(24):
            host.step()
            if turn % 5 == 0:
                rig.reset()
        host.judge()
        assert min(host.counts[n] for n in ("opened", "unopened", "accepted", Denied.TAG)) > 1


@pytest.mark.long
def test_operations_take_as_long_while_a_handshake_is_under_way(library):
    device = Golden(_SHAPE)
    with Rig(_SHAPE, library, _HOST) as rig:
        client = Client(device, 0, Role.WRITER)
        client.finish(rig.run([], client.opening, True)[1][0])
        device.run([], client.opening, True)
        took = []
        for opening in (b"", Client(device, 1, Role.READER).opening, b""):
            frames = [drawn(random.Random(k), client) for k in range(60)]
            ended, answers = rig.run(frames, opening)
            assert ended.error is None and answers == device.run(frames, opening)
            took.append(ended.cycles)
        assert took[0] == took[2] == device.cycles(60, _HOST, rig.places)
        assert took[1] == took[0] + fetched(_FRAMES, _HOST, rig.places["opening"])
        # the handshake has gone on over the end of the run
        ended, answers = rig.run([], collect=True)
        assert answers == device.run([], b"", True)
        assert Header.unpack(answers[0]).code == 0
