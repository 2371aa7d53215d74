"""RetNet: one constant decay for each head."""

import penstock as ps


@ps.recurrence
def retnet(
    S: ps.State["k", "v"],
    decay: ps.Input,
    key: ps.Input["k"],
    value: ps.Input["v"],
    query: ps.Input["k"],
):
    S = decay * S + ps.outer(key, value)
    return S, query @ S
