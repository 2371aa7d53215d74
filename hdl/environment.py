"""Where the tools that Penstock runs may write: its cache, and theirs."""

import errno
import os
import stat
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of finished builds; made if it is not there.

    It is `$PENSTOCK_CACHE`, else `penstock` in `$XDG_CACHE_HOME` or `~/.cache`, else, where these
    cannot be written (as in a container with a read-only home), a folder of this user's own among
    the temporary ones. What lies in it is run: a folder that others can write is not taken, the
    usual one with a warning.

    Raises OSError where `$PENSTOCK_CACHE` is set and cannot be made or trusted, or no folder can be
    written.
    """
    chosen = os.environ.get("PENSTOCK_CACHE")
    if chosen:
        return _made(Path(chosen))
    usual = _usual_cache()
    if usual is not None and _own(usual / "penstock"):
        return usual / "penstock"
    return _private(f"penstock-cache-{os.getuid()}")


def shared(folder: Path) -> str:
    """Return why others than this user and root could put something into a folder, or another one
    in its place; "" where they cannot. Of one that is not there, that is the folder above it."""
    *_, last = way = [*_way(folder)]
    return next(filter(None, (_open(place, place == last) for place in reversed(way))), "")


def _open(place: Path, whole: bool = True) -> str:
    """Return why others could change what is in a place; or, not `whole`, put something else in the stead of what is another's there."""
    status = place.lstat()
    if status.st_uid not in (os.getuid(), 0) and place != Path(place.anchor):
        return f"{place} belongs to another user ({status.st_uid})"
    closed = stat.S_ISLNK(status.st_mode) or (status.st_mode & stat.S_ISVTX and not whole)
    if status.st_mode & 0o022 and not closed:
        return f"others can write {place} (chmod go-w {place})"
    return ""


def _way(place: Path) -> Iterator[Path]:
    """Give all folders and links that the system goes through to a place, as far as they are there."""
    here, names, links = Path("/"), [*reversed(place.absolute().parts[1:])], 0
    yield here
    while names and links < 40:  # as many as Linux follows
        here = Path(os.path.normpath(here / names.pop()))
        if not os.path.lexists(here):
            return
        yield here
        if here.is_symlink():
            names += reversed((here.parent / os.readlink(here)).parts[1:])
            here, links = Path("/"), links + 1


def changeable(places: Iterable[Path]) -> str:
    """Return why others than this user and root could change something in these files and folders, or in
    what links in them name, as `shared` does; "" where they cannot."""
    waiting, walked = [*places], set[Path]()
    while waiting:
        place = waiting.pop()
        if why := shared(place):
            return why
        root = Path(os.path.realpath(place))
        if not walked.isdisjoint((root, *root.parents)):
            continue
        walked.add(root)
        for above, inner, files in os.walk(root):
            for one in (Path(above, name) for name in (*inner, *files)):
                if why := _open(one):
                    return why
                if one.is_symlink():
                    waiting.append(one)
    return ""


def tool_variables() -> Mapping[str, str]:
    """Return the variables to add to the environment of tools that run as WebAssembly, such as
    Yosys, so that they can keep their compiled code: none where the usual folder can be written."""
    usual = _usual_cache()
    if usual is not None and _own(usual):
        return {}
    folder = cache_folder() / "tools"
    folder.mkdir(mode=0o700, exist_ok=True)
    return {"XDG_CACHE_HOME": str(folder)}


def _usual_cache() -> Path | None:
    """Return the folder in which programs of this user keep their caches; None without a home."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen)
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as some containers have
        return None


def _own(folder: Path) -> bool:
    """Return whether a folder, made if it is not there, can be written, by nobody else."""
    try:
        return os.access(_made(folder), os.W_OK | os.X_OK)
    except OSError as problem:
        if problem.errno == errno.EPERM:
            warnings.warn(f"the cache {folder} is not used: {problem.strerror}", stacklevel=3)
        return False


def _made(folder: Path) -> Path:
    """Return a folder, made for this user alone if it is not there. Raises OSError, EPERM where others can write in it."""
    for above in reversed(folder.absolute().parents):
        if not above.exists():
            above.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if why := shared(folder):
        raise PermissionError(errno.EPERM, f"{why}, and what lies in a cache is run", str(folder))
    return folder


@lru_cache(maxsize=1)
def _private(name: str) -> Path:
    """Return a temporary folder that only this user can have written: libraries are loaded from it."""
    folder = Path(tempfile.gettempdir()) / name
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if mine and not status.st_mode & 0o077:
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{name}-"))
