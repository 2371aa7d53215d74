"""Passes over axes: attention in the three ways whose passes FuseMax (MICRO 2024, section IV) counts, in both front ends."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.dsl.core.text import parse_kernel

HEADER = "kernel f(q: input[k], K: model[t, k], V: model[t, v], w: model[v])\n"
KEPT = "  K <- K\n  V <- V\n"
BEGIN = KEPT + "  s = K @ q\n  e = exp(s - max(s))\n"
ROWS = "kernel f(x: input[n, d], w: model[n])\n"
KERNELS = {
    HEADER + BEGIN + "  w <- w + (e / sum(e)) @ V\n": ("t", 3, ("max(s)", "sum(e)")),
    HEADER + BEGIN + "  w <- w + e @ V / sum(e)\n": ("t", 2, ("max(s)",)),
    HEADER + KEPT + "  e = exp(K @ q)\n  w <- w + e @ V / sum(e)\n": ("t", 1, ()),
    # one axis of two, and both; a reduction that only another axis needs forces nothing
    ROWS + "  w <- w + sum(x, axis=1)\n": ("n", 1, ()),
    ROWS + "  w <- w + sum(x)\n": ("n", 2, ("sum(x)",)),
    # the later of two operands counts, in either order
    ROWS + "  a = sum(w)\n  b = sum(w * a)\n  w <- w * (b + a)\n": (
        "n",
        3,
        ("sum(w)", "sum(w * a)"),
    ),
    ROWS + "  a = sum(w)\n  b = sum(w * a)\n  w <- w * (a + b)\n": (
        "n",
        3,
        ("sum(w)", "sum(w * a)"),
    ),
    ROWS + "  w <- w - x @ sum(x, axis=0)\n": ("n", 2, ("sum(x, axis=0)",)),
}


@pytest.mark.parametrize("text", KERNELS)
def test_passes_over_an_axis(text: str) -> None:
    axis, passes, forced = KERNELS[text]
    kernel = parse_kernel(text)
    kernel.check()
    [found] = [one for one in kernel.walked if one.axis == axis]
    assert (found.passes, found.forced_by) == (passes, forced)


def test_passes_of_a_kernel_in_python() -> None:
    @ps.kernel
    def attention(q: ps.Input["k"], K: ps.Model["t", "k"], V: ps.Model["t", "v"], w: ps.Model["v"]):
        s = K @ q
        e = ps.exp(s - ps.max(s))
        return K, V, w + (e / ps.sum(e)) @ V

    for sizes in ({}, {"k": 4, "t": 4, "v": 4}):  # equal sizes are axes of their own
        attention.check(sizes)
        assert [tuple(one) for one in attention.walked] == [
            ("k", 1, ()),
            ("t", 3, ("ps.max(s)", "ps.sum(e)")),
            ("v", 1, ()),
        ]
