"""Attention over a cache of keys and one of values, whole, with caches that grow, and its two products alone (Zamba2's attention layers,
transformers)."""

import penstock as ps


@ps.recurrence
def score(K: ps.State["t", "d"], q: ps.Input["d"]):
    return K @ q


@ps.recurrence
def attend(V: ps.State["t", "d"], weights: ps.Input["t"]):
    return weights @ V


@ps.recurrence
def attention(K: ps.Cache["t", "k"], V: ps.Cache["t", "v"], q: ps.Input["k"], scale: ps.Input):
    return ps.softmax(scale * (K @ q)) @ V


@ps.recurrence
def decoding(
    K: ps.Cache["t", "k"],
    V: ps.Cache["t", "v"],
    key: ps.Input["k"],
    value: ps.Input["v"],
    q: ps.Input["k"],
    scale: ps.Input,
):
    K = ps.append(K, key)
    V = ps.append(V, value)
    return ps.softmax(scale * (K @ q)) @ V
