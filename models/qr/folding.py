"""What the solver of method `givens` has to do for a job."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Folding"]


@dataclass(frozen=True)
class Folding:
    """What a job's times depend on. `met`: columns that each row met; `again`: those that each dropped column's row met, None where there was none to fold
    (`factor.fold`, `factor.full_rank`). `fresh`: there is no memo, and no factor comes in.
    """

    columns: int
    met: tuple[int, ...]
    again: tuple[int | None, ...]
    fresh: bool = False

    @property
    def _rows(self) -> list[tuple[int, int]]:
        """First column and number of columns of each row that is rotated."""
        return [(0, count) for count in self.met] + [
            (k + 1, count) for k, count in enumerate(self.again) if count
        ]

    @property
    def rotations(self) -> int:
        return sum(count for _, count in self._rows)

    @property
    def products(self) -> int:
        """Of the lanes: rotations and both solves."""
        n = self.columns
        return (
            sum(3 * (n - 1 - k) for first, count in self._rows for k in range(first, first + count))
            + n * (n - 1)
            + 1
        )

    @property
    def multiplications(self) -> int:
        """Of lanes and vectoring unit, which has 3 for a rotation and 1 for a column of the right side."""
        return self.products + 3 * self.rotations + self.columns

    def slots(self, lanes: int, vectors: int = 1) -> list[int]:
        """Cycles of each vector unit."""
        n, units = self.columns, [0] * vectors
        rows = self._rows
        for k in range(n):
            behind = -(-(n - 1 - k) // lanes)
            units[k % vectors] += behind * (
                sum(first <= k < first + count for first, count in rows) + (not self.fresh)
            ) + max(1, behind)
        units[-1] += sum(-(-j // lanes) for j in (*range(1, n), n))  # back substitution
        return units

    @property
    def issued(self) -> int:
        """Operations of vector units but back substitution's, of which one a cycle is issued."""
        return self.rotations + self.columns * (1 if self.fresh else 2)
