"""The numbers of a client's requests, in a file beside its file of keys.

A number is a nonce: none may be used for two messages, whatever becomes of the client's process and
whatever a server says. The file has a line with the session's name and the next number, then a line
for each request since: its number and its sealed frame, which a later client sends again as it is.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...models.omap.messages import COUNT_BITS
from .keyfiles import KeyFileError, sync_folder

__all__ = ["Numbers"]

#: bytes of the file from which on lines of requests that were answered are left out
_MOST = 1 << 20
#: bytes that the file never has more of
_BOUND = 1 << 30


class Numbers:
    """The file of a session's numbers, which no other client has meanwhile.

    `next`: the number of the next request; `waiting`: the frames without an answer, by number, from
    which who gets an answer takes its frame out. At first they are the latest frames of an earlier
    client, some of which may have had their answer.

    Parameters: `keys`: the client's file of keys; `name`: the session's (`keyfiles.name_of`). Raises
    KeyFileError where the file cannot be used, or another client has it.
    """

    def __init__(self, keys: str | Path, name: str) -> None:
        self.path, self._name, self._unusable = Path(keys).with_suffix(".next"), name, ""
        self._file = self._lock = open(keys, "rb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.next, self.waiting = self._read()
            self._settle()
        except BlockingIOError:
            self._lock.close()
            raise KeyFileError(f"{keys}: another client has this session") from None
        except (OSError, KeyFileError) as problem:
            self._lock.close()
            raise self._failed(problem) from None

    def _read(self) -> tuple[int, dict[int, bytes]]:
        # what a power cut left of the last lines was not on disk, and so was never sent
        with open(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > _BOUND:
                raise KeyFileError("it is no regular file, or too long")
            text = file.read(_BOUND)
        lines = text.rstrip(b"\0").split(b"\n")[:-1]
        head = re.fullmatch(rb"penstock map (\w+) (\d{1,17})", lines[0] if lines else b"")
        if head is None or head[1].decode() != self._name:
            raise KeyFileError("it does not have the numbers of these keys")
        following, waiting = int(head[2]), {}
        for line in lines[1:]:
            found = re.fullmatch(rb"(\d{1,17}) ((?:[0-9a-f]{2})+)", line)
            if found is None:
                raise KeyFileError("it is damaged")
            waiting[int(found[1])] = bytes.fromhex(found[2].decode())
        return max([following, *(number + 1 for number in waiting)]), waiting

    def note(self, frames: Sequence[bytes]) -> None:
        """Write down the next requests' frames, and return once they are on disk. Raises KeyFileError:
        none of them, and no later one, may be sent."""
        self.check()
        if self.next + len(frames) > 1 << COUNT_BITS:
            raise KeyFileError(f"{self.path}: the session has no number left")
        made = dict(enumerate(frames, self.next))
        if os.fstat(self._file.fileno()).st_size + len(lines := _lines(made)) > _BOUND:
            raise KeyFileError(f"{self.path}: too many requests at once")
        self.next += len(made)
        self.waiting |= made
        try:
            with open(self.path, "ab") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            if self.path.stat().st_size > _MOST:
                self._settle()
        except OSError as problem:
            raise self._failed(problem) from None

    def check(self) -> None:
        """Raise KeyFileError where a number could not be written down, or the file is closed, or gone."""
        if self._unusable:
            raise KeyFileError(self._unusable)
        try:
            if not os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path)):
                raise KeyFileError("another file took its place")
        except (OSError, KeyFileError) as problem:
            raise self._failed(problem) from None

    def close(self) -> None:
        """Let another client have the session."""
        if not self._unusable:
            with suppress(OSError, KeyFileError):  # the longer file says the same
                self.check()
                self._settle()
            self._unusable = f"{self.path} is closed"
        self._file.close()
        self._lock.close()

    def _failed(self, problem: Exception) -> KeyFileError:
        what = getattr(problem, "strerror", None) or problem
        self._unusable = f"{self.path} cannot be used: {what}; without it nothing is sent"
        return KeyFileError(self._unusable)

    def _settle(self) -> None:
        """Write the file anew, with the frames alone that wait. Raises OSError."""
        new = self.path.with_name(self.path.name + ".new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(f"penstock map {self._name} {self.next}\n".encode() + _lines(self.waiting))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        sync_folder(self.path.parent)  # before the new file gets a number that the old one has not
        if self._file is not self._lock:
            self._file.close()
        self._file = open(self.path, "rb")  # while it is open, no other file has its identity


def _lines(frames: dict[int, bytes]) -> bytes:
    return b"".join(b"%d %s\n" % (n, frame.hex().encode()) for n, frame in frames.items())
