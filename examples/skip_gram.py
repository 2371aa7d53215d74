"""Word vectors: a word and one near it shall go together, the word and four drawn ones shall not (skip-gram with negative samples).

Data: the columns `w` and `near` (which word) and `far` (an array of up to 4; hardware takes 4). The width is chosen with --dim k=16.
"""

import penstock as ps


@ps.kernel(init={"A": ps.uniform(-0.5, 0.5, seed=1), "B": ps.uniform(-0.5, 0.5, seed=2)})
def skip_gram(
    w: ps.Index["n"],
    near: ps.Index["n"],
    far: ps.Index["n", 4],
    A: ps.Model["n", "k"],
    B: ps.Model["n", "k"],
    rate: ps.Meta = 0.05,
):
    yes = rate * (1 - ps.sigmoid(ps.sum(A[w] * B[near])))
    no = -rate * ps.sigmoid(B[far] @ A[w])
    return (
        A.at[w].add(yes * B[near] + ps.sum(no[:, None] * B[far], axis=0)),
        B.at[near].add(yes * A[w]).at[far].add(no[:, None] * A[w][None, :]),
    )
