"""Cases that once differed, as hypothesis shrank and printed them, and what it seldom draws: each run goes through them first."""

from .drawn import Case

__all__ = ["KEPT", "ON_HARDWARE"]

KEPT = (
    # the root of a norm over rows was lost
    Case(
        "kernel f(x0: input[2, 3], w0: model[3])\n  w0 <- norm(x0, axis=0)\n",
        (),
        "fixed:8,8",
        rows=1,
        seed=1,
        lanes=2,
        threads=1,
    ),
    # until saw the model that the last batch ended with
    Case(
        "kernel f(x0: input, w0: model)\n  w0 <- w0 + merge(x0, 4)\n  until w0 * w0 > 0\n  epochs 3\n",
        (),
        "fixed:8,8",
        rows=4,
        seed=0,
        lanes=1,
        threads=2,
    ),
    # the only row of a matrix was reduced twice, which shows where a format lacks 1
    Case(
        "kernel f(x0: input[1, 3], w0: model)\n  w0 <- prod(x0)\n  epochs 1\n",
        (),
        "fixed:1,7",
        rows=1,
        seed=8,
        lanes=4,
        threads=1,
    ),
    # a merged condition is a new value and ends the run
    Case(
        "kernel f(x0: input, w0: model)\n  c = merge(x0, 4) > 0\n  w0 <- c\n  until c\n  epochs 3\n",
        (),
        "fixed:8,8",
        rows=12,
        seed=2,
        lanes=1,
        threads=2,
    ),
    # columns and rows that become each other, and a column of a number
    Case(
        "kernel f(x0: input[3], w0: model[3, 1], w1: model[1, 3], w2: model[3, 1], w3: model[1, 1])\n"
        "  w0 <- w1.T\n  w1 <- w0.T + w2.T * 2\n  w2 <- merge(x0, 4)[:, None]\n  w3 <- w3.T + 1\n  epochs 2\n",
        (),
        "fixed:8,8",
        rows=8,
        seed=4,
        lanes=2,
        threads=2,
    ),
)

#: whose golden result has no plan's times: hardware alone differed
ON_HARDWARE = (
    # a merged value that only `until` reads is written after the new model
    Case(
        "kernel f(x0: input, w0: model)\n  m0 = merge(exp(x0), 4)\n  w0 <- w0 + 1\n  until m0 > 2\n  epochs 3\n",
        (),
        "fixed:8,8",
        rows=5,
        seed=0,
        lanes=1,
        threads=1,
    ),
    # the flag is a merged value itself
    Case(
        "kernel f(x0: input, w0: model)\n  m0 = merge(x0, 4)\n  w0 <- w0 + m0\n  until m0\n  epochs 3\n",
        (),
        "fixed:8,8",
        rows=5,
        seed=1,
        lanes=1,
        threads=1,
    ),
)
