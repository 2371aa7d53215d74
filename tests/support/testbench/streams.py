"""Components with streams under Verilator: items in, items out, each with its cycle, at any pace.

    >>> run = run_streams(build_streams(lambda parts: Solver(config, parts)), {"i": items}, {"words": 20}, {"o": 3})

What a component shows for a cycle (`<name>` with `<name>_valid`) is collected like a stream that is always ready.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Module, Shape, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from penstock.hdl.modules import ModuleLibrary, Parts
from penstock.hdl.shell.verilog import to_verilog

from .vectors import _library

__all__ = ["Streams", "Taken", "build_streams", "run_streams"]

_HARNESS = """
#include "Vtop.h"
#include "verilated.h"
#include <cstdint>
#include <cstring>
double sc_time_stamp() {{ return 0; }}
extern "C" uint64_t run(uint64_t limit, uint64_t seed, uint32_t pace, uint8_t *const *in, const uint64_t *in_count, uint64_t *const *in_cycle,
                        uint8_t *const *out, const uint64_t *out_count, uint64_t *const *out_cycle, uint64_t *taken) {{
    VerilatedContext context;
    Vtop top(&context);
    uint64_t t = 0, given[{streams}] = {{}};
    bool offered[{streams}] = {{}};
    auto chance = [&] {{ seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return (seed >> 20 & 65535) < pace; }};
    top.clk = 0; top.rst = 0; top.eval();
    for (; t < limit && !({ended}); t++) {{
        {drive}
        top.eval();
        {sample}
        top.clk = 1; top.eval(); top.clk = 0; top.eval();
    }}
    top.final();
    return t;
}}
"""


#: cycle of what was not accepted
_NEVER = np.uint64((1 << 64) - 1)


@dataclass(frozen=True)
class Taken:
    """Items of an output, as plain integers, and the cycles in which they were taken."""

    items: list[int]
    cycles: list[int]


@dataclass(frozen=True)
class Streams:
    """A compiled component: shapes of its input streams, its outputs (of a stream, or shown for a cycle)."""

    library: ctypes.CDLL
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    bytes: dict[str, int]


class _Flat(wiring.Component):
    """The component with plain ports."""

    def __init__(self, component: wiring.Component) -> None:
        self.component = component
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        members: dict[str, Any] = dict(component.signature.members.items())
        ports: dict[str, Any] = {}
        for name, member in members.items():
            if member.is_signature and isinstance(member.signature, stream.Signature):
                shape = member.signature.members["payload"].shape
                width = Shape.cast(shape).width
                (self.inputs if member.flow is In else self.outputs)[name] = shape
                ports |= {
                    f"{name}_data": (In if member.flow is In else Out)(width),
                    f"{name}_valid": (In if member.flow is In else Out)(1),
                    f"{name}_ready": (Out if member.flow is In else In)(1),
                }
            elif f"{name}_valid" in members:
                self.outputs[name] = member.shape
                ports |= {
                    f"{name}_data": Out(Shape.cast(member.shape).width),
                    f"{name}_valid": Out(1),
                }
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.dut = dut = self.component
        for name in (*self.inputs, *self.outputs):
            inner = getattr(dut, name)
            data, valid = getattr(self, f"{name}_data"), getattr(self, f"{name}_valid")
            if not hasattr(self, f"{name}_ready"):
                m.d.comb += [data.eq(Value.cast(inner)), valid.eq(getattr(dut, f"{name}_valid"))]
            elif name in self.inputs:
                m.d.comb += [
                    Value.cast(inner.payload).eq(data),
                    inner.valid.eq(valid),
                    getattr(self, f"{name}_ready").eq(inner.ready),
                ]
            else:
                m.d.comb += [
                    data.eq(Value.cast(inner.payload)),
                    valid.eq(inner.valid),
                    inner.ready.eq(getattr(self, f"{name}_ready")),
                ]
        return m


def build_streams(make: Callable[[Parts], wiring.Component]) -> Streams:
    """Compile the component that `make` returns; its members are streams, and data shown for a cycle."""
    library = ModuleLibrary()
    top = _Flat(make(library))
    verilog = to_verilog(top, name="top", library=library)
    drive, sample = [], []
    for k, name in enumerate(top.inputs):
        drive.append(
            f"if (!offered[{k}] && given[{k}] < in_count[{k}] && chance()) {{ offered[{k}] = true; "
            f"memcpy(&top.{name}_data, in[{k}] + given[{k}] * sizeof top.{name}_data, sizeof top.{name}_data); }} top.{name}_valid = offered[{k}];"
        )
        sample.append(
            f"if (offered[{k}] && top.{name}_ready) {{ in_cycle[{k}][given[{k}]++] = t; offered[{k}] = false; }}"
        )
    for k, name in enumerate(top.outputs):
        ready = hasattr(top, f"{name}_ready")
        if ready:
            drive.append(f"top.{name}_ready = chance();")
        sample.append(
            f"if (top.{name}_valid{f' && top.{name}_ready' if ready else ''} && taken[{k}] < out_count[{k}]) {{ "
            f"memcpy(out[{k}] + taken[{k}] * sizeof top.{name}_data, &top.{name}_data, sizeof top.{name}_data); out_cycle[{k}][taken[{k}]++] = t; }}"
        )
    ended = " && ".join(f"taken[{k}] >= out_count[{k}]" for k in range(len(top.outputs)))
    harness = _HARNESS.format(
        streams=max(len(top.inputs), 1),
        ended=ended,
        drive="\n        ".join(drive),
        sample="\n        ".join(sample),
    )
    library_ = ctypes.CDLL(
        str(_library(verilog, harness, "-O1"))
    )  # runs are short; compiling is what takes time
    library_.run.restype = ctypes.c_uint64
    return Streams(
        library_,
        top.inputs,
        top.outputs,
        {
            name: _bytes(Shape.cast(shape).width)
            for name, shape in (top.inputs | top.outputs).items()
        },
    )


def _bytes(width: int) -> int:
    """Bytes of a port of Verilator's model."""
    return next((size for size in (1, 2, 4, 8) if width <= 8 * size), -(-width // 32) * 4)


def run_streams(
    built: Streams,
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, int],
    *,
    pace: float = 1.0,
    seed: int = 1,
    limit: int = 1_000_000,
) -> tuple[dict[str, list[int]], dict[str, Taken]]:
    """Offer all inputs' items and take so many of each output.

    Parameters
    ----------
    inputs, outputs
        Items as plain integers by stream; how many of an output are to come.
    pace
        Each item is offered, and each output ready, with this probability in a cycle.

    Returns
    -------
    The cycles in which the inputs' items were accepted, by stream; what came, by output.

    Raises
    ------
    AssertionError
        The outputs have not come in `limit` cycles.
    """

    def pointers(arrays: list[np.ndarray]) -> Any:
        return (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))

    def counts(values: list[int]) -> Any:
        return (ctypes.c_uint64 * max(len(values), 1))(*values)

    given = {name: list(inputs.get(name, ())) for name in built.inputs}
    wanted = {name: outputs.get(name, 0) for name in built.outputs}
    data = {
        name: np.frombuffer(
            b"".join(item.to_bytes(built.bytes[name], "little") for item in items) + b"\0",
            dtype=np.uint8,
        ).copy()
        for name, items in given.items()
    }
    cycles = {name: np.full(len(items) + 1, _NEVER, np.uint64) for name, items in given.items()}
    come = {
        name: np.zeros(count * built.bytes[name] + 1, np.uint8) for name, count in wanted.items()
    }
    come_cycles = {name: np.zeros(count + 1, np.uint64) for name, count in wanted.items()}
    taken = np.zeros(len(wanted) + 1, np.uint64)
    built.library.run(
        ctypes.c_uint64(limit),
        ctypes.c_uint64(seed * 0x9E3779B97F4A7C15 % (1 << 64) | 1),
        ctypes.c_uint32(int(pace * 65536)),
        pointers(list(data.values())),
        counts([len(items) for items in given.values()]),
        pointers(list(cycles.values())),
        pointers(list(come.values())),
        counts(list(wanted.values())),
        pointers(list(come_cycles.values())),
        ctypes.c_void_p(taken.ctypes.data),
    )
    missing = {
        name: f"{int(taken[k])} of {count}"
        for k, (name, count) in enumerate(wanted.items())
        if taken[k] < count
    }
    accepted = {
        name: f"{np.count_nonzero(values[:-1] != _NEVER)} of {len(values) - 1}"
        for name, values in cycles.items()
    }
    assert not missing, f"not all came in {limit} cycles: {missing}; accepted: {accepted}"
    found = {}
    for name, count in wanted.items():
        size = built.bytes[name]
        found[name] = Taken(
            [
                int.from_bytes(come[name][k * size : (k + 1) * size].tobytes(), "little")
                for k in range(count)
            ],
            come_cycles[name][:count].tolist(),
        )
    return {name: values[:-1].tolist() for name, values in cycles.items()}, found
