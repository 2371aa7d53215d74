"""A device in a process of its own, so that the server's process has neither keys nor plaintext.

The two speak through pipes. First the map's configuration, as JSON on a line; then, again and again, a
count and how many of them are records of a load (4 bytes each, the lowest first), and so many sealed requests, answered by a byte of 0 and as many sealed
responses, or by a byte of 1 and an error's code (4 bytes). The device reads its keys from a file, and says at first how many records a load may have,
and the digest of the key of admission that belongs to its keys.
"""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ...models.errors import Error, HardwareError
from ...models.omap.config import OmapConfig
from ...models.omap.errors import MapError, error_of
from ...sim.machine import Closing
from .backends import Carrier, MapStopped, ModelCarrier, Opens
from .keyfiles import KeyFileError, Use, read_device
from .session import admission_key

__all__ = ["DeviceLost", "DeviceProcess", "run_device"]

_DONE, _STOPPED = b"\0", b"\1"
#: requests, and records of a load among them
_HEAD = struct.Struct("<II")


class DeviceLost(Error):
    """The device's process did not begin, or has ended."""


class DeviceProcess(Closing):
    """A carrier to a device in a process of its own.

    Parameters
    ----------
    keys
        The device's file of keys, which this process does not read.
    module, arguments
        The module whose program is the device (`run_device`), and what it is given behind the keys; the
        golden model unless told otherwise.
    admission
        The server's key, which must belong to the device's.

    Raises DeviceLost.
    """

    def __init__(
        self,
        config: OmapConfig,
        keys: str | Path,
        module: str = __name__,
        arguments: Sequence[str] = (),
        *,
        admission: bytes | None = None,
    ) -> None:
        self.config = config
        command = [sys.executable, "-m", module, str(keys), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        try:
            self._to.write(json.dumps(config.to_json()).encode() + b"\n")
            self._to.flush()
        except OSError:
            pass  # what it says of it is read next
        told = self._from.readline().decode(errors="replace").strip()
        ready, *facts = told.split(" ")
        if ready != "ready" or len(facts) != 2:
            self.close()
            raise DeviceLost(told or "the device's process did not begin")
        self.most_records = int(facts[0])
        if admission is not None and _digest(admission) != facts[1]:
            self.close()
            raise DeviceLost(
                f"{keys} does not belong to the server's key: the two were made by different runs"
            )

    def carry(self, sealed: Sequence[bytes], records: int = 0) -> list[bytes]:
        size = self.config.message_bytes
        try:
            self._to.write(_HEAD.pack(len(sealed), records) + b"".join(sealed))
            self._to.flush()
        except (OSError, ValueError):  # it has ended, or is closed
            raise MapStopped(HardwareError(MapError.STOPPED)) from None
        head = self._from.read(1)
        if head == _DONE:
            text = self._from.read(size * len(sealed))
            if len(text) == size * len(sealed):
                return [text[at : at + size] for at in range(0, len(text), size)]
        elif head == _STOPPED:
            code = int.from_bytes(self._from.read(4), "little")
            raise MapStopped(error_of(code))
        raise MapStopped(HardwareError(MapError.STOPPED))

    def close(self) -> None:
        for pipe in (self._to, self._from):
            try:
                pipe.close()
            except OSError:
                pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _digest(admission: bytes) -> str:
    """Return what tells a key of admission from others, and nothing of it."""
    return hashlib.sha256(admission).hexdigest()


def _serve(carrier: Carrier, use: Use, requests: BinaryIO, responses: BinaryIO) -> None:
    """Answer until the other side has gone. Raises KeyFileError where the keys are used meanwhile."""
    size, begun = carrier.config.message_bytes, False
    while len(head := requests.read(_HEAD.size)) == _HEAD.size:
        count, records = _HEAD.unpack(head)
        text = requests.read(size * count)
        if not begun:
            use.begin()
            begun = True
        sealed = [text[at : at + size] for at in range(0, len(text), size)]
        try:
            answers = carrier.carry(sealed, records)
        except MapStopped as problem:
            responses.write(_STOPPED + int(problem.error.code).to_bytes(4, "little"))
        else:
            responses.write(_DONE + b"".join(answers))
        responses.flush()


def run_device(keys: str | Path, opens: Opens) -> int:
    """Be the device of a `DeviceProcess`, with the keys of a file, which serve one run; return the
    process's status."""
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    config = OmapConfig.from_json(json.loads(requests.readline()))
    try:
        known = read_device(keys, config)
        use = Use(keys, known)
        carrier = opens(config, known)
    except (KeyFileError, ValueError) as problem:
        responses.write(f"{problem}\n".encode())
        return 1
    digest = _digest(admission_key(known.session))
    responses.write(f"ready {carrier.most_records} {digest}\n".encode())
    responses.flush()
    try:
        _serve(carrier, use, requests, responses)
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    except KeyFileError as problem:
        print(problem, file=sys.stderr)
        return 1
    finally:
        carrier.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_device(sys.argv[1], ModelCarrier))
