"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.output import OutputError, write_file, write_folder


def test_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for data in (b"one", b"two"):
        assert write_file(path, data) == path
        assert path.read_bytes() == data
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert path.stat().st_mode == plain.stat().st_mode


def test_nothing_is_left_of_a_file_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_file(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == [
        "a.json"
    ] and path.read_bytes() == b"old"


def test_folder_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "above" / "design"
    for data in (b"one", b"two"):
        write_folder(path, {"a": data, "b": data})
        assert {entry.name: entry.read_bytes() for entry in path.iterdir()} == {
            "a": data,
            "b": data,
        }
    assert [entry.name for entry in path.parent.iterdir()] == ["design"]


@pytest.mark.parametrize("stage", [0, 1])
def test_the_old_folder_stays_when_the_new_one_fails(
    stage: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "design"
    write_folder(path, {"a": b"old"})
    real, calls = os.rename, []

    def rename(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == stage + 1:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OutputError, match="Input/output error"):
        write_folder(path, {"a": b"new"})
    assert [entry.name for entry in tmp_path.iterdir()] == ["design"] and (
        path / "a"
    ).read_bytes() == b"old"


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(OutputError, match=r"^the folder .* holds other files \(mine\)$"):
        write_folder(tmp_path, {"a": b"x"})
    with pytest.raises(OutputError, match=r"^.*mine is a file$"):
        write_folder(tmp_path / "mine", {"a": b"x"})
    with pytest.raises(OutputError, match="is not a folder"):
        write_folder(tmp_path / "mine" / "deep", {"a": b"x"})
