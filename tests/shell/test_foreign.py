"""Cores of three engines behind cocotbext-axi's memory, which we did not write: see cocotb_foreign.py.

A map is powered up anew for each run, which no simulation does in one process: test_judges.py has it.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.sim.recorder import Recorder
from testbench.cocotb.runner import run_cocotb
from testbench.judges.cores import CORES, core
from testbench.judges.standard import Habit, JudgeMachine

pytest.importorskip("cocotbext.axi")


def replayed(name: str, seeds: range, folder: Path, simulator: str) -> None:
    made = core(name)
    with JudgeMachine(made.verilog, made.ports, made.registers, made.vault) as machine:
        machine.behave(1, Habit(0), calm=made.calm)
        recorder = Recorder(machine)
        made.check(recorder)
    job = {
        "steps": recorder.steps,
        "sizes": {space: -(-size // 4096) * 4096 for space, size in recorder.sizes.items()},
        "seeds": list(seeds),
        "start": made.start,
        "reach": 2.5,
    }
    path = folder / "job"
    path.write_bytes(pickle.dumps(job))
    assert (
        run_cocotb(
            made.verilog,
            Path(__file__).with_name("cocotb_foreign.py"),
            ports=made.ports,
            register_map=made.registers,
            environment={"PENSTOCK_JOB": str(path)},
            simulator=simulator,
        )
        == 1
    )


@pytest.mark.parametrize("name", [name for name in CORES if name != "omap"])
def test_cocotbext_axi(name: str, tmp_path: Path) -> None:
    replayed(name, range(3), tmp_path, "icarus")


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in CORES if name != "omap"])
def test_twenty_runs(name: str, tmp_path: Path) -> None:
    replayed(name, range(10, 30), tmp_path, "verilator")
