"""Blocks of rows that move together: c from a memo's sums and a job's changes alone, as the bytes in memory have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.host.workloads.groups import Group, keys
from penstock.models.errors import HardwareError
from penstock.models.qr.arith import codes, predict
from penstock.models.qr.bounds import widen_rank_bounds
from penstock.models.qr.config import FitPlan
from penstock.models.qr.errors import FitError
from penstock.models.qr.golden import refit
from penstock.models.qr.image import pack_changes, unpack_changes
from penstock.models.qr.job import Anchor, Fit, Label, Sums
from penstock.models.qr.layout import Size, change_words, memo_words, shift_words
from penstock.models.qr.memo_image import pack_memo, unpack_memo
from penstock.models.qr.normal_equations import design
from penstock.models.qr.ranks import BLOCK_ROWS, TREND_BITS, Frames, shifts
from testbench.qr_runs import crowd

CONFIG = FitPlan(n_max=9, sums=Sums.INCREMENTAL, blocks=8, gram_lanes=45, lanes=9)


def refits(config, seed, count=120, length=6, batches=8):
    """Jobs of one group that follow one another, with what went before and what came out."""
    source = np.random.default_rng(seed)
    group = Group(config, keys(source, count, length, int(source.choice([2, 30, 256]))))
    fit = refit(group.full(), config)
    assert isinstance(fit, Fit)
    for _ in range(batches):
        group.take(fit)
        gone = source.choice(
            len(group.rows), int(source.integers(0, min(30, len(group.rows)) + 1)), replace=False
        )
        job = group.batch(keys(source, int(source.integers(0, 40)), length), np.sort(gone))
        fit = refit(job, config)
        assert isinstance(fit, Fit)
        if job.memo is not None:
            yield job, fit


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("blocks", [1, 8, 64])
def test_c_from_the_changes_alone(seed, blocks):
    config = replace(CONFIG, blocks=blocks)
    for job, fit in refits(
        config, seed, count=20 if blocks == 1 else 120, batches=2 if blocks == 1 else 8
    ):
        size, bus = Size.of(job), config.bus_bytes
        data, memo = pack_changes(job, config), unpack_memo(pack_memo(job.memo, config), config)
        assert len(data) == bus * change_words(size, config) and len(
            pack_memo(job.memo, config)
        ) == bus * memo_words(size, config)
        assert (memo.blocks == job.memo.blocks).all() and memo.blocks[:, 0].sum() == memo.rows
        moves = np.frombuffer(data, dtype="<i2", count=blocks).astype(np.int64)
        c, sums = memo.right_hand_side + moves @ memo.blocks, memo.blocks.copy()
        for record in unpack_changes(data[bus * shift_words(config) :], size, True):
            a = design(np.frombuffer(record.row, dtype=np.uint8)[None], job.offsets)[0]
            c += record.value * a
            sums[record.block] += record.sign * a
        assert (c == fit.memo.right_hand_side).all() and (sums == fit.memo.blocks).all()


def test_few_rows_are_named():
    """Of a block in which a change lies about a quarter moves by itself, of others none."""
    config = replace(CONFIG, blocks=64)
    source = np.random.default_rng(1)
    group = Group(config, keys(source, 500, 8))
    group.take(refit(group.full(), config))
    job = group.batch(keys(source, 50, 8), np.zeros(0, dtype=np.int64))
    assert len(shifts(job).moved) < 100 and Size.of(job).moved == len(shifts(job).moved)
    again = group.batch(keys(source, 0, 8), np.zeros(0, dtype=np.int64))
    assert not Size.of(replace(again, inserted=np.zeros(0, dtype=np.int64))).moved


def test_crowded_blocks():
    source = np.random.default_rng(3)
    group = Group(CONFIG, keys(source, BLOCK_ROWS * 8, 5))
    fit = refit(group.full(), CONFIG)
    assert isinstance(fit, Fit)
    group.take(fit)
    more = replace(group.full(), rows=np.repeat(group.rows, 2, axis=0), live=None)
    none = np.zeros(0, dtype=np.int64)
    for job in (more, crowd(source, Group.batch(group, keys(source, 0, 5), none))):
        found = refit(job, CONFIG)
        assert isinstance(found, HardwareError) and found.code is FitError.QR_ROWS
    assert group.batch(keys(source, 1, 5), none).memo is None  # a host trains it afresh


def test_memos_of_other_engines():
    group = Group(CONFIG, keys(np.random.default_rng(4), 50, 5))
    fit = refit(group.full(), CONFIG)
    group.take(fit)
    job = group.batch(keys(np.random.default_rng(5), 2, 5), np.zeros(0, dtype=np.int64))
    for other in (replace(CONFIG, blocks=4), replace(CONFIG, blocks=0)):
        found = refit(job, other)
        assert isinstance(found, HardwareError) and found.code is FitError.QR_MEMO
        assert unpack_memo(pack_memo(fit.memo, CONFIG), other) is FitError.QR_MEMO
    for bad in ({"target": Label.SLOT}, {"sums": Sums.SCAN}, {"blocks": 3}):
        with pytest.raises(ValueError, match="blocks"):
            replace(CONFIG, **bad)


def test_bounds_of_any_weights():
    """Search for counterexamples: random blocks and moves, any trend, new weights near the grown ones and far from them; all virtual labels at their ends."""
    source = np.random.default_rng(7)
    tight = 0
    for _ in range(600):
        n, m = int(source.integers(2, 9)), int(source.integers(1, 60))
        rows = keys(source, m, n - 1, int(source.choice([3, 256])))
        offsets = source.integers(0, 256, n - 1).astype(np.uint8)
        old = (source.normal(size=n) * source.choice([1e-30, 0.02, 1.0, 300.0])).astype(np.float32)
        old[0] += np.float32(source.choice([0, 30, 1e5]))
        moved = np.sort(source.integers(-40, 40, 8)) * int(source.integers(1, 4))
        where = np.sort(source.integers(0, 8, m))
        virtual = np.sort(source.integers(0, 200, m)) - moved[where] // 2
        trend = int(source.integers(-(1 << TREND_BITS - 1), 1 << TREND_BITS))
        scale = np.float32(1 + trend / (1 << TREND_BITS))
        ends = (moved[where] << TREND_BITS) - trend * virtual
        found = Frames(moved, trend, int(ends.min()), int(ends.max()))
        guesses = predict(codes(old), offsets, rows)
        errors = virtual - guesses
        zero = np.zeros(1, dtype=np.int64)
        anchor = Anchor(
            codes(old),
            zero,
            errors.min(keepdims=True),
            errors.max(keepdims=True),
            zero,
            zero,
            guesses.min(keepdims=True),
            rows.min(axis=0)[None],
            rows.max(axis=0)[None],
        )
        new = (scale * old * (1 + source.choice([0, 1e-6, 0.1, 2]) * source.normal(size=n))).astype(
            np.float32
        )
        bounds = widen_rank_bounds(anchor, codes(new), offsets, found)
        if bounds is None:
            continue
        true = virtual + moved[where] - predict(codes(new), offsets, rows)
        assert bounds[0] <= true.min() and true.max() <= bounds[1]
        tight += bounds[1] - bounds[0] <= 2 * (true.max() - true.min()) + 4
    assert tight > 20
