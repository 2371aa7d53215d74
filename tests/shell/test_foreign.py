"""Cores of all four engines behind cocotbext-axi's memory, which we did not write: see cocotb_foreign.py.

A map is powered up anew for each run, which is a process of its own. Its HBM, which has a deadline, is never late.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.sim.machine import Transfer
from penstock.sim.recorder import Recorder
from testbench.cocotb.runner import run_cocotb
from testbench.judges.cores import CORES, core
from testbench.judges.standard import Habit, JudgeMachine

pytest.importorskip("cocotbext.axi")


class _Recorder(Recorder):
    """A recorder that a map's board may power up and trace; the recording has neither."""

    def power_up(self) -> None:
        self._machine.power_up()

    def trace(self, port: int) -> list[Transfer]:
        return []


def replayed(name: str, seeds: range, folder: Path, simulator: str) -> str:
    """Return the events that befell runs of a map."""
    made = core(name)
    with JudgeMachine(made.verilog, made.ports, made.registers, made.vault) as machine:
        machine.behave(1, Habit(0), calm=made.calm)
        recorder = _Recorder(machine)
        made.check(recorder)
    job = {
        "steps": recorder.steps,
        "sizes": {space: -(-size // 4096) * 4096 for space, size in recorder.sizes.items()},
        "start": made.start,
        "reach": 2.5,
        "vault": made.vault or {},
        "calm": made.calm,
        "alone": name == "omap",
    }
    path = folder / "job"
    for some in [[seed] for seed in seeds] if job["alone"] else [list(seeds)]:
        path.write_bytes(pickle.dumps({**job, "seeds": some}))
        tests = run_cocotb(
            made.verilog,
            Path(__file__).with_name("cocotb_foreign.py"),
            ports=made.ports,
            register_map=made.registers,
            environment={"PENSTOCK_JOB": str(path)},
            simulator=simulator,
        )
        assert tests == 1
    return path.with_name("job.hits").read_text() if job["alone"] else ""


@pytest.mark.parametrize("name", [name for name in CORES if name != "omap"])
def test_cocotbext_axi(name: str, tmp_path: Path) -> None:
    replayed(name, range(3), tmp_path, "icarus")


@pytest.mark.long
@pytest.mark.parametrize("name", CORES)
def test_twenty_runs(name: str, tmp_path: Path) -> None:
    hits = replayed(name, range(10, 30), tmp_path, "verilator")
    assert name != "omap" or all(event in hits for event in ("error", "soft", "hard")), hits
