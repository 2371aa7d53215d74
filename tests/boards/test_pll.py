"""PLL settings: arithmetic by the primitives' own formulas, limits, nearest clock."""

from __future__ import annotations

import pytest

from penstock.boards.pll import FAMILIES, Setting, Unreachable, solve

CASES = [
    ("ecp5", 25.0, 60.0),
    ("ecp5", 25.0, 40.0),
    ("ecp5", 12.0, 60.0),
    ("ecp5", 48.0, 60.0),
    ("ecp5", 25.0, 90.0),
    ("ice40", 12.0, 24.0),
    ("ice40", 12.0, 30.0),
    ("gowin", 27.0, 50.0),
    ("gowin", 27.0, 27.0),
]


def output(setting: Setting) -> float:
    p = dict(setting.parameters)
    if setting.family == "ecp5":
        return setting.input_mhz / p["CLKI_DIV"] * p["CLKFB_DIV"]
    if setting.family == "ice40":
        return setting.input_mhz * (p["DIVF"] + 1) / (p["DIVR"] + 1) / 2 ** p["DIVQ"]
    return setting.input_mhz * (p["FBDIV_SEL"] + 1) / (p["IDIV_SEL"] + 1)


def oscillator(setting: Setting) -> float:
    p = dict(setting.parameters)
    if setting.family == "ice40":
        return setting.output_mhz * 2 ** p["DIVQ"]
    return setting.output_mhz * (p["CLKOP_DIV"] if setting.family == "ecp5" else p["ODIV_SEL"])


@pytest.mark.parametrize("family,fin,wanted", CASES)
def test_solutions(family: str, fin: float, wanted: float) -> None:
    setting = solve(family, fin, wanted)
    limits = FAMILIES[family]
    assert output(setting) == pytest.approx(setting.output_mhz)
    assert oscillator(setting) == pytest.approx(setting.vco_mhz)
    assert limits.vco[0] <= setting.vco_mhz <= limits.vco[1]
    assert limits.compare[0] <= setting.compare_mhz <= limits.compare[1]
    assert 0.95 * wanted <= setting.output_mhz <= wanted * (1 + 1e-9)


def test_a_clock_that_divides_is_met_exactly() -> None:
    assert solve("ecp5", 25.0, 60.0).output_mhz == 60.0
    assert dict(solve("ice40", 12.0, 24.0).parameters) == {
        "DIVR": 0,
        "DIVF": 63,
        "DIVQ": 5,
        "FILTER_RANGE": 1,
    }


@pytest.mark.parametrize(
    "family,fin,wanted", [("ice40", 12.0, 5.0), ("ecp5", 25.0, 500.0), ("ecp5", 4.0, 50.0)]
)
def test_out_of_reach(family: str, fin: float, wanted: float) -> None:
    with pytest.raises(Unreachable):
        solve(family, fin, wanted)


def test_unknown_family() -> None:
    with pytest.raises(ValueError, match="no PLL"):
        solve("nexus", 12.0, 50.0)


def test_a_family_without_a_pll() -> None:
    with pytest.raises(
        Unreachable,
        match=r"^no PLL of a nexus device is known here: it runs at its oscillator's clock$",
    ):
        solve("nexus", 12.0, 24.0)
