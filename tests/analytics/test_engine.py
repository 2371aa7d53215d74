"""Golden = RTL bit for bit, model = RTL cycle for cycle: every example, three formats, three memory timings, several shapes of engine."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.api import Design, compile
from penstock.dsl.analytics.plan import Choices
from penstock.engines.design import Saved
from penstock.host.sources import Table
from penstock.models.memory import FixedLatency
from penstock.models.strider.errors import PageError
from penstock.targets import target_named
from testbench.memories import filled

EXAMPLES = Path(__file__).parents[2] / "examples"
FORMATS = ("float32", "bfloat16", "fixed:8,16")
MEMORIES = (FixedLatency(20, 8), FixedLatency(3, 2), FixedLatency(60, 1))

PLENTY = {"lut": 10_000_000, "ff": 10_000_000, "dsp": 10_000, "bram": 10_000}
PORTS = replace(target_named("small"), name="test-ports", ports=4, **PLENTY)


def table(
    rows: int, features: int, seed: int, *, signed: bool = False, page_size: int = 1024
) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    y = (x @ rng.normal(size=features) > 0).astype(np.float32)
    return Table.from_columns(
        {"id": np.arange(rows, dtype=np.int32), "y": 2 * y - 1 if signed else y, "x": x},
        "table",
        page_size=page_size,
    )


def ratings(seed: int) -> Table:
    rng = np.random.default_rng(seed)
    columns = {"u": rng.integers(0, 6, 90), "i": rng.integers(0, 9, 90)}
    columns["u"][:6], columns["i"][:9] = np.arange(6), np.arange(9)
    columns["r"] = rng.integers(1, 6, 90).astype(np.float32)
    return Table.from_columns(columns, "ratings", page_size=1024)


def check(
    design: Design, data: Table, memories: tuple[FixedLatency, ...] = MEMORIES, stalls: bool = True
) -> None:
    """Demand that all backends agree on `data`, whatever memories begin with that may become UltraRAM."""
    design = replace(design, saved=Saved("", 0, filled(design.verilog, design.storages())))
    golden = design.run(data, "golden")
    assert golden.codes is not None
    for memory in memories:
        rtl = design.run(data, "rtl", memory=memory, limit=20_000_000, watchdog=50_000)
        assert not rtl.errors
        assert rtl.codes is not None
        for name, codes in golden.codes.items():
            assert np.array_equal(rtl.codes[name], codes), f"{name} with {memory}"
        model = design.run(data, "model", memory=memory)
        assert rtl.cycles == model.cycles, memory
        for count in ("tuples", "groups", "batches", "epochs"):
            assert rtl.counters[count] == model.counters[count], count
        assert model.bound is not None and model.bound.cycles <= model.cycles
    if stalls:  # no model knows these, the numbers must be the same all the same
        rtl = design.run(data, "rtl", limit=20_000_000, stall_percent=30, seed=5)
        assert rtl.codes is not None and all(
            np.array_equal(rtl.codes[name], codes) for name, codes in golden.codes.items()
        )


#: example -> (table for a seed, dimensions, choices)
CASES: dict[str, tuple[Any, dict[str, int], Choices]] = {
    "linear": (lambda seed: table(150, 5, seed), {}, Choices(lanes=2, threads=1)),
    "logistic": (lambda seed: table(203, 10, seed), {}, Choices(lanes=4, threads=4)),
    "svm": (lambda seed: table(120, 7, seed, signed=True), {}, Choices(lanes=3, threads=2)),
    "ridge": (lambda seed: table(130, 6, seed), {}, Choices(lanes=3, threads=2, walkers=2)),
    "mlp": (lambda seed: table(101, 6, seed), {"h": 5}, Choices(lanes=4, threads=2)),
    "lrmf": (ratings, {"k": 3}, Choices(lanes=4, threads=1)),
}


#: on every run: examples of every shape (tests/analytics/test_plans.py draws others), a format each; all pairs with --long
QUICK = {
    ("svm", "float32"),
    ("ridge", "fixed:8,16"),
    ("lrmf", "fixed:8,16"),
}


@pytest.mark.parametrize(
    ("name", "format"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.long)
        for case in product(sorted(CASES), FORMATS)
    ],
)
def test_examples(name: str, format: str) -> None:
    data, dims, choices = CASES[name]
    design = compile(
        EXAMPLES / f"{name}.py",
        PORTS,
        data(1),
        format,
        dims=dims,
        epochs=2,
        choices=replace(choices, ports=1),
    )
    check(design, data(1))
    check(design, data(2), memories=(FixedLatency(11, 5),), stalls=False)


@pytest.mark.parametrize("threads", [2, pytest.param(16, marks=pytest.mark.long)])
def test_a_batch_begins_while_the_one_before_is_being_read(threads: int) -> None:
    """Rows of a matrix follow one another: new ones are there before all of the last group has begun. Batches of eight groups and of
    one, the last one of an epoch too small for a group."""
    design = compile(
        EXAMPLES / "mlp.py",
        PORTS,
        table(61, 16, 1),
        "fixed:8,16",
        dims={"h": 4},
        epochs=2,
        choices=Choices(lanes=1, threads=threads, ports=1),
    )
    schedule = design.plan.schedule
    assert schedule.batch < schedule.drain and schedule.batch % schedule.interval
    check(design, table(61, 16, 1))


def striped(ports: int = 4, threads: int = 4) -> Design:
    """A design that several tests run: one build. Its tables have 9 features."""
    return compile(
        EXAMPLES / "linear.py",
        PORTS,
        table(333, 9, 333),
        "fixed:8,8",
        epochs=3,
        choices=Choices(lanes=3, threads=threads, ports=ports),
    )


@pytest.mark.parametrize(
    ("ports", "threads", "rows"),
    [pytest.param(2, 8, (203, 9, 5), marks=pytest.mark.long), (4, 4, (333, 20))],
)
def test_ports(ports: int, threads: int, rows: tuple[int, ...]) -> None:
    """Pages striped over ports, uneven shares, ports that run dry and ports without any page."""
    design = striped(ports, threads)
    for data in (table(count, 9, count) for count in rows):
        check(design, data)


def test_empty_and_tiny() -> None:
    """A design serves any table of its schema: none, one row, a table without pages."""
    design = striped()
    for rows in (1, 3, 16, 17):
        check(design, table(rows, 9, rows), memories=MEMORIES[:1], stalls=False)
    some = table(4, 9, 1)
    nothing = Table(some.schema, np.zeros((0, 1024), np.uint8))
    blank = Table(some.schema, np.zeros((3, 1024), np.uint8))
    check(design, nothing, memories=MEMORIES[:1], stalls=False)
    check(design, blank, memories=MEMORIES[:1], stalls=False)


def test_errors() -> None:
    """The lowest bad page is reported by RTL and golden alike, nothing is published, and the design works again afterwards."""
    data = table(200, 9, 4)
    design = striped()
    rng = np.random.default_rng(0)
    for _ in range(12):
        pages = data.pages.copy()
        for page in rng.integers(0, len(pages), size=3):
            pages[page, rng.integers(0, 64)] ^= 1 << int(rng.integers(0, 8))
        broken = Table(data.schema, pages)
        golden, rtl = design.run(broken, "golden"), design.run(broken, "rtl", limit=2_000_000)
        assert golden.errors == rtl.errors
        assert (golden.codes is None) == (rtl.codes is None)
        if golden.codes is not None and rtl.codes is not None:
            assert np.array_equal(golden.codes["w"], rtl.codes["w"])
    pages = data.pages.copy()
    pages[7, 18] = 9
    pages[3, 19] = 9
    run = design.run(Table(data.schema, pages), "rtl")
    assert [(e.code, e.block, e.line) for e in run.errors] == [(PageError.PAGE_VERSION, 3, 0)]
