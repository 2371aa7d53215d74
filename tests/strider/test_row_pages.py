"""models/strider/row_pages.py: which pages rows lie in, beside counting them one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models.strider.costs import END, NULL, TUPLE, Costs
from penstock.models.strider.row_pages import RowPages


def events(tuples: int, nulls: int) -> list[tuple[int, int, int]]:
    return [(TUPLE, 5, 3)] * tuples + [(NULL, 4, 2)] * nulls + [(END, 1, 0)]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=6
    ),
    st.data(),
)
def test_spans(runs: list[tuple[int, int, int]], data: st.DataObject) -> None:
    costs = Costs()
    for count, tuples, nulls in runs:
        costs.add(count, events(tuples, nulls))
    pages = [tuples for count, tuples, _ in runs for _ in range(count)]
    kinds = [(tuples, nulls) for count, tuples, nulls in runs for _ in range(count)]
    places, where = (
        RowPages(costs),
        [page for page, tuples in enumerate(pages) for _ in range(tuples)],
    )
    assert places.rows == len(where)
    last = data.draw(st.integers(0, len(where)))
    first = data.draw(st.integers(0, last))
    page, skip, found = places.span(first, last)
    if first == last:
        assert (page, skip, found.pages) == (0, 0, 0)
        return
    assert (
        page == where[first]
        and skip == where[:first].count(page)
        and found.pages == where[last - 1] - page + 1
    )
    said = [events_ for count, events_ in found.runs for _ in range(count)]
    assert said == [events(*kind) for kind in kinds[page : page + found.pages]]
    with pytest.raises(IndexError):
        places.span(first, len(where) + 1)
