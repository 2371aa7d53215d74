"""Peers: how they are measured, by a clock of the test's own, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.dsl.core.load import from_text, load_kernel
from penstock.engines.analytics.glm import Glm, recognised
from penstock.engines.analytics.peers import peers
from penstock.host import peers as host
from penstock.host.peers import Measured, Peer, joules, measure
from penstock.models.feed import Seconds
from penstock.models.verdict import Beside, verdict

EXAMPLES = Path(__file__).parents[2] / "examples"


class Clock:
    """Time that passes in runs only: so much a row, less on more threads, the first run of each size is slow, the second one best."""

    def __init__(self, a_row: float) -> None:
        self.now, self.a_row, self.runs = 0.0, a_row, [(0, 0)]

    def __call__(self) -> float:
        return self.now

    def run(self, prepared: Any, rows: int, threads: int) -> float:
        again = self.runs.count((rows, threads))
        self.now += rows * self.a_row / threads * (3, 1, 1.2, 1.1)[min(again, 3)]
        self.runs.append((rows, threads))
        return rows / 10


def test_best_of_five_after_a_warm_up() -> None:
    clock = Clock(0.001)
    peer = Peer("C", 640, lambda: "made", clock.run, loss=lambda result: result)
    found = measure(peer, [1, 2], clock=clock, ours=64)
    assert [(m.threads, round(m.seconds, 9), m.runs, m.rows_run) for m in found] == [
        (1, 0.64, 5, 640),
        (2, 0.32, 5, 640),
    ]
    assert clock.runs[1:] == [(10, 1), *[(640, 1)] * 6, (10, 2), *[(640, 2)] * 6]
    assert [m.reached for m in found] == [True, True] and found[0].loss == 64
    assert measure(peer, [1], clock=clock, ours=63.9)[0].reached is False
    assert len(measure(Peer("x", 9, list, clock.run, parallel=False), [1, 4], clock=clock)) == 1


@pytest.mark.parametrize("a_row", [0.05, 40.0, 1e-4])
def test_long_runs_are_scaled(a_row: float) -> None:
    clock = Clock(a_row)
    (found,) = measure(Peer("C", 6400, list, clock.run), [1], clock=clock)
    # of the slowest the probe's few rows are all that there is time for, and its third run counts
    assert found.seconds == pytest.approx(6400 * a_row * (1.2 if a_row > 1 else 1))
    assert (found.rows_run < 6400) == (a_row > 0.01) == found.beside().scaled
    assert a_row > 1 or clock.now <= 1.1 * host.LIMIT


def test_joules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Measured("C", 1, 2.0, 5, 9, 9)
    assert joules(plain).source == "not measured" and joules(plain).value is None
    assert joules(replace(plain, watts=65)) == host.Joules(130.0, "--cpu-watts 65")
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "max_energy_range_uj").write_text("999999\n")

    def run(*_: Any) -> None:
        before = int((zone / "energy_uj").read_text())
        (zone / "energy_uj").write_text(str((before + 300_000) % 1_000_000))

    (zone / "energy_uj").write_text("100\n")
    read = host._rapl
    monkeypatch.setattr(host, "_rapl", lambda: read(tmp_path))
    (found,) = measure(Peer("C", 1, list, run), [1], best_of=3)
    assert joules(replace(found, watts=65)) == host.Joules(
        pytest.approx(0.3), "RAPL, the whole package"
    )
    (zone / "energy_uj").unlink()
    assert read(tmp_path) is None and read(tmp_path / "none") is None


def test_peers_of_a_kernel_make_its_updates() -> None:
    graph = load_kernel(EXAMPLES / "logistic.py").trace(d=4)
    rng = np.random.default_rng(1)
    table = {"x": rng.normal(size=(200, 4)).astype("f4"), "y": rng.integers(0, 2, 200)}
    found = [peer for peer in peers(graph, table, 2)[0] if peer.goal is None]
    assert [peer.name for peer in found] == ["C", "NumPy"]
    models = [peer.run(peer.prepare(), 200, 2).models["w"] for peer in found]
    np.testing.assert_allclose(models[0], models[1], rtol=1e-4, atol=1e-6)
    half = [peer.run(peer.prepare(), 100, 1).models["w"] for peer in found]
    np.testing.assert_allclose(half[0], half[1], rtol=1e-4, atol=1e-6)
    assert not np.allclose(models[0], half[0])
    assert all(m.seconds > 0 for peer in found for m in measure(peer, best_of=1))
    graph.nodes[-1].op = "gather"
    assert peers(graph, table)[1] == ["C: there is none for gather", "no scikit-learn model"]


MEANS = {
    "linear": ("LinearRegression", "sum(w * x) + b - y"),
    "logistic": ("LogisticRegression", "sigmoid(sum(w * x) + b) - y"),
    "svm": ("SGDClassifier", "where(y * (sum(w * x) + b) < 1, -y, 0)"),
    "none": ("", "where(y * (sum(w * x) + b) < 0, -y, 0)"),  # a perceptron
}


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("kind", MEANS)
def test_scikit_learns_model_is_the_kernels(kind: str, batch: int) -> None:
    """A kernel is known by its updates, not its text; the model's loss is at most ours."""
    pytest.importorskip("sklearn")
    name, slope = MEANS[kind]
    rate = 0.005 if batch == 1 else 0.05
    head = f"kernel k(x: input[d], y: output, b: model, w: model[d], rate: meta = {rate})"
    merge = "{}" if batch == 1 else f"merge({{}}, {batch}) / {batch}"
    lines = [
        f"e = {slope}",
        f"w <- w - rate * ({merge.format('(e * x)')} + 0.001 * w)",
        f"b <- b - rate * {merge.format('e')}",
    ]
    graph = from_text("\n  ".join([head, *lines]) + "\n").trace({"d": 3})
    found = recognised(graph)
    if not name:
        assert found is None
        return
    assert found == Glm(kind, "x", "y", "w", "b", pytest.approx(rate))
    rng = np.random.default_rng(2)
    x = rng.normal(size=(640, 3))
    y = x @ [1, -2, 0.5] + rng.normal(size=640) / 2
    if kind != "linear":
        y = np.where(y > 0, 1, -1 if kind == "svm" else 0)
    peer = peers(graph, {"x": x, "y": y}, 20)[0][-1]
    assert peer.name == f"scikit-learn's {name}"
    (measured,) = measure(peer, [1], best_of=1)
    assert measured.reached or kind == "svm"
    assert measured.loss == pytest.approx(peer.goal, rel=0.2 if kind == "linear" else 0.5)


def ours(link: float, engine: float) -> Seconds:
    exact = [Fraction(str(v)) for v in (engine, link)]
    return Seconds(exact[0], sum(exact, Fraction(0)), Fraction(250), "placed", link=exact[1])


@pytest.mark.parametrize(
    ("seconds", "beside", "text"),
    [
        (ours(0.61, 0.1), [Beside("C", 2, 0.06), Beside("NumPy", 1, 0.2)],
         "worth it: no: the link alone (0.61 s) takes longer than C on 2 threads (0.06 s)"),
        (ours(0.01, 0.05), [Beside("C", 2, 0.246), Beside("NumPy", 1, 3)],
         "worth it: yes: 4.1 × C on 2 threads (0.25 s); engine binds"),
        (ours(0.01, 0.05), [Beside("C", 1, 0.075, scaled=True)],
         "worth it: no: 1.25 × C on 1 thread (0.075 s, scaled), and 1.5 × is asked for; engine binds"),
        (ours(0.05, 0.04), [Beside("C", 2, 0.06)],
         "worth it: no: 0.67 × C on 2 threads (0.06 s); link binds"),
        (ours(0.01, 0.05), [Beside("C", 2, 0.01, reached=False), Beside("NumPy", 1, 6, reached=True)],
         "worth it: yes: 100 × NumPy on 1 thread (6.00 s); engine binds"),
        (ours(0.01, 0.05), [Beside("C", 2, 0.01, reached=False)],
         "worth it: not said: nothing was measured beside it"),
    ],
)  # fmt: skip
def test_verdicts(seconds: Seconds, beside: list[Beside], text: str) -> None:
    found = verdict(seconds, beside)
    assert found.text == text
    assert found.yes is {"yes": True, "no:": False}.get(text[10:13])


def test_what_is_asked_for() -> None:
    beside = [Beside("C", 1, 0.075)]
    assert verdict(ours(0.01, 0.05), beside, worth=1.2).yes is True
    assert verdict(ours(0.01, 0.05), beside).yes is False
    assert verdict(ours(0.01, 0.05), []).yes is None
