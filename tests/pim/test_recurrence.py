"""Recurrences from both front ends: what fits the unit, and what a message says of what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel
from penstock.dsl.core.text import parse_kernel
from penstock.engines.pim.data import Inputs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HEAD = "recurrence f(S: state[k, v], d: input[k], e: input[v], k: input[k], v: input[v], q: input[k], a: input)\n"


def text(*lines: str) -> str:
    return HEAD + "".join(f"  {line}\n" for line in lines)


NAMES = "mamba2 retnet gla hgrn2 zamba2 deltanet gated_deltanet rwkv6 rwkv7 mlstm".split()


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_the_same_in_both_languages(name):
    python, written = (
        load_kernel(str(EXAMPLES / f"{name}.{kind}")).trace() for kind in ("py", "psk")
    )
    assert python.mode == written.mode == "update"
    assert [n.op for n in python.nodes] == [n.op for n in written.nodes]
    assert python.passes == written.passes and python.held == written.held


def test_caches():
    for name, mode in (("score", "score"), ("attend", "attend")):
        assert load_kernel(str(EXAMPLES / f"{name}.psk")).trace().mode == mode
        assert load_kernel(f"{EXAMPLES / 'attention.py'}:{name}").trace().mode == mode


def test_a_softmax_takes_no_pass_of_its_own():
    text = "recurrence f(K: cache[t, k], V: cache[t, v], q: input[k])\n  y <- softmax(K @ q) @ V\n"
    kernel = parse_kernel(text)
    kernel.check()
    assert [(one.passes, one.forced_by) for one in kernel.walked if one.axis == "t"] == [(1, ())]


MISFITS = [
    (("T = S + outer(k, v)", "y <- q @ T"), "a new state that is not the recurrence's"),
    (
        ("S <- S - outer(k, q @ exp(S)) + outer(k, v)", "y <- q @ S"),
        "exp of the state does not fit in what is read",
    ),
    (("S <- d[:, None] / S + outer(k, v)", "y <- q @ S"), "a division by the state"),
    (("S <- where(a > 0, S, 0) + outer(k, v)", "y <- q @ S"), "where of the state does not fit"),
    (
        ("S <- e[None, :] * (S + outer(k, v))", "y <- q @ S"),
        "a decay that differs from column to column of the state",
    ),
    (("S <- exp(S) + outer(k, v)", "y <- q @ S"), "exp of the state does not fit in the new state"),
    (
        ("S <- e[None, :] * S + outer(k, v)", "y <- q @ S"),
        "a decay that differs from column to column of the state",
    ),
    (("S <- S * S + outer(k, v)", "y <- q @ S"), "* of the state by itself"),
    (
        ("S <- S + k[:, None]", "y <- q @ S"),
        "is added to the state; the unit adds outer products",
    ),
    (("S <- S + 2", "y <- q @ S"), "a constant is added to the state"),
    (
        ("T = S + outer(k, v)", "y <- (q * ((q @ T) @ e)) @ S", "S <- T"),
        "the old state is read by what the new one gave",
    ),
    (
        ("S <- S + outer(k, v)", "y <- (q @ S) @ e + sum(S @ e)"),
        "the state is read along both axes",
    ),
    (
        ("S <- d[:, None] * S + outer(k, v)", "y <- S @ v"),
        "a decay that differs from row to row of a state whose columns the output adds",
    ),
    (("S <- S + outer(k, v)", "y <- sum(S)"), "sum of the state in the output"),
    (("S <- S + outer(k, v)", "y <- q @ (1 / S)"), "a division by the state"),
    (("S <- S + outer(k, v)", "y <- q @ (S * v)"), "a decay that differs from column to column"),
    (("S <- S + outer(k, v)", "y <- q @ (S * v[None, :])"), "a decay that differs from column"),
    (("S <- outer(k, v)", "y <- q @ S"), "the new state does not depend on the old one"),
    (("S <- a * S", "y <- q @ S"), "nothing is added to the state"),
    (("y <- (q @ S) * (k @ S)",), "a cache is read twice"),
    (("S <- S + outer(k, v)", "y <- e"), "the output does not read the state"),
]


@pytest.mark.parametrize(("lines", "message"), MISFITS)
def test_what_does_not_fit_is_named(lines, message):
    with pytest.raises(KernelError) as caught:
        parse_kernel(text(*lines)).check()
    found = caught.value.diagnostic
    assert found.code == "E462" and message in found.message and found.hint


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (text("S <- S + outer(k, v)"), "E461"),
        ("recurrence f(S: state[k, v], q: input[k])\n  S <- q\n  y <- q @ S\n", "E461"),
        ("recurrence f(q: input[k])\n  y <- q\n", "E463"),
        ("recurrence f(S: state[k], q: input[k])\n  y <- q * S\n", "E463"),
        ("recurrence f(S: state[k, v], T: state[k, v], q: input[k])\n  y <- q @ S\n", "E463"),
        (
            "recurrence f(S: state[k, v], n: state[k], k: input[k], v: input[v])\n"
            "  S <- S + outer(k, v)\n  y <- k @ S\n",
            "E461",
        ),
        ("recurrence f(S: state[k, v], q: input[k, v])\n  y <- q * S\n", "E463"),
    ],
)
def test_what_a_recurrence_is(kernel, code):
    with pytest.raises(KernelError) as caught:
        parse_kernel(kernel).check()
    assert caught.value.diagnostic.code == code


@pytest.mark.parametrize(
    ("line", "decays"),
    [
        ("S <- d[:, None] * S + outer(k, v)", {"d"}),
        ("S <- outer(k, v) + S * a", {"a"}),
        ("S <- exp(d)[:, None] * S + outer(k, v)", set()),
        ("S <- S + outer(k, v)", set()),
    ],
)
def test_inputs_that_are_decays_as_they_are(line, decays):
    """Random data of these lie between 0.8 and 1."""
    found = parse_kernel(text(line, "y <- q @ S")).trace({"k": 5, "v": 3})
    made = Inputs.random(found, 2, 2, 6, 1).arrays
    assert found.decays() == decays
    assert {n for n, x in made.items() if x.min() > 0.8 and x.max() < 1} == decays


def test_python_places():
    @ps.recurrence
    def wrong(S: ps.State["k", "v"], k: ps.Input["k"], v: ps.Input["v"], q: ps.Input["k"]):
        S = S + ps.outer(k, v)
        return S, ps.exp(S) @ v

    with pytest.raises(KernelError, match="exp of the state does not fit in what is read"):
        wrong.check()


def test_python_without_an_output():
    @ps.recurrence
    def alone(S: ps.State["k", "v"], a: ps.Input, k: ps.Input["k"], v: ps.Input["v"]):
        S = a * S + ps.outer(k, v)
        return S

    with pytest.raises(KernelError) as caught:
        alone.check()
    found = caught.value.diagnostic
    assert found.code == "E461" and found.message == "the recurrence alone has no output"
    assert found.hint == "what it returns is [k, v] like the state: return S, q @ S"
