"""Weights of rows, and a fit for each group: beside scikit-learn, and what is refused (in hardware: `test_fit_columns`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import penstock as ps
from penstock.cli.main import run
from penstock.engines.qr import passes
from penstock.host.workloads import Changes
from penstock.models.qr.table_config import TableFitPlan
from penstock.models.strider.errors import PageError
from penstock.scores.sql import score_select
from testbench.command_line import reported, told

TEXT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
NAMES = ("a", "b")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("f.psk").write_text(TEXT)


@pytest.fixture
def planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any engine will do for the golden model: the fastest is not looked for."""
    monkeypatch.setattr(
        passes, "lower_table", lambda graph, columns, walk, *_: TableFitPlan(columns, walk, 64)
    )


def table(seed: int, rows: int = 120) -> dict[str, np.ndarray]:
    """Columns of several types, weights of rows, groups."""
    source = np.random.default_rng(seed)
    a, b = 1e6 + source.standard_normal(rows), source.integers(-900, 900, rows)
    groups = source.integers(0, 3, rows)
    return {
        "region": np.array(["north", "east", "süd"])[groups],
        "a": a,
        "w": source.integers(0, 4, rows) * source.lognormal(0, 1, rows),
        "b": b,
        "flag": groups == 1,
        "k": 5 * groups - 4,
        "y": a * (1 + groups) - b / 100 + source.standard_normal(rows),
    }


def fitted(columns: Any, kernel: str = "f.psk", **options: Any) -> Any:
    bind = {"x": list(NAMES)} if "region" in columns else None
    return ps.compile(kernel, "vu9p", columns, bind=bind, **options).run(columns)


def rows_of(columns: dict[str, np.ndarray], part: Any = slice(None)) -> tuple[Any, Any, Any]:
    x = np.column_stack([columns[n] for n in NAMES])
    return x[part], columns["y"][part], columns["w"][part]


@pytest.mark.usefixtures("planned_at_once")
def test_weights_of_rows() -> None:
    """A row with the weight 0 is none. tests/qr/test_whole_fits.py holds drawn fits to rational arithmetic."""
    columns = table(1)
    made = fitted(columns, sample_weight="w")
    x, y, weights = rows_of(columns, columns["w"] > 0)
    best = LinearRegression().fit(x, y, sample_weight=weights)
    assert np.allclose(made.result["weights"], best.coef_, rtol=1e-8)
    assert made.fit.rows == made.rows_used == len(y) and made.fit.rows_of_weight_0 == 120 - len(y)
    assert made.fit.preconditioner == "sums" and made.fit.weight == pytest.approx(weights.sum())
    assert made.fit.names == ["bias", *NAMES] and made.fit.units[0]["column"] == "√w"
    assert made.counters["refits"] and made.counters["rows_of_weight_0"]
    scores = np.asarray(made.predict(columns))
    assert np.allclose(scores, best.predict(rows_of(columns)[0]), rtol=1e-10)


@pytest.mark.usefixtures("planned_at_once")
def test_rows_that_come_and_go_have_weights() -> None:
    columns = table(2)
    design = ps.compile("f.psk", "vu9p", columns, bind={"x": list(NAMES)}, sample_weight="w")
    made = design.run(columns, changes=Changes(1, 3, 10, 20), refine="never")
    left = slice(3 * 20, None)
    x, y, weights = (part[left] for part in rows_of(columns, columns["w"] > 0))
    best = LinearRegression().fit(x, y, sample_weight=weights)
    off = np.abs(made.result["weights"] - best.coef_)
    assert (off <= made.fit.error[1:] + 1e-9).all() and (off < 1e-5).all()


@pytest.mark.usefixtures("planned_at_once")
@pytest.mark.parametrize(("group", "weight"), [("region", None), ("flag", "w"), ("k", "w")])
def test_a_fit_for_each_group(group: str, weight: str | None) -> None:
    Path("r.psk").write_text(TEXT.replace("target=y", "target=y, ridge=0.5"))
    columns = table(3)
    made = fitted(columns, "r.psk", sample_weight=weight, group_by=group)
    values = sorted(set(columns[group].tolist()))
    assert made.fit.group_by == group and [g.group for g in made.fit.groups] == values
    scores = np.asarray(made.predict(columns))
    for k, (value, own) in enumerate(zip(values, made.fit.groups, strict=True)):
        part = columns[group] == value
        x, y, weights = rows_of(columns, part & (columns["w"] > 0) if weight else part)
        best = Ridge(0.5, solver="svd").fit(x, y, sample_weight=weights if weight else None)
        assert np.allclose(made.result["weights"][k], best.coef_, rtol=1e-7, atol=1e-12)
        assert made.result["bias"][k] == pytest.approx(best.intercept_, rel=1e-7)
        expected = best.predict(rows_of(columns, part)[0])
        assert np.allclose(scores[part], expected, rtol=1e-10)
        assert own.rows == len(y) and np.array_equal(own.coef[1:], made.result["weights"][k])
    assert made.counters["groups"] == made.counters["jobs"] - made.counters["refits"] == len(values)
    assert made._names["weights"][1][0] == f"{group}={values[1]}: a"
    made.save("run")
    assert np.array_equal(ps.Run.load("run").predict(columns), scores)


@pytest.mark.usefixtures("planned_at_once")
def test_rows_of_groups_that_cannot_be_scored() -> None:
    columns = table(4)
    made = fitted(columns, group_by="region")
    new = {name: values[:6] for name, values in columns.items() if name != "y"}
    known = np.asarray(made.predict(new))
    new["region"] = np.array([*new["region"][:4], "west", None], object)
    with pytest.raises(
        ValueError, match=r"the group 'west' in row 5, column region, was not fitted"
    ):
        made.predict(new)
    scores = made.predict(new, on_unseen="skip")
    assert (
        np.array_equal(scores.values[:4], known[:4])
        and scores.values.mask.tolist() == [False] * 4 + [True] * 2
    )
    assert scores.run.result["prediction"].tolist() == known[:4].tolist()
    with pytest.raises(ValueError, match="the group in row 6, column region, is NULL"):
        made.predict(new, on_null="error", on_unseen="skip")
    with pytest.raises(ValueError, match="has no column region"):
        made.predict({name: new[name] for name in NAMES})
    with pytest.raises(ValueError, match="each region has models of its own, and hardware has one"):
        made.predict(columns, "golden")
    with pytest.raises(ValueError, match="each region has models of its own: there is no one"):
        score_select(made.scoring, "t")
    made.save("run")
    np.savez("t.npz", **{name: values[:6] for name, values in columns.items()})
    assert run("score run --data t.npz --out s.csv -q".split()) == 0
    lines = Path("s.csv").read_text().split()[1:]
    assert [float(line.split(",")[2]) for line in lines] == known.tolist()


@pytest.mark.usefixtures("planned_at_once")
def test_groups_of_an_estimator() -> None:
    columns = table(6)
    x, y, _ = rows_of(columns)
    made = ps.Estimator("f.psk", group_by=-1).fit(np.column_stack([x, columns["k"]]), y)
    assert made.groups_ == [-4, 1, 6] and made.coef_.shape == (3, 2) and made.n_features_in_ == 3
    found = made.predict(np.column_stack([x, columns["k"]]))
    for value, bias in zip(made.groups_, made.intercept_, strict=True):
        part = columns["k"] == value
        best = LinearRegression().fit(x[part], y[part])
        assert np.allclose(found[part], best.predict(x[part]), rtol=1e-10)
        assert bias == pytest.approx(best.intercept_, rel=1e-7)
    for wrong, group in (("groups are whole numbers, not -", 1), ("none of X's columns", "k")):
        with pytest.raises(ValueError, match=wrong):
            ps.Estimator("f.psk", group_by=group).fit(np.column_stack([x[:, 0], x[:, 1] + 0.5]), y)


@pytest.mark.usefixtures("planned_at_once")
def test_reports_and_designs_say_so() -> None:
    columns = table(5)
    np.savez("t.npz", **columns)
    line = "--data t.npz --bind x=a,b --sample-weight w --group-by region --target vu9p"
    text = " ".join(told(f"simulate f.psk {line} --backend golden").replace("│", " ").split())
    assert "times the roots of the weights in w, packed by the host" in text
    assert "by region: a run for each" in text and "region = süd" in text
    assert "standard error" in text and "left out" in text and "2 of 2 columns independent" in text
    assert run(f"compile f.psk {line} --out o -q".split()) == 0
    design = ps.load("o")
    assert design.describe()["config"]["group_by"] == "region"
    again, made = design.run(columns), fitted(columns, sample_weight="w", group_by="region")
    assert np.array_equal(again.result["weights"], made.result["weights"])
    told(f"simulate f.psk {line} --backend golden --json r.json")
    said = json.loads(Path("r.json").read_text())
    assert [g["group"] for g in said["details"]["fit"]["groups"]] == ["east", "north", "süd"]
    assert said["result"]["weights"] == made.result["weights"].tolist()
    alone = json.loads(Path("o/manifest.json").read_text())
    assert alone["packing"]["weight"] == "w"
    assert "cycles" in told(f"model f.psk {line} --json m.json")
    assert "--rows assumes rows that belong to no group" in told(
        "model f.psk --rows 90 --dim d=2 --group-by region", 1
    )
    assert json.loads(Path("m.json").read_text())["cycles"]["model"] > 0
    assert "cycles" in told("model f.psk --rows 90 --dim d=2 --sample-weight w")


@pytest.mark.usefixtures("planned_at_once")
def test_rows_without_a_weight_or_a_group() -> None:
    columns = table(6)
    columns["w"][columns["w"] == 0] = 1
    holes = dict(columns, w=columns["w"].copy())
    holes["w"][7] = np.nan
    [found] = fitted(holes, sample_weight="w").errors
    assert (found.code, found.line) == (PageError.VALUE_NAN, 8)
    made = fitted(holes, sample_weight="w", on_nan="skip")
    assert (made.rows_used, made.rows_skipped, made.counters["nan_rows"]) == (119, 1, 1)
    lines = ["a,y,w,g"] + [f"{k % 7},{k % 5},{'' if k == 3 else 1},{'' if k == 9 else k % 2}" for k in range(40)]  # fmt: skip
    Path("n.csv").write_text("\n".join(lines) + "\n")
    line = "simulate f.psk --data n.csv --backend golden"
    assert "n.csv, row 4" in told(f"{line} --sample-weight w --bind x=a", 1)
    assert "the group in row 10, column g, is NULL" in told(f"{line} --group-by g --bind x=a", 1)
    both = "--sample-weight w --group-by g --on-null skip --bind x=a"
    report = reported(f"{line} {both} -q")
    assert (report["table"]["used"], report["table"]["skipped"]) == (38, 2)
    assert [g["rows_skipped"] for g in report["details"]["fit"]["groups"]] == [0, 0]
    assert report["details"]["fit"]["rows_skipped"] == 2
    holes["w"][:] = np.nan
    with pytest.raises(ps.KernelError, match="there is no row to fit"):
        fitted(holes, sample_weight="w", on_nan="skip", group_by="region")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": "v"}, "the table table has no column v"),
        ({"sample_weight": "region"}, "column region has the type text"),
        ({"sample_weight": "day"}, "column day has the type timestamp[s], which is not numeric"),
        ({"group_by": "day"}, "column day has the type timestamp[s], which is not numeric"),
        ({"group_by": "a"}, "groups are whole numbers, booleans or texts; column a has the type float8"),
        ({"sample_weight": "bad"}, "the weight in row 5, column bad, is -2: weights are 0 or more"),
        ({"sample_weight": "none"}, "no row has a weight above 0 in column none: nothing is fitted"),
        ({"sample_weight": "east", "group_by": "region"}, "2 of the groups have no row with a weight above 0"),
        ({"group_by": "b", "on_singular": "error"}, "1 row does not determine 2 weights"),
    ],
)  # fmt: skip
def test_what_is_refused(options: dict[str, str], message: str) -> None:
    columns = table(7)
    columns |= {"bad": np.ones(120), "none": np.zeros(120), "east": columns["region"] == "east"}
    columns["bad"][4] = -2
    columns["day"] = np.arange(120).astype("datetime64[s]")
    with pytest.raises(ps.KernelError) as caught:
        fit = ps.compile("f.psk", "vu9p", columns, bind={"x": "a"}, **options)
        fit.run(columns)
    assert message in caught.value.diagnostic.message
    assert caught.value.diagnostic.code == ("E844" if "determine" in message else "E846")


def test_options_of_other_kernels() -> None:
    Path("k.psk").write_text(
        "fit k(key: key)\n  model <- least_squares(window(key, 4), target=rank(key))\n"
    )
    for flag in ("--sample-weight w", "--group-by g"):
        said = told(f"model k.psk --rows 90 {flag}", 1)
        assert f"{flag.split()[0]} is not for fits of keys" in said
