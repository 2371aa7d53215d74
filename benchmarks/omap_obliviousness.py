"""What the host sees of an oblivious map: statistical tests on traces of the golden model, and the leaks that they catch.

The hardware's traces equal these (tests/omap/test_engine.py). Tests and thresholds: benchmarks/measured.md.
"""

from __future__ import annotations

import random

from common import SEED, Options, Section, main, markdown

from penstock.models.memory import FixedLatency
from penstock.models.omap.config import Access, OmapConfig
from penstock.models.omap.cycles import public, run
from penstock.models.omap.golden import Map, Step
from penstock.models.omap.messages import Keys
from testbench.obliviousness import (
    Finding,
    Trace,
    classifier,
    independence,
    same_gaps,
    same_histogram,
    same_times,
    shape,
    trace,
    uniformity,
)
from testbench.omap_leaks import LEAKS, leaky
from testbench.omap_workloads import WORKLOADS, workload

#: 8 items a bin, a fifth of the bins in HBM
MAP = OmapConfig(
    capacity=4096,
    value_bytes=8,
    bins=512,
    hbm_bins=102,
    slots=16,
    buckets=512,
    bucket_slots=32,
    frames=2048,
    access=Access(deadline=30),
)
BIASED = 400  # bins whose numbers are drawn below 512 and cut by remainder


def _number(finding: Finding) -> str:
    value = f"{finding.value:.4g}" if finding.passes else f"**{finding.value:.4g}**"
    return value if finding.statistic.startswith("p") else value.replace("-", "−")


def _steps(name: str, count: int) -> tuple[list[Step], int]:
    """Return what the map does, and its largest load."""
    draw = random.Random(f"{SEED} {name}")
    first, made = workload(name, MAP.capacity, count, SEED)
    page, _, hashed, pairs = (draw.getrandbits(128) for _ in range(4))
    box = Map(MAP, Keys(page, hashed, pairs))
    return list(box.run(made))[first:], max(box.bin(n)[0] for n in range(MAP.bins))


def _waits(steps: list[Step]) -> list[int]:
    told = run(MAP, public(steps), FixedLatency(60, 32), interval=4000)
    return [end - begin for begin, end in zip(told.arrived, told.answered, strict=True)]


def tests(options: Options) -> str:
    """Workloads that nothing tells apart."""
    count = 1500 if options.quick else 40_000
    rows = []
    seen: dict[str, Trace] = {}
    waits: dict[str, list[int]] = {}
    for name in WORKLOADS:
        steps, load = _steps(name, count)
        seen[name] = trace(MAP.bins, MAP.hbm_bins, steps)
        waits[name] = _waits(steps[:2000])
        alone = [shape(seen[name])[0], uniformity(seen[name]), independence(seen[name])]
        pair = seen[name], seen["sweep"]
        both = [same_histogram(*pair), same_gaps(*pair), classifier(*pair)]
        both += same_times(waits["sweep"], waits[name])[:1]
        told = ["—"] * 4 if name == "sweep" else [_number(finding) for finding in both]
        rows.append([name, *(_number(finding) for finding in alone), *told, load])
    header = "workload | T1 p | T2 z | T3 z | T4 p, histograms | T4 p, gaps | T5 (AUC − ½) ÷ σ | T8 t | largest load"
    return markdown(header, rows) + f"\n\n{count:,} operations a workload, T8 on 2,000."


def leaks(options: Options) -> str:
    """Maps that leak, and the test that each fails."""
    count = 3000 if options.quick else 100_000
    rows = []
    for leak, test in LEAKS.items():
        name = "deletes" if leak in ("writes what changed", "a miss touches nothing") else "hot key"
        first, made = workload(name, MAP.capacity, count, SEED)
        bins = BIASED if leak == "biased range" else MAP.bins
        seen = leaky(leak, bins, MAP.hbm_bins, made, SEED, first)
        found = [*shape(seen), uniformity(seen), independence(seen)]
        worst = [finding for finding in found if finding.test == test and not finding.passes]
        shown = f"{worst[0].statistic} = {worst[0].value:.4g}" if worst else "passes"
        rows.append([leak, name, test, shown])
    return markdown("leak | workload | test | result", rows) + f"\n\n{count:,} operations."


SECTIONS = [Section("omap-tests", False, tests), Section("omap-leaks", False, leaks)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
