"""The golden refit against Python integers, float64 least squares, and every key."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.host.workloads.groups import Group, keys, mean_offsets
from penstock.models.errors import ErrorCode, HardwareError
from penstock.models.qr.arith import numbers, predict
from penstock.models.qr.config import FitPlan
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Anchor, Fit, Job, Label, Method, Window
from penstock.models.qr.shell import FitError
from testbench.qr_least_squares import as_least_squares, exact

METHODS = [Method.GIVENS, Method.GRAM]


def done(result: Fit | HardwareError) -> Fit:
    assert isinstance(result, Fit), result
    return result


def holds(fit: Fit, job: Job) -> None:
    """Every row lies in its window."""
    errors = job.target_labels() - fit.predict(job.rows)
    if len(errors):
        assert fit.err_min <= errors.min() and errors.max() <= fit.err_max
        if fit.rescanned:
            assert (fit.err_min, fit.err_max) == (errors.min(), errors.max())


@pytest.mark.parametrize("method", METHODS)
def test_odd_columns(method):
    """Constant, collinear and all-equal columns get no weight; the fit stays that of least squares."""
    source = np.random.default_rng(3)
    config = FitPlan(n_max=16, method=method)
    rows = keys(source, 300, 6, 50)
    rows[:, 2] = 77  # constant, its offset exact
    rows[:, 4] = 255 - rows[:, 1]  # collinear with the bias and column 1
    rows[:, 5] = 9
    rows = rows[np.lexsort(rows.T[::-1])]
    offsets = mean_offsets(rows)
    offsets[5] = 4  # constant, but not at its offset
    job = Job(0, Window(3, 6), offsets, rows)
    fit = done(refit(job, config))
    assert fit.mask.tolist() == [True, True, True, False, True, False, False]
    assert not numbers(fit.weights)[~fit.mask].any()
    holds(fit, job)
    as_least_squares(job, fit)

    same = Job(0, Window(3, 6), offsets, np.tile(rows[:1], (40, 1)))
    fit = done(refit(same, config))
    assert fit.mask[0] and fit.mask.sum() == 1
    holds(fit, same)


@pytest.mark.parametrize("method", METHODS)
def test_collinear_arriving_late(method):
    """A column that noise alone tells apart from others, folded over many refits, is found out."""
    source = np.random.default_rng(8)
    config = FitPlan(n_max=8, method=method)

    def rows(count):
        made = source.integers(0, 60, (count, 5)).astype(np.uint8)
        made[:, 3] = made[:, 0] + 2 * made[:, 1]
        return made

    group = Group(config, rows(150))
    job = group.full()
    for _ in range(20):
        fit = done(refit(job, config))
        group.take(fit)
        assert fit.mask.tolist() == [True, True, True, True, False, True]
        as_least_squares(job, fit)
        job = group.batch(rows(10), np.zeros(0, dtype=np.int64))


def test_errors():
    source = np.random.default_rng(2)
    config = FitPlan(n_max=8)
    group = Group(config, keys(source, 60, 5, 30))
    full = group.full()
    group.take(done(refit(full, config)))
    job = group.batch(keys(source, 3, 5, 30), np.array([4, 9]))
    done(refit(job, config))

    def code(bad: Job, config: FitPlan = config) -> ErrorCode:
        result = refit(bad, config)
        assert isinstance(result, HardwareError)
        return result.code

    nobody = np.zeros(0, dtype=np.int64)
    assert code(replace(full, window=Window(0, 8))) == FitError.QR_COLUMNS
    assert code(replace(full, window=Window(0, 0))) == FitError.QR_COLUMNS
    assert code(replace(full, window=Window(0, 4))) == FitError.QR_DESCRIPTOR
    assert code(replace(full, rows=full.rows[::-1])) == FitError.QR_ORDER
    assert code(replace(full, labels=np.arange(60))) == FitError.QR_DESCRIPTOR
    assert code(replace(job, epoch=5)) == FitError.QR_MEMO
    # a memo belongs to its window and offsets
    for other in ({"window": Window(1, 5)}, {"offsets": job.offsets + 1}):
        assert code(replace(job, **other)) == FitError.QR_WINDOW
    assert code(replace(job, inserted=job.inserted[:2])) == FitError.QR_MEMO
    assert code(replace(job, inserted=job.inserted[::-1])) == FitError.QR_ORDER
    assert code(replace(job, inserted=job.inserted + 1000)) == FitError.QR_DESCRIPTOR
    assert (
        code(replace(job, moved=nobody + 1, moved_from=np.ones(3, dtype=np.int64)))
        == FitError.QR_DESCRIPTOR
    )
    assert code(job, replace(config, method=Method.GIVENS)) == FitError.QR_MEMO
    slot = replace(config, target=Label.SLOT)
    assert code(replace(full, labels=np.arange(60)[::-1]), slot) == FitError.QR_ORDER
    assert code(replace(full, labels=np.arange(60) + (1 << 31)), slot) == FitError.QR_ROWS
    givens = replace(config, method=Method.GIVENS)
    fit = done(refit(full, givens))
    alone = replace(
        job,
        rows=job.rows[:1],
        inserted=nobody[:0],
        removed=full.rows[1:],
        memo=fit.memo,
        epoch=0,
    )
    assert code(alone, givens) == FitError.QR_DOWNDATE


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_job_sequences(data):
    """Any sequence of batches, on any engine: sums exact, every row in its window, c as from a scan."""
    method, target = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from(list(Label)))
    length = data.draw(st.integers(1, 7))
    config = FitPlan(n_max=8, method=method, target=target)
    source = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    alphabet = data.draw(st.sampled_from([1, 2, 30, 256]))
    group = Group(config, keys(source, data.draw(st.integers(0, 60)), length, alphabet))
    job = group.full()
    for _ in range(data.draw(st.integers(1, 6))):
        fit = refit(job, config)
        if isinstance(fit, HardwareError):
            assert fit.code is FitError.QR_DOWNDATE and method is Method.GIVENS
            job = group.full()
            fit = done(refit(job, config))
        holds(fit, job)
        exact(job, fit)
        group.take(fit)
        count = len(group.rows)
        doomed = np.sort(
            source.choice(count, data.draw(st.integers(0, min(count, 9))), replace=False)
        )
        job = group.batch(
            keys(source, data.draw(st.integers(0, 9)), length, alphabet),
            doomed,
            data.draw(st.sampled_from([1 << 30, 40, -1])),
        )


def test_bounds_by_adversarial_search():
    """Widened bounds hold at every corner of every box, for weights near and far from the anchor's."""
    from penstock.models.qr.arith import codes
    from penstock.models.qr.bounds import pass_over, widen_bounds

    source = np.random.default_rng(9)
    for trial in range(300):
        length = int(source.integers(1, 33))
        rows = keys(source, 40, length, int(source.choice([2, 40, 256])))
        offsets = source.integers(0, 256, length).astype(np.uint8)
        job = Job(0, Window(0, length), offsets, rows)
        size = np.float32(10.0 ** source.uniform(-6, 4))
        old = (size * source.standard_normal(length + 1)).astype(np.float32)
        old[0] += 10.0 ** source.uniform(-1, 6)
        new = old.copy()
        if trial % 3:
            pick = source.random(length + 1) < 0.5
            new[pick] += (
                size * 10.0 ** source.uniform(-8, 1) * source.standard_normal(int(pick.sum()))
            ).astype(np.float32)
        _, _, anchor = pass_over(job, codes(old))
        found = widen_bounds(anchor, codes(new), offsets)
        assert found is not None
        errors = job.target_labels() - predict(codes(new), offsets, rows)
        assert found[0] <= errors.min() and errors.max() <= found[1]
        # corners of the boxes: the difference of predictions must stay within what was allowed
        corners = np.where(source.random((20, length)) < 0.5, anchor.low, anchor.high)
        corners[0] = np.where(new[1:] > old[1:], anchor.high, anchor.low)
        corners[1] = np.where(new[1:] > old[1:], anchor.low, anchor.high)
        least = int(predict(codes(old), offsets, corners).min())
        allowed = widen_bounds(
            Anchor(codes(old), 0, 0, least, anchor.low, anchor.high), codes(new), offsets
        )
        assert allowed is not None
        shift = predict(codes(old), offsets, corners) - predict(codes(new), offsets, corners)
        assert allowed[0] <= shift.min() and shift.max() <= allowed[1]
