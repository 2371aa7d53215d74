"""Where the tools that Penstock runs may write: its cache, and theirs."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

__all__ = ["cache_folder", "tool_variables"]


def cache_folder() -> Path:
    """Return the folder of finished builds; made if it is not there.

    It is `$PENSTOCK_CACHE`, else `penstock` in `$XDG_CACHE_HOME` or `~/.cache`, else, where these
    cannot be written (as in a container with a read-only home), a folder of this user's own among
    the temporary ones.

    Raises OSError where `$PENSTOCK_CACHE` is set and cannot be made, or no folder can be written.
    """
    chosen = os.environ.get("PENSTOCK_CACHE")
    if chosen:
        folder = Path(chosen)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    usual = _usual_cache()
    if usual is not None and _writable(usual / "penstock"):
        return usual / "penstock"
    return _private(f"penstock-cache-{os.getuid()}")


def tool_variables() -> Mapping[str, str]:
    """Return the variables to add to the environment of tools that run as WebAssembly, such as
    Yosys, so that they can keep their compiled code: none where the usual folder can be written."""
    usual = _usual_cache()
    if usual is not None and _writable(usual):
        return {}
    folder = cache_folder() / "tools"
    folder.mkdir(exist_ok=True)
    return {"XDG_CACHE_HOME": str(folder)}


def _usual_cache() -> Path | None:
    """Return the folder in which programs of this user keep their caches; None without a home."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen)
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as some containers have
        return None


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


@lru_cache(maxsize=1)
def _private(name: str) -> Path:
    """Return a temporary folder that only this user can have written: libraries are loaded from it."""
    folder = Path(tempfile.gettempdir()) / name
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        found = None
    mine = (
        found is not None
        and stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.getuid()
        and not found.st_mode & 0o077
    )
    return folder if mine else Path(tempfile.mkdtemp(prefix=f"{name}-"))
