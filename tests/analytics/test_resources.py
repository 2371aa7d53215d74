"""Estimates: what fits is planned, what does not is refused, and what synthesis made of some plans is met."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from penstock import Choices
from penstock.api import Design, compile, load_kernel
from penstock.boards.catalogue import boards
from penstock.data.assumed import fitted
from penstock.dsl.core.diagnostics import KernelError
from penstock.models.analytics import storages
from penstock.models.analytics.resources import estimate, features
from penstock.models.heap.schema import Column, Schema
from penstock.models.resources import Resources
from penstock.targets import target_named

EXAMPLES = Path(__file__).parents[2] / "examples"


def _columns(count: int, page_size: int) -> Schema:
    columns = [Column(f"x{k}", "float4", not_null=True) for k in range(count)] + [
        Column("y", "float4", not_null=True)
    ]
    return fitted(Schema("t", tuple(columns), page_size=page_size))


def _array(count: int, page_size: int) -> Schema:
    return fitted(
        Schema(
            "t", (Column("x", "float4[]", length=count), Column("y", "float4")), page_size=page_size
        )
    )


def _plan(
    board: str,
    number: str,
    d: int,
    *,
    kernel: str = "logistic.py",
    plain: bool = False,
    **choices: int,
) -> Design:
    known = boards()[board]
    schema = (_columns if plain else _array)(d, known.page_size)
    bindings = {"x": [f"x{k}" for k in range(d)]} if plain else None
    return compile(
        load_kernel(EXAMPLES / kernel),
        known,
        schema,
        number,
        dims={"d": d, "h": 2} if kernel == "mlp.py" else {"d": d},
        bind=bindings,
        choices=Choices(**choices),
    )


#: board, kernel, format, label, d, page size, threads, lanes, and what nextpnr-ecp5 counted of the device that `penstock build` made of it
PLACED = [
    ("ecp5-evn", "linear.py", "fixed:8,8", "bool", 16, 1024, 2, 2, Resources(9_517, 4_641, 7, 69)),
]


@pytest.mark.parametrize("case", PLACED, ids=lambda case: f"{case[0]}-{case[1]}")
def test_as_placed(
    case: tuple[str, str, str, str, int, int, int, int, Resources],
) -> None:
    name, kernel, number, label, d, page_size, threads, lanes, placed = case
    schema = Schema(
        "t", (Column("x", "float4[]", length=d), Column("y", label)), page_size=page_size
    )
    board = boards()[name]
    design = compile(
        load_kernel(EXAMPLES / kernel),
        board,
        schema,
        number,
        dims={"d": d},
        choices=Choices(threads=threads, lanes=lanes),
    )
    found = estimate(design.plan, board)
    assert (found.dsp, found.bram) == (placed.dsp, placed.bram)
    assert abs(found.lut / placed.lut - 1) < 0.15 and abs(found.ff / placed.ff - 1) < 0.25


def test_what_fits_is_planned() -> None:
    """Two columns in ten bits were placed on an HX8K, which has no multiplier blocks."""
    design = _plan("hx8k-evn", "fixed:4,6", 2, plain=True)
    found = estimate(design.plan, boards()["hx8k-evn"])
    assert found.dsp == 0 and found.fits(boards()["hx8k-evn"]) is None


@pytest.mark.parametrize(
    "board,kernel,d,short,models",
    [
        ("hx8k-evn", "logistic.py", 4, "BRAM", "w[4]"),
        ("ulx3s-12f", "logistic.py", 2_000, "BRAM", "w[2000]"),
        ("hx8k-evn", "mlp.py", 4, "BRAM", "A[2, 4], a[2], v[2]"),
    ],
)
def test_what_does_not_fit_is_refused(
    board: str, kernel: str, d: int, short: str, models: str
) -> None:
    with pytest.raises(KernelError) as refused:
        _plan(board, "float32", d, kernel=kernel, threads=1)
    diagnostic = refused.value.diagnostic
    assert f"models {models} in float32: a smaller dimension" in (diagnostic.hint or "")
    assert (
        diagnostic.code == "E601"
        and f"does not fit on {board}: the smallest engine found needs" in diagnostic.message
        and short in diagnostic.message
    )


def test_the_device_is_more_than_the_engine() -> None:
    board = boards()["ulx3s-25f"]
    plan = _plan("ulx3s-25f", "bfloat16", 4).plan
    whole, engine = estimate(plan, board), estimate(plan, replace(board, board=None))
    assert (
        whole.bram - engine.bram == 16 + 1 and whole.lut > engine.lut and whole.dsp == engine.dsp
    )  # 32 KiB in blocks of 2, the link's ring


def test_more_threads_take_more() -> None:
    found = [
        estimate(_plan("ulx3s-85f", "fixed:8,8", 8, threads=threads).plan, boards()["ulx3s-85f"])
        for threads in (1, 2, 4)
    ]
    assert all(a.lut < b.lut and a.dsp < b.dsp and a.bram <= b.bram for a, b in pairwise(found))


def test_lanes_that_hold_nothing_have_no_multipliers() -> None:
    plan = compile(
        load_kernel(EXAMPLES / "linear.py"),
        target_named("small"),
        _columns(3, 8192),
        "float32",
        dims={"d": 3},
        bind={"x": ["x0", "x1", "x2"]},
        choices=Choices(lanes=4, threads=1),
    ).plan
    units = [unit for unit in storages.arithmetic(plan) if unit.fn == "mul"]
    assert any(unit.live < unit.copies for unit in units)
    assert set(features(plan, target_named("small"))) == {"shell", "port", "core", "thread"}
