"""Fits of ranks from the surface to simulated hardware, without passes over all rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from penstock.cli import run
from penstock.dsl.qr.plan import Load
from penstock.models.qr.job import Bounds, Label, Sums
from testbench.command_line import told

KERNEL = "import penstock as ps\n\n\n@ps.fit\ndef rank_model(key: ps.Key):\n    return ps.least_squares(ps.window(key, {length}), target=ps.rank(key))\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def written(length: int) -> str:
    Path("f.py").write_text(KERNEL.format(length=length))
    return "f.py"


def test_the_surfaces_example_has_hardware() -> None:
    design = ps.compile(written(32), "vu9p")
    config = design.plan
    assert (config.target, config.sums, config.bounds) == (
        Label.RANK,
        Sums.INCREMENTAL,
        Bounds.WIDENED,
    )
    assert config.built and config.blocks == 128
    for rows, blocks in ((1, 16), (159, 16), (160, 32), (10**6, 256)):
        assert ps.compile(written(3), "vu9p", load=Load(rows=rows)).plan.blocks == blocks


@pytest.mark.long
@pytest.mark.parametrize("bounds", ["widened", "rescan"])
def test_hardware_equals_golden_and_model(bounds: str) -> None:
    Path("f.psk").write_text(
        f'fit f(key: key)\n  model <- least_squares(window(key, 5), target=rank(key), bounds="{bounds}")\n'
    )
    line = "simulate f.psk --target small --data random:rows=400 --groups 4 --refits 4 --new 6 --gone 2 -q --json r.json"
    assert run(line.split()) == 0
    report = json.loads(Path("r.json").read_text())
    assert report["bit_exact"] is True and report["cycles"]["rtl"] == report["cycles"]["model"]


def test_groups_that_blocks_do_not_hold() -> None:
    said = told(
        ["model", written(4), *"--data random:rows=9000 --groups 1 --refits 1 --new 1".split()], 1
    )
    assert (
        "error[E701]: group 0 has 9,000 rows; 128 blocks hold 8,192" in said
        and "more --groups" in said
    )


@pytest.mark.parametrize("target", ["slot", "rank"])
@pytest.mark.parametrize("method", ["gram", "givens"])
@pytest.mark.parametrize(
    ("incremental", "bounds"), [(True, "widened"), (True, "rescan"), (False, "rescan")]
)
def test_all_of_them_have_hardware(
    target: str, method: str, incremental: bool, bounds: str
) -> None:
    Path("g.psk").write_text(
        f'fit f(key: key)\n  model <- least_squares(window(key, 4), target={target}(key), method="{method}", '
        f'incremental={incremental}, bounds="{bounds}")\n'
    )
    assert ps.compile("g.psk", "vu9p").plan.built
