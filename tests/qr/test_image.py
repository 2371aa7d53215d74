"""Bytes of jobs, memos and results: there and back, sizes as the cycle model counts them, damage."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from penstock.host.workloads.groups import Group, keys, mean_offsets
from penstock.models.errors import HardwareCode, HardwareError
from penstock.models.qr.config import FitPlan
from penstock.models.qr.golden import refit
from penstock.models.qr.image import (
    Places,
    pack_changes,
    pack_descriptor,
    pack_memo,
    pack_result,
    pack_rows,
    unpack_memo,
    unpack_result,
)
from penstock.models.qr.job import Fit, Job, Label, Method, Window
from penstock.models.qr.layout import (
    Size,
    change_words,
    memo_words,
    place,
    result_words,
    row_words,
)
from penstock.models.qr.shell import FitError
from testbench.qr_cases import slot_plan


def equal(a: object, b: object) -> bool:
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(
            equal(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a)
        )
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize("bus_bytes", [8, 64])
@pytest.mark.parametrize("target", list(Label))
@pytest.mark.parametrize("method", list(Method))
def test_there_and_back(method, target, bus_bytes):
    source = np.random.default_rng(1)
    config = FitPlan(n_max=8, method=method, target=target, bus_bytes=bus_bytes)
    group = Group(config, keys(source, 60, 5, 30))
    job = group.full()
    for _ in range(4):
        fit = refit(job, config)
        assert isinstance(fit, Fit)
        size = Size.of(job)
        memo, result = pack_memo(fit.memo, config), pack_result(fit, job.group, config)
        assert len(memo) == bus_bytes * memo_words(size, config) and len(
            result
        ) == bus_bytes * result_words(size, config)
        assert len(pack_rows(job, config)) == bus_bytes * row_words(size, config)
        assert len(pack_changes(job, config)) == bus_bytes * change_words(size, config) or size.full
        assert len(pack_descriptor(job, config, Places(64, 128, 256, 512))) == 64
        assert equal(unpack_memo(memo, config), fit.memo)
        back = unpack_result(result + memo, job.window.columns, config)
        assert equal(back, fit)
        group.take(back)
        job = group.batch(
            keys(source, 6, 5, 30),
            np.sort(source.choice(len(group.rows), 4, replace=False)),
        )
    failed = pack_result(HardwareError(FitError.QR_ORDER), 3, config)
    assert unpack_result(failed, 6, config) is FitError.QR_ORDER


def test_damaged_heads():
    """Any byte of a memo's head changed: an error at once, or a memo that the next job's check tells from the right one, or the same shape of memo."""
    source = np.random.default_rng(2)
    config = slot_plan(n_max=8)
    group = Group(config, keys(source, 60, 5, 30))
    fit = refit(group.full(), config)
    assert isinstance(fit, Fit)
    data = pack_memo(fit.memo, config)
    group.take(fit)
    job = group.batch(keys(source, 3, 5, 30), np.array([2]))
    for at in range(37):
        for value in (0, 1, 0x80, 0xFF):
            bad = bytearray(data)
            bad[at] ^= value
            memo = unpack_memo(bytes(bad), config)
            if isinstance(memo, HardwareCode):
                assert memo is FitError.QR_MEMO and value
                continue
            result = refit(dataclasses.replace(job, memo=memo), config)
            assert isinstance(result, Fit) == (value == 0)
    for length in (0, 10, 31, 32, 64, 100):
        assert unpack_memo(data[:length], config) is FitError.QR_MEMO


def test_all_columns_of_the_widest_model():
    """A mask of 64 bits."""
    config = FitPlan(n_max=64, method=Method.GIVENS, bus_bytes=64)
    rows = keys(np.random.default_rng(64), 200, 63)
    fit = refit(Job(3, Window(0, 63), mean_offsets(rows), rows), config)
    assert isinstance(fit, Fit) and fit.mask.all()
    found = unpack_result(pack_result(fit, 3, config) + pack_memo(fit.memo, config), 64, config)
    assert isinstance(found, Fit) and found.mask.all() and (found.weights == fit.weights).all()


def test_jobs_without_changes_have_no_room_for_them() -> None:
    sizes = [Size(5, 40, full=True), Size(5, 40), Size(3, 40, inserted=7)]
    found = [at.rows - at.changes for at in place(sizes, slot_plan(n_max=6, gram_lanes=21))]
    assert found[:2] == [0, 0] < found[2:]
