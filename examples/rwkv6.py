"""RWKV-6: the output reads the old state, and the token itself with a bonus u, which the host adds: (r · (u ⊙ key)) value."""

import penstock as ps


@ps.recurrence
def rwkv6(
    S: ps.State["k", "v"],
    w: ps.Input["k"],
    key: ps.Input["k"],
    value: ps.Input["v"],
    r: ps.Input["k"],
    u: ps.Input["k"],
):
    y = r @ (S + u[:, None] * ps.outer(key, value))
    S = ps.exp(-ps.exp(w))[:, None] * S + ps.outer(key, value)
    return S, y
