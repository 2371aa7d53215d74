"""Devices on boards: what fits, and netlists beside golden and RTL."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.boards.catalogue import boards
from penstock.models.pim.config import PimConfig
from penstock.models.pim.resources import resources_of
from penstock.runs.outcome import differences
from testbench.command_line import told

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RETNET = str(EXAMPLES / "retnet.psk")


def test_what_does_not_fit_is_said_with_what_does(tmp_path):
    for words, need, fits in (
        (["ulx3s-12f"], "32 DSP", "with --banks 2 it fits on ulx3s-45f"),
        (["ulx3s-85f", "--banks", "16"], "256 DSP", "without --banks it fits"),
    ):
        said = told(["build", RETNET, "--board", *words, "--out", str(tmp_path / "out")], 1)
        assert f"error[E601]: recurrence 'retnet' does not fit on {words[0]}" in said
        assert need in said and fits in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("format", "lut", "ff"),
    # whole devices as Yosys 0.70 counted them when decays were no rates, and what a unit has grown by since
    [("mx8", 25_682 + 6_912, 10_908 + 1_440), ("float16", 20_640 + 5_070, 11_181 + 1_470)],
)
def test_one_unit_fits_on_the_large_board(format, lut, ff):
    """LUTs and flip-flops within a twentieth."""
    part = boards()["ulx3s-85f"]
    found = resources_of(PimConfig(format, format == "mx8", groups=1, banks=2, rows=4), part)
    assert found.fits(part) is None
    assert abs(found.lut / lut - 1) < 0.05 and abs(found.ff / ff - 1) < 0.05
    assert (found.dsp, found.bram) == (32, 83)


def test_four_units_do_not_fit_on_the_large_board():
    part = boards()["ulx3s-85f"]
    assert resources_of(PimConfig(groups=2, rows=4), part).fits(part) == "lut"


@pytest.mark.long
@pytest.mark.parametrize(
    ("format", "sizes"), [("float16", {"k": 32, "v": 32}), ("mx8", {"k": 64, "v": 33})]
)
def test_a_netlist_of_an_ecp5(format, sizes):
    """The smallest device: one unit, two banks, one head."""
    design = ps.compile(RETNET, dims=sizes, target="ulx3s-85f", heads=1, format=format)
    runs = [
        design.run("random:seed=1", backend=backend, tokens=2)
        for backend in ("golden", "rtl", "netlist")
    ]
    assert differences(runs[0], runs[1]) == [] == differences(runs[0], runs[2])
    assert runs[1].cycles == runs[2].cycles == design.run("random:seed=1", "model", tokens=2).cycles
