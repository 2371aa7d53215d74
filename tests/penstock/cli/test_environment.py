"""Where Penstock and its tools write: a home that cannot be written, a damaged cache, a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
import penstock.designs.cache as cache
from penstock.api import Table
from penstock.hdl import environment
from penstock.runs.failures import failure
from penstock.sim.native import BuildError, store, toolchain

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that nobody can write, root neither: its path goes through a file."""
    file = tmp_path / "file"
    file.write_text("")
    for name in ("PENSTOCK_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(file / "home"))
    monkeypatch.setattr(environment.tempfile, "tempdir", str(tmp_path))
    environment._private.cache_clear()
    yield tmp_path
    environment._private.cache_clear()


def test_a_home_that_cannot_be_written(homeless: Path) -> None:
    folder = environment.cache_folder()
    assert folder == homeless / f"penstock-cache-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert environment.tool_variables() == {"XDG_CACHE_HOME": str(folder / "tools")}
    assert (folder / "tools").is_dir()


@pytest.mark.parametrize("kind", ["open", "file", "link"])
def test_a_temporary_folder_that_others_may_have_made(homeless: Path, kind: str) -> None:
    """Libraries are loaded from the cache: a folder that another user can write is not taken."""
    place = homeless / f"penstock-cache-{os.getuid()}"
    if kind == "open":
        place.mkdir()
        place.chmod(0o777)
    elif kind == "file":
        place.write_text("")
    else:
        (homeless / "elsewhere").mkdir()
        place.symlink_to(homeless / "elsewhere")
    folder = environment.cache_folder()
    assert folder != place
    assert folder.stat().st_mode & 0o777 == 0o700
    assert environment.cache_folder() == folder


def test_a_user_without_a_home(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(environment.Path, "home", no_home)
    assert environment.cache_folder().parent == homeless


def test_a_chosen_cache_is_the_only_one(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (homeless / "file", homeless / "file" / "cache"):
        monkeypatch.setenv("PENSTOCK_CACHE", str(place))
        with pytest.raises(OSError) as problem:
            environment.cache_folder()
        text = failure(problem.value).text
        assert text.startswith(f"error[E804]: {place}: ")
        which = "name a folder that this user, and nobody else, can write, or unset it"
        hint = f"PENSTOCK_CACHE is {place}: {which}"
        assert text.endswith(f"\nhint: {hint}")
    assert "PENSTOCK_CACHE is" not in failure(FileNotFoundError(2, "none", "/elsewhere")).text
    monkeypatch.setenv("PENSTOCK_CACHE", str(homeless / "cache"))
    assert environment.cache_folder() == homeless / "cache"


@pytest.mark.long
def test_yosys_without_a_home(homeless: Path) -> None:
    code = (
        "from penstock.hdl.shell.top import shelled; from penstock.hdl.modules import ModuleLibrary;"
        "from testbench.toy import CopyEngine; e = CopyEngine(bus_bytes=8, ports=1);"
        "print(len(shelled(e, ModuleLibrary())))"
    )
    folder = Path(__file__).parents[2] / "support"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(homeless)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1000


DAMAGES = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "a bit": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
    "longer": lambda data: data + b"x",
    "of an older version": lambda data: data[: -store._TRAILER],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_in_the_cache_is_not_taken(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "kept"
    store.publish(b"module m; endmodule\n" * 20, file)
    assert store.intact(file)
    assert store.text_of(file) == "module m; endmodule\n" * 20
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert not store.intact(file)
    assert store.text_of(file) is None
    assert list(tmp_path.iterdir()) == [file]


def test_damaged_verilog_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    made: list[int] = []

    def make() -> str:
        made.append(1)
        return "module penstock; endmodule\n"

    for _ in range(2):
        assert cache.kept("key", make) == "module penstock; endmodule\n"
    assert len(made) == 1
    (file,) = tmp_path.iterdir()
    file.write_text("")
    for _ in range(2):
        assert cache.kept("key", make) == "module penstock; endmodule\n"
    assert len(made) == 2


def test_a_damaged_library_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loaded, a library that was cut short ends the process with a bus error."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    started: list[str] = []

    def run(arguments: list[str | Path], cwd: Path) -> None:
        started.append(Path(arguments[0]).name)
        (cwd / "model").mkdir(exist_ok=True)
        (cwd / "model.so").write_bytes(b"library" * 100)

    def compile_all(jobs: list[list[str]], folder: Path) -> None:
        started.extend(Path(job[-1]).name for job in jobs)
        for job in jobs:
            (folder / job[-1]).write_bytes(b"object" * 100)

    monkeypatch.setattr(toolchain, "_run", run)
    monkeypatch.setattr(toolchain, "_compile", compile_all)
    port = [toolchain.PortSpec("m0_axi", 8)]
    library = toolchain.build_library("module penstock; endmodule\n", port)
    all_steps = sorted(started)  # some go on side by side
    assert {"verilator_bin", "g++"} < set(all_steps)
    started.clear()
    assert toolchain.build_library("module penstock; endmodule\n", port) == library
    assert not started
    for file in tmp_path.iterdir():
        os.truncate(file, 50)
    assert toolchain.build_library("module penstock; endmodule\n", port) == library
    assert sorted(started) == all_steps
    assert store.intact(library)


def test_a_compiler_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'no licence' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BuildError, match="no licence") as problem:
        toolchain._versions.__wrapped__()
    assert failure(problem.value).text.startswith("error[E801]: g++ --version failed\n")


def test_yosys_that_fails_is_no_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from amaranth._toolchain.yosys import YosysError

    found = failure(YosysError("Traceback (most recent call last):\n  …\nOSError: no room\n"))
    assert found.text.startswith("error[E801]: Yosys failed: OSError: no room\n")
    assert found.exit_code == 1


# what a build depends on


@pytest.mark.parametrize("kernel", ["logistic", "closed_form"])
def test_names_of_tables_and_forms_of_kernels_make_no_other_design(kernel: str) -> None:
    random = np.random.default_rng(7)
    columns = {"x": random.normal(size=(8, 3)), "y": random.normal(size=8)}

    def digest(name: str, suffix: str, **options: Any) -> str:
        table = Table.from_columns(columns, name)
        return ps.compile(EXAMPLES / f"{kernel}.{suffix}", table=table, **options).digest

    other = {"format": "fixed:8,8"} if kernel == "logistic" else {"limbs": 1}
    assert digest("one", "psk") == digest("another", "psk") == digest("one", "py")
    assert digest("one", "psk", **other) != digest("one", "psk")


# whose the cache is


def _give_away(path: Path) -> None:
    if not os.geteuid():  # else everything is another's: see the tests
        os.chown(path, 12345, 12345, follow_symlinks=False)


def _planted(folder: Path, how: str) -> None:
    """Make a folder, or what is around it, so that another user could have written in it."""
    folder.mkdir(parents=True)
    above = folder.parent
    if how == "another's":
        _give_away(folder)
    elif how == "another's above":
        _give_away(above)
    elif how == "link of another":
        folder.rename(folder.with_name("real"))
        folder.symlink_to("real")
        _give_away(folder)
    elif how == "linked from where others write":
        folder.rmdir()
        (above.parent / "real").mkdir()
        folder.symlink_to(above.parent / "real")
        above.chmod(0o777)
    else:
        (above if "above" in how else folder).chmod(0o775 if "group" in how else 0o777)


CHOICES = [
    "another's",
    "another's above",
    "link of another",
    "linked from where others write",
    "group",
    "world",
    "group above",
    "world above",
]


@pytest.mark.parametrize("how", CHOICES)
def test_a_cache_that_others_can_write(
    homeless: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not run: the chosen one is refused, the usual one left aside with a warning."""
    if os.geteuid() and "another" in how:
        monkeypatch.setattr(os, "getuid", lambda: 12346)  # then this user's own is another's
    place = homeless / "above" / "penstock"
    _planted(place, how)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.parent))
    with pytest.warns(UserWarning, match=rf"^the cache {place} is not used: "):
        folder = environment.cache_folder()
    assert folder.parent == homeless and folder.name.startswith("penstock-cache-")
    monkeypatch.setenv("PENSTOCK_CACHE", str(place))
    with pytest.raises(OSError) as problem:
        environment.cache_folder()
    text = failure(problem.value).text
    assert text.startswith(f"error[E804]: {place}: ") and "what lies in a cache is run" in text
    assert "hint: PENSTOCK_CACHE is " in text
    assert cache.kept("key", lambda: "made\n") == "made\n"  # nothing is read from there


def test_a_sticky_folder_above_a_cache_is_no_danger(homeless: Path) -> None:
    (homeless / "shared" / "mine").mkdir(parents=True)
    (homeless / "shared").chmod(0o1777)
    assert environment.shared(homeless / "shared" / "mine") == ""
    assert "others can write" in environment.shared(homeless / "shared")


@pytest.mark.parametrize("how", ["another's", "open", "link", "pipe"])
def test_an_entry_that_another_user_can_have_written(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model-1.so"
    store.publish(b"library", file)
    assert store.intact(file)
    if how == "another's":
        monkeypatch.setattr(os, "getuid", lambda: 12346)
        _give_away(file)
    elif how == "open":
        file.chmod(0o777)
    else:
        file.rename(tmp_path / "real")
        file.symlink_to("real") if how == "link" else os.mkfifo(file)
    assert not store.intact(file) and store.text_of(file) is None


# room


@pytest.mark.parametrize("full", ["cache", "temporary"])
def test_a_full_disk_is_found_before_the_build(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"cache": tmp_path / "cache", "temporary": tmp_path / "temporary"}
    for place in places.values():
        place.mkdir()
    monkeypatch.setenv("PENSTOCK_CACHE", str(places["cache"]))
    monkeypatch.setattr(store.tempfile, "tempdir", str(places["temporary"]))
    real = os.statvfs

    def statvfs(path: Path) -> os.statvfs_result:
        found = list(real(path))
        if Path(path).is_relative_to(places[full]):
            found[3] = found[4] = 1000  # blocks
        return os.statvfs_result(found)

    def started(*_: object) -> None:
        raise AssertionError("a tool was started")

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(toolchain, "_run", started)
    monkeypatch.setattr(toolchain, "_compile", started)
    source = tmp_path / "one.cpp"
    source.write_text("int one() { return 1; }\n")
    builds = (
        lambda: toolchain.build_library("module penstock;", [toolchain.PortSpec("m0_axi", 8)]),
        lambda: toolchain.build_plain("one", source),
    )
    for build in builds:
        with pytest.raises(OSError) as problem:
            build()
        text = failure(problem.value).text
        assert text.startswith(f"error[E804]: {places[full]}") and "room for " in text
        assert "TMPDIR" in text and "PENSTOCK_CACHE" in text
    assert not any(places["cache"].glob("[!.]*")) and not any(places["temporary"].iterdir())


def test_a_disk_that_fills_up_during_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 'x.s: No space left on device' >&2; exit 1\n")
    compiler.chmod(0o755)
    for fails in (
        lambda: toolchain._run([compiler], tmp_path),
        lambda: toolchain._compile([[str(compiler)]] * 3, tmp_path),
    ):
        with pytest.raises(OSError) as problem:
            fails()
        found = failure(problem.value)
        assert found.text.startswith(f"error[E804]: {tmp_path}: No space left on device\n")
        assert "make room" in found.text and found.exit_code == 1
