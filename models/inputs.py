"""Files and texts from outside: the one way in.

A file is a regular one of a bounded size. What a parser raises, whatever it is, becomes the one error of the kind of file, with the file's name, the
cause and a hint. Only files that Penstock ships, or that this process has just written, are read in another way.
"""

import io
import itertools
import json
import math
import os
import re
import stat
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .errors import Error

#: the bytes that this machine has: no file that is larger can be read at once
MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
#: of lists and tables in each other; no format of Penstock's has a tenth of it
DEPTH = 100
#: of a whole number: float64 holds no larger ones
_BITS = 1023
#: what an archive may unpack to: in any case, and as a multiple of its own size
_UNPACKED, _RATIO = 1 << 28, 100
#: keys of TOML with more parts take a time that grows with their square
_PARTS = re.compile(rf"(?<![^\s.=])(?:[^\s.=]+[ \t]*\.[ \t]*){{{DEPTH}}}")
#: the end record of an archive, with the longest comment
_END = 22 + 0xFFFF
#: a cause is cut to so many characters
_LONGEST = 300


class InputError(Error):
    """A file from outside cannot be taken, and nothing else says more (E707)."""

    code = "E707"


@dataclass(frozen=True)
class Input:
    """A kind of file from outside. All methods raise what `error` makes, and nothing else."""

    name: str  #: with its article: "a profile"
    hint: str  #: how to get a right one
    error: Callable[[str, str], Exception] = InputError  #: takes message and hint
    most: int = 1 << 28  #: bytes of a file, at most
    #: where bytes are that each file has, and which: they are looked at before the rest is read
    mark: tuple[int, bytes] = 0, b""

    def open(self, path: str | os.PathLike[str]) -> BinaryIO:
        """Return an open file, which is a regular one and of a bounded size. Never waits."""
        try:
            # a FIFO without a writer is opened at once, and then refused
            file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        except IsADirectoryError:  # what only os.fdopen finds
            raise self.error(f"{path} is a folder, not a file", self.hint) from None
        except FileNotFoundError:
            raise self.error(f"there is no file {path}", self.hint) from None
        except (OSError, ValueError) as problem:  # ValueError: a name that no file can have
            reason = getattr(problem, "strerror", None) or problem
            raise self.error(f"{path} cannot be read: {reason}", self.hint) from None
        about = os.fstat(file.fileno())
        wrong = ""
        if not stat.S_ISREG(about.st_mode):
            wrong = f"{path} is no regular file"
        elif about.st_size > self.most:
            wrong = f"{path} has {about.st_size:,} bytes: {self.name} has at most {self.most:,}"
        if wrong:
            file.close()
            raise self.error(wrong, self.hint)
        return file

    @contextmanager
    def parsing(self, place: object) -> Iterator[None]:
        """Turn whatever is raised within, but Penstock's own errors, into the error of this kind of file. `place`: what messages call it."""
        try:
            yield
        except Error:
            raise
        except BaseException as problem:
            # panics of extensions in Rust are no `Exception`
            if not isinstance(problem, Exception) and "panic" not in type(problem).__name__.lower():
                raise
            raise self.error(
                f"{place} is not {self.name}: {cause(problem)}", self.hint
            ) from problem

    def data(self, path: str | os.PathLike[str]) -> bytes:
        """Return what a file holds."""
        with self.open(path) as file, self.parsing(path):
            size, (at, mark) = os.fstat(file.fileno()).st_size, self.mark
            if file.read(at + len(mark))[at:] != mark:
                raise ValueError("it begins with other bytes")
            file.seek(0)
            data = file.read(size + 1)
            if len(data) != size:
                raise ValueError("it changes while it is read")
            return data

    def text(self, path: str | os.PathLike[str]) -> str:
        """Return a file of text in UTF-8."""
        data = self.data(path)
        with self.parsing(path):
            return data.decode()

    def json(self, path: str | os.PathLike[str]) -> Any:
        """Return what a file of JSON holds."""
        return self.json_of(self.data(path), path)

    def json_of(self, data: bytes | str, place: object) -> Any:
        """Return what a text of JSON holds: no key twice, and not nested deeper than `DEPTH`."""
        with self.parsing(place):
            return _shallow(json.loads(data, object_pairs_hook=_once))

    def toml(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Return what a file of TOML holds."""
        data = self.data(path)
        with self.parsing(path):
            text = data.decode()
            if _PARTS.search(text):
                raise RecursionError
            return dict(_shallow(tomllib.loads(text)))

    def array_of(self, data: bytes, place: object) -> NDArray[Any]:
        """Return the array of a .npy file, no array of objects."""
        with self.parsing(place):
            return _array(data)

    def arrays(
        self, file: str | os.PathLike[str] | bytes, place: object
    ) -> dict[str, NDArray[Any]]:
        """Return the arrays of an archive of NumPy's by name, after comparing the checksum of each. `file`: a path, or an archive's bytes."""
        source = io.BytesIO(file) if isinstance(file, bytes) else self.open(file)
        with source, self.parsing(place):
            packed = source.seek(0, io.SEEK_END)
            source.seek(max(0, packed - _END))
            end = source.read().rpartition(b"PK\5\6")[2]
            with zipfile.ZipFile(source) as archive:
                parts = archive.infolist()
                if end[6:8] not in (len(parts).to_bytes(4, "little")[:2], b"\xff\xff"):
                    raise ValueError("its table of contents is damaged")
                self.check_unpacked(place, packed, sum(part.file_size for part in parts))
                # read to its end, a member is held against its CRC-32
                named = [(part.filename.removesuffix(".npy"), archive.read(part)) for part in parts]
            return _once([(name, _array(data)) for name, data in named])

    def check_unpacked(self, place: object, packed: int, unpacked: int) -> None:
        """Refuse a small file that says that it unpacks to a large one, before it is unpacked."""
        if unpacked > max(_UNPACKED, _RATIO * packed):
            what = f"{place} has {packed:,} bytes, which unpack to {unpacked:,}: more than {_RATIO} times as many"
            raise self.error(
                what,
                "if it does repeat that much, write it without compression, Parquet without dictionaries too",
            )


def cause(problem: BaseException) -> str:
    """Return in words why a parser gave up."""
    text = (str(problem) or type(problem).__name__).splitlines()[0]
    if isinstance(problem, RecursionError):
        text = "it is nested too deeply"
    elif isinstance(problem, UnicodeError):
        text = "it is no text in UTF-8"
    elif isinstance(problem, MemoryError):
        text = "it needs more memory than there is"
    elif isinstance(problem, json.JSONDecodeError):
        text = f"line {problem.lineno}, column {problem.colno}: no JSON: {problem.msg}"
    elif isinstance(problem, KeyError):
        text = f"it has no {text}"
    elif isinstance(problem, OSError):
        text = problem.strerror or text
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return entries by name. Raises ValueError for a name that is there twice."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = sorted(name for name, _ in pairs)
        twice = next(one for one, other in itertools.pairwise(names) if one == other)
        raise ValueError(f"{twice!r:.99} is there twice")
    return entries


def _shallow(value: Any) -> Any:
    """Return what was parsed. Raises RecursionError where it is nested deeper than `DEPTH`, ValueError for a number that no float holds."""
    level = [value]
    for _ in range(DEPTH):
        inner = (v.values() if isinstance(v, dict) else v for v in level)
        level = [v for each in inner if isinstance(each, type({}.values()) | list) for v in each]
        if any(type(v) is int and v.bit_length() > _BITS for v in level):
            raise ValueError(f"a whole number in it has more than {_BITS} bits")
        level = [v for v in level if isinstance(v, dict | list)]
        if not level:
            return value
    raise RecursionError


def _array(data: bytes) -> NDArray[Any]:
    """Return the array of a .npy file. Raises ValueError, before there is memory for it, where its bytes are others than its shape says."""
    file = io.BytesIO(data)
    head = (
        npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    )
    shape, fortran, dtype = head(file)
    if dtype.hasobject:
        raise ValueError("arrays of Python objects are not read: make them float64 or text")
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"its bytes are not those of the shape {shape} of {dtype}")
    array = np.frombuffer(bytearray(data), dtype, offset=file.tell())
    return array.reshape(shape, order="F" if fortran else "C")
