"""Factors in float32: rows folded into uᵀ D u by square-root-free Givens rotations, and uᵀ D u of an exact Gram matrix.

Rotations are Gentleman's (J. Inst. Maths Applics 12, 1973; Applied Statistics algorithm AS 75): R = sqrt(D) u without a square root, 3 multiplications an
element instead of 4. The order of operations is part of the contract; `arith` says how each rounds.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arith import Numbers, at_once, div, from_integer, mul, sub
from .job import Integers

#: a column is kept if its pivot is greater than this times its sum of squares: about 8 roundings of a chain of 64 operations
TOLERANCE = np.float32(2.0**-16)
#: a row is taken out of a factor if that leaves more than so much of each pivot it meets: about what AS 75 loses in 16 of 24 bits
SHRINKS = np.float32(2.0**-8)
_ONE = np.float32(1)


def fold(
    d: Numbers, u: Numbers, rows: Numbers, *, weight: np.float32 = _ONE, first: int = 0
) -> bool:
    """Fold rows (k, n) into the factor d (n,), u (n, n), in place, one after the other: with weight -1 they are taken out of it. Return whether that could be
    done, that is, left more than `SHRINKS` of each d_k that a row with a negative weight met.

    For a row x of weight δ and each column k from `first` on: e = δ · x_k, d' = d_k + e · x_k, c = d_k / d', s = e / d', δ' = δ · c, and for every j > k:
    u_kj' = c · u_kj + s · x_j and x_j' = x_j - x_k · u_kj, both with the old u_kj and x_j. Where d' is 0 d, u and δ stay.
    Once δ' is 0 nothing is left of the row, and it leaves (so does row i of a fresh factor at column i, the columns being independent).
    """
    # as a triangular array does it: in wave w row w - k meets column k, all columns at once
    d, u, rows = d[first:], u[first:, first:], rows[:, first:]
    m, n = rows.shape
    # the row before each column, from there on; zeros before, as in u
    x = np.zeros((n, n), dtype=np.float32)
    delta, here, done = np.zeros(n, dtype=np.float32), np.zeros(n, dtype=bool), True
    columns = np.arange(n)
    for wave in range(m + n - 1):
        x[1:], delta[1:], here[1:] = x[:-1].copy(), delta[:-1].copy(), here[:-1].copy()
        x[columns[1:], columns[:-1]] = 0
        here[0] = wave < m
        if here[0]:
            x[0], delta[0] = rows[wave], weight
        some = np.flatnonzero(here)
        head, weights = x[some, some], delta[some]
        pivot, left, elements = at_once(_turn, d[some], u[some], x[some], head, weights)
        turned_u, turned_x = elements
        turned, taken = pivot != 0, (weights < 0) & (head != 0)
        if taken.any():
            done &= bool((pivot > mul(d[some], SHRINKS))[taken].all())
        behind = columns > some[:, None]  # what lies before is 0, and 0 times infinity is not
        x[some] = np.where(behind, turned_x, 0)
        u[some] = np.where(behind & turned[:, None], turned_u, u[some])
        d[some] = np.where(turned, pivot, d[some])
        delta[some] = np.where(turned, left, weights)
        here[some[turned & (left == 0)]] = False
    return done


def _turn(
    of: Any, d: Numbers, u: Numbers, x: Numbers, head: Numbers, delta: Numbers
) -> tuple[Numbers, Numbers, tuple[Numbers, Numbers]]:
    """Return d', δ' and (u', x') of columns and the rows that they meet; `of`: the operations."""
    e = of.mul(delta, head)
    pivot = of.add(d, of.mul(e, head))
    safe = np.where(pivot != 0, pivot, _ONE)
    c, s = of.div(d, safe), of.div(e, safe)
    turned = of.add(of.mul(c[:, None], u), of.mul(s[:, None], x))
    return pivot, of.mul(delta, c), (turned, of.sub(x, of.mul(head[:, None], u)))


def full_rank(
    d: Numbers, u: Numbers, squares: Integers
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Apply the rank rule to a folded factor: return d, u (copies) of the columns kept, and which those are.

    In order: column k is kept if d_k > `TOLERANCE` · squares_k. A column that is not has its row of the factor taken out and folded into
    the rows below with the weight d_k: what it held belongs to the columns behind it.
    """
    d, u = d.copy(), u.copy()
    limit = mul(TOLERANCE, from_integer(squares))
    keep = np.zeros(len(d), dtype=bool)
    for k in range(len(d)):
        keep[k] = d[k] > limit[k]
        if not keep[k]:
            row, weight = u[k].copy(), d[k]
            u[k, k + 1 :] = 0
            d[k] = 0
            if weight != 0:
                fold(d, u, row[None], weight=weight, first=k + 1)
    return d, u, keep


def eliminate(gram: Integers) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Return d, u of an exact Gram matrix (upper triangle), and which columns are kept.

    Entries are rounded to float32 once. In order, with the pivot g_kk: column k is kept if g_kk > `TOLERANCE` · (g_kk before any elimination); then d_k = g_kk,
    t = 1 / d_k, u_kj = g_kj · t for j > k, and for k < i <= j: g_ij' = g_ij - u_ki · g_kj. A column that is not kept changes nothing.
    """
    n = len(gram)
    g = from_integer(gram)
    limit = mul(TOLERANCE, np.diagonal(g))
    d = np.zeros(n, dtype=np.float32)
    u = np.zeros((n, n), dtype=np.float32)
    keep = np.zeros(n, dtype=bool)
    for k in range(n):
        keep[k] = g[k, k] > limit[k]
        if keep[k]:
            d[k] = g[k, k]
            u[k, k + 1 :] = mul(g[k, k + 1 :], div(_ONE, d[k]))
            g[k + 1 :, k + 1 :] = sub(
                g[k + 1 :, k + 1 :], np.triu(mul(u[k, k + 1 :, None], g[None, k, k + 1 :]))
            )
    return d, u, keep


def solve(d: Numbers, u: Numbers, keep: NDArray[np.bool_], c: Numbers) -> Numbers:
    """Solve uᵀ D u w = c over the columns kept; the others' weights are +0.

    Forward, k ascending over kept columns: y_j' = y_j - u_kj · y_k for j > k. Then z_k = y_k · (1 / d_k). Backward, j descending over kept columns:
    z_k' = z_k - u_kj · z_j for k < j.
    """
    y = np.where(keep, c, np.float32(0))
    kept = np.flatnonzero(keep)
    for k in kept:
        y[k + 1 :] = sub(y[k + 1 :], mul(u[k, k + 1 :], y[k]))
    z = np.zeros_like(y)
    z[kept] = mul(y[kept], div(_ONE, d[kept]))
    for j in kept[::-1]:
        z[:j] = sub(z[:j], mul(u[:j, j], z[j]))
    return np.where(keep, z, np.float32(0))
