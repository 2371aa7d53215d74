"""DeltaNet: what the state holds under a key is replaced, by a part of sigmoid(b). The old state is read before it changes, so that a token
takes two passes; the host makes the difference.
"""

import penstock as ps


@ps.recurrence
def deltanet(
    S: ps.State["k", "v"],
    key: ps.Input["k"],
    value: ps.Input["v"],
    query: ps.Input["k"],
    b: ps.Input,
):
    unit = key / ps.norm(key)
    S = S + ps.outer(unit, ps.sigmoid(b) * (value - unit @ S))
    return S, query @ S
