"""Gated linear attention: a decay for each element of the key, exp(log sigmoid(gate) / 16)."""

import penstock as ps


@ps.recurrence
def gla(
    S: ps.State["k", "v"],
    gate: ps.Input["k"],
    key: ps.Input["k"],
    value: ps.Input["v"],
    query: ps.Input["k"],
):
    decay = ps.exp(ps.log(ps.sigmoid(gate)) / 16)
    S = decay[:, None] * S + ps.outer(key, value)
    return S, query @ S
