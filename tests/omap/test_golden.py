"""The protocol: a map like any other, whose pages show nothing."""

from itertools import islice

import numpy as np
import pytest

from penstock.models.memory import FixedLatency
from penstock.models.omap.errors import MapError
from penstock.models.omap.golden import Item, Map, Overflow
from penstock.models.omap.messages import Keys, Operation, Request, Status
from penstock.models.omap.pairs import PairSource, expected_blocks
from penstock.models.omap.planner import plan
from penstock.models.omap.traffic import open_page, page_traffic, seal_pages
from testbench.omap import KEYS, config, requests


def test_an_access_opens_the_pages_that_its_item_was_given_before():
    small = config()
    box = Map(small, KEYS)
    pairs = iter(PairSource(small, KEYS.pairs))
    latest = {}
    for request in requests(small, 500, seed=3, unknown=False):
        new, stand_in, _ = next(pairs)
        known = request.key in latest
        shown = latest.pop(request.key, stand_in)
        step = box.step(request)
        pages = [number - small.hbm_bins for number in shown if number >= small.hbm_bins]
        assert [opened.page for opened in step.opened] == pages
        if step.response.status == Status.FULL:
            continue
        if request.operation == Operation.PUT or (known and request.operation == Operation.GET):
            latest[request.key] = new


def test_pairs_are_uniform_and_distinct():
    odd = config(bins=11, hbm_bins=2)
    count = np.zeros((11, 11))
    for (new, shown, _), _ in zip(PairSource(odd, 7), range(20_000), strict=False):
        count[new] += 1
        count[shown] += 1
    assert not np.diag(count).any()
    cells = count[~np.eye(11, dtype=bool)]
    expected = cells.sum() / len(cells)
    statistic = ((cells - expected) ** 2 / expected).sum()
    freedom = len(cells) - 1
    assert abs(statistic - freedom) < 4 * (2 * freedom) ** 0.5


def test_pages_open_with_their_own_counter_alone():
    small = config()
    box = Map(small, KEYS)
    steps = list(box.run(requests(small, 100, seed=5)))
    _, writes = page_traffic(small, KEYS.page, steps)
    host = {}
    for sent in writes:
        host[sent.page] = sent.data
    for page, data in host.items():
        counter, items = box.page(page)
        assert open_page(small, KEYS.page, page, counter, data, len(items)) == items
        assert open_page(small, KEYS.page, page, counter + 1, data, len(items)) is None
        assert open_page(small, KEYS.page, page ^ 1, counter, data, len(items)) is None
    assert len({sent.data for sent in writes}) == len(writes)


@pytest.mark.parametrize(
    "value_bytes",
    [
        pytest.param(size, marks=() if size in (8, 16, 24) else pytest.mark.long)
        for size in range(8, 1025, 8)
    ],
)
def test_no_byte_of_a_page_can_be_changed(value_bytes):
    shape = plan(20, value_bytes, memory=FixedLatency(60, 32))
    items = [Item(7, bytes(value_bytes))]
    (sealed,) = seal_pages(shape, KEYS.page, [(3, 5, items)])
    assert open_page(shape, KEYS.page, 3, 5, sealed, 1) == tuple(items)
    size, total = (shape.chunk_blocks + 1) * 16, len(sealed)
    # every byte of small pages; else some, and all of the last tag and of what follows it
    ends = range(shape.chunks * size - 16, total)
    for at in sorted({*range(0, total, 1 if value_bytes <= 24 else total // 13), *ends}):
        changed = bytearray(sealed)
        changed[at] ^= 1 << at % 8
        assert open_page(shape, KEYS.page, 3, 5, bytes(changed), 1) is None, at


def test_bounds_that_are_exceeded():
    def fill(**changes):
        tight = config(**changes)
        box = Map(tight, KEYS)
        with pytest.raises(Overflow) as caught:
            for n in range(tight.capacity):
                box.step(Request(Operation.PUT, n, bytes(8)))
        return caught.value.code

    assert fill(slots=2) is MapError.PAGE_FULL
    assert fill(buckets=2) is MapError.BUCKET_FULL
    assert fill(frames=6) is MapError.FRAMES


def test_keys_are_independent():
    small = config()
    other = Keys(KEYS.page, KEYS.hash, KEYS.pairs + 1)
    one, two = Map(small, KEYS), Map(small, other)
    steps = [(one.step(request), two.step(request)) for request in requests(small, 200, seed=2)]
    assert [a.response for a, _ in steps] == [b.response for _, b in steps]
    assert any([o.page for o in a.opened] != [o.page for o in b.opened] for a, b in steps)


@pytest.mark.parametrize("bins", [16, 17, 23])
def test_blocks_of_pairs(bins):
    """The mean that cores are planned for is the one that pairs take."""
    shape = config(bins=bins)
    blocks = [count for _, _, count in islice(iter(PairSource(shape, KEYS.pairs)), 4000)]
    assert expected_blocks(shape) == pytest.approx(sum(blocks) / 4000, rel=0.03)
