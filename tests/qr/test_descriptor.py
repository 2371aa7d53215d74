"""Descriptors and heads of memos: good ones, every byte damaged; hardware against the model, the model against the golden's check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.models.errors import ErrorCode
from penstock.models.qr.check import check
from penstock.models.qr.descriptor import check_head, unpack_descriptor
from penstock.models.qr.errors import FitError
from penstock.models.qr.image import Places, pack_descriptor
from penstock.models.qr.job import Window
from penstock.models.qr.memo_image import pack_memo
from testbench.qr_cases import jobs_of, slot_plan

CONFIG = slot_plan(n_max=8, gram_lanes=36, bus_bytes=64)


def damaged(source, data, count):
    """The bytes as they are, and with one or two of them changed."""
    yield data
    for _ in range(count):
        bad = bytearray(data)
        for at in source.integers(0, len(data), source.integers(1, 3)):
            bad[at] = source.choice([0, 1, 0x40, 0x80, 0xFF, bad[at] ^ 1])
        yield bytes(bad)


def test_as_the_golden_checks():
    """What both see, both call the same."""
    job = next(jobs_of(CONFIG, np.random.default_rng(3), 5, 40, [(6, 4)]))
    memo = job.memo
    for wrong, expected in (
        (replace(memo, epoch=7), FitError.QR_MEMO),
        (replace(memo, window=Window(1, 5)), FitError.QR_WINDOW),
        (replace(memo, rows=memo.rows + 1), FitError.QR_MEMO),
        (memo, ErrorCode.OK),
    ):
        bad = replace(job, memo=wrong)
        fields = unpack_descriptor(pack_descriptor(bad, CONFIG, Places(64, 128, 256, 512)))
        assert check_head(pack_memo(wrong, CONFIG)[:32], fields, CONFIG) is expected
        assert (check(bad, CONFIG) or ErrorCode.OK) is expected
