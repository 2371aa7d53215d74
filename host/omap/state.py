"""A map's state on a server's disk: what the device sealed, and nothing that opens it.

    lock   map.json   snapshot-<n>   log-<n>-<serial>-<incarnation>   spare   synced

A log's records are on disk before their answers leave. Room for them is reserved before a request reaches
the device. A snapshot replaces the files with smaller numbers once it is whole, on disk and read back; before
it are the links of the logs that it replaces. `synced` says how many bytes of the log are on disk. It is written
behind them and never synced, so that what it says is true: without it nothing is lost but the difference
between a torn end and a damaged one.

Without logs (`durable="snapshot"`) answers leave at once, and a restart finds the last snapshot. A log has its
head then, and at most the first record of its power-up, from which the next snapshot has its link.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import zlib
from contextlib import suppress
from pathlib import Path

from ...models.errors import Error
from ...models.inputs import MEMORY, Input
from ...models.omap.config import OmapConfig
from ...models.omap.kept_device import Carried
from ...models.omap.state import HEAD, Head, Kind, Record
from ...sim.machine import Closing
from .disk import AHEAD, Disk, Growing
from .keyfiles import MapKey

_LOG = re.compile(r"log-(\d+)-(\d+)-([0-9a-f]{32})")
_SNAPSHOT = re.compile(r"snapshot-(\d+)")
#: what is on disk before an answer leaves: its record, or nothing but the last snapshot
DURABLE = ("log", "snapshot")
#: most links that a snapshot takes along
_LINKS = 255
#: bytes of `synced`
_MARK = 128
#: bytes: far beyond what is reserved for the records of one call
_ROOM = 1 << 24


class StateError(Error):
    """A folder of state cannot be used: it is in use, another map's or device's, or damaged."""


_LOGGED = Input("a file of a map's state", "", StateError, MEMORY)
_SMALL = Input("what a server has written", "", StateError, 1 << 12)


class ServerFull(Error):
    """The server's disk has no room for the records of these requests; the device has not seen them."""


def damaged(path: Path, record: int, why: str) -> StateError:
    """Return what is said of a file whose record, or head (0), is not what was written."""
    return StateError(f"{path}, record {record}: {why}")


class MapState(Closing):
    """A folder of state, locked for this process.

    Parameters: `known`: what `map.json` of the keys says; `config`: the map's; `durable`: one of `DURABLE`, what
    is on disk before an answer leaves. Raises StateError, OSError.
    """

    def __init__(
        self,
        folder: str | Path,
        known: MapKey,
        config: OmapConfig,
        disk: Disk | None = None,
        *,
        durable: str = "log",
    ) -> None:
        self.folder, self.config, self._disk = Path(folder), config, disk or Disk()
        #: every record is logged; else bytes of those that no snapshot has, and whether a link is there
        self.logs, self._lost, self._linked = durable == "log", 0, False
        #: the first record of this power-up
        self._first = b""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_folder()
        self._locks = self._locked()
        self._marks = self._locks[-1]
        #: an older generation wrote some of the files, once the log has begun
        self.renewed = False
        self.log: Growing | None = None
        self._spare: Growing | None = None
        self._snapshot: Growing | None = None
        self._seen = hashlib.sha256()
        try:
            self._check(known)
            self.number, self.files = self._found()
        except BaseException:
            self.close()
            raise

    def _locked(self) -> list[int]:
        """Lock the folder itself, whose lock no file that is removed takes along, then `lock` in it, for a disk
        that several machines share, and `synced`; return their handles. Raises StateError, OSError."""
        locks: list[int] = []
        try:
            for path in (self.folder, self.folder / "lock", self.folder / "synced"):
                how = os.O_RDWR | os.O_CREAT if locks else os.O_RDONLY
                locks.append(os.open(path, how, 0o600))
                fcntl.flock(locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            for handle in locks:
                os.close(handle)
            if isinstance(problem, BlockingIOError):
                raise StateError(f"{self.folder} is in use by another server") from None
            raise
        return locks

    def _check_place(self) -> None:
        """Raise OSError where the folder was moved: another one may have its name, and another server."""
        if not os.path.samestat(os.fstat(self._locks[0]), os.stat(self.folder)):
            raise OSError(errno.ESTALE, "it was moved", str(self.folder))

    # what is there

    def _check_folder(self) -> None:
        """Refuse a folder that is in use for something else, before anything is written there."""
        pattern = re.compile(r"lock|map\.json|synced|spare|lost\+found|.*\.new|log-.*|snapshot-.*")
        for path in self.folder.iterdir():
            if not pattern.fullmatch(path.name):
                raise StateError(f"{self.folder} is no folder of a map's state: it has {path.name}")

    def _check(self, known: MapKey) -> None:
        path = self.folder / "map.json"
        identity = {"map": known.digest.hex(), "public": known.public.hex()}
        if not path.exists():
            if any(
                _LOG.fullmatch(p.name) or _SNAPSHOT.fullmatch(p.name) for p in self.folder.iterdir()
            ):
                raise StateError(f"{path} is missing beside the state of a map")
            return self._tell(identity)
        content = _SMALL.json(path)
        if not isinstance(content, dict) or content.keys() != identity.keys():
            raise StateError(f"{path} was changed")
        if content.get("map") != identity["map"]:
            raise StateError(f"{self.folder} has the state of another map")
        if content.get("public") in [key.hex() for key in known.before]:
            return self._tell(identity)
        if content != identity:
            raise StateError(f"{self.folder} has the state of another device")
        return None

    def _tell(self, identity: dict[str, str]) -> None:
        """Say whose folder it is."""
        handle = self._disk.create(new := self.folder / "map.json.new")
        try:
            self._disk.write(handle, 0, json.dumps(identity).encode())
            self._disk.sync(handle)
        except OSError:
            new.unlink()
            raise
        finally:
            os.close(handle)
        self._disk.rename(new, self.folder / "map.json")
        self._sync_folder()

    def _found(self) -> tuple[int, list[Path]]:
        """Return the number of the latest snapshot, 0 without one, and the files that make the map."""
        snapshots, logs = {}, []
        for path in self.folder.iterdir():
            if match := _SNAPSHOT.fullmatch(path.name):
                snapshots[int(match[1])] = path
            elif match := _LOG.fullmatch(path.name):
                logs.append((int(match[1]), int(match[2]), self._has_records(path), path))
        number, numbers = max(snapshots, default=0), {n for n, *_ in logs}
        for n, _, records, path in logs:
            # a log is there before its snapshot has its name, beside what that replaces
            if n > number and (records or n - 1 not in numbers):
                raise StateError(f"snapshot-{n}, which {path} follows, is missing")
        mine = [path for n, *_, path in sorted(logs) if n == number]
        if snapshots and not mine:
            raise StateError(f"the log that follows {snapshots[number]} is missing")
        for path in mine:
            self._check_name(path)
        return number, [*([snapshots[number]] if snapshots else []), *mine]

    @staticmethod
    def _check_name(path: Path) -> None:
        """Check that a log's head is the one that was on disk before it had its name."""
        with _LOGGED.open(path) as file, suppress(ValueError):
            head = Head.unpack(file.read(HEAD))
            if path.name.endswith(f"-{head.serial}-{head.incarnation.hex()}"):
                return
        raise damaged(path, 0, "it was changed")

    def _generation(self, path: Path) -> int:
        """Return under which keys a file was written; its links may be older."""
        with _LOGGED.open(path) as file, _LOGGED.parsing(path):
            while (head := Head.unpack(file.read(HEAD))).kind == Kind.LINK:
                file.seek(Record.size(self.config), os.SEEK_CUR)
            return head.generation

    @staticmethod
    def content(path: Path) -> bytes:
        """Return what one of `files` holds. Raises StateError, also where it ends with more room than is ever reserved."""
        with _LOGGED.open(path) as file:
            at = os.fstat(file.fileno()).st_size - _ROOM
            if at > 0 and file.seek(at) and not any(file.read()):
                raise damaged(path, 0, "it was changed")
        return _LOGGED.data(path)

    @staticmethod
    def _has_records(path: Path) -> bool:
        return any(MapState.content(path)[HEAD:])

    def _synced(self) -> tuple[str, int]:
        """Return the name of the log that was on disk last, and its bytes then."""
        with suppress(StateError, ValueError):
            name, size, check = _SMALL.text(self.folder / "synced").split()
            if int(check) == zlib.crc32(f"{name} {size}".encode()):
                return name, int(size)
        return "", 0

    def _mark(self) -> None:
        """Say how much of the log is on disk. What a full disk does not take is not said."""
        text = f"{self._log.path.name} {self._log.size}"
        with suppress(OSError):
            line = f"{text} {zlib.crc32(text.encode())}".ljust(_MARK)
            self._disk.write(self._marks, 0, line.encode())

    # what is written

    def begin(self, head: bytes, used: int) -> None:
        """Cut the torn end of the last file off, and go on in a new log. Raises StateError for an end, or a
        file, that was on disk, OSError."""
        fields = Head.unpack(head)
        self._check_synced(fields.serial, used)
        if self.files and self.files[-1].stat().st_size != used:
            handle = os.open(self.files[-1], os.O_RDWR)
            try:
                self._disk.truncate(handle, used)
                self._disk.sync(handle)
            finally:
                os.close(handle)
        try:
            self._allocate()
            self._turn(head)
        except OSError:
            self._drop_spare()
            raise
        self._mark()
        self.files = [p for p in self.files if _SNAPSHOT.fullmatch(p.name) or self._has_records(p)]
        self.renewed = any(self._generation(path) < fields.generation for path in self.files)
        kept = {*self.files, self._log.path}
        # without records, or of snapshots that did not become whole
        for path in self.folder.iterdir():
            if path not in kept and (_LOG.fullmatch(path.name) or path.name.endswith(".new")):
                self._disk.remove(path)
        self._sync_folder()

    def _check_synced(self, serial: int, used: int) -> None:
        """Check that what was on disk is there: the files end behind this serial, so much of the last one counts."""
        name, size = self._synced()
        match, record = _LOG.fullmatch(name), Record.size(self.config)
        if self.files and name == self.files[-1].name and used < size:
            number = (used - HEAD) // record + 1
            other = "it is another device's, or was changed"
            why = "it was changed: it was on disk whole" if number > 1 else other
            raise damaged(self.files[-1], number, why)
        if match and serial < int(match[2]) + (size - HEAD) // record:
            path = self.folder / name
            before = f"files before {path} are" if path.exists() else f"{path} is"
            raise StateError(f"{before} missing: the map had more operations than these files have")

    @property
    def _log(self) -> Growing:
        assert self.log is not None
        return self.log

    def _allocate(self) -> None:
        """Have the file of the next log. Raises OSError."""
        self._check_place()
        if self._spare is None:
            self._spare = Growing(self._disk, self.folder / "spare")
            try:
                self._spare.reserve(AHEAD)
                self._spare.sync()
            except OSError:
                self._drop_spare()
                raise

    def _turn(self, head: bytes) -> None:
        """Let the next log begin."""
        assert self._spare is not None
        fields, log = Head.unpack(head), self._spare
        log.append(head)
        log.sync()
        path = self.folder / f"log-{self.number}-{fields.serial}-{fields.incarnation.hex()}"
        self._disk.rename(log.path, path)
        self._sync_folder()
        if self.log is not None:
            self.log.close()
        log.path, self.log, self._spare = path, log, None

    def reserve(self, records: int) -> None:
        """Have room for so many records. Raises ServerFull."""
        if not self.logs:
            return
        try:
            self._log.reserve(records * Record.size(self.config))
        except OSError as problem:
            raise ServerFull(f"{self.folder}: {problem.strerror}") from None

    @property
    def behind(self) -> bool:
        """Whether there are operations that neither logs nor a snapshot have."""
        return self._lost > 0

    def may_walk(self, due: bool = False) -> bool:
        """Whether a snapshot is due, or under way, and has the room to go on."""
        size = self.config.walk_steps * Record.size(self.config)
        if self._snapshot is None and self._written() < size and not due:
            return False
        try:
            self._allocate()
        except OSError:
            return False
        return True

    def _written(self) -> int:
        if not self.logs:
            return self._lost
        return self._log.size + sum(p.stat().st_size for p in self.files if _LOG.fullmatch(p.name))

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            with suppress(OSError):
                self._spare.path.unlink()
            self._spare = None

    def keep(self, step: Carried) -> None:
        """Put what the device gave on disk. Raises OSError: then what is on disk is not all that the device
        did."""
        self._check_place()
        if self.logs and step.log:
            self._log.append(step.log)
            self._log.sync()
            self._mark()
        elif step.log:
            self._lost += len(step.log)
            self._link(step.log[: Record.size(self.config)])
        if step.snapshot:
            self._grow(step.snapshot)
        if step.fresh:
            self._replace(step.fresh)

    def _link(self, record: bytes) -> None:
        """Keep the first record of this power-up. While it cannot be written there is no link, and no snapshot begins."""
        self._first = self._first or record
        if not self._linked:
            with suppress(OSError):
                self._log.append(self._first)
                self._linked = True

    def _grow(self, text: bytes) -> None:
        """Write on a snapshot; one that has no room is given up."""
        try:
            if self._snapshot is None and self._is_head(text) and (self.logs or self._linked):
                path = self.folder / f"snapshot-{self.number + 1}.new"
                self._snapshot, self._seen = Growing(self._disk, path), hashlib.sha256()
                text = self._links() + text
            if self._snapshot is not None:
                self._snapshot.append(text)
                self._seen.update(text)
        except OSError:
            self._give_up()

    def _links(self) -> bytes:
        """Return the links of all logs that a snapshot replaces, those of an earlier snapshot first."""
        size, links = HEAD + Record.size(self.config), dict[bytes, bytes]()
        for path in (*self.files, self._log.path):
            text = _LOGGED.data(path)
            while (head := Head.unpack(text[:HEAD])).kind == Kind.LINK:
                links[head.incarnation], text = text[:size], text[size:]
            if head.kind == Kind.LOG and any(text[HEAD:]):
                link = head._replace(kind=Kind.LINK).pack() + text[HEAD:size]
                links.setdefault(head.incarnation, link)
        return b"".join(list(links.values())[-_LINKS:])

    @staticmethod
    def _is_head(text: bytes) -> bool:
        with suppress(ValueError):
            Head.unpack(text)
            return True
        return False

    def _give_up(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            with suppress(OSError):
                self._disk.remove(self._snapshot.path)
            self._snapshot = None

    def _replace(self, fresh: bytes) -> None:
        """The walk is over: the next log begins, behind the snapshot if that is whole."""
        snapshot = self._snapshot
        if snapshot is not None:
            try:
                snapshot.sync()
                if hashlib.sha256(snapshot.path.read_bytes()).digest() != self._seen.digest():
                    raise OSError(5, "it reads back otherwise")
            except OSError:
                self._give_up()
                snapshot = None
        old, before = [*self.files, self._log.path], self.number
        if snapshot is None:
            if self.logs:  # else the next one follows the files that are there
                self.files = old
                self._turn(fresh)
                self._mark()
            return
        self._lost = 0
        self.number = before + 1
        self._turn(fresh)
        path = self.folder / f"snapshot-{self.number}"
        self._disk.rename(snapshot.path, path)
        self._sync_folder()
        self._mark()  # not before: without logs nothing else has what the snapshot has
        snapshot.close()
        self._snapshot, self.files = None, [path]
        for each in old:
            with suppress(OSError):
                self._disk.remove(each)

    def _sync_folder(self) -> None:
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            self._disk.sync(handle)
        finally:
            os.close(handle)

    def close(self) -> None:
        for file in (self.log, self._spare, self._snapshot):
            if file is not None:
                file.close()
        self.log = self._spare = self._snapshot = None
        self._lost = 0
        for handle in self._locks:
            os.close(handle)
        self._locks = []
