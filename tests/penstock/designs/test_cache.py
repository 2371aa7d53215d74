"""Verilog in the cache is that of the code that is installed, never of an older one."""

from __future__ import annotations

import importlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock.designs.cache as cache

#: what stands between a plan and its Verilog
MAKERS = (
    "penstock.engines.analytics.design",
    "penstock.engines.qr.keys",
    "penstock.engines.qr.columns",
    "penstock.hdl.analytics.engine",
    "penstock.hdl.qr.engine",
    "penstock.hdl.qr.table_engine",
    "penstock.hdl.shell.verilog",
    "penstock.sim.board",
)


def test_a_changed_module_makes_another_key(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "module.py"
    file.write_text("a = 1\n")
    before = cache.digest_of([("p", tmp_path)], ["tool 1"])
    assert cache.digest_of([("p", tmp_path)], ["tool 1"]) == before
    assert cache.digest_of([("p", tmp_path)], ["tool 2"]) != before
    file.write_text("a = 2\n")
    assert cache.digest_of([("p", tmp_path)], ["tool 1"]) != before
    file.write_text("a = 1\n")
    file.rename(tmp_path / "module.py")
    assert cache.digest_of([("p", tmp_path)], ["tool 1"]) != before


def test_all_that_makes_verilog_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each module of the packages that is imported when Verilog is made has its part in the key."""
    read: list[Path] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (read.append(self), real(self))[1])
    cache.generator.__wrapped__()
    for name in MAKERS:
        importlib.import_module(name)
    used = {
        Path(module.__file__)
        for name, module in list(sys.modules.items())
        if getattr(module, "__file__", None)
        and name.startswith(
            tuple(f"penstock.{part}." for part in ("hdl", "models", "sim", "dsl", "boards"))
        )
    }
    assert used <= set(read)


def test_an_engine_of_another_package_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_engine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for text in ("GAIN = 1\n", "GAIN = 2\n"):
        (package / "hardware.py").write_text(text)
        cache.generator.cache_clear()
        keys.append(cache.generator("some_engine"))
    assert keys[0] != keys[1] != cache.generator()


def test_of_several_that_want_the_same_one_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another text is not waited for, not even inside."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    made: list[str] = []

    def make() -> str:
        time.sleep(0.3)
        made.append(cache.kept("inner", lambda: "wire w;\n"))
        return "module m; endmodule\n"

    with ThreadPoolExecutor(3) as workers:
        texts = list(workers.map(lambda _: cache.kept("outer", make), range(3)))
    assert texts == ["module m; endmodule\n"] * 3 and made == ["wire w;\n"]
    assert [file.suffix for file in tmp_path.iterdir()] == [".v", ".v"]
