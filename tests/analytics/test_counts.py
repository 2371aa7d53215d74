"""What counts: the tuples of batches (`merge(1, n)`), the places of elements (`argmin`, `argmax`), and sizes, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.api import Design
from penstock.dsl.analytics import interp
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.host.sources import Table
from penstock.models.memory import FixedLatency
from testbench.kernels.drawn import PORTS

COUNTS = """kernel f(x: input, rows: model, largest: model, batches: model)
  many = merge(1{})
  seen = merge(x > 0{})
  rows <- rows + many
  largest <- largest + seen
  batches <- batches + many / many
  epochs 2
"""


def designed(text: str, table: Table, choices: Choices, format: str = "float32") -> Design:
    return ps.compile(from_text(text, "count.psk"), "small", table, format, choices=choices)


def equal_on_hardware(design: Design, table: Table, backend: str = "pysim") -> dict[str, Any]:
    """Demand golden = hardware and model = hardware; return the models."""
    memory = FixedLatency(5, 4)
    golden, model = (design.run(table, name, memory=memory) for name in ("golden", "model"))
    run = design.run(table, backend, memory=memory)
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name
    assert run.cycles == model.cycles and run.counters["tuples"] == model.counters["tuples"]
    return golden.result


def counted(rows: int, batch: int | None, threads: int, lanes: int, seed: int) -> tuple[Any, ...]:
    x = np.random.default_rng(seed).integers(-3, 4, rows).astype(np.float32)
    table = Table.from_columns({"x": x}, "t", page_size=1024)
    text = COUNTS.replace("{}", "" if batch is None else f", {batch}")
    design = designed(text, table, Choices(lanes, threads))
    batches = 1 if batch is None else -(-rows // batch)
    return design, table, {"rows": 2 * rows, "largest": 2 * sum(x > 0), "batches": 2 * batches}


def test_tuples() -> None:
    """Short last batches, batches below the threads, whole epochs, one row."""
    rng = np.random.default_rng(30)
    for seed in range(16):
        rows, batch = int(rng.integers(1, 60)), rng.choice([None, 1, 2, 5, 7, 16, 100])
        threads, lanes = int(rng.choice([1, 2, 3, 4])), int(rng.choice([1, 2]))
        design, table, expected = counted(rows, batch, threads, lanes, seed)
        assert design.run(table, "golden").result == expected


@pytest.mark.parametrize("batch", [5, pytest.param(None, marks=pytest.mark.long)])
def test_tuples_on_hardware(batch: int | None) -> None:
    design, table, expected = counted(23, batch, 3, 2, 1)
    assert equal_on_hardware(design, table) == expected


def test_a_kernel_may_count_alone() -> None:
    table = Table.from_columns({"x": np.zeros(11, np.float32)}, "t", page_size=1024)
    text = "kernel f(x: input, n: model)\n  n <- n + merge(1, 4)"
    assert equal_on_hardware(designed(text, table, Choices(1, 2)), table) == {"n": 11}


@pytest.mark.parametrize(
    ("text", "most"),
    [("merge(1, 300)", 300), ("mean(1, 300)", 300), ("merge(argmin(x), 2)", 299)],
)
def test_counts_stay_exact(text: str, most: int) -> None:
    kernel = from_text(f"kernel f(x: input[300], w: model)\n  w <- w + {text}")
    with pytest.raises(KernelError, match=f"E428.*counts up to {most}, but bfloat16"):
        ps.compile(kernel, "small", None, "bfloat16")
    ps.compile(kernel, "small", None, "float16")


PLACES = """kernel f(m: input[r, c], v: input[d], a: model[c], b: model[r], e: model, g: model, k: model)
  a <- argmin(m, axis=0)
  b <- argmax(m, axis=1)
  e <- argmax(m)
  g <- argmin(v, axis=-1)
  k <- argmin(m @ argmax(m, axis=0)) + k
"""


def places(m: np.ndarray, v: np.ndarray) -> dict[str, Any]:
    found = {
        "a": m[-1].argmin(axis=0),
        "b": m[-1].argmax(axis=1),
        "e": m[-1].argmax(),
        "g": v[-1].argmin(),
    }
    return found | {"k": sum((one @ one.argmax(axis=0)).argmin() for one in m)}


def drawn(seed: int, nan: float) -> tuple[np.ndarray, np.ndarray]:
    """Few different values, so that many are equal, among them both zeros; some that are no number."""
    rng = np.random.default_rng(seed)
    r, c, d = rng.integers(1, 7, 3)
    made = [rng.integers(-2, 3, (3, *shape)) * 0.5 * -1.0 for shape in ((r, c), (d,))]
    return tuple(np.where(rng.random(x.shape) < nan, np.nan, x).astype(np.float32) for x in made)


def test_places() -> None:
    for seed in range(8):
        m, v = drawn(seed, nan=0.2 * (seed % 2))
        table = Table.from_columns({"m": m.reshape(len(m), -1), "v": v}, "t")
        _, r, c = m.shape
        kernel = from_text(PLACES)
        choices = Choices(1 << seed % 3, 1 + seed % 3, 1, on_nan="pass")
        dims = {"r": r, "c": c}
        design = ps.compile(kernel, PORTS, table, "float32", dims=dims, choices=choices)
        expected, found = places(m, v), design.run(table, "golden").result
        reference = interp.train(kernel.trace(**dims, d=v.shape[1]), {"m": m, "v": v})
        for name in expected:
            assert np.array_equal(found[name], expected[name]), (seed, name)
            assert np.array_equal(reference[name], expected[name]), (seed, name)


@pytest.mark.long
def test_places_on_hardware() -> None:
    m, v = drawn(5, nan=0.2)
    assert np.isnan(m).any() and m.shape[1] > 1
    table = Table.from_columns({"m": m.reshape(len(m), -1), "v": v}, "t")
    choices, dims = Choices(2, 2, on_nan="pass"), {"r": m.shape[1], "c": m.shape[2]}
    design = ps.compile(from_text(PLACES), "small", table, "float32", dims=dims, choices=choices)
    found = equal_on_hardware(design, table)
    for name, expected in places(m, v).items():
        assert np.array_equal(found[name], expected), name


@ps.kernel
def scaled(x: ps.Input["d"], A: ps.Model["h", "d"]):
    assert A.shape[1] == len(x) and x.shape == (len(x),) and ps.sum(x).shape == ()
    return A + ps.merge(x / len(x), 2) * A.shape[0]


def test_sizes() -> None:
    text = from_text(
        "kernel scaled(x: input[d], A: model[h, d])\n  A <- A + merge(x / len(x), 2) * A.shape[0]"
    )
    x = np.arange(12.0).reshape(3, 4)
    for kernel in (scaled, text):
        kernel.check()  # without sizes
        trained = interp.train(kernel.trace(d=4, h=5), {"x": x})
        # two batches, exact in float64: 2 rows, then 1
        assert (trained["A"] == np.tile(x.sum(axis=0) / 4 * 5, (5, 1))).all()
