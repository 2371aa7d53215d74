"""What becomes of memories and products, beside Yosys: random ones, for every family whose rules are known."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib.memory import Memory

from penstock.boards.flow import FLOWS
from penstock.hdl.apart import APART, with_styles, without_collisions
from penstock.models.analytics.storages import products
from penstock.models.mapping import (
    Storage,
    by_constant,
    map_storage,
    memory_blocks,
    multiplier_blocks,
    ram_styles,
    ultra_shapes,
)
from penstock.models.numerics.formats import parse_format
from penstock.targets import target_named
from testbench import ultrascale
from testbench.yosys import yosys

WIDTHS, DEPTHS = (
    (1, 2, 3, 5, 8, 10, 16, 18, 20, 24, 32, 36, 48, 64),
    (2, 3, 4, 6, 8, 12, 16, 20, 32, 40, 48, 64, 80, 128, 200, 256, 300, 512, 1024, 1500),
)
LINE = re.compile(
    r"^(?:mapping memory top\.(?P<mapped>mem\d+x)\S* via (?P<cell>\S+)|using FF mapping for memory top\.(?P<logic>mem\d+x)\S*)$",
    re.MULTILINE,
)


def _random(rng: random.Random) -> Storage | None:
    granules = rng.choice((1, 1, 1, 2, 4))
    width, depth, clocked, rom = (
        granules * rng.choice(WIDTHS),
        rng.choice(DEPTHS),
        rng.random() < 0.85,
        rng.random() < 0.15,
    )
    if width > 128 or depth * width > (40_000 if clocked else 2048):
        return None
    granules = 0 if rom else granules
    transparent = clocked and not rom and rng.random() < 0.15
    return Storage(
        width,
        depth,
        rng.choice((1, 1, 2, 3)),
        granules,
        clocked,
        transparent,
        clocked and not rom and not transparent and rng.random() < 0.3,
    )


def _add(m: Module, ports: list[Signal], name: str, what: Storage, rng: random.Random) -> None:
    contents = [] if what.granules else [rng.getrandbits(what.width) for _ in range(what.depth)]
    m.submodules[name] = memory = Memory(
        shape=what.width,
        depth=what.depth,
        init=contents,
        attrs=APART if what.apart else {},
    )
    writes = []
    if what.granules:
        write = memory.write_port(
            granularity=what.width // what.granules if what.granules > 1 else None
        )
        for signal in (write.en, write.addr, write.data):
            port = Signal.like(signal, name=f"{name}_{len(ports)}")
            ports.append(port)
            m.d.comb += signal.eq(port)
        writes.append(write)
    for _ in range(what.readers):
        read = memory.read_port(
            domain="sync" if what.clocked else "comb",
            transparent_for=writes if what.transparent else (),
        )
        address, data = (
            Signal.like(read.addr, name=f"{name}_{len(ports)}"),
            Signal.like(read.data, name=f"{name}_{len(ports)}_data"),
        )
        ports += [address, data]
        m.d.comb += [read.addr.eq(address), data.eq(read.data)]


#: UltraScale+ has no open placer; its synthesis is the judge alone
SYNTH = {name: flow.synth for name, flow in FLOWS.items()} | {"amd": ultrascale.SYNTH}
FAMILIES = ("ecp5", "ice40", "nexus", "gowin", "amd")


@pytest.mark.parametrize("family", FAMILIES)
def test_memories(family: str, tmp_path: Path) -> None:
    check_memories(family, random.Random(family), 12, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_many_memories(family: str, tmp_path: Path) -> None:
    check_memories(family, random.Random(f"{family} long"), 80, tmp_path)


def check_memories(family: str, rng: random.Random, count: int, tmp_path: Path) -> None:
    m, ports = Module(), []
    memories = {f"mem{k}x": what for k in range(count) if (what := _random(rng)) is not None}
    for name, what in memories.items():
        _add(m, ports, name, what, rng)
    text = rtlil.convert(m, name="top", ports=ports, emit_src=False)
    (tmp_path / "top.il").write_text(without_collisions(text))
    log = yosys(f"read_rtlil top.il; {SYNTH[family]} -top top -run begin:map_ffram", tmp_path)
    found: dict[str, str] = {}
    for line in LINE.finditer(log):
        name = line["mapped"] or line["logic"]
        found[name] = (
            "logic"
            if line["cell"] is None
            else "cells"
            if "DPR16X4" in line["cell"] or "LUTRAM" in line["cell"]
            else "ultra"
            if "URAM" in line["cell"]
            else "blocks"
        )
    expected = {}
    for name, what in memories.items():
        mapped = map_storage(what, family, None if family == "amd" else False)
        kinds = ("ultra", "blocks", "cells")
        expected[name] = next((kind for kind in kinds if getattr(mapped, kind)), "logic")
    assert {
        **dict.fromkeys(memories, "logic"),
        **found,
    } == expected  # small constant ones vanish without a word


@pytest.mark.parametrize("apart", [True, False])
def test_words_that_are_read_while_they_are_written(apart: bool, tmp_path: Path) -> None:
    """A block RAM of the iCE40 has no answer to that: registers and comparators beside it give the old word, but where nobody uses it."""
    m, ports = Module(), []
    _add(m, ports, "mem", Storage(16, 256, apart=apart), random.Random(1))
    text = rtlil.convert(m, name="top", ports=ports, emit_src=False)
    (tmp_path / "top.il").write_text(without_collisions(text))
    script = f"read_rtlil top.il; {FLOWS['ice40'].synth} -top top -run begin:map_ffram"
    yosys(f"{script}; tee -q -o stat.json stat -json", tmp_path)
    stat = json.loads((tmp_path / "stat.json").read_text())
    cells = stat["modules"]["\\top"]["num_cells_by_type"]
    assert cells.pop("SB_RAM40_4K") == 1
    assert any("dff" in name for name in cells) is not apart


def test_blocks(tmp_path: Path) -> None:
    """How many blocks memories take of an ECP5."""
    m, ports = Module(), []
    memories = [
        Storage(64, 384, apart=True),
        Storage(36, 512),
        Storage(9, 2048, 2),
        Storage(64, 4096, granules=8, apart=True),
        Storage(16, 300, 2, 2),
        Storage(32, 48),
        Storage(20, 2048, granules=0),
        Storage(1, 10_000, granules=1),
        Storage(72, 700, 3, 4),
    ]
    for number, what in enumerate(memories):
        _add(m, ports, f"mem{number}x", what, random.Random(number))
    cells = _cells(rtlil.convert(m, name="top", ports=ports, emit_src=False), tmp_path)
    mapped = [map_storage(what, "ecp5") for what in memories]
    assert (cells["DP16KD"], cells["TRELLIS_DPR16X4"]) == (
        sum(found.blocks for found in mapped),
        sum(found.cells for found in mapped),
    )


def _cells(text: str, folder: Path, synth: str = "synth_ecp5") -> dict[str, int]:
    (folder / "top.il").write_text(text)
    script = (
        f"read_rtlil top.il; {synth} -top top -run begin:map_ffram; tee -q -o stat.json stat -json"
    )
    yosys(script, folder)
    return json.loads((folder / "stat.json").read_text())["modules"]["\\top"]["num_cells_by_type"]


#: widths of both factors, and whether they are signed
PRODUCTS = {
    "ecp5": "8 8 0, 18 18 1, 19 10 1, 20 11 1, 24 12 0, 24 13 1, 32 17 1, 3 1 0, 36 20 0",
    # 4 4 1 and 8 1 0 are look-up tables; a factor of 27 or 18 bits needs one more where it has no sign
    "amd": "4 4 1, 8 1 0, 5 4 1, 27 18 1, 28 18 1, 27 19 1, 26 17 0, 27 17 0, 26 18 0, 44 18 1, "
    "45 19 1, 44 44 0, 24 12 0",
}


@pytest.mark.parametrize("family", PRODUCTS)
def test_products(family: str, tmp_path: Path) -> None:
    """Multiplier blocks for products of every width that formats have, and of those beside which the rule changes."""
    m, ports, expected = Module(), [], 0
    for number, text in enumerate(PRODUCTS[family].split(", ")):
        a, b, is_signed = map(int, text.split())
        shape = signed if is_signed else unsigned
        factors = [Signal(shape(width), name=f"f{number}_{k}") for k, width in enumerate((a, b))]
        product = Signal(shape(a + b), name=f"product{number}")
        m.d.comb += product.eq(factors[0] * factors[1])
        ports += [*factors, product]
        expected += multiplier_blocks([(a, b, not is_signed)], family)
    text = rtlil.convert(m, name="top", ports=ports, emit_src=False)
    cells = _cells(text, tmp_path, SYNTH[family])
    assert cells["DSP48E2" if family == "amd" else "MULT18X18D"] == expected


@pytest.mark.parametrize("family", PRODUCTS)
def test_products_of_a_constant(family: str, tmp_path: Path) -> None:
    """Its low zeros take nothing; a power of two is a shift."""
    m, ports, expected = Module(), [], 0
    constants = (
        (3, 0x80),
        (5, 0xE0),
        (8, 0xE0),
        (10, 0xA0),
        (2, 0xA0),
        (6, 5),
        (24, 0x1800),
        (30, 3),
    )
    for number, (bits, constant) in enumerate(constants):
        factor, product = Signal(bits, name=f"f{number}"), Signal(40, name=f"product{number}")
        m.d.comb += product.eq(factor * constant)
        ports += [factor, product]
        expected += multiplier_blocks([by_constant(bits, constant)], family)
    text = rtlil.convert(m, name="top", ports=ports, emit_src=False)
    cells = _cells(text, tmp_path, SYNTH[family])
    assert cells["DSP48E2" if family == "amd" else "MULT18X18D"] == expected > 3


@pytest.mark.parametrize(
    "name,blocks",
    [
        ("float32", 4),
        ("bfloat16", 1),
        ("float16", 1),
        ("fixed:8,8", 1),
        ("fixed:8,16", 4),
        ("fixed:8,24", 4),
        ("fixed:6,14", 4),
    ],
)
def test_a_unit_s_products(name: str, blocks: int) -> None:
    assert multiplier_blocks(products("mul", parse_format(name)), "ecp5") == blocks


def test_blocks_of_an_ultrascale_part(tmp_path: Path) -> None:
    """Block RAMs, look-up tables of LUT RAM and UltraRAMs; the marked ones are where the plan has them, whatever synthesis would choose."""
    memories = [
        Storage(144, 8192),
        Storage(20, 20_000),
        Storage(24, 12_288, granules=3),
        Storage(72, 4096),
        Storage(32, 900, 3),
        Storage(18, 1024, granules=0, readers=2),
        Storage(40, 70),
        Storage(16, 128, 3, clocked=False),
        Storage(9, 200, clocked=False),
    ]
    m, ports = Module(), []
    for number, what in enumerate(memories):
        _add(m, ports, f"mem{number}x", what, random.Random(number))
    styles = {
        (8192, 144): "ultra",
        (20_000, 20): "ultra",
        (12_288, 24): "ultra",
        (4096, 72): "block",
    }
    text = with_styles(rtlil.convert(m, name="top", ports=ports, emit_src=False), styles)
    cells = _cells(text, tmp_path, SYNTH["amd"])
    mapped = [map_storage(w, "amd", styles.get((w.depth, w.width)) == "ultra") for w in memories]
    luts = sum(cells.get(name, 0) * each for name, each in ultrascale.LUT_RAM.items())
    assert cells["RAMB18E2"] + 2 * cells["RAMB36E2"] == sum(found.blocks for found in mapped)
    assert cells["URAM288"] == sum(found.ultra for found in mapped) == 4 + 2 + 1
    assert luts == 4 * sum(found.cells for found in mapped)


@pytest.mark.parametrize("name", ultrascale.SMALL)
def test_blocks_of_a_whole_design(name: str, tmp_path: Path) -> None:
    """More of them, and look-up tables: `benchmarks/ultrascale.py`."""
    design = ultrascale.SMALL[name]()
    need, found = design.resources, ultrascale.synthesised(design, tmp_path, mapped=False)
    assert (need.dsp, need.bram, need.uram) == (found.dsp, found.bram, found.uram)


def test_the_deepest_memories_become_ultraram() -> None:
    """As long as that lowers the larger share, of those alone that have one reader, and with a part that has some."""
    part = target_named("u55c")
    deep, wide = Storage(20, 1 << 20), Storage(256, 8192)
    some = [(1, deep), (2, wide), (1, Storage(64, 4096, 2)), (1, Storage(64, 4097, granules=0))]
    assert ultra_shapes(some, part) == {(1 << 20, 20)}  # with the others its share were larger
    assert memory_blocks(some, part)[1] == 86
    styles = ram_styles(some, part)
    assert styles[8192, 256] == styles[4096, 64] == "block"  # not where synthesis would have them
    assert ultra_shapes(some, target_named("ulx3s-85f")) == frozenset()
    assert ram_styles(some, target_named("ulx3s-85f")) == {}
    # all of them are more than there are: the rest stays in block RAM
    many = [(20, Storage(70 + k, 4096 * 8 - k)) for k in range(20)]

    assert 0 < len(ultra_shapes(many, part)) < 20
