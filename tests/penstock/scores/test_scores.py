"""Scores of new rows: `run.predict`, runs in folders, `penstock score`, views."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import penstock as ps
from penstock.designs.folder import read_folder, sealed
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.dsl.core.operations import ELEMENTWISE, REDUCTIONS
from penstock.dsl.core.scores import evaluate
from penstock.engines.score import ScoreError
from penstock.host.sources import SourceError
from penstock.scores.scoring import score_design, score_table
from penstock.scores.sql import _FORMS, _REDUCED
from testbench.command_line import told

TEXT = """kernel logistic(x: input[d], y: output, w: model[d], b: model, rate: meta = 0.1)
  score probability = sigmoid(sum(w * x) + b)
  error = probability - y
  w <- w - rate * merge(error * x, 16)
  b <- b - rate * merge(error, 16)
  epochs 3
"""
LABELS = {"age": 1.0, "height": -2.0, "weight": 0.5}


def rows(count: int = 60, seed: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {name: random.normal(size=count) for name in LABELS}
    found["y"] = (sum(k * found[n] for n, k in LABELS.items()) > 0).astype(float)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("kernel") / "k.psk"
    file.write_text(TEXT)
    table = rows()
    return ps.compile(str(file), "small", table).run(table)


def inputs(table: dict[str, Any]) -> dict[str, np.ndarray]:
    return {"x": np.stack([np.ma.getdata(table[name]) for name in LABELS], axis=1)}


def new_rows() -> dict[str, Any]:
    """Rows without a label, some values of which are NULL."""
    table = {name: values for name, values in rows(40, 2).items() if name != "y"}
    table["height"] = np.ma.masked_array(table["height"], np.arange(40) % 7 == 3)
    return table


def test_scores_of_new_rows(run: Any) -> None:
    table = new_rows()
    scores = run.predict(table)
    expected = evaluate(run.scoring.kernel.graph, inputs(table))
    null = np.arange(40) % 7 == 3
    assert scores.name == "probability" and len(scores) == 40
    assert np.ma.getmaskarray(scores.values).tolist() == null.tolist()
    assert np.abs(np.asarray(scores) - expected)[~null].max() < 1e-6
    assert np.isnan(np.asarray(scores)[null]).all()
    assert scores.block.tolist() == [0] * 40 and scores.line.tolist() == list(range(1, 41))
    assert repr(scores) == "<Scores probability: 40 rows, 6 of them NULL, on golden>"
    other = {name: table[name] for name in ("weight", "age", "height")}
    assert np.array_equal(run.predict(other | {"note": ["a"] * 40}), scores, equal_nan=True)


def test_a_run_in_a_folder(run: Any, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    again = ps.Run.load(tmp_path / "run")
    assert again.result is not None
    assert all(np.array_equal(again.result[name], run.result[name]) for name in run.result)
    assert np.array_equal(again.predict(new_rows()), run.predict(new_rows()), equal_nan=True)
    again.save(tmp_path / "run")  # in place of the other one
    assert ps.Run.load(tmp_path / "run").scoring.to_json() == run.scoring.to_json()
    assert b"pickle" not in (tmp_path / "run" / "result.npz").read_bytes()


def test_folders_that_hold_no_run(run: Any, tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"holds no run(.|\n)*run\.save writes such"):
        ps.Run.load(tmp_path / "none")
    run.design.save(tmp_path / "design")
    with pytest.raises(KernelError, match="describes a design, and no run of one"):
        ps.Run.load(tmp_path / "design")
    with pytest.raises(KernelError, match=r"run\.save those of runs"):
        ps.load(tmp_path)
    run.save(tmp_path / "run")
    with pytest.raises(KernelError, match=r"error\[E806\].*describes no design"):
        ps.load(tmp_path / "run")
    data = (tmp_path / "run" / "result.npz").read_bytes()
    (tmp_path / "run" / "result.npz").write_bytes(data[:-1])
    with pytest.raises(KernelError, match="was cut"):
        ps.Run.load(tmp_path / "run")


BAD = {
    "missing": (lambda t: {n: v for n, v in t.items() if n != "age"}, "E611", "has no column age"),
    "renamed": (lambda t: {"AGE" if n == "age" else n: v for n, v in t.items()}, "E611", "age"),
    "text": (lambda t: t | {"age": ["a"] * 40}, "E613", "age"),
    "array": (lambda t: t | {"age": np.zeros((40, 2))}, "E632", "it has the type float8[]"),
    "empty": (lambda t: {n: v[:0] for n, v in t.items()}, "E704", "has no rows"),
    "large": (lambda t: t | {"age": np.full(40, 1e300)}, "E305", "VALUE_OVERFLOW"),
}


@pytest.mark.parametrize("name", BAD)
def test_rows_that_cannot_be_scored(name: str, run: Any) -> None:
    change, code, words = BAD[name]
    with pytest.raises((KernelError, SourceError)) as caught:
        run.predict(change(new_rows()))
    diagnostic = getattr(caught.value, "diagnostic", caught.value)
    if name != "large":
        assert diagnostic.code == code
    assert words in diagnostic.message and diagnostic.hint


def test_policies(run: Any) -> None:
    with pytest.raises(KernelError, match="TUPLE_NULL"):
        run.predict(new_rows(), on_null="error")
    table = new_rows()
    table["age"][1] = np.nan
    with pytest.raises(KernelError, match="VALUE_NAN"):
        run.predict(table)
    scores = run.predict(table, on_nan="skip")
    assert np.ma.getmaskarray(scores.values)[1] and scores.values.count() == 33
    for policy, count in (("skip", 33), ("pass", 34)):
        assert run.predict(table, "host", on_nan=policy).values.count() == count


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"backend": "model"}, "backend must be one of host, golden, rtl, netlist, pysim, board,"),
        ({"on_null": "drop"}, "on_null must be one of error, skip, not 'drop'"),
        ({"on_unseen": "last"}, "on_unseen must be one of error, skip, not 'last'"),
    ],
)
def test_options_that_predict_does_not_have(run: Any, option: dict[str, str], said: str) -> None:
    with pytest.raises(KernelError, match=said):
        run.predict(new_rows(), **option)


def test_kernels_without_a_score(tmp_path: Path) -> None:
    text = "kernel k(x: input[d], m: model[d])\n  m <- m + merge(x)\n"
    (tmp_path / "k.psk").write_text(text)
    table = {"x": np.eye(3)}
    run = ps.compile(str(tmp_path / "k.psk"), "small", table).run(table)
    assert run.design.names == {"m": ["x[1]", "x[2]", "x[3]"]}
    message = "runs of k score no rows: its score is the one value that is compared with its label: there is none"
    with pytest.raises(ScoreError, match=message):
        run.predict(table)
    run.save(tmp_path / "run")
    with pytest.raises(ScoreError, match=message):
        ps.Run.load(tmp_path / "run").predict(table)


def test_scores_in_float64(run: Any) -> None:
    """By NumPy on the host, bit for bit; NULL as elsewhere."""
    scores = run.predict(new_rows(), "host")
    expected = evaluate(run.scoring.kernel.graph, inputs(new_rows()))
    null = np.arange(40) % 7 == 3
    assert np.array_equal(np.asarray(scores)[~null], expected[~null])
    assert np.ma.getmaskarray(scores.values).tolist() == null.tolist()
    with pytest.raises(KernelError, match="TUPLE_NULL"):
        run.predict(new_rows(), "host", on_null="error")


def test_no_cycle_model_on_dram(run: Any) -> None:
    table = score_table(run.scoring, new_rows())
    design = score_design(run.scoring, table, None)
    with pytest.raises(KernelError, match=r"error\[E634\]"):
        design.run(table, "model", memory="hbm2-2000")


FIT = """fit line(x: input[d], y: output)
  model <- least_squares(x, target=y)
"""


def test_fits(tmp_path: Path, postgres: str, server: Any) -> None:
    """bias + Σ w x in float64, and in float32 through the same engine."""
    (tmp_path / "fit.psk").write_text(FIT)
    table = {name: np.round(values * 64) / 64 for name, values in rows(80, 5).items()}
    table["y"] = 3 + table["age"] - 2 * table["height"] + 0.5 * table["weight"]
    fit = ps.compile(str(tmp_path / "fit.psk"), "vu9p", table).run(table)
    new = {name: values for name, values in rows(30, 6).items() if name != "y"}
    scores = fit.predict(new)
    x = np.stack([new[name] for name in LABELS], axis=1)
    exact = 3 + x @ [1.0, -2.0, 0.5]
    assert scores.name == "prediction" and scores.run.backend == "host"
    assert np.allclose(np.asarray(scores), exact, rtol=1e-12, atol=1e-12)
    single = fit.predict(new, "golden")
    bound = (3 + np.abs(x) @ [1.0, 2.0, 0.5]) * 2.0**-21  # six roundings of 24 bits
    assert (np.abs(np.asarray(single) - exact) <= bound).all()
    fit.save(tmp_path / "run")
    assert np.array_equal(ps.Run.load(tmp_path / "run").predict(new), np.asarray(scores))
    fit.to_sql(table_url(postgres), "fitted", "append", view="fitted_people")
    named = server.execute(
        "SELECT name FROM fitted WHERE model = 'weights' ORDER BY place"
    ).fetchall()
    assert [name for (name,) in named] == list(LABELS)


@pytest.mark.parametrize(
    ("scale", "label", "why"),
    [(1e-30, 1e10, "is beyond"), (1e30, 1e-20, "is too small for"), (1e-30, 1.0, None)],
)
def test_weights_beyond_float32(scale: float, label: float, why: str | None) -> None:
    """Hardware scores in float32: weights that it does not hold are no infinities and zeros."""
    source = np.random.default_rng(2)
    a, b, noise = source.standard_normal((3, 40))
    table = {"a": scale * a, "b": b, "y": label * (a + b + noise)}
    fit = ps.compile(from_text(FIT), "vu9p", table, bind={"x": ["a", "b"], "y": "y"}).run(table)
    new = {"a": table["a"], "b": b}
    assert np.isfinite(fit.predict(new)).all()
    if why is None:
        scores = np.asarray(fit.predict(new, "golden"))
        assert np.allclose(scores, fit.predict(new), rtol=1e-5, atol=1e-5)
        return
    with pytest.raises(KernelError, match=rf"error\[E445\].* {why} float32"):
        fit.predict(new, "golden")


# the command


def test_command(run: Any, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    table = new_rows()
    np.savez(tmp_path / "rows.npz", **{n: np.ma.getdata(v) for n, v in table.items()})
    data = str(tmp_path / "rows.npz")
    scores = run.predict(data)
    for suffix in ("csv", "npz", "parquet"):
        out = str(tmp_path / f"scores.{suffix}")
        report = str(tmp_path / "report.json")
        told(["score", tmp_path / "run", "--data", data, "--out", out, "--json", report])
        if suffix == "csv":
            with open(out, newline="") as file:
                read = list(csv.DictReader(file))
            assert [float(row["probability"]) for row in read] == scores.values.tolist()
            assert [int(row["line"]) for row in read] == scores.line.tolist()
        assert json.loads(Path(report).read_text())["design"]["kernel"] == "logistic"


def test_mistakes_of_the_command(run: Any, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    np.savez(tmp_path / "rows.npz", age=np.zeros(3))
    data, out = str(tmp_path / "rows.npz"), str(tmp_path / "s.csv")
    for arguments, words in (
        ((str(tmp_path / "none"), "--data", data, "--out", out), "error[E806]"),
        ((str(tmp_path / "run"), "--data", data, "--out", out), "error[E611]"),
        ((str(tmp_path / "run"), "--data", data, "--out", str(tmp_path / "s.txt")), "error[E701]"),
        ((str(tmp_path / "run"), "--data", data), "error[E902]"),
    ):
        shown = told(["score", *arguments], 1)
        assert shown.count("error[") == 1 and words in shown, shown
    assert not Path(out).exists()


# servers


@pytest.fixture
def server(postgres: str) -> Any:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS learned, people CASCADE")
        connection.execute("CREATE TABLE people (id int, weight float4, age float8, height int2)")
        random = np.random.default_rng(3)
        for k in range(300):
            values = k, random.normal(), random.normal() * 10.0 ** random.integers(-3, 3), k % 9
            connection.execute("INSERT INTO people VALUES (%s, %s, %s, %s)", values)
        connection.execute("UPDATE people SET height = NULL WHERE id % 10 = 0")
        connection.execute("DELETE FROM people WHERE id % 50 = 1")
        yield connection


def table_url(postgres: str) -> str:
    return f"{postgres}{'&' if '?' in postgres else '?'}table=people"


def test_a_servers_table(run: Any, postgres: str, server: Any) -> None:
    scores = run.predict(table_url(postgres))
    read = server.execute(
        "SELECT ctid::text AS at, age, height, weight FROM people ORDER BY people.ctid"
    ).fetchall()
    assert [f"({b},{n})" for b, n in zip(scores.block, scores.line, strict=True)] == [
        r[0] for r in read
    ]
    values = np.array([r[1:] for r in read], float)
    expected = evaluate(run.scoring.kernel.graph, {"x": values})
    null = np.isnan(expected)
    assert np.ma.getmaskarray(scores.values).tolist() == null.tolist() and null.sum() == 30
    assert np.abs(np.asarray(scores) - expected)[~null].max() < 1e-6


def test_a_view(run: Any, postgres: str, server: Any) -> None:
    assert run.to_sql(table_url(postgres), "learned", view="scored") == 4
    named = server.execute("SELECT model, place, name FROM learned ORDER BY 1, 2").fetchall()
    assert named == [("b", [], None), *(("w", [k + 1], n) for k, n in enumerate(LABELS))]
    read = server.execute(
        "SELECT age, height, weight::float8, probability FROM scored ORDER BY id"
    ).fetchall()
    table = np.array(read, float)
    expected = evaluate(run.scoring.kernel.graph, {"x": table[:, :3]})
    null = np.isnan(table[:, 1])
    assert np.array_equal(np.isnan(table[:, 3]), null) and null.any()
    assert (np.abs(table[:, 3] - expected)[~null] <= 4 * np.spacing(1.0)).all()
    with pytest.raises(SourceError, match="table learned already"):
        run.to_sql(table_url(postgres), "learned", view="other")
    with pytest.raises(SourceError, match="a table or view scored already") as caught:
        run.to_sql(table_url(postgres), "learned", "append", view="scored")
    assert "view=" in str(caught.value.hint)
    with pytest.raises(SourceError, match="refused to make the view people") as caught:
        run.to_sql(table_url(postgres), "learned", "replace", view="people")
    assert "view=" in str(caught.value.hint)
    assert run.to_sql(table_url(postgres), "learned", "replace", view="scored") == 4
    with pytest.raises(SourceError, match="does not say which table the view scores"):
        run.to_sql(postgres, "learned", "replace", view="scored")
    assert run.to_sql(table_url(postgres), "learned", "replace") == 4


OPERATIONS = """kernel k(x: input[d], y: output, A: model[h, d], v: model[h], rate: meta = 0.001)
  hidden = {hidden}
  score s = {score}
  error = s - y
  A <- A - rate * error * outer(v, x)
  v <- v - rate * error * hidden
  init A = uniform(-1, 1, seed=1)
  init v = uniform(-1, 1, seed=2)
"""
FORMS = [
    ("tanh(A @ x)", "sum(v * hidden)"),
    (
        "sigmoid(A @ x)",
        "norm(v - hidden) / (1 + abs(hidden[:, None] @ v[None, :])[:, None].T @ v @ v)",
    ),
    ("where(A @ x > 0, A @ x, 0)", "exp(sum(v * hidden)) - log(1 + max(hidden)) + min(hidden)"),
    ("gaussian(0.1 * (A @ x)) ** 3", "sqrt(abs(v @ hidden)) * prod(hidden + 1)"),
    ("sum(A * x, axis=1)", "sum(v * hidden) / norm(x)"),
]


def test_the_server_has_a_form_of_each_operation() -> None:
    assert not {*ELEMENTWISE} - {*_FORMS}
    assert not {*REDUCTIONS} - {*_REDUCED, "norm"}


@pytest.mark.parametrize("form", [FORMS[0], *FORMS[2:]])
def test_operations_in_sql(
    form: tuple[str, str], postgres: str, server: Any, tmp_path: Path
) -> None:
    """What NumPy computes, bit for bit but for functions that libraries differ in."""
    (tmp_path / "k.psk").write_text(OPERATIONS.format(hidden=form[0], score=form[1]))
    random = np.random.default_rng(4)
    X, y = random.normal(size=(50, 130)), random.normal(size=50)
    server.execute("DROP TABLE IF EXISTS wide CASCADE")
    server.execute("CREATE TABLE wide (id int, x float8[])")
    for k, row in enumerate(X):
        server.execute("INSERT INTO wide VALUES (%s, %s)", (k, row.tolist()))
    table = {"x": X, "y": y}
    run = ps.compile(str(tmp_path / "k.psk"), "vu9p", table, dims={"h": 3}).run(table)
    url = table_url(postgres).replace("people", "wide")
    run.to_sql(url, "learned", "append", view="scored_wide")
    read = [r[0] for r in server.execute("SELECT s FROM scored_wide ORDER BY id").fetchall()]
    graph = run.scoring.kernel.graph
    expected = evaluate(graph, {"x": X})
    each = (evaluate(replace(graph, returns=(k,)), {"x": X}) for k in range(len(graph.nodes)))
    largest = max(np.abs(value).max() for value in each)
    assert np.abs(np.array(read) - expected).max() <= 4 * np.spacing(largest)


@pytest.mark.parametrize(
    "form",
    [
        "where(a < 1, 1, 2) + where(1 > a, 4, 8) + where(a <= 1, 16, 32) + where(1 >= a, 64, 128)",
        "where(a > 1, 1, 2) + where(1 < a, 4, 8) + where(a >= 1, 16, 32) + where(1 <= a, 64, 128)",
        *("sigmoid(a)", "exp(a)", "gaussian(a)", "tanh(a)", "sqrt(a)", "log(a)", "min(h)", "max(h)", "1 / a", "norm(h)"),
    ],
)  # fmt: skip
def test_values_that_are_not_finite_in_sql(
    form: str, postgres: str, server: Any, tmp_path: Path
) -> None:
    """The server's NaN is equal to itself and greater than all numbers, NumPy's is neither."""
    text = "kernel k(a: input, h: input[2], y: output, w: model)\n  score s = {}\n  w <- w + merge(y + a + sum(h), 4)\n"
    (tmp_path / "k.psk").write_text(text.format(form))
    edges = (np.nan, np.inf, -np.inf, 0.0, -1.5, 1.0)
    H = np.array([(a, b) for a in edges for b in edges])
    server.execute("DROP TABLE IF EXISTS edges CASCADE")
    server.execute("CREATE TABLE edges (id int, a float8, h float8[])")
    for k, row in enumerate(H):
        server.execute("INSERT INTO edges VALUES (%s, %s, %s)", (k, row[0], row.tolist()))
    table = {"a": np.ones(2), "h": np.ones((2, 2)), "y": np.ones(2)}
    run = ps.compile(str(tmp_path / "k.psk"), "small", table).run(table)
    run.to_sql(
        table_url(postgres).replace("people", "edges"), "learned", "append", view="scored_edges"
    )
    read = [r[0] for r in server.execute("SELECT s FROM scored_edges ORDER BY id").fetchall()]
    with np.errstate(all="ignore"):
        expected = evaluate(run.scoring.kernel.graph, {"a": H[:, 0], "h": H})
    np.testing.assert_array_max_ulp(np.array(read), expected, 4)


def test_too_many_terms(postgres: str, tmp_path: Path) -> None:
    (tmp_path / "k.psk").write_text(
        OPERATIONS.format(hidden="tanh(A @ x)", score="sum(v * hidden)")
    )
    table = {"x": np.ones((20, 500)), "y": np.ones(20)}
    design = ps.compile(str(tmp_path / "k.psk"), "vu9p", table, dims={"h": 30})
    with pytest.raises(ScoreError, match=r"error\[E633\]: the score has more than 10,000 terms"):
        design.run(table).to_sql(table_url(postgres), "learned", view="scored")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("graph", "nodes", 0, 2, 0), 10**9),
        (("graph", "nodes", 3, 0), "unknown"),
        (("graph", "nodes", 1, 4, "name"), "unknown"),
        (("graph", "variables", 1, 2, 0), -1),
        (("columns", "x", 0), "unknown"),
        (("options", "on_null"), "maybe"),
        (("graph", "nodes", 2, 0), "outer"),
        (("graph", "nodes", 2, 1), [0, 99]),
        (("graph", "nodes", 3, 2), [1]),
        (("facts",), [1]),
        (("facts",), {"epochs": {"a": 1}}),
    ],
)
def test_scores_that_no_engine_has_written(
    path: tuple[Any, ...], value: Any, tmp_path: Path
) -> None:
    """A saved run may be anybody's: its score is refused with one diagnostic, before it takes memory."""
    x = np.eye(4)
    table = {"x": x, "y": x[:, 0]}
    run = ps.compile(from_text(TEXT), dims={"d": 4}, table=table).run(table, backend="golden")
    manifest, files = read_folder(run.save(tmp_path / "run"))
    inner = manifest if path[0] == "facts" else manifest["scoring"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    kept = {n: v for n, v in manifest.items() if n not in ("penstock", "files", "sha256")}
    for name, data in sealed(kept, files).items():
        (tmp_path / "run" / name).write_bytes(data)
    np.savez(tmp_path / "rows.npz", **table)
    words = f"score {tmp_path}/run --data {tmp_path}/rows.npz --out {tmp_path}/scores.csv"
    assert "error[E806]" in told(words, 1)
    with pytest.raises(KernelError, match="E806"):
        ps.Run.load(tmp_path / "run").predict(table)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("root",), 99, "list index out of range"),
        (("nodes", 2, 1), [2, 2], "takes a value that comes later"),
        (("nodes", 2, 2), [10**6, 10**6], "has the shape"),
        (("nodes", 3, 0), "os.system", "os.system"),
        (("nodes",), None, "not iterable"),
    ],
)
def test_scores_of_a_folder_that_no_engine_has_written(
    path: tuple[Any, ...], value: Any, said: str, tmp_path: Path
) -> None:
    """A design's folder may be anybody's, too: what scores its runs is refused, and computes nothing."""
    table = {"x": np.eye(4), "y": np.ones(4)}
    place = ps.compile(from_text(TEXT), dims={"d": 4}, table=table).save(tmp_path / "design")
    manifest, files = read_folder(place)
    inner = manifest["score"]["graph"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    kept = {n: v for n, v in manifest.items() if n not in ("penstock", "files", "sha256")}
    for name, data in sealed(kept, files).items():
        (place / name).write_bytes(data)
    run = ps.load(place, trust=True).run(table, backend="golden")
    with pytest.raises(KernelError, match="E806") as found:
        run.predict(table)
    assert said in str(found.value)
