"""Examples with rows of models: both syntaxes give the same bits; counts are those of dicts and SQL, the rest what float64 gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.dsl.analytics import interp
from penstock.dsl.core.load import load_kernel
from penstock.host.sources import open_table

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def trained(name: str, table: dict[str, Any], **options: Any) -> Any:
    """The run of an example's Python kernel, which is that of its text bit for bit."""
    runs = [
        ps.compile(EXAMPLES / f"{name}{suffix}", "small", table, **options).run(table)
        for suffix in (".py", ".psk")
    ]
    for model, codes in runs[0].codes.items():
        assert np.array_equal(codes, runs[1].codes[model]), model
    return runs[0]


def near_float64(name: str, run: Any, table: dict[str, Any], within: float, **dims: int) -> None:
    """The reference in float64 gives about the same; the bits are judged kernel by kernel in `test_row_plans`."""
    graph = load_kernel(str(EXAMPLES / f"{name}.py")).trace(dims)
    found = interp.train(graph, table, epochs=run.epochs)
    for model, values in found.items():
        assert np.abs(run.result[model] - values).max() < within, model


def test_lrmf() -> None:
    """On the bundled ratings as well, whose noise of 0.05 is what remains."""
    path = EXAMPLES / "data" / "ratings"
    source = f"heap:{path}.heap,{path}.json"
    design = ps.compile(EXAMPLES / "lrmf.py", table=source, dims={"k": 4})
    model, rows = design.run(source).result, open_table(source).columns()
    guessed = np.sum(model["P"][rows["u"]] * model["Q"][rows["i"]], axis=1)
    assert np.sqrt(np.mean((guessed - rows["r"]) ** 2)) < 0.06
    table = {name: np.asarray(values) for name, values in rows.items()}
    run = trained("lrmf", table, dims={"k": 4}, epochs=2)
    near_float64("lrmf", run, table, 1e-5, m=24, n=32, k=4)


def test_biased_lrmf() -> None:
    rng = np.random.default_rng(1)
    u, i = rng.integers(0, 12, 200), rng.integers(0, 9, 200)
    u[:12], i[:9] = np.arange(12), np.arange(9)
    table = {"u": u, "i": i, "r": np.clip(3.5 + rng.normal(size=200), 0.5, 5)}
    run = trained("biased_lrmf", table, dims={"k": 3}, epochs=2)
    near_float64("biased_lrmf", run, table, 1e-5, m=12, n=9, k=3)
    model = run.result
    scores = run.predict({"u": [0, 11], "i": [3, 8]}).values
    for score, a, b in zip(scores, (0, 11), (3, 8), strict=True):
        exact = 3.5 + model["b"][a] + model["c"][b] + model["P"][a] @ model["Q"][b]
        assert abs(score - exact) < 1e-5


def test_embedding_bags() -> None:
    rng = np.random.default_rng(2)
    rows = 200
    c = np.ma.array(
        rng.integers(0, 30, (rows, 8)), mask=np.arange(8) >= rng.integers(0, 9, (rows, 1))
    )
    c[0] = np.ma.array([29] * 8)
    table = {
        "c": c,
        "x": rng.normal(size=(rows, 4)).astype(np.float32),
        "y": rng.integers(0, 2, rows),
    }
    run = trained("embedding_bags", table, dims={"k": 3})
    near_float64("embedding_bags", run, table, 1e-4, n=30, d=4, k=3)


def test_factorisation_machine() -> None:
    rng = np.random.default_rng(3)
    columns = {f"c{k}": rng.integers(0, k + 2, 150) for k in range(39)}
    for k in range(39):
        columns[f"c{k}"][0] = k + 1
    table = columns | {"y": rng.integers(0, 2, 150)}
    run = trained(
        "factorisation_machine", table, dims={"k": 2, "fields": 39}, bind={"c": list(columns)}
    )
    starts = np.cumsum([0, *range(2, 40)])
    c = np.stack([columns[f"c{k}"] + starts[k] for k in range(39)], axis=1)
    n = int(sum(range(2, 41)))
    near_float64("factorisation_machine", run, {"c": c, "y": table["y"]}, 1e-4, n=n, k=2, fields=39)


def test_skip_gram() -> None:
    rng = np.random.default_rng(4)
    table = {"w": rng.integers(0, 20, 80), "near": rng.integers(0, 20, 80)}
    table["far"] = rng.integers(0, 20, (80, 4))
    table["w"][0] = 19
    run = trained("skip_gram", table, dims={"k": 5})
    near_float64("skip_gram", run, table, 1e-5, n=20, k=5)


def test_count_min_is_never_below_a_dict() -> None:
    from sklearn.utils import murmurhash3_32

    words = np.random.default_rng(5).zipf(1.3, 3000) % 100_000
    run = trained("count_min", {"i": words})
    rows = [run.result[name] for name in "ABC"]
    place = lambda word, seed: murmurhash3_32(np.int64(word).tobytes(), seed) % 1024
    for word, count in Counter(words.tolist()).items():
        found = [int(row[place(word, seed)]) for seed, row in enumerate(rows, 1)]
        assert min(found) >= count
    assert all(row.sum() == 3000 for row in rows)


def test_naive_bayes() -> None:
    rng = np.random.default_rng(6)
    label = rng.integers(0, 3, 120)
    words = [rng.integers(0, 10, rng.integers(0, 17)) for _ in range(120)]
    words[0], label[0] = np.array([9]), 2
    _classes(
        trained("naive_bayes", {"label": label, "word": words}, dims={"cells": 30}), label, words
    )


def test_naive_bayes_in_hardware() -> None:
    rng = np.random.default_rng(7)
    table = {"label": rng.integers(0, 3, 10), "word": rng.integers(0, 10, (10, 16))}
    table["label"][0], table["word"][0, 0] = 2, 9
    design = ps.compile(EXAMPLES / "naive_bayes.py", "small", table, dims={"cells": 30})
    run = design.run(table, backend="pysim")
    assert run.cycles == design.run(table, backend="model").cycles
    _classes(run, table["label"], list(table["word"]))


def _classes(run: Any, label: np.ndarray, words: list[np.ndarray]) -> None:
    for k in range(3):
        own = np.concatenate([w for w, which in zip(words, label, strict=True) if which == k])
        assert (run.result["of"][k], run.result["many"][k]) == (np.sum(label == k), len(own))
        seen = run.result["seen"][10 * k : 10 * k + 10]
        assert np.array_equal(seen, np.bincount(own, minlength=10))
    assert run.result["total"].sum() == sum(map(len, words))


def test_kmeans() -> None:
    """Where no centre is nearer by chance of rounding, each is the mean of the tuples that it had."""
    rng = np.random.default_rng(7)
    x = (rng.integers(0, 4, 200)[:, None] * 0.5 - 0.75 + rng.normal(size=(200, 2)) / 64).astype(
        np.float32
    )
    run = trained("kmeans", {"x": x}, dims={"k": 4})
    C, many = np.random.default_rng(1).uniform(-1, 1, (4, 2)), np.zeros(4)
    for row in x.astype(np.float64):
        at = np.sum((C - row) ** 2, axis=1).argmin()
        C[at] += (row - C[at]) / (many[at] + 1)
        many[at] += 1
    assert np.array_equal(run.result["many"], many) and many.sum() == 200
    assert np.abs(run.result["C"] - C).max() < 1e-5


def grouped(table: Any, source: Any = None) -> dict[int, tuple[int, ...]]:
    limits = {"least": 2.0**31 - 1, "most": -(2.0**31)}
    design = ps.compile(EXAMPLES / "group_by.py", "small", table, "fixed:32,0", init=limits)
    models = design.run(table if source is None else source).result
    rows = zip(
        *(models[name].astype(int).tolist() for name in ("many", "total", "least", "most")),
        strict=True,
    )
    return {g: row for g, row in enumerate(rows) if row[0]}


def test_group_by_is_pandas() -> None:
    import pandas as pd

    rng = np.random.default_rng(8)
    table = {"g": rng.integers(0, 50, 2000), "x": rng.integers(-9999, 9999, 2000)}
    trained("group_by", {"g": table["g"], "x": table["x"] % 100})
    found = pd.DataFrame(table).groupby("g").x.agg(["count", "sum", "min", "max"])
    assert grouped(table) == {
        int(g): tuple(map(int, row)) for g, row in zip(found.index, found.values, strict=True)
    }


def test_group_by_is_sql(postgres: str) -> None:
    """On a live table with NULLs, rows that were deleted, and texts as groups."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS visits_by_group")
        connection.execute(
            "CREATE TABLE visits_by_group AS SELECT (k * 7919 % 37)::int4 AS g, (k * 104729 % 2000 - 1000)::int4 AS x "
            "FROM generate_series(1, 3000) AS k"
        )
        connection.execute("DELETE FROM visits_by_group WHERE x % 5 = 0")
        connection.execute("VACUUM (FREEZE) visits_by_group")
        connection.execute("CHECKPOINT")
        asked = "SELECT g, count(*), sum(x), min(x), max(x) FROM visits_by_group GROUP BY g"
        rows = {g: tuple(map(int, row)) for g, *row in connection.execute(asked)}
    source = f"{postgres}{'&' if '?' in postgres else '?'}table=visits_by_group"
    assert grouped(source) == rows


def test_a_sum_that_leaves_the_format(postgres: str) -> None:
    """On a live table: sums equal SQL's up to the format's end; one more is an error in hardware too, or saturates and is counted."""
    import psycopg

    source = f"{postgres}{'&' if '?' in postgres else '?'}table=far_sums"
    kernel = EXAMPLES / "group_by.psk"
    for last, sql in ((7, 2**15 - 1), (8, None)):
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS far_sums")
            connection.execute(
                "CREATE TABLE far_sums AS SELECT (k % 3)::int4 AS g, (CASE WHEN k % 3 = 1 THEN 1000 ELSE -9 END)::int4 AS x "
                "FROM generate_series(0, 96) AS k"
            )
            connection.execute(f"INSERT INTO far_sums VALUES (1, 760), (1, {last}), (0, 1)")
            connection.execute("VACUUM (FREEZE) far_sums")
            connection.execute("CHECKPOINT")
            asked = "SELECT sum(x) FROM far_sums GROUP BY g ORDER BY g"
            sums = [int(row[0]) for row in connection.execute(asked)]
        design = ps.compile(kernel, "small", source, "fixed:16,0")
        golden, run = (design.run(source, backend=name) for name in ("golden", "pysim"))
        assert golden.errors == run.errors
        if sql:
            assert golden.result["total"].tolist() == sums and sums[1] == sql
            assert np.array_equal(run.codes["total"], golden.codes["total"])
            continue
        assert sums[1] == 2**15 and golden.errors[0].code.page == "E841"
        for one in (golden, run):
            said = one.workload.failure(one.errors[0]).text
            assert "row 1 of total, column 1, by line pointer 99 of block 0" in said
        loose = ps.compile(kernel, "small", source, "fixed:16,0", on_overflow="saturate")
        stopped = loose.run(source)
        assert stopped.result["total"].tolist() == [sums[0], 2**15 - 1, sums[2]]
        assert stopped.counters["left_range"] == 1
