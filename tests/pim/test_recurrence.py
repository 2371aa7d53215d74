"""Recurrences from both front ends: what fits the unit, and what a message says of what does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel
from penstock.dsl.core.text import parse_kernel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HEAD = "recurrence f(S: state[k, v], d: input[k], e: input[v], k: input[k], v: input[v], q: input[k], a: input)\n"


def text(*lines: str) -> str:
    return HEAD + "".join(f"  {line}\n" for line in lines)


@pytest.mark.parametrize("name", ["mamba2", "retnet", "gla", "hgrn2", "zamba2"])
def test_examples_are_the_same_in_both_languages(name):
    python, written = (
        load_kernel(str(EXAMPLES / f"{name}.{kind}")).trace() for kind in ("py", "psk")
    )
    assert python.mode == written.mode == "update"
    assert [n.op for n in python.nodes] == [n.op for n in written.nodes]
    assert (python.d, python.k, python.v, python.q) == (written.d, written.k, written.v, written.q)


def test_caches():
    for name, mode in (("score", "score"), ("attend", "attend")):
        assert load_kernel(str(EXAMPLES / f"{name}.psk")).trace().mode == mode
        assert load_kernel(f"{EXAMPLES / 'attention.py'}:{name}").trace().mode == mode


FORMS = [
    ("S <- outer(k, v) - d[:, None] * S", "y <- -(q @ S) + 1"),
    ("S <- -S / a + outer(exp(k), v)", "y <- q @ S / sqrt(sum(v * v) + 1)"),
    ("S <- d[:, None] * S + outer(k, v)", "y <- q @ S"),
    ("S <- S + outer(k, v)", "y <- q @ S"),
    ("S <- S * a / 2 + k[:, None] * v[None, :]", "y <- q @ S"),
    ("S <- outer(k, v) - -(d[:, None] * (a * S))", "y <- S.T @ q"),
    ("S <- d[:, None] * S - a * outer(k, v) / 3", "y <- 2 * (q @ S) + e * v"),
    ("S <- (1 - a) * S + e[None, :] * outer(d * k, v)", "y <- tanh(q @ S)"),
    ("S <- d[:, None] * S + d[:, None] * outer(k, exp(v))", "y <- (q * k) @ S"),
    ("S <- S + a * (outer(k, v) - S)", "y <- q @ S"),
    ("S <- d[:, None] * (S + outer(k, v) / a)", "y <- q @ S"),
    ("S <- (a * S - outer(k, v)) / d[:, None]", "y <- q @ S"),
    ("S <- S + outer(k, v) + S / 2", "y <- q @ S"),
    ("S <- S - d[:, None] * S - outer(k, v) + outer(k, e)", "y <- q @ S"),
    ("S <- a * (outer(k, v) - S - outer(d, v)) - S", "y <- q @ S"),
    ("S <- 1 / 2 * (S - (outer(k, v) + outer(k, e)))", "y <- q @ S"),
    ("S <- S + k[:, None] @ v[None, :]", "y <- sum(q[:, None] * S, axis=0) + 1"),
    ("S <- a * S + outer(k, v)", "y <- sum(S / d[:, None] * a, axis=0)"),
    ("S <- a * S + outer(k, v)", "y <- (q @ S) @ e"),
    ("S <- a * S + outer(k, v)", "y <- (q @ S) * sum(q @ S)"),
    # however the outer product is written
    ("S <- d[:, None] * S - outer(e * a, k).T", "y <- q @ -S"),
    ("S <- S + outer(k, v) * e", "y <- q @ S"),
    ("S <- a * S + k[:, None] * (e / 3)", "y <- q @ S"),
    ("S <- S - v[None, :] * (d[:, None] * outer(k, e)) / (d[:, None] * a)", "y <- q @ S"),
    ("S <- S + outer(k, v) ** 2", "y <- q @ S"),
    ("S <- a * (S - outer(k, v)) + d[:, None] @ v[None, :]", "y <- q @ S"),
    ("S <- S + k[:, None] * v[None, :] - k[:, None] * e[None, :]", "y <- q @ S"),
    ("S <- S + a * outer(k, v) - sum(v) * outer(d, v)", "y <- q @ S"),
    ("S <- S / a + outer(exp(k), v) * a + outer(exp(k), e)", "y <- q @ S"),
    ("S <- S + (outer(k, v) - outer(k, e)) * d[:, None]", "y <- q @ S"),
    # the columns are the unit's rows
    ("S <- a * S + outer(k, v)", "y <- sum(v * (S / 3), axis=1)"),
    ("S <- a * S + outer(k, v)", "y <- S @ e + d"),
    ("S <- v[None, :] * (S + a * outer(k, e)) / 2", "y <- e @ S.T"),
    ("S <- S * v + k[:, None] * v[None, :]", "y <- S @ (e + a)"),
    ("S <- (S + d[:, None] * outer(k, e)) / v", "y <- (2 * S * v) @ e"),
]


#: with one row or column, every sum of outer products is one
SINGLE = [
    ("S <- S + outer(k, v) + outer(d, e)", "y <- q @ S"),
    ("S <- a * (S - outer(k, v)) + d[:, None] * e[None, :] / a", "y <- S @ e"),
]


@pytest.mark.parametrize(
    ("lines", "rows", "columns"),
    [(lines, 5, 3) for lines in FORMS]
    + [(lines, *sizes) for lines in FORMS[::4] + SINGLE for sizes in ((1, 3), (5, 1), (1, 1))],
)
def test_every_form_of_the_update_fits(lines, rows, columns):
    """The unit's operands, put into its form, give what the kernel's own operations give."""
    sizes = {"k": rows, "v": columns}
    found = parse_kernel(text(*lines)).trace(sizes)
    rng = np.random.default_rng(1)
    shapes = {"d": [rows], "k": [rows], "q": [rows], "e": [columns], "v": [columns], "a": []}
    values = {n: rng.normal(size=(4, *shape)) for n, shape in shapes.items()}
    state = rng.normal(size=(4, rows, columns))
    of = lambda node, size: np.broadcast_to(found.host(values, node).reshape(4, -1), (4, size))
    rows, columns = found.shape
    state = state.swapaxes(1, 2) if found.turned else state
    d = np.ones((4, rows)) if found.d is None else of(found.d, rows)
    new = d[..., None] * state + of(found.k, rows)[..., None] * of(found.v, columns)[:, None, :]
    y = np.einsum("nk,nkv->nv", of(found.q, rows), new)
    new, state = (s.swapaxes(1, 2) if found.turned else s for s in (new, state))
    y = found.host({**values, "": y}, found.output)
    for n in range(4):
        names = {name: value[n] for name, value in values.items()}
        names |= {"S": state[n], "outer": np.outer, "exp": np.exp, "tanh": np.tanh}
        names |= {"sqrt": np.sqrt, "sum": np.sum, "None": None}
        for line in lines:
            name, _, expression = line.partition(" <- ")
            names[name] = eval(expression, {}, names)
        assert np.allclose(new[n], names["S"]) and np.allclose(y[n], names["y"])


MISFITS = [
    (("T = S + outer(k, v)", "y <- q @ T"), "a new state that is not the recurrence's"),
    (
        ("S <- S - outer(k, k @ S) + outer(k, v)", "y <- q @ S"),
        "outer of the state does not fit in the new state",
    ),
    (("S <- d[:, None] / S + outer(k, v)", "y <- q @ S"), "a division by the state"),
    (("S <- where(a > 0, S, 0) + outer(k, v)", "y <- q @ S"), "where of the state does not fit"),
    (
        ("S <- S + outer(k, v)", "y <- q @ (S + d[:, None] * outer(k, v))"),
        "the output reads something else than the new state",
    ),
    (
        ("S <- d[:, None] * (S + outer(k, v)) + outer(k, e)", "y <- q @ S"),
        "two outer products are added to the state",
    ),
    (
        ("S <- e[None, :] * (S + outer(k, v))", "y <- q @ S"),
        "a decay that differs from column to column of the state",
    ),
    (("S <- exp(S) + outer(k, v)", "y <- q @ S"), "exp of the state does not fit in the new state"),
    (
        ("S <- e[None, :] * S + outer(k, v)", "y <- q @ S"),
        "a decay that differs from column to column of the state",
    ),
    (
        ("S <- S + outer(k, v) + outer(d, e)", "y <- q @ S"),
        "two outer products are added to the state",
    ),
    (("S <- S * S + outer(k, v)", "y <- q @ S"), "* of the state by itself"),
    (
        ("S <- S + k[:, None]", "y <- q @ S"),
        "is added to the state; the unit adds an outer product",
    ),
    (("y <- q @ S", "S <- S + outer(k, v)"), "the output reads the old state"),
    (
        ("S <- d[:, None] * S + outer(k, v)", "y <- S @ v"),
        "a decay that differs from row to row of a state whose columns the output adds",
    ),
    (("S <- S + outer(k, v)", "y <- sum(S)"), "sum of the state in the output"),
    (("S <- S + outer(k, v)", "y <- q @ (S * v)"), "something else than the new state"),
    (("S <- outer(k, v)", "y <- q @ S"), "the new state does not depend on the old one"),
    (("S <- a * S", "y <- q @ S"), "nothing is added to the state"),
    (("S <- S + outer(k, v)", "y <- (q @ S) * (k @ S)"), "the output reads the state twice"),
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
        ("recurrence f(S: state[k, v], q: input[k, v])\n  y <- q * S\n", "E463"),
    ],
)
def test_what_a_recurrence_is(kernel, code):
    with pytest.raises(KernelError) as caught:
        parse_kernel(kernel).check()
    assert caught.value.diagnostic.code == code


def test_python_places():
    @ps.recurrence
    def wrong(S: ps.State["k", "v"], k: ps.Input["k"], v: ps.Input["v"], q: ps.Input["k"]):
        S = S + ps.outer(k, v)
        return S, ps.exp(S) @ v

    with pytest.raises(KernelError, match="something else than the new state"):
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
