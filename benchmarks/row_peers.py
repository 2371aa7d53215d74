"""Kernels with rows: cycles beside their bound for every example, and a second's tuples beside C on this machine's cores, both sides in one run.

    python benchmarks/row_peers.py bounds [--rows N]      # minutes
    python benchmarks/row_peers.py cores [--rows N]       # minutes

benchmarks/history/rows.md has the figures. Cycles are the model's on u55c with its DRAM. Netflix, S/N and S/E are DAnA's sizes, Criteo has 39 fields; which
rows a tuple has is drawn by Zipf's law, exponent 0.99. Of the cores it is the processor's time, shared by the threads, the least of five runs.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from common import EXAMPLES, machine, markdown
from rows import TABLE, _zipf

from penstock import compile
from penstock.dsl.core.load import from_text
from penstock.sim.native.toolchain import NATIVE, build_text

FIELDS = [f"c{n}" for n in range(39)]
NETFLIX, CRITEO = {"m": 6_040, "n": 3_952, "k": 10}, {"k": 8, "fields": 39}
SIZES = (NETFLIX, {"m": 19_880, "n": 19_880}, {"m": 28_002, "n": 45_064}, {"m": TABLE, "n": TABLE})
COUNTS = "fixed:24,8"
RNG = np.random.default_rng(1)
#: columns of so many rows: drawn rows of the tables, then what is drawn besides
CASES: tuple[tuple[str, int, dict[str, int], dict[str, int], dict[str, int], str | None], ...] = (
    ("lrmf", 0, {"u": 6_040, "i": 3_952}, {"r": 0}, NETFLIX, None),
    ("lrmf", 256, {"u": 6_040, "i": 3_952}, {"r": 0}, NETFLIX, None),
    ("lrmf", 256, {"u": TABLE, "i": TABLE}, {"r": 0}, {"m": TABLE, "n": TABLE, "k": 10}, None),
    ("biased_lrmf", 0, {"u": 6_040, "i": 3_952}, {"r": 0}, NETFLIX, None),
    ("biased_lrmf", 256, {"u": 6_040, "i": 3_952}, {"r": 0}, NETFLIX, None),
    ("embedding_bags", 0, dict.fromkeys(FIELDS[:8], 1_000), {"x": 13, "y": 0}, {"k": 16}, None),
    ("factorisation_machine", 0, dict.fromkeys(FIELDS, 1_000), {"y": 0}, CRITEO, None),
    (
        "skip_gram",
        0,
        {"w": 10_000, "near": 10_000, "far": 10_000},
        {},
        {"n": 10_000, "k": 16},
        None,
    ),
    ("group_by", 0, {"g": 100_000}, {"x": 0}, {"n": 100_000}, COUNTS),
    ("count_min", 0, {"i": 100_000}, {}, {"n": 100_000}, COUNTS),
    (
        "naive_bayes",
        0,
        {"label": 10, "word": 1_000},
        {},
        {"k": 10, "n": 1_000, "cells": 10_000},
        COUNTS,
    ),
    ("kmeans", 0, {}, {"x": 8}, {"k": 16}, None),
)
BAGS = {"far": 4, "word": 16}


def _table(count: int, rows: dict[str, int], values: dict[str, int]) -> dict[str, np.ndarray]:
    found = {}
    for name, n in rows.items():
        shape = (count, BAGS[name]) if name in BAGS else (count,)
        found[name] = _zipf(RNG, n, int(np.prod(shape))).reshape(shape)
    for name, n in values.items():
        drawn = RNG.uniform(-1, 1, (count, n) if n else count)
        found[name] = drawn > 0 if name == "y" else drawn.astype(np.float32)
    return found


def _run(name: str, batch: int, table: Any, dims: Any, fmt: str | None = None) -> tuple[Any, Any]:
    """Return an epoch of an example, with batches of so many tuples; 0: its own."""
    lines = (EXAMPLES / f"{name}.psk").read_text().splitlines()
    left = ("  epochs", "  batch") if batch else ("  epochs",)
    said = [line for line in lines if not line.startswith(left)] + [f"  batch {batch}"] * bool(
        batch
    )
    bag = [field for field in FIELDS if field in table]
    more = {"dims": dims, "bind": {"c": bag} if bag else {}, "memory": "dram"}
    design = compile(from_text("\n".join([*said, "  epochs 1", ""])), "u55c", table, fmt, **more)
    return design, design.run(table, backend="model")


def bounds(count: int, only: str = "") -> str:
    found = []
    for name, batch, rows, values, dims, fmt in CASES:
        if only not in name:
            continue
        design, run = _run(name, batch, _table(count, rows, values), dims, fmt)
        plan, each = design.compiled.plan, run.cycles / count
        said = [name, plan.merge_count, "memory" if plan.rows.tables else "chip", f"{each:.1f}"]
        bound = run.bound.cycles / count
        found.append([*said, f"{bound:.1f}", run.bound.by, f"{each / bound:.3f}"])
        print(*found[-1], flush=True)
    return markdown("kernel | batch | models | cycles a tuple | bound | binds | ÷ bound", found)


def _seconds(action: Callable[[int], object]) -> list[float]:
    """Return what one core takes, and two."""
    found = []
    for threads in (1, 2):
        times = []
        for _ in range(5):
            begin = process_time()
            action(threads)
            times.append((process_time() - begin) / threads)
        found.append(min(times))
    return found


def _in_c(name: str, rows: np.ndarray, *arrays: np.ndarray) -> list[float]:
    text = Path(__file__).with_suffix(".c").read_text()
    built = build_text("row_peers", text, (*NATIVE, "-ffast-math"))
    given = [ctypes.c_void_p(array.ctypes.data) for array in (rows, *arrays)]
    function, long = getattr(ctypes.CDLL(str(built)), name), ctypes.c_long
    return _seconds(lambda threads: function(long(len(rows)), long(threads), *given))


def _in_arrow(table: dict[str, np.ndarray], threads: int) -> None:
    import pyarrow

    pyarrow.set_cpu_count(threads)
    asked = [("x", what) for what in ("count", "sum", "min", "max")]
    pyarrow.table(table).group_by("g").aggregate(asked)


def _both(count: int) -> Iterator[tuple[str, int, tuple[Any, Any], list[float]]]:
    """Yield what it is, tuples, design and run, and seconds of one and two cores."""
    model = lambda rows, size: RNG.uniform(-0.1, 0.1, (rows, size)).astype(np.float32)
    for sizes in SIZES:
        m, n = sizes["m"], sizes["n"]
        table = _table(count, {"u": m, "i": n}, {"r": 0})
        pairs = np.stack([table["u"], table["i"]], axis=1)
        cores = _in_c("lrmf", pairs, table["r"], model(m, 16), model(n, 16))
        yield f"lrmf, {m:,} × {n:,}", count, _run("lrmf", 256, table, {**sizes, "k": 10}), cores
    table = {
        name: RNG.integers(0, n, count).astype(np.int32) for name, n in (("g", TABLE), ("x", 99))
    }
    made = _run("group_by", 0, table, {"n": TABLE}, COUNTS)
    yield f"group by, {TABLE:,} groups", count, made, _seconds(lambda n: _in_arrow(table, n))
    for name, kernel, bag, rows, k in (
        ("fm", *CASES[6][:1], 39, 10_000, 8),
        ("dlrm", *CASES[5][:1], 8, 100_000, 16),
    ):
        some = count // 20
        table = _table(
            some, dict.fromkeys(FIELDS[:bag], rows), {"x": 13, "y": 0} if bag == 8 else {"y": 0}
        )
        chosen = np.stack([table[f] + n * rows for n, f in enumerate(FIELDS[:bag])], axis=1)
        values = np.concatenate([table["y"][:, None], *([table["x"]] if bag == 8 else [])], axis=1)
        other = model(14, 16) if bag == 8 else model(1 + bag * rows, 1)
        made = _run(kernel, 0, table, CRITEO if bag == 39 else {"k": k})
        cores = _in_c(
            name, chosen.astype(np.int32), values.astype(np.float32), model(bag * rows, k), other
        )
        yield f"{kernel}, {bag} × {rows:,} rows", some, made, cores


def cores(count: int) -> str:
    found = []
    for name, tuples, (design, run), seconds in _both(count):
        part = design.compiled.target
        ours, rates = part.clock_mhz * tuples / run.cycles, [tuples / s / 1e6 for s in seconds]
        times = f"{ours / max(rates):.2f}"
        said = [name, f"{tuples:,}", f"{ours:.1f}", f"{design.resources.shares(part)['lut']:.0%}"]
        said += [run.bound.by, f"{run.cycles / run.bound.cycles:.2f}", *(f"{r:.1f}" for r in rates)]
        found.append([*said, times if ours >= max(rates) else f"**{times}**"])
        print(*found[-1], flush=True)
    head = "kernel | tuples | million a second | LUT | binds | ÷ bound | one core | two cores | × the better"
    return f"{markdown(head, found)}\n\n{part.clock_mhz:g} MHz. {machine()}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["bounds", "cores"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--kernel", default="", help="of the bounds, what is in the example's name")
    given = parser.parse_args()
    if given.what == "bounds":
        print(bounds(given.rows or 1_000_000, given.kernel))
    else:
        print(cores(given.rows or 1_000_000))
