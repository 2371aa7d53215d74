"""Files of a map's keys, one for each who needs some.

Writing them, and bringing each to its place, is the trusted set-up: whoever reads `device.json` can
imitate the device, whoever reads `writer.json` can write. `map.json` has no secret.
"""

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...models.inputs import Input, InputError
from ...models.omap.config import OmapConfig
from ...models.omap.sessions import digest_of_map
from ...models.omap.vault import GENERATION_BITS, KeySchedule, Role
from ...sim.staging import sync
from .names import SALT_BYTES

#: what each file has: the device's root; its public key; the writer's key; the keeper's; and all of
#: them the map's digest
FILES = ("device.json", "map.json", "writer.json", "keeper.json")
_DIGITS = 64
#: in a folder: all files stand whole beside those whose places they take (`_beside`)
_WHOLE = ".renewal"


class KeyFileError(InputError):
    """A file of keys cannot be read, or is not the one that is needed. The message has no key."""


_FILE = Input("a file of keys", "", KeyFileError, 1 << 20)


class MapKey(NamedTuple):
    """What a client knows of a map: the device's public key, the digest of the configuration, the salt of
    keys (`names`), nothing where an older file has none, and the public keys that renewals replaced."""

    public: bytes
    digest: bytes
    salt: bytes = b""
    before: tuple[bytes, ...] = ()


def write_keys(folder: str | Path, config: OmapConfig) -> list[Path]:
    """Write the `FILES` of a new device into a folder that is made, readable by their owner alone; return
    their paths. All of them are written, or none. Raises OSError, FileExistsError where one is there, KeyFileError."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        _settle(folder)
        texts = _texts(folder, config, secrets.token_bytes(32), secrets.token_bytes(SALT_BYTES), 0)
        for path in texts:
            if path.exists():
                raise FileExistsError(17, "there are keys already", str(path))
        return _publish(texts)


def renew_keys(folder: str | Path, config: OmapConfig) -> list[Path]:
    """Replace the `FILES` of a device by those of its next generation; return their paths. The root stays, so that
    the device opens what it sealed before; who has an older `map.json` or role's key has no session any more.

    All of them are replaced, or none: what ends in their midst is carried on by `settle_keys`, and readers
    see the new ones meanwhile. Raises OSError, KeyFileError.
    """
    folder = Path(folder)
    with _alone(folder):
        _settle(folder)
        root, known = read_device(folder / "device.json", config), read_map(folder / "map.json")
        generation = read_generation(folder / "device.json") + 1
        salt = known.salt or secrets.token_bytes(SALT_BYTES)
        return _publish(_texts(folder, config, root, salt, generation))


def settle_keys(folder: str | Path) -> None:
    """Carry on what a killed process left in a folder of keys: files that were all on disk take their
    places, others go. Nothing is done while another process writes there, or where this one may not."""
    with suppress(OSError, KeyFileError), _alone(Path(folder)):
        _settle(Path(folder))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder of keys against others that write there. Raises KeyFileError, OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # a pipe is none: it would wait
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise KeyFileError(f"{folder}: another process writes keys there", "wait for it") from None
    finally:
        os.close(handle)


def _settle(folder: Path) -> None:
    """As `settle_keys`, of who holds the folder. Raises OSError."""
    if (folder / _WHOLE).exists():
        sync(folder)
        for name in FILES:
            with suppress(FileNotFoundError):
                os.replace(_beside(folder / name), folder / name)
        sync(folder)
        (folder / _WHOLE).unlink()
        sync(folder)  # before others are written beside the files
    for name in FILES:
        for path in folder.glob(f".{name}.*new"):
            path.unlink()


def _beside(path: Path) -> Path:
    """Return where a file is written before it takes its place."""
    return path.with_name(f".{path.name}.new")


def _texts(
    folder: Path, config: OmapConfig, root: bytes, salt: bytes, generation: int
) -> dict[Path, str]:
    """Return the files of a device's keys."""
    digest = digest_of_map(config)
    # these do not depend on a power-up's entropy
    *before, keys = (KeySchedule(root, bytes(32), digest, n) for n in range(generation + 1))
    contents: dict[str, dict[str, Any]] = {
        "device.json": {"root": root, "generation": generation},
        "map.json": {
            "public": keys.public,
            "salt": salt,
            "before": [old.public.hex() for old in before],
        },
        "writer.json": {"writer": keys.role_key(Role.WRITER)},
        "keeper.json": {"keeper": keys.role_key(Role.KEEPER)},
    }
    plain = lambda value: value.hex() if isinstance(value, bytes) else value
    return {
        folder / name: json.dumps({k: plain(v) for k, v in {**each, "map": digest}.items()})
        for name, each in contents.items()
    }


def _publish(texts: dict[Path, str]) -> list[Path]:
    """Write files so that all are there, whole and on disk, or none: in the place of others, if there are some.
    Return their paths. Raises OSError for none, KeyFileError for all, of which some do not have their places yet."""
    folder = next(iter(texts)).parent
    try:
        for path, text in texts.items():
            handle = os.open(_beside(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        sync(folder)
        os.close(os.open(folder / _WHOLE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except BaseException:
        with suppress(OSError):
            _settle(folder)
        raise
    try:
        _settle(folder)
    except OSError as problem:
        text = f"{folder}: {problem.strerror}; the new keys are there, and take their places later"
        raise KeyFileError(text, "penstock serve sees to it, and so does penstock keys") from None
    return list(texts)


def _loaded(path: str | Path) -> dict[str, Any]:
    """Return what a file of keys says, or is going to say (`settle_keys`)."""
    path = Path(path)
    place = _beside(path)
    place = place if (path.parent / _WHOLE).exists() and place.exists() else path
    try:
        keys = _FILE.json(place)
    except KeyFileError:
        if place == path or place.exists():
            raise
        keys = _FILE.json(path)  # it has got its name meanwhile
    return keys if isinstance(keys, dict) else {}


def _read(path: str | Path, *names: str) -> tuple[str, bytes, bytes]:
    """Return the first of these names that a file has, its value, and the map's digest."""
    keys = _loaded(path)
    for name in names:
        key, digest = _bytes(keys.get(name)), _bytes(keys.get("map"))
        if key is not None and digest is not None:
            return name, key, digest
    raise KeyFileError(f"{path} has no key {' or '.join(names)} of {_DIGITS} hexadecimal digits")


def _bytes(value: object, digits: int = _DIGITS) -> bytes | None:
    fits = isinstance(value, str) and re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", value)
    return bytes.fromhex(value) if isinstance(value, str) and fits else None


def read_device(path: str | Path, config: OmapConfig) -> bytes:
    """Return the device's root. Raises KeyFileError, also where it is another map's."""
    _, root, digest = _read(path, "root")
    if digest != digest_of_map(config):
        raise KeyFileError(f"{path} was made for another map")
    return root


def read_generation(path: str | Path) -> int:
    """Return how often a device's keys were renewed. Raises KeyFileError."""
    generation = _loaded(path).get("generation", 0)
    if type(generation) is not int or not 0 <= generation < 1 << GENERATION_BITS:
        raise KeyFileError(f"{path} has no generation of keys")
    return generation


def read_map(path: str | Path) -> MapKey:
    """Return what a client knows of a map. Raises KeyFileError."""
    _, public, digest = _read(path, "public")
    keys = _loaded(path)
    salt, old = _bytes(keys.get("salt"), 2 * SALT_BYTES) or b"", keys.get("before")
    before = map(_bytes, old if isinstance(old, list) else [])
    return MapKey(public, digest, salt, tuple(key for key in before if key is not None))


def read_role(path: str | Path | None, known: MapKey) -> tuple[Role, bytes | None]:
    """Return a role and its key; a reader without a file. Raises KeyFileError, also where it is another
    map's."""
    if path is None:
        return Role.READER, None
    name, key, digest = _read(path, Role.WRITER.value, Role.KEEPER.value)
    if digest != known.digest:
        raise KeyFileError(f"{path} was made for another map")
    return Role(name), key
