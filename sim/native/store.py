"""Files in the cache: published whole, and taken only if they are still what was put there.

Every file ends in the digest of what stands before it. Loaders of libraries and linkers pass over
bytes behind the end of an object.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["intact", "publish", "text_of", "trim"]

_MARK = b"\n// penstock sha256 "
_TRAILER = len(_MARK) + 64 + 1  #: mark, hexadecimal digest, end of the line
#: the cache is trimmed to this size, least recently used first
_CACHE_BYTES = 2 << 30


def _sealed(data: bytes) -> bytes:
    return data + _MARK + hashlib.sha256(data).hexdigest().encode() + b"\n"


def _content(path: Path) -> bytes | None:
    """Return what was put into a file; None where it is not there, or not that any more."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[:-_TRAILER]
    return body if len(data) > _TRAILER and _sealed(body) == data else None


def intact(path: Path) -> bool:
    """Return whether a file is there and undamaged; it then counts as used now."""
    if _content(path) is None:
        return False
    with suppress(OSError):
        os.utime(path)
    return True


def text_of(path: Path) -> str | None:
    """Return the text that was put into a file; None where it is not there or damaged."""
    content = _content(path)
    if content is None:
        return None
    with suppress(OSError):
        os.utime(path)
    return content.decode()


def publish(data: bytes, target: Path) -> None:
    """Put a finished file into the cache in one step, in place of a damaged one. Raises OSError."""
    handle, staged = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_sealed(data))
        os.chmod(staged, 0o755)
        os.replace(staged, target)
    except OSError:
        os.unlink(staged)
        raise


def trim(folder: Path) -> None:
    """Keep the cache within its size, dropping what was not used for the longest time."""
    files = []
    for path in folder.iterdir():
        try:
            status = path.stat()
        except FileNotFoundError:  # another process trims as well
            continue
        if path.is_dir():
            continue
        files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _CACHE_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= size
