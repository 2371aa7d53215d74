"""A device in a process of its own, so that the server's process has neither keys nor plaintext.

The two speak through pipes. First the map's configuration, as JSON on a line; then, again and again, a
count (4 bytes, the lowest first) and the bytes of a frame that opens a session (2 bytes, 0 without one),
that frame, and so many frames of requests. They are answered by a byte of 0 and the answers' frames, that
to the opening behind them, or by a byte of 1 and an error's code (4 bytes). The device alone reads its
root from a file: it is the vault. Each process is a power-up, with entropy of its own.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ...models.errors import Error, HardwareError
from ...models.omap.boundary import Frames
from ...models.omap.config import OmapConfig
from ...models.omap.errors import MapError, MapStopped, error_of
from ...sim.machine import Closing
from .devices import DeviceCarrier, GoldenDevice, Powers
from .keyfiles import KeyFileError, read_device

__all__ = ["DeviceLost", "DeviceProcess", "run_device"]

_DONE, _STOPPED = b"\0", b"\1"
_READY = "ready"
#: requests, and bytes of a frame that opens a session
_HEAD = struct.Struct("<IH")


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

    Raises DeviceLost.
    """

    def __init__(
        self,
        config: OmapConfig,
        keys: str | Path,
        module: str = __name__,
        arguments: Sequence[str] = (),
    ) -> None:
        self.config, self._frames = config, Frames.of(config)
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
        if told != _READY:
            self.close()
            raise DeviceLost(told or "the device's process did not begin")

    def carry(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        shape = self._frames
        sizes = [shape.size] * len(frames)
        if opening:
            sizes.append(shape.welcome_beats * shape.bus_bytes)
        try:
            head = _HEAD.pack(len(frames), len(opening))
            self._to.write(head + opening + b"".join(frames))
            self._to.flush()
        except (OSError, ValueError):  # it has ended, or is closed
            raise MapStopped(HardwareError(MapError.STOPPED)) from None
        head = self._from.read(1)
        if head == _DONE:
            answers = [self._from.read(size) for size in sizes]
            if [len(answer) for answer in answers] == sizes:
                return answers
        elif head == _STOPPED:
            raise MapStopped(error_of(int.from_bytes(self._from.read(4), "little")))
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


def _serve(carrier: DeviceCarrier, requests: BinaryIO, responses: BinaryIO) -> None:
    """Answer until the other side has gone."""
    size = Frames.of(carrier.config).size
    while len(head := requests.read(_HEAD.size)) == _HEAD.size:
        count, first = _HEAD.unpack(head)
        opening = requests.read(first)
        frames = [requests.read(size) for _ in range(count)]
        try:
            answers = carrier.carry(frames, opening)
        except MapStopped as problem:
            responses.write(_STOPPED + int(problem.error.code).to_bytes(4, "little"))
        else:
            responses.write(_DONE + b"".join(answers))
        responses.flush()


def run_device(keys: str | Path, powers: Powers) -> int:
    """Be the device of a `DeviceProcess`, with the root of a file; return the process's status."""
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    config = OmapConfig.from_json(json.loads(requests.readline()))
    try:
        carrier = powers(config, read_device(keys, config))
    except (KeyFileError, ValueError) as problem:
        responses.write(f"{problem}\n".encode())
        return 1
    responses.write(f"{_READY}\n".encode())
    responses.flush()
    try:
        _serve(carrier, requests, responses)
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    finally:
        carrier.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_device(sys.argv[1], GoldenDevice))
