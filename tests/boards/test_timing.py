"""Timing reports in words, from reports as nextpnr writes them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.boards.timing import Timing, timing


def report(*steps: tuple[str, float, str]) -> dict[str, Any]:
    """A report of two clocks, the slower one with a path of (type, ns, cell reached)."""
    path = [{"type": kind, "delay": delay, "to": {"cell": cell}} for kind, delay, cell in steps]
    paths = [
        {"from": "posedge quick", "to": "posedge quick", "path": []},
        {"from": "posedge slow", "to": "posedge slow", "path": path},
    ]
    return {
        "fmax": {"quick": {"achieved": 200.0}, "slow": {"achieved": 66.9}},
        "critical_paths": paths,
    }


@pytest.mark.parametrize(
    ("steps", "path", "advice"),
    [
        (
            (
                ("clk-to-q", 5.8, "a.ram.0.1"),
                ("routing", 4.0, "b$12_LUT4_Z_1"),
                ("logic", 0.1, "b$12_LUT4_Z_1"),
                ("logic", 0.1, "b"),
                ("routing", 1.0, "c_TRELLIS_FF_Q_3"),
                ("setup", 0.0, "c_TRELLIS_FF_Q_3"),
            ),
            "a.ram.0.1 to c, 2 cells, 11.0 ns (5.8 ns out of a memory or multiplier, 0.2 ns logic, 5.0 ns routing)",
            "a register behind a.ram.0.1",
        ),
        (
            (
                ("clk-to-q", 5.8, "a.ram"),
                ("routing", 5.0, "b"),
                ("logic", 0.2, "b"),
                ("setup", 0.0, "b"),
            ),
            "a.ram to b, 1 cell, 11.0 ns (5.8 ns out of a memory or multiplier, 0.2 ns logic, 5.0 ns routing)",
            "more placements, which bring a.ram and b together",
        ),
        (
            (
                ("clk-to-q", 0.5, "a_SB_DFF_Q"),
                ("routing", 9.0, "b_SB_LUT4_O"),
                ("logic", 0.25, "b_SB_LUT4_O"),
                ("logic", 0.25, "c"),
                ("routing", 1.0, "c"),
            ),
            "a to c, 2 cells, 11.0 ns (0.5 ns out of a register, 0.5 ns logic, 10.0 ns routing)",
            "more placements (most of it is routing), or a register near b",
        ),
        (
            (
                ("clk-to-q", 0.5, "a"),
                ("routing", 2.0, "b"),
                ("logic", 3.0, "b_CCU2C_S0"),
                ("logic", 3.0, "c_CCU2C_COUT"),
                ("setup", 0.5, "d"),
            ),
            "a to d, 2 cells, 9.0 ns (0.5 ns out of a register, 6.0 ns logic, 2.0 ns routing)",
            "a register near b",
        ),
    ],
)
def test_words(steps: Any, path: str, advice: str) -> None:
    assert timing(report(*steps)) == Timing(66.9, path, advice)


def test_reports_without_paths() -> None:
    assert timing({}) == Timing(None)
    assert timing({"fmax": {"clk": {"achieved": 12.5}}}) == Timing(12.5)
    assert timing(
        {
            "fmax": {"clk": {"achieved": 12.5}},
            "critical_paths": [{"from": "posedge other", "to": "posedge other"}],
        }
    ) == Timing(12.5)
