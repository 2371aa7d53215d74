# amaranth: UnusedElaboratable=no
"""A hostile host against maps in Verilator that outlive their devices: whatever it does, no item is read, changed
or rolled back without an error, and no (key, number) is sealed twice."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from unittest.mock import patch

import pytest

from penstock.host.omap.restore import Damaged, restored
from penstock.models.errors import HardwareError
from penstock.models.omap.boundary import Header
from penstock.models.omap.errors import MapError
from penstock.models.omap.kept_device import receipt_value
from penstock.models.omap.sessions import Asked, Denied
from penstock.models.omap.state import HEAD, Head, Record
from penstock.sim.machine import Hung
from testbench.kept_maps import SHAPE, Both, compiled
from testbench.session_clients import Host, by_another_library, judged


@pytest.fixture(scope="module")
def library():
    return compiled(SHAPE)


class _Hostile:
    """A script of a hostile host against two devices that keep their maps: any frames of either, changed,
    replayed, in other slots, at any places; resets, power cuts; old, changed and foreign files."""

    def __init__(self, library, seed):
        self.library, self.seed, self.counts = library, seed, Counter()
        self.draw, self.powers = random.Random(seed), 0
        self.files = [[], []]  # what each device has written, a power-up after another
        self.start = [{}, {}]  # what each one had at power-up
        self.used = set()  # (key, number) of what was sealed
        self.powers_of = {}
        self.devices = [self._up(which) for which in range(2)]
        self.script = Host(seed, self.devices, self._run)
        for which in range(2):
            self._begin(which, [])

    def _up(self, which):
        self.powers += 1
        root = bytes([which]) * 32
        return Both(self.library, 1000 * self.seed + self.powers, root=root)

    def _run(self, which, frames, opening, collect):
        both = self.devices[which]
        both.move(self.draw)
        answers, log = both.carry(frames)
        self.files[which][-1] += log
        for answer in answers:
            slot, code, number = Header.unpack(answer)
            if code == 0:
                self._seal((which, self.powers_of[which], slot, number))
        head, size = self.files[which][-1][:HEAD], Record.size(SHAPE)
        for at in range(0, len(log), size):
            self._seal((head, (len(self.files[which][-1]) - HEAD - len(log) + at) // size))
        return answers

    def _seal(self, what):
        assert what not in self.used
        self.used.add(what)

    def _begin(self, which, files):
        """Restore; return whether the device goes on."""
        self.powers_of[which] = self.powers
        both, script = self.devices[which], self.script
        script.live[which] = {client.slot: client for client in both.clients}
        script.all[which] = list(both.clients)
        try:
            head, _ = restored(SHAPE, both, files)
        except Damaged:
            return False
        self.files[which].append(head)
        return True

    def _ask(self, which, client, *asked):
        """What a client hears; what the host has kept of its frames goes first."""
        client.ask(*asked)
        while client.sent < len(client.frames):
            [answer] = self._run(which, [client.frames[client.sent]], b"", False)
            client.sent += 1
            told = client.hear(answer)
        return told

    def _items(self, which):
        """What a writer finds, key by key."""
        writer = self.devices[which].clients[0]
        told = [self._ask(which, writer, Asked.GET, key) for key in range(12)]
        return {key: answer.value for key, answer in enumerate(told) if answer.status == 0}

    def live(self, steps):
        """Both devices for some time; return each one's items and a client's receipt."""
        for _ in range(steps):
            which = self.draw.randrange(2)
            self.script.send(which, self.draw.randrange(1, 4))
            if self.draw.random() < 0.2:
                self.devices[which].rig.reset()
        ends = []
        for which, both in enumerate(self.devices):
            found = self._items(which)
            items = judged(both.clients, self.start[which])
            assert items == found
            ends.append(
                (items, Head.said(self.files[which][-1][:HEAD]).incarnation, both.golden.serial)
            )
        return ends

    def _any_files(self, which):
        """What the host says were the device's files: 0, they are, or how they are not."""
        draw, own, kind = self.draw, list(self.files[which]), self.draw.randrange(6)
        size = Record.size(SHAPE)
        self.counts["files", kind] += 1
        if kind == 1:  # of the other device
            own = list(self.files[1 - which])
        elif kind == 2:  # an older end
            count = (len(own[-1]) - HEAD) // size
            own[-1] = own[-1][: HEAD + size * draw.randrange(count)]
        elif kind == 3:
            at = draw.randrange(len(own[-1]))
            own[-1] = (
                own[-1][:at] + bytes([own[-1][at] ^ 1 << draw.randrange(8)]) + own[-1][at + 1 :]
            )
        elif kind == 4:
            own = own[: draw.randrange(len(own))]
        elif kind == 5:  # records in another order
            records = [own[-1][at : at + size] for at in range(HEAD, len(own[-1]), size)]
            draw.shuffle(records)
            own[-1] = own[-1][:HEAD] + b"".join(records)
        return kind, own

    def _fault(self, which):
        """Pages that are changed, or a run that is cut off in the midst: right answers, or an error for ever."""
        both, draw = self.devices[which], self.draw
        frames = [both.clients[0].ask(Asked.GET, key) for key in range(12)]
        if draw.random() < 0.5:
            run = partial(both.rig.machine.run, limit=draw.randrange(20, 200))
            with pytest.raises(Hung), patch.object(both.rig.machine, "run", run):
                both.rig.run(frames)
            self.counts["cut"] += 1
        else:
            for at in draw.sample(range(SHAPE.host_bytes), 8):
                [old] = both.rig._read(at, 1)
                both.rig._write(at, bytes([old ^ 1 << draw.randrange(8)]))
            ended, found = both.rig.run(frames)
            if ended.error is None:
                assert found == both.golden.carry(frames).answers
                return
            assert ended.error == HardwareError(MapError.PAGE_TAG)
            self.counts["page"] += 1
        assert both.rig.run(frames)[0].error == HardwareError(MapError.STOPPED)

    def power(self, which, end):
        """A power cut, and any files. Whoever has a receipt finds what it saw, or hears an error."""
        items, incarnation, serial = end
        if self.draw.random() < 0.5:
            self._fault(which)
        self.devices[which].close()
        kind, files = self._any_files(which)
        self.devices[which] = both = self._up(which)
        if not self._begin(which, files):
            assert kind
            self.counts["damaged"] += 1
            return False
        client = both.clients[self.draw.randrange(3)]
        receipt = receipt_value(SHAPE, incarnation)
        if self._ask(which, client, Asked.RECEIPT, serial, receipt).status != 0:
            assert kind
            self.counts["rolled back"] += 1
            return False
        self.counts["restored"] += 1
        self.start[which] = self._items(which)
        assert self.start[which] == items
        return True

    def close(self):
        for both in self.devices:
            both.close()


def _runs(library, seeds):
    """Return what came of all runs."""
    counts = Counter()
    for seed in seeds:
        host = _Hostile(library, seed)
        ends = host.live(8)
        which = host.draw.randrange(2)
        if host.power(which, ends[which]):
            host.live(4)
        host.close()
        counts += host.counts + host.script.counts
    return counts


def test_a_hostile_host_of_hardware_reads_changes_and_rolls_back_nothing(library, monkeypatch):
    by_another_library(monkeypatch)
    counts = _runs(library, range(1, 4))
    assert min(counts[name] for name in ("page", "cut", "damaged", "restored", "accepted")) > 0


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_three_hundred_runs_of_a_hostile_host(library, first, monkeypatch):
    by_another_library(monkeypatch)
    counts = _runs(library, range(first, first + 30))
    needed = ("damaged", "rolled back", "restored", "cut", "page", Denied.TAG, Denied.NUMBER)
    assert min(counts[name] for name in needed) > 0, counts
