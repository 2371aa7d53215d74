"""Recurrences that read their old state, twice, or with states of the host: beside float64 NumPy that knows nothing of them, and on hardware."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.load import from_text
from penstock.engines.base import Given
from penstock.engines.pim.accuracy import Beside
from penstock.host.sources.errors import SourceError
from penstock.models.pim.config import PimConfig
from penstock.models.pim.layout import Layout
from penstock.models.pim.operands import Operands, Work

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sigmoid = lambda x: 1 / (1 + np.exp(-x))


def deltanet(S, x):
    unit = x["key"] / np.sqrt(x["key"] @ x["key"])
    beta = sigmoid(x["b"])
    S = (np.eye(len(unit)) - beta * np.outer(unit, unit)) @ S + beta * np.outer(unit, x["value"])
    return S, S.T @ x["query"], 1.0


def gated_deltanet(S, x):
    unit = x["key"] / np.sqrt(x["key"] @ x["key"])
    alpha, beta = sigmoid(x["a"]), sigmoid(x["b"])
    S = alpha * (np.eye(len(unit)) - beta * np.outer(unit, unit)) @ S
    S = S + beta * np.outer(unit, x["value"])
    return S, S.T @ x["query"], 1.0


def rwkv6(S, x):
    outer = np.outer(x["key"], x["value"])
    return (
        np.diag(np.exp(-np.exp(x["w"]))) @ S + outer,
        (S + np.diag(x["u"]) @ outer).T @ x["r"],
        1.0,
    )


def rwkv7(S, x):
    unit = x["key"] / np.sqrt(x["key"] @ x["key"])
    move = np.diag(np.exp(-np.exp(x["w"]))) - np.outer(unit, sigmoid(x["a"]) * unit)
    S = S @ move + np.outer(x["value"], x["key"])
    return S, S @ x["r"], 1.0


def mlstm(state, x):
    """Without the exponent m that keeps numbers small: it is the same sum."""
    S, n, product = state if isinstance(state, tuple) else (state, 0.0, 1.0)
    f, i = sigmoid(x["f"]), np.exp(x["i"])
    S, n = f * S + i * np.outer(x["key"], x["value"]), f * n + i * x["key"]
    size = max(abs(n @ x["query"]), 1.0)
    return (S, n, product), S.T @ x["query"] / size, size


#: the passes of a token: whether each updates, and whether it reads
JUDGES = {
    deltanet: [(False, True), (True, True)],
    gated_deltanet: [(False, True), (True, True)],
    rwkv6: [(False, True), (True, False)],
    rwkv7: [(False, True), (True, False), (True, True)],
    mlstm: [(True, True)],
}


def judged(judge, tokens, **options):
    design = ps.compile(EXAMPLES / f"{judge.__name__}.psk", **options)
    run = design.run("random:seed=3", tokens=tokens, backend="golden")
    work = design.workload(Given(data="random:seed=3", options={"tokens": tokens}))
    data = work.inputs.arrays
    exact = Beside(work.layout, work._final_course(run.codes)).exactly[0]
    # the output is the last that is read, and of RWKV-6 the first
    bound = list(exact.values())[-1][1]
    y, rms = run.result["y"], []
    for item, place in enumerate(np.ndindex(design.batch, design.heads)):
        state = np.zeros(design.recurrent.sizes)
        for token in range(tokens):
            state, wanted, size = judge(state, {n: x[(token, *place)] for n, x in data.items()})
            found = y[(token, *place)]
            if judge is mlstm:  # the unit's sum is smaller by the exponent that the host keeps
                size = np.abs(exact[".1"][0][token, item] / wanted)
            assert (np.abs(found - wanted) <= bound[token, item] / size + 1e-12).all(), (
                token,
                place,
            )
            rms.append((((found - wanted) ** 2).mean(), (wanted**2).mean()))
    error, own = np.mean(rms, axis=0)
    return design, run, float(np.sqrt(error / own))


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.__name__)
def test_beside_float64(judge):
    for kind in ("psk", "py"):
        kernel = ps.compile(EXAMPLES / f"{judge.__name__}.{kind}")
        passes = [(one.k is not None, one.result is not None) for one in kernel.recurrent.passes]
        assert passes == JUDGES[judge]
    for format, most in (("float16", 0.005), ("mx8", 0.15)):
        sizes = {"k": 24, "v": 40}
        design, run, error = judged(judge, 30, format=format, dims=sizes, heads=2, batch=2, banks=4)
        assert error < most, error
        assert run.details["float64"]["within_bound"] and not run.counters["saturated"]
        again = design.run("random:seed=3", tokens=30, backend="golden")
        assert again.facts == run.facts


@pytest.mark.parametrize("format", [pytest.param("float16", marks=pytest.mark.long), "mx8"])
def test_on_hardware(format):
    """All of them on one device: bits are golden's, cycles the model's."""
    for judge in JUDGES:
        options = {"format": format, "dims": {"k": 24, "v": 40}, "heads": 3, "banks": 2}
        design = ps.compile(EXAMPLES / f"{judge.__name__}.psk", **options)
        data = "random:seed=5"
        rtl, golden = (design.run(data, tokens=3, backend=name) for name in ("rtl", "golden"))
        assert rtl.codes.keys() == golden.codes.keys() and rtl.facts == golden.facts
        for name, codes in rtl.codes.items():
            np.testing.assert_array_equal(codes, golden.codes[name], judge.__name__)
        assert rtl.counters["saturated"] == golden.counters["saturated"]
        assert rtl.cycles == design.run(data, tokens=3, backend="model").cycles


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.__name__)
def test_sessions_give_the_bits_of_a_run(judge):
    """Token by token, in the seat of one that left, beside another request, restored on another device: one run's outputs."""
    options = {"dims": {"k": 24, "v": 40}, "heads": 3}
    small, large = (
        ps.compile(EXAMPLES / f"{judge.__name__}.psk", banks=banks, batch=batch, **options)
        for banks, batch in ((2, 1), (4, 3))
    )
    run = small.run("random:seed=3", tokens=9, seed=7, backend="golden")
    work = small.workload(Given(data="random:seed=3", options={"tokens": 9}, seed=7))
    data = {n: x[:, 0] for n, x in work.inputs.arrays.items()}
    with small.open(seed=7) as one, large.open(seed=7, backend="model") as two:
        gone = one.join(seed=9)
        one.step({gone: data})
        one.leave(gone)
        a = one.join(seed=0)
        ys = [one.step({a: {n: x[:2] for n, x in data.items()}})[a]]
        saved = one.snapshot(a)
        b, c = two.join(seed=5), two.join(state=saved)
        for n in range(2, 9):
            token = {name: x[n : n + 1] for name, x in data.items()}
            ys.append(two.step({b: {m: x[n - 2 : n + 1] for m, x in data.items()}, c: token})[c])
        assert two.errors["within_bound"] and two.cycles
    np.testing.assert_array_equal(np.concatenate(ys), run.result["y"][:, 0])


def test_names_are_the_kernels_own():
    """Inputs and states may be called as results are."""
    text = (EXAMPLES / "mlstm.psk").read_text()
    run = lambda text: ps.compile(from_text(text, "f.psk"), dims={"k": 8, "v": 8}).run(
        "random:seed=2", tokens=3, backend="golden"
    )
    for old in ("key", "n", "S"):
        found = run(re.sub(rf"\b{old}\b", "y", text.replace("y <-", "z <-")))
        assert found.details["float64"]["within_bound"]
        np.testing.assert_array_equal(found.result["y"], run(text).result["y"])


def test_updates_of_a_token_draw_bits_of_their_own():
    layout = Layout(PimConfig(stochastic=True), (("update", False), ("update", True)), 64, 32, 2, 3)
    given = Operands(q=np.ones((3, 2, 64)), k=np.ones((3, 2, 64)), v=np.ones((3, 2, 32)))
    works, order = (
        [Work(0, 0, given), Work(1, 0, given)],
        [(n, t) for t in range(3) for n in (0, 1)],
    )
    [steps] = layout.steps(works, order, [True, True])
    seeds = np.concatenate([step.seeds[:2, :16] for step in steps])
    assert len(np.unique(seeds, axis=0)) == len(seeds) == 12
    assert [step.round.reads for step in steps] == [0, 1] * 3


def test_a_number_made_of_what_was_read_leaves_the_format():
    """The run stops; a session takes the end of the range, and tells of it behind the step."""
    kernel = "recurrence f(S: state[k, v], k: input[k], v: input[v])\n"
    kernel += "  S <- S + outer(k, v + 60000 * (k @ S))\n  y <- k @ S\n"
    sizes = {"k": 4, "v": 3}
    design = ps.compile(from_text(kernel, "f.psk"), dims=sizes, format="float16", heads=1, batch=1)
    data = {"k": np.ones((3, 1, 4)), "v": np.ones((3, 1, 3))}
    lead = {name: x[:, None] for name, x in data.items()}
    with pytest.raises(
        SourceError, match="values of the unit, which the host computes, reach 240001"
    ):
        design.run(lead, backend="golden")
    with design.open() as session:
        request = session.join()
        with pytest.raises(SourceError, match="the states have taken the tokens"):
            session.step({request: data})
        session.step({request: {n: 0 * x for n, x in data.items()}})


def test_delta_rules_take_two_passes():
    """32 heads of 128 × 64 on 16 banks: a token in at most 2.1 times that of a recurrence without a delta rule."""
    options = {"dims": {"k": 128, "v": 64}, "heads": 32, "banks": 16, "target": "u55c"}
    cycles = {}
    for name in ("retnet", "deltanet", "gated_deltanet"):
        design = ps.compile(EXAMPLES / f"{name}.psk", **options)
        one, two = (design.run(tokens=n, backend="model").cycles for n in (2, 4))
        cycles[name] = (two - one) / 2
    print(cycles)
    assert cycles["deltanet"] <= 2.1 * cycles["retnet"]
    assert cycles["gated_deltanet"] <= 2.1 * cycles["retnet"]
