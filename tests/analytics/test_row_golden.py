"""Golden results of kernels with rows against NumPy programs with `np.add.at`: bit for bit, in fixed point and in float32."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

import penstock as ps
from penstock.dsl.analytics import interp
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.models.analytics import job
from penstock.models.analytics.golden import train
from testbench.kernels.arithmetic import Integers
from testbench.row_store import StoreConfig, StoredTable


def kernel(batch: int, epochs: int) -> Any:
    @ps.kernel(
        epochs=epochs,
        batch=batch,
        init={"P": ps.uniform(-1, 1, seed=1), "Q": ps.uniform(-1, 1, seed=2)},
    )
    def lrmf(
        u: ps.Index["m"],
        i: ps.Index["n"],
        r: ps.Output,
        P: ps.Model["m", "k"],
        Q: ps.Model["n", "k"],
        rate: ps.Meta = 0.125,
    ):
        error = ps.sum(P[u] * Q[i]) - r
        return P.at[u].add(-rate * error * Q[i]), Q.at[i].add(-rate * error * P[u])

    return lrmf


def tree(v: np.ndarray, add: Any) -> np.ndarray:
    """The sum along the last axis: neighbours in pairs over the next power of two."""
    width = 1 << (v.shape[-1] - 1).bit_length()
    v = np.concatenate([v, np.zeros((*v.shape[:-1], width - v.shape[-1]), v.dtype)], axis=-1)
    while v.shape[-1] > 1:
        v = add(v[..., 0::2], v[..., 1::2])
    return v[..., 0]


def drawn(seed: int) -> tuple[dict[str, Any], int, int, int]:
    rng = np.random.default_rng(seed)
    m, n, rows = (int(v) for v in rng.integers(1, 9, 3) * [1, 1, 12])
    u, i = rng.integers(0, m, rows), rng.integers(0, n, rows)
    u[0], i[0] = m - 1, n - 1  # what the dimensions are taken from
    r = rng.integers(-32, 33, rows) / 16
    return (
        {"u": u, "i": i, "r": r},
        int(rng.integers(1, 7)),
        int(rng.integers(1, 9)),
        int(rng.integers(1, 4)),
    )


@pytest.mark.parametrize("seed", range(12))
def test_float32(seed: int) -> None:
    table, k, batch, epochs = drawn(seed)
    design = ps.compile(kernel(batch, epochs), "small", table, dims={"k": k})
    found = design.run(table)
    u, i, r = table["u"], table["i"], table["r"].astype(np.float32)
    P, Q = (design.start[name].astype(np.float32) for name in "PQ")
    for first in [*range(0, len(u), batch)] * epochs:
        a, b = u[first : first + batch], i[first : first + batch]
        error = tree(P[a] * Q[b], np.add) - r[first : first + batch]
        step = (np.float32(-0.125) * error)[:, None]
        left, right = step * Q[b], step * P[a]
        np.add.at(P, a, left)
        np.add.at(Q, b, right)
    for name, model in (("P", P), ("Q", Q)):
        assert np.array_equal(found.result[name], model.astype(np.float64)), name


@pytest.mark.parametrize("seed", range(12))
def test_fixed_point(seed: int) -> None:
    table, k, batch, epochs = drawn(seed)
    design = ps.compile(kernel(batch, epochs), "small", table, "fixed:8,8", dims={"k": k})
    found = design.run(table)
    assert found.counters["left_range"] == 0

    def mul(a: Any, b: Any) -> Any:
        whole, rest = np.divmod(a * b, 256)
        return whole + ((rest > 128) | ((rest == 128) & (whole % 2 == 1)))

    u, i, r = table["u"], table["i"], (table["r"] * 256).astype(np.int64)
    P, Q = (np.rint(design.start[name] * 256).astype(np.int64) for name in "PQ")
    for first in [*range(0, len(u), batch)] * epochs:
        a, b = u[first : first + batch], i[first : first + batch]
        error = tree(mul(P[a], Q[b]), np.add) - r[first : first + batch]
        step = mul(-32, error)[:, None]
        left, right = mul(step, Q[b]), mul(step, P[a])
        np.add.at(P, a, left)
        np.add.at(Q, b, right)
    for name, model in (("P", P), ("Q", Q)):
        assert np.array_equal(found.result[name] * 256, model), name


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 9])
def test_one_tree_over_the_next_power_of_two(size: int) -> None:
    """Also where the format has no 1 to leave a number as it is, and where a sum is −0."""

    @ps.kernel
    def folded(x: ps.Input["d"], i: ps.Index[2], b: ps.Model[2], s: ps.Model[2]):
        return b.at[i].set(ps.prod(x)), s.at[i].set(ps.sum(x))

    x = np.random.default_rng(size).integers(64, 127, (1, size))
    rules = Integers(1, 7, lambda name, code: code)
    for lanes in (1, 2, 16):
        choices = Choices(lanes, 1)
        table = {"x": (x / 128).astype(np.float32), "i": [1]}
        run = ps.compile(folded, "small", table, "fixed:1,7", choices=choices).run(table)
        for model, op in (("b", "mul"), ("s", "add")):
            expected = rules.full(op, x[0].tolist())
            assert run.result[model][1] * 128 == expected, (lanes, model)
        table["x"] = np.full((1, size), -0.0, np.float32)
        run = ps.compile(folded, "small", table, choices=choices).run(table)
        negative = size & (size - 1) == 0  # else a missing leaf is +0
        assert np.signbit(run.result["s"][1]) == negative, lanes


def test_the_same_rows_whatever_the_plan() -> None:
    table, k, _, _ = drawn(5)
    of = [
        ps.compile(kernel(4, 2), "small", table, dims={"k": k}, choices=Choices(lanes, threads))
        for lanes, threads in itertools.product((1, 2, 8, 32), (1, 4, 64))
    ]
    found = [design.run(table).codes for design in of]
    assert all(np.array_equal(codes["P"], found[0]["P"]) for codes in found)


class _Forgets(StoredTable):
    """A store that does not write back a row that gives way."""

    def _row(self, row: int, change: bool) -> Any:
        before = self.codes.copy()
        found = super()._row(row, change)
        self.codes[:] = before
        return found


def stored(seed: int, kind: Any = StoredTable) -> None:
    """The same run with stores of hot rows gives the same rows."""
    rng = np.random.default_rng(seed)
    m, n, count = 40, 30, 90
    table = {"u": rng.integers(0, m, count), "i": rng.integers(0, n, count)}
    table["r"] = rng.normal(size=count)
    design = ps.compile(kernel(3, 2), "small", table, dims={"k": 2, "m": m, "n": n})
    source = design.workload(design.opened(_given(table))).table
    tuples, _ = job.walk(design.plan, source.pages)
    plain = train(design.plan, tuples, design.models(), design.runs())
    stores = {"P": StoreConfig(8), "Q": StoreConfig(16, banks=2, pinned=(3, 4))}
    tables = {name: partial(kind, store=store) for name, store in stores.items()}
    held = train(design.plan, tuples, design.models(), design.runs(), tables)
    for name, codes in plain.models.items():
        assert np.array_equal(codes, held.models[name]), name


def _given(table: Any) -> Any:
    from penstock.engines.base import Given

    return Given(table, table)


def test_the_same_rows_behind_a_store() -> None:
    for seed in range(3):
        stored(seed)
    with pytest.raises(AssertionError):
        stored(0, _Forgets)


def test_a_histogram_does_not_wait_for_its_batch() -> None:
    """One model is changed and none is read: tuples are counted together, batches as they are."""

    @ps.kernel(batch=2)
    def count(g: ps.Index["n"], x: ps.Input, many: ps.Model["n"], least: ps.Model["n"]):
        return many.at[g].add(1), least.at[g].min(x)

    g, x = np.arange(101) % 7, np.arange(101) - 50.0
    run = ps.compile(count, "small", {"g": g, "x": x}).run({"g": g, "x": x})
    assert run.counters["batches"] == 51
    assert run.result["many"].tolist() == np.bincount(g).tolist()
    assert run.result["least"].tolist() == [min(0, *x[g == k]) for k in range(7)]


@pytest.mark.parametrize("lanes, threads, ports", [(3, 1, 1), (2, 1, 2), (2, 4, 8)])
def test_plans_that_there_are_not(lanes: int, threads: int, ports: int) -> None:
    table, k, _, _ = drawn(0)
    with pytest.raises(KernelError, match="E605"):
        choices = Choices(lanes, threads, ports)
        ps.compile(kernel(4, 1), "small", table, dims={"k": k}, choices=choices)


@pytest.mark.parametrize(
    "row, of",
    [
        ("(i + len(a) // 2) % len(a)", lambda i, least, many: (i + 3) % 7),
        ("argmin(x) % len(a)", lambda i, least, many: least % 7),
        ("(argmin(x) + 1) // 2", lambda i, least, many: (least + 1) // 2),
        ("2 * argmin(x)", lambda i, least, many: 2 * least),
        ("(count(c) - 1 - i) % len(a)", lambda i, least, many: (many - 1 - i) % 7),
        ("(7 // 2 * count(c)) % len(a)", lambda i, least, many: 3 * many % 7),
        ("hash(argmin(x), 1) % len(a)", lambda i, least, many: h(least) % 7),
        ("hash(count(c) * 2, 1) // (argmin(x) + 1) % 7", lambda i, at, many: h(2 * many) // (at + 1) % 7),
        ("i * (count(c) == 2)", None),
        ("i % (i - 1)", None),
    ],
)  # fmt: skip
def test_places_and_counts_are_integers(row: str, of: Any) -> None:
    text = f"kernel k(i: index[7], c: index[7, 4], x: input[3], a: model[7])\n  a[{row}] += 1\n"
    rng = np.random.default_rng(len(row))
    lengths, x = rng.integers(0, 5, 30), rng.integers(0, 3, (30, 3)).astype(np.float32)
    there = np.arange(4) < lengths[:, None]
    c = np.ma.masked_array(np.ones((30, 4), np.int32), ~there)
    table = {"i": rng.integers(0, 7, 30).astype(np.int32), "c": c, "x": x}
    if of is None:
        with pytest.raises(KernelError):
            ps.compile(from_text(text), "small", table)
        return
    run = ps.compile(from_text(text), "small", table).run(table)
    given = zip(table["i"].tolist(), x.argmin(1).tolist(), lengths.tolist(), strict=True)
    expected = np.bincount([of(*row) for row in given], minlength=7)
    assert run.result["a"].tolist() == expected.tolist()


@pytest.mark.parametrize("made", ["i * i * -2", "i * i * i", "-4 * i * i", "i * i + i * i"])
@pytest.mark.parametrize(
    "line", ["a[({}) % 4] += 1", "a[j] += ({}) < 5", "a[hash({}, 1) % 4] += 1", "a[argmin(x) * ({}) % 4] += 1"]
)  # fmt: skip
def test_integers_beyond_64_bits_are_errors(made: str, line: str) -> None:
    """Neither wrapped nor, where one comes to -2**63, taken for a place that is left out."""
    text = f"kernel k(i: index[4294967296], j: index[4], x: input[3], a: model[4])\n  {line.format(made)}\n"
    values = {1: [0, 7, 2**31 - 1], 2: [5, 2**31, 9], 4: [2**32 - 1, 0, 1]}
    for wrong, i in values.items():
        x = np.tile([1.0, 0.0, 1.0], (3, 1))
        table = {"i": np.array(i), "j": np.array([0, 1, 3]), "x": x}
        of = [eval(made, {"i": v}) for v in i]
        beyond = [not -(2**63) < v < 2**63 for v in of]
        run = ps.compile(from_text(text), "small", table).run(table)
        if any(beyond):
            [error] = run.errors
            said = run.workload.failure(error).text
            assert error.code.name == "VALUE_INDEX" and f"row {beyond.index(True) + 1}" in said
            assert "does not fit in 64 bits" in said, wrong
            if "argmin" not in line:  # what values choose is an error whatever the policy
                run = ps.compile(from_text(text), "small", table, on_index="skip").run(table)
                assert run.rows_skipped == sum(beyond) and run.result["a"].size == 4
            continue
        rows = {
            "a[(": lambda v, j: v % 4,
            "a[j": lambda v, j: j if v < 5 else None,
            "a[h": lambda v, j: murmurhash3_32(v.to_bytes(8, "little", signed=True), 1) % 4,
            "a[a": lambda v, j: v % 4,
        }[line[:3]]
        found = [rows(v, j) for v, j in zip(of, table["j"].tolist(), strict=True)]
        counted = [found.count(row) for row in range(4)]
        assert run.result["a"].tolist() == counted, wrong


def test_integers_that_values_choose_and_64_bits_do_not_hold() -> None:
    text = "kernel k(i: index[4294967296], x: input[3], a: model[4])\n  a[argmin(x) * i * i % 4] += 1\n"
    x = np.tile([1.0, 0.0, 1.0], (5, 1))
    table = {"i": np.array([9, 2**31, 5, 2**32 - 1, 0]), "x": x}
    [error] = (run := ps.compile(from_text(text), "small", table).run(table)).errors
    said = run.workload.failure(error).text
    assert "row 4" in said and "does not fit in 64 bits" in said
    graph = from_text(text).trace()
    with pytest.raises(OverflowError, match="64 bits"):
        interp.train(graph, table)
    table = {name: values[:3] for name, values in table.items()}
    assert interp.train(graph, table)["a"].tolist() == [1, 2, 0, 0]
    assert ps.compile(from_text(text), "small", table).run(table).result["a"].tolist() == [
        1,
        2,
        0,
        0,
    ]


@pytest.mark.parametrize("factors", [(2**52 + 1, 2), (2**52, 2**52)])
def test_integers_made_of_the_places_of_full_bags(factors: tuple[int, int]) -> None:
    """They are known before a run, and are as exact."""
    a, b = factors
    text = f"kernel k(c: index[9, 3], a: model[7])\n  a[({a} * count(c) + {b} * count(c) * {b}) % 7] += 1\n"
    table = {"c": np.array([[1, 2, 0], [3, 4, 0]])}
    design = ps.compile(from_text(text), "small", table)
    assert "beyond 2**53" in design.compiled.refused.message
    run = design.run(table)
    if (number := 3 * a + 3 * b * b) < 2**63:
        assert run.result["a"].tolist() == np.bincount([number % 7] * 2, minlength=7).tolist()
    else:
        assert "does not fit in 64 bits" in run.workload.failure(run.errors[0]).text


def h(i: int) -> int:
    return int(murmurhash3_32(np.int32(i).tobytes(), 1))
