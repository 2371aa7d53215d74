"""Machine's bound ≤ plan's bound ≤ cycles, and the machine's is the same whatever is asked of a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from penstock.api import assume, compile
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel
from penstock.models.analytics.bound import machine_bound
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.target import Target
from testbench.kernels.drawn import FIXED, FLOATS, Case, cases, refusals
from testbench.sweep import linear, modelled

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@seed(5)
@settings(MOST, max_examples=6)
@given(cases((*FIXED, *FLOATS)))
def test_drawn_kernels(case: Case) -> None:
    table, found = case.table(), {}
    for lanes, threads, ports in ((case.lanes, case.threads, case.ports), (1, 1, 1), (5, 4, 1)):
        with refusals():
            design = replace(case, lanes=lanes, threads=threads, ports=ports).design(table)
        run = design.run(table, "model")
        if run.errors:
            continue
        assert run.bound and run.bound_machine and run.cycles
        assert run.bound_machine.cycles <= run.bound.cycles <= run.cycles
        assert found.setdefault(run.epochs, run.bound_machine) == run.bound_machine


#: kernels of the examples with sizes, and targets with options of their memory
KERNELS = [
    ("linear", {"d": 54}),
    ("logistic", {"d": 300}),
    ("ridge", {"d": 7}),
    ("mlp", {"d": 20, "h": 6}),
    (256, {"d": 10}),
    (0, {"d": 30}),
]
PARTS = [("vu9p", None), ("u55c", "dram"), ("ulx3s-85f-sdram", "dram"), ("icebreaker", None)]


@seed(8)
@settings(MOST, max_examples=6)
@given(
    st.sampled_from(KERNELS),
    st.sampled_from(PARTS),
    st.lists(
        st.builds(
            Choices,
            *(st.sampled_from((None, *some)) for some in ((1, 3, 16, 32), (1, 2, 12, 16, 64))),
            *(st.sampled_from((None, *some)) for some in ((1, 4), (1, 3))),
            prefer=st.sampled_from(("time", "area", "energy")),
            fill=st.sampled_from((0.5, 1.0)),
        ),
        min_size=3,
        max_size=4,
    ),
    st.integers(1, 700),
)
def test_forced_plans(kernel: tuple, part: tuple, forced: list[Choices], rows: int) -> None:
    """Of whatever part of a batch the rows are; and with a bound of each kind that is the largest."""
    name, dims = kernel
    traced = load_kernel(EXAMPLES / f"{name}.py") if isinstance(name, str) else linear(name)
    found = set()
    for choices in forced:
        try:
            design = compile(
                traced, part[0], format="bfloat16", dims=dims, memory=part[1], choices=choices
            )
        except KernelError as refused:
            assert refused.diagnostic.code in ("E601", "E605")
            continue
        run = modelled(design, rows)
        assert run.bound_machine.cycles <= run.bound.cycles <= run.cycles
        # of a fuller part the clock is slower, and its DRAM takes fewer of its cycles
        found.add((design.target.clock_mhz, run.bound_machine))
    assert len(found) == len({mhz for mhz, _ in found})


@pytest.mark.parametrize(
    ("dims", "dsp", "by"),
    [(54, 6840, "recurrence"), (520, 6840, "memory"), (54, 2, "products"), (54, 0, "products")],
)
def test_what_binds(dims: int, dsp: int, by: str) -> None:
    """Batches twice as large, twice the ports, twice the multipliers or what they are made of: each term is half of what it was, about."""
    design = compile(linear(16), "vu9p", dims={"d": dims})
    table, have = assume(design.plan.schema, 4096), replace(design.target, dsp=dsp)
    if not dsp:
        have = replace(have, lut=2_000)

    def bound(plan: AnalyticsPlan, part: Target) -> int:
        found = machine_bound(plan, part, table.pages, 4096, design.memory, 1)
        assert found is not None and (plan is not design.plan or part != have or found.by == by)
        return int(getattr(found, by))

    plan = replace(design.plan, merge_count=32) if by == "recurrence" else design.plan
    more = {"memory": {"ports": 2}, "products": {"dsp": 2 * dsp, "lut": 2 * have.lut}}
    assert 0.45 < bound(plan, replace(have, **more.get(by, {}))) / bound(design.plan, have) < 0.6
