"""hdl/qr/normal_equations: each word of a memo is the old one plus the sums, at any pace of either side."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data

from penstock.hdl.qr.normal_equations import Merge
from penstock.models.qr.layout import ENTRY_BYTES, entry_counts
from testbench.pysim import drain, feed, simulate
from testbench.qr_cases import slot_plan

CONFIG = slot_plan(n_max=5, gram_lanes=15, bus_bytes=32)


@pytest.mark.parametrize("paces", [(1.0, 1.0), (0.4, 1.0), (1.0, 0.4)])
def test_words(paces: tuple[float, float]) -> None:
    top, source = Module(), np.random.default_rng(1)
    shapes = data.ArrayLayout(signed(64), 4), data.ArrayLayout(signed(8 * ENTRY_BYTES), 6)
    sums = SimpleNamespace(
        chunk=Signal(8), right_hand_side=Signal(shapes[0]), entries=Signal(shapes[1])
    )
    dut = Merge(top, CONFIG, sums)
    jobs, given, expected = [], [], []
    for columns in (5, 2, 4, 1):
        jobs.append({"columns": columns, "fresh": 0})
        parts = ((columns, 8, 1), (entry_counts(CONFIG)[columns], ENTRY_BYTES, 2))
        for gram, (count, size, more) in enumerate(parts):
            numbers = [int.from_bytes(source.bytes(size), "little") for _ in range(count)]
            each = CONFIG.bus_bytes // size
            for k in range(0, count, each):
                for found, change in ((given, 0), (expected, more)):
                    old = [n + change & (1 << 8 * size) - 1 for n in numbers[k : k + each]]
                    found.append(sum(n << 8 * size * place for place, n in enumerate(old)))
                expected[-1] = (expected[-1], gram, int(gram and k + each >= count))
    taken: list[tuple[int, object]] = []

    async def commands(ctx) -> None:
        ctx.set(sums.right_hand_side, [1] * 4)
        ctx.set(sums.entries, [2] * 6)
        for job in jobs:
            await feed(dut.command, [job])(ctx)
            await ctx.tick().until(dut.o.valid & dut.o.ready & dut.o.p.last)

    simulate(
        top,
        drain(dut.o, len(expected), taken, pace=paces[1]),
        background=(commands, feed(dut.i, given, pace=paces[0])),
    )
    assert [(o.data, o.gram, o.last) for _, o in taken] == expected
    if paces == (1.0, 1.0):  # a word comes 2 cycles after it is taken, one a cycle
        assert taken[-1][0] == len(expected) + 3 * len(jobs) - 1
