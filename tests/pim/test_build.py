"""Devices on boards: what fits, and netlists beside golden and RTL."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.boards.catalogue import boards
from penstock.cli import run
from penstock.models.pim.config import Design, PimConfig
from penstock.models.pim.resources import resources_of
from penstock.outcome import differences

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RETNET = str(EXAMPLES / "retnet.psk")


def test_what_does_not_fit_is_said_with_what_does(capsys, tmp_path):
    for words, need in ((["ulx3s-12f"], "96 DSP"), (["ulx3s-85f", "--banks", "16"], "768 DSP")):
        assert run(["build", RETNET, "--board", *words, "--out", str(tmp_path / "out")]) == 1
        said = capsys.readouterr().err
        assert f"error[E601]: recurrence 'retnet' does not fit on {words[0]}" in said
        assert need in said and "one unit beside two banks fits on ulx3s-85f" in said
    assert not (tmp_path / "out").exists()


def test_one_unit_fits_on_the_large_board():
    """As Yosys 0.70 counts the whole device of one unit of MX8 on the ULX3S: LUTs within a tenth."""
    part = boards()["ulx3s-85f"].budget
    found = resources_of(PimConfig(stochastic=True, groups=1, banks=2, rows=4), part)
    assert found.fits(part) is None
    assert abs(found.lut / 29_167 - 1) < 0.1 and abs(found.ff / 10_624 - 1) < 0.1
    assert (found.dsp, found.bram) == (96, 81)
    more = resources_of(PimConfig(groups=1, banks=2, rows=4, design=Design.PER_BANK), part)
    assert more.fits(part) == "dsp"


@pytest.mark.long
@pytest.mark.parametrize(
    ("format", "sizes"), [("float16", {"k": 8, "v": 8}), ("mx8", {"k": 40, "v": 33})]
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
