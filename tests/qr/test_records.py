"""hdl/qr: chunks cut from bus words, a job's changes; equality with the bytes' own readers, cycles, errors."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream

from penstock.hdl.qr.gearbox import Gearbox
from penstock.hdl.qr.records import Records
from penstock.models.qr.image import pack_changes
from penstock.models.qr.layout import Size
from testbench.pysim import drain, feed, simulate
from testbench.qr_cases import jobs_of, slot_plan, unpack_changes

CONFIG = slot_plan(n_max=12, gram_lanes=78)


@pytest.mark.parametrize("word", [1, 2, 16])
@pytest.mark.parametrize("pace", [1.0, 0.6])
def test_gearbox(word, pace):
    source = np.random.default_rng([word, int(10 * pace)])
    top, words_in = Module(), stream.Signature(16 * word).create()
    dut = Gearbox(top, "dut", words_in, 7, unit_bits=16)
    runs = [(int(source.integers(1, 8)), int(source.integers(0, 20)), 0) for _ in range(10)] + [
        (1, 7, 1),
        (3, 4, 1),
        (2, 3, 0),
    ]
    words, chunks = [], []
    for size, count, grow in runs:
        sizes = [size + grow * k for k in range(count)]
        units = source.integers(0, 1 << 16, sum(sizes))
        padded = [*units.tolist(), *source.integers(0, 1 << 16, -len(units) % word).tolist()]
        words += [
            sum(unit << 16 * k for k, unit in enumerate(padded[at : at + word]))
            for at in range(0, len(padded), word)
        ]
        for k, each in enumerate(sizes):
            at = sum(sizes[:k])
            chunks.append(
                (sum(int(unit) << 16 * k for k, unit in enumerate(units[at : at + each])), each)
            )
        chunks.append(None)
    given, taken = [], []
    simulate(
        top,
        feed(
            dut.command,
            [
                {
                    "size": size,
                    "grow": grow,
                    "count": count,
                    "units": count * size + grow * (count * (count - 1) // 2),
                }
                for size, count, grow in runs
            ],
            given,
        ),
        feed(words_in, words, pace=pace, seed=1),
        drain(dut.o, len(chunks), taken, pace=pace, seed=2),
    )
    for (_, item), expected in zip(taken, chunks, strict=True):
        assert item.end == (expected is None)
        if expected is not None:
            assert item.data & (1 << 16 * expected[1]) - 1 == expected[0]
    if pace == 1 and word == 16:
        assert [b - a for a, b in pairwise(given)] == [count + 3 for _, count, _ in runs[:-1]]


def run_records(jobs, config, pace=1.0):
    top, offsets = Module(), Signal(data.ArrayLayout(8, config.n_max - 1))
    given_words = stream.Signature(8 * config.bus_bytes).create()
    dut = Records(top, config, offsets, given_words)
    commands = [
        {
            "length": s.columns - 1,
            "inserted": s.inserted,
            "removed": s.removed,
            "moved": s.moved,
        }
        for s, _, _ in jobs
    ]
    words = [
        int.from_bytes(data[at : at + config.bus_bytes], "little")
        for _, data, _ in jobs
        for at in range(0, len(data), config.bus_bytes)
    ]
    given, taken = [], []

    async def commander(ctx):
        got = 0
        for command, (size, _, own) in zip(commands, jobs, strict=True):
            for j, offset in enumerate(own):
                ctx.set(offsets[j], int(offset))
            await feed(dut.command, [command], given)(ctx)
            got += size.records + 1
            while len(taken) < got:
                await ctx.tick()

    simulate(
        top,
        feed(given_words, words, pace=pace, seed=3),
        commander,
        drain(dut.o, sum(size.records + 1 for size, _, _ in jobs), taken, pace=pace, seed=4),
    )
    return given, taken


@pytest.mark.parametrize(
    ("bus", "length", "pace"), [(64, 11, 1.0), (64, 5, 0.7), (8, 7, 1.0), (16, 1, 0.8)]
)
def test_records(bus, length, pace):
    config = replace(CONFIG, bus_bytes=bus)
    batches = [(5, 4), (0, 0), (9, 0), (0, 3)]
    jobs = [
        (Size.of(job), pack_changes(job, config), job.offsets)
        for job in jobs_of(config, np.random.default_rng(bus), length, 60, batches)
    ]
    assert any(size.moved for size, _, _ in jobs) and any(size.removed for size, _, _ in jobs)
    _, taken = run_records(jobs, config, pace)
    items = iter(taken)
    for size, raw, offsets in jobs:
        for expected in unpack_changes(raw, size):
            item = next(items)[1]
            a = [
                1,
                *(byte - int(offset) for byte, offset in zip(expected.row, offsets, strict=True)),
                *[0] * (config.n_max - size.columns),
            ]
            assert (item.value, item.sign, item.came, item.end) == (
                expected.value,
                expected.sign,
                expected.came,
                0,
            )
            assert [item.a[k] for k in range(config.n_max)] == a
            assert bytes(item.row[k] for k in range(length)) == expected.row
            assert not expected.came or item.label == expected.label
        end = next(items)[1]
        assert (
            end.end
            and end.code == 0
            and end.value == end.sign == end.came == 0
            and not any(end.a[k] for k in range(config.n_max))
        )
