"""Receipts: what a client saw of a map last, on its own disk. Who has one finds a map that was rolled back behind it."""

import fcntl
import json
import os
import re
import secrets
from contextlib import suppress
from glob import escape
from pathlib import Path
from time import time
from typing import NamedTuple

from ...models.errors import Error
from ...models.inputs import Input, InputError

#: what is said of a receipt whose power-up the map does not know, though it is as old as the map
UNKNOWN = (
    "it is another branch, or was started more than 255 times since; a map that is known to be right needs a "
    "new receipt"
)

#: seconds after which nobody is about to write into an empty file
_FRESH = 60.0


class ReceiptError(InputError):
    """A receipt's file cannot be read or written, is damaged, or another map's."""


class RolledBack(Error):
    """The map is older than what this client's receipt saw, or is another branch of it: operations that
    were acknowledged are gone. Or the receipt is older than what the map knows of its past, 255 power-ups
    with operations; a client cannot tell these two from each other."""


_FILE = Input("a receipt", "", ReceiptError, 1 << 16)


class Receipt(NamedTuple):
    """The incarnation that answered last, and the serial of its last operation that the client knows of."""

    incarnation: bytes
    serial: int


def read_receipt(path: str | Path, digest: bytes) -> Receipt | None:
    """Return what a file has, None where there is none yet. Raises ReceiptError."""
    _sweep(Path(path))
    if not os.path.lexists(path):
        return None
    fields = _FILE.json(path)
    with _FILE.parsing(path):
        digits, serial = (fields["incarnation"], fields["map"]), fields["serial"]
    texts = [
        t for t, n in zip(digits, (32, 64), strict=True) if re.fullmatch(f"[0-9a-f]{{{n}}}", str(t))
    ]
    if len(texts) < 2 or type(serial) is not int or not 0 <= serial < 1 << 64:
        raise ReceiptError(f"{path} is no receipt, or is damaged")
    if texts[1] != digest.hex():
        raise ReceiptError(f"{path} is another map's receipt")
    return Receipt(bytes.fromhex(texts[0]), serial)


def _sweep(path: Path) -> None:
    """Remove what clients that were killed left beside their receipt. One that is writing holds its file, or
    is about to: then that is empty, and fresh."""
    for left in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 16}.new"):
        with suppress(OSError, ReceiptError), _FILE.open(left) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            about = os.fstat(file.fileno())
            if about.st_size or time() - about.st_mtime > _FRESH:
                left.unlink()


def write_receipt(path: str | Path, receipt: Receipt, digest: bytes) -> None:
    """Replace a file, whole or not at all. Raises ReceiptError."""
    body = {"incarnation": receipt.incarnation.hex(), "serial": receipt.serial, "map": digest.hex()}
    path = Path(path)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        with new.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(body))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as problem:
        with suppress(OSError):
            new.unlink()
        raise ReceiptError(f"{path} cannot be written: {problem.strerror}") from None
