"""A factorisation machine over fields of categories: a weight of each category, and the product of rows of each pair.

Data: the columns of the fields (`--bind c=c1,c2,…`: each counts for itself) or one array `c`, and `y` (0 or 1). The rank is chosen with
--dim k=4.
"""

import penstock as ps


@ps.kernel(epochs=2, init={"V": ps.uniform(-0.1, 0.1, seed=1)})
def factorisation_machine(
    c: ps.Index["n", "fields"],
    y: ps.Output,
    V: ps.Model["n", "k"],
    w: ps.Model["n"],
    bias: ps.Model,
    rate: ps.Meta = 0.05,
):
    total = ps.sum(V[c], axis=0)
    pairs = 0.5 * ps.sum(total * total - ps.sum(V[c] * V[c], axis=0))
    error = ps.score(ps.sigmoid(bias + ps.sum(w[c]) + pairs), name="probability") - y
    return (
        V.at[c].subtract(rate * error * (total[None, :] - V[c])),
        w.at[c].subtract(rate * error),
        bias - rate * ps.merge(error, 16),
    )
