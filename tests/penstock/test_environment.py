"""Where Penstock and its tools write: a home that cannot be written, a damaged cache, a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
import penstock.cache as cache
from penstock.api import Table
from penstock.failures import failure
from penstock.hdl import environment
from penstock.sim.native import BuildError, store, toolchain

TEXT = """kernel linear(x: input[d], y: output, w: model[d])
  step = merge((sum(w * x) - y) * x, 4)
  w   <- w - 0.1 * step
"""
PYTHON = '''import penstock as ps


@ps.kernel
def linear(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"]):
    """The same."""
    step = ps.merge((ps.sum(w * x) - y) * x, 4)
    return w - 0.1 * step
'''


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
        hint = f"PENSTOCK_CACHE is {place}: name a folder that can be written, or unset it"
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
    folder = Path(__file__).parents[1] / "support"
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


def test_a_full_disk_says_which_folders() -> None:
    found = failure(OSError(28, "No space left on device", "/tmp/x"))
    assert "error[E804]: /tmp/x: No space left on device" in found.text
    assert "TMPDIR" in found.text
    assert "PENSTOCK_CACHE" in found.text


# what a build depends on


def _tables() -> list[Table]:
    random = np.random.default_rng(7)
    columns = {"x": random.normal(size=(8, 3)), "y": random.normal(size=8)}
    return [Table.from_columns(columns, name) for name in ("one", "another")]


def test_a_table_of_another_name_has_the_same_design(tmp_path: Path) -> None:
    kernel = tmp_path / "linear.psk"
    kernel.write_text(TEXT)
    one, another = (ps.compile(kernel, "small", table=table) for table in _tables())
    assert one.plan.walk.schema.table != another.plan.walk.schema.table
    assert one.digest == another.digest
    other = ps.compile(kernel, "small", table=_tables()[0], format="bfloat16")
    assert other.digest != one.digest


def test_both_forms_of_a_kernel_have_the_same_design(tmp_path: Path) -> None:
    text, python = tmp_path / "linear.psk", tmp_path / "linear.py"
    text.write_text(TEXT)
    python.write_text(PYTHON)
    table = _tables()[0]
    one, another = ps.compile(text, "small", table=table), ps.compile(python, "small", table=table)
    assert one.digest == another.digest
    assert [op.line for op in one.plan.ops] != [op.line for op in another.plan.ops]


def test_fits_of_a_table_of_another_name_have_the_same_design() -> None:
    random = np.random.default_rng(7)
    columns = {"x": random.normal(size=(8, 3)), "y": random.normal(size=8)}
    kernel = Path(__file__).parents[2] / "examples" / "closed_form.psk"
    digests = {
        ps.compile(kernel, table=Table.from_columns(columns, name)).digest
        for name in ("one", "another")
    }
    assert len(digests) == 1
