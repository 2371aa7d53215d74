"""Files that are being made: beside their place, until they are whole, held by the process that makes them.

The system takes the hold from a process that ends, however it ends. What no process holds is left over, and goes.
"""

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: begins the names of Penstock's folders among the temporary ones
TEMPORARY = "penstock-new-"


def held(handle: int) -> bool:
    """Return whether this caller has taken hold of an open file or folder; where the file system has no locks, it has."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@contextmanager
def staging(prefix: str = TEMPORARY, beside: Path | None = None) -> Iterator[Path]:
    """Give a new folder whose name begins with `prefix`, and remove it with what is left in it. `beside`: the folder that it is
    made in, the temporary one unless given. What killed processes have left there under that prefix goes first."""
    parent = Path(tempfile.gettempdir()) if beside is None else beside
    sweep(parent, re.escape(prefix) + "[a-z0-9_]{8}")
    place, handle = _new(prefix, parent)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(handle)


def _new(prefix: str, parent: Path) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):  # another process has swept it before it was held
            handle = os.open(place, os.O_RDONLY)
            if held(handle) and place.exists():
                return place, handle
            os.close(handle)


def sync(path: Path) -> None:
    """Have the disk hold what a file, or the list of names of a folder, says. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # a file system that has no such thing
            raise
    finally:
        os.close(handle)


def sweep(folder: Path, names: str) -> None:
    """Remove this user's files and folders whose whole names match, which are closed to others, as ours are, and which no process holds."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if re.fullmatch(names, entry.name):
                with suppress(OSError, RecursionError):  # of folders that lie a thousand deep
                    status = entry.stat(follow_symlinks=False)
                    if status.st_uid == os.getuid() and not status.st_mode & 0o077:
                        _remove(entry.path)


def _remove(place: str) -> None:
    """Remove what no process holds. Raises OSError where that cannot be known."""
    handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.isdir(place):
            shutil.rmtree(place)
        else:
            os.unlink(place)
    finally:
        os.close(handle)
