"""Gated DeltaNet: DeltaNet whose state decays as well, by one number a head and token."""

import penstock as ps


@ps.recurrence
def gated_deltanet(
    S: ps.State["k", "v"],
    key: ps.Input["k"],
    value: ps.Input["v"],
    query: ps.Input["k"],
    a: ps.Input,
    b: ps.Input,
):
    unit = key / ps.norm(key)
    decay = ps.sigmoid(a)
    beta = ps.sigmoid(b)
    S = decay * (S - beta * ps.outer(unit, unit @ S)) + beta * ps.outer(unit, value)
    return S, query @ S
