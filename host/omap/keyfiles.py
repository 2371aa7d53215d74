"""Keys of a map in files, one for each who needs some of them, and the numbers of the client's requests.

Writing them, and bringing each to its place, is the trusted set-up: whoever reads `device.json` reads
the map, whoever reads `client.json` the session.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from ...models.errors import Error
from ...models.omap.config import OmapConfig, digest_of
from ...models.omap.messages import Keys
from .session import admission_key

__all__ = [
    "FILES",
    "KeyFileError",
    "Use",
    "name_of",
    "read_admission",
    "read_client",
    "read_device",
    "sync_folder",
    "write_keys",
]

#: what each file has: all keys and the map's digest; the session's and the digest; the key that tells
#: the client's messages from others'; the numbers that the session has used (`numbers`)
FILES = ("device.json", "client.json", "server.json", "client.next")
_NAMES = ("page", "session", "hash", "pairs")


class KeyFileError(Error):
    """A file of keys cannot be read, or is not one. The message has no key."""


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to disk: they stay, even where the machine is switched off now."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def name_of(session: int) -> str:
    """Return what tells a session's key from others, and nothing of it."""
    return hashlib.sha256(admission_key(session)).hexdigest()[:16]


def write_keys(folder: str | Path, keys: Keys, config: OmapConfig) -> list[Path]:
    """Write the `FILES` of a map into a folder that is made, readable by their owner alone; return
    their paths. Raises OSError, FileExistsError where one is there: a key is used for one map."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    told = {name: f"{getattr(keys, name):032x}" for name in _NAMES}
    told["map"] = digest_of(config.to_json())
    contents = {
        "device.json": json.dumps(told),
        "client.json": json.dumps({name: told[name] for name in ("session", "map")}),
        "server.json": json.dumps({"admission": admission_key(keys.session).hex()}),
        "client.next": f"penstock map {name_of(keys.session)} 0\n",
    }
    paths = [folder / name for name in FILES]
    for path in paths:
        if path.exists():
            raise FileExistsError(17, "there are keys already", str(path))
    for path in paths:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(contents[path.name])
    return paths


class Use:
    """The note, beside a device's file of keys, that they have served a map. Counters and the numbers
    of requests begin at 0 in each run, so that a second one with these keys would use nonces twice and
    show the pairs of the first again.

    Raises KeyFileError for keys that have served a map, and where no note can be made.
    """

    def __init__(self, path: str | Path, keys: Keys) -> None:
        folder = Path(path).parent
        self._path, self._keys = folder / f"used-{name_of(keys.session)}", path
        if self._path.exists():
            raise self._again()
        if not os.access(folder, os.W_OK):
            raise KeyFileError(f"{folder} cannot be written: it has to note that the keys are used")

    def begin(self) -> None:
        """Note it: to be called before the first request. Raises KeyFileError."""
        try:
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            sync_folder(self._path.parent)
        except FileExistsError:  # another device has begun meanwhile
            raise self._again() from None
        except OSError as problem:
            raise KeyFileError(f"{self._path} cannot be written: {problem.strerror}") from None

    def _again(self) -> KeyFileError:
        return KeyFileError(
            f"{self._keys} has served a map already: its nonces would be used twice"
        )


def _read(path: str | Path, **digits: int) -> list[str]:
    try:
        found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise KeyFileError(f"{path} cannot be read: {problem.strerror}") from None
    except ValueError:
        raise KeyFileError(f"{path} is not a file of keys") from None
    values: list[str] = []
    for name, count in digits.items():
        value = found.get(name) if isinstance(found, dict) else None
        if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-fA-F]{{{count}}}", value):
            raise KeyFileError(f"{path} has no key {name} of {count} hexadecimal digits")
        values.append(value)
    return values


def read_device(path: str | Path, config: OmapConfig) -> Keys:
    """Return the device's keys. Raises KeyFileError, also where they are another map's."""
    *keys, digest = _read(path, **dict.fromkeys(_NAMES, 32), map=64)
    if digest != digest_of(config.to_json()):
        raise KeyFileError(f"{path} was made for another map")
    return Keys(*(int(text, 16) for text in keys))


def read_client(path: str | Path) -> tuple[int, str]:
    """Return the session's key and the digest of the map's configuration. Raises KeyFileError."""
    text, digest = _read(path, session=32, map=64)
    return int(text, 16), digest


def read_admission(path: str | Path) -> bytes:
    """Return the server's key. Raises KeyFileError."""
    [text] = _read(path, admission=64)
    return bytes.fromhex(text)
