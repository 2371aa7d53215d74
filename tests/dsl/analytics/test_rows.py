"""Kernels with rows in the reference, against NumPy programs and against drawn ones, tuple by tuple."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

import penstock as ps
from penstock.dsl.analytics import interp
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text

LRMF = """kernel lrmf(u: index[m], i: index[n], r: output, P: model[m, k], Q: model[n, k], rate: meta = 0.01)
  error = sum(P[u] * Q[i]) - r
  P[u] += -rate * error * Q[i]
  Q[i] += -rate * error * P[u]
  init P = uniform(-0.1, 0.1, seed=1)
  init Q = uniform(-0.1, 0.1, seed=2)
  batch 16
  epochs 2
"""


@ps.kernel(
    epochs=2,
    batch=16,
    init={"P": ps.uniform(-0.1, 0.1, seed=1), "Q": ps.uniform(-0.1, 0.1, seed=2)},
)
def lrmf(
    u: ps.Index["m"],
    i: ps.Index["n"],
    r: ps.Output,
    P: ps.Model["m", "k"],
    Q: ps.Model["n", "k"],
    rate: ps.Meta = 0.01,
):
    error = ps.sum(P[u] * Q[i]) - r
    return P.at[u].add(-rate * error * Q[i]), Q.at[i].add(-rate * error * P[u])


def test_factors() -> None:
    """Both front ends give one graph, and NumPy's numbers to the bit; duplicates in every batch, a short last one."""
    rng = np.random.default_rng(0)
    u, i, r = rng.integers(0, 9, 203), rng.integers(0, 7, 203), rng.normal(size=203)
    P = np.random.default_rng(1).uniform(-0.1, 0.1, (9, 4))
    Q = np.random.default_rng(2).uniform(-0.1, 0.1, (7, 4))
    for first in [*range(0, 203, 16)] * 2:
        a, b, c = (column[first : first + 16] for column in (u, i, r))
        step = -0.01 * (np.sum(P[a] * Q[b], axis=1) - c)[:, None]
        changes = step * Q[b], step * P[a]
        np.add.at(P, a, changes[0])
        np.add.at(Q, b, changes[1])
    for kernel in (lrmf, from_text(LRMF)):
        assert kernel.check() == []
        found = interp.train(kernel.trace(m=9, n=7, k=4), {"u": u, "i": i}, {"r": r})
        assert np.array_equal(found["P"], P) and np.array_equal(found["Q"], Q)


@ps.kernel
def by_group(
    g: ps.Index["n"],
    x: ps.Input,
    many: ps.Model["n"],
    total: ps.Model["n"],
    least: ps.Model["n"],
    most: ps.Model["n"],
    last: ps.Model["n"],
):
    return (
        many.at[g].add(1),
        total.at[g].subtract(-x),
        least.at[g].min(x),
        most.at[g].max(x),
        last.at[g].set(x),
    )


def test_groups() -> None:
    rng = np.random.default_rng(1)
    g, x = rng.integers(0, 20, 500), rng.integers(-9, 9, 500)
    graph = by_group.trace(n=21)
    graph.variables["least"].init, graph.variables["most"].init = 100.0, -100.0
    found = interp.train(graph, {"g": g, "x": x})
    for group in range(20):
        of = x[g == group]
        assert found["many"][group] == len(of) and found["total"][group] == of.sum()
        assert (found["least"][group], found["most"][group]) == (of.min(), of.max())
        assert found["last"][group] == of[-1]
    assert (found["many"][20], found["least"][20]) == (0, 100)


@ps.kernel
def sketch(i: ps.Index["n"], A: ps.Model[64], B: ps.Model[64]):
    return A.at[ps.hash(i, 1) % 64].add(1), B.at[ps.hash(i, 2) % len(B)].add(1)


@pytest.mark.parametrize("kind", [np.int16, np.int64])
def test_sketch(kind: type) -> None:
    """Count-min never underestimates; the bytes that are hashed are those of the column."""
    words = np.random.default_rng(2).zipf(1.5, 500) % 1000
    found = interp.train(sketch.trace(n=1000), {"i": words.astype(kind)})
    wide = np.int64 if kind is np.int64 else np.int32
    place = lambda w, seed: murmurhash3_32(wide(w).tobytes(), seed) % 64
    for word, count in Counter(words.tolist()).items():
        assert min(found["A"][place(word, 1)], found["B"][place(word, 2)]) >= count
    assert found["A"].sum() == 500 and max(found["A"]) < 400


@ps.kernel(batch=4, init={"C": ps.uniform(-1, 1, seed=3)})
def clusters(x: ps.Input["d"], C: ps.Model["k", "d"], many: ps.Model["k"]):
    nearest = ps.argmin(ps.sum((C - x) ** 2, axis=1))
    return C.at[nearest].add(0.5 * (x - C[nearest])), many.at[nearest].add(1)


def test_the_nearest_row() -> None:
    x = np.random.default_rng(4).normal(size=(30, 2))
    C, many = np.random.default_rng(3).uniform(-1, 1, (5, 2)), np.zeros(5)
    for first in range(0, 30, 4):
        part = x[first : first + 4]
        nearest = np.sum((C - part[:, None]) ** 2, axis=2).argmin(axis=1)
        changes = 0.5 * (part - C[nearest])
        np.add.at(C, nearest, changes)
        np.add.at(many, nearest, 1)
    found = interp.train(clusters.trace(d=2, k=5), {"x": x})
    assert np.array_equal(found["C"], C) and np.array_equal(found["many"], many)


class Rows:
    """A model of a drawn kernel, as its judge reads it: what is absent is zero."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def __getitem__(self, index: Any) -> Any:
        flat = [None if np.ma.is_masked(i) else int(i) for i in np.ma.atleast_1d(index)]
        rows = np.array([self.table[0] * 0 if i is None else self.table[i] for i in flat])
        return rows if np.ndim(index) else rows[0]


INDICES = ("i", "j", "c", "c % 3", "(i + 2 * j) % 6", "6 - 1 - c", "(c + i) // 2", "hash(i, 5) % 6")
VALUES = {
    "E": ("x", "E[i]", "sum(E[c], axis=0)", "E[j] * (i < j)", "number(j) * x", "count(c) * E[i]"),
    "b": ("1", "b[i] - b[j]", "sum(b[c])", "count(c)", "sum(x)", "number(i // 2)", "(i != j) * y"),
}
#: with a value of its own for each place of a bag
BAGS = ("c", "c % 3", "6 - 1 - c", "(c + i) // 2")
EACH = {"E": ("E[d]", "E[c] * x", "x"), "b": ("number(d)", "b[d]", "(d > i) * y")}
SYMBOLS = {"+=": np.add, "-=": np.subtract, "max=": np.maximum, "min=": np.minimum, "<-": None}


def drawn(rng: np.random.Generator) -> tuple[list[tuple[str, str, str, str]], int, int]:
    """Changes (model, index, symbol, value), the tuples of a batch and those of the table."""
    changes = []
    for _ in range(rng.integers(1, 5)):
        model = str(rng.choice(["E", "b"]))
        index, symbol = str(rng.choice(INDICES)), str(rng.choice(list(SYMBOLS)))
        value = str(rng.choice(EACH[model] if index in BAGS else VALUES[model]))
        changes.append((model, index, symbol, value))
    return changes, int(rng.integers(1, 9)), int(rng.integers(1, 25))


def judged(
    changes: list[tuple[str, str, str, str]], batch: int, columns: dict[str, Any]
) -> dict[str, np.ndarray]:
    """What a drawn kernel comes to, one change of one row after the other."""
    models = {"E": np.zeros((6, 2)) + 0.5, "b": np.zeros(6) + 0.5}
    names: dict[str, Any] = {
        "sum": np.sum,
        "number": lambda v: np.ma.filled(v, 0),
        "count": lambda v: np.sum(~np.ma.getmaskarray(v)),
        "hash": lambda v, seed: murmurhash3_32(np.int64(v).tobytes(), seed),
    }
    rows = len(columns["x"])
    for first in range(0, rows, batch):
        seen = {name: Rows(table.copy()) for name, table in models.items()}
        for t in range(first, min(first + batch, rows)):
            scope = {**names, **seen, **{name: column[t] for name, column in columns.items()}}
            for model, index, symbol, value in changes:
                table, places = models[model], np.ma.atleast_1d(eval(index, {}, scope))
                new = np.broadcast_to(eval(value, {}, scope), (len(places), *table.shape[1:]))
                for place, part in zip(places, new, strict=True):
                    if not np.ma.is_masked(place):
                        combine = SYMBOLS[symbol]
                        table[place] = combine(table[place], part) if combine else part
    return models


def compare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    changes, batch, rows = drawn(rng)
    lines = "".join(f"  {m}[{i}] {s} {v}\n" for m, i, s, v in changes)
    lines += "".join(f"  {m} <- {m}\n" for m in "Eb" if m not in {c[0] for c in changes})
    text = (
        "kernel f(i: index[6], j: index[6], c: index[6, 3], d: index[6, 3], x: input[2], y: input, E: model[6, 2], b: model[6])\n"
        f"{lines}  init E = 0.5\n  init b = 0.5\n  batch {batch}"
    )
    missing = rng.random((rows, 3)) < rng.choice([0, 0.3, 1])
    columns = {
        "i": rng.integers(0, 6, rows),
        "j": rng.integers(0, 6, rows),
        "c": np.ma.array(rng.integers(0, 6, (rows, 3)), mask=missing),
        "d": rng.integers(0, 6, (rows, 3)),
        "x": rng.integers(-3, 4, (rows, 2)) / 4,
        "y": rng.integers(-3, 4, rows) / 4,
    }
    with np.errstate(all="ignore"):
        expected = judged(changes, batch, columns)
    if max(np.abs(table).max() for table in expected.values()) > 2**40:
        return  # sums are rounded
    found = interp.train(from_text(text).trace(), columns)
    for name, table in expected.items():
        assert np.array_equal(found[name], table), (text, name)


def test_drawn() -> None:
    for seed in range(60):
        compare(seed)


@pytest.mark.long
def test_drawn_many() -> None:
    for seed in range(1000, 11_000):
        compare(seed)


def test_parts_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is computed part by part reads the same models."""
    monkeypatch.setattr(interp, "_CHUNK", 8)
    for seed in range(20):
        compare(seed)


def test_the_test_of_an_epoch_sees_the_batch_that_ends() -> None:
    text = "kernel f(i: index[2], x: input, b: model[2])\n  b[i] += x\n  until b[0] > 0\n  epochs 5"
    graph = from_text(text.replace("b[0]", "sum(b)")).trace()
    found = interp.run(graph, {"i": np.array([0]), "x": np.array([1.0])})
    assert (found.epochs, found.models["b"].tolist()) == (2, [2, 0])


@pytest.mark.parametrize("index", [6, -1, "hash(i) - 3000000000"])
@pytest.mark.parametrize("line", ["b[{}] += 1", "b[i * 0] += b[{}]"])
def test_rows_that_there_are_not(index: int | str, line: str) -> None:
    place = index if isinstance(index, str) else "i"
    graph = from_text(f"kernel f(i: index[6], b: model[6])\n  {line.format(place)}").trace()
    with pytest.raises(IndexError, match=r"b has rows 0 to 5, not -?\d+"):
        interp.train(graph, {"i": np.array([index if isinstance(index, int) else 0])})


@ps.kernel
def tables(c: ps.Index[10, 3], E: ps.Model[30], lengths: ps.Model[4]):
    E.at[c].add(5)
    return E.at[c + np.array([0, 10, 20])].add(1), lengths.at[ps.count(c)].add(1)


def test_offsets_lengths_and_lost_changes() -> None:
    """Columns of a bag with a table each; a count is an index, too; a change that is not returned does nothing, and is warned of."""
    c = np.ma.array(np.random.default_rng(7).integers(0, 10, (40, 3)), mask=np.eye(40, 3))
    assert [(w.code, w.span.line > 0) for w in tables.check()] == [("W105", True)]
    found = interp.train(tables.trace(), {"c": c})
    expected = [np.bincount(c[:, k].compressed(), minlength=10) for k in range(3)]
    assert np.array_equal(found["E"], np.concatenate(expected))
    assert found["lengths"].tolist() == [0, 0, 3, 37]


def test_indices_are_integers() -> None:
    with pytest.raises(TypeError, match="indices are integers, not float64"):
        interp.train(sketch.trace(n=9), {"i": np.array([1.5])})


POOLED = """kernel pooled(c: index[n, 3], E: model[n])
  E[c] += 1
"""


@ps.kernel
def pooled(c: ps.Index["n", 3], E: ps.Model["n"]):
    return E.at[c].add(1)


def test_rows_have_no_hardware() -> None:
    """Golden results are there; whatever else is asked for gives one diagnostic."""
    table = {"c": [np.arange(3), np.arange(2)]}
    for kernel in (pooled, from_text(POOLED)):
        design = ps.compile(kernel, "small", table, dims={"n": 12})
        assert [w.code for w in kernel.warnings] == ["W496"]
        for backend in ("model", "rtl", "netlist", "pysim", "board"):
            refused(lambda b=backend, d=design: d.run(table, b))
        refused(lambda d=design: d.resources)
        refused(lambda d=design: d.verilog)
        refused(lambda d=design: d.save("nowhere"))
        refused(lambda d=design: d.netlist())
        assert "clock_mhz" not in design.describe()["config"]


def refused(ask: Any) -> None:
    with pytest.raises(KernelError) as caught:
        ask()
    assert caught.value.diagnostic.code == "E496"


def test_values_are_keys() -> None:
    """Of dictionaries and sets, in a kernel's Python code."""

    @ps.kernel
    def f(i: ps.Index["n"], x: ps.Input, a: ps.Model["n"]):
        rates = {x: 0.5, i: 2.0}
        return a.at[i].add(rates[x] * len({x, i, x}) * x)

    assert f.check() == []
