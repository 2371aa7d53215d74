"""k-means, tuple by tuple: the nearest centre moves towards the tuple, by less the more tuples it had.

Data: a table with an array `x`. How many centres is chosen with --dim k=8.
"""

import penstock as ps


@ps.kernel(init={"C": ps.uniform(-1, 1, seed=1)})
def kmeans(x: ps.Input["d"], C: ps.Model["k", "d"], many: ps.Model["k"]):
    nearest = ps.argmin(ps.sum((C - x) ** 2, axis=1))
    return (
        C.at[nearest].add((x - C[nearest]) / (many[nearest] + 1)),
        many.at[nearest].add(1),
    )
