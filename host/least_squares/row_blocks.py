"""The rows of a table as least squares go over them: in blocks, in the widest floating point that NumPy has."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: 64 bits of a significand on x86: a 64-bit integer is exact
WIDE = np.longdouble
_Wide = NDArray[np.longdouble]
#: rows of a block: sums of a block, then over blocks
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns of a table, features first, then the label: int64 or float64 arrays of one length, all finite.

    `weights`: of the rows, float64, none below 0; `centred`: columns count less their (weighted) means.

    A column counts as z = (x − centre) 2**-exponent − mean, divided by the length of all its z.
    """

    columns: Sequence[NDArray[np.int64] | NDArray[np.float64]]
    weights: NDArray[np.float64] | None = None
    centred: bool = True

    @property
    def count(self) -> int:
        return len(self.columns[0])

    @cached_property
    def _near(self) -> list[tuple[int | float, int]]:
        """A number within each column's range, exactly, and a power of two above what is left."""
        centres: list[tuple[int | float, int]] = []
        for column in self.columns:
            least, greatest = column.min().item(), column.max().item()
            centre: int | float = 0
            if self.centred and least == greatest:
                centre = least
            elif self.centred:
                is_integer = isinstance(least, int)
                centre = (least + greatest) // 2 if is_integer else least / 2 + greatest / 2
                if self.weights is not None and self.total:  # what is far may weigh little
                    mean = (self.weights.astype(WIDE) @ column.astype(WIDE)) / self.total
                    centre = int(mean) if is_integer else float(mean)
            reach = max(abs(WIDE(least) - WIDE(centre)), abs(WIDE(greatest) - WIDE(centre)))
            centres.append((centre, int(np.frexp(reach)[1])))
        return centres

    def _raw(self) -> Iterator[tuple[slice, _Wide]]:
        """Yield blocks of rows, about their centres and below 1 in size."""
        for first in range(0, self.count, _BLOCK):
            part = slice(first, min(first + _BLOCK, self.count))
            block = np.empty((part.stop - first, len(self.columns)), WIDE)
            for k, (column, (centre, exponent)) in enumerate(
                zip(self.columns, self._near, strict=True)
            ):
                block[:, k] = np.ldexp(column[part].astype(WIDE) - WIDE(centre), -exponent)
            yield part, block

    def _weight(self, part: slice) -> _Wide | None:
        return None if self.weights is None else self.weights[part].astype(WIDE)

    @cached_property
    def total(self) -> np.longdouble:
        """The sum of the rows' weights."""
        return WIDE(self.count) if self.weights is None else self.weights.astype(WIDE).sum()

    @cached_property
    def _moments(self) -> tuple[_Wide, _Wide]:
        """Mean and length of each column of `_raw`."""
        count = len(self.columns)
        mean = np.zeros(count, WIDE)
        if self.centred:
            for part, block in self._raw():
                weight = self._weight(part)
                mean += block.sum(axis=0) if weight is None else weight @ block
            mean /= self.total
        squares, rest = np.zeros(count, WIDE), np.zeros(count, WIDE)
        for part, block in self._raw():
            block -= mean
            weight = self._weight(part)
            weighted = block if weight is None else block * weight[:, None]
            squares += (block * weighted).sum(axis=0)
            rest += weighted.sum(axis=0)
        if self.centred:
            squares -= rest * rest / self.total
        constant = np.array([column.min() == column.max() for column in self.columns])
        lengths = np.sqrt(np.maximum(squares, 0))
        return mean, np.where(constant & self.centred, 0, lengths)

    @property
    def lengths(self) -> _Wide:
        """The root of the sum of squares of each column, less its mean."""
        return np.ldexp(self._moments[1], np.array([e for _, e in self._near]))

    @property
    def means(self) -> _Wide:
        """The columns' means, 0 where they are not centred."""
        exponents = np.array([e for _, e in self._near])
        centres = np.array([WIDE(centre) for centre, _ in self._near])
        return centres + np.ldexp(self._moments[0], exponents)

    @property
    def reaches(self) -> _Wide:
        """At least how far a column's values are, in the (weighted) mean, from what its mean is counted from; 0 for constant ones."""
        if self.weights is not None:
            return self.lengths / np.sqrt(self.total)
        powers = np.ldexp(WIDE(1), np.array([e for _, e in self._near]))
        return np.where(self._moments[1] > 0, powers, 0)

    def blocks(self) -> Iterator[tuple[_Wide, _Wide | None]]:
        """Yield blocks of rows, each column less its mean and divided by its length, and their weights."""
        mean, length = self._moments
        divisor = np.where(length > 0, length, 1)
        for part, block in self._raw():
            yield ((block - mean) / divisor).astype(WIDE), self._weight(part)

    def step(self, omega: _Wide) -> tuple[_Wide, np.longdouble]:
        """Return Zᵀ(y − Z ω) over all rows, and the sum of squares of y − Z ω, in units of the label's length."""
        gradient, squares = np.zeros(len(omega), WIDE), np.zeros((), WIDE)
        for block, weight in self.blocks():
            left = block[:, -1] - block[:, :-1] @ omega
            weighted = left if weight is None else left * weight
            gradient += weighted @ block[:, :-1]
            squares += weighted @ left
        return gradient, WIDE(squares)


def rooted(rows: Rows) -> tuple[list[float], list[NDArray[np.float64]]]:
    """Return what is near the mean of each column (0 where columns are not centred), and the rows times the roots of their weights: the
    roots, then of each column the root times what its values are beyond that number, in float64."""
    assert rows.weights is not None
    roots = np.sqrt(rows.weights.astype(WIDE))
    centres = [float(mean) for mean in rows.means]
    beyond = (
        (roots * (column.astype(WIDE) - WIDE(centre))).astype(np.float64)
        for column, centre in zip(rows.columns, centres, strict=True)
    )
    return centres, [roots.astype(np.float64), *beyond]


def sized(penalties: _Wide) -> _Wide:
    """Return the lengths of columns of length 1 with penalties: what is added to their sums of squares."""
    return np.sqrt(1 + penalties)


def triangle(
    rows: Rows, penalties: _Wide, tolerance: float
) -> tuple[NDArray[np.float64], list[int], dict[int, NDArray[np.float64]]]:
    """Return R of a QR factorisation of the features as `Rows.blocks` has them, in float64, the columns that are independent of those
    before them, and of each other one what those before it (that are kept) make of it.

    Gram and Schmidt's way, twice (Giraud, Langou and Rozložník 2005). `penalties`: roots of what is added to the diagonal of RᵀR;
    `tolerance`: what is left of a column of length 1 that others determine; so does what would make the condition number of those that
    are kept more than its inverse, or there be more of them than rows tell apart.
    """
    size = len(rows.columns) - 1
    matrix = np.zeros((rows.count + size, size))
    at = 0
    for block, weight in rows.blocks():
        part = block[:, :-1] if weight is None else block[:, :-1] * np.sqrt(weight)[:, None]
        matrix[at : at + len(part)] = part.astype(np.float64)
        at += len(part)
    sizes = sized(penalties)
    matrix /= sizes.astype(np.float64)
    matrix[at + np.arange(size), np.arange(size)] = np.sqrt(penalties) / sizes
    basis = np.zeros((len(matrix), size))
    upper, kept, others = np.zeros((size, size)), list[int](), dict[int, NDArray[np.float64]]()
    most = size if penalties.any() else rows.count - rows.centred
    for k in range(size):
        vector, done = matrix[:, k], basis[:, : len(kept)]
        along = done.T @ vector
        left = vector - done @ along
        again = done.T @ left
        left -= done @ again
        along += again
        length, count = float(np.linalg.norm(left)), len(kept)
        trial = np.zeros((count + 1,) * 2)
        trial[:count, :count], trial[:count, -1], trial[-1, -1] = (
            upper[:count, :count],
            along,
            length,
        )
        if length <= tolerance or count >= most or np.linalg.cond(trial) > 1 / tolerance:
            factor = upper[: len(kept), : len(kept)]
            alike = np.linalg.solve(factor, along) if kept else along
            others[k] = np.asarray(alike * sizes[k] / sizes[kept], dtype=np.float64)
            continue
        upper[: count + 1, count] = trial[:, -1]
        basis[:, len(kept)] = left / length
        kept.append(k)
    return upper[: len(kept), : len(kept)], kept, others


def inverted(factor: NDArray[np.float64]) -> _Wide:
    """Return the inverse of an upper triangle, in the widest floating point."""
    inverse = np.zeros(factor.shape, WIDE)
    for k in range(len(factor)):
        inverse[k, k] = 1 / WIDE(factor[k, k])
        inverse[:k, k] = -inverse[:k, :k] @ factor[:k, k] * inverse[k, k]
    return inverse


def corrected(
    rows: Rows,
    factor: NDArray[np.float64],
    kept: Sequence[int],
    penalties: NDArray[np.longdouble],
) -> NDArray[np.float64]:
    """Return the triangle of the rows themselves, given one that is near it: that of Z R⁻¹, whose columns are nearly orthogonal, times R
    (Fukaya et al. 2014: CholeskyQR2's second step)."""
    picked, sizes = list(kept), sized(penalties)
    factor_inverse, shares = np.linalg.inv(factor), np.sqrt(penalties) / sizes
    inverse = (factor_inverse / sizes[picked, None]).astype(np.float64)
    below = shares[picked, None].astype(np.float64) * factor_inverse
    gram = below.T @ below
    for block, weight in rows.blocks():
        near = block[:, picked].astype(np.float64) @ inverse
        gram += near.T @ (near if weight is None else near * weight[:, None].astype(np.float64))
    return np.linalg.cholesky(gram).T @ factor
