"""Mamba-2: a scalar decay for each head and token. The paper's dim_head is Mamba's d_state, dim_state its headdim.

`dt` and `a` are the step and the (negative) rate; what is made of them is the host's, as is the skip D · x.
"""

import penstock as ps


@ps.recurrence
def mamba2(
    S: ps.State["n", "p"],
    dt: ps.Input,
    a: ps.Input,
    b: ps.Input["n"],
    x: ps.Input["p"],
    c: ps.Input["n"],
    skip: ps.Input,
):
    step = ps.log(1 + ps.exp(dt))  # softplus
    rate = -ps.log(1 + ps.exp(a))
    S = ps.exp(step * rate) * S + ps.outer(step * b, x)
    return S, c @ S + skip * x
