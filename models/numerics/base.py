"""What every number format has: the interface, and the names of the operations."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Codes = NDArray[np.int64]

#: Operands of every operation; `register` adds to it.
ARITY: dict[str, int] = {
    "add": 2,
    "sub": 2,
    "mul": 2,
    "div": 2,
    "sqrt": 1,
    "neg": 1,
    "abs": 1,
    "lt": 2,
    "gt": 2,
    "le": 2,
    "ge": 2,
    "max": 2,
    "min": 2,
    "select": 3,
    "mac": 3,
    "pass": 1,
}
_EXTENSIONS: dict[str, Callable[..., Codes]] = {}


def register(name: str, arity: int, golden: Callable[..., Codes]) -> None:
    """Add an operation that `Format.op` finds: `golden(format, *codes) -> codes`."""
    ARITY[name] = arity
    _EXTENSIONS[name] = golden


def as_codes(x: ArrayLike) -> Codes:
    """Codes as an array of the type that operations expect."""
    return np.asarray(x, dtype=np.int64)


class Format(ABC):
    """How a number becomes a code of `width` bits. Instances are immutable, compare by value and can be dictionary keys."""

    is_float: bool

    @property
    @abstractmethod
    def width(self) -> int:
        """Bits of a code, 2 … 32."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The text that `parse_format` turns into this format."""

    @property
    @abstractmethod
    def min_value(self) -> float:
        """The lowest finite number."""

    @property
    @abstractmethod
    def max_value(self) -> float:
        """The greatest finite number."""

    @abstractmethod
    def encode(self, values: ArrayLike) -> Codes:
        """Round numbers (taken as float64) to codes, to nearest even. `Fixed` saturates and encodes NaN as 0."""

    @abstractmethod
    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        """The numbers that codes stand for, exactly."""

    @cached_property
    def container(self) -> int:
        """Bytes that a code takes in memory: 1, 2 or 4."""
        return 1 if self.width <= 8 else 2 if self.width <= 16 else 4

    @property
    def zero(self) -> int:
        """The code of 0 (of +0)."""
        return 0

    @cached_property
    def one(self) -> int:
        """The code of 1, or of the number nearest to it."""
        return self.const(1.0)

    def const(self, value: float) -> int:
        """The code of one number, as a plain integer."""
        return int(self.encode(value))

    def op(self, name: str, *codes: ArrayLike) -> Codes:
        """Apply the operation called `name`; raises ValueError for an unknown name or a wrong number of operands."""
        if name not in ARITY:
            raise ValueError(f"no operation {name!r}; there are {', '.join(ARITY)}")
        if len(codes) != ARITY[name]:
            raise ValueError(f"{name} takes {ARITY[name]} operands, not {len(codes)}")
        if name in _EXTENSIONS:
            return _EXTENSIONS[name](self, *map(as_codes, codes))
        method: Callable[..., Codes] = getattr(self, "move" if name == "pass" else name)
        return method(*codes)

    @abstractmethod
    def left_range(self, name: str, result: ArrayLike, *codes: ArrayLike) -> NDArray[np.bool_]:
        """Where the operation `name`, which gave `result`, left the format's range: of finite operands
        the exact result lies beyond the range, or there is none, as of 1 / 0 and of log(−1)."""

    def move(self, a: ArrayLike) -> Codes:
        """`pass`: the same bits."""
        return as_codes(a)

    def mac(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Codes:
        """a · b rounded, then + c rounded: two roundings, not a fused multiply-add."""
        return self.add(self.mul(a, b), c)

    def select(self, c: ArrayLike, a: ArrayLike, b: ArrayLike) -> Codes:
        """`a` where c is not zero, else `b`."""
        return np.where(self.is_zero(c), as_codes(b), as_codes(a))

    def _truth(self, flags: Any) -> Codes:
        return np.where(flags, np.int64(self.one), np.int64(self.zero))

    @abstractmethod
    def is_zero(self, a: ArrayLike) -> NDArray[np.bool_]:
        """Where `select` takes its last operand."""

    @abstractmethod
    def add(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def sub(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def mul(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def div(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def sqrt(self, a: ArrayLike) -> Codes: ...
    @abstractmethod
    def neg(self, a: ArrayLike) -> Codes: ...
    @abstractmethod
    def abs(self, a: ArrayLike) -> Codes: ...
    @abstractmethod
    def max(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def min(self, a: ArrayLike, b: ArrayLike) -> Codes: ...

    def lt(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.decode(a) < self.decode(b))

    def le(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.decode(a) <= self.decode(b))

    def gt(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.lt(b, a)

    def ge(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.le(b, a)

    def __str__(self) -> str:
        return self.name
