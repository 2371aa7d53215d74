"""A device in a process of its own, so that the server's process has neither keys nor plaintext.

The two speak through pipes. First the map's configuration, as JSON on a line; then, again and again, a
head (`_HEAD`): a count of requests, the bytes of a frame that opens a session (0 without one), and buckets
of a snapshot; behind it that frame, and so many frames of requests. They are answered by a byte of 0, the
answers' frames, that to the opening behind them, and what belongs into the map's files, each text behind its
length (8 bytes); or by a byte of 1 and an error's code (4 bytes). A head whose opening has `_RESTORE` bytes
is followed by so many files of state, and answered by the head of a log and the bytes of the last file
that count (8), or by a byte of 2 and what is damaged. The device alone reads its root from a file: it is
the vault. Each process is a power-up, with entropy of its own.
"""

import json
import os
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import IO, BinaryIO

from ...models.errors import Error, HardwareError
from ...models.omap.boundary import Frames
from ...models.omap.config import OmapConfig
from ...models.omap.errors import MapError, MapStopped, error_of
from ...models.omap.kept_device import Carried
from ...sim.machine import Closing
from .devices import GoldenDevice, KeptCarrier, Powers
from .keyfiles import read_device, read_generation, settle_keys
from .restore import Damaged

_DONE, _STOPPED, _DAMAGED = b"\0", b"\1", b"\2"
_READY = "ready"
#: requests, bytes of a frame that opens a session, buckets of a snapshot
_HEAD = struct.Struct("<IHI")
_RESTORE = 0xFFFF
_DAMAGE = struct.Struct("<IQ")
#: bytes of a text's length: a snapshot may have more than 4 GiB
_LENGTH = 8


def _put(to: IO[bytes], text: bytes) -> None:
    to.write(len(text).to_bytes(_LENGTH, "little"))
    to.write(text)


def _get(of: IO[bytes]) -> bytes:
    return of.read(int.from_bytes(of.read(_LENGTH), "little"))


class DeviceLost(Error):
    """The device's process did not begin, or has ended."""


class DeviceProcess(Closing):
    """A carrier to a device in a process of its own.

    * `keys`: the device's file of keys, which this process does not read.
    * `module`, `arguments`: the module whose program is the device (`run_device`), and what it is given
      behind the keys; the golden model unless told otherwise.

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
        # -P: nothing of the current folder is imported
        command = [sys.executable, "-P", "-m", module, str(keys), *arguments]
        # a session of its own: a terminal's Ctrl-C ends the server, which needs the device to the end
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._answers = select.poll()
        self._answers.register(self._from, select.POLLIN)
        self._sizes: list[int] = []  # of what is being answered
        try:
            self._to.write(json.dumps(config.to_json()).encode() + b"\n")
            self._to.flush()
        except OSError:
            pass  # it has ended already: its message is read next
        try:
            line = self._from.readline().decode(errors="replace").strip()
        except BaseException:  # ends its whole group: it may be running a compiler
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self.close()
            raise
        if line != _READY:
            self.close()
            raise DeviceLost(line or "the device's process did not begin")

    def carry(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        return self.step(frames, opening).answers

    def restore(self, files: Sequence[bytes]) -> tuple[bytes, int]:
        """As `restore.restored`. Raises restore.Damaged, MapStopped."""
        self._say(_HEAD.pack(len(files), _RESTORE, 0), files)
        self._judge(self._from.read(1))
        return _get(self._from), int.from_bytes(self._from.read(8), "little")

    def _say(self, head: bytes, texts: Sequence[bytes] = ()) -> None:
        try:
            self._to.write(head)
            for text in texts:
                _put(self._to, text)
            self._to.flush()
        except (OSError, ValueError):  # it has ended, or is closed
            raise MapStopped(HardwareError(MapError.STOPPED)) from None

    def _judge(self, head: bytes) -> None:
        """Raise what an answer begins with, if it is no answer."""
        if head == _STOPPED:
            raise MapStopped(error_of(int.from_bytes(self._from.read(4), "little")))
        if head == _DAMAGED:
            file, record = _DAMAGE.unpack(self._from.read(_DAMAGE.size))
            raise Damaged(file, record, _get(self._from).decode())
        if head != _DONE:
            raise MapStopped(HardwareError(MapError.STOPPED))

    def step(self, frames: Sequence[bytes], opening: bytes = b"", walk: int = 0) -> Carried:
        """As `KeptDevice.carry`. Raises MapStopped."""
        self._ask(frames, opening, walk)
        return self._told()

    def ask(self, frames: Sequence[bytes], seconds: float) -> bool:
        """Begin to carry; return whether the device answers within so many seconds. Raises MapStopped."""
        self._ask(frames)
        last = perf_counter() + seconds
        # to sleep and to be woken would take longer than a device in C++
        while not (ready := self._answers.poll(0)) and perf_counter() < last:
            pass
        return bool(ready)

    def answers(self) -> list[bytes]:
        """Wait for what `ask` began. Raises MapStopped."""
        return self._told().answers

    def _ask(self, frames: Sequence[bytes], opening: bytes = b"", walk: int = 0) -> None:
        shape = self._frames
        self._sizes = [shape.size] * len(frames)
        if opening:
            self._sizes.append(shape.welcome_beats * shape.bus_bytes)
        self._say(_HEAD.pack(len(frames), len(opening), walk) + opening + b"".join(frames))

    def _told(self) -> Carried:
        sizes = self._sizes
        self._judge(self._from.read(1))
        answers = [self._from.read(size) for size in sizes]
        step = Carried(answers, *(_get(self._from) for _ in range(3)))
        if [len(answer) for answer in answers] != sizes:
            raise MapStopped(HardwareError(MapError.STOPPED))
        return step

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


def _serve(carrier: KeptCarrier, requests: BinaryIO, responses: BinaryIO) -> None:
    """Answer until the other side has gone."""
    size = Frames.of(carrier.config).size
    while len(head := requests.read(_HEAD.size)) == _HEAD.size:
        count, first, walk = _HEAD.unpack(head)
        try:
            if first == _RESTORE:
                _restore(carrier, [_get(requests) for _ in range(count)], responses)
            else:
                opening = requests.read(first)
                frames = [requests.read(size) for _ in range(count)]
                step = carrier.step(frames, opening, walk)
                responses.write(_DONE + b"".join(step.answers))
                for text in step[1:]:
                    _put(responses, text)
        except MapStopped as problem:
            responses.write(_STOPPED + int(problem.error.code).to_bytes(4, "little"))
        responses.flush()


def _restore(carrier: KeptCarrier, files: Sequence[bytes], responses: BinaryIO) -> None:
    try:
        head, used = carrier.restore(files)
    except Damaged as problem:
        responses.write(_DAMAGED + _DAMAGE.pack(problem.file, problem.record))
        _put(responses, problem.why.encode())
    else:
        responses.write(_DONE)
        _put(responses, head)
        responses.write(used.to_bytes(8, "little"))


def run_device(keys: str | Path, powers: Powers) -> int:
    """Be the device of a `DeviceProcess`, with the root of a file; return the process's status."""
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    config = OmapConfig.from_json(json.loads(requests.readline()))
    settle_keys(Path(keys).parent)
    try:
        carrier = powers(config, read_device(keys, config), read_generation(keys))
    except (Error, ValueError) as problem:  # of the file, or of what the device is built with
        responses.write(f"{problem}\n".encode())
        return 1
    try:
        responses.write(f"{_READY}\n".encode())
        responses.flush()
        _serve(carrier, requests, responses)
    except (BrokenPipeError, KeyboardInterrupt):  # the server has ended, also before this
        pass
    finally:
        carrier.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_device(sys.argv[1], GoldenDevice))
