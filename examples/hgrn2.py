"""HGRN2: the key is what the forget gate leaves."""

import penstock as ps


@ps.recurrence
def hgrn2(
    S: ps.State["k", "v"],
    forget: ps.Input["k"],
    value: ps.Input["v"],
    query: ps.Input["k"],
):
    gate = 0.5 + 0.5 * ps.sigmoid(forget)
    S = gate[:, None] * S + ps.outer(1 - gate, value)
    return S, query @ S
