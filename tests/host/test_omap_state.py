"""A map's state on disk: what was acknowledged is there after any end, and what a hostile host makes of the files is seen."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from penstock.host.omap import disk as disk_module
from penstock.host.omap import kept as kept_module
from penstock.host.omap import state as state_module
from penstock.host.omap.devices import GoldenDevice
from penstock.host.omap.disk import Disk
from penstock.host.omap.kept import KeptMap
from penstock.host.omap.keyfiles import MapKey
from penstock.host.omap.session import MapSession, initiator
from penstock.host.omap.state import MapState, ServerFull, StateError
from penstock.models.errors import HardwareError
from penstock.models.omap.boundary import Frames, Header
from penstock.models.omap.errors import MapError, MapStopped
from penstock.models.omap.kept_device import receipt_value
from penstock.models.omap.messages import Operation, Request, Status
from penstock.models.omap.sessions import Asked, Welcome, digest_of_map
from penstock.models.omap.state import HEAD, Record
from penstock.models.omap.vault import KeySchedule, Role
from testbench.omap import config
from testbench.session_clients import by_another_library

_SHAPE = config(capacity=12, bins=6, hbm_bins=2, slots=8, buckets=2, bucket_slots=8)
_ROOT = bytes(range(32))
_KEYS = KeySchedule(_ROOT, bytes(32), digest_of_map(_SHAPE))
_KNOWN = MapKey(_KEYS.public, digest_of_map(_SHAPE))


@pytest.fixture(autouse=True)
def quick_and_never_twice(monkeypatch):
    """Primitives of another library, which are quick and see a (key, nonce) that comes twice. Snapshots are so slow that
    requests come between their steps."""
    by_another_library(monkeypatch)
    monkeypatch.setattr(kept_module, "_BESIDE", 1)
    monkeypatch.setattr(kept_module, "_MORE", 0)


class Cut(Exception):
    """The power is off."""


class Served:
    """A device with its folder, and a session with it. `receipt`: what its client saw last."""

    def __init__(
        self,
        folder,
        *,
        role=Role.WRITER,
        disk=None,
        root=_ROOT,
        known=_KNOWN,
        keys=_KEYS,
        durable="log",
    ):
        self.map = None
        self.state = MapState(folder, known, _SHAPE, disk, durable=durable)
        try:
            self.map = KeptMap(GoldenDevice(_SHAPE, root, keys.generation), self.state)
            self.frames = Frames.of(_SHAPE)
            asked = initiator(keys.public, known.digest, role, keys.role_key(role))
            [answer] = self.map.carry([], self.frames.opening(0, role, asked.message))
            welcome, session = asked.finish(self.frames.welcome(answer))
        except BaseException:
            self.state.close()
            raise
        self.session, self.welcome = MapSession(session, welcome), Welcome.unpack(welcome)

    @property
    def receipt(self):
        return self.welcome.incarnation, self.session.serial

    def run(self, requests):
        sealed = [self.session.seal(request) for request in requests]
        answers = self.map.carry([self.frames.request(0, *each) for each in sealed])
        made = []
        for (number, _), answer, request in zip(sealed, answers, requests, strict=True):
            assert Header.unpack(answer).code == 0
            text = self.frames.sealed(answer, self.frames.answer_bytes)
            made.append(self.session.open(number, text, request))
        return made

    def accepts(self, incarnation, serial):
        [answer] = self.run([Request(Asked.RECEIPT, serial, receipt_value(_SHAPE, incarnation))])
        return answer.status == Status.FOUND

    def items(self, keys=range(16)):
        none = bytes(8)
        made = self.run([Request(Operation.GET, key, none) for key in keys])
        return {r.key: r.value for r in made if r.status == Status.FOUND}

    def close(self):
        self.map.close()


def _drawn(draw, count):
    made = []
    for _ in range(count):
        kind = draw.choice((Operation.PUT, Operation.PUT, Operation.DELETE, Operation.GET))
        value = draw.randbytes(8) if kind == Operation.PUT else bytes(8)
        made.append(Request(kind, draw.randrange(12), value))
    return made


def _applied(items, requests):
    for request in requests:
        if request.operation == Operation.PUT:
            items[request.key] = request.value
        elif request.operation == Operation.DELETE:
            items.pop(request.key, None)


def test_a_map_that_is_started_again_goes_on(tmp_path):
    draw, items, receipts = random.Random(1), {}, []
    numbers = set()
    for _ in range(6):
        served = Served(tmp_path)
        assert served.items() == items
        assert all(served.accepts(*receipt) for receipt in receipts)
        for _ in range(draw.randrange(4)):
            made = _drawn(draw, draw.randrange(1, 6))
            served.run(made)
            _applied(items, made)
        receipts.append(served.receipt)
        assert served.accepts(*receipts[-1])
        # of a future, and of a fork that this device never was
        assert not served.accepts(receipts[-1][0], served.session.serial + 1000)
        assert not served.accepts(b"another one, 16.", 1)
        numbers.add(served.state.number)
        served.close()
    assert max(numbers) >= 2  # snapshots were made, and their files replaced others
    assert sum(path.suffix == "" for path in tmp_path.glob("snapshot-*")) == 1


class Faulty(Disk):
    """Cuts the power at the call of this number, or says that the disk is full at some. What is not synced may be lost, whole or
    from some byte on; so may be a name, until its folder is synced."""

    def __init__(self, folder, draw, cut=None, full=()):
        self.folder, self.draw, self.cut, self.full = folder, draw, cut, full
        self.calls = 0
        self.files, self.safe, self.names = {}, {}, {}
        for path in folder.iterdir():
            if path.name != "lock":
                number = path.stat().st_ino
                self.safe[number], self.names[path.name] = path.read_bytes(), number

    def _call(self, changes):
        self.calls += 1
        if self.calls == self.cut:
            raise Cut
        if changes and self.calls in self.full:
            raise OSError(28, "No space left on device")

    def create(self, path):
        self._call(True)
        path.unlink(missing_ok=True)
        return super().create(path)

    def write(self, handle, at, data):
        try:
            self._call(True)
        except Cut:
            super().write(handle, at, data[: self.draw.randrange(len(data) + 1)])
            raise
        super().write(handle, at, data)

    def reserve(self, handle, at, size):
        self._call(True)
        super().reserve(handle, at, size)

    def truncate(self, handle, size):
        self._call(False)
        super().truncate(handle, size)

    def sync(self, handle):
        self._call(False)
        path = Path(f"/proc/self/fd/{handle}")
        if path.is_dir():
            self.names = {
                p.name: p.stat().st_ino for p in self.folder.iterdir() if p.name != "lock"
            }
        else:
            self.safe[path.stat().st_ino] = path.read_bytes()

    def rename(self, path, to):
        self._call(False)
        super().rename(path, to)

    def remove(self, path):
        self._call(False)
        super().remove(path)

    def left(self, to):
        """Write what is on the disk behind the cut."""
        live = {p.name: p.stat().st_ino for p in self.folder.iterdir() if p.name != "lock"}
        now = {p.stat().st_ino: p.read_bytes() for p in self.folder.iterdir() if p.name != "lock"}
        names = live if self.draw.random() < 0.5 else self.names
        to.mkdir()
        for name, number in names.items():
            safe = self.safe.get(number, b"")
            text = now.get(number, safe)
            most = max(len(text), len(safe))
            at = self.draw.randrange(most + 1)
            text, safe = text.ljust(most, b"\0"), safe.ljust(most, b"\0")
            # from some byte on, or up to it, what was synced last
            mixed = text[:at] + safe[at:] if self.draw.random() < 0.5 else safe[:at] + text[at:]
            (to / name).write_bytes(mixed)


def _begun(folder, draw):
    """A folder with a map; returns its items and a client's receipt."""
    items = {}
    for _ in range(2):
        served = Served(folder)
        for _ in range(3):
            made = _drawn(draw, 3)
            served.run(made)
            _applied(items, made)
        receipt = served.receipt
        served.close()
    return items, receipt


def _one_cut(folder, after, draw, items, cut):
    """Cut the power at a call; return whether there was one, and what the map may hold then."""
    disk, sure, maybe = Faulty(folder, draw, cut), dict(items), None
    try:
        served = Served(folder, disk=disk)
        try:
            for _ in range(6):
                made = _drawn(draw, 4)
                maybe = dict(sure)
                _applied(maybe, made)
                served.run(made)
                sure, maybe = maybe, None
            return False
        finally:
            served.state.close()
    except Cut:
        disk.left(after)
        again = Served(after)
        found = again.items()
        again.close()
        assert found == sure or (maybe is not None and _between(found, sure, made)), cut
        return True


def _between(found, sure, made):
    """Whether some of the operations without an answer, from the first on, were carried out."""
    items = dict(sure)
    for request in made:
        _applied(items, [request])
        if found == items:
            return True
    return False


def _cuts(folder, seed, cuts):
    draw = random.Random(seed)
    begun = folder / "begun"
    items, _ = _begun(begun, draw)
    happened = 0
    for cut in cuts:
        now = shutil.copytree(begun, folder / f"now{cut}")
        happened += _one_cut(now, folder / f"after{cut}", draw, items, cut)
    return happened


def test_a_cut_at_any_call_loses_nothing(tmp_path):
    assert _cuts(tmp_path, 2, range(1, 60, 6)) >= 6


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_a_thousand_cuts(seed, tmp_path):
    assert _cuts(tmp_path, seed, range(1, 60)) >= 25


def test_a_full_disk_is_said_before_the_device_sees_a_request(tmp_path):
    draw, items = random.Random(3), {}
    disk = Faulty(tmp_path, draw)
    served, refused = Served(tmp_path, disk=disk), 0
    for number in range(40):
        made = _drawn(draw, 4)
        disk.full = range(disk.calls, disk.calls + 99) if number % 3 == 1 else ()
        served.state.log._room = 0  # as if the room that was reserved were used up
        try:
            served.run(made)
        except ServerFull:
            refused += 1
            served.session._session.sent -= len(made)
        else:
            _applied(items, made)
    disk.full = ()
    assert refused > 8 and served.items() == items
    served.close()
    again = Served(tmp_path)
    assert again.items() == items and again.state.number >= 1
    again.close()


@pytest.mark.parametrize("call", range(4))
def test_a_write_that_fails_stops_the_map(call, tmp_path):
    draw = random.Random(call)
    items, _ = _begun(tmp_path, draw)
    disk = Faulty(tmp_path, draw)
    served = Served(tmp_path, disk=disk)
    for _ in range(8):
        made, ahead = _drawn(draw, 4), dict(items)
        _applied(ahead, made)
        disk.full = range(disk.calls + 1 + call, disk.calls + 2 + call) if call else ()
        try:
            served.run(made)
        except (MapStopped, ServerFull):
            break
        items = ahead
    served.close()
    again = Served(tmp_path)
    assert again.items() in (items, ahead)
    again.close()


def _hostile(draw, folder, old, kind):
    """Change a folder as its host may."""
    files = sorted(p for p in folder.iterdir() if p.name.startswith(("log", "snapshot")))
    path = draw.choice(files)
    text = path.read_bytes()
    used = len(text.rstrip(b"\0")) or 1
    if kind == 0:
        at = draw.randrange(used)
        path.write_bytes(text[:at] + bytes([text[at] ^ 1 << draw.randrange(8)]) + text[at + 1 :])
    elif kind == 1:
        path.write_bytes(text[: draw.randrange(used)])
    elif kind == 2:
        other = draw.choice(files)
        mine = other.read_bytes()
        other.write_bytes(text)
        path.write_bytes(mine)
    elif kind == 3:
        path.unlink()
    elif kind == 4:  # the whole folder, as it was
        shutil.rmtree(folder)
        shutil.copytree(draw.choice(old), folder)
    else:  # one file of an older folder
        source = draw.choice(sorted(draw.choice(old).glob("*-*")))
        shutil.copy(source, folder / source.name)


def _attacked(tmp_path, seed, count):
    draw, items, old = random.Random(seed), {}, []
    now = tmp_path / "now"
    for n in range(5):
        served = Served(now)
        for _ in range(2):
            made = _drawn(draw, 4)
            served.run(made)
            _applied(items, made)
        receipt = served.receipt
        served.close()
        old.append(shutil.copytree(now, tmp_path / f"old{n}"))
    seen = {"error": 0, "rolled back": 0, "whole": 0}
    for n in range(count):
        folder = shutil.copytree(now, tmp_path / f"try{n}")
        _hostile(draw, folder, old[:-1], n % 6)
        try:
            served = Served(folder)
        except StateError as problem:
            assert "record" in str(problem) or "missing" in str(problem)
            seen["error"] += 1
            continue
        if not served.accepts(*receipt):
            seen["rolled back"] += 1
        else:
            assert served.items() == items
            seen["whole"] += 1
        served.close()
        shutil.rmtree(folder)
    return seen


def test_what_a_hostile_host_makes_of_the_files_is_seen(tmp_path):
    seen = _attacked(tmp_path, 4, 24)
    assert seen["error"] > 5 and seen["rolled back"] > 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_a_thousand_changes_of_each_kind(seed, tmp_path):
    _attacked(tmp_path, seed, 300)


def test_damage_in_the_middle_is_named(tmp_path):
    served = Served(tmp_path)
    for key in range(6):
        served.run([Request(Operation.PUT, key, bytes(8))])
    served.close()
    [log] = tmp_path.glob("log-*")
    text, begin = bytearray(log.read_bytes()), HEAD
    text[begin + 3 * Record.size(_SHAPE) + 5] ^= 1
    log.write_bytes(text)
    with pytest.raises(StateError, match=r"record 4: it was changed: records behind it are whole$"):
        Served(tmp_path)


@pytest.mark.parametrize("cut", [False, True])
def test_damage_in_the_last_call_is_named_where_it_is_known_to_have_been_on_disk(tmp_path, cut):
    served = Served(tmp_path)
    served.run([Request(Operation.PUT, key, bytes(8)) for key in range(2)])
    served.run([Request(Operation.PUT, key, bytes(8)) for key in range(2, 6)])
    served.close()
    [log] = tmp_path.glob("log-*")
    text = bytearray(log.read_bytes())
    text[HEAD + 4 * Record.size(_SHAPE) + 5] ^= 1
    log.write_bytes(text)
    if cut:  # as a power cut may leave it: nothing tells it from a torn end
        (tmp_path / "synced").write_bytes(b"")
        served = Served(tmp_path)
        assert sorted(served.items()) == [0, 1, 2, 3]
        return served.close()
    with pytest.raises(StateError, match=r"record 5: it was changed: it was on disk whole$"):
        Served(tmp_path)
    assert log.read_bytes() == text


def test_a_log_that_no_longer_ends_where_the_next_one_begins_is_named(tmp_path):
    served = Served(tmp_path)
    served.run([Request(Operation.PUT, key, bytes(8)) for key in range(2)])
    [log] = tmp_path.glob("log-*")
    served.close()
    Served(tmp_path).close()  # its log has no records
    text = bytearray(log.read_bytes())
    text[HEAD + Record.size(_SHAPE) + 5] ^= 1
    log.write_bytes(text)
    with pytest.raises(
        StateError, match=r"record 0: it does not follow the files before it, or is of later keys$"
    ):
        Served(tmp_path)


def _two_logs(folder):
    """A folder whose map was served three times; return its logs, of which the last has no records."""
    for key in range(2):
        served = Served(folder)
        served.run([Request(Operation.PUT, key, bytes(8))])
        served.close()
    Served(folder).close()
    return sorted(folder.glob("log-*"), key=lambda path: int(path.name.split("-")[2]))


@pytest.mark.parametrize("gone", [(0,), (1,), (0, 1), (0, 1, 2)])
def test_logs_that_are_missing_are_named(gone, tmp_path):
    logs = _two_logs(tmp_path)
    for number in gone:
        logs[number].unlink()
    there = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StateError, match=rf"{tmp_path}/log-0-\d-.*(missing|does not follow)"):
        Served(tmp_path)
    assert there == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_a_snapshot_that_is_missing_is_named(tmp_path):
    while not (snapshots := [p for p in tmp_path.glob("snapshot-*") if not p.suffix]):
        _begun(tmp_path, random.Random(2))
    for path in snapshots:
        path.unlink()
    for path in tmp_path.glob("log-*"):  # as if nothing had been done behind it
        path.write_bytes(path.read_bytes()[:HEAD])
    (tmp_path / "synced").write_bytes(b"")
    with pytest.raises(StateError, match=r"snapshot-\d+, which .*, is missing$"):
        Served(tmp_path)


def test_starts_without_operations_leave_no_files(tmp_path):
    served = Served(tmp_path)
    served.run([Request(Operation.PUT, 1, bytes(8))])
    served.close()
    for _ in range(5):
        Served(tmp_path).close()
    assert len(list(tmp_path.iterdir())) == 5  # lock, map.json, synced, and two logs


def test_whose_folder_it_is(tmp_path):
    served = Served(tmp_path)
    served.items()
    with pytest.raises(StateError, match=r"is in use by another server$"):
        Served(tmp_path)
    served.close()
    with pytest.raises(StateError, match=r"has the state of another device$"):
        Served(tmp_path, known=MapKey(bytes(32), _KNOWN.digest))
    with pytest.raises(StateError, match=r"has the state of another map$"):
        Served(tmp_path, known=MapKey(_KNOWN.public, bytes(32)))
    with pytest.raises(StateError, match=r"record 1: it is another device's, or was changed$"):
        Served(tmp_path, root=bytes(32))
    (tmp_path / "map.json").unlink()
    with pytest.raises(StateError, match=r"map\.json is missing beside the state of a map$"):
        Served(tmp_path)


_PUT = [Request(Operation.PUT, 1, b"12345678")]


@pytest.mark.parametrize("durable", ["log", "snapshot"])
def test_a_lock_that_is_removed_lets_nobody_in(durable, tmp_path):
    folder = tmp_path / "state"
    served = Served(folder, durable=durable)
    for change in (Path.unlink, Path.touch):
        change(folder / "lock")
        with pytest.raises(StateError, match=r"is in use by another server$"):
            Served(folder)
    served.run(_PUT)
    served.close()
    served = Served(folder)
    assert served.items() == {1: b"12345678"}
    served.close()


@pytest.mark.parametrize("copied", [False, True])
def test_a_folder_that_is_moved_has_one_server(copied, tmp_path):
    """Its place may be taken by a copy: of two servers one goes on, and each folder can be started again."""
    folder, away = tmp_path / "state", tmp_path / "away"
    served = Served(folder)
    served.run(_PUT)
    folder.rename(away)
    with pytest.raises(StateError, match=r"is in use by another server$"):
        Served(away)
    if copied:
        shutil.copytree(away, folder)
    other = Served(folder)
    other.run([Request(Operation.PUT, 2, b"abcdefgh")])
    names = sorted(path.name for path in folder.iterdir())
    with pytest.raises(MapStopped) as stopped:
        served.run([Request(Operation.PUT, 3, b"ijklmnop")])
    assert "it was moved" in str(stopped.value.__cause__)
    served.close()
    assert sorted(path.name for path in folder.iterdir()) == names
    there = {1: b"12345678"} if copied else {}
    assert other.items() == {**there, 2: b"abcdefgh"}
    other.close()
    for place, items in (away, {1: b"12345678"}), (folder, {**there, 2: b"abcdefgh"}):
        again = Served(place)
        assert again.items() == items
        again.close()


def test_a_folder_that_could_not_be_used_can_be_once_that_is_mended(tmp_path):
    """Nothing keeps it locked."""
    (tmp_path / "synced").mkdir()
    with pytest.raises(IsADirectoryError):
        Served(tmp_path)
    (tmp_path / "synced").rmdir()
    Served(tmp_path).close()


def test_what_a_killed_server_left_is_swept(tmp_path):
    Served(tmp_path).close()
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in ("map.json.new", "snapshot-1.new", "spare"):
        (tmp_path / name).touch()
    Served(tmp_path).close()
    names = sorted(path.name for path in tmp_path.iterdir())
    apart = lambda names: [name for name in names if not name.startswith(("log", "spare"))]
    assert apart(names) == apart(before)


def test_a_folder_that_was_moved_back_is_its_servers_own(tmp_path):
    served = Served(tmp_path / "state")
    (tmp_path / "state").rename(tmp_path / "away").rename(tmp_path / "state")
    served.run(_PUT)
    served.close()


@pytest.mark.parametrize("names", [("device.json", "map.json"), ("notes.txt",)])
def test_a_folder_of_something_else_is_left_as_it_is(names, tmp_path):
    for name in names:
        (tmp_path / name).write_text("{}")
    with pytest.raises(StateError, match=rf"is no folder of a map's state: it has {names[0]}$"):
        Served(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


@pytest.mark.parametrize("call", range(1, 9))
def test_a_start_on_a_full_disk_leaves_no_new_files(call, tmp_path):
    disk = Faulty(tmp_path, random.Random(1))
    disk.full = range(call, 99)
    try:
        Served(tmp_path, disk=disk).close()
    except OSError:
        assert not {path.name for path in tmp_path.iterdir()} & {"map.json.new", "spare"}


@pytest.mark.parametrize("text", ["[" * 100_000, "null", '{"map": 1}', '{"map": "x", "salt": 2}'])
def test_a_map_json_that_was_changed(text, tmp_path):
    Served(tmp_path).close()
    (tmp_path / "map.json").write_text(text)
    with pytest.raises(
        StateError,
        match=r"map\.json (was changed$|is not what a server has written: |has 100,000 bytes: )",
    ):
        Served(tmp_path)


def test_a_keeper_confirms(tmp_path):
    served = Served(tmp_path)
    served.items()
    receipt = served.receipt
    served.close()
    keeper = Served(tmp_path, role=Role.KEEPER)
    assert not keeper.welcome.confirmed and keeper.accepts(*receipt)
    asked = initiator(_KEYS.public, _KNOWN.digest, Role.READER, None)
    [answer] = keeper.map.carry([], keeper.frames.opening(1, Role.READER, asked.message))
    welcome, _ = asked.finish(keeper.frames.welcome(answer))
    assert Welcome.unpack(welcome).confirmed
    keeper.close()


def test_renewed_keys_go_on_with_the_map(tmp_path):
    """The device opens what it sealed before, and at once seals it anew; older keys open nothing of that."""
    draw, items, receipts = random.Random(1), {}, []
    keys = [KeySchedule(_ROOT, bytes(32), _KNOWN.digest, n) for n in range(4)]
    publics = tuple(each.public for each in keys)
    assert len({*publics, *(each.role_key(Role.WRITER) for each in keys)}) == 8
    known = [_KNOWN._replace(public=publics[n], before=publics[:n]) for n in range(4)]
    for turn, generation in enumerate((0, 0, 1, 1, 3)):
        number = 0 if not turn else served.state.number
        served = Served(tmp_path, known=known[generation], keys=keys[generation])
        assert served.state.number == number + (turn in (2, 4))
        assert served.items() == items
        assert all(served.accepts(*receipt) for receipt in receipts)
        made = _drawn(draw, 5)
        served.run(made)
        _applied(items, made)
        receipts.append(served.receipt)
        served.close()
    with pytest.raises(StateError, match=r"has the state of another device$"):
        Served(tmp_path, known=known[1], keys=keys[1])
    (tmp_path / "map.json").unlink()
    text = {"map": _KNOWN.digest.hex(), "public": publics[1].hex()}
    (tmp_path / "map.json").write_text(json.dumps(text))  # its host helps
    with pytest.raises(
        StateError, match=r"record 0: it does not follow the files before it, or is of later keys$"
    ):
        Served(tmp_path, known=known[1], keys=keys[1])


def test_without_a_log_a_server_that_ends_has_all_of_it(tmp_path):
    draw, items, logged = random.Random(4), {}, set()
    for _ in range(4):
        served = Served(tmp_path, durable="snapshot")
        assert served.items() == items
        for _ in range(draw.randrange(1, 9)):
            made = _drawn(draw, 4)
            served.run(made)
            _applied(items, made)
        served.close()
        logged |= {len(p.read_bytes().rstrip(b"\0")) for p in tmp_path.glob("log-*")}
    assert max(logged) <= HEAD + Record.size(_SHAPE)
    served = Served(tmp_path)  # with a log from now on
    assert served.items() == items
    served.close()


class Failing(Disk):
    """A disk whose next write fails when told so."""

    fails = False

    def write(self, handle, at, data):
        if self.fails:
            self.fails = False
            raise OSError(5, "Input/output error")
        super().write(handle, at, data)


def test_without_a_log_a_link_that_failed_is_written_later(tmp_path):
    draw, items, disk = random.Random(5), {}, Failing()
    served = Served(tmp_path, disk=disk, durable="snapshot")
    disk.fails = True
    for _ in range(40):
        made = _drawn(draw, 4)
        served.run(made)
        _applied(items, made)
    assert served.state.number >= 1 and not disk.fails
    served.close()
    again = Served(tmp_path, durable="snapshot")
    assert again.items() == items
    again.close()


def test_without_a_log_a_snapshot_that_is_not_written_is_said(tmp_path):
    served = Served(tmp_path, durable="snapshot")
    served.run([Request(Operation.PUT, 1, bytes(8))])

    def ended(*_):
        raise MapStopped(HardwareError(MapError.STOPPED))

    served.map._device.step = ended
    with pytest.raises(StateError, match=r"the last snapshot could not be written"):
        served.close()
    Served(tmp_path).close()  # the folder is free


def test_a_log_that_is_gone_stops_the_map(tmp_path):
    _begun(tmp_path, random.Random(1))
    served = Served(tmp_path)
    for path in served.state.files:
        path.unlink()
    with pytest.raises(MapStopped) as stopped:
        served.items()
    assert isinstance(stopped.value.__cause__, FileNotFoundError)
    served.close()


def test_renewed_keys_have_their_snapshot_once_there_is_room(tmp_path):
    served = Served(tmp_path)
    served.run([Request(Operation.PUT, 1, b"12345678")])
    served.close()
    keys = KeySchedule(_ROOT, bytes(32), _KNOWN.digest, 1)
    known = _KNOWN._replace(public=keys.public, before=(_KNOWN.public,))
    disk = Full()
    disk.full = range(3, 999)  # behind map.json's two
    with pytest.raises(OSError, match="No space"):
        Served(tmp_path, known=known, keys=keys, disk=disk)
    for number in (1, 1):
        served = Served(tmp_path, known=known, keys=keys)
        assert served.state.number == number and served.items() == {1: b"12345678"}
        served.close()


class Full(Disk):
    """A disk that has no room at some calls, of those that need room which was not reserved."""

    def __init__(self):
        self.calls, self.full, self.room = 0, (), {}

    def _call(self, handle, end):
        self.calls += 1
        if self.calls in self.full:
            raise OSError(28, "No space left on device")
        self.room[handle] = end

    def create(self, path):
        self._call(-1, 0)
        handle = super().create(path)
        self.room[handle] = 0
        return handle

    def write(self, handle, at, data):
        if at + len(data) > self.room.get(handle, 0):
            self._call(handle, at + len(data))
        super().write(handle, at, data)

    def reserve(self, handle, at, size):
        self._call(handle, at + size)
        super().reserve(handle, at, size)


def _filled(folder, durable, call):
    """Let a disk be full from some call on, for three; return how many requests were refused."""
    disk, draw, items, refused = Full(), random.Random(call), {}, 0
    served = Served(folder, disk=disk, durable=durable)
    disk.full = range(disk.calls + call, disk.calls + call + 3)
    for _ in range(10):
        made = _drawn(draw, 4)
        while True:
            try:
                served.run(made)
                break
            except ServerFull:  # before the device has seen them: the same ones go on
                refused += 1
                served.session._session.sent -= len(made)
        _applied(items, made)
    disk.full = ()
    assert served.items() == items
    seen = served.receipt
    served.close()
    again = Served(folder, durable=durable)
    assert again.items() == items and again.accepts(*seen)
    again.close()
    return refused


@pytest.mark.parametrize("durable", ["log", "snapshot"])
@pytest.mark.parametrize(
    "calls", [range(1, 30, 9), pytest.param(range(1, 60), marks=pytest.mark.long)]
)
def test_a_disk_that_is_full_at_any_call(tmp_path, monkeypatch, durable, calls):
    """Requests are refused while there is no room, and then go on: the map never stops, and nothing is lost."""
    for module in (disk_module, state_module):
        monkeypatch.setattr(module, "AHEAD", 200)
    refused = [_filled(tmp_path / str(call), durable, call) for call in calls]
    assert any(refused) is (durable == "log")
