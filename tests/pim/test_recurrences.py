"""Recurrences that read their old state, twice, or with states of the host: beside float64 NumPy that knows nothing of them, and on hardware."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.engines.base import Given
from penstock.engines.pim.errors import Beside

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


def beside(design, run, tokens):
    """The units' bound of what the output reads, (tokens, heads, columns)."""
    work = design.workload(Given(data="random:seed=3", options={"tokens": tokens}))
    exact, _ = Beside(work.layout, work._told(run.codes)).exactly
    return exact


def judged(judge, tokens, **options):
    design = ps.compile(EXAMPLES / f"{judge.__name__}.psk", **options)
    run = design.run("random:seed=3", tokens=tokens, backend="golden")
    work = design.workload(Given(data="random:seed=3", options={"tokens": tokens}))
    data = work.inputs.arrays
    exact, _ = Beside(work.layout, work._told(run.codes)).exactly
    # the output is the last that is read, and of RWKV-6 the first
    bound = list(exact.values())[-1][1]
    y, rms = run.result["y"], []
    for item, place in enumerate(np.ndindex(design.batch, design.heads)):
        state = np.zeros(design.recurrent.sizes)
        for token in range(tokens):
            state, wanted, size = judge(state, {n: x[(token, *place)] for n, x in data.items()})
            found = y[(token, *place)]
            if judge is mlstm:  # the unit's sum is smaller by the exponent that the host keeps
                size = np.abs(exact["y"][0][token, item] / wanted)
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


@pytest.mark.parametrize("format", ["float16", "mx8"])
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


def test_delta_rules_take_two_passes():
    """32 heads of 128 × 64 on 16 banks: a token in at most 2.1 times that of a recurrence without a delta rule."""
    options = {"dims": {"k": 128, "v": 64}, "heads": 32, "banks": 16, "target": "u55c"}
    cycles = {}
    for name in ("gla", "deltanet", "gated_deltanet"):
        design = ps.compile(EXAMPLES / f"{name}.psk", **options)
        one, two = (design.run(tokens=n, backend="model").cycles for n in (2, 4))
        cycles[name] = (two - one) / 2
    print(cycles)
    assert cycles["deltanet"] <= 2.1 * cycles["gla"]
    assert cycles["gated_deltanet"] <= 2.1 * cycles["gla"]
