"""`penstock sql`: the documented session word for word, and trainings in a server beside scikit-learn, fractions and SELECT."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from penstock.dsl.core.diagnostics import KernelError
from penstock.sql import models
from testbench.command_line import told

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "sql.md"
_MARK = "<<<next>>>"


@pytest.fixture(scope="module")
def server(postgres: str) -> Iterator[str]:
    """A server with the functions; its user's own schema is `penstock`, so tables go to `public`."""
    assert told(["sql", "install", "--dsn", postgres]).startswith(
        "schema penstock is there: penstock "
    )
    yield postgres
    assert told(["sql", "uninstall", "--dsn", postgres]) == "schema penstock is gone\n"


@pytest.fixture
def connection(server: str) -> Iterator[Any]:
    with psycopg.connect(server, autocommit=True) as found:
        found.execute(
            "DROP SCHEMA IF EXISTS sql_test CASCADE; CREATE SCHEMA sql_test; SET search_path = sql_test"
        )
        yield found
        found.execute("DROP SCHEMA sql_test CASCADE")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def _table(connection: Any, x: np.ndarray, y: Any, kind: str = "float8") -> None:
    connection.execute(f"CREATE TABLE t (x {kind}[], y float8)")
    with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        for row, label in zip(x.tolist(), np.asarray(y).tolist(), strict=True):
            copy.write_row(
                ("{" + ",".join("NULL" if v is None else repr(v) for v in row) + "}", label)
            )


def test_session(server: str) -> None:
    [block] = re.findall(r"```psql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    parts = re.split(r"^=> (.*)\n", block, flags=re.MULTILINE)[1:]
    script = "SET search_path = sql_session;\n" + "".join(
        f"{c}\n\\echo '{_MARK}'\n" for c in parts[::2]
    )
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS sql_session CASCADE; CREATE SCHEMA sql_session")
    done = subprocess.run(
        ["psql", server, "-X", "-q"],
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    shown = done.stdout.split(f"{_MARK}\n")
    assert shown[-1] == "" and len(shown) == len(parts) // 2 + 1
    for command_, expected, found in zip(parts[::2], parts[1::2], shown, strict=False):
        assert found == expected, command_
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA sql_session CASCADE")


def test_classes_beside_scikit_learn(connection: Any) -> None:
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    x, y = load_breast_cancer(return_X_y=True)
    x = x[:, :6]
    scaled = (x - x.mean(0)) / x.std(0)
    _table(connection, np.column_stack([np.ones(len(x)), x]), y)
    connection.execute("SELECT penstock.logregr_train('t', 'o', 'y = 1', 'x')")
    [(loss, used)] = connection.execute(
        "SELECT -log_likelihood, num_rows_processed FROM o"
    ).fetchall()
    judge = LogisticRegression(C=1e12, tol=1e-10, max_iter=10_000).fit(scaled, y)
    score = judge.decision_function(scaled)
    least = np.logaddexp(0, np.where(y == 1, -score, score)).sum()
    assert used == len(x) and loss <= least * 1.001
    wrong = "SELECT count(*) FROM t, o WHERE penstock.logregr_predict(coef, x) <> (penstock.logregr_predict_prob(coef, x) >= 0.5)"
    assert connection.execute(wrong).fetchone() == (0,)

    connection.execute("DROP TABLE t")
    whole = np.column_stack([np.ones(len(x)), scaled])
    _table(connection, whole, y)
    connection.execute("SELECT penstock.svm_classification('t', 's', 'y::int', 'x')")
    [(loss, coef)] = connection.execute("SELECT loss, coef FROM s").fetchall()
    sign, w = np.where(y == 1, 1, -1), np.array(coef)
    assert loss == pytest.approx(
        0.005 * w @ w + np.maximum(0, 1 - sign * (whole @ w)).mean(), rel=1e-12
    )
    svc = LinearSVC(C=100 / len(x), loss="hinge", fit_intercept=False, max_iter=100_000, tol=1e-6)
    v = svc.fit(whole, y).coef_[0]
    assert loss <= 1.01 * (0.005 * v @ v + np.maximum(0, 1 - sign * (whole @ v)).mean())


@pytest.mark.parametrize("kind", ["int8", "int4", "float4", "float8", "numeric"])
def test_least_squares(connection: Any, kind: str) -> None:
    source = np.random.default_rng(7)
    x = source.integers(0, 1000, (40, 3))
    y = x @ [2, -3, 0.5] + source.normal(size=40)
    rows = np.column_stack([x[:, 0], np.full(40, 2), x[:, 1:]]).astype(object)
    rows[3, 2] = None
    _table(connection, rows, y, kind)
    connection.execute("SELECT penstock.linregr_train('t', 'o', 'y', 'x')")
    names = "coef, std_err, variance_covariance, r2, num_rows_processed, num_missing_rows_skipped"
    [(coef, std_err, covariance, r2, used, skipped)] = connection.execute(
        f"SELECT {names} FROM o"
    ).fetchall()
    kept = np.delete(np.arange(40), 3)
    matrix = rows[kept].astype(float)
    judge = np.linalg.lstsq(matrix, y[kept], rcond=None)[0]
    assert np.allclose(coef, judge, rtol=1e-9) and (used, skipped) == (39, 1)
    left = y[kept] - matrix @ judge
    whole = np.linalg.inv(matrix.T @ matrix) * (left @ left) / (39 - 4)
    assert np.allclose(covariance, whole, rtol=1e-7)
    assert np.allclose(std_err, np.sqrt(np.diag(whole)), rtol=1e-7)
    assert r2 == pytest.approx(1 - left @ left / ((y[kept] - y[kept].mean()) ** 2).sum())


def test_groups_and_own_changes(connection: Any) -> None:
    connection.execute("CREATE TABLE g (k text, n int, x float8, y float8)")
    connection.execute(
        "INSERT INTO g SELECT 'a' || i % 2, i % 3, i, (i % 2 + 1) * i + i % 3 FROM generate_series(1, 60) i"
    )
    with connection.transaction():
        connection.execute("DELETE FROM g WHERE n = 2")  # the transaction's own change
        connection.execute("SELECT penstock.linregr_train('g', 'o', 'y', 'ARRAY[1, x]', 'k, n')")
    found = connection.execute(
        "SELECT k, n, coef, num_rows_processed FROM o ORDER BY k, n"
    ).fetchall()
    counts = connection.execute(
        "SELECT k, n, count(*) FROM g GROUP BY k, n ORDER BY k, n"
    ).fetchall()
    assert [(k, n, rows) for k, n, _, rows in found] == counts and len(counts) == 4
    for k, n, coef, _ in found:
        assert np.allclose(coef, [n, 1 + int(k[1])], atol=1e-9)


_MEAN = "kernel f(x: input[d], m: model[d], r: meta = 1)\n  m <- r * mean(x)"
_FIT = "fit f(x: input[d], y: output)\n  m <- least_squares(x, target=y)"


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("linregr_train('nix', 'o', 'y', 'x')", "there is no table nix", "qualify it"),
        ("linregr_train('t', 't', 'y', 'x')", "there is a table t already", "DROP TABLE"),
        ("linregr_train('t', 'o', 'y', 'ARRAY[x[1], 2 * x[1]]')", "E844: ", "on_singular"),
        ("linregr_train('t', 'o', 'y', 'x', 'y > 1')", "y > 1 is no column's name", "columns"),
        ("linregr_train('t', 'o', 'y', 'x', NULL, true)", "no test of heteroskedasticity", "leave"),
        ("logregr_train('t', 'o', 'y', 'x')", "double precision, not boolean", "a condition"),
        ("logregr_train('t', 'o', 'y > 1', 'x', NULL, 20, 'irls')", "no optimizer irls", "'igd'"),
        ("svm_classification('t', 'o', 'y > 1', 'x', 'gaussian')", "no kernel gaussian", "'linear'"),
        ("svm_classification('t', 'o', 'y > 1', 'x', params => 'n_folds=3')", "n_folds=3", "lambda"),
        ("svm_classification('t', 'o', 'y', 'x')", "5 values, not two", "a condition"),
        ("train('kernel k', 't', 'o', 'y', 'x')", "E101: ", ""),
        ("train('kernel k', 't', 'o', 'y', 'x')", "kernel:1:", ""),
        (f"train('{_FIT}', 't', 'o', 'y', 'x', '{{\"init\": 1}}')", "no option init", "epochs"),
        (f"train('{_FIT}', 't', 'o', 'y', 'x', '{{\"target\": \"nix\"}}')", "nix", ""),
        (f"train('{_FIT}', 't', 'o', 'y', 'ARRAY[CASE WHEN y = 2 THEN ''nan'' ELSE y END]')", "row 3, column x[1] cannot be learned from", "on_nan"),
        ("logregr_train('t', 'o', 'y > 1', 'ARRAY[1, CASE WHEN y = 2 THEN ''inf'' ELSE y END]')", "row 3, x[2] is not finite", "WHERE"),
        ("linregr_train('t', 'o', 'y', 'ARRAY[1, CASE WHEN y = 2 THEN ''nan'' ELSE y END]')", "row 3, x[2] is not finite", "a view without"),
        ("linregr_train('t', 'o', 'y', 'ARRAY[z]')", "the independent variable: ARRAY[z]", "ARRAY[1, age]"),
    ],
)  # fmt: skip
def test_mistakes(connection: Any, call: str, message: str, hint: str) -> None:
    _table(connection, np.arange(10.0).reshape(5, 2) ** 2, np.arange(5))
    with pytest.raises(psycopg.Error) as raised:
        connection.execute(f"SELECT penstock.{call}")
    told = raised.value.diag
    assert message in f"{told.message_primary}\n{told.message_detail}", told.message_primary
    assert (
        hint in (told.message_hint or "")
        and "Traceback" not in f"{told.message_primary}{told.message_detail}"
    )
    assert connection.execute("SELECT to_regclass('o'), to_regclass('o_summary')").fetchone() == (
        None,
        None,
    )


#: what is refused before anything is learned: with the argument that it is of
_ARGUMENTS = [
    ("'t where false', 'o', 'y', 'x'", "42602", "the source: t where false", "VIEW"),
    ("'(select * from t) q', 'o', 'y', 'x'", "42602", "the source: (select", "VIEW"),
    ("'a.b.c.d', 'o', 'y', 'x'", "42601", "the source: a.b.c.d", "VIEW"),
    ("'i', 'o', 'y', 'x'", "42809", "the source: i", "a table or a view"),
    ("'t', 'a b c', 'y', 'x'", "22023", "the out table: a b c", "quoted"),
    ("'t', 'nix.o', 'y', 'x'", "3F000", "the out table: nix.o", "schema"),
    (f"'t', '{'o' * 56}', 'y', 'x'", "22023", "o" * 56, "at most 55 bytes"),
    ("'t', 'o', 'y +', 'x'", "42601", "the dependent variable: y +", "number"),
    ("'t', 'o', 'w', 'x'", "22P02", "the dependent variable: w", "number"),
    ("'t', 'o', 'y', 'ARRAY[1,y,''x'']'", "22P02", "the independent variable: ARRAY[1,y,'x']", "ARRAY[1, age]"),
    ("'t', 'o', 'avg(y)', 'x'", "42803", "the independent variable: x; the dependent variable: avg(y)", "ARRAY"),
    ("'t', 'o', 'y / (y - 1)', 'x'", "22012", "the dependent variable: y / (y - 1)", "number"),
    ("'t', 'o', 'y', 'x', 'nix'", "42703", "grouping_cols: nix", "columns"),
    ("'t', 'o', 'y', 'x', 'w, w'", "42701", "grouping_cols: w, w", "each once"),
]  # fmt: skip


def test_arguments(connection: Any) -> None:
    """One error with the server's own SQLSTATE, which names the argument; nothing of Python's."""
    _table(connection, np.arange(10.0).reshape(5, 2) ** 2, np.arange(5))
    connection.execute("ALTER TABLE t ADD w text DEFAULT 'a'; CREATE INDEX i ON t (y)")
    for call, state, detail, hint in _ARGUMENTS:
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(f"SELECT penstock.linregr_train({call})")
        told = raised.value.diag
        assert told.sqlstate == state, (call, told.message_primary)
        assert detail in (told.message_detail or "") and hint in (told.message_hint or ""), call
        assert "Traceback" not in f"{told.context}" and "spiexc" not in f"{told.message_primary}"
    assert connection.execute("SELECT to_regclass('o'), to_regclass('o_summary')").fetchone() == (
        None,
        None,
    )


def test_predictions_of_several_models(connection: Any) -> None:
    """One session's models have tables of different types; a mistake has a hint."""
    for name in "ab":
        connection.execute(f"""
            CREATE TABLE {name} AS SELECT '{{1}}'::float8[] AS coef, '{{{name},t}}'::text[] AS __dep_var_mapping;
            CREATE TABLE {name}_summary AS SELECT 'ARRAY[z]'::text AS independent_varname, NULL::text AS grouping_col, 'text'::text AS dependent_vartype""")
    connection.execute("CREATE TABLE t AS SELECT 1 AS i, -1::float8 AS z")
    for name in "aba":
        connection.execute(
            f"DROP TABLE IF EXISTS p; SELECT penstock.svm_predict('{name}', 't', 'i', 'p')"
        )
        assert connection.execute("SELECT prediction FROM p").fetchone() == (name,)
    for call in (
        "'a', 't', 'nix', 'q'",
        "'a', 't', 'i', 'p'",
        "'a b', 't', 'i', 'q'",
        "'a', 't', 'i', NULL",
    ):
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(f"SELECT penstock.svm_predict({call})")
        assert "svm_predict" in (raised.value.diag.message_hint or ""), call


def test_whole_numbers_beside_2_to_the_63() -> None:
    """Coefficients and their covariance are those of the numbers less what they are near."""
    near = np.arange(30) % 7
    y = near * 0.5 + np.arange(30) % 3
    [far], [beside] = (
        models.linregr(np.column_stack([np.full(30, 2), near + off]), y, 0, {})[0]
        for off in (2**63 - 8, 0)
    )
    assert far["coef"][1] == pytest.approx(beside["coef"][1], rel=1e-12)
    covariances = far["variance_covariance"], beside["variance_covariance"]
    assert covariances[0][1, 1] == pytest.approx(covariances[1][1, 1], rel=1e-9)
    for found in (far, beside):
        spread = np.sqrt(np.diag(found["variance_covariance"]))
        assert spread == pytest.approx(found["std_err"], rel=1e-9)
    whole = np.column_stack([np.full(30, 2.0), near])
    left = y - whole @ beside["coef"]
    judge = np.linalg.inv(whole.T @ whole) * (left @ left) / 28
    assert np.allclose(beside["variance_covariance"], judge, rtol=1e-9)


@pytest.mark.parametrize(
    "wrong", [{"max_iter": 0}, {"max_iter": 2.5}, {"tolerance": "NaN"}, {"lambda": 10**400}]
)
def test_settings(wrong: dict[str, Any]) -> None:
    options = {"max_iter": 100, "tolerance": 0.1, "lambda": 0.1, **wrong}
    for method in (models.logregr, models.svm):
        with pytest.raises(models.Said, match=next(iter(wrong))):
            method(np.eye(2), np.array(["true", "false"]), 0, options)


def test_scores_of_nan(connection: Any) -> None:
    """As NumPy has them, a class of none being unknown."""
    listed = ", ".join(
        f"penstock.{f}(ARRAY[1, 2], ARRAY[1, 'NaN'::float8])"
        for f in ("linregr_predict", "logregr_predict_prob", "logregr_predict")
    )
    [(score, probability, of_class)] = connection.execute(f"SELECT {listed}").fetchall()
    assert np.isnan([score, probability]).all() and of_class is None
    connection.execute("""
        CREATE TABLE t AS SELECT 1 AS i, 'NaN'::float8 AS z; CREATE TABLE s AS SELECT '{1}'::float8[] AS coef, '{f,t}'::text[] AS __dep_var_mapping;
        CREATE TABLE s_summary AS SELECT 'ARRAY[z]'::text AS independent_varname, NULL::text AS grouping_col, 'text'::text AS dependent_vartype;
        SELECT penstock.svm_predict('s', 't', 'i', 'p')""")
    assert connection.execute("SELECT prediction FROM p").fetchone() == (None,)


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        *((_MEAN, wrong, "no JSON object") for wrong in (None, "x", 3, [1])),
        (_MEAN, {"metas": [1]}, "metas: it must give values by name"),
        (_MEAN, {"dims": 3}, "dims: it must give values by name"),
        (_MEAN, {"format": 7}, "there is no format 7"),
        (_MEAN, {"target": 3}, "there is no target 3"),
        (_MEAN, {"metas": {"r": "x"}}, "the meta r must be a finite number"),
        (_FIT, {"limbs": "x"}, "limbs: it must be a whole number"),
        (_FIT, {"on_singular": 3}, "on_singular must be one of"),
        (None, {}, "the kernel is NULL"),
        (_FIT, {}, "the dependent variable is NULL, and the kernel has an output"),
    ],
)
def test_options(kernel: str, options: Any, message: str) -> None:
    """What a function `train` does not take, without a server."""
    x = np.arange(10.0).reshape(5, 2)
    with pytest.raises((models.Said, KernelError), match=message) as raised:
        given = {"kernel": kernel, "options": options, "labelled": bool(options)}
        models.train(x, x[:, 0], 0, given)
    hint = (
        raised.value.said["hint"]
        if isinstance(raised.value, models.Said)
        else raised.value.diagnostic.hint
    )
    assert hint and "--" not in models.in_sql(hint, "train")


def test_hints_name_options_of_sql() -> None:
    hint = models.in_sql(
        "--on-nan skip leaves such rows out; another --format, as in --set r=0.05", "train"
    )
    assert (
        hint
        == '{"on_nan": "skip"} leaves such rows out; another format, as in {"metas": {"r": 0.05}}'
    )


def _children(pid: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = place.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == pid:
            found.append(int(place.parent.name))
    return found


@pytest.mark.parametrize("how", ["cancel", "kill worker", "terminate", "kill while it reads"])
def test_ended(server: str, connection: Any, how: str, stack: ExitStack) -> None:
    """A training that is ended leaves nothing: no table, lock, or process."""
    _table(connection, np.random.default_rng(1).normal(size=(200, 3)), np.arange(200.0))
    text = "kernel k(x: input[d], y: output, w: model[d])\n  w <- w + 0.001 * mean((y - sum(w * x)) * x)\n  epochs 1000000"
    other = stack.enter_context(psycopg.connect(server, autocommit=True))
    backend, ended = other.info.backend_pid, list[Any]()

    def training() -> None:
        source = "sql_test.t" if how != "kill while it reads" else "sql_test.slow"
        try:
            other.execute("SELECT penstock.train(%s, %s, 'sql_test.o', 'y', 'x')", (text, source))
        except psycopg.Error as problem:
            ended.append((problem, time.monotonic()))

    connection.execute(
        "CREATE VIEW slow AS SELECT t.* FROM t WHERE pg_sleep(0.01)::text IS NOT NULL"
    )
    thread = threading.Thread(target=training, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not (workers := _children(backend)) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(workers) == 1
    time.sleep(0.5)
    began = time.monotonic()
    if how == "cancel":
        other.cancel()
    elif how == "terminate":
        connection.execute("SELECT pg_terminate_backend(%s)", (backend,))
    else:
        os.kill(workers[0], signal.SIGKILL)
    thread.join(60)
    [(problem, at)] = ended
    assert at - began < (1 if how == "cancel" else 30)
    if how.startswith("kill"):
        assert "the worker ended" in str(problem) and "signal 9" in str(problem)
    gone = time.monotonic() + 20
    while Path(f"/proc/{workers[0]}").exists() and time.monotonic() < gone:
        time.sleep(0.05)
    assert not Path(f"/proc/{workers[0]}").exists()
    assert connection.execute("SELECT to_regclass('o'), to_regclass('o_summary')").fetchone() == (
        None,
        None,
    )
    held = "SELECT count(*) FROM pg_locks WHERE relation IN ('t'::regclass, 'slow'::regclass) AND pid <> pg_backend_pid()"
    assert connection.execute(held).fetchone() == (0,)


def test_rows_are_those_of_the_snapshot(server: str, connection: Any) -> None:
    """Under REPEATABLE READ the rows learned from are those that SELECT sees, while another session writes."""
    _table(connection, np.random.default_rng(1).normal(size=(300, 3)), np.arange(300.0))
    with psycopg.connect(server) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SET LOCAL search_path = sql_test")
        [(before,)] = reader.execute("SELECT count(*) FROM t").fetchall()
        connection.execute(
            "DELETE FROM t WHERE y < 100; INSERT INTO t SELECT x, y + 1000 FROM t WHERE y > 290"
        )
        reader.execute("SELECT penstock.linregr_train('t', 'o', 'y', 'x')")
        assert reader.execute("SELECT num_rows_processed FROM o").fetchone() == (before,)


#: operators of each name of the catalog's, for each two of these types that the catalog has none for: whoever calls one is refused
_TAKEN = """
CREATE FUNCTION taken({left}, {right}) RETURNS {gives} LANGUAGE plpgsql AS $$ BEGIN RAISE 'taken: {name} {left} {right}'; END $$;
CREATE OPERATOR {name} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = taken)"""
_KINDS = (
    "int4",
    "int8",
    "float8",
    "numeric",
    "text",
    "name",
    "oid",
    "jsonb",
    "bool",
    "float8[]",
    "text[]",
    "regclass",
)


def _take_operators(connection: Any) -> None:
    listed = "SELECT oprname, oprleft::regtype::text, oprright::regtype::text FROM pg_operator WHERE oprleft <> 0"
    there = connection.execute(listed).fetchall()
    named = dict(
        connection.execute(
            "SELECT k, k::regtype::text FROM unnest(%s::text[]) k", (list(_KINDS),)
        ).fetchall()
    )
    for name in ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||", "->", "->>"):
        gives = {
            "+": "float8",
            "-": "float8",
            "*": "float8",
            "/": "float8",
            "||": "text",
            "->": "jsonb",
            "->>": "text",
        }.get(name, "bool")
        for left in _KINDS:
            for right in _KINDS:
                if (name, named[left], named[right]) not in there:
                    function = _TAKEN.replace("taken(", f'"{name} {left} {right}"(').replace(
                        "= taken", f'= "{name} {left} {right}"'
                    )
                    connection.execute(
                        function.format(name=name, left=left, right=right, gives=gives)
                    )


def test_operators_of_others(connection: Any) -> None:
    """Whoever may create objects in a schema of the caller's path gives it operators that fit better: no function calls one."""
    source = np.random.default_rng(3)
    x = np.column_stack([np.ones(40), source.normal(size=(40, 2))])
    _table(connection, x, x @ [1, 2, 3])
    connection.execute(
        "ALTER TABLE t ADD c boolean, ADD g text DEFAULT 'a'; UPDATE t SET c = y > 0"
    )
    _take_operators(connection)
    with pytest.raises(psycopg.errors.RaiseException, match="taken: = int4 float8"):
        connection.execute("SELECT 1::int4 = 1::float8")
    assert connection.execute("SELECT penstock.version()").fetchone()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="there is no table nix"):
        connection.execute("SELECT penstock.linregr_train('nix', 'o', 'y', 'x')")
    connection.execute("SELECT penstock.linregr_train('t', 'o', 'y', 'x', 'g', false)")
    connection.execute("SELECT penstock.logregr_train('t', 'l', 'c', 'x', 'g', 20, 'igd', 0.01)")
    connection.execute(
        "SELECT penstock.svm_classification('t', 's', 'c', 'x', 'linear', NULL, 'g', 'max_iter=5, lambda=0.1')"
    )
    scores = "penstock.linregr_predict(o.coef, x), penstock.logregr_predict(l.coef, x), penstock.logregr_predict_prob(l.coef, x)"
    found = connection.execute(f"SELECT y, {scores} FROM t, o, l").fetchall()
    assert len(found) == 40 and all(abs(y - predicted) < 1e-9 for y, predicted, *_ in found)
    connection.execute("SELECT penstock.svm_predict('s', 't', 'y', 'p')")
    assert connection.execute("SELECT prediction FROM p").rowcount == 40


#: what lets a stranger write what a reader's model says, or say it for the model, and what undoes that
_STRANGER = "GRANT USAGE ON SCHEMA penstock, sql_test TO PUBLIC"
_WAYS = {
    "its owner": ("ALTER TABLE s OWNER TO stranger; GRANT ALL ON s TO reader", "ALTER TABLE s OWNER TO reader"),
    "the schema's owner": ("ALTER SCHEMA sql_test OWNER TO stranger", "ALTER SCHEMA sql_test OWNER TO CURRENT_USER"),
    "a column": ("GRANT UPDATE (independent_varname) ON s_summary TO stranger", "REVOKE ALL ON s_summary FROM stranger"),
    "everybody": ("GRANT INSERT ON s TO PUBLIC", "REVOKE ALL ON s FROM PUBLIC"),
    "all tables": ("ALTER ROLE stranger NOINHERIT; GRANT pg_write_all_data TO stranger", "REVOKE pg_write_all_data FROM stranger"),
    "another member of a role": ("GRANT band TO reader, stranger; GRANT UPDATE ON s TO band", "REVOKE ALL ON s FROM band; REVOKE band FROM reader, stranger"),
    "the owner of a role's table": (
        "GRANT stranger TO reader; ALTER TABLE s_summary OWNER TO stranger",
        "REASSIGN OWNED BY stranger TO reader; REVOKE stranger FROM reader",
    ),
}  # fmt: skip


def test_a_model_of_others_is_not_run(server: str, connection: Any) -> None:
    """What its tables hold is SQL: it runs with the rights of the caller, and of whom the caller's session can be again."""
    _table(connection, np.eye(2), [0, 1])
    connection.execute(
        "DROP ROLE IF EXISTS stranger, reader, band; CREATE ROLE stranger LOGIN; CREATE ROLE reader LOGIN; CREATE ROLE band"
    )
    connection.execute(
        f"{_STRANGER}; GRANT CREATE ON SCHEMA sql_test TO reader; GRANT ALL ON t TO reader"
    )
    predict = "DROP TABLE IF EXISTS p; SELECT penstock.svm_predict('s', 't', 'y', 'p')"
    refused = pytest.raises(psycopg.errors.InvalidParameterValue, match="no table of yours")
    try:
        with psycopg.connect(server.replace("penstock@", "reader@"), autocommit=True) as reader:
            reader.execute("SET client_min_messages = error; SET search_path = sql_test")
            reader.execute("SELECT penstock.svm_classification('t', 's', 'y::int', 'x')")
            for way, (begin, end) in _WAYS.items():
                reader.execute(predict)
                connection.execute(begin)
                with pytest.raises(
                    psycopg.errors.InvalidParameterValue,
                    match=r"no table of yours: \w+ may write it",
                ):
                    reader.execute(predict)
                    raise AssertionError(way)
                connection.execute(end)
            # rows of children are no part of a model, and a path is not asked twice
            connection.execute(
                "CREATE TABLE more () INHERITS (s); INSERT INTO more TABLE s; GRANT SELECT ON more TO reader"
            )
            reader.execute(predict)
            assert reader.execute("SELECT count(*) FROM p").fetchone() == (2,)
            assert reader.execute("SELECT penstock.own_table('s')").fetchone() == ("sql_test.s",)
            for who in ("SET ROLE reader", "SET SESSION AUTHORIZATION reader"):
                with psycopg.connect(server, autocommit=True) as admin:
                    admin.execute(f"{who}; SET search_path = sql_test")
                    with refused:
                        admin.execute(predict)
            reader.execute("ALTER TABLE s_summary RENAME TO kept")
            for other in (
                "VIEW s_summary AS TABLE kept",
                "TABLE s_summary AS SELECT *, 'x'::mine AS grouping_col FROM other",
            ):
                reader.execute(
                    "CREATE TYPE mine AS ENUM ('x'); CREATE VIEW other AS SELECT independent_varname, dependent_vartype FROM kept"
                )
                reader.execute(f"CREATE {other}")
                with pytest.raises(psycopg.errors.InvalidParameterValue, match="or no plain one"):
                    reader.execute(predict)
                reader.execute("DROP TYPE mine CASCADE; DROP VIEW other")
                connection.execute("DROP VIEW IF EXISTS s_summary") if "VIEW s_" in other else None
    finally:
        connection.execute(
            "DROP SCHEMA sql_test CASCADE; CREATE SCHEMA sql_test; DROP OWNED BY stranger, reader; DROP ROLE stranger, reader, band"
        )


def test_a_model_is_that_of_one_moment(server: str, connection: Any) -> None:
    """Its table and its summary change together, between the moment when a prediction looks at the summary and when it looks at the rows."""
    connection.execute("""
        CREATE TABLE t AS SELECT 1 AS i, 7::float8 AS z; CREATE TABLE s AS SELECT '{1}'::float8[] AS coef, '{f,t}'::text[] AS __dep_var_mapping;
        CREATE TABLE s_summary AS SELECT 'ARRAY[z]'::text AS independent_varname, NULL::text AS grouping_col, 'text'::text AS dependent_vartype""")
    with psycopg.connect(server) as other:
        other.execute("SET search_path = sql_test; LOCK t")
        predict = "SELECT penstock.svm_predict('s', 't', 'i', 'p')"
        reader = threading.Thread(target=lambda: connection.execute(predict))
        reader.start()
        while other.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is None:
            pass
        other.execute(
            "UPDATE s SET coef = '{-100}'; UPDATE s_summary SET independent_varname = 'ARRAY[-z]'"
        )
    reader.join()
    assert connection.execute("SELECT decision_function FROM p").fetchone() in ((7.0,), (700.0,))


def test_types_of_others_are_not_called(connection: Any) -> None:
    """Their checks and casts would run with the rights of who trains, as no SELECT of the column does."""
    _table(connection, np.tile(np.eye(2), (2, 1)), range(4))
    connection.execute("""
        CREATE FUNCTION held(text) RETURNS bool LANGUAGE sql AS 'SELECT true'; CREATE DOMAIN word AS text CHECK (held(value));
        CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TYPE pair AS (w word);
        ALTER TABLE t ADD w word DEFAULT 'w', ADD m mood DEFAULT 'a', ADD p pair DEFAULT ROW('w'); UPDATE t SET m = 'b' WHERE y > 1;
        CREATE OR REPLACE FUNCTION held(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;
        CREATE FUNCTION said(mood) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;
        CREATE CAST (mood AS text) WITH FUNCTION said(mood)""")
    connection.execute(
        "SELECT penstock.svm_classification('t', 's', 'm', 'x', grouping_col => 'w')"
    )
    assert connection.execute("SELECT w, __dep_var_mapping FROM s").fetchall() == [
        ("w", ["a", "b"])
    ]
    connection.execute("SELECT penstock.linregr_train('t', 'o', 'y', 'x[1]', 'm')")
    assert connection.execute("SELECT m FROM o ORDER BY m").fetchall() == [("a",), ("b",)]
    connection.execute("SELECT penstock.svm_predict('s', 't', 'y', 'predicted')")
    found = connection.execute("SELECT prediction FROM predicted").fetchall()
    assert len(found) == 4 and set(found) <= {("a",), ("b",)}
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="cannot be grouped by pair"):
        connection.execute("SELECT penstock.linregr_train('t', 'q', 'y', 'x', 'p')")


def test_commands(server: str, connection: Any) -> None:
    text = told(["sql", "install", "--dsn", server], 1)
    assert "has a schema penstock already" in text and "penstock sql upgrade" in text
    assert told(["sql", "upgrade", "--dsn", server]).startswith("schema penstock is there")
    # whoever owns it could change what others call
    connection.execute("CREATE ROLE squatter; ALTER SCHEMA penstock OWNER TO squatter")
    try:
        for command in ("install", "upgrade"):
            assert "is no superuser" in told(["sql", command, "--dsn", server], 1)
    finally:
        connection.execute("ALTER SCHEMA penstock OWNER TO CURRENT_USER; DROP ROLE squatter")
    assert "error[E705]" in told(
        ["sql", "install", "--dsn", "postgresql://nobody@/nix?host=/nowhere"], 1
    )
