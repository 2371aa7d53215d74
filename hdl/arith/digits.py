"""Division and square root digit by digit, unrolled into register ranks."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Value

from ...models.numerics.latency import digits, digits_per_stage
from .pipeline import Pipeline


def divide(
    pipe: Pipeline, format: Any, rest: Value, divisor: Value, feed: Value, keep: Mapping[str, Value]
) -> SimpleNamespace:
    """Restoring division: the quotient's digits of a format, some in each rank (`models.numerics.latency`).

    A digit is 1 where `rest` is not below `divisor`, which is then subtracted. After each digit the rest is doubled, and takes in the next bit of
    `feed`, the highest first, zeros after its end. `rest` must be below twice the divisor; it stays so.

    Return registers `quotient`, `rest`, and the values of `keep` delayed as much.
    """
    count, per_stage = digits("div", format), digits_per_stage(format)
    quotient: list[Value] = []  # first digit first
    left = count
    while left:
        steps = min(left, per_stage)
        for _ in range(steps):
            # signed: below 0 where the divisor does not go in
            trial = pipe.wire(rest - divisor, name="trial")
            quotient.append(~trial[-1])
            digit = feed[-1] if len(feed) else Const(0, 1)
            feed = feed[: max(len(feed) - 1, 0)]
            rest = pipe.wire(Cat(digit, Mux(trial[-1], rest, trial)[: len(divisor)]), name="rest")
        left -= steps
        last = {} if left == 0 else {"feed": feed, "divisor": divisor}
        s = pipe.rank(**keep, **last, rest=rest, quotient=Cat(*reversed(quotient)))
        rest = s.rest
        keep = {name: getattr(s, name) for name in keep}
        quotient = list(reversed(list(s.quotient)))
        if left:
            feed, divisor = s.feed, s.divisor
    return s


def square_root(
    pipe: Pipeline, radicand: Value, count: int, per_stage: int, keep: Mapping[str, Value]
) -> SimpleNamespace:
    """Restoring square root: `count` digits, `per_stage` in each rank, of a radicand that is taken as ending in zeros to 2 · count bits.

    Returns register `root` (`count` bits), and the values of `keep` delayed as much. The remainder is
    dropped: no square root lies half way between two numbers, so its last digit rounds it.
    """
    rest: Value = Const(0, 0)
    root: Value = Const(0, 0)
    left = count
    while left:
        steps = min(left, per_stage)
        for _ in range(steps):
            pair = (
                radicand[-2:]
                if len(radicand) > 1
                else Cat(Const(0, 1), radicand)
                if len(radicand)
                else Const(0, 2)
            )
            radicand = radicand[: max(len(radicand) - 2, 0)]
            rest = Cat(pair, rest)
            trial = pipe.wire(rest - Cat(Const(1, 2), root), name="trial")
            root = Cat(~trial[-1], root)
            # at most twice the root
            rest = pipe.wire(Mux(trial[-1], rest, trial)[: len(root) + 1], name="rest")
        left -= steps
        last = {} if left == 0 else {"radicand": radicand, "rest": rest}
        s = pipe.rank(**keep, **last, root=root)
        root, keep = s.root, {name: getattr(s, name) for name in keep}
        if left:
            radicand, rest = s.radicand, s.rest
    return s
