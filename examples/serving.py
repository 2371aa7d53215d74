"""Requests that share a device: they join, take steps and leave, and one moves to another session by its snapshot.

Each gives the bits that it gives alone. `python examples/serving.py rtl` runs the Verilog; the cycle model where nothing is said.
"""

import sys

import numpy as np
from retnet import retnet

import penstock as ps

HEADS, K, V = 2, 20, 5


def tokens(seed, count):
    rng, lead = np.random.default_rng(seed), (count, HEADS)
    return {
        "decay": np.broadcast_to([0.97, 1 - 2**-9], lead),
        "key": rng.normal(size=(*lead, K)),
        "value": rng.normal(size=(*lead, V)),
        "query": rng.normal(size=(*lead, K)),
    }


def main(backend="model"):
    design = ps.compile(retnet, target="small", batch=3, heads=HEADS, dims={"k": K, "v": V}, banks=4)
    with design.open(backend, seed=7) as session:
        a, b = session.join(seed=1), session.join(seed=2)
        first = session.step({a: tokens(1, 4), b: tokens(2, 1)})[a]  # a prompt, and one token
        session.leave(b)
        saved = session.snapshot(a)
        print(session, "has taken", session.cycles, "cycles; largest error", session.errors["largest"])
    with design.open(seed=1) as session:
        a = session.join(state=saved)
        more = session.step({a: tokens(3, 2)})[a]
    whole = {name: np.concatenate([tokens(1, 4)[name], tokens(3, 2)[name]]) for name in tokens(1, 1)}
    with design.open(seed=7) as session:
        alone = session.join(seed=1)
        y = session.step({alone: whole})[alone]
    return np.array_equal(np.concatenate([first, more]), y)


if __name__ == "__main__":
    print("the same bits:", main(*sys.argv[1:]))
