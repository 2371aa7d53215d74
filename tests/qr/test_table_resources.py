"""Estimates of fits over columns: what synthesis and packing made of whole devices on an ECP5-85F is met."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.boards.catalogue import boards
from penstock.models.heap.schema import Column, Schema
from penstock.models.qr.columns import Columns
from penstock.models.qr.table_config import TableFitPlan, layout
from penstock.models.qr.table_resources import COEFFICIENTS, estimate, features, flops
from penstock.models.resources import Resources
from penstock.models.strider import resources as strider
from penstock.models.strider.config import WalkConfig

#: columns with the label last (! is NOT NULL), page size, format, products a cycle, Striders, slots, bus, and what nextpnr-ecp5 packed
#: (benchmarks/fit_estimates.py)
PACKED = [
    (
        "float8 float8 float8 float8! float8",
        1024,
        "fixed:4,4",
        (21, 2, 64, 32),
        (31_212, 16_478, 40, 65),
    ),
    ("float4! float4", 8192, "fixed:4,4", (4, 1, 4, 32), (17_194, 10_179, 20, 81)),
    (
        "int4 int2 int2 int2! int4 int4 int2! int2! int2 int4! int2",
        1024,
        "fixed:4,4",
        (78, 1, 4, 8),
        (40_245, 26_145, 121, 69),
    ),
    ("int2 int4! int2! int4 int2", 1024, "fixed:4,4", (4, 1, 4, 8), (16_368, 9767, 24, 69)),
    (
        "float4 float4! float4 float4! float4! float4 float4 float4! float4 float4 float4",
        1024,
        "fixed:5,12",
        (78, 1, 4, 16),
        (43_509, 28_592, 121, 73),
    ),
    (
        "float8 float8 float8! float8 float8! float8! float8",
        1024,
        "fixed:4,4",
        (36, 1, 4, 32),
        (30_438, 18_480, 63, 65),
    ),
    (
        "float4! float8! int8 int8 float4 int8! float4 int8",
        8192,
        "fixed:4,4",
        (2, 1, 4, 8),
        (20_673, 12_401, 34, 73),
    ),
    ("float4! float4! float4 float4", 2048, "fixed:8,8", (15, 1, 4, 32), (20_285, 12_531, 30, 81)),
]


@pytest.mark.parametrize(
    "case", PACKED, ids=lambda case: f"{len(case[0].split()) - 1} features, bus {case[3][3]}"
)
def test_as_packed(case: Any) -> None:
    names, page_size, number, (products, walkers, slots, bus), counts = case
    packed = Resources(*counts)
    types = [name.rstrip("!") for name in names.split()]
    schema = Schema(
        "t",
        tuple(
            Column(f"c{k}", name, not_null="!" in said)
            for k, (name, said) in enumerate(zip(types, names.split(), strict=True))
        ),
        page_size,
    )
    columns = Columns(len(types), number, products)
    engine = TableFitPlan(
        columns,
        WalkConfig(schema, layout([(k, 0) for k in range(len(types))]), columns.format),
        bus,
        walkers,
        2,
        slots,
    )
    found = estimate(engine, boards()["ulx3s-85f"])
    assert (found.dsp, found.bram) == (packed.dsp, packed.bram)
    assert abs(found.lut / packed.lut - 1) < 0.15 and abs(found.ff / packed.ff - 1) < 0.25


@pytest.mark.parametrize(
    ("columns", "width", "more"),
    # look-up tables and flip-flops of offsets and comparison, beyond those of 17 bits, as yosys
    # synthesised them apart for the ECP5
    [(2, 24, (100, 47)), (6, 24, (171, 75)), (2, 32, (136, 63)), (6, 32, (245, 123))],
)
def test_wide_values_are_looked_at(columns: int, width: int, more: tuple[int, int]) -> None:
    """The estimate grows by what the check of a value's distance from its offset takes, not counting
    the Striders' wider words."""
    found = []
    for bits in (17, width):
        schema = Schema("t", tuple(Column(f"c{k}", "int4") for k in range(columns)))
        chosen = Columns(columns, f"fixed:{bits - 8},8", 1)
        walk = WalkConfig(schema, layout([(k, 0) for k in range(columns)]), chosen.format)
        plan = TableFitPlan(chosen, walk)
        part = boards()["ulx3s-85f"]
        found.append((features(plan, part), flops(plan, part) - strider.flops(plan.port)))
    lut = sum(
        COEFFICIENTS[name] * (found[1][0][name] - found[0][0][name])
        for name in ("range", "range_column", "range_bit")
    )
    assert abs(lut - more[0]) < 15
    assert abs(found[1][1] - found[0][1] - more[1]) <= 4
