"""Estimates of fits over columns: multipliers and memories are those that the hardware is written with. What nextpnr-ecp5 packs of whole
devices is beside their look-up tables in benchmarks/estimates.py."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from amaranth.back import rtlil

from penstock.boards.catalogue import boards
from penstock.hdl.modules import ModuleLibrary
from penstock.hdl.qr.table_engine import TableFitEngine
from penstock.models.heap.schema import Column, Schema
from penstock.models.mapping import Storage
from penstock.models.qr.columns import Columns
from penstock.models.qr.resources import estimate, memories
from penstock.models.qr.table_config import TableFitPlan, layout
from penstock.models.strider import resources as strider
from penstock.models.strider.config import WalkConfig

#: columns with the label last (! is NOT NULL), limbs, products a cycle, Striders, slots, bus
ENGINES = [
    ("float4! float4", (1, 1), 4, 1, 4, 32),
    ("int2 int4! int2! int4 int2", (1, 2, 1, 3, 1), 11, 2, 9, 16),
    ("float8 bool int8 float8!", (2, 1, 3, 2), 45, 1, 4, 64),
]


def _plan(names: str, limbs: tuple[int, ...], lanes: int, *shape: int) -> TableFitPlan:
    columns = tuple(
        Column(f"c{k}", name.rstrip("!"), not_null="!" in name)
        for k, name in enumerate(names.split())
    )
    made = Columns(limbs, lanes)
    walk = WalkConfig(
        Schema("t", columns, 1024), layout([(k, 0) for k in range(len(limbs))]), made.format
    )
    walkers, slots, bus = shape
    return TableFitPlan(made, walk, bus, walkers, 2, slots)


#: the smallest has nothing that the others do not have
@pytest.mark.parametrize(
    "engine",
    [pytest.param(engine, marks=pytest.mark.long if engine[2] == 4 else ()) for engine in ENGINES],
    ids=lambda engine: engine[0],
)
def test_multipliers_and_memories(engine: tuple[str, tuple[int, ...], int, int, int, int]) -> None:
    plan, library = _plan(*engine), ModuleLibrary()
    top = rtlil.convert(TableFitEngine(plan, library, design=1), ports=[])
    [buffers] = [text for text in library.texts if "\\units0_0" in text]
    expected, striders = (_counted(of) for of in (memories(plan), strider.memories(plan.port)))
    behind = expected - striders
    solver = Counter({shape: count for shape, count in behind.items() if shape[0] == 32})
    assert not behind - solver - _held(top)
    places = max(2, len(plan.columns.limbs))
    assert _held(buffers)[64, places] * plan.walkers == striders[64, places]
    assert len(re.findall(r"cell \$mul ", top)) == plan.columns.gram_lanes


def _counted(stores: Iterable[tuple[int, Storage]]) -> Counter[tuple[int, int]]:
    found = Counter[tuple[int, int]]()
    for copies, memory in stores:
        found[memory.width, memory.depth] += copies
    return found


def _held(text: str) -> Counter[tuple[int, int]]:
    return Counter(
        (int(width), int(size))
        for width, size in re.findall(r"memory width (\d+) size (\d+)", text)
    )


def test_as_packed() -> None:
    """A whole device of the first engine's columns on an ECP5-85F, as nextpnr-ecp5 packed it (pages of 8 KiB)."""
    names, limbs, *shape = ENGINES[0]
    small = _plan(names, limbs, *shape)
    walk = replace(small.walk, schema=replace(small.walk.schema, page_size=8192))
    found = estimate(replace(small, walk=walk), boards()["ulx3s-85f"])
    assert (found.dsp, found.bram) == (20, 81)
    assert abs(found.lut / 18_927 - 1) < 0.15 and abs(found.ff / 11_375 - 1) < 0.25


def test_limbs_take_their_place() -> None:
    """Each limb is a column to the sums; the solver has the highest ones alone."""
    part = boards()["ulx3s-85f"]
    one, two = (
        estimate(_plan("float8 float8 float8", (n,) * 3, 6, 1, 4, 16), part) for n in (1, 2)
    )
    assert one.dsp == two.dsp and one.lut < two.lut and one.ff < two.ff
