"""The engine through the public API: golden, model and RTL agree; mistakes are messages."""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from penstock.errors import Conflict
from penstock.host.sources import SourceError
from penstock.runs.outcome import differences


@ps.recurrence
def plain(
    S: ps.State["k", "v"], d: ps.Input["k"], k: ps.Input["k"], v: ps.Input["v"], q: ps.Input["k"]
):
    S = d[:, None] * S + ps.outer(k, v)
    return S, q @ S


def arrays(rng, tokens=2, batch=1, heads=2, k=40, v=32):
    draw = lambda *s: rng.normal(size=(tokens, batch, heads, *s))
    return {
        "d": rng.uniform(0.6, 1, size=(tokens, batch, heads, k)),
        "k": draw(k),
        "v": draw(v),
        "q": draw(k),
    }


def exact(data, state=0.0):
    out = []
    for d, k, v, q in zip(data["d"], data["k"], data["v"], data["q"], strict=True):
        state = d[..., None] * state + k[..., None] * v[..., None, :]
        out.append(np.einsum("bhk,bhkv->bhv", q, state))
    return np.array(out), state


@ps.recurrence
def across(
    S: ps.State["v", "k"], d: ps.Input["k"], k: ps.Input["k"], v: ps.Input["v"], q: ps.Input["k"]
):
    S = d * (S + ps.outer(v, k / d))
    return S, S @ q


def test_a_state_whose_columns_are_the_rows_of_the_unit():
    """The same numbers as those of the state declared the other way round, and a start of its own."""
    data, rng = arrays(np.random.default_rng(4), heads=1), np.random.default_rng(5)
    start = rng.normal(size=(1, 1, 40, 32))
    given = {**data, "S": start}, {**data, "S": start.swapaxes(2, 3)}
    one, other = (
        ps.compile(k, table=g, target="small").run(g, backend="golden", first=0)
        for k, g in zip((plain, across), given, strict=True)
    )
    y, _ = exact(data, start)
    assert other.result["S"].shape == (1, 1, 32, 40)
    assert np.abs(one.result["y"] - y).max() < 0.15 * np.abs(y).max()
    assert (one.result["y"] == other.result["y"]).all()
    assert (one.result["S"] == other.result["S"].swapaxes(2, 3)).all()


@pytest.mark.parametrize("plain", [plain, across], ids=["rows", "columns"])
def test_a_design_is_saved_and_loaded(tmp_path, plain):
    data = arrays(np.random.default_rng(2))
    design = ps.compile(plain, table=data, target="small")
    design.save(tmp_path / "made")
    again = ps.load(tmp_path / "made")
    assert again.digest == design.digest
    assert differences(again.run(data), design.run(data)) == []


def test_schedules_give_the_same_numbers_in_fewer_cycles():
    data = arrays(np.random.default_rng(3), tokens=6, heads=8, k=64, v=64)
    cycles = {}
    results = set()
    for schedule in ("together", "halves", "quarters"):
        options = {"schedule": schedule, "banks": 16, "rounding": "nearest"}
        design = ps.compile(plain, table=data, target="u55c", **options)
        run = design.run(data, backend="model")
        cycles[schedule] = run.cycles
        results.add(design.run(data).result["y"].tobytes())
    assert len(results) == 1
    assert cycles["quarters"] < cycles["together"] and cycles["halves"] < cycles["together"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d | {"k": np.where(np.arange(40) == 7, np.nan, d["k"])},
            "which a block cannot hold",
        ),
        (
            lambda d: d | {"v": np.where(np.arange(32) == 3, -np.inf, d["v"])},
            "which a block cannot hold",
        ),
        (lambda d: d | {"w": d["k"]}, "no parameter of plain"),
        (lambda d: {n: v for n, v in d.items() if n != "q"}, "no array 'q'"),
        (lambda d: d | {"q": d["q"][:1]}, "different numbers of tokens"),
        (lambda d: d | {"q": d["q"][..., :5]}, "has the shape"),
    ],
)
def test_wrong_data(change, message):
    data = arrays(np.random.default_rng(4))
    design = ps.compile(plain, table=data, target="small")
    with pytest.raises(SourceError, match=message):
        design.run(change(data))


def test_nan_cannot_be_skipped():
    data = arrays(np.random.default_rng(5))
    design = ps.compile(plain, table=data, target="small")
    with pytest.raises(Conflict, match="cannot be left out"):
        design.run(data, on_nan="skip")
