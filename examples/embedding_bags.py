"""Clicks from a bag of categories and some numbers: rows of a table are pooled, numbers go through one dense layer, and both are weighed.

Data: the columns `c` (an array of up to 8 whole numbers, its length may differ), `x` (an array of numbers) and `y` (0 or 1). The width
of a row is chosen with --dim k=8. Where arrays have less than 8: golden results alone.
"""

import penstock as ps


@ps.kernel(
    epochs=2,
    init={"E": ps.uniform(-0.5, 0.5, seed=1), "W": ps.uniform(-0.5, 0.5, seed=2), "v": 0.25},
)
def embedding_bags(
    c: ps.Index["n", 8],
    x: ps.Input["d"],
    y: ps.Output,
    E: ps.Model["n", "k"],
    W: ps.Model["k", "d"],
    v: ps.Model["k"],
    rate: ps.Meta = 0.1,
):
    dense = W @ x
    hidden = ps.sum(E[c], axis=0) + ps.where(dense > 0, dense, 0)
    error = ps.score(ps.sigmoid(ps.sum(v * hidden)), name="probability") - y
    back = error * v
    return (
        E.at[c].subtract(rate * back),
        W - rate * ps.merge(ps.outer(back * (dense > 0), x), 16),
        v - rate * ps.merge(error * hidden, 16),
    )
