"""Recurrences that examples do not have, from both front ends: RTL, golden and cycle model alike, and golden within
the bound of its format from float64.
"""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.text import parse_kernel
from penstock.engines.base import Given
from penstock.engines.pim.data import Inputs
from penstock.models.numerics.floating import float32
from penstock.models.pim.error import error_bound
from penstock.outcome import differences

K, V = ps.Input["k"], ps.Input["v"]


@ps.recurrence
def mlstm(C: ps.State["k", "v"], f: ps.Input, i: ps.Input, o: V, key: K, value: V, query: K):
    """xLSTM's matrix memory, gates in float64."""
    C = ps.sigmoid(f) * C + ps.exp(i) * ps.outer(key / ps.sqrt(8), value)
    return C, ps.sigmoid(o) * (query @ C)


@ps.recurrence
def longhorn(S: ps.State["k", "v"], beta: ps.Input, key: K, value: V, query: K):
    """The closed form of an online regression, with a decay for each row."""
    b = ps.sigmoid(beta)
    step = b / (1 + b * ps.sum(key * key))
    S = (1 - step * key * key)[:, None] * S + ps.outer(step * key, value)
    return S, query @ S


@ps.recurrence
def features(S: ps.State["k", "v"], key: K, value: V, query: K):
    """Linear attention with elu + 1 as its features."""
    phi = ps.where(key > 0, key + 1, ps.exp(key))
    psi = ps.where(query > 0, query + 1, ps.exp(query))
    S = S + ps.outer(phi, value)
    return S, (psi @ S) / 16


@ps.recurrence
def selective(h: ps.State["v", "k"], dt: ps.Input, a: K, b: K, c: K, x: V, skip: ps.Input):
    """Mamba's own state: a decay for each column, which the output adds."""
    step = ps.log(1 + ps.exp(dt))
    h = ps.exp(-step * ps.abs(a)) * h + ps.outer(step * x, b)
    return h, h @ c + skip * x


@ps.recurrence
def slots(S: ps.State["k", "v"], gate: K, value: V, query: K):
    """Gated slots: what a slot forgets it takes from the value."""
    keep = ps.sigmoid(gate)
    S = keep[:, None] * S + (1 - keep)[:, None] * value[None, :]
    return S, ps.exp(query) @ S


TEXTS = {
    "mlstm": """recurrence mlstm(C: state[k, v], f: input, i: input, o: input[v], key: input[k], value: input[v], query: input[k])
  C <- sigmoid(f) * C + exp(i) * outer(key / sqrt(8), value)
  y <- sigmoid(o) * (query @ C)
""",
    "longhorn": """recurrence longhorn(S: state[k, v], beta: input, key: input[k], value: input[v], query: input[k])
  b = sigmoid(beta)
  step = b / (1 + b * sum(key * key))
  S <- (1 - step * key * key)[:, None] * S + outer(step * key, value)
  y <- query @ S
""",
    "features": """recurrence features(S: state[k, v], key: input[k], value: input[v], query: input[k])
  phi = where(key > 0, key + 1, exp(key))
  psi = where(query > 0, query + 1, exp(query))
  S <- S + outer(phi, value)
  y <- (psi @ S) / 16
""",
    "selective": """recurrence selective(h: state[v, k], dt: input, a: input[k], b: input[k], c: input[k], x: input[v], skip: input)
  step = log(1 + exp(dt))
  h <- exp(-step * abs(a)) * h + outer(step * x, b)
  y <- h @ c + skip * x
""",
    "slots": """recurrence slots(S: state[k, v], gate: input[k], value: input[v], query: input[k])
  keep = sigmoid(gate)
  S <- keep[:, None] * S + (1 - keep)[:, None] * value[None, :]
  y <- exp(query) @ S
""",
}


_NAMES = {
    name: getattr(np, name) for name in ("abs", "exp", "log", "sqrt", "sum", "where", "outer")
}
_NAMES["sigmoid"] = lambda x: 1 / (1 + np.exp(-x))


def in_float64(text: str, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """The text's own operations by NumPy: the output of all tokens, and the last state."""
    state, lines = inputs.recurrent.state, [line.strip() for line in text.splitlines()[1:]]
    outputs, last = [], []
    for head in range(inputs.heads):
        now = np.zeros(inputs.recurrent.shape[:: -1 if inputs.recurrent.turned else 1])
        outputs.append([])
        for token in range(inputs.tokens):
            names = {name: value[token, 0, head] for name, value in inputs.arrays.items()}
            names |= {**_NAMES, "None": None, state: now}
            for line in lines:
                name, expression = line.replace(" <- ", " = ", 1).split(" = ", 1)
                names[name] = eval(expression, {}, names)
            now = names[state]
            outputs[-1].append(names["y"])
        last.append(now)
    return np.array(outputs).swapaxes(0, 1), np.array(last)


@pytest.mark.parametrize(
    "kernel", [mlstm, longhorn, features, selective, slots], ids=lambda k: k.name
)
def test_other_recurrences(kernel):
    tokens, text = 5, TEXTS[kernel.name]
    # the device of test_matrix.py
    options = {"dims": {"k": 70, "v": 33}, "target": "small", "heads": 1, "banks": 2}
    options["rounding"] = "nearest"
    design, written = (ps.compile(k, **options) for k in (kernel, parse_kernel(text)))
    golden, model, rtl = (
        design.run("random:seed=3", backend=b, tokens=tokens) for b in ("golden", "model", "rtl")
    )
    assert differences(golden, rtl) == [] and model.cycles == rtl.cycles
    assert model.counters["stalled"] == rtl.counters["stalled"]
    other = written.run("random:seed=3", backend="golden", tokens=tokens)
    assert differences(golden, other) == []
    # beside float64: what the host makes of the unit's output is linear here
    work = design.workload(Given(data="random:seed=3", options={"tokens": tokens}))
    given, _ = work.inputs.operands("mx8", False)
    bound, last_bound = error_bound(design.device, "update", given, tokens)
    y, last = in_float64(text, work.inputs)
    state = design.recurrent.state
    unit = float32.decode(golden.codes["y"])
    above, at = (work.values({"y": float32.encode(one)})["y"][:, 0] for one in (unit + bound, unit))
    found = work.values(golden.codes)
    error = np.abs(found["y"][:, 0] - y)
    assert (error <= np.abs(above - at) * 1.001).all() and error.max() > 0
    if design.recurrent.turned:
        last_bound = last_bound.swapaxes(1, 2)
    assert (np.abs(found[state][0] - last) <= last_bound).all()
