"""xLSTM's mLSTM: the sum of keys n, by which the output is divided, and the exponent m of both are states of the host's, in float64."""

import penstock as ps


@ps.recurrence
def mlstm(
    S: ps.State["k", "v"],
    n: ps.State["k"],
    m: ps.State,
    key: ps.Input["k"],
    value: ps.Input["v"],
    query: ps.Input["k"],
    i: ps.Input,
    f: ps.Input,
):
    kept = ps.log(ps.sigmoid(f)) + m
    top = ps.where(kept > i, kept, i)
    decay = ps.exp(kept - top)
    gain = ps.exp(i - top)
    S = decay * S + gain * ps.outer(key, value)
    n = decay * n + gain * key
    size, least = ps.abs(query @ n), ps.exp(-top)
    return S, n, top, (query @ S) / ps.where(size > least, size, least)
