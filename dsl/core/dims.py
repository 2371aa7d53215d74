"""Dimensions that remember their names, and NumPy's shape rules over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count, islice

#: the largest size of one dimension
MAX_DIM = 1 << 20
#: for whoever asked for more
LARGE_HINT = "a row lies in one page of at most 32 KB, which is some 8,000 numbers"


@cache
def _stand_ins() -> tuple[int, ...]:
    """Sizes that stand for dimensions without one: large primes, so that two names never agree by accident."""
    is_prime = lambda n: all(n % divisor for divisor in range(2, math.isqrt(n) + 1))
    return tuple(islice(filter(is_prime, count(MAX_DIM, -1)), 32))


class Dim(int):
    """A size that came from a name; `known` is False where a stand-in takes the place of a size that is not known yet."""

    name: str
    known: bool

    def __new__(cls, size: int, name: str, known: bool = True) -> Dim:
        dim = super().__new__(cls, size)
        dim.name = name
        dim.known = known
        return dim

    def __reduce__(self) -> tuple[type[Dim], tuple[int, str, bool]]:
        return Dim, (int(self), self.name, self.known)

    @classmethod
    def stand_in(cls, name: str, number: int) -> Dim:
        """Return a dimension without a size, the `number`-th of its kernel."""
        primes = _stand_ins()
        size = primes[number] if number < len(primes) else MAX_DIM // 2 - number
        return cls(size, name, known=False)


#: sizes of a value's dimensions; plain integers where no name is known
Shape = tuple[int, ...]


def show(shape: Iterable[int]) -> str:
    """Return a shape as a user reads it: `[d=30, 5]`, `[d]` while the size of d is not known, `a scalar` for rank 0."""
    parts = []
    for size in shape:
        if isinstance(size, Dim):
            parts.append(f"{size.name}={int(size)}" if size.known else size.name)
        else:
            parts.append(str(size))
    return f"[{', '.join(parts)}]" if parts else "a scalar"


def unresolved(*shapes: Iterable[int]) -> list[str]:
    """Return the names of the dimensions in the shapes that have no size yet, each once."""
    return list(
        dict.fromkeys(
            size.name
            for shape in shapes
            for size in shape
            if isinstance(size, Dim) and not size.known
        )
    )


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """Return the shape that NumPy broadcasts the shapes to, or None where they do not fit."""
    rank = max(len(shape) for shape in shapes)
    result: list[int] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size == 1:
                continue
            if result[axis] == 1:
                result[axis] = size
            elif result[axis] != size:
                return None
            elif not isinstance(result[axis], Dim):
                result[axis] = size
    return tuple(result)


def matmul(left: Shape, right: Shape) -> Shape | None:
    """Return the shape of `left @ right` for ranks 1 and 2 by NumPy's rules, or None where they do not fit."""
    if not left or not right or left[-1] != right[0]:
        return None
    return left[:-1] + right[1:]
