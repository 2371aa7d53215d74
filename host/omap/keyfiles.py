"""Files of a map's keys, one for each who needs some.

Writing them, and bringing each to its place, is the trusted set-up: whoever reads `device.json` can
imitate the device, whoever reads `writer.json` can write. `map.json` has no secret.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...models.errors import Error
from ...models.omap.config import OmapConfig
from ...models.omap.sessions import digest_of_map
from ...models.omap.vault import KeySchedule, Role

__all__ = ["FILES", "KeyFileError", "MapKey", "read_device", "read_map", "read_role", "write_keys"]

#: what each file has: the device's root; its public key; the writer's key; the keeper's; and all of
#: them the map's digest
FILES = ("device.json", "map.json", "writer.json", "keeper.json")
_DIGITS = 64


class KeyFileError(Error):
    """A file of keys cannot be read, or is not the one that is needed. The message has no key."""


class MapKey(NamedTuple):
    """What a client knows of a map: the device's public key, and the digest of the configuration."""

    public: bytes
    digest: bytes


def write_keys(folder: str | Path, config: OmapConfig) -> list[Path]:
    """Write the `FILES` of a new device into a folder that is made, readable by their owner alone; return
    their paths. All of them are written, or none. Raises OSError, FileExistsError where one is there."""
    folder, digest = Path(folder), digest_of_map(config)
    root = secrets.token_bytes(32)
    keys = KeySchedule(root, bytes(32), digest)  # these do not depend on a power-up's entropy
    told: dict[str, dict[str, bytes | None]] = {
        "device.json": {"root": root},
        "map.json": {"public": keys.public},
        "writer.json": {"writer": keys.role_key(Role.WRITER)},
        "keeper.json": {"keeper": keys.role_key(Role.KEEPER)},
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in FILES]
    for path in paths:
        if path.exists():
            raise FileExistsError(17, "there are keys already", str(path))
    texts = {
        name: json.dumps({k: v.hex() for k, v in {**each, "map": digest}.items() if v is not None})
        for name, each in told.items()
    }
    _published({folder / name: text for name, text in texts.items()})
    return paths


def _published(texts: dict[Path, str]) -> None:
    """Write files so that all are there, whole and on disk, or none."""
    new = {path: path.with_name(f".{path.name}.{os.getpid()}.new") for path in texts}
    done: list[Path] = []
    try:
        for path, text in texts.items():
            handle = os.open(new[path], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        for path in texts:
            os.link(new[path], path)  # fails where another one is there
            done.append(path)
        _sync_folder(next(iter(texts)).parent)
    except BaseException:
        for path in done:
            with suppress(OSError):
                path.unlink()
        raise
    finally:
        for path in new.values():
            with suppress(OSError):
                path.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: str | Path, *names: str) -> tuple[str, bytes, bytes]:
    """Return the first of these names that a file has, its value, and the map's digest."""
    try:
        found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise KeyFileError(f"{path} cannot be read: {problem.strerror}") from None
    except ValueError:
        raise KeyFileError(f"{path} is not a file of keys") from None
    told = found if isinstance(found, dict) else {}
    for name in names:
        key, digest = _bytes(told.get(name)), _bytes(told.get("map"))
        if key is not None and digest is not None:
            return name, key, digest
    raise KeyFileError(f"{path} has no key {' or '.join(names)} of {_DIGITS} hexadecimal digits")


def _bytes(value: object) -> bytes | None:
    fits = isinstance(value, str) and re.fullmatch(rf"[0-9a-fA-F]{{{_DIGITS}}}", value)
    return bytes.fromhex(value) if isinstance(value, str) and fits else None


def read_device(path: str | Path, config: OmapConfig) -> bytes:
    """Return the device's root. Raises KeyFileError, also where it is another map's."""
    _, root, digest = _read(path, "root")
    if digest != digest_of_map(config):
        raise KeyFileError(f"{path} was made for another map")
    return root


def read_map(path: str | Path) -> MapKey:
    """Return what a client knows of a map. Raises KeyFileError."""
    _, public, digest = _read(path, "public")
    return MapKey(public, digest)


def read_role(path: str | Path | None, known: MapKey) -> tuple[Role, bytes | None]:
    """Return a role and its key; a reader without a file. Raises KeyFileError, also where it is another
    map's."""
    if path is None:
        return Role.READER, None
    name, key, digest = _read(path, Role.WRITER.value, Role.KEEPER.value)
    if digest != known.digest:
        raise KeyFileError(f"{path} was made for another map")
    return Role(name), key
