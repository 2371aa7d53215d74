"""Low-rank matrix factorisation: users' ratings of items as the product of two thin matrices, P (users) and Q (items).

Data: one tuple a user, with the columns `u` (float4[m], one-hot: which user), `r` (float4[n], the ratings) and `mask`
(float4[n], 1 where a rating
is known); `examples/data/lrmf` is such a table. The rank is chosen with --dim k=10.
"""

import penstock as ps


@ps.kernel(epochs=20, init={"P": ps.uniform(-0.5, 0.5, seed=1), "Q": ps.uniform(-0.5, 0.5, seed=2)})
def lrmf(
    u: ps.Input["m"], r: ps.Output["n"], mask: ps.Input["n"], P: ps.Model["m", "k"], Q: ps.Model["n", "k"], rate: ps.Meta = 0.05
):
    row = u @ P  # the user's row of P
    error = mask * (Q @ row - r)
    return P - rate * ps.merge(ps.outer(u, error @ Q), 4), Q - rate * ps.merge(ps.outer(error, row), 4)
