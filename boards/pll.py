"""Phase-locked loops: which dividers make a clock, found by arithmetic and checked against the device's limits.

Sources of the limits: Lattice FPGA-DS-02012 (ECP5 sysCLOCK: table of the sysCLOCK PLL timing), FPGA-DS-02029 and FPGA-TN-02052 (iCE40 PLL), Gowin
DS117 (GW1NR rPLL, C6/I5 grade), Lattice FPGA-DS-02049 (CrossLink-NX). All frequencies here are in MHz.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass


class Unreachable(ValueError):
    """No setting of the PLL comes near enough to the clock."""


@dataclass(frozen=True)
class Setting:
    """What a PLL is set to."""

    family: str
    input_mhz: float
    output_mhz: float
    vco_mhz: float
    compare_mhz: float
    parameters: tuple[tuple[str, int], ...]  #: the parameters of the device's primitive

    def check(self) -> None:
        """Raise Unreachable where a limit of the device is not held."""
        low = FAMILIES[self.family]
        for what, value, (least, most) in (
            ("input", self.input_mhz, low.input),
            ("comparison frequency", self.compare_mhz, low.compare),
            ("oscillator", self.vco_mhz, low.vco),
            ("output", self.output_mhz, low.output),
        ):
            if not least <= value <= most:
                raise Unreachable(
                    f"the PLL's {what} of {value:g} MHz is outside {least:g} to {most:g} MHz"
                )


@dataclass(frozen=True)
class Limits:
    """Ranges of a PLL in MHz."""

    input: tuple[float, float]
    compare: tuple[float, float]
    vco: tuple[float, float]
    output: tuple[float, float]


FAMILIES: dict[str, Limits] = {
    "ecp5": Limits((8, 400), (3.125, 400), (400, 800), (3.125, 400)),
    "ice40": Limits((10, 133), (10, 133), (533, 1066), (16, 275)),
    "gowin": Limits((3, 400), (3, 400), (400, 1200), (3.125, 600)),
}
#: output dividers of the Gowin rPLL
_ODIV = (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128)


def settings(
    family: str, input_mhz: float, least: float = 0.0, most: float = math.inf
) -> Iterator[Setting]:
    """Yield every setting of a family's PLL that holds its limits, with an output from `least` to `most`."""
    search = {"ecp5": _ecp5, "ice40": _ice40, "gowin": _gowin}.get(family)
    if search is None:
        raise Unreachable(
            f"no PLL of a {family} device is known here: it runs at its oscillator's clock"
        )
    limits = FAMILIES[family]
    for setting in search(input_mhz, max(least, limits.output[0]), min(most, limits.output[1])):
        try:
            setting.check()
        except Unreachable:
            continue
        yield setting


def solve(family: str, input_mhz: float, wanted_mhz: float, tolerance: float = 0.05) -> Setting:
    """Return the setting whose clock is highest without passing `wanted_mhz`.

    A design that meets its timing at the wanted clock then meets it at this one too. Raises Unreachable where the best is more than
    `tolerance` (a fraction) below.
    """
    best: Setting | None = None
    for setting in settings(
        family, input_mhz, wanted_mhz * (1 - tolerance), wanted_mhz * (1 + 1e-9)
    ):
        if best is None or _rank(setting) > _rank(best):
            best = setting
    if best is None:
        raise Unreachable(
            f"the PLL of this device cannot make {wanted_mhz:g} MHz, or up to {tolerance:.0%} less, of {input_mhz:g} MHz"
        )
    return best


def _rank(setting: Setting) -> tuple[float, float, float]:
    """Nearest clock first; among equal ones the highest comparison frequency (least jitter), then the fastest oscillator."""
    return round(setting.output_mhz, 6), round(setting.compare_mhz, 6), round(setting.vco_mhz, 6)


def _ecp5(fin: float, least: float, most: float) -> Iterator[Setting]:
    # EHXPLLL with feedback from CLKOP: f_out = f_in * CLKFB_DIV / CLKI_DIV, f_vco = f_out * CLKOP_DIV
    for divide in range(1, 129):
        for multiply in range(1, 81):
            out = fin * multiply / divide
            if least <= out <= most:
                for post in range(max(1, int(400 / out)), min(128, int(800 / out)) + 1):
                    yield Setting(
                        "ecp5",
                        fin,
                        out,
                        out * post,
                        fin / divide,
                        (("CLKI_DIV", divide), ("CLKFB_DIV", multiply), ("CLKOP_DIV", post)),
                    )


def _ice40(fin: float, least: float, most: float) -> Iterator[Setting]:
    # SB_PLL40 with simple feedback: f_vco = f_in * (DIVF + 1) / (DIVR + 1), f_out = f_vco / 2 ** DIVQ
    for divr in range(16):
        compare = fin / (divr + 1)
        for divf in range(128):
            vco = compare * (divf + 1)
            for divq in range(1, 7):
                if least <= vco / 2**divq <= most:
                    yield Setting(
                        "ice40",
                        fin,
                        vco / 2**divq,
                        vco,
                        compare,
                        (
                            ("DIVR", divr),
                            ("DIVF", divf),
                            ("DIVQ", divq),
                            ("FILTER_RANGE", _filter(compare)),
                        ),
                    )


def _filter(compare: float) -> int:
    """The loop filter for a comparison frequency (FPGA-TN-02052, table of FILTER_RANGE)."""
    return next((n + 1 for n, top in enumerate((17, 26, 44, 66, 101)) if compare < top), 6)


def _gowin(fin: float, least: float, most: float) -> Iterator[Setting]:
    # rPLL: f_out = f_in * (FBDIV_SEL + 1) / (IDIV_SEL + 1), f_vco = f_out * ODIV_SEL
    for idiv in range(64):
        for fbdiv in range(64):
            out = fin * (fbdiv + 1) / (idiv + 1)
            if least <= out <= most:
                for odiv in _ODIV:
                    yield Setting(
                        "gowin",
                        fin,
                        out,
                        out * odiv,
                        fin / (idiv + 1),
                        (("IDIV_SEL", idiv), ("FBDIV_SEL", fbdiv), ("ODIV_SEL", odiv)),
                    )
