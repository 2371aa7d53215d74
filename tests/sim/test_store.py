"""The cache of finished builds: several processes want the same one, and one of them dies or does not come to an end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.sim import staging
from penstock.sim.native import store
from penstock.sim.native.toolchain import build_plain

#: builds the file in argv[1], for a g++ that argv[2] names
_BUILDS = """
import sys
from pathlib import Path
from penstock.sim.native.toolchain import build_plain
print(build_plain("sum", Path(sys.argv[1])))
"""
#: has a file in a folder of its own, beside others, until it is killed
_STAGES = """
import sys, time
from pathlib import Path
from penstock.sim.staging import staging
with staging(sys.argv[1], Path(sys.argv[2])) as folder:
    (folder / "half").write_text("half")
    print(folder, flush=True)
    time.sleep(600)
"""
#: holds an entry of the cache until it is killed
_HOLDS = """
import sys, time
from pathlib import Path
from penstock.sim.native.store import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def _run(text: str, *arguments: object, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )


@pytest.fixture
def holder(tmp_path: Path):
    """A process that holds the entry `entry`."""
    process = _run(_HOLDS, tmp_path / "entry")
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_two_processes_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """g++ is a script that notes its calls, and takes its time."""
    compiler = tmp_path / "bin" / "g++"
    compiler.parent.mkdir()
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) echo g++ of the test;; '
        f'*) echo call >> {tmp_path}/calls; sleep 1; for last; do :; done; echo made > "$last";; esac\n'
    )
    compiler.chmod(0o755)
    source = tmp_path / "sum.cpp"
    source.write_text("int sum(int a, int b) { return a + b; }\n")
    cache = tmp_path / "cache"
    path = f"{compiler.parent}:{os.environ['PATH']}"
    both = [_run(_BUILDS, source, PATH=path, PENSTOCK_CACHE=str(cache)) for _ in range(2)]
    made = {process.communicate(timeout=60)[0] for process in both}
    assert len(made) == 1 and all(process.returncode == 0 for process in both)
    assert (tmp_path / "calls").read_text() == "call\n"
    assert [file.name for file in cache.iterdir()] == [Path(made.pop().strip()).name]


def test_what_was_found_intact_is_looked_at_again_once_it_is_changed(tmp_path: Path) -> None:
    store.publish(b"content", path := tmp_path / "file")
    time.sleep(1.1)
    assert store.intact(path) and store.intact(path) and path in store._found
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    assert not store.intact(path)
    store.publish(b"content", path)
    assert store.intact(path) and path.chmod(0o777) is None and not store.intact(path)
    os.utime(path, (0, 0))
    path.chmod(0o755)
    assert store.intact(path) and time.time() - path.stat().st_mtime < 60


def test_a_holder_that_dies(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    begin = time.monotonic()
    with store.alone(tmp_path / "entry"):
        assert time.monotonic() - begin < 5
    assert list(tmp_path.iterdir()) == []


def test_a_holder_that_stays(
    tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has waited long enough makes the file as well, and leaves the lock to its holder."""
    monkeypatch.setattr(store, "_PATIENCE", 0.3)
    with store.alone(tmp_path / "entry"):
        assert holder.poll() is None
    assert [file.name for file in tmp_path.iterdir()] == [".entry.lock"]


def test_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without them is no reason to stop."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))

    def refuse(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(staging.fcntl, "flock", refuse)
    # a folder that no process has locked is swept by those that have locks
    monkeypatch.setattr(staging.tempfile, "tempdir", str(tmp_path))
    source = tmp_path / "sum.cpp"
    source.write_text("int sum(int a, int b) { return a + b; }\n")
    assert build_plain("sum", source).exists()


def test_an_entry_under_another_ones_name(tmp_path: Path) -> None:
    """A seal is of the content and of the name: what was made for another key is made anew."""
    one, other = tmp_path / "design-1.v", tmp_path / "design-2.v"
    for path in (one, other):
        store.publish(path.name.encode(), path)
    assert store.text_of(one) == "design-1.v" and store.intact(other)
    one.write_bytes(other.read_bytes())
    assert store.text_of(one) is None and not store.intact(one)
    assert store.text_of(other) == "design-2.v"


@pytest.mark.parametrize("prefix", [".new-", ".out.new-", staging.TEMPORARY])
def test_what_a_killed_process_was_making_goes(tmp_path: Path, prefix: str) -> None:
    """At the next start; that of a process that lives stays, and so does what only looks alike."""
    both = [_run(_STAGES, prefix, tmp_path) for _ in range(2)]
    killed, alive = (Path(process.stdout.readline().strip()) for process in both)
    both[0].kill()
    both[0].wait()
    mine = tmp_path / f"{prefix}mine"
    mine.write_text("")
    assert (killed / "half").exists()
    with staging.staging(prefix, tmp_path) as folder:
        assert set(tmp_path.iterdir()) == {alive, folder, mine}
    assert set(tmp_path.iterdir()) == {alive, mine} and (alive / "half").exists()
    both[1].kill()
    both[1].wait()
    with staging.staging(prefix, tmp_path):
        assert not alive.exists()
    for process in both:
        process.stdout.close()


def test_the_cache_is_swept_once_it_is_used(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """Of half files, also an earlier version's, and of locks that nobody holds."""
    for name in (".new-abcdefgh", ".other.lock"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o600)
    (tmp_path / ".board-a1b2c3d4").mkdir(mode=0o700)
    (tmp_path / ".board-a1b2c3d4" / "build.json").write_text("{}")
    assert store.text_of(tmp_path / "nothing") is None
    assert [path.name for path in tmp_path.iterdir()] == [".entry.lock"] and holder.poll() is None


def test_what_only_has_the_name_of_something_left_stays(tmp_path: Path) -> None:
    """Who may write in a folder can give a name to what is another's: a folder that is open to others is none of ours, and one of a
    thousand in each other is no reason to stop."""
    work, target, deep, link, left = (tmp_path / f".out.new-{c * 8}" for c in "abcde")
    work.mkdir(mode=0o755)
    target.write_text("a file")
    target.chmod(0o644)
    link.symlink_to(work)
    for folder in (deep, left):
        folder.mkdir(mode=0o700)
    (left / "link").symlink_to(work)
    (work / "file").write_text("")
    handles = [os.open(deep, os.O_RDONLY)]
    for _ in range(sys.getrecursionlimit() // 2):
        os.mkdir("a", dir_fd=handles[-1])
        handles.append(os.open("a", os.O_RDONLY, dir_fd=handles[-1]))
        os.close(handles.pop(0))
    os.close(handles[0])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit // 2)
    try:
        with staging.staging(".out.new-", tmp_path) as folder:
            assert set(tmp_path.iterdir()) == {work, target, deep, link, folder}
    finally:
        sys.setrecursionlimit(limit)
        shutil.rmtree(deep)
    assert (work / "file").exists()
