"""Run a component that is started, works and says when it has ended, at Verilator's speed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from amaranth.hdl import Value

from penstock.hdl.shell.verilog import to_verilog
from penstock.hdl.verilog.names import plain
from penstock.models.shell import TOP

from .vectors import library

__all__ = ["run_started"]

_HARNESS = """
#include "Vtop.h"
#include "verilated.h"
#include <cstdint>
double sc_time_stamp() {{ return 0; }}
template <class T> static void put(T &port, const uint32_t *from, int words) {{
    if constexpr (sizeof(T) <= 8) port = words > 1 ? from[0] | (uint64_t)from[1] << 32 : from[0];
    else for (int k = 0; k < words; k++) port[k] = from[k];
}}
template <class T> static void get(const T &port, uint32_t *to, int words) {{
    if constexpr (sizeof(T) <= 8) {{ to[0] = port; if (words > 1) to[1] = (uint64_t)port >> 32; }}
    else for (int k = 0; k < words; k++) to[k] = port[k];
}}
extern "C" __attribute__((visibility("default")))
uint64_t run(uint64_t runs, uint64_t limit, const uint32_t *in, uint32_t *out, uint64_t *cycles) {{
    VerilatedContext context;
    Vtop top(&context);
    top.clk = 0; top.rst = 0; top.start = 0; top.eval();
    auto tick = [&] {{ top.clk = 1; top.eval(); top.clk = 0; top.eval(); }};
    for (uint64_t k = 0; k < runs; k++, in += {given}, out += {told}) {{
        {drive}
        top.start = 1; top.eval(); tick(); top.start = 0; top.eval();
        uint64_t t = 1;
        for (; !top.ended; t++) {{ if (t == limit) return k; tick(); }}
        cycles[k] = t;
        {collect}
        tick();
    }}
    top.final();
    return runs;
}}
"""


def run_started(
    component: Any,
    inputs: Sequence[Mapping[str, int]],
    outputs: Sequence[str],
    *,
    limit: int,
) -> list[tuple[int, ...]]:
    """Start a component once for each set of inputs, one after the other; return for each its cycles
    from the start to `ended`, and the outputs then.

    Parameters
    ----------
    component
        With `start` and `ended`.
    inputs
        Values by port name, the same ports in each.
    outputs
        Ports to read.
    limit
        Cycles that a run may take; AssertionError beyond it.
    """
    words = {n: -(-len(Value.cast(getattr(component, n))) // 32) for n in (*inputs[0], *outputs)}

    def each(call: str, names: Sequence[str], array: str) -> tuple[str, int]:
        lines, at = [], 0
        for name in names:
            lines.append(f"{call}(top.{plain(name)}, {array} + {at}, {words[name]});")
            at += words[name]
        return " ".join(lines), at

    (drive, given), (collect, told) = (
        each("put", tuple(inputs[0]), "in"),
        each("get", outputs, "out"),
    )
    harness = _HARNESS.format(drive=drive, collect=collect, given=given, told=told)
    loop = library(to_verilog(component, name=TOP), harness)
    texts = [b"".join(n.to_bytes(4 * words[k], "little") for k, n in one.items()) for one in inputs]
    data = np.frombuffer(b"".join(texts) + bytes(4), np.uint32)
    results, cycles = np.zeros((len(inputs), told), np.uint32), np.zeros(len(inputs), np.uint64)
    loop.run.restype = ctypes.c_uint64
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)
    done = loop.run(
        ctypes.c_uint64(len(inputs)),
        ctypes.c_uint64(limit),
        *map(pointer, (data, results, cycles)),
    )
    assert done == len(inputs), f"run {done} does not end in {limit} cycles"
    found = []
    for took, row in zip(cycles.tolist(), results, strict=True):
        ends = np.cumsum([words[name] for name in outputs])
        parts = np.split(row, ends[:-1])
        found.append((took, *(int.from_bytes(part.tobytes(), "little") for part in parts)))
    return found
