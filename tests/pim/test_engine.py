"""The device in hardware: bits and cycles are those of the models."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.memory import FixedLatency
from penstock.models.pim.config import PimConfig
from penstock.models.pim.schedule import Round
from testbench.pim import build, compare, step

SMALL = PimConfig(groups=1, banks=2, rows=4)


def mixed(config: PimConfig, rng: np.random.Generator, attention: bool = True) -> list:
    """Every kind of round, for each set."""
    wide = config.format == "float16"
    first, later = (5, 2) if wide else (4, 1)
    reads = config.result_reads

    def own() -> list:
        update = lambda f, row: Round("update", first if f else later, row, reads, f)
        steps = [step(config, Round("seed", 1), rng)] if config.stochastic else []
        rows = range(min(config.rows, 2))
        steps += [step(config, Round("load", row=r), rng) for r in rows]
        for row in rows:
            steps.append(step(config, update(True, row), rng))
            steps.append(step(config, update(False, row), rng))
        if attention:
            steps.append(step(config, Round("score", 1, 0, reads), rng))
            steps.append(step(config, Round("attend", 2 if wide else 1, 1, 1), rng))
            steps.append(step(config, update(True, 1), rng))
        return steps + [step(config, Round("store", row=r), rng) for r in rows]

    return [own() for _ in range(config.sets)]


@pytest.mark.parametrize(
    "config",
    [
        PimConfig(groups=1, banks=2, rows=4, stochastic=True),
        PimConfig("float16", groups=1, banks=2, rows=4),
    ],
    ids=lambda c: c.format,
)
def test_one_pair(config):
    library = build(config)
    rng = np.random.default_rng(1)
    for memory in (FixedLatency(), FixedLatency(3, 8), FixedLatency(40, 2)):
        compare(config, library, mixed(config, rng), memory)
