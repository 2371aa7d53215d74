"""Kernels as estimators of scikit-learn; models back in a server's table."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import penstock as ps
from penstock.host.sources import SourceError

LINEAR = """kernel linear(x: input[d], y: output, w: model[d], b: model, rate: meta = 0.05)
  error = sum(w * x) + b - y
  w <- w - rate * merge(error * x, 16) / 16
  b <- b - rate * merge(error, 16) / 16
  epochs 20
"""
LOGISTIC = LINEAR.replace("sum(w * x) + b", "sigmoid(sum(w * x) + b)").replace("0.05", "0.5")
FIT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
HINGE = """kernel svm(x: input[d], y: output, w: model[d], rate: meta = 0.1)
  margin = y * sum(w * x)
  step = merge(where(margin < 1, y * x, 0), 16)
  w <- w + rate * step / 16
  epochs 20
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        (tmp_path / "k.psk").write_text(text)
        return str(tmp_path / "k.psk")

    return write


def rows(count: int = 96) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    X = random.normal(size=(count, 3))
    return X, X @ [1.0, -2.0, 0.5] + 0.25


@pytest.mark.parametrize("format", ["float32", "fixed:8,16"])
def test_regression(kernel: Any, format: str) -> None:
    X, y = rows()
    made = ps.Estimator(kernel(LINEAR), "small", format=format, epochs=40).fit(X, y)
    assert made.score(X, y) > 0.99
    # the score's bits are those of the arithmetic in the format, in the order of the hardware's tree
    design, codes = made.design_, made.run_.codes
    fmt = design.format
    w, b = codes["w"].ravel(), codes["b"].ravel()
    for row, score in zip(X[:20], made.predict(X[:20]), strict=True):
        products = [fmt.op("mul", w[i : i + 1], fmt.encode(row[i : i + 1])) for i in range(3)]
        zero = fmt.encode(np.zeros(1))
        pairs = fmt.op("add", products[0], products[1]), fmt.op("add", products[2], zero)
        total = fmt.op("add", fmt.op("add", *pairs), b)
        assert fmt.decode(total)[0] == score


def test_scores_are_what_the_training_sees(kernel: Any) -> None:
    """One step from a trained model moves it by the mean of (score − y) x, as the kernel says."""
    X, y = rows(16)
    made = ps.Estimator(kernel(LINEAR), "small", epochs=1).fit(X, y)
    error = made.predict(X) - y
    table = {"x": X, "y": y}
    again = ps.compile(kernel(LINEAR), "small", table=table, epochs=1, init=made.models_).run(table)
    assert again.result is not None
    step = made.models_["w"] - again.result["w"]
    assert np.allclose(step, 0.05 * (error[:, None] * X).mean(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("text", "labels"), [(LOGISTIC, (0, 1)), (HINGE, (-1, 1))])
def test_classification(kernel: Any, text: str, labels: tuple[int, int]) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["benign", "malignant"])[y]
    made = make_pipeline(
        StandardScaler(),
        ps.Estimator(kernel(text), "small", task="classification", labels=labels),
    ).fit(X[:300], names[:300])
    reference = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:300], names[:300])
    assert made.score(X[300:], names[300:]) > reference.score(X[300:], names[300:]) - 0.02
    assert set(made.predict(X[300:])) == {"benign", "malignant"}


def test_a_fit(kernel: Any) -> None:
    X = np.round(rows(60)[0] * 64) / 64
    y = X @ [1.0, -2.0, 0.5] + 0.25
    made = ps.Estimator(
        kernel("fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n")
    )
    assert np.allclose(made.fit(X, y).predict(X), y, rtol=1e-12, atol=1e-12)
    assert made.score(X, y) > 1 - 1e-12


def test_parameters(kernel: Any) -> None:
    made = ps.Estimator(kernel(LINEAR), "small", metas={"rate": 0.01})
    assert made.get_params()["metas"] == {"rate": 0.01}
    assert clone(made).get_params() == made.get_params()
    X, y = rows(32)
    search = GridSearchCV(made, {"metas": [{"rate": 0.0001}, {"rate": 0.05}]}, cv=2).fit(X, y)
    assert search.best_params_ == {"metas": {"rate": 0.05}}


def test_a_fitted_estimator_is_pickled(kernel: Any) -> None:
    X, y = rows(16)
    fitted = ps.Estimator(kernel(LINEAR), "small").fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), fitted.predict(X))


def test_mistakes(kernel: Any) -> None:
    X, y = rows(16)
    with pytest.raises(ValueError, match="one input and one output, not 1 and 0"):
        ps.Estimator(kernel("kernel k(x: input[d], m: model[d])\n  m <- m + merge(x)\n")).fit(X, y)
    no_score = LINEAR.replace("sum(w * x) + b - y", "sum(x) - y")
    with pytest.raises(
        ValueError, match="one value that is compared with its label: there is none"
    ):
        ps.Estimator(kernel(no_score), "small").fit(X, y)
    with pytest.raises(ValueError, match="task must be one of regression, classification"):
        ps.Estimator(kernel(LINEAR), task="clustering").fit(X, y)


def test_weights_of_rows(kernel: Any) -> None:
    X, y = rows()
    random = np.random.default_rng(4)
    y, weights = y + random.normal(size=len(y)), random.integers(0, 5, len(y))
    made = ps.Estimator(kernel(FIT), "vu9p").fit(X, y, sample_weight=weights)
    best = LinearRegression().fit(X, y, sample_weight=weights)
    assert np.allclose(made.coef_, best.coef_, rtol=1e-10)
    assert made.intercept_ == pytest.approx(best.intercept_)
    assert made.score(X, y, weights) == pytest.approx(best.score(X, y, weights))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        ps.Estimator(kernel(FIT), "vu9p").fit(X, y, -weights)
    with pytest.raises(ValueError, match="a kernel takes no sample_weight: fit kernels do"):
        ps.Estimator(kernel(LINEAR), "small").fit(X, y, weights)


#: checks of scikit-learn that do not apply, and why
NOT_APPLIED = {
    "check_array_api_input": "pages are packed by NumPy",
}
#: those that fits refuse by default, and why
NOT_DETERMINED = {
    "check_fit2d_1sample": "one row determines no weights, which the message says in other words",
    "check_sample_weight_equivalence_on_dense_data": "27 rows do not determine 31 weights",
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "own"),
    [
        pytest.param(LINEAR, {}, id="linear"),
        pytest.param(LOGISTIC, {}, id="logistic"),
        pytest.param(FIT, {"on_singular": "minimum-norm"}, id="fit"),
        pytest.param(FIT, {}, id="fit-with-defaults"),
    ],
)
def test_scikit_learns_own_checks(kernel: Any, text: str, own: dict[str, str]) -> None:
    task = "classification" if text == LOGISTIC else "regression"
    options = {"target": "vu9p", **own} if text == FIT else {}
    made = ps.Estimator(kernel(text), **{"target": "small", "task": task, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(made, on_fail=None, on_skip=None)
    others = {r["check_name"]: r for r in results if r["status"] != "passed"}
    # weights of rows are for fit kernels
    weighted = {name for name in others if "sample_weight" in name and text != FIT}
    refused = set(NOT_DETERMINED) if text == FIT and not own else set()
    assert refused <= set(others) <= set(NOT_APPLIED) | weighted | refused, others
    assert all("not determine" in str(others[name]["exception"]) for name in refused)
    assert len(results) > 45


def test_a_value_that_the_format_does_not_hold(kernel: Any) -> None:
    """It names the column, as the caller counts or calls it."""
    import pandas as pd

    X, y = rows()
    made = ps.Estimator(kernel(LINEAR), "small").fit(X, y)
    message = r"^row 2, column x\[3\] cannot be scored: VALUE_OVERFLOW: a value lies beyond the range of the number format$"
    with pytest.raises(ValueError, match=message):
        made.predict([[1, 2, 3], [1, 2, 1e300]])
    frame = pd.DataFrame(X, columns=["rooms", "area", "age"])
    made = ps.Estimator(kernel(LINEAR), "small").fit(frame, y)
    frame.loc[70, "area"] = -1e300
    with pytest.raises(ValueError, match=r"^row 71, column area cannot be scored: VALUE_OVERFLOW"):
        made.predict(frame)
    for bad in ({"X": frame, "y": y}, {"X": frame.to_numpy(), "y": y}):
        column = "area" if bad["X"] is frame else r"x\[2\]"
        message = rf"^row 71, column {column} cannot be learned from: VALUE_OVERFLOW: a value lies beyond the range of the number format$"
        with pytest.raises(ValueError, match=message):
            ps.Estimator(kernel(LINEAR), "small").fit(**bad)
    y[3] = 1e300
    with pytest.raises(ValueError, match=r"^row 4, column y cannot be learned from"):
        ps.Estimator(kernel(LINEAR), "small").fit(X, y)


# models go back to a table


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as opened:
        opened.execute('DROP TABLE IF EXISTS learned, "My Models"')
        yield opened


def test_models_in_a_table(kernel: Any, postgres: str, connection: psycopg.Connection) -> None:
    X, y = rows(32)
    run = ps.Estimator(kernel(LINEAR), "small").fit(X, y).run_
    assert run.result is not None
    assert run.to_sql(postgres, "learned") == 4
    read = connection.execute("SELECT model, place, value FROM learned ORDER BY 1, 2").fetchall()
    expected = [("b", [], float(run.result["b"]))]
    expected += [("w", [i + 1], float(v)) for i, v in enumerate(run.result["w"])]
    assert read == expected
    with pytest.raises(SourceError, match="the server has a table learned already"):
        run.to_sql(postgres, "learned")
    assert run.to_sql(postgres, "learned", "append") == 4
    assert connection.execute("SELECT count(*) FROM learned").fetchone() == (8,)
    assert run.to_sql(postgres, '"My Models"') == 4
    assert run.to_sql(postgres, "learned", if_exists="replace") == 4
    assert connection.execute("SELECT count(*) FROM learned").fetchone() == (4,)


def test_all_or_nothing(kernel: Any, postgres: str, connection: psycopg.Connection) -> None:
    """What fails on the way leaves the rows that were there."""
    X, y = rows(16)
    run = ps.Estimator(kernel(LINEAR), "small").fit(X, y).run_
    connection.execute("CREATE TABLE learned (model text, place int4[], name text, value float8)")
    connection.execute("INSERT INTO learned VALUES ('old', '{}', NULL, 1)")
    connection.execute("ALTER TABLE learned ADD CHECK (model <> 'w')")
    with pytest.raises(SourceError) as caught:
        run.to_sql(postgres, "learned", if_exists="replace")
    assert caught.value.code == "E705" and "check constraint" in caught.value.message
    assert connection.execute("SELECT model FROM learned").fetchall() == [("old",)]


def test_kernels_with_an_index(tmp_path: Path) -> None:
    """What they read is no matrix, which scikit-learn would be told in other words."""
    path = tmp_path / "k.psk"
    path.write_text("kernel k(u: index[9], y: output, b: model[9])\n  b[u] += 0.5 * (y - b[u])\n")
    for X in ([["a"], ["b"]], [[1], [2]]):
        with pytest.raises(ValueError, match=r"this kernel has an index: ps\.compile\("):
            ps.Estimator(path, "small").fit(X, [1.0, 2.0])
