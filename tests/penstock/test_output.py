"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
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


#: writes a folder anew, and is ended at its first, second, … call of the system; prints what is there then
_ENDED = """
import os, sys
from penstock.output import write_folder
new = {"a": b"new", "b": b"new"}
def end(number, how):
    calls = 0
    def step(event, arguments):
        nonlocal calls
        if event.startswith(("os.", "tempfile.", "shutil.")) or event == "open":
            calls += 1
            if calls == number:
                if how == "killed":
                    os._exit(9)
                raise KeyboardInterrupt
    sys.addaudithook(step)
    write_folder("design", new)
    os._exit(0)
for how in ("killed", "interrupted"):
    for number in range(1, 99):
        write_folder("design", {"a": b"old", "b": b"old"})
        child = os.fork()
        if not child:
            try:
                end(number, how)
            except KeyboardInterrupt:
                os._exit(9)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        there = sorted(open(os.path.join("design", n)).read() for n in os.listdir("design")) if os.path.exists("design") else ""
        print(how, *there, flush=True)
        if code == 0:
            break
"""


def test_whatever_ends_it_leaves_one_of_both_or_none(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDED], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    seen = done.stdout.splitlines()
    assert {"killed old old", "killed new new", "interrupted old old", "interrupted new new"} < {
        *seen
    }
    assert {*seen} <= {
        f"{h}{w}" for h in ("killed", "interrupted") for w in ("", " old old", " new new")
    }
    assert (
        "interrupted" not in seen
    )  # the earlier folder comes back, where there is still somebody to do it


def test_what_is_written_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real = os.fsync, os.rename

    def fsync(handle: int) -> None:
        calls.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        real[0](handle)

    def rename(source: Path, target: Path) -> None:
        calls.append(f"{Path(source).name} -> {Path(target).name}")
        real[1](source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    write_folder(tmp_path / "design", {"a": b"", "b": b""})
    assert calls == ["a", "b", "new", "new -> design", tmp_path.name]


@pytest.mark.parametrize("kind", ["manifest", "no manifest", "folder", "link"])
def test_what_has_the_names_of_a_design_and_is_none(kind: str, tmp_path: Path) -> None:
    """Somebody's own manifest.json, a folder or a link called like a file of the design."""
    path, new = tmp_path / "d", {"penstock.v": b"x", "manifest.json": b'{\n "penstock": 2\n}\n'}
    path.mkdir()
    (path / "manifest.json").write_text('{"name": "my extension"}')
    if kind != "manifest":
        (path / "manifest.json").write_bytes(new["manifest.json"])
    if kind == "folder":
        (path / "penstock.v").mkdir()
        (path / "penstock.v" / "mine").write_text("precious")
    elif kind == "link":
        (path / "penstock.v").symlink_to(tmp_path / "mine")
    elif kind == "no manifest":
        (path / "manifest.json").rename(path / "penstock.v")
    names = sorted(entry.name for entry in path.iterdir())
    with pytest.raises(OutputError, match=r"holds other files"):
        write_folder(path, new)
    assert sorted(entry.name for entry in path.iterdir()) == names


def test_a_link_to_a_design_stays_one(tmp_path: Path) -> None:
    write_folder(tmp_path / "d", {"a": b"old"})
    (tmp_path / "link").symlink_to("d")
    write_folder(tmp_path / "link", {"a": b"new"})
    assert (tmp_path / "link").is_symlink() and (tmp_path / "d" / "a").read_bytes() == b"new"
