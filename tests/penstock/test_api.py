"""The Python API without a simulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.errors import RunWarning
from penstock.host.sources import SourceError
from penstock.models.memory import FixedLatency

KERNEL = """import penstock as ps

@ps.kernel(epochs=50)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], b: ps.Model, rate: ps.Meta = 0.1):
    error = ps.sum(w * x) + b - y
    step = ps.merge(error * x, 4) / 4
    ps.until(ps.norm(step) < 0.05)
    return w - rate * step, b - rate * ps.merge(error, 4) / 4
"""


@pytest.fixture
def design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ps.Design:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    return ps.compile("k.py", dims={"d": 3}, init={"b": 0.5})


def table(rows: int = 60, columns: int = 3) -> ps.api.Table:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    return ps.api.Table.from_columns({"y": x @ np.arange(1, columns + 1, dtype=np.float32), "x": x})


def test_golden_learns(design: ps.Design) -> None:
    run = design.run(table(), "golden")
    assert run.result is not None and run.codes is not None and not run.errors
    assert run.converged and 1 < run.epochs < 50
    assert run.result["w"].shape == (3,) and run.result["b"].shape == ()
    assert np.allclose(run.result["w"], [1, 2, 3], atol=0.1)


MAP = ps.ObliviousMap(value=ps.bytes(8), capacity=1000, name="m")


@pytest.mark.parametrize(
    ("kernel", "options", "said"),
    [
        ("linear", {"threads": 0}, "threads: it must be a whole number from 1 to 256, not 0"),
        ("linear", {"walkers": 0}, "walkers: it must be a whole number from"),
        ("linear", {"fill": 7}, "fill: it must be a number, 0.01<=x<=1.0, not 7"),
        ("linear", {"prefer": "speed"}, "prefer must be one of time, area, energy, not 'speed'"),
        ("closed_form", {"limbs": 1.5}, "limbs: it must be a whole number from 1 to 3, not 1.5"),
        ("closed_form", {"limbs": 4}, "limbs: it must be a whole number from 1 to 3, not 4"),
        ("retnet", {"batch": 0}, "batch: it must be a whole number from 1 to 65,536, not 0"),
        (
            "retnet",
            {"schedule": "thirds"},
            "schedule must be one of together, halves, quarters, not 'thirds'",
        ),
        ("", {"share": 2}, "share: it must be a number, 0<=x<1, not 2"),
        ("linear", {"threads": [1]}, "threads: it must be a whole number from 1 to 256, not [1]"),
        ("linear", {"fill": {}}, "fill: it must be a number, 0.01<=x<=1.0, not {}"),
        ("linear", {"fill": 10**400}, "fill: it must be a number, 0.01<=x<=1.0, not 1"),
    ],
)
def test_what_the_command_line_refuses(kernel: str, options: dict[str, Any], said: str) -> None:
    """Some of these had been planned with, others were internal errors."""
    given = Path(__file__).parents[2] / "examples" / f"{kernel}.py" if kernel else MAP
    with pytest.raises(KernelError) as caught:
        ps.compile(given, **options)
    assert caught.value.diagnostic.code == "E609"
    assert caught.value.diagnostic.message.startswith(said)


def test_what_is_doubtful_is_warned_of(design: ps.Design) -> None:
    """As the command line prints it, at the line that compiles; what another compilation found is not said again."""
    with pytest.warns(RunWarning) as found:
        ps.compile("k.py", dims={"d": 3}, metas={"rate": 0.001}, format="fixed:8,8")
    assert {one.filename for one in found} == {__file__}
    assert (
        len([one for one in found if "the meta rate, 0.001, is too small" in str(one.message)]) == 1
    )
    with pytest.warns(RunWarning) as found:
        ps.compile("k.py", dims={"d": 3}, metas={"rate": 0.001})
    assert not any("too small" in str(one.message) for one in found)


def test_mistakes_are_named(design: ps.Design) -> None:
    """All that a user's mistake raises is `ps.Error`."""
    for bind, said in (
        ({"y": None}, "bind: it gives y a column or several, not None"),
        ("y=left", "bind: it gives columns by name"),
    ):
        with pytest.raises(ps.Error, match=said):
            ps.compile("k.py", table=table(), bind=bind)
    with pytest.raises(ps.Error, match="save: the cycle model has no result"):
        design.run(table(), "model").save("run")
    with pytest.raises(ps.Error, match="waves: "):
        design.run(table(), "pysim", waves="waves.fst")
    with pytest.raises(ps.Error, match=r"nothing listens|not answer"):
        design.run(table(), "board", device="udp:127.0.0.1:1")
    with pytest.raises(ps.Error, match="is not a device"):
        design.run(table(), "board", device="nowhere:1")
    with pytest.raises(ps.Error, match=r"device: it must be one that ps\.open returned, not 3"):
        design.run(table(), "board", device=3)


def test_model_counts_the_epochs_that_golden_needs(design: ps.Design) -> None:
    epochs = design.run(table(), "golden").epochs
    model = design.run(table(), "model")
    assert model.result is None and model.epochs == epochs and model.bound is not None
    assert model.cycles == design.run(table(), "model", epochs=epochs).cycles
    assert model.cycles is not None and model.cycles >= model.bound.cycles


def test_another_table(design: ps.Design) -> None:
    for wrong in (
        table(columns=4),
        ps.api.Table.from_columns({"y": np.zeros(4), "x": np.zeros((4, 3))}),
    ):
        with pytest.raises(
            SourceError, match=r"is not of the kind the design was compiled for"
        ) as caught:
            design.run(wrong)
        assert caught.value.code == "E706"


def test_another_column_or_default(design: ps.Design) -> None:
    """Columns bind by name, and the values of rows older than a column are part of the Strider program."""
    mine = table()
    first = mine.schema.columns[0]
    for changed, said in (
        (replace(first, name="other"), "where it has the column 'other'"),
        (replace(first, missing=1.0), "NULL"),
    ):
        other = replace(mine.schema, columns=(changed, *mine.schema.columns[1:]))
        with pytest.raises(ps.SourceError, match=said) as caught:
            design.run(ps.api.Table(other, mine.pages))
        assert caught.value.code == "E706" and caught.value.hint


@pytest.mark.parametrize("backend", ["golden", "model", "rtl"])
@pytest.mark.parametrize("epochs", [0, -2, 1.5])
def test_epochs_that_are_none(design: ps.Design, backend: str, epochs: Any) -> None:
    with pytest.raises(ps.KernelError) as caught:
        design.run(table(), backend, epochs=epochs)
    assert caught.value.diagnostic.code == "E609"


def test_memory_that_the_ports_do_not_have(design: ps.Design) -> None:
    for memory, said in (
        ("bytes=16", "8 bytes wide"),
        (FixedLatency(20, 9), "8 bytes wide"),
        ("bytes=0", "from 1 to 4096"),
        ("", "cannot read"),
    ):
        with pytest.raises(KernelError, match=said) as caught:
            design.run(table(), "model", memory=memory)
        assert (caught.value.diagnostic.code, bool(caught.value.diagnostic.hint)) == ("E604", True)


def test_a_kernel_of_labels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mean.psk").write_text("kernel mean(y: output, m: model)\n  m <- merge(y) / 4\n")
    trained = ps.compile(
        "mean.psk", table=ps.api.Table.from_columns({"y": np.array([1.0, 2, 3, 6])})
    ).run(ps.api.Table.from_columns({"y": np.array([1.0, 2, 3, 6])}))
    assert trained.result is not None and trained.result["m"] == 3.0
    Path("none.psk").write_text("kernel none(m: model)\n  m <- m / 4\n")
    with pytest.raises(KernelError, match="reads nothing of the table"):
        ps.compile("none.psk", table="random:rows=5")


def test_a_misspelt_function_is_the_kernels_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL.replace("ps.norm", "ps.nrm"))
    with pytest.raises(KernelError) as caught:
        ps.compile("k.py", dims={"d": 3})
    assert caught.value.diagnostic.code == "E202"


def test_what_is_no_path_or_name() -> None:
    linear = Path(__file__).parents[2] / "examples/linear.py"
    design = ps.compile(linear, "small", dims={"d": 2})
    calls = [lambda: ps.load(None), lambda: design.save(3), lambda: design.export(None, ip="core")]  # type: ignore[arg-type]
    for call in (*calls, lambda: design.export("core", ip=None)):  # type: ignore[arg-type]
        with pytest.raises(ps.Error, match=r"it must be a (path|name), not") as found:
            call()
        assert found.value.code == "E609"
