"""Of every engine: machine's bound ≤ plan's bound ≤ cycles, and the machine's is the same whatever is asked of a plan."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from penstock.api import assume, compile
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.dsl.qr.plan import Load
from testbench.sweep import linear

_FIT = """fit f(key: key)
  w <- least_squares(window(key, 8), target={label}(key), method="{method}")
"""
_COLUMNS = """fit f(x: input[d], y: output)
  w <- least_squares(x, target=y)
"""
_RECURRENCE = """recurrence r(S: state[n, m], q: input[n], k: input[n], v: input[m], a: input)
  S <- a * S + outer(k, v)
  y <- q @ S
"""
_MAP = """map m(key: u64, value: bytes[{size}])
  capacity = 200
"""
#: by engine: kernels; targets; formats; what a compilation may be asked for; sizes of runs
FILLS = [{"fill": share} for share in (0.05, 0.2, 0.8, 1.0)]
POINTS: dict[str, tuple[list[Any], list[str], list[Any], list[dict[str, Any]], list[int]]] = {
    "analytics": (
        [linear(count) for count in (1, 16, 64)],
        ["vu9p", "u55c", "ulx3s-85f-sdram"],
        [None, "bfloat16"],
        [*FILLS, {"threads": 4}, {"lanes": 1}, {"walkers": 3}, {"ports": 1}, {"prefer": "area"}],
        [1, 40, 700],
    ),
    "keys": (
        [
            from_text(_FIT.format(label=label, method=method), "f.psk")
            for label in ("rank", "slot")
            for method in ("gram", "givens")
        ],
        ["vu9p", "ulx3s-85f", "u55c"],
        [None],
        [*FILLS, {"load": Load(20, 3)}, {"load": Load(5000, 500)}],
        [300, 900],
    ),
    "columns": (
        [from_text(_COLUMNS, "f.psk")],
        ["vu9p", "ulx3s-85f", "ulx3s-85f-sdram"],
        [None],
        [{"fill": share} for share in (0.02, 0.03, 0.04, 0.35, 0.45, 0.55)],
        [30, 1500],
    ),
    "pim": (
        [from_text(_RECURRENCE, "r.psk")],
        ["vu9p", "small"],
        ["mx8", "float16"],
        [*FILLS, {"banks": 4}, {"banks": 16}, {"schedule": "halves"}, {"unit": "per-bank"}],
        [1, 4],
    ),
    "omap": (
        [from_text(_MAP.format(size=size), "m.psk") for size in (8, 200)],
        ["u55c"],
        [None],
        [*FILLS, {"channels": 4}, {"window": 2}, {"cores": 16}, {"load": 2}, {"rounds": 1}],
        [1, 60],
    ),
}
DIMS = {"analytics": {"d": 12}, "columns": {"d": 5}, "pim": {"n": 40, "m": 33}}


@pytest.mark.parametrize("engine", POINTS)
@pytest.mark.parametrize("draws", [2, pytest.param(60, marks=pytest.mark.long)])
def test_of_all_plans_alike_and_below_them(engine: str, draws: int) -> None:
    kernels, parts, formats, asked, sizes = POINTS[engine]
    random, terms = Random(7), set()
    for _ in range(draws):
        kernel, part, size = (random.choice(some) for some in (kernels, parts, sizes))
        found: dict[float, set[Any]] = defaultdict(set)
        form = random.choice(formats)
        for options in ({}, *random.sample(asked, 3)):
            given = {"dims": DIMS[engine]} if engine in DIMS else {}
            try:
                design = compile(kernel, part, format=form, **given, **options)
            except KernelError as refused:
                assert refused.diagnostic.code in ("E601", "E605", "E464"), refused
                continue
            run = _run(engine, design, size)
            assert run.bound_machine.cycles <= run.bound.cycles <= run.cycles, (part, options)
            assert min(vars(run.bound_machine).values()) >= 0
            # of a fuller part the clock is slower, and its DRAM takes fewer of its cycles
            found[design.target.clock_mhz].add(run.bound_machine)
            terms.add(run.bound_machine.by)
        assert all(len(same) == 1 for same in found.values()), found
    assert terms


@pytest.mark.parametrize("engine", POINTS)
def test_fill(engine: str) -> None:
    """Nothing takes a larger share than asked for, where that goes."""
    [kernel, *_], [part, *_], [form, *_], *_ = POINTS[engine]
    given = {"dims": DIMS[engine]} if engine in DIMS else {}

    def share(**options: float) -> float:
        design = compile(kernel, part, format=form, **given, **options)
        return max(design.resources.shares(design.target).values())

    most = share()
    assert share(fill=0.9 * most) <= 0.9 * most < most <= share(fill=1.0)


def _run(engine: str, design: Any, size: int) -> Any:
    if engine == "keys":
        return design.run(design.refits(size), "model")
    if engine == "pim":
        return design.run(None, "model", tokens=size)
    if engine == "omap":
        return design.run(None, "model", ops=size)
    schema = design.plan.schema if engine == "analytics" else design.schema
    return design.run(assume(schema, size), "model")
