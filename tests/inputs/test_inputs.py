"""The one way in for files from outside: regular files of bounded size, and one error for whatever a parser raises."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.models.inputs import Input, InputError

_THING = Input("a thing", "write it anew", most=1 << 22)


def _archive(**arrays: np.ndarray) -> bytes:
    memory = io.BytesIO()
    np.savez_compressed(memory, **arrays)
    return memory.getvalue()


def _twice() -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            archive.writestr("a.npy", _array(np.zeros(1)))
    return memory.getvalue()


def _array(value: np.ndarray) -> bytes:
    memory = io.BytesIO()
    np.save(memory, value)
    return memory.getvalue()


@pytest.mark.parametrize(
    "read, data, cause",
    [
        ("json", b'{"a": 1, "b": 2, "a": 3}', "'a' is there twice"),
        ("json", b"[" * 101 + b"]" * 101, "it is nested too deeply"),
        ("json", b"[" * 1_000_000, "it is nested too deeply"),
        ("json", b'{"a":\n 1', "line 2, column 3: no JSON: Expecting ',' delimiter"),
        ("json", b"\xc3(", "it is no text in UTF-8"),
        ("json", b'[{"a": -1%b}]' % (b"0" * 400), "a whole number in it has more than 1023 bits"),
        ("toml", b"a.b = [1%b]" % (b"0" * 400), "a whole number in it has more than 1023 bits"),
        ("text", b"\xc3(", "it is no text in UTF-8"),
        ("toml", b"a." * 300_000 + b"a = 1", "it is nested too deeply"),
        ("toml", b"a = " + b"[" * 300_000, "it is nested too deeply"),
        ("toml", b"a = 1\na = 2", "Cannot overwrite a value (at end of document)"),
        ("array", _array(np.arange(9))[:-1], "its bytes are not those of the shape (9,) of int64"),
    ],
)
def test_causes(tmp_path: Path, read: str, data: bytes, cause: str) -> None:
    file = tmp_path / "f"
    file.write_bytes(data)
    take: Callable[[Any], Any] = getattr(_THING, read, lambda at: _THING.array_of(data, at))
    with pytest.raises(InputError) as refused:
        take(file)
    found = refused.value
    assert found.message == f"{file} is not a thing: {cause}"
    assert (found.code, found.hint) == ("E707", "write it anew")


def test_regular_files_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(bytes(_THING.most + 1))
    for place, message in (
        (tmp_path / "fifo", "{} is no regular file"),
        (tmp_path, "{} is a folder, not a file"),
        (Path("/dev/zero"), "{} is no regular file"),
        (tmp_path / "none", "there is no file {}"),
        (tmp_path / "a\0b", "{} cannot be read: embedded null byte"),
        (tmp_path / "large", "{} has 4,194,305 bytes: a thing has at most 4,194,304"),
    ):
        with pytest.raises(InputError) as refused:
            _THING.data(place)
        assert refused.value.message == message.format(place)


@pytest.mark.parametrize(
    "data, cause",
    [
        (_archive(a=np.zeros(1 << 26, np.int8))[:-1], "File is not a zip file"),
        (_archive(a=np.array([{}])), "arrays of Python objects are not read"),
        (_twice(), "'a' is there twice"),
    ],
)
def test_archives(data: bytes, cause: str) -> None:
    with pytest.raises(InputError, match=f"^x is not a thing: {cause}"):
        _THING.arrays(data, "x")


def test_an_archive_that_unpacks_to_much() -> None:
    with pytest.raises(InputError, match=r"^x has .* which unpack to 536,871,040: more than 100 "):
        _THING.arrays(_archive(a=np.zeros(1 << 26)), "x")


def test_a_flipped_bit_of_an_archive_is_found_or_changes_nothing() -> None:
    arrays = {"a": np.arange(6), "b": np.array("abc"), "c": np.zeros((0, 3), order="F")}
    data = _archive(**arrays)
    taken = 0
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        try:
            found = _THING.arrays(bytes(damaged), "x")
        except InputError:
            continue
        taken += 1
        assert found.keys() == arrays.keys()
        assert all(np.array_equal(found[name], value) for name, value in arrays.items())
    assert taken  # dates and the like


def test_arrays_as_they_were() -> None:
    for value in (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(3), np.array("ab")):
        found = _THING.array_of(_array(value), "x")
        assert found.tobytes() == value.tobytes() and found.dtype == value.dtype
        assert found.shape == value.shape and found.flags.writeable


def test_whatever_a_parser_raises() -> None:
    for problem, cause in (
        (KeyError("a"), "it has no 'a'"),
        (TypeError("x" * 900), f"{'x' * 300} …"),
        (MemoryError(), "it needs more memory than there is"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (StopIteration(), "StopIteration"),
    ):
        with pytest.raises(InputError) as refused, _THING.parsing("x"):
            raise problem
        assert refused.value.message == f"x is not a thing: {cause}"
    with pytest.raises(KeyboardInterrupt), _THING.parsing("x"):
        raise KeyboardInterrupt


def test_numbers_of_json() -> None:
    assert _THING.json_of(json.dumps({"a": [1, 2.5, None, True, "x"]}), "x") == {
        "a": [1, 2.5, None, True, "x"]
    }
