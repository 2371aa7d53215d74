"""RWKV-7: a decay for each row, a part of what lies under a key is taken out and another key's is put in: two outer products, so a token takes
three passes."""

import penstock as ps


@ps.recurrence
def rwkv7(
    S: ps.State["v", "k"],
    w: ps.Input["k"],
    key: ps.Input["k"],
    value: ps.Input["v"],
    r: ps.Input["k"],
    a: ps.Input["k"],
):
    unit = key / ps.norm(key)
    rate = ps.sigmoid(a)
    S = S * ps.exp(-ps.exp(w)) - ps.outer(S @ unit, rate * unit) + ps.outer(value, key)
    return S, S @ r
