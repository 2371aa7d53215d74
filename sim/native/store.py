"""Files in the cache: made by one process at a time, published whole, and taken only if they are
still what was put there.

Every file ends in the digest of its name and of what stands before it: one under another's name is not taken. Loaders of
libraries and linkers pass over bytes behind the end of an object.
"""

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from time import monotonic, sleep, time

from ..staging import held, staging, sweep

_MARK = b"\n// penstock sha256 "
_TRAILER = len(_MARK) + 64 + 1  #: mark, hexadecimal digest, end of the line
#: the cache is trimmed to this size, least recently used first
_CACHE_BYTES = 2 << 30
#: seconds for which a use of a file counts
_FRESH = 600.0
#: the files that this process has found intact, as they were then
_found: dict[Path, tuple[int, int, int]] = {}
#: seconds to wait for another process that makes the same file, longer than a large design takes; and how often to look
_PATIENCE = 1200.0
_LOOK = 0.05


def _sealed(data: bytes, name: str) -> bytes:
    digest = hashlib.sha256(b"%b\0%b" % (name.encode(), data)).hexdigest()
    return data + _MARK + digest.encode() + b"\n"


@cache
def _swept(folder: Path) -> None:
    """Remove what killed processes have left in a folder of the cache, once in this process."""
    sweep(folder, r"\.(new|board)-[a-z0-9_]{8}|\..+\.lock")


def _content(path: Path) -> bytes | None:
    """Return what was put into a file, which counts as used now; None where it is not there, or not that any more, or others
    can have written it: libraries are run."""
    _swept(path.parent)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o022:
                return None
            # before all of it: it may say that it has terabytes
            file.seek(max(status.st_size - _TRAILER, 0))
            if not file.read().startswith(_MARK):
                return None
            file.seek(0)
            data = file.read()
    except OSError:
        return None
    body = data[:-_TRAILER]
    if len(data) <= _TRAILER or _sealed(body, path.name) != data:
        return None
    if time() - status.st_mtime > _FRESH:
        with suppress(OSError):
            os.utime(path)
    return body


def intact(path: Path) -> bool:
    """Return whether a file is there and undamaged. What this process has found so lately, and
    nobody has changed since, it need not read again: Verilator's header has 70 MB."""
    stamp = _stamp(path)
    if stamp is not None and stamp == _found.get(path):
        return True
    if _content(path) is None:
        return False
    # after a change of just now another one may bear the same time
    if stamp is not None and time() - stamp[2] / 1e9 > 1:
        _found[path] = stamp
    return True


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from a changed one; None where it is not there or counts as unused."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    fresh = time() - status.st_mtime <= _FRESH
    return (status.st_ino, status.st_size, status.st_ctime_ns) if fresh else None


def text_of(path: Path) -> str | None:
    """Return the text that was put into a file; None where it is not there or damaged."""
    content = _content(path)
    return None if content is None else content.decode()


@contextmanager
def alone(target: Path, patience: float | None = None) -> Iterator[None]:
    """Hold a file that is to be made against other processes and threads, which wait here. Whoever
    comes in looks first whether the file is there by now. `patience`: seconds to wait at the most.

    The system takes the lock from a process that dies. A file system without locks, and a holder
    that does not come to an end, are no reason not to go on: the file is then made twice.
    """
    lock = target.with_name(f".{target.name}.lock")
    handle = _locked(lock, monotonic() + (_PATIENCE if patience is None else patience))
    try:
        yield
    finally:
        if handle is not None:
            lock.unlink(missing_ok=True)  # while it is held: see `_locked`
            os.close(handle)


def _locked(lock: Path, until: float) -> int | None:
    """Return a file that this caller alone has locked; None where that cannot be had."""
    try:
        while True:
            handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                while not held(handle):
                    if monotonic() >= until:
                        os.close(handle)
                        return None
                    sleep(_LOOK)
                # the last holder has removed its file: one that another caller made meanwhile counts
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(handle), os.stat(lock)):
                        return handle
            except OSError:
                os.close(handle)
                raise
            os.close(handle)
    except OSError:
        return None


def publish(data: bytes, target: Path) -> None:
    """Put a finished file into the cache in one step, in place of a damaged one. Raises OSError."""
    with staging(".new-", target.parent) as folder:
        staged = folder / target.name
        staged.write_bytes(_sealed(data, target.name))
        staged.chmod(0o755)
        os.replace(staged, target)


def check_room(needed: int, *folders: Path) -> None:
    """Raise OSError, before any work is done, unless each folder can be written and has room for
    `needed` bytes."""
    for folder in folders:
        with tempfile.TemporaryFile(dir=folder):
            total, _, free = shutil.disk_usage(folder)
        asked = needed * sum(folder.stat().st_dev == other.stat().st_dev for other in folders)
        if total and free < asked:
            what = (
                f"the disk has room for {free >> 20} MB, and a build takes up to {asked >> 20} MB"
            )
            raise OSError(errno.ENOSPC, what, str(folder))


def trim(folder: Path) -> None:
    """Keep the cache within its size, dropping what was not used for the longest time."""
    files = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process trims as well
            status = path.stat()
            if not path.is_dir():
                files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _CACHE_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= size
