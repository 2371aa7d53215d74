"""YCSB's number generators: FNV hash, Zipfian, scrambled Zipfian, latest, hotspot, uniform; each draws whole arrays.

Source of every definition: the generators of brianfrankcooper/YCSB (core, package `generator`); the Zipfian method is that of Gray et al.,
"Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994. Random numbers come from NumPy's PCG64 instead of Java's generators, so
draws have YCSB's distributions and are reproducible from a seed, but are not YCSB's own sequence.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

__all__ = [
    "SCRAMBLED_ITEMS",
    "SCRAMBLED_ZETA",
    "THETA",
    "Hotspot",
    "KeyChooser",
    "Latest",
    "ScrambledZipfian",
    "Uniform",
    "Zipfian",
    "fnv64",
    "zeta",
]

THETA = 0.99  #: YCSB's Zipfian constant
SCRAMBLED_ITEMS = (
    10**16 + 1
)  #: items behind the scrambled Zipfian: 0 … 10^16, both included, as YCSB constructs it
#: YCSB's constant for it. It is zeta(10^10): YCSB kept it when it raised the items to 10^16, whose zeta is 45.12. We keep both as they are.
SCRAMBLED_ZETA = 26.46902820178302
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(1099511628211)
_CHUNK = 1 << 20


def fnv64(values: np.ndarray | int) -> np.ndarray:
    """Hash integers (int64, any shape) as YCSB does: FNV-1a over the eight octets from the lowest on, then the absolute value as int64.

    As in Java the absolute value of -2**63 is itself.
    """
    rest = np.asarray(values, dtype=np.int64).astype(np.uint64)
    state = np.full(rest.shape, _FNV_OFFSET)
    with np.errstate(over="ignore"):  # wraps around
        for _ in range(8):
            state = (state ^ (rest & np.uint64(0xFF))) * _FNV_PRIME
            rest = rest >> np.uint64(8)
    return np.abs(state.astype(np.int64))


def zeta(items: int, theta: float = THETA, start: int = 0, value: float = 0.0) -> float:
    """Return sum(i ** -theta for i in 1 … items), summed in that order; goes on from `value` = zeta(`start`) where given."""
    for first in range(start, items, _CHUNK):
        terms = np.arange(first + 1, min(first + _CHUNK, items) + 1, dtype=np.float64) ** -theta
        terms[0] += value
        value = float(np.add.accumulate(terms)[-1])
    return value


class KeyChooser(Protocol):
    """Picks key numbers. `last` (int64[n]) is for each draw the greatest key number that has been inserted by then; it never falls."""

    def draw(self, last: np.ndarray) -> np.ndarray: ...


class Zipfian:
    """Item i of 0 … items - 1 with probability about (i + 1) ** -theta / zeta(items).

    Args:
        items: number of items at the beginning, at least 1.
        theta: exponent, in (0, 1).
        zeta_items: zeta(items) where it is known.
    """

    def __init__(
        self,
        items: int,
        rng: np.random.Generator,
        theta: float = THETA,
        zeta_items: float | None = None,
    ) -> None:
        if items < 1 or not 0 < theta < 1:
            raise ValueError(
                f"a Zipfian distribution needs at least one item and theta between 0 and 1, not {items} and {theta}"
            )
        self.items, self.theta, self._rng = items, theta, rng
        self.count = items  #: items that zeta covers now
        self.zeta = zeta(items, theta) if zeta_items is None else zeta_items
        self._zeta2 = zeta(2, theta)

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return one item for each of `counts` (int64[n]), the number of items at that draw; zeta is extended as they grow, never taken back.

        As in YCSB `eta` keeps the number of items at the beginning, and a count below the greatest so far uses the zeta of that one.
        """
        most = np.maximum.accumulate(np.maximum(counts, self.count))
        zetas = np.full(len(most), self.zeta)
        if len(most) and most[-1] > self.count:
            steps = np.arange(self.count + 1, most[-1] + 1, dtype=np.float64) ** -self.theta
            steps[0] += self.zeta
            known = np.concatenate([[self.zeta], np.add.accumulate(steps)])
            zetas = known[most - self.count]
            self.count, self.zeta = int(most[-1]), float(known[-1])
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # one or two items: eta has no use, both are taken below
            eta = (1 - (2.0 / self.items) ** (1 - self.theta)) / (1 - self._zeta2 / zetas)
            draws = self._rng.random(len(counts))
            base = np.where(np.isfinite(eta), eta * draws - eta + 1, 0.0)
            found = (counts * np.maximum(base, 0.0) ** (1 / (1 - self.theta))).astype(np.int64)
        scaled = draws * zetas
        found[scaled < 1 + 0.5**self.theta] = 1
        found[scaled < 1] = 0
        return found


class ScrambledZipfian:
    """Key numbers first … first + items - 1, popular ones scattered: a hashed Zipfian draw over 10^16 items, modulo `items`.

    A pick that has not been inserted yet is drawn again.
    """

    def __init__(self, items: int, rng: np.random.Generator, first: int = 0) -> None:
        self.items, self.first = items, first
        self._zipfian = Zipfian(SCRAMBLED_ITEMS, rng, THETA, SCRAMBLED_ZETA)

    def draw(self, last: np.ndarray) -> np.ndarray:
        found = np.empty(len(last), dtype=np.int64)
        open_ = np.arange(len(last))
        while len(open_):
            ranks = self._zipfian.draw(np.full(len(open_), SCRAMBLED_ITEMS))
            found[open_] = self.first + np.fmod(fnv64(ranks), self.items)
            open_ = open_[found[open_] > last[open_]]
        return found


class Latest:
    """Skewed to what was inserted last: last - Zipfian(last)."""

    def __init__(self, last: int, rng: np.random.Generator) -> None:
        self._zipfian = Zipfian(max(last, 1), rng)

    def draw(self, last: np.ndarray) -> np.ndarray:
        return last - self._zipfian.draw(last)


class Uniform:
    """Every key number of first … last_first alike: those that were loaded; YCSB does not extend it to later inserts."""

    def __init__(self, first: int, count: int, rng: np.random.Generator) -> None:
        self._first, self._count, self._rng = first, count, rng

    def draw(self, last: np.ndarray) -> np.ndarray:
        return self._rng.integers(self._first, self._first + self._count, len(last))


class Hotspot:
    """A share `operations` of draws falls uniformly on the first `keys` of the loaded key numbers, the others on the rest."""

    def __init__(
        self,
        first: int,
        count: int,
        rng: np.random.Generator,
        keys: float = 0.2,
        operations: float = 0.8,
    ) -> None:
        if not (0 <= keys <= 1 and 0 <= operations <= 1):
            raise ValueError(
                f"a hotspot's shares lie between 0 and 1, not at {keys} and {operations}"
            )
        self._first, self._hot, self._cold, self._rng = (
            first,
            int(count * keys),
            count - int(count * keys),
            rng,
        )
        # where one side has no keys the other takes all (YCSB would divide by zero)
        self._share = 0.0 if not self._hot else 1.0 if not self._cold else operations

    def draw(self, last: np.ndarray) -> np.ndarray:
        hot = self._rng.random(len(last)) < self._share
        inside = self._rng.random(len(last))
        return self._first + np.where(
            hot,
            (inside * self._hot).astype(np.int64),
            self._hot + (inside * self._cold).astype(np.int64),
        )
