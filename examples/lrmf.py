"""Low-rank matrix factorisation: ratings of items by users as the product of two thin tables, P (users) and Q (items).

Data: one tuple a rating, with the columns `u` and `i` (whole numbers or texts: which user, which item) and `r` (the rating);
`examples/data/ratings` is such a table. The rank is chosen with --dim k=10.
"""

import penstock as ps


@ps.kernel(epochs=20, batch=16, init={"P": ps.uniform(-0.5, 0.5, seed=1), "Q": ps.uniform(-0.5, 0.5, seed=2)})
def lrmf(u: ps.Index["m"], i: ps.Index["n"], r: ps.Output, P: ps.Model["m", "k"], Q: ps.Model["n", "k"], rate: ps.Meta = 0.05):
    error = ps.sum(P[u] * Q[i]) - r
    return P.at[u].add(-rate * error * Q[i]), Q.at[i].add(-rate * error * P[u])
