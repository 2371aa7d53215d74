"""Ratings of items by users, as a mean, a bias of each user and each item, and the product of two thin tables.

Data: one tuple a rating, with the columns `u` and `i` (whole numbers or texts: which user, which item) and `r` (the rating). The rank is
chosen with --dim k=10. `penstock simulate biased_lrmf.py --data ratings.csv --dim k=10`.
"""

import penstock as ps


@ps.kernel(epochs=10, init={"P": ps.uniform(-0.1, 0.1, seed=1), "Q": ps.uniform(-0.1, 0.1, seed=2)})
def biased_lrmf(
    u: ps.Index["m"],
    i: ps.Index["n"],
    r: ps.Output,
    P: ps.Model["m", "k"],
    Q: ps.Model["n", "k"],
    b: ps.Model["m"],
    c: ps.Model["n"],
    overall: ps.Meta = 3.5,
    rate: ps.Meta = 0.005,
    decay: ps.Meta = 0.02,
):
    error = r - ps.score(overall + b[u] + c[i] + ps.sum(P[u] * Q[i]), name="rating")
    return (
        P.at[u].add(rate * (error * Q[i] - decay * P[u])),
        Q.at[i].add(rate * (error * P[u] - decay * Q[i])),
        b.at[u].add(rate * (error - decay * b[u])),
        c.at[i].add(rate * (error - decay * c[i])),
    )
