"""Which of a table's pages some of its rows lie in, rows being what Striders deliver, in their order."""

from bisect import bisect_right

from .costs import TUPLE, Costs


class RowPages:
    """A table's pages by their rows, from what walking them costs."""

    def __init__(self, costs: Costs) -> None:
        self.runs = costs.runs
        self._each = [sum(kind == TUPLE for kind, _, _ in events) for _, events in costs.runs]
        self._pages, self._rows = [0], [0]
        for (count, _), each in zip(costs.runs, self._each, strict=True):
            self._pages.append(self._pages[-1] + count)
            self._rows.append(self._rows[-1] + count * each)

    @property
    def rows(self) -> int:
        return self._rows[-1]

    def span(self, first: int, last: int) -> tuple[int, int, Costs]:
        """Return of the rows from `first` up to `last` the first page, how many rows lie before them in it, and what walking their pages costs.

        No rows: no pages. Raises IndexError beyond the table's rows.
        """
        costs = Costs()
        if first == last:
            return 0, 0, costs
        if not 0 <= first < last <= self.rows:
            raise IndexError(f"rows {first} to {last} of {self.rows}")
        begin, skip = self._page(first)
        end = self._page(last - 1)[0] + 1
        for number, (_, events) in enumerate(self.runs):
            costs.add(
                max(0, min(end, self._pages[number + 1]) - max(begin, self._pages[number])), events
            )
            if self._pages[number + 1] >= end:
                break
        return begin, skip, costs

    def _page(self, row: int) -> tuple[int, int]:
        run = bisect_right(self._rows, row) - 1
        page, before = divmod(row - self._rows[run], self._each[run])
        return self._pages[run] + page, before
