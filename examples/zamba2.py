"""Zamba2's Mamba layers: a Mamba-2 step with dim_head = dim_state = 64; `attention.py` has its attention."""

import penstock as ps


@ps.recurrence
def zamba2(
    S: ps.State[64, 64],
    d: ps.Input,
    b: ps.Input[64],
    x: ps.Input[64],
    c: ps.Input[64],
):
    S = d * S + ps.outer(b, x)
    return S, c @ S
