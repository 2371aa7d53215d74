"""Names of the Python API: one base of all errors, results of runs that were stopped, columns by name, kernels that are pickled."""

from __future__ import annotations

import builtins
import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.load import load_kernel
from penstock.models.errors import RunError

EXAMPLES = Path(__file__).parents[2] / "examples"
TABLE = {"age": np.arange(8.0), "churned": np.arange(8.0) % 2}
KERNEL = """
import penstock as ps

@ps.kernel(epochs=2)
def line(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"]):
    return w - 0.01 * ps.merge((ps.sum(w * x) - y) * x, 4)
"""


@pytest.fixture
def line(tmp_path: Path) -> ps.kernel:
    (tmp_path / "line.py").write_text(KERNEL)
    return load_kernel(tmp_path / "line.py")


def test_one_base_of_all_errors(line: ps.kernel, tmp_path: Path) -> None:
    for mistake, code in (
        (lambda: ps.compile(line, "nowhere", TABLE), "E602"),
        (lambda: ps.compile(line, "small", TABLE, colour=1), "E609"),
        (lambda: ps.open_table(str(tmp_path / "none.csv")), "E702"),
        (lambda: ps.load(tmp_path), "E806"),
        (lambda: ps.open(str(tmp_path / "tty")), "E831"),
    ):
        with pytest.raises(ps.Error) as caught:
            mistake()
        problem = caught.value
        assert problem.code == code and problem.message and problem.hint
        again = pickle.loads(pickle.dumps(problem))
        assert type(again) is type(problem) and str(again) == str(problem)
        assert (again.code, again.hint, again.spans) == (code, problem.hint, problem.spans)
    ringed = ps.compile(line, "ulx3s-25f-sdram", TABLE, bind={"x": "age", "y": "churned"}, ring=16)
    with pytest.raises(ps.Error, match="a ring, whose pages a bench does not bring") as caught:
        ringed.export(tmp_path / "core", ip="line")  # a Conflict, which the command line has, too
    assert (caught.value.code, caught.value.spans) == ("E902", ()) and caught.value.hint
    assert str(pickle.loads(pickle.dumps(caught.value))) == caught.value.message
    with pytest.raises(ps.Error) as caught:
        ps.compile(load_kernel(EXAMPLES / "svm.py"), "small", TABLE, bind={"x": ["none"]})
    assert caught.value.spans[0].file.endswith("svm.py")


def test_a_run_that_was_stopped_has_no_result(line: ps.kernel) -> None:
    design = ps.compile(line, "small", TABLE, bind={"x": "age", "y": "churned"})
    run = design.run({**TABLE, "age": np.full(8, np.nan)}, "golden")
    assert not run.ok and run.errors and "result" not in repr(run)
    with pytest.raises(RunError, match=r"at block 0, line pointer 1, value 1: .*") as caught:
        _ = run.result
    assert caught.value.error == run.errors[0] and caught.value.code == "E842"
    with pytest.raises(ps.Error):
        run.to_sql("postgresql://nobody", "models")
    done = design.run(TABLE, "golden")
    assert done.ok and design.run(TABLE, "model").result is None
    with pytest.raises(ps.Error, match="if_exists must be one of fail, replace, append, not 'foo'"):
        done.to_sql("postgresql://nobody", "models", if_exists="foo")


def test_a_text_is_one_column(line: ps.kernel) -> None:
    one = ps.compile(line, "small", TABLE, bind={"x": "age", "y": "churned"})
    several = ps.compile(line, "small", TABLE, bind={"x": ["age"], "y": ("churned",)})
    assert one.digest == several.digest and one.run(TABLE, "golden").ok


def test_bind_that_cannot_be(line: ps.kernel) -> None:
    with pytest.raises(ps.Error, match="it gives y a column or several, not b'churned'"):
        ps.compile(line, "small", TABLE, bind={"y": b"churned"})
    with pytest.raises(ps.Error, match="the kernel line takes no data") as caught:
        ps.compile(line, data=TABLE)
    assert {"table,", "target,", "bind,"} <= set(caught.value.hint.split())
    retnet = EXAMPLES / "retnet.py"
    with pytest.raises(ps.Error, match=r"takes no bind\b"):
        ps.compile(retnet, bind={"y": "churned"})


def test_pythons_own_names_are_not_hidden() -> None:
    assert {"kernel", "compile", "abs", "open"} <= set(dir(ps))
    assert not {name for name in ps.__all__ if hasattr(builtins, name)} and "kernel" in ps.__all__


def test_a_kernel_is_pickled(
    line: ps.kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = pickle.loads(pickle.dumps(line))
    assert (
        ps.compile(again, "small", dims={"d": 4}).digest
        == ps.compile(line, "small", dims={"d": 4}).digest
    )
    text = load_kernel(EXAMPLES / "logistic.psk")
    assert pickle.loads(pickle.dumps(text)).trace({"d": 4}) is not None

    (tmp_path / "installed.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    import installed  # type: ignore[import-not-found]

    data = pickle.dumps(installed.line)
    assert pickle.loads(data) is installed.line and len(data) < 100
    # a copy is no longer what the module has
    copied = copy.copy(installed.line)
    copied.warnings = ["its own"]
    other = pickle.loads(pickle.dumps(copied))
    assert other is not installed.line and other.warnings == ["its own"]
    assert installed.line.warnings != ["its own"]


def test_a_kernel_that_was_pickled_knows_its_lines(tmp_path: Path) -> None:
    """Mistakes in it are diagnosed where they stand, not where it is compiled."""
    (tmp_path / "wrong.py").write_text(KERNEL.replace("- y)", "- nothing)"))
    again = pickle.loads(pickle.dumps(load_kernel(tmp_path / "wrong.py")))
    with pytest.raises(ps.Error, match="nothing") as caught:
        ps.compile(again, dims={"d": 4})
    assert (Path(caught.value.spans[0].file).name, caught.value.spans[0].line) == ("wrong.py", 6)


def test_a_kernel_whose_module_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    import gone  # type: ignore[import-not-found]

    data = pickle.dumps(gone.line)
    del sys.modules["gone"].line
    with pytest.raises(AttributeError, match="line"):
        pickle.loads(data)


def test_a_scripts_kernel_is_pickled_without_its_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        KERNEL + "import pickle, sys\nprint('ran')\n"
        "open(sys.argv[1], 'wb').write(pickle.dumps(line))\n"
    )
    subprocess.run([sys.executable, script, tmp_path / "kernel"], check=True, capture_output=True)
    read = f"import pickle; print(pickle.load(open({str(tmp_path / 'kernel')!r}, 'rb')).name)"
    said = subprocess.run([sys.executable, "-c", read], check=True, capture_output=True, text=True)
    assert said.stdout == "line\n"


def test_a_design_has_few_names(line: ps.kernel) -> None:
    """Whatever its engine; what the engine adds is in `compiled`."""
    kernels = {
        "analytics": ps.compile(line, "small", dims={"d": 2}),
        "qr": ps.compile(EXAMPLES / "rank_model.py:slots"),
        "pim": ps.compile(EXAMPLES / "retnet.psk", dims={"k": 8, "v": 8}),
        "omap": ps.compile(ps.ObliviousMap(value=ps.bytes(24), capacity=300, name="m")),
    }
    for engine, design in kernels.items():
        names = [name for name in {*dir(design), *vars(design)} if not name.startswith("_")]
        assert len(names) <= 16, sorted(names)
        assert design.compiled.engine_name == design.describe()["engine"] == engine
        assert pickle.loads(pickle.dumps(design)) == design and not hasattr(design, "nothing")
    design = kernels["analytics"]
    with pytest.warns(DeprecationWarning, match=r"write design\.compiled\.plan"):
        assert design.plan is design.compiled.plan
    with pytest.raises(ps.Error, match="make no epochs over rows"):
        kernels["pim"].order(TABLE)


def test_names_of_engines() -> None:
    from penstock.host.learned_index import LearnedIndex

    assert ps.LearnedIndex is LearnedIndex
    with ps.ObliviousMap(value=ps.bytes(8), capacity=300, name="m").open(backend="golden") as held:
        held[5] = b"12345678"
        assert held[5] == b"12345678" and held.config.value_bytes == 8
