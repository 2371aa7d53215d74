"""What a memory chip takes, counted from the bytes of states and caches."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.models.pim.energy import picojoules
from testbench.command_line import told

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROW, COLUMN, MOVED = 0.11 * 8192, 478.72, 3.59 * 256


@pytest.mark.parametrize(
    ("kernel", "sizes", "accesses"),
    [
        ("retnet.py", {"k": 128, "v": 64}, 2),
        ("deltanet.py", {"k": 128, "v": 64}, 3),  # it reads the state, then changes it
    ],
)
def test_states(kernel, sizes, accesses):
    """Each column of 32 numbers is read and written; rows have 32 of them."""
    design = ps.compile(EXAMPLES / kernel, target="u55c", heads=32, dims=sizes)
    programs = design.run("random:seed=1", tokens=2, backend="model").workload.programs
    columns = 2 * 32 * 128 * 64 // 32
    rounds = accesses - 1  # a row opens for each
    moved = sum(
        command.name in ("REG_WRITE", "RESULT_READ", "READ", "WRITE")
        for made in programs
        for command in made.schedule.commands
    )
    stored = columns // 2 // 32 * ROW  # of the last state, which is read at the end
    expected = accesses * columns * COLUMN + rounds * columns / 32 * ROW + stored + moved * MOVED
    assert sum(map(picojoules, programs)) == pytest.approx(expected, rel=1e-9)


def test_a_report_has_it():
    own = f"model {EXAMPLES / 'retnet.py'} --heads 32 --dim k=128 --dim v=64 --target u55c --tokens 12"
    assert "9.49 µJ a token, without refresh and idle power" in told(own)
    assert "µJ" not in told(f"{own} --dram on-chip")
