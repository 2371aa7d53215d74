"""Heads of memos: good ones and wrong ones, against the golden's check. Damaged bytes meet the hardware in tests/qr/test_engine.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.models.errors import ErrorCode
from penstock.models.qr.check import check
from penstock.models.qr.descriptor import DESCRIPTOR, HEAD, head_faults, unpack
from penstock.models.qr.image import Places, pack_descriptor, pack_memo
from penstock.models.qr.job import Window
from penstock.models.qr.shell import FitError
from testbench.qr_cases import jobs_of, slot_plan
from testbench.qr_runs import first_fault

CONFIG = slot_plan(n_max=8, gram_lanes=36, bus_bytes=64)


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
        fields = unpack(DESCRIPTOR, pack_descriptor(bad, CONFIG, Places(64, 128, 256, 512)))
        head = unpack(HEAD, pack_memo(wrong, CONFIG))
        assert first_fault(head_faults(head, fields, CONFIG)) is expected
        assert (check(bad, CONFIG) or ErrorCode.OK) is expected
