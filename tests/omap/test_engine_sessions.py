# amaranth: UnusedElaboratable=no
"""hdl.omap.engine in its shell, in Verilator: the map behind its boundary. Answers and every beat of
pages are golden's, and cycles the model's."""

from __future__ import annotations

import random

import pytest

from penstock.hdl.omap.engine import MapEngine
from penstock.hdl.shell import Shell
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.memory import FixedLatency
from penstock.models.omap.cycles import public, run
from penstock.models.omap.golden import Map, Step
from penstock.models.omap.messages import Keys
from penstock.models.omap.session_stages import collected, fetched
from penstock.models.omap.sessions import ROLES, opening_cycles
from penstock.models.omap.shell import port_bytes, ports
from penstock.models.omap.traffic import bursts, page_traffic
from penstock.models.omap.vault import Role
from penstock.sim.native import PortSpec, build
from testbench.boundary import DIGEST, Golden, Rig, vault_values
from testbench.memories import filled
from testbench.omap import config, unset
from testbench.session_clients import Client, Host, by_another_library, complete, drawn, judged

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:One of ephemeral keypairs"),
]

_SHAPE = config(request_openers=2, responders=2)
_HOST, _HBM = FixedLatency(30, 32), FixedLatency(20, 128)


@pytest.fixture(scope="module")
def library():
    engine = MapEngine(_SHAPE, digest=DIGEST)
    spaces = ports(_SHAPE).values()
    specs = [
        PortSpec(f"m{k}_axi", size, True, True, space)
        for k, (size, space) in enumerate(zip(port_bytes(_SHAPE), spaces, strict=True))
    ]
    verilog = filled(to_verilog(Shell(engine, engine.register_map)), unset(_SHAPE))
    return build(verilog, ports=specs, register_map=engine.register_map)


class _Device:
    """The map in hardware and golden, side by side."""

    def __init__(self, library) -> None:
        self.golden = golden = Golden(_SHAPE, answer=self._answer)
        keys = golden.keys
        page, pairs, hashed = (
            int.from_bytes(text, "little") for text in (keys.page, keys.pairs, keys.hash)
        )
        self.box, self._page = Map(_SHAPE, Keys(page, hashed, pairs)), page
        self.steps: list[Step] = []
        timings = {
            f"m{k}": _HBM if space else _HOST for k, space in enumerate(ports(_SHAPE).values())
        }
        self.rig = Rig(
            _SHAPE, library, timings, _SHAPE.host_bytes, _SHAPE.channels, vault_values(0)
        )
        self.rig.machine.trace(0)
        self.shaken = False

    def _answer(self, request):
        self.steps.append(self.box.step(request))
        return self.steps[-1].response

    def run(self, frames, opening=b"", collect=False, interval=0):
        """Carry out a run on both; all must be equal."""
        self.steps.clear()
        meant = self.golden.run(frames, opening, collect)
        ended, found = self.rig.run(frames, opening, collect, interval)
        assert ended.error is None and found == meant
        reads, writes = page_traffic(_SHAPE, self._page, self.steps)
        expected = {"read": bursts(_SHAPE, reads), "write": bursts(_SHAPE, writes)}
        seen = self.rig.machine.trace(0)
        for channel, want in expected.items():
            assert [(t.address, t.beats, t.digest) for t in seen if t.channel == channel] == want
        self.cycles, self.told = ended.cycles, self.model(len(frames), interval)
        return found

    def model(self, count, interval):
        at = self.rig.places
        places = {"requests_at": at["requests"], "responses_at": at["responses"]}
        shown = public(self.steps)
        return run(_SHAPE, shown, _HOST, interval=interval, **places).total if count else 1


def test_the_map_behind_its_boundary_is_golden_and_model(library, monkeypatch):
    """Another library's clients, then a host that sends whatever it likes."""
    by_another_library(monkeypatch)
    device = _Device(library)
    device.run([])  # keys are derived, and HBM is cleared

    def opened(frames, opening=b"", collect=False):
        found = device.run(frames, opening, collect)
        if not opening:
            assert device.cycles == device.told
        return found

    complete(opened, device.golden.keys, device.golden.frames)
    host = Host(3, [device.golden], lambda which, *given: opened(*given))
    for turn in range(30):
        host.step()
        if turn % 7 == 0:
            device.rig.reset()
    host.judge()
    assert host.counts["accepted"] > 5 and host.counts["opened"] > 1


def test_the_map_keeps_its_rate_while_handshakes_run(library, monkeypatch):
    """Operations of three sessions, each of a run's at once, with a handshake under way and without."""
    by_another_library(monkeypatch)
    device, draw = _Device(library), random.Random(5)
    device.run([])
    clients = []
    for slot, role in enumerate((Role.WRITER, Role.READER, Role.WRITER)):
        clients.append(Client(device.golden, slot, role))
        clients[-1].finish(device.run([], clients[-1].opening, True)[0])
    for opening in (b"", Client(device.golden, 3, Role.READER).opening, b"", b""):
        asked = [draw.choice(clients) for _ in range(60)]
        frames = [drawn(draw, client) for client in asked]
        answers = device.run(frames, opening)
        for client, answer in zip(asked, answers, strict=True):
            assert client.hear(answer) is not None
        before = (
            fetched(device.golden.frames, _HOST, device.rig.places["opening"]) if opening else 0
        )
        assert device.cycles == device.told + before and before < 0.05 * device.told
    [answer] = device.run([], b"", True)
    assert answer[2] == 0
    judged(clients)


def test_a_handshake_takes_the_models_cycles(library):
    device = _Device(library)
    device.run([])
    frames, places = device.golden.frames, device.rig.places
    for turn, role in enumerate((*ROLES, Role.READER)):
        device.run([], Client(device.golden, turn, role).opening, True)
        at = fetched(frames, _HOST, places["opening"])
        ready = at + opening_cycles(role, first=turn == 0)
        assert device.cycles == collected(frames, _HOST, places["welcome"], ready)
