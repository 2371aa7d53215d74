"""Blocks of suffix sums against sums over the rows, and their traffic."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.workloads.groups import keys
from penstock.models.qr.suffix import LEAF, Blocks


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 300, 2000])
def test_sums_behind_every_place(count):
    source = np.random.default_rng(count)
    rows = keys(source, count, 5)
    blocks = Blocks(rows)
    for _ in range(200):
        rank = int(source.integers(0, len(rows) + 1))
        leaf, place = blocks.place(rank)
        assert np.array_equal(blocks.behind(leaf, place), rows[rank:].astype(np.int64).sum(axis=0))
        if rank < len(rows) and source.random() < 0.3:
            if place == len(blocks.leaves[leaf]):
                leaf, place = blocks.place(rank + 1)
                place -= 1
            assert np.array_equal(blocks.leaves[leaf][place], rows[rank])
            blocks.remove(leaf, place)
            rows = np.delete(rows, rank, axis=0)
        else:
            row = source.integers(0, 256, 5).astype(np.uint8)
            if blocks.insert(leaf, place, row):
                rows = np.insert(rows, rank, row, axis=0)
            else:
                assert len(blocks.leaves[leaf]) == LEAF
    assert np.array_equal(np.concatenate(blocks.leaves), rows)


def test_traffic_grows_with_changes_not_rows():
    source = np.random.default_rng(1)
    spent = {}
    for count in (500, 5000, 50_000):
        blocks = Blocks(np.zeros((count, 32), dtype=np.uint8))
        spent[count] = blocks.traffic([blocks.place(int(rank)) for rank in np.sort(source.integers(0, count, 50))])
    assert spent[50_000].read < 2.5 * spent[5000].read and spent[50_000].written < 2.5 * spent[5000].written
    assert Blocks(np.zeros((5000, 32), dtype=np.uint8)).traffic([]).read == 0
