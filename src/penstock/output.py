"""Files and folders that appear whole or not at all."""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from penstock.models.errors import Error
from penstock.models.inputs import Input
from penstock.sim.staging import staging, sync

#: says that a folder holds a design, and what stands in its files
MANIFEST = "manifest.json"
_ELSEWHERE = "choose a place on another disk, or make room on this one"


class OutputError(Error):
    """Something cannot be written where the user wants it."""

    code = "E903"


_MANIFEST = Input("a manifest", "", OutputError)


def as_json(content: Mapping[str, Any]) -> bytes:
    """Return data as the text of a file, the same for the same data."""
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def as_npz(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as an NPZ file, whatever their names are; none of Python's objects are in it."""
    import io
    import zipfile

    import numpy as np

    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, value in arrays.items():
            part = zipfile.ZipInfo(f"{name}.npy")  # without a time: the same for the same data
            with archive.open(part, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(value), allow_pickle=False)
    return memory.getvalue()


def check_file(path: str | Path) -> Path:
    """Return the path if a file can be written there, before any work is done for it. Raises OutputError."""
    path = _possible(path)
    if path.is_dir():
        raise OutputError(f"{path} is a folder", "name a file")
    _check_parent(path)
    return path


def _possible(path: str | Path) -> Path:
    """Return the path if the system takes it for one."""
    try:
        os.stat(path)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        pass
    except (OSError, ValueError) as problem:  # too long, or with a NUL in it
        raise OutputError(
            f"nothing can be written there: {getattr(problem, 'strerror', None) or problem}",
            "choose another name",
        ) from problem
    return Path(path)


def check_folder(path: str | Path, names: Mapping[str, bytes] | tuple[str, ...]) -> Path:
    """Return the path if a folder with files of these names can be made there or replace an earlier one.

    What the manifest of an earlier design lists is replaced as well. Raises OutputError, also for a folder that holds anything else, or a
    `manifest.json` that is not Penstock's.
    """
    path = _possible(path)
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file", "name a folder that does not exist yet")
    if path.is_dir():
        ours = MANIFEST not in names or _ours(path / MANIFEST)
        known = {*names, *(_listed(path / MANIFEST) if ours and MANIFEST in names else ())}
        folders = {str(above) for name in known if ours for above in PurePosixPath(name).parents}
        others = sorted(
            name
            for name, plain in _content(path, folders)
            if not (ours and plain and name in known)
        )
        if others:
            raise OutputError(
                f"the folder {path} holds other files ({others[0]}{', …' if others[1:] else ''})",
                "name a folder that does not exist yet",
            )
    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    _check_parent(above / path.name)
    return path


def _content(
    path: Path, folders: Collection[str] | None, above: str = ""
) -> Iterator[tuple[str, bool]]:
    """Yield what is in a folder, by its path in it, and whether it is a plain file. Of the folders in it
    those are looked into that are named, all where None is given."""
    for entry in os.scandir(path):
        name = above + entry.name
        if entry.is_dir(follow_symlinks=False) and (folders is None or name in folders):
            yield from _content(Path(entry), folders, f"{name}/")
        else:
            yield name, entry.is_file(follow_symlinks=False)


def _ours(manifest: Path) -> bool:
    """Return whether a file is the manifest of a design, of whatever version."""
    with suppress(OutputError):
        return b'\n "penstock": ' in _MANIFEST.data(manifest)
    return False


def _listed(manifest: Path) -> set[str]:
    """Return the files that an earlier design's manifest lists."""
    with suppress(OutputError), _MANIFEST.parsing(manifest):
        return set(map(str, _MANIFEST.json(manifest)["files"]))
    return set()


def earlier(path: str | Path) -> tuple[str, ...]:
    """Return the names of the files of an earlier design in a folder, for `check_folder` before the
    names of the new one are known."""
    try:
        if not _ours(Path(path) / MANIFEST):
            return ()
        return tuple(name for name, _ in _content(Path(path), None))
    except (OSError, ValueError):
        return ()


def _check_parent(path: Path) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OutputError(
            f"there is no folder {path.parent}"
            if not folder.exists()
            else f"{path.parent} is not a folder",
            "make it first",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(
            f"{path.parent} may not be written", "choose another place, or change its permissions"
        )


def _unwritten(path: Path, problem: OSError) -> OutputError:
    return OutputError(f"{path} cannot be written: {problem.strerror or problem}", _ELSEWHERE)


def write_file(path: str | Path, data: bytes) -> Path:
    """Write a file in one step. Raises OutputError."""
    path = check_file(path)
    try:
        if path.exists() and not path.is_file():  # a pipe or a device: nothing to be replaced
            path.write_bytes(data)
            return path
        with staging(f".{path.name}.new-", path.absolute().parent) as folder:
            staged = folder / path.name
            staged.write_bytes(data)
            os.replace(staged, path)
    except OSError as problem:
        raise _unwritten(path, problem) from problem
    return path


def write_folder(path: str | Path, files: Mapping[str, bytes]) -> Path:
    """Make a folder with these files in one step, in place of an earlier one: its files are of the same names, or listed in its manifest.

    Whatever ends it early, the earlier folder is there, or none, or the new one, whole and on the disk. Raises OutputError.
    """
    path = check_folder(path, files)
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with staging(f".{target.name}.new-", target.parent) as staged:
            new, old = staged / "new", staged / "old"
            new.mkdir()
            try:
                for name, data in files.items():
                    (new / name).parent.mkdir(parents=True, exist_ok=True)
                    (new / name).write_bytes(data)
                    sync(new / name)
                for folder, _, _ in os.walk(new, topdown=False):
                    sync(Path(folder))
                if target.exists():
                    os.rename(target, old)
                os.rename(new, target)
                sync(target.parent)
            finally:
                if old.exists() and not target.exists():
                    os.rename(old, target)
    except OSError as problem:
        raise _unwritten(path, problem) from problem
    return path
