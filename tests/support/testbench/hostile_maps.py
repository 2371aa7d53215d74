"""A hostile host against two devices that keep their maps."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace

from penstock.engines.omap.native import NativeKept
from penstock.host.omap.restore import Damaged, restored
from penstock.models.errors import HardwareError
from penstock.models.omap.boundary import Header
from penstock.models.omap.config import BLOCK
from penstock.models.omap.device import Stopped
from penstock.models.omap.errors import MapError
from penstock.models.omap.kept_device import Carried, receipt_value
from penstock.models.omap.messages import Status
from penstock.models.omap.sessions import ROLES, Asked, digest_of_map
from penstock.models.omap.state import HEAD, Head, Kind, Record
from penstock.models.omap.vault import Role

from .kept_maps import SHAPE, begun_snapshot
from .session_clients import Host, judged

__all__ = ["Alone", "Hostile"]

_KEYS, _SIZE, _POWERS = 12, Record.size(SHAPE), 7
_PAGES = SHAPE.host_bins * SHAPE.page_bytes
#: buckets that a snapshot goes on through in a run
_WALKS = (0, 0, 0, 0, 1, 1, 2, 15)


@dataclass
class _File:
    """A log, a snapshot, or a link: its head, and records with their numbers."""

    head: bytes
    records: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def said(self):
        return Head.parse(self.head)

    @property
    def is_snapshot(self):
        return self.said.kind == Kind.SNAPSHOT

    def text(self):
        return self.head + b"".join(text for _, text in self.records)

    def add(self, text):
        """Go on; return what was sealed."""
        begin = len(self.records)
        for at in range(0, len(text), _SIZE):
            self.records.append((len(self.records) + 1, text[at : at + _SIZE]))
        return [(self.head, number) for number, _ in self.records[begin:]]

    def link(self):
        return _File(self.said._replace(kind=Kind.LINK).pack(), self.records[:1])

    def first(self, count):
        return _File(self.head, self.records[:count])

    def flipped(self, draw):
        at = draw.randrange(len(self.records) + 1)
        if at == 0:
            return _File(_flipped(draw, self.head), self.records)
        records = list(self.records)
        number, text = records[at - 1]
        records[at - 1] = number, _flipped(draw, text)
        return _File(self.head, records)


@dataclass
class _Life:
    """A device from one power-up to the next: the incarnation that it goes on from, behind which serial, and
    what the map is behind each of its own."""

    previous: bytes
    serial: int
    maps: dict[int, dict[int, bytes]]

    @property
    def now(self):
        return self.maps[max(self.maps)]


def _flipped(draw, text):
    at = draw.randrange(len(text))
    return text[:at] + bytes([text[at] ^ 1 << draw.randrange(8)]) + text[at + 1 :]


def _restored(both, files, draw):
    """The head of a new log, as our own server has it; None where a file is damaged."""
    texts, links = [], b""
    for file in files:
        links += file.text()
        if file.said.kind != Kind.LINK:
            texts.append(links)
            links = b""
    try:
        return restored(SHAPE, both, [*texts, links] if links else texts)[0]
    except Damaged:
        return None


def _given(both, files, draw):
    """The same of a host that gives all of them, whatever the device says of each, and asks for a snapshot
    of what is not there yet."""
    frames = both.frames
    both.meddle(draw)
    for file in files:
        if draw.random() < 0.2:
            assert both.walk([], draw.choice(_WALKS)) == ([], b"", b"", b"")
        packed = [
            frames.pack(Header(0, 0, number), frames.answer_blocks, text)
            for number, text in file.records
        ]
        opening = Header(0, 0, 0).pack() + file.head
        both.take(packed, opening.ljust(frames.opening_beats * frames.bus_bytes, b"\0"))
    answer = both.begin()
    return None if Header.unpack(answer).code else answer[BLOCK : BLOCK + HEAD]


class Alone:
    """In place of `kept_maps.Both` a device in C++, which is golden to the bit; its host has its pages."""

    def __init__(self, seed, root):
        self.config, self.rig = SHAPE, self
        self.device = NativeKept(SHAPE, root, random.Random(seed).randbytes(32))
        self.frames, self.keys = self.device.frames, self.device._keys
        self.take, self.begin = self.device.take, self.device.begin
        self.golden = SimpleNamespace(carry=lambda frames, walk: self._told)
        self._dead = False

    @property
    def serial(self):
        return self.device.serial

    def send_key(self, slot):
        return self.device._boundary.keys(slot).send

    def shake(self, opening):
        return self.device.run([], opening)[0]

    def interrupt(self, walk, at):
        return begun_snapshot(self.device)

    def walk(self, frames, walk):
        return self.device.carry(frames, walk=walk)

    def run(self, frames, walk=0):
        try:
            if self._dead:
                raise Stopped(MapError.STOPPED)
            self._told = self.device.carry(frames, walk=walk)
        except Stopped as problem:
            return SimpleNamespace(error=HardwareError(problem.code)), []
        return SimpleNamespace(error=None), self._told.answers

    def cut(self, frames, opening, limit, walk):
        self.device.carry(frames[: limit % len(frames)], opening, walk)
        self._dead = True

    def _read(self, at, size):
        return bytes(self.device.device.pages[at : at + size])

    def _write(self, at, text):
        self.device.device.pages[at : at + len(text)] = text

    def meddle(self, draw):
        """It has no registers, and nothing that a reset takes: this draws as hardware's host does."""
        draw.random()

    def reset(self):
        pass

    def close(self):
        pass


class Hostile:
    """A script: any frames and handshakes of either device, changed, replayed, in other slots, at any places;
    snapshots that go on in any steps; resets, power cuts; old, changed and foreign files and pages.
    `up(which, seed)`: a device at power-up."""

    def __init__(self, up, seed):
        self.up, self.seed, self.counts = up, seed, Counter()
        self.draw, self.powers = random.Random(seed), 0
        self.files = [[], []]  # that each device was given, or has written since
        self.written = [[], []]  # all that it has ever written
        self.chains = [[], []]  # all that were taken, one behind another
        self.spoilt = [False, False]  # our own server may refuse what the device took
        self.walks = [None, None]  # snapshots that are under way
        # whether files that replaced others say all of the past, and whether the device has heard it
        self.full, self.told = [True, True], [True, True]
        self.lives, self.receipts = {}, []
        self.used = set()  # (key, number) of what was sealed
        self.devices = [self._fresh(which) for which in range(2)]
        self.script = Host(seed, self.devices, self._run, digest_of_map(SHAPE))
        for which in range(2):
            assert self._begin(which, [], 0)

    def _fresh(self, which):
        self.powers += 1
        return self.up(which, 1000 * self.seed + self.powers)

    def _run(self, which, frames, opening, collect):
        both = self.devices[which]
        both.meddle(self.draw)
        if opening:
            return [both.shake(opening)]
        if self.draw.random() < 0.1:
            head = both.interrupt(self.draw.choice((1, 2, 15)), self.draw.randrange(1000))
            self._walked(which, Carried([], snapshot=head))
            self.counts["interrupted"] += 1
        made = both.walk(frames, self.draw.choice(_WALKS))
        for answer in made.answers:
            slot, code, number = Header.unpack(answer)
            if code == 0:
                self._seal((both.send_key(slot), number))
        for one in self.files[which][-1].add(made.log):
            self._seal(one)
        self._walked(which, made)
        return made.answers

    def _walked(self, which, made):
        """A snapshot goes on. Once it is whole it takes the place of all files, with what they say of the past."""
        text = made.snapshot
        if text and self.walks[which] is None:
            self.walks[which], text = _File(text[:HEAD]), text[HEAD:]
            self.written[which].append(self.walks[which])
        if text:
            for one in self.walks[which].add(text):
                self._seal(one)
        if made.fresh:
            log, snapshot = _File(made.fresh), self.walks[which]
            self.files[which] = [*self._links(which), snapshot, log]
            self.written[which].append(log)
            self.chains[which].append(self.files[which])
            self.walks[which], self.spoilt[which], self.full[which] = None, False, True
            self.counts["snapshot"] += 1

    def _links(self, which):
        """What the first logs of all lives that led to this one say of themselves, in their order."""
        links, own = [], self._own(which)
        while any(own):
            said = own, self.lives[own].serial
            [first] = [
                file
                for file in self.written[which]
                if (file.said.incarnation, file.said.serial) == said and file.said.kind == Kind.LOG
            ]
            links.insert(0, first.link())
            own = self.lives[own].previous
        return links

    def _seal(self, what):
        assert what not in self.used
        self.used.add(what)

    def _begin(self, which, files, kind):
        """Restore; return whether the device goes on. Then its map is what it was behind that serial."""
        self.script.live[which], self.script.all[which] = {}, []
        way = self.draw.choice((_restored, _given, _given, _given))
        head = way(self.devices[which], files, self.draw)
        if head is None:
            assert kind or self.spoilt[which]
            return False
        self.spoilt[which] |= bool(kind) and way is _given
        if kind:
            self.full[which] = not any(file.is_snapshot for file in files)
        self.told[which], self.walks[which] = self.full[which], None
        self.files[which] = [*files, _File(head)]
        self.written[which].append(self.files[which][-1])
        self.chains[which].append(self.files[which])
        said = Head.parse(head)
        items = self._map(said.previous, said.serial)
        self.lives[said.incarnation] = _Life(said.previous, said.serial, {said.serial: items})
        assert self._items(which) == items
        return True

    def _map(self, name, serial):
        if not any(name):
            return {}
        maps = self.lives[name].maps
        known = [s for s in maps if s <= serial]
        assert known
        return dict(maps[max(known)])

    def _own(self, which):
        return self.files[which][-1].said.incarnation

    def _fits(self, which, name, serial):
        """Whether this device's map goes on from what somebody saw."""
        own = self._own(which)
        last = self.devices[which].serial + 1
        while own != name and any(own):
            own, last = self.lives[own].previous, self.lives[own].serial
        return own == name and serial <= last

    def _ask(self, which, client, *asked):
        """Requests of one run, and their answers."""
        frames = [client.ask(*one) for one in asked]
        answers = self._run(which, frames, b"", False)
        client.sent += len(asked)
        return [client.hear(answer) for answer in answers]

    def _opened(self, which, role):
        return self.script.open(which, self.draw.randrange(64), role)

    def _items(self, which):
        """What a writer finds, key by key."""
        writer = self._opened(which, Role.WRITER)
        told = self._ask(which, writer, *((Asked.GET, key) for key in range(_KEYS)))
        return {key: answer.value for key, answer in enumerate(told) if answer.status == 0}

    def live(self, steps):
        """Both devices for some time. Somebody has a receipt of what they end with."""
        for number in range(steps):
            which = self.draw.randrange(2)
            if number == steps // 2:
                self.once = [both.rig._read(0, _PAGES) for both in self.devices]
            self.script.step(which)
            if self.draw.random() < 0.2:
                self.devices[which].rig.reset()
        for which, both in enumerate(self.devices):
            found, life = self._items(which), self.lives[self._own(which)]
            items = judged(self.script.all[which], life.maps[life.serial], life.maps)
            assert items == found
            last = both.serial
            seen = self.draw.choice((last, self.draw.randrange(life.serial, last + 1)))
            self.receipts.append((self._own(which), seen))

    def _any_files(self, which):
        """What the host says were the device's files: 0, they are, or how they are not."""
        draw, kind = self.draw, self.draw.choice((0, 0, 0, 1, 2, 3, 4, 5, 7, 8))
        strays = self._strays(which)
        if strays and draw.random() < 0.4:
            kind = 6
        chains = self.chains[which]
        old = max(chains, key=len) if draw.random() < 0.5 else draw.choice(chains)
        own = list(old if kind else self.files[which])
        self.counts["files", kind] += 1
        at = draw.randrange(len(own))
        if kind == 1:  # of the other device
            own = list(self.files[1 - which])
        elif kind == 2:  # an older end, of any of them
            own[at] = own[at].first(draw.randrange(len(own[at].records) or 1))
        elif kind == 3:
            own[at] = own[at].flipped(draw)
        elif kind == 4:  # some are missing
            own = own[:at] + own[at + draw.choice((1, 1, len(own))) :]
        elif kind == 5:  # records in another order, or without one of them
            records = list(own[at].records)
            if draw.random() < 0.5:
                draw.shuffle(records)
            else:
                less = draw.randrange(len(records) or 1)
                records = records[:less] + records[less + 1 :]
            own[at] = _File(own[at].head, records)
        elif kind == 6:
            own = draw.choice(strays)
        elif kind == 7:  # a snapshot that is not whole, and what was written beside it
            walks = [file for file in self.written[which] if file.is_snapshot and file.records]
            for file in draw.sample(walks, min(len(walks), 1)):
                own = [file.first(draw.randrange(len(file.records))), *own[draw.randrange(2) :]]
        # 8: as they once were
        return kind, own

    def _strays(self, which):
        """Files that end with one of another life, which fits what is before it by its serial alone."""
        return [
            [*chain[:k], file.first(count), other]
            for chain in self.chains[which]
            for k, file in enumerate(chain)
            for other in self.written[which]
            if other.records
            and 0 < (count := other.said.serial - file.said.serial) <= len(file.records)
            and file.said.incarnation not in (other.said.previous, other.said.incarnation)
        ]

    def _spoil(self, which):
        """Pages are others: bits of them changed, two swapped, or all of them as they once were."""
        rig, size, kind = self.devices[which].rig, SHAPE.page_bytes, self.draw.randrange(3)
        if kind == 0:
            for at in self.draw.sample(range(_PAGES), 8):
                rig._write(at, _flipped(self.draw, rig._read(at, 1)))
        elif kind == 1:
            one, other = (size * n for n in self.draw.sample(range(SHAPE.host_bins), 2))
            pages = rig._read(one, size), rig._read(other, size)
            rig._write(one, pages[1])
            rig._write(other, pages[0])
        else:
            rig._write(0, self.once[which])
        return kind

    def _fault(self, which):
        """Pages that are others, or a run that is cut off in the midst: right answers, or an error for ever."""
        both, draw = self.devices[which], self.draw
        writer, walk = self._opened(which, Role.WRITER), draw.choice(_WALKS)
        frames = [writer.ask(Asked.GET, key) for key in range(_KEYS)]
        if draw.random() < 0.4:
            opening = draw.choice([b"", *(frame for _, _, frame in self.script.openings[-1:])])
            both.cut(frames, opening, draw.randrange(60, 600), walk)
            self.counts["cut"] += 1
        else:
            kind = self._spoil(which)
            ended, found = both.rig.run(frames, walk=walk)
            if ended.error is None:
                assert found == both.golden.carry(frames, walk=walk).answers
                heard = enumerate(map(writer.hear, found))
                items = {key: answer.value for key, answer in heard if answer.status == 0}
                assert items == self.lives[self._own(which)].now
                return
            assert ended.error == HardwareError(MapError.PAGE_TAG)
            self.counts["page", kind] += 1
            self.counts["page"] += 1
        assert both.rig.run(frames)[0].error == HardwareError(MapError.STOPPED)

    def power(self, which):
        """A power cut, and any files. Whoever has a receipt finds what it saw, or hears that it is gone."""
        if self.draw.random() < 0.5:
            self._fault(which)
        while True:
            self.devices[which].close()
            kind, files = self._any_files(which)
            self.devices[which] = self._fresh(which)
            if self._begin(which, files, kind):
                break
            self.counts["damaged"] += 1
        later = self._own(which), self.devices[which].serial + self.draw.randrange(9, 99)
        for name, serial in (*self.draw.sample(self.receipts, 2), later):
            client = self._opened(which, self.draw.choice(ROLES))
            fits = self._fits(which, name, serial)
            asked = Asked.RECEIPT, serial, receipt_value(SHAPE, name)
            [told] = self._ask(which, client, asked)
            found = told.status == Status.FOUND
            assert found or told.status == Status.MISSING
            assert found == fits if self.told[which] else found <= fits
            self.counts["restored" if found else "rolled back"] += 1

    def runs(self):
        """All of it; return what came of it."""
        self.live(12)
        while self.powers < _POWERS:
            self.power(self.draw.randrange(2))
            self.live(6)
        for both in self.devices:
            both.close()
        return self.counts + self.script.counts
