"""Attention's two products over a cache of keys and one of values (Zamba2's attention layers, transformers)."""

import penstock as ps


@ps.recurrence
def score(K: ps.State["t", "d"], q: ps.Input["d"]):
    return K @ q


@ps.recurrence
def attend(V: ps.State["t", "d"], weights: ps.Input["t"]):
    return weights @ V
