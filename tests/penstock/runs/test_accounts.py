"""Seconds, joules and the verdict of a whole run, put together from plain values."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.api import Table
from penstock.host.peers import Measured
from penstock.models.energy import embodied
from penstock.models.link.kinds import parse_link
from penstock.models.memory import parse_memory
from penstock.models.memory.dram.energy import picojoules
from penstock.models.memory.dram.presets import preset
from penstock.runs.accounts import Moved, TargetFacts, account, decoded

EXAMPLES = Path(__file__).parents[3] / "examples"
MACHINE = TargetFacts(
    250, "placed", parse_link("xdma"), 35, 160, "the vendor's page", 0.5, embodied(800, 16)
)


def test_a_run_with_dram() -> None:
    """Cycles and commands of the model; the parts are those of the models, by hand."""
    design = ps.compile(EXAMPLES / "logistic.py", "small", "random:rows=300,seed=1", dims={"d": 6})
    memory = parse_memory("hbm2,ratio=1/4")
    run = design.run("random:rows=300,seed=1", backend="model", memory=memory)
    assert run.cycles and run.commands["RD"] > 100 and run.commands["ACT"] > 0
    moved = Moved(1 << 20, 400)
    slow = Measured("C", 2, 1.0, 5, 300, 300)
    found = account(run.cycles, MACHINE, moved, memory, run.commands, beside=[slow])
    total = Fraction(1 << 20, 12 * 10**9) + Fraction("2.52e-6") + Fraction(400, 12 * 10**9)
    total += Fraction(run.cycles, 250 * 10**6)
    assert found.seconds.total == total and found.seconds.disk is None
    cost = picojoules(preset("hbm2"))
    assert cost is not None
    written = {"ACT": 1 << 10, "WR": 1 << 15}
    dram = (cost.total(run.commands) + cost.total(written)) * 1e-12
    assert found.energy.dram == pytest.approx(dram)
    activity = 0.5 * 125 * run.cycles / 250e6
    joules = dram + 35 * float(total) + activity + ((1 << 20) + 400) * 10.4e-12
    assert found.energy.joules == pytest.approx(joules)
    said = found.to_json()
    assert said["verdict"].startswith("worth it: yes: ") and said["beside"][0]["seconds"] == 1.0
    assert said["energy"]["kg_co2"] > 0 and said["seconds"]["clock_evidence"] == "placed"
    assert "ACT at 16 nm" in said["energy"]["source"]


def test_a_machine_that_says_little() -> None:
    found = account(1000, TargetFacts(50), Moved(4096, 8), parse_memory("latency=3,bytes=8"), {})
    assert found.to_json() == {
        "seconds": {"engine": 2e-5, "total": 2e-5, "clock_mhz": 50.0, "clock_evidence": "assumed"},
        "energy": {"source": "estimate; the target's watts are not known"},
    }
    for seconds, said in ((1.0, "not said: the target has no link"), (1e-6, "no: the engine")):
        slow = Measured("C", 1, seconds, 5, 300, 300)
        moved, memory = Moved(4096, 8), parse_memory("latency=3,bytes=8")
        judged = account(1000, TargetFacts(50), moved, memory, {}, beside=[slow]).verdict
        assert judged is not None and judged.text.startswith(f"worth it: {said}")


def test_without_striders() -> None:
    rng = np.random.default_rng(1)
    columns = {"x": rng.normal(size=(500, 3)).astype("f4"), "y": rng.normal(size=500)}
    table = Table.from_columns(columns, "t")
    without = decoded(table, 16)
    assert (without.rows, without.bytes) == (500, 8000) and without.rows_per_s > 0
