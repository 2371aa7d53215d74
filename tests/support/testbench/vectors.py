"""Run arrays of test vectors through a fixed-latency component, a vector a cycle, at Verilator's speed.

    >>> result = run_vectors(unit("add", float32), {"a": a, "b": b}, ["o"], latency("add", float32))["o"]

The component is converted to Verilog and compiled with a small loop over NumPy buffers into a shared library, which the cache
of simulations keeps.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence

import numpy as np
from amaranth.hdl import Value
from amaranth.lib import wiring
from numpy.typing import ArrayLike, NDArray

from penstock.hdl.shell.verilog import to_verilog
from penstock.hdl.verilog.names import plain
from penstock.models.shell import TOP
from penstock.sim.native.toolchain import build_model

__all__ = ["library", "run_vectors"]

_HARNESS = """
#include "Vtop.h"
#include "verilated.h"
#include <cstdint>
double sc_time_stamp() {{ return 0; }}
extern "C" __attribute__((visibility("default"))) void run(uint64_t n, uint64_t cycles, const uint64_t *const *in, uint64_t *const *out) {{
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


def library(verilog: str, harness: str) -> ctypes.CDLL:
    """A top called `penstock` with a harness that includes "Vtop.h"."""
    # a second of simulation at the most: compiling is what takes time
    return ctypes.CDLL(
        str(build_model({"design.v": verilog, "harness.cpp": harness}, optimise="-O0"))
    )


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
    BuildError
        Verilator or the compiler failed; the message holds what it said.
    """
    columns = [
        np.ascontiguousarray(x).astype(np.uint64) for x in np.broadcast_arrays(*inputs.values())
    ]
    count = columns[0].shape[0]
    depth = {name: latency if isinstance(latency, int) else latency[name] for name in outputs}
    verilog = modules + to_verilog(component, name=TOP)
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
    loop = library(verilog, harness)
    results = [np.zeros(count, np.uint64) for _ in outputs]
    pointers = ctypes.POINTER(ctypes.c_uint64)
    table = lambda arrays: (pointers * max(len(arrays), 1))(
        *(a.ctypes.data_as(pointers) for a in arrays)
    )
    if count:
        loop.run(
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
