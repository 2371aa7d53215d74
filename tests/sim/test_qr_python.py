# amaranth: UnusedElaboratable=no
"""The qr engine in Amaranth's simulator: bits of the golden model, cycles of the cycle model, over several runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.host.workloads import Changes, Refits
from penstock.models.memory import FixedLatency
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import run
from penstock.models.qr.job import Fit, Label
from penstock.models.qr.memo_image import pack_memo
from testbench.qr import python_machine, run_jobs
from testbench.qr_cases import slot_plan

CONFIG = slot_plan(n_max=4, gram_lanes=10, bus_bytes=16, lanes=4, contexts=2, jobs=3)


@pytest.mark.long  # tests/penstock/test_fits.py has Amaranth's simulator on every run
@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, target=Label.RANK)])
def test_rounds_of_refits(config: FitPlan) -> None:
    timing = FixedLatency(12, 16)
    machine = python_machine(config, timing)
    for step in Refits.random(24, 4, Changes(2, 2, 4, 1)).play(config):
        made = run_jobs(machine, config, step.jobs)
        assert made.error is None and made.cycles == run(config, step.works, timing).total
        for fit, found in zip(step.fits, made.results, strict=True):
            assert isinstance(found, Fit) and np.array_equal(fit.weights, found.weights)
            assert (fit.err_min, fit.err_max, fit.rescanned) == (
                found.err_min,
                found.err_max,
                found.rescanned,
            )
            assert pack_memo(fit.memo, config) == pack_memo(found.memo, config)
    assert run_jobs(machine, config, []).results == []
