"""Recurrences laid out on a device, beside float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.models.pim.config import PimConfig
from penstock.models.pim.error import error_bound
from penstock.models.pim.layout import Layout, Operands
from penstock.models.pim.rules import check

SMALL = PimConfig(groups=2, banks=2, rows=64)


def reference(mode, given, tokens):
    state, out = given.state, []
    for t in range(tokens):
        if mode == "update":
            state = given.d[t][..., None] * state + given.k[t][..., None] * given.v[t][..., None, :]
            out.append(np.einsum("nk,nkv->nv", given.q[t], state))
        elif mode == "score":
            out.append(np.einsum("nk,nkv->nv", given.q[t], state))
        else:
            out.append(np.einsum("nv,nkv->nk", given.v[t], state))
    return np.array(out), state


@pytest.mark.parametrize("mode", ["update", "score", "attend"])
@pytest.mark.parametrize("format", ["mx8", "float16"])
@pytest.mark.parametrize(("head", "columns", "items"), [(64, 64, 3), (20, 70, 2), (100, 32, 1)])
def test_results_are_those_of_the_recurrence(mode, format, head, columns, items):
    rng, tokens = np.random.default_rng(head), 3
    draw = lambda *shape: rng.normal(size=shape)
    given = Operands(
        draw(items, head, columns),
        None if mode == "attend" else draw(tokens, items, head),
        rng.uniform(0.5, 1, size=(tokens, items, head)) if mode == "update" else None,
        draw(tokens, items, head) if mode == "update" else None,
        None if mode == "score" else draw(tokens, items, columns),
    )
    stochastic = format == "mx8" and mode == "update" and head == 20
    config = replace(SMALL, format=format, stochastic=stochastic, sets=2 if head == 64 else 1)
    layout = Layout(config, mode, head, columns, items, tokens)
    made, steps = layout.program(given)
    assert check(made.schedule) == []
    out, saturated = layout.play(made, steps)
    y, state = layout.results(made, out)
    exact, last = reference(mode, given, tokens)
    bound, last_bound = error_bound(config, mode, given, tokens)
    assert y.shape == exact.shape and not saturated
    assert (np.abs(y - exact) <= bound).all()
    if mode == "update":
        assert (np.abs(state - last) <= last_bound).all()
